//! A result of a few elements, each the sum of many products, such as `A' B` of two tall matrices: all of C is summed in registers while
//! rows of both operands are read, in chunks of k whose sums are added in order.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes},
    scratch::{Scratch, SendPtr},
    vector::{Operands, write_scaled},
    widen::widen_rows,
};
use flambeau_parallel::parallel_for;
use std::mem::MaybeUninit;

/// Rows and columns of C at most.
const MAX: usize = 16;
/// Elements of k at least: shorter sums take the loops of other products, so that a row does not depend on the number of rows.
pub(super) const MIN_DEPTH: usize = 2048;
/// Columns of A or rows of B that may be gathered element by element.
const MAX_GATHERED: usize = 4;
/// Multiply-adds of a chunk.
const WORK: usize = 1 << 17;
/// Elements of k whose rows of A and B stay in L1.
const PIECE: usize = 64;
/// Registers of sums in one loop: so many that additions do not wait for one another.
const SUMS: usize = 8;
/// Loops at most that the rows of C are shared among.
const MAX_LOOPS: usize = 4;

/// Whether this file computes the product.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>) -> bool {
    let (a_adjacent, b_adjacent) = (g.a_strides[0] == 1, g.b_strides[1] == 1);
    g.m <= MAX
        && g.n <= MAX
        && g.m * g.n > 1
        && g.k >= MIN_DEPTH
        && (a_adjacent || b_adjacent)
        && (a_adjacent || g.m <= MAX_GATHERED)
        && (b_adjacent || g.n <= MAX_GATHERED)
        && !(g.m == 1 && g.b_strides[0] == 1)
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    // SAFETY: the condition above; each chunk writes its own sums.
    unsafe {
        sum_chunks::<T, L>(g, PIECE, &|g, first, count, to| L::enter(Chunk::<T, L> { g, first, count, to }));
    }
}

/// Writes the sums of a chunk: see [`sum_chunks`].
type WriteSums<'c, T, A> = dyn Fn(&Gemm<T>, usize, usize, *mut A) + Sync + 'c;

/// Writes C from the sums over chunks of k, of whole pieces, that `chunk(g, first, count, to)` writes for `count` elements of k from
/// `first` on. They are added in order.
///
/// # Safety
/// - As [`super::gemm`], and `chunk` writes `m * n` sums, row after row.
pub(super) unsafe fn sum_chunks<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(
    g: &Gemm<T>,
    piece: usize,
    chunk: &WriteSums<'_, T, L::Acc>,
) {
    let size = g.m * g.n;
    let depth = (WORK / size).clamp(MIN_DEPTH, 1 << 14).next_multiple_of(piece);
    let chunks = g.k.div_ceil(depth);
    let mut sums = Scratch::new::<L::Acc>(chunks * size);
    let to = SendPtr(sums.as_mut_ptr::<L::Acc>());
    let operands = Operands(*g);
    parallel_for(0..chunks, 1, |part| {
        let Operands(g) = &operands;
        for number in part {
            let first = number * depth;
            chunk(g, first, depth.min(g.k - first), to.at().wrapping_add(number * size));
        }
    });
    // SAFETY: all chunks have been written; the rows of C.
    unsafe {
        let totals = std::slice::from_raw_parts_mut(to.at(), size);
        for chunk in 1..chunks {
            for (i, total) in totals.iter_mut().enumerate() {
                *total = to.at().add(chunk * size + i).read().mul_add(L::Acc::ONE, *total);
            }
        }
        for (i, row) in totals.chunks_exact(g.n).enumerate() {
            let c = g.c.offset(i as isize * g.c_strides[0]);
            write_scaled(&Gemm { c, ..*g }, 0, row);
        }
    }
}

/// The sums over `count` elements of k from `first` on.
struct Chunk<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    first: usize,
    count: usize,
    to: *mut L::Acc,
}

