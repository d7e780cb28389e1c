//! Products of few columns and short sums of elements that are converted before they are summed, such as those of half precision: rows
//! are converted many at a time and multiplied from there, where packing would fill most of a panel with zeros.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes},
    round::Round,
    scratch::SendPtr,
    vector::Operands,
    widen::widen_rows,
};
use flambeau_parallel::parallel_for;
use std::mem::MaybeUninit;

/// Columns of C, and elements of k, at most.
const MAX: usize = 16;
/// Rows that are converted at once.
const RUN: usize = 64;
/// Rows that share the loads of B.
const ROWS: usize = 4;
/// Multiply-adds worth a thread.
const WORTH_A_THREAD: usize = 1 << 17;

/// Whether this file computes the product.
pub(super) fn applies<T: GemmElement, L: Lanes>(g: &Gemm<T>) -> bool {
    !T::IS_ACCUMULATOR && g.m > 1 && g.n <= MAX && (1..=MAX).contains(&g.k) && 2 * L::N >= MAX
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let mut b = [L::Acc::ZERO; MAX * MAX];
    for p in 0..g.k {
        for j in 0..g.n {
            let from = g.b.wrapping_offset(p as isize * g.b_strides[0] + j as isize * g.b_strides[1]);
            // SAFETY: an element of B.
            b[p * MAX + j] = unsafe { from.read().widen() };
        }
    }
    let (operands, b) = (Operands(*g), SendPtr(b.as_mut_ptr()));
    let grain = (WORTH_A_THREAD / (g.k * g.n).max(1)).next_multiple_of(RUN);
    parallel_for(0..g.m, grain, |part| {
        let Operands(g) = &operands;
        let (first, end, b) = (part.start, part.end, b.at().cast_const());
        // SAFETY: rows of this part, which this chunk alone writes.
        unsafe {
            if g.n <= L::N {
                L::enter(Rows::<T, L, 1> { g, b, first, end });
            } else {
                L::enter(Rows::<T, L, 2> { g, b, first, end });
            }
        }
    });
}

/// Rows `first..end` of the product, whose columns fill `V` registers.
struct Rows<'a, T: GemmElement, L: Lanes, const V: usize> {
    g: &'a Gemm<T>,
    /// Rows of B, `MAX` elements apart, with zeros after the last column.
    b: *const L::Acc,
    first: usize,
    end: usize,
}

/// # Safety
/// - The rows exist, and nobody else uses their elements of C.
impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>, const V: usize> Body for Rows<'_, T, L, V> {
    #[inline(always)]
    unsafe fn run(self) {
        let Gemm { n, k, alpha, beta, .. } = *self.g;
        let mut a = MaybeUninit::<[L::Acc; RUN * MAX]>::uninit();
        // Sums are written as whole registers.
        let mut sums = MaybeUninit::<[L::Acc; RUN * MAX + 2 * MAX]>::uninit();
        let (a, sums) = (a.as_mut_ptr().cast::<L::Acc>(), sums.as_mut_ptr().cast::<L::Acc>());
        for first in (self.first..self.end).step_by(RUN) {
            let rows = RUN.min(self.end - first);
            let from = self.g.a.wrapping_offset(first as isize * self.g.a_strides[0]);
            let c = self.g.c.wrapping_offset(first as isize * self.g.c_strides[0]);
            let whole = rows / ROWS * ROWS;
            // SAFETY: `rows` rows, for which the buffers have room.
            unsafe {
                widen_rows(from, self.g.a_strides, [rows, k], a);
                for row in (0..whole).step_by(ROWS) {
                    self.add::<ROWS>(a.add(row * k), sums.add(row * n));
                }
                for row in whole..rows {
                    self.add::<1>(a.add(row * k), sums.add(row * n));
                }
                let [row, column] = self.g.c_strides;
                let part =
                    Round::<T> { c, strides: [row, column], sums, pitch: n, rows, columns: n, alpha, beta };
                if column == 1 && row == n as isize {
                    Round { rows: 1, columns: rows * n, ..part }.run();
                } else {
                    part.run();
                }
            }
        }
    }
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>, const V: usize> Rows<'_, T, L, V> {
    /// Computes `R` rows. The registers of one row reach into the next, which is written after it.
    ///
    /// # Safety
    /// - `R * k` elements are readable at `a`; `R * n` sums and a register after them are writable.
    #[inline(always)]
    unsafe fn add<const R: usize>(&self, a: *const L::Acc, to: *mut L::Acc) {
        let Gemm { n, k, .. } = *self.g;
        // SAFETY: the conditions above.
        unsafe {
            let mut sums = [[L::zero(); V]; R];
            for p in 0..k {
                let mut b = [L::zero(); V];
                for (v, b) in b.iter_mut().enumerate() {
                    *b = L::load(self.b.add(p * MAX + v * L::N));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let a = L::splat(a.add(r * k + p).read());
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = b.mul_add(a, *sum);
                    }
                }
            }
            for (r, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    sum.store(to.add(r * n + v * L::N));
                }
            }
        }
    }
}
