//! `A B'` of few long rows, whose elements along k are adjacent: the elements of C are dot products, several of which are summed at once
//! while their rows are read, in chunks of k whose sums are added in order.
#![expect(unsafe_code, reason = "raw operands; vector registers")]

use super::{
    Gemm, GemmElement,
    element::{Element, Scalar},
    lanes::{Body, Lanes, WIDEST},
    tall::{MIN_DEPTH, sum_chunks},
    vector::total,
    widen::widen,
};
use std::mem::MaybeUninit;

/// Rows of A and of B at most.
const MAX: usize = 16;
/// Elements of k whose rows stay in L1: whole registers for all sums.
const PIECE: usize = 512;
/// Registers of sums in one loop: so many that additions do not wait for one another.
const SUMS: usize = 8;
/// Loops at most that the elements of C are shared among.
const MAX_LOOPS: usize = 5 * MAX / 2;

/// Whether this file computes the product.
pub(super) fn applies<T: GemmElement>(g: &Gemm<T>) -> bool {
    (2..=MAX).contains(&g.m)
        && (2..=MAX).contains(&g.n)
        && g.k >= MIN_DEPTH
        && g.a_strides[1] == 1
        && g.b_strides[0] == 1
}

/// # Safety
/// - As [`super::gemm`], [`applies`], and the CPU has the instruction set of `L`.
pub(super) unsafe fn multiply<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>>(g: &Gemm<T>) {
    // SAFETY: the condition above; each chunk writes its own sums.
    unsafe {
        sum_chunks::<T, L>(g, PIECE, &|g, first, count, to| L::enter(Chunk::<T, L> { g, first, count, to }));
    }
}

/// The sums over `count` elements of k from `first` on.
struct Chunk<'a, T: GemmElement, L: Lanes> {
    g: &'a Gemm<T>,
    first: usize,
    count: usize,
    to: *mut L::Acc,
}

/// Rows of the elements of k that are added, `step` accumulators from each other.
#[derive(Clone, Copy)]
struct Rows<A> {
    at: *const A,
    step: isize,
}

impl<A> Rows<A> {
    /// The rows from number `row` on.
    #[inline(always)]
    fn from(self, row: usize) -> Self {
        Rows { at: self.at.wrapping_offset(row as isize * self.step), ..self }
    }
}

/// # Safety
/// - The elements exist, and `m * n` sums are writable.
impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Body for Chunk<'_, T, L> {
    #[inline(always)]
    unsafe fn run(self) {
        const { assert!(PIECE.is_multiple_of(SUMS * L::N)) }
        let mut sums = [L::Acc::ZERO; MAX_LOOPS * SUMS * WIDEST];
        let mut buffers = [const { MaybeUninit::<[L::Acc; MAX * PIECE]>::uninit() }; 2];
        let [a_buffer, b_buffer] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast::<L::Acc>());
        let Gemm { m, n, a_strides, b_strides, .. } = *self.g;
        for first in (self.first..self.first + self.count).step_by(PIECE) {
            let depth = PIECE.min(self.first + self.count - first);
            // SAFETY: a piece of k, for which the buffers have room.
            let (a, b) = unsafe {
                (
                    rows_of::<T>(self.g.a.wrapping_add(first), a_strides[0], [m, depth], a_buffer),
                    rows_of::<T>(self.g.b.wrapping_add(first), b_strides[1], [n, depth], b_buffer),
                )
            };
            let mut at = sums.as_mut_ptr();
            each_block(m, n, |[row, column], block| {
                let (a, b) = (a.from(row), b.from(column));
                // SAFETY: rows of the piece, and the registers of this block.
                unsafe {
                    match block {
                        [4, 2] => add::<L, 4, 2, 1>(a, b, depth, at),
                        [4, _] => add::<L, 4, 1, 2>(a, b, depth, at),
                        [2, 2] => add::<L, 2, 2, 2>(a, b, depth, at),
                        [2, _] => add::<L, 2, 1, 4>(a, b, depth, at),
                        [_, 2] => add::<L, 1, 2, 4>(a, b, depth, at),
                        _ => add::<L, 1, 1, 8>(a, b, depth, at),
                    }
                }
                at = at.wrapping_add(SUMS * L::N);
            });
        }
        // SAFETY: the conditions above.
        unsafe { self.write_totals(sums.as_ptr()) }
    }
}

