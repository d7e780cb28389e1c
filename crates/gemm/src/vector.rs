//! A vector times a matrix, `y = alpha * x B + beta * y`: every element of B is read once, so memory bandwidth bounds the speed.
//!
//! If the columns of B are adjacent, rows are added up eight at a time into a run of sums that stays in L1. If its rows are adjacent,
//! eight columns are computed at once, each a dot product. Both read eight sequential streams, which use all hardware prefetchers of a
//! core. The number of columns in a group changes no sum.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes, WIDEST},
    scratch::{Scratch, SendPtr},
};
use flambeau_parallel::parallel_for;
use std::mem::MaybeUninit;

/// Streams read at once.
const STREAMS: usize = 8;
/// Sums held in L1.
const RUN: usize = 1024;
/// Elements of B worth a thread.
const WORTH_A_THREAD: usize = 1 << 15;

/// Whether this file computes the product: one row, and a matrix with one dimension adjacent.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>) -> bool {
    g.m == 1 && (g.b_strides[0] == 1 || g.b_strides[1] == 1)
}

/// # Safety
/// - As [`super::gemm`], and [`applies`].
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    let mut x = Scratch::new::<L::Acc>(g.k);
    let x = SendPtr(x.as_mut_ptr::<L::Acc>());
    for p in 0..g.k {
        // SAFETY: `k` elements of A, and room for them.
        unsafe { x.at().add(p).write(g.a.offset(p as isize * g.a_strides[1]).read().widen()) }
    }
    let dots = g.b_strides[0] == 1 && (g.b_strides[1] != 1 || g.n == 1);
    let worth = WORTH_A_THREAD.div_ceil(g.k.max(1)).next_multiple_of(if dots { STREAMS } else { 4 * WIDEST });
    let (g, grain) = (Operands(*g), if dots { worth } else { worth.max(RUN / 2) });
    parallel_for(0..g.0.n, grain, |part| {
        let g = &g;
        for first in part.clone().step_by(RUN) {
            let (count, x) = ((part.end - first).min(RUN), x.at().cast_const());
            // SAFETY: columns `first..first + count`, which this chunk alone writes.
            unsafe {
                if dots {
                    L::enter(Dots::<T, L> { g: &g.0, x, first, count });
                } else {
                    L::enter(Rows::<T, L> { g: &g.0, x, first, count });
                }
            }
        }
    });
}

/// A product that threads share.
pub(super) struct Operands<T: GemmElement>(pub(super) Gemm<T>);

// SAFETY: its pointers are those of the product, whose elements each chunk uses as `gemm` allows.
unsafe impl<T: GemmElement> Sync for Operands<T> {}

/// Some columns of the product; `count <= RUN`.
struct Rows<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    x: *const L::Acc,
    first: usize,
    count: usize,
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Rows<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let mut run = MaybeUninit::<[L::Acc; RUN]>::uninit();
        let sums: *mut L::Acc = run.as_mut_ptr().cast();
        let whole = self.g.k / STREAMS * STREAMS;
        // SAFETY: the rows of B, and the columns of this part, of which a run has room for whole registers.
        unsafe {
            (0..self.count.next_multiple_of(WIDEST)).for_each(|j| sums.add(j).write(L::Acc::ZERO));
            for p in (0..whole).step_by(STREAMS) {
                self.add::<STREAMS>(p, sums);
            }
            for p in whole..self.g.k {
                self.add::<1>(p, sums);
            }
            write_scaled(self.g, self.first, std::slice::from_raw_parts(sums, self.count));
        }
    }
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Rows<'_, T, L> {
    /// Adds rows `p..p + R`, each scaled by its element of x, in that order.
    ///
    /// # Safety
    /// - The rows are inside B; `sums` has room for whole registers of its columns.
    #[inline(always)]
    unsafe fn add<const R: usize>(&self, p: usize, sums: *mut L::Acc) {
        let whole = self.count / L::N * L::N;
        // SAFETY: this function's conditions.
        unsafe {
            let row = |r: usize| self.g.b.offset((p + r) as isize * self.g.b_strides[0]).add(self.first);
            let rows: [*const T; R] = std::array::from_fn(row);
            let scales: [L; R] = std::array::from_fn(
                #[inline(always)]
                |r| L::splat(*self.x.add(p + r)),
            );
            for j in (0..whole).step_by(L::N) {
                let mut sum = L::load(sums.add(j));
                for r in 0..R {
                    sum = load_upcast::<T, L>(rows[r].add(j)).mul_add(scales[r], sum);
                }
                sum.store(sums.add(j));
            }
            if whole < self.count {
                let mut sum = L::load(sums.add(whole));
                for r in 0..R {
                    sum = load_upcast_first::<T, L>(rows[r].add(whole), self.count - whole)
                        .mul_add(scales[r], sum);
                }
                sum.store(sums.add(whole));
            }
        }
    }
}