/// # Safety
/// - The elements exist, and `m * n` sums are writable.
impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Chunk<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        let Gemm { m, n, a_strides, b_strides, .. } = *self.g;
        let vectors = n.div_ceil(L::N);
        let mut sums = [L::Acc::ZERO; MAX_LOOPS * SUMS * MAX];
        let mut a_buffer = MaybeUninit::<[L::Acc; PIECE * MAX]>::uninit();
        // The last row is read as whole registers.
        let mut b_buffer = [L::Acc::ZERO; PIECE * MAX + MAX];
        for first in (self.first..self.first + self.count).step_by(PIECE) {
            let depth = PIECE.min(self.first + self.count - first);
            let a = self.g.a.wrapping_offset(first as isize * a_strides[1]);
            let b = self.g.b.wrapping_offset(first as isize * b_strides[0]);
            let (mut a_rows, mut a_step) = (a.cast::<L::Acc>(), a_strides[1]);
            let (mut b_rows, mut b_step) = (b.cast::<L::Acc>(), b_strides[0]);
            // SAFETY: a piece of k, for which the buffers have room; elements are accumulators where `IS_ACCUMULATOR` says so.
            unsafe {
                if !T::IS_ACCUMULATOR || (a_strides[0] != 1 && m > 1) {
                    let to = a_buffer.as_mut_ptr().cast::<L::Acc>();
                    widen_rows(a, [a_strides[1], a_strides[0]], [depth, m], to);
                    (a_rows, a_step) = (to, m as isize);
                }
                if !T::IS_ACCUMULATOR || b_strides[1] != 1 || n % L::N != 0 {
                    let to = b_buffer.as_mut_ptr();
                    widen_rows(b, b_strides, [depth, n], to);
                    (b_rows, b_step) = (to, n as isize);
                }
                for vector in 0..vectors {
                    let b = (b_rows.wrapping_add(vector * L::N), b_step);
                    let mut at = sums.as_mut_ptr().wrapping_add(vector * MAX_LOOPS * SUMS * L::N);
                    let mut row = 0;
                    while row < m {
                        let a = (a_rows.wrapping_add(row), a_step);
                        let rows = rows_of_loop(m - row);
                        match rows {
                            8 => add::<L, 8, 1>(a, b, depth, at),
                            4 => add::<L, 4, 2>(a, b, depth, at),
                            2 => add::<L, 2, 4>(a, b, depth, at),
                            _ => add::<L, 1, 8>(a, b, depth, at),
                        }
                        (row, at) = (row + rows, at.wrapping_add(SUMS * L::N));
                    }
                }
            }
        }
        // SAFETY: the conditions above.
        unsafe { self.write_totals(&sums) }
    }
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Chunk<'_, T, L> {
    /// Adds the registers of each row, and writes the elements of C.
    ///
    /// # Safety
    /// - `m * n` sums are writable.
    #[inline(always)]
    unsafe fn write_totals(&self, sums: &[L::Acc]) {
        let Gemm { m, n, .. } = *self.g;
        for column in 0..n {
            let (vector, lane) = (column / L::N, column % L::N);
            let (mut row, mut at) = (0, vector * MAX_LOOPS * SUMS * L::N + lane);
            while row < m {
                let rows = rows_of_loop(m - row);
                for r in 0..rows {
                    let mut total = L::Acc::ZERO;
                    for chain in 0..SUMS / rows {
                        total = sums[at + (chain * rows + r) * L::N].mul_add(L::Acc::ONE, total);
                    }
                    // SAFETY: the condition above.
                    unsafe { self.to.add((row + r) * n + column).write(total) }
                }
                (row, at) = (row + rows, at + SUMS * L::N);
            }
        }
    }
}

/// How many of the rows that are left the next loop takes: a divisor of [`SUMS`].
#[inline(always)]
fn rows_of_loop(left: usize) -> usize {
    match left {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// Adds the products of `depth` elements of `R` rows of C, in `CHAINS` registers for each row, cyclically. Of A and B the first elements and
/// the strides along k are given.
///
/// # Safety
/// - `R` elements of A and a register of B are readable for each element of k, and [`SUMS`] registers of sums are writable.
#[inline(always)]
unsafe fn add<L: Lanes, const R: usize, const CHAINS: usize>(
    (a, a_step): (*const L::Acc, isize),
    (b, b_step): (*const L::Acc, isize),
    depth: usize,
    to: *mut L::Acc,
) {
    const { assert!(R * CHAINS == SUMS) }
    // SAFETY: the condition above.
    unsafe {
        let mut sums = [[L::zero(); R]; CHAINS];
        for (chain, sums) in sums.iter_mut().enumerate() {
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = L::load(to.add((chain * R + r) * L::N));
            }
        }
        let whole = depth / CHAINS * CHAINS;
        for first in (0..whole).step_by(CHAINS) {
            for (chain, sums) in sums.iter_mut().enumerate() {
                let p = (first + chain) as isize;
                add_one::<L, R>(a.offset(p * a_step), b.offset(p * b_step), sums);
            }
        }
        for p in whole as isize..depth as isize {
            add_one::<L, R>(a.offset(p * a_step), b.offset(p * b_step), &mut sums[0]);
        }
        for (chain, sums) in sums.into_iter().enumerate() {
            for (r, sum) in sums.into_iter().enumerate() {
                sum.store(to.add((chain * R + r) * L::N));
            }
        }
    }
}

/// Adds the products of one element of k.
///
/// # Safety
/// - `R` elements of A and a register of B are readable.
#[inline(always)]
unsafe fn add_one<L: Lanes, const R: usize>(a: *const L::Acc, b: *const L::Acc, sums: &mut [L; R]) {
    // SAFETY: the condition above.
    unsafe {
        let b = L::load(b);
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = b.mul_add(L::splat(a.add(r).read()), *sum);
        }
    }
}
