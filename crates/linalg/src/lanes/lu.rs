//! LU factorization with partial pivoting in lanes. Each lane has its own pivots: rows are exchanged by masks.

use super::number::Lane;
use super::packed::{Packed, store_integers};
use super::{Algorithm, InLanes};
use flambeau_vectorized::{Float as _, Mask as _, Number as _, Ordered as _, Vector as _};

/// What `crate::lu` computes, for each square matrix of a batch.
pub(super) struct Lu<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) n: usize,
    pub(super) pivots: &'a mut [i32],
    pub(super) info: &'a mut [i32],
    pub(super) pivoting: bool,
}

impl<T: InLanes> Algorithm<T> for Lu<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let Lu { matrices, n, pivots, info, pivoting } = self;
        let mut packed = Packed::<L>::new(n * n);
        let groups = matrices.chunks_mut(L::LANES * n * n).zip(pivots.chunks_mut(L::LANES * n));
        for ((matrices, pivots), info) in groups.zip(info.chunks_mut(L::LANES)) {
            packed.load(matrices);
            let a = packed.numbers();
            let mut zero_pivot = L::Part::zero();
            for j in 0..n {
                let row = if pivoting { exchange(a, n, j) } else { L::Part::constant(j as f64) };
                store_integers(row + L::Part::one(), pivots, j, n);
                let is_zero = a[j * n + j].is_zero();
                let is_first = is_zero & zero_pivot.eq(L::Part::zero());
                zero_pivot = L::Part::select(is_first, L::Part::constant((j + 1) as f64), zero_pivot);
                // With pivoting all elements below a zero are 0. Without it LAPACK divides by 0 as well.
                let pivot = a[j * n + j];
                let divisor = if pivoting { L::select(is_zero, L::one(), pivot) } else { pivot };
                eliminate(a, n, j, divisor);
            }
            packed.store(matrices);
            store_integers(zero_pivot, info, 0, 1);
        }
    }
}

/// Exchanges row `j` with the one from there on that has the largest element in column `j`. Returns the number of that row.
#[inline(always)]
fn exchange<L: Lane>(a: &mut [L], n: usize, j: usize) -> L::Part {
    let column = &a[j * n..(j + 1) * n];
    let (mut best, mut row) = (column[j].pivot_size(), L::Part::constant(j as f64));
    for (i, x) in column.iter().enumerate().skip(j + 1) {
        let size = x.pivot_size();
        // NaN counts as the largest.
        let is_larger = size.gt(best) | (size.is_nan() & !best.is_nan());
        best = L::Part::select(is_larger, size, best);
        row = L::Part::select(is_larger, L::Part::constant(i as f64), row);
    }
    for i in j + 1..n {
        let chosen = row.eq(L::Part::constant(i as f64));
        // With many rows most of them are the pivot of no lane.
        if !chosen.any() {
            continue;
        }
        for column in a.chunks_exact_mut(n) {
            let (x, y) = (column[j], column[i]);
            column[j] = L::select(chosen, y, x);
            column[i] = L::select(chosen, x, y);
        }
    }
    row
}

/// Divides column `j` below the diagonal, and subtracts its multiples from the columns after it.
#[inline(always)]
fn eliminate<L: Lane>(a: &mut [L], n: usize, j: usize, divisor: L) {
    let (known, rest) = a.split_at_mut((j + 1) * n);
    let factors = &mut known[j * n + j + 1..];
    for x in factors.iter_mut() {
        *x = x.over(divisor);
    }
    for column in rest.chunks_exact_mut(n) {
        let by = column[j];
        for (x, factor) in column[j + 1..].iter_mut().zip(&*factors) {
            *x = x.minus_product(*factor, by);
        }
    }
}
