//! Matrices of a batch, packed so that the same element of all of them is one vector.
#![expect(unsafe_code, reason = "vectors of lanes are written and read as numbers")]

use super::number::Lane;
use crate::field::Field;
use flambeau_core::{Element as _, Scalar};
use flambeau_gemm::{Isa, Scratch, StridedRows, transpose_pack};
use flambeau_vectorized::Float;
use std::marker::PhantomData;

/// The largest number of lanes.
pub(super) const MOST_LANES: usize = 16;

/// As many matrices as there are lanes, or fewer; lanes without a matrix hold zeros.
///
/// - (written) The memory holds `size` numbers of type `L`, and all of them have been written.
pub(super) struct Packed<L> {
    memory: Scratch,
    size: usize,
    numbers: PhantomData<L>,
}

impl<L: Lane> Packed<L> {
    /// Zeros, for matrices of `size` elements. Unwinds with `OutOfMemory` if they cannot be allocated.
    #[inline(always)]
    pub(super) fn new(size: usize) -> Self {
        const {
            assert!(L::LANES <= MOST_LANES && align_of::<L>() <= 64);
            // A number is the elements of its lanes, first all real parts and then all imaginary ones.
            assert!(size_of::<L>() == L::LANES * size_of::<L::Element>());
        }
        let mut memory = Scratch::new::<L>(size);
        let first = memory.as_mut_ptr::<L>();
        for at in 0..size {
            // SAFETY: the buffer is for `size` numbers.
            unsafe { first.add(at).write(L::zero()) }
        }
        Self { memory, size, numbers: PhantomData }
    }

    /// Copies matrices one after another to the lanes.
    #[inline(always)]
    pub(super) fn load(&mut self, matrices: &[L::Element]) {
        let (length, count) = self.checked(matrices.len());
        let rows = StridedRows {
            from: matrices.as_ptr().cast::<<L::Element as Field>::Real>(),
            rows: count,
            row_stride: length as isize,
            len: length,
            stride: 1,
        };
        // SAFETY: `count` matrices of `length` parts; (written): the memory holds `length` vectors of `LANES`, which are at least `count`.
        unsafe { transpose_pack(Isa::detected(), &rows, self.memory.as_mut_ptr(), L::LANES) }
    }

    /// Copies the matrices of the first lanes back.
    #[inline(always)]
    pub(super) fn store(&mut self, matrices: &mut [L::Element]) {
        let (length, count) = self.checked(matrices.len());
        let rows = StridedRows {
            from: self.memory.as_mut_ptr::<<L::Element as Field>::Real>().cast_const(),
            rows: length,
            row_stride: L::LANES as isize,
            len: count,
            stride: 1,
        };
        // SAFETY: as in `load`, in the other direction.
        unsafe { transpose_pack(Isa::detected(), &rows, matrices.as_mut_ptr().cast(), length) }
    }

    /// The parts of a matrix, and how many matrices there are.
    #[inline(always)]
    fn checked(&self, elements: usize) -> (usize, usize) {
        let count = elements / self.size.max(1);
        assert!(count * self.size == elements && count <= L::LANES, "whole matrices, of at most all lanes");
        (self.size * L::PARTS, count)
    }

    /// The numbers, in the order of a matrix's elements.
    #[inline(always)]
    pub(super) fn numbers(&mut self) -> &mut [L] {
        // SAFETY: (written).
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr(), self.size) }
    }
}

/// Writes whole numbers of the first lanes: element `at` of each run of `every` integers.
#[inline(always)]
pub(super) fn store_integers<V: Float<Element: Into<f64>>>(
    values: V,
    to: &mut [i32],
    at: usize,
    every: usize,
) {
    let mut lanes = [V::Element::from_scalar(Scalar::Int(0)); MOST_LANES];
    values.spill(&mut lanes);
    for (to, lane) in to.chunks_exact_mut(every).zip(lanes) {
        let value: f64 = lane.into();
        to[at] = value as i32;
    }
}
