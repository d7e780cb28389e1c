//! Packing buffers that a thread keeps between products, and pointers that threads share.
#![expect(unsafe_code, reason = "a pointer is made to cross threads")]

use std::{cell::RefCell, mem::MaybeUninit};

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
    /// Room for `len` units of type `U`, with any content.
    pub fn new<U>(len: usize) -> Self {
        let lines = (len * size_of::<U>()).div_ceil(64);
        let kept = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let mut buffer = kept.unwrap_or_default();
        buffer.clear();
        buffer.reserve(lines);
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