impl<T: GemmElement, L: Lanes<Acc = <T as Element>::Acc>> Chunk<'_, T, L> {
    /// Adds the registers and their lanes for each element of C.
    ///
    /// # Safety
    /// - The sums of all blocks are readable, and `m * n` of them writable.
    #[inline(always)]
    unsafe fn write_totals(&self, sums: *const L::Acc) {
        let Gemm { m, n, .. } = *self.g;
        let mut at = sums;
        each_block(m, n, |[row, column], [rows, columns]| {
            for i in 0..rows * columns {
                // SAFETY: the registers of this element, and its sum.
                unsafe {
                    let mut sum = L::zero();
                    for register in (i..SUMS).step_by(rows * columns) {
                        let part = L::load(at.add(register * L::N));
                        sum = part.mul_add(L::splat(L::Acc::ONE), sum);
                    }
                    self.to.add((row + i / columns) * n + column + i % columns).write(total(sum));
                }
            }
            at = at.wrapping_add(SUMS * L::N);
        });
    }
}

/// Calls `each(first, sizes)` for blocks of C of up to 4 rows and 2 columns, whose sizes divide [`SUMS`].
#[inline(always)]
fn each_block(m: usize, n: usize, mut each: impl FnMut([usize; 2], [usize; 2])) {
    let mut row = 0;
    while row < m {
        let rows = match m - row {
            4.. => 4,
            2.. => 2,
            _ => 1,
        };
        for column in (0..n).step_by(2) {
            each([row, column], [rows, 2.min(n - column)]);
        }
        row += rows;
    }
}

/// Rows as accumulators: where they are, or converted in the buffer.
///
/// # Safety
/// - `depth` adjacent elements of each row are readable, and the buffer takes [`PIECE`] for each.
#[inline(always)]
unsafe fn rows_of<T: Element>(
    from: *const T,
    step: isize,
    [rows, depth]: [usize; 2],
    buffer: *mut T::Acc,
) -> Rows<T::Acc> {
    if T::IS_ACCUMULATOR {
        return Rows { at: from.cast(), step };
    }
    for row in 0..rows {
        // SAFETY: the condition above.
        unsafe { widen(from.offset(row as isize * step), 1, buffer.add(row * PIECE), depth) };
    }
    Rows { at: buffer, step: PIECE as isize }
}

/// Adds the products of `depth` elements of `R` rows of A and `C` rows of B, in `CHAINS` registers for each pair, cyclically.
///
/// # Safety
/// - The elements are readable, and [`SUMS`] registers of sums are writable.
#[inline(always)]
unsafe fn add<L: Lanes, const R: usize, const C: usize, const CHAINS: usize>(
    a: Rows<L::Acc>,
    b: Rows<L::Acc>,
    depth: usize,
    to: *mut L::Acc,
) {
    const { assert!(R * C * CHAINS == SUMS) }
    // SAFETY: the condition above.
    unsafe {
        let mut sums = [[[L::zero(); C]; R]; CHAINS];
        let register = |chain: usize, r: usize, c: usize| ((chain * R + r) * C + c) * L::N;
        for (chain, sums) in sums.iter_mut().enumerate() {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = L::load(to.add(register(chain, r, c)));
                }
            }
        }
        let whole = depth / (CHAINS * L::N) * (CHAINS * L::N);
        for first in (0..whole).step_by(CHAINS * L::N) {
            for (chain, sums) in sums.iter_mut().enumerate() {
                add_one::<L, R, C>(a, b, first + chain * L::N, L::N, sums);
            }
        }
        for first in (whole..depth).step_by(L::N) {
            add_one::<L, R, C>(a, b, first, L::N.min(depth - first), &mut sums[0]);
        }
        for (chain, sums) in sums.into_iter().enumerate() {
            for (r, sums) in sums.into_iter().enumerate() {
                for (c, sum) in sums.into_iter().enumerate() {
                    sum.store(to.add(register(chain, r, c)));
                }
            }
        }
    }
}

/// Adds the products of `count` elements, at most a register, from number `first` on.
///
/// # Safety
/// - They are readable in each row.
#[inline(always)]
unsafe fn add_one<L: Lanes, const R: usize, const C: usize>(
    a: Rows<L::Acc>,
    b: Rows<L::Acc>,
    first: usize,
    count: usize,
    sums: &mut [[L; C]; R],
) {
    // SAFETY: the condition above.
    unsafe {
        let load = |row: Rows<L::Acc>| {
            let at = row.at.add(first);
            if count == L::N { L::load(at) } else { L::load_first(at, count) }
        };
        let mut columns = [L::zero(); C];
        for (c, column) in columns.iter_mut().enumerate() {
            *column = load(b.from(c));
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let x = load(a.from(r));
            for (sum, column) in sums.iter_mut().zip(columns) {
                *sum = x.mul_add(column, *sum);
            }
        }
    }
}
