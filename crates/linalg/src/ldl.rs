//! Factorizations of symmetric and Hermitian matrices that need not be definite, by diagonal blocks of one or two rows: Bunch and
//! Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems" (1977). Formats are those of LAPACK's
//! `sytrf` and `hetrf` for the lower triangle.

use crate::field::{Field, Real};
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::add_multiple;

/// Overwrites the lower triangle with L and D, `a = L D L^T`, or `L D L'` where `hermitian`. A pivot of one row is positive: the number,
/// from 1, of the row that it was exchanged with. Both pivots of a block of two rows are negative, and say which row the second one was
/// exchanged with.
///
/// Returns LAPACK's `info`: 0, or the number, from 1, of the first block that is 0.
pub fn ldl<T: Field>(a: MatrixMut<'_, T>, pivots: &mut [i32], hermitian: bool) -> i32 {
    let n = a.rows();
    assert!(a.columns() == n && pivots.len() == n, "{} pivots of a square matrix", pivots.len());
    let mut factorization = Factorization { a, hermitian };
    let (mut k, mut info) = (0, 0);
    while k < n {
        let (with, width) = match factorization.pivot(k) {
            Some(found) => found,
            None => {
                info = if info == 0 { k as i32 + 1 } else { info };
                factorization.make_diagonal_real(k);
                pivots[k] = k as i32 + 1;
                k += 1;
                continue;
            }
        };
        let last = k + width - 1;
        factorization.exchange(k, last, with);
        (k..=last).for_each(|i| factorization.make_diagonal_real(i));
        if width == 1 {
            factorization.eliminate_one(k);
            pivots[k] = with as i32 + 1;
        } else {
            factorization.eliminate_two(k);
            pivots[k..=last].fill(-(with as i32) - 1);
        }
        k += width;
    }
    info
}

/// What is not yet eliminated begins at a row and column `k`.
struct Factorization<'a, T> {
    a: MatrixMut<'a, T>,
    hermitian: bool,
}

impl<T: Field> Factorization<'_, T> {
    /// The mirror image of an element.
    fn mirrored(&self, x: T) -> T {
        if self.hermitian { x.conj() } else { x }
    }

    fn size(&self, row: usize, column: usize) -> T::Real {
        let x = self.a.at(row, column);
        if self.hermitian && row == column { x.re().magnitude() } else { x.pivot_size() }
    }

    /// The diagonal of a Hermitian matrix is real.
    fn make_diagonal_real(&mut self, k: usize) {
        if self.hermitian {
            self.a.set(k, k, T::from_real(self.a.at(k, k).re()));
        }
    }

    /// The row of the largest element in a column below the diagonal, and its size.
    fn largest_below(&self, k: usize) -> (usize, T::Real) {
        let mut best = (k, T::Real::ZERO);
        for row in k + 1..self.a.rows() {
            let size = self.size(row, k);
            if size > best.1 || best.0 == k {
                best = (row, size);
            }
        }
        best
    }

    /// With which row the last row of the next block is exchanged, and how many rows the block has. Nothing if the column is 0, or its
    /// diagonal is NaN.
    fn pivot(&self, k: usize) -> Option<(usize, usize)> {
        let own = self.size(k, k);
        let (row, below) = self.largest_below(k);
        let is_zero = own == T::Real::ZERO && below == T::Real::ZERO;
        if is_zero || own.is_nan() {
            return None;
        }
        if own >= T::Real::PIVOT_RATIO * below {
            return Some((k, 1));
        }
        // The largest element of that row off the diagonal.
        let before = (k..row).map(|column| self.size(row, column));
        let beside = before.fold(self.largest_below(row).1, |a, b| if b > a { b } else { a });
        if own >= T::Real::PIVOT_RATIO * below * (below / beside) {
            return Some((k, 1));
        }
        let is_large = self.size(row, row) >= T::Real::PIVOT_RATIO * beside;
        Some((row, if is_large { 1 } else { 2 }))
    }

    /// Exchanges rows and columns `at`, the last of the block that begins at `k`, and `with`, in the lower triangle.
    fn exchange(&mut self, k: usize, at: usize, with: usize) {
        if at == with {
            return;
        }
        let (x, y) = self.a.two_columns(at, with);
        x[with + 1..].swap_with_slice(&mut y[with + 1..]);
        for j in at + 1..with {
            let (x, y) = (self.a.at(j, at), self.a.at(with, j));
            self.a.set(j, at, self.mirrored(y));
            self.a.set(with, j, self.mirrored(x));
        }
        self.a.set(with, at, self.mirrored(self.a.at(with, at)));
        let (x, y) = (self.a.at(at, at), self.a.at(with, with));
        self.a.set(at, at, y);
        self.a.set(with, with, x);
        for column in k..at {
            self.a.swap_in_column(column, at, with);
        }
    }

    /// Subtracts the column below a pivot times its mirror image, and divides it by the pivot.
    fn eliminate_one(&mut self, k: usize) {
        let pivot = self.a.at(k, k);
        for j in k + 1..self.a.rows() {
            let factor = self.mirrored(self.a.at(j, k)) / pivot;
            let (from, to) = self.a.two_columns(k, j);
            add_multiple(&mut to[j..], -factor, &from[j..]);
            self.make_diagonal_real(j);
        }
        self.a.column(k)[k + 1..].iter_mut().for_each(|x| *x = *x / pivot);
    }

    /// The same for a block of two rows, whose inverse is scaled by the element off the diagonal so that nothing overflows.
    fn eliminate_two(&mut self, k: usize) {
        let off = self.a.at(k + 1, k);
        let size = T::from_real(off.magnitude());
        // Of a Hermitian matrix the diagonal remains real.
        let (scale, direction) = if self.hermitian { (size, off / size) } else { (off, T::ONE) };
        let (first, second) = (self.a.at(k + 1, k + 1) / scale, self.a.at(k, k) / scale);
        let factor = T::ONE / (first * second - T::ONE) / scale;
        for j in k + 2..self.a.rows() {
            let (x, y) = (self.a.at(j, k), self.a.at(j, k + 1));
            let of_first = factor * (first * x - direction * y);
            let of_second = factor * (second * y - self.mirrored(direction) * x);
            for (column, factor) in [(k, of_first), (k + 1, of_second)] {
                let by = -self.mirrored(factor);
                let (from, to) = self.a.two_columns(column, j);
                add_multiple(&mut to[j..], by, &from[j..]);
            }
            self.a.set(j, k, of_first);
            self.a.set(j, k + 1, of_second);
            self.make_diagonal_real(j);
        }
    }
}