/// Some columns of the product; `count <= RUN`.
struct Dots<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    x: *const L::Acc,
    first: usize,
    count: usize,
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Dots<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let whole = self.count / STREAMS * STREAMS;
        // SAFETY: the columns of this part.
        unsafe {
            for first in (self.first..self.first + whole).step_by(STREAMS) {
                write_scaled(self.g, first, &self.columns::<STREAMS>(first));
            }
            for column in self.first + whole..self.first + self.count {
                write_scaled(self.g, column, &self.columns::<1>(column));
            }
        }
    }
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Dots<'_, T, L> {
    #[inline(always)]
    unsafe fn columns<const R: usize>(&self, first: usize) -> [L::Acc; R] {
        let whole = self.g.k / L::N * L::N;
        // SAFETY: columns inside B, and `k` elements of each and of x.
        unsafe {
            let column = |r: usize| self.g.b.offset((first + r) as isize * self.g.b_strides[1]);
            let columns: [*const T; R] = std::array::from_fn(column);
            let mut sums = [L::zero(); R];
            for p in (0..whole).step_by(L::N) {
                let x = L::load(self.x.add(p));
                for r in 0..R {
                    sums[r] = load_upcast::<T, L>(columns[r].add(p)).mul_add(x, sums[r]);
                }
            }
            let remainder = self.g.k - whole;
            if remainder > 0 {
                let x = L::load_first(self.x.add(whole), remainder);
                for r in 0..R {
                    sums[r] = load_upcast_first::<T, L>(columns[r].add(whole), remainder).mul_add(x, sums[r]);
                }
            }
            totals(sums)
        }
    }
}

/// The [`total`] of each register. Registers are interleaved in pairs, and the lower halves added to the upper ones: one register then
/// holds partial sums of both, and at the end those of all.
#[inline(always)]
unsafe fn totals<L: Lanes, const R: usize>(mut sums: [L; R]) -> [L::Acc; R] {
    const { assert!(matches!(R, 1 | 2 | 4 | 8)) }
    let mut totals = [L::Acc::ZERO; R];
    // SAFETY: `N` is at most `WIDEST`.
    unsafe {
        if R > L::N {
            for r in 0..R {
                totals[r] = total(sums[r]);
            }
            return totals;
        }
        if R > 4 {
            add_halves::<L, R>(&mut sums, 4);
        }
        if R > 2 {
            add_halves::<L, R>(&mut sums, 2);
        }
        if R > 1 {
            add_halves::<L, R>(&mut sums, 1);
        }
        let lanes = halved(sums[0], R);
        totals.copy_from_slice(&lanes[..R]);
    }
    totals
}

/// Adds the halves of registers `r` and `r + half`, for each `r` below `half`.
#[inline(always)]
unsafe fn add_halves<L: Lanes, const R: usize>(sums: &mut [L; R], half: usize) {
    for r in 0..half {
        // SAFETY: the CPU has the instruction set.
        unsafe {
            let [lower, upper] = sums[r].interleaved(sums[r + half]);
            sums[r] = lower.mul_add(L::splat(L::Acc::ONE), upper);
        }
    }
}

