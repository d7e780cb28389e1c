//! A vector of a few elements times a matrix whose rows are not adjacent: many columns of a few elements each. Columns are summed one by
//! one in a loop that the compiler vectorises, with a column in each lane.
#![expect(unsafe_code, reason = "raw operands")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes},
    vector::{Operands, write_scaled},
    widen::widen,
};
use flambeau_parallel::parallel_for;
use std::{marker::PhantomData, mem::MaybeUninit};

/// Elements of a column at most.
const MAX: usize = 8;
/// Columns whose sums stay in L1, with their elements.
const RUN: usize = 256;
/// Elements of B worth a thread.
const WORTH_A_THREAD: usize = 1 << 16;

/// Whether this file computes the product.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>) -> bool {
    g.m == 1 && g.n > 1 && (1..=MAX).contains(&g.k) && g.b_strides[1] != 1
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let mut x = [L::Acc::ZERO; MAX];
    for (p, x) in x.iter_mut().enumerate().take(g.k) {
        // SAFETY: an element of A.
        *x = unsafe { g.a.offset(p as isize * g.a_strides[1]).read().widen() };
    }
    let operands = Operands(*g);
    let grain = (WORTH_A_THREAD / g.k).next_multiple_of(RUN);
    parallel_for(0..g.n, grain, |part| {
        let Operands(g) = &operands;
        // SAFETY: columns of this part, which this chunk alone writes.
        unsafe { L::enter(Columns::<T, L> { g, x, first: part.start, end: part.end, lanes: PhantomData }) }
    });
}

/// Columns `first..end` of the product.
struct Columns<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    x: [L::Acc; MAX],
    first: usize,
    end: usize,
    lanes: PhantomData<L>,
}

/// # Safety
/// - The columns exist, and nobody else uses their elements of C.
impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Columns<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let (g, k) = (self.g, self.g.k);
        let is_dense = g.b_strides == [1, k as isize] && matches!(k, 2 | 3 | 4 | 8);
        let mut buffer = MaybeUninit::<[L::Acc; RUN * MAX]>::uninit();
        let buffer = buffer.as_mut_ptr().cast::<L::Acc>();
        for first in (self.first..self.end).step_by(RUN) {
            let count = RUN.min(self.end - first);
            let from = g.b.wrapping_offset(first as isize * g.b_strides[1]);
            let mut sums = [L::Acc::ZERO; RUN];
            // SAFETY: `count` columns, and sums for each; the buffer has room for their elements, which are accumulators where
            // `IS_ACCUMULATOR` says so.
            unsafe {
                if is_dense {
                    let mut dense = from.cast::<L::Acc>();
                    if !T::IS_ACCUMULATOR {
                        widen(from, 1, buffer, count * k);
                        dense = buffer;
                    }
                    match k {
                        2 => add_dense::<L::Acc, 2>(dense, &self.x, &mut sums[..count]),
                        3 => add_dense::<L::Acc, 3>(dense, &self.x, &mut sums[..count]),
                        4 => add_dense::<L::Acc, 4>(dense, &self.x, &mut sums[..count]),
                        _ => add_dense::<L::Acc, 8>(dense, &self.x, &mut sums[..count]),
                    }
                } else {
                    for p in 0..k {
                        widen(
                            from.wrapping_offset(p as isize * g.b_strides[0]),
                            g.b_strides[1],
                            buffer,
                            count,
                        );
                        add_row(buffer, self.x[p], &mut sums[..count]);
                    }
                }
                write_scaled(g, first, &sums[..count]);
            }
        }
    }
}

/// Adds the products of columns of `K` adjacent elements, in their order. The compiler loads them with shuffles, since `K` is constant.
///
/// # Safety
/// - There is a column for each sum.
#[inline(always)]
unsafe fn add_dense<A: Scalar, const K: usize>(from: *const A, x: &[A; MAX], sums: &mut [A]) {
    for (j, sum) in sums.iter_mut().enumerate() {
        for (p, x) in x.iter().enumerate().take(K) {
            // SAFETY: the condition above.
            *sum = unsafe { from.add(j * K + p).read() }.mul_add(*x, *sum);
        }
    }
}

/// Adds the products of one element of each column.
///
/// # Safety
/// - There is an element for each sum.
#[inline(always)]
unsafe fn add_row<A: Scalar>(from: *const A, x: A, sums: &mut [A]) {
    for (j, sum) in sums.iter_mut().enumerate() {
        // SAFETY: the condition above.
        *sum = unsafe { from.add(j).read() }.mul_add(x, *sum);
    }
}