/// Whether pivots could come from [`ldl`]: rows that exist, and pairs of negative ones.
pub fn ldl_pivots_are_valid(pivots: &[i32]) -> bool {
    let mut k = 0;
    while k < pivots.len() {
        let (row, width) = pivot_at(pivots, k);
        if pivots[k] == 0
            || row >= pivots.len()
            || k + width > pivots.len()
            || pivots[k + width - 1] != pivots[k]
        {
            return false;
        }
        k += width;
    }
    true
}

/// The row that the block at `k` was exchanged with, and how many rows it has.
fn pivot_at(pivots: &[i32], k: usize) -> (usize, usize) {
    let row = (pivots[k].unsigned_abs() as usize).wrapping_sub(1);
    (row, if pivots[k] < 0 { 2 } else { 1 })
}

/// Overwrites `b` with the solution of a system, from the factors and valid pivots of [`ldl`].
pub fn ldl_solve<T: Field>(factors: Matrix<'_, T>, pivots: &[i32], hermitian: bool, mut b: MatrixMut<'_, T>) {
    let n = factors.rows();
    assert!(b.rows() == n && pivots.len() == n && ldl_pivots_are_valid(pivots), "a system of other sizes");
    for column in 0..b.columns() {
        let x = b.column(column);
        solve_lower_and_diagonal(&factors, pivots, hermitian, x);
        solve_upper(&factors, pivots, hermitian, x);
    }
}

fn solve_lower_and_diagonal<T: Field>(factors: &Matrix<'_, T>, pivots: &[i32], hermitian: bool, x: &mut [T]) {
    let mut k = 0;
    while k < x.len() {
        let (row, width) = pivot_at(pivots, k);
        let next = k + width;
        x.swap(next - 1, row);
        for column in k..next {
            let known = x[column];
            (next..x.len()).for_each(|i| x[i] = x[i] - factors.at(i, column) * known);
        }
        if width == 1 {
            x[k] = x[k] / factors.at(k, k);
        } else {
            let below = factors.at(k + 1, k);
            let above = if hermitian { below.conj() } else { below };
            // The first equation divided by the element above the diagonal, the second one by that below.
            let (first, second) = (factors.at(k, k) / above, factors.at(k + 1, k + 1) / below);
            let (p, q) = (x[k] / above, x[k + 1] / below);
            let determinant = first * second - T::ONE;
            x[k] = (second * p - q) / determinant;
            x[k + 1] = (first * q - p) / determinant;
        }
        k = next;
    }
}

/// The rows of L^T or L' in reverse order, and the exchanges of rows.
fn solve_upper<T: Field>(factors: &Matrix<'_, T>, pivots: &[i32], hermitian: bool, x: &mut [T]) {
    let mut next = x.len();
    while next > 0 {
        let (row, width) = pivot_at(pivots, next - 1);
        let k = next - width;
        for column in k..next {
            let factor = |i: usize| {
                let factor = factors.at(i, column);
                if hermitian { factor.conj() } else { factor }
            };
            let sum: T = (next..x.len()).map(|i| factor(i) * x[i]).sum();
            x[column] = x[column] - sum;
        }
        x.swap(next - 1, row);
        next = k;
    }
}
