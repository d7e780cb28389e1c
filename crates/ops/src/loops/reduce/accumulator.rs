//! A value of any element type, erased: the accumulator of a row in loops that are compiled once for all types.
#![expect(unsafe_code, reason = "reads and writes elements as bytes")]

use bytemuck::NoUninit;
use flambeau_core::ScalarType;
use std::mem::MaybeUninit;

/// Memory for an element of the largest type, aligned like elements.
pub(super) type Words = [u64; 2];

const _: () = assert!(ScalarType::Complex128.size() <= size_of::<Words>());

/// An element of up to sixteen bytes, in the first bytes. Only those are written, so that small elements do not pay for large ones.
#[derive(Clone, Copy)]
pub(super) struct Accumulator(MaybeUninit<Words>);

impl Accumulator {
    /// Holding `value`.
    #[inline]
    pub(super) fn of<T: NoUninit>(value: T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<Words>()) };
        let mut words = MaybeUninit::<Words>::uninit();
        // SAFETY: an element is no larger.
        unsafe { words.as_mut_ptr().cast::<T>().write_unaligned(value) };
        Accumulator(words)
    }

    /// The address of the element.
    #[inline]
    pub(super) fn as_ptr(&self) -> *const u8 {
        self.0.as_ptr().cast()
    }

    /// The address at which an element is written.
    #[inline]
    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    /// Words filled with this element of `size` bytes.
    ///
    /// # Safety
    /// - It is of that size, which is a power of two.
    pub(super) unsafe fn repeated(self, size: usize) -> Words {
        let mut words = [0; 2];
        let to = words.as_mut_ptr().cast::<u8>();
        for at in (0..size_of::<Words>()).step_by(size) {
            // SAFETY: an element, copied inside the words.
            unsafe { to.add(at).copy_from_nonoverlapping(self.as_ptr(), size) };
        }
        words
    }
}
