//! One element of a type that is not named, by value: what walks of reductions keep of a line.
#![expect(unsafe_code, reason = "reads and writes elements as bytes")]

use bytemuck::NoUninit;
use flambeau_core::ScalarType;
use std::mem::MaybeUninit;

/// As many bytes as the largest element has, and as aligned as elements are.
pub(super) type Words = [u64; 2];

const _: () = assert!(ScalarType::Complex128.size() <= size_of::<Words>());

/// An element of up to sixteen bytes, in the first of these. Only those of the element are written: what is larger than it costs nothing.
#[derive(Clone, Copy)]
pub(super) struct Accumulator(MaybeUninit<Words>);

impl Accumulator {
    /// Of an element.
    #[inline]
    pub(super) fn of<T: NoUninit>(value: T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<Words>()) };
        let mut words = MaybeUninit::<Words>::uninit();
        // SAFETY: an element is no larger.
        unsafe { words.as_mut_ptr().cast::<T>().write_unaligned(value) };
        Accumulator(words)
    }

    /// Where the element is.
    #[inline]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// Where an element is written.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Words full of this element, of `size` bytes.
    ///
    /// # Safety
    /// - It is of that size, which is a power of two.
    pub(super) unsafe fn repeated(self, size: usize) -> Words {
        let mut words = [0; 2];
        let to = words.as_mut_ptr().cast::<u8>();
        for at in (0..size_of::<Words>()).step_by(size) {
            // SAFETY: an element, and its place in the words.
            unsafe { to.add(at).copy_from_nonoverlapping(self.as_ptr(), size) };
        }
        words
    }
}
