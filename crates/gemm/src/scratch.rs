//! Packing buffers that a thread retains between products, vectors that a kernel allocates, and pointers that threads share.
//!
//! Kernels allocate such memory deep inside of loops and on several threads. If an allocation fails, the kernel unwinds with
//! [`OutOfMemory`]: that ends the parallel-for it is in and resumes on the calling thread, where the owner of the guards catches it and
//! returns an error. Unwinding drops what was allocated before. While allocations succeed, this costs nothing.
#![expect(unsafe_code, reason = "a pointer is made to cross threads")]

use std::{cell::RefCell, mem::MaybeUninit, panic};

/// Cache lines, so that every buffer begins on one.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct CacheLine(#[expect(dead_code, reason = "reached through pointers")] [MaybeUninit<u8>; 64]);

/// The largest buffer that a thread retains, in bytes: larger ones go back to the allocator.
const MAX_RETAINED_BYTES: usize = 64 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<CacheLine>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer from this thread's free list, returned to it on drop. A product may hold several.
pub struct Scratch(Vec<CacheLine>);

impl Scratch {
    /// A buffer for `len` units of type `U`, with any content. Unwinds with [`OutOfMemory`] if it cannot be allocated.
    pub fn new<U>(len: usize) -> Self {
        let cache_lines = (len * size_of::<U>()).div_ceil(64);
        let retained = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let mut buffer = retained.unwrap_or_default();
        buffer.clear();
        if buffer.try_reserve(cache_lines).is_err() {
            drop(buffer);
            return Self(with_capacity_after_freeing(cache_lines));
        }
        Self(buffer)
    }

    /// Its first byte, aligned to 64 bytes.
    pub fn as_mut_ptr<U>(&mut self) -> *mut U {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.capacity() * 64 <= MAX_RETAINED_BYTES {
            // At thread exit the free list may have been dropped: then the buffer is freed.
            let _ = FREE.try_with(|free| free.borrow_mut().push(buffer)).is_ok();
        }
    }
}

/// Frees the buffers that this thread retains, and allocates one again.
#[cold]
fn with_capacity_after_freeing(cache_lines: usize) -> Vec<CacheLine> {
    let retained = FREE.try_with(RefCell::take);
    drop(retained);
    with_capacity(cache_lines)
}

/// The payload with which a kernel unwinds when an allocation fails.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory {
    /// The size of the allocation.
    pub bytes: usize,
}

#[cold]
fn out_of_memory<T>(count: usize) -> ! {
    // Not `panic!`, so that the panic hook prints nothing.
    panic::resume_unwind(Box::new(OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }))
}

/// An empty vector with capacity for `count` values. Unwinds with [`OutOfMemory`] if allocation fails, as do the functions below.
pub fn with_capacity<T>(count: usize) -> Vec<T> {
    let mut list = Vec::new();
    reserve(&mut list, count);
    list
}

fn reserve<T>(list: &mut Vec<T>, more: usize) {
    if list.try_reserve_exact(more).is_err() {
        out_of_memory::<T>(list.len().saturating_add(more));
    }
}

/// A vector of `count` times `value`.
pub fn filled<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut list = with_capacity(count);
    list.resize(count, value);
    list
}

/// A copy of `values`.
pub fn to_vec<T: Clone>(values: &[T]) -> Vec<T> {
    let mut list = with_capacity(values.len());
    list.extend_from_slice(values);
    list
}

/// All values of an iterator.
pub fn collect<T>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let values = values.into_iter();
    let mut list = with_capacity(values.size_hint().0);
    values.for_each(|value| push(&mut list, value));
    list
}

/// Appends a value.
#[inline]
pub fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        let more = list.len().max(4); // Doubles the capacity, so that values are moved only a few times.
        reserve(list, more);
    }
    list.push(value);
}

/// A pointer that chunks on several threads use, each for its own elements.
pub struct SendPtr<T>(pub *mut T);

impl<T> Clone for SendPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SendPtr<T> {}

impl<T> SendPtr<T> {
    /// The address.
    pub fn at(self) -> *mut T {
        self.0
    }
}

// SAFETY: it only carries an address; each use of it states why it is sound.
unsafe impl<T> Send for SendPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for SendPtr<T> {}