/// The sum of all lanes, halves added to halves.
#[inline(always)]
pub(super) unsafe fn total<L: Lanes>(sum: L) -> L::Acc {
    // SAFETY: this function's condition, that of the instruction set.
    unsafe { halved(sum, 1)[0] }
}

/// Lanes after halves have been added to halves, until so many are left.
#[inline(always)]
unsafe fn halved<L: Lanes>(sum: L, left: usize) -> [L::Acc; WIDEST] {
    let mut lanes = [L::Acc::ZERO; WIDEST];
    // SAFETY: `N` is at most `WIDEST`.
    unsafe { sum.store(lanes.as_mut_ptr()) };
    let mut len = L::N;
    while len > left {
        len /= 2;
        for i in 0..len {
            lanes[i] = lanes[i].mul_add(L::Acc::ONE, lanes[i + len]);
        }
    }
    lanes
}

/// `N` elements as accumulators.
#[inline(always)]
unsafe fn load_upcast<T: Element, L: Lanes<Acc = T::Acc>>(from: *const T) -> L {
    // SAFETY: `N` elements are readable, and are accumulators where `IS_ACCUMULATOR` says so.
    unsafe {
        if T::IS_ACCUMULATOR {
            return L::load(from.cast());
        }
        let mut lanes = [T::Acc::ZERO; WIDEST];
        for (i, lane) in lanes.iter_mut().enumerate().take(L::N) {
            *lane = from.add(i).read().widen();
        }
        L::load(lanes.as_ptr())
    }
}

/// `count < N` elements as accumulators, then zeros.
#[inline(always)]
unsafe fn load_upcast_first<T: Element, L: Lanes<Acc = T::Acc>>(from: *const T, count: usize) -> L {
    // SAFETY: `count` elements are readable, and are accumulators where `IS_ACCUMULATOR` says so.
    unsafe {
        if T::IS_ACCUMULATOR {
            return L::load_first(from.cast(), count);
        }
        let mut lanes = [T::Acc::ZERO; WIDEST];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            *lane = from.add(i).read().widen();
        }
        L::load(lanes.as_ptr())
    }
}

/// `y = round(alpha * sums + beta * y)` from column `first` on.
#[inline(always)]
pub(super) unsafe fn write_scaled<T: GemmElement>(g: &Gemm<T>, first: usize, sums: &[T::Scalar]) {
    let stride = g.c_strides[1];
    let to = g.c.wrapping_offset(first as isize * stride);
    // SAFETY: elements of C. The common stride is a constant, so that the compiler vectorises the loop.
    unsafe {
        match (stride, g.beta == T::Scalar::ZERO) {
            (1, true) => write_each::<T, false>(g, to, 1, sums),
            (1, false) => write_each::<T, true>(g, to, 1, sums),
            (_, true) => write_each::<T, false>(g, to, stride, sums),
            (_, false) => write_each::<T, true>(g, to, stride, sums),
        }
    }
}

/// # Safety
/// - There is an element of C for each sum; they are read only if `OLD`.
#[inline(always)]
unsafe fn write_each<T: GemmElement, const OLD: bool>(
    g: &Gemm<T>,
    to: *mut T,
    stride: isize,
    sums: &[T::Scalar],
) {
    let (alpha, beta) = (g.alpha, if OLD { g.beta } else { T::Scalar::ZERO });
    for (j, sum) in sums.iter().enumerate() {
        // SAFETY: the condition above.
        unsafe {
            let to = to.offset(j as isize * stride);
            let old = if OLD { to.read().widen() } else { T::Scalar::ZERO };
            to.write(T::narrow(old.mul_add(beta, sum.mul(alpha))));
        }
    }
}
