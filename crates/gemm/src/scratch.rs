//! Packing buffers that a thread keeps between products, lists of a kernel, and pointers that threads share.
//!
//! Kernels ask for such memory deep inside of loops and on several threads. One that gets none unwinds with [`OutOfMemory`], which
//! ends the parallel-for it is in and comes out on the thread that called; whoever holds the guards makes an error of it. What was
//! there is dropped on the way, and nothing is paid while there is memory.
#![expect(unsafe_code, reason = "a pointer is made to cross threads")]

use std::{cell::RefCell, mem::MaybeUninit, panic};

/// Cache lines, so that every buffer begins on one.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[expect(dead_code, reason = "reached through pointers")] [MaybeUninit<u8>; 64]);

/// What a thread keeps at most, in bytes a buffer: larger ones go back to the allocator.
const KEPT: usize = 64 << 20;

thread_local! {
    static FREE: RefCell<Vec<Vec<Line>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer taken from this thread's store, put back on drop. A product may hold several.
pub struct Scratch(Vec<Line>);

impl Scratch {
    /// Room for `len` units of type `U`, with any content. Unwinds with [`OutOfMemory`] if there is none.
    pub fn new<U>(len: usize) -> Self {
        let lines = (len * size_of::<U>()).div_ceil(64);
        let kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let mut buffer = kept.unwrap_or_default();
        buffer.clear();
        if buffer.try_reserve(lines).is_err() {
            drop(buffer);
            return Self(after_giving_up(lines));
        }
        Self(buffer)
    }

    /// Its beginning, aligned to 64 bytes.
    pub fn as_mut_ptr<U>(&mut self) -> *mut U {
        self.0.as_mut_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.0);
        if buffer.capacity() * 64 <= KEPT {
            // At thread exit the store may be gone, and the buffer is freed.
            let _ = FREE.try_with(|free| free.borrow_mut().push(buffer)).is_ok();
        }
    }
}

/// A buffer for which there may be room without those that this thread keeps.
#[cold]
fn after_giving_up(lines: usize) -> Vec<Line> {
    let kept = FREE.try_with(RefCell::take);
    drop(kept);
    with_capacity(lines)
}

/// What a kernel unwinds with that gets no memory.
#[derive(Clone, Copy, Debug)]
pub struct OutOfMemory {
    /// How much it asked for.
    pub bytes: usize,
}

#[cold]
fn out_of_memory<T>(count: usize) -> ! {
    // No panic: nobody is told but those that catch it.
    panic::resume_unwind(Box::new(OutOfMemory { bytes: count.saturating_mul(size_of::<T>()) }))
}

/// An empty list with room for `count` values. Unwinds with [`OutOfMemory`] if there is none, as do those below.
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

/// `count` times `value`.
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

/// Puts one more value behind the others.
#[inline]
pub fn push<T>(list: &mut Vec<T>, value: T) {
    if list.len() == list.capacity() {
        let more = list.len().max(4); // Twice as many, so that the values are moved a few times only.
        reserve(list, more);
    }
    list.push(value);
}

/// A pointer that chunks on several threads use, each its own elements.
pub struct Shared<T>(pub *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Shared<T> {}

impl<T> Shared<T> {
    /// The address.
    pub fn at(self) -> *mut T {
        self.0
    }
}

// SAFETY: it only carries an address; each use argues for itself.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}
