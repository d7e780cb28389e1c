//! LU factorization with partial pivoting, by recursion on columns: Toledo, "Locality of reference in LU decomposition with partial
//! pivoting" (1997).

use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::triangular::{LEAF as SMALL, Leaf, Triangular, solve_leaves};
use flambeau_vectorized::with_processor_vectors;

/// Columns up to which a panel is eliminated column by column.
const LEAF: usize = 8;

/// Overwrites `a` with its factors: L below the diagonal, whose own diagonal is 1, and U. Row `i` was exchanged with row `pivots[i]`,
/// counted from 1, in order of `i`. With `pivoting` false no rows are exchanged.
///
/// Returns LAPACK's `info`: 0, or the number, from 1, of the first pivot that is 0. The factorization is completed in that case too.
pub fn lu<T: Field>(a: MatrixMut<'_, T>, pivots: &mut [i32], pivoting: bool) -> i32 {
    let count = a.rows().min(a.columns());
    assert!(pivots.len() == count, "{} pivots for {count}", pivots.len());
    let zero = factor(a, pivots, pivoting);
    zero.map_or(0, |column| column as i32 + 1)
}

/// The index of the first zero pivot.
fn factor<T: Field>(mut a: MatrixMut<'_, T>, pivots: &mut [i32], pivoting: bool) -> Option<usize> {
    let (rows, columns) = (a.rows(), a.columns());
    let count = rows.min(columns);
    if columns > count {
        // A wide matrix: its square part, then the other columns.
        let (mut left, mut right) = a.split_columns(count);
        let zero = factor(left.reborrow(), pivots, pivoting);
        exchange_rows(&mut right, pivots);
        unit_lower(left.view()).solve(right);
        return zero;
    }
    if columns <= LEAF {
        return eliminate(&mut a, pivots, pivoting);
    }
    let half = (columns / 2).next_multiple_of(LEAF).min(columns - 1);
    let (mut left, mut right) = a.split_columns(half);
    let (first_pivots, last_pivots) = pivots.split_at_mut(half);
    let zero = factor(left.reborrow(), first_pivots, pivoting);
    exchange_rows(&mut right, first_pivots);
    let (mut above, mut below) = right.split_rows(half);
    unit_lower(left.view().block(0, 0, [half, half])).solve(above.reborrow());
    let l = left.view().block(half, 0, [rows - half, half]);
    below.multiply_add(-T::Real::ONE, &l, &above.view(), T::Real::ONE);
    let later = factor(below, last_pivots, pivoting);
    exchange_rows(&mut left.block(half, 0, [rows - half, half]), last_pivots);
    last_pivots.iter_mut().for_each(|pivot| *pivot += half as i32);
    zero.or(later.map(|column| column + half))
}

fn unit_lower<T: Field>(matrix: Matrix<'_, T>) -> Triangular<'_, T> {
    Triangular { matrix, upper: false, unit: true }
}

/// Exchanges rows as a factorization did.
pub fn exchange_rows<T: Field>(a: &mut MatrixMut<'_, T>, pivots: &[i32]) {
    exchange_in_order(a, pivots.iter().enumerate());
}

/// Exchanges each row with that of its pivot, column by column, so that the elements of one remain in the cache.
fn exchange_in_order<'p, T: Field>(
    a: &mut MatrixMut<'_, T>,
    order: impl Iterator<Item = (usize, &'p i32)> + Clone,
) {
    let is_column_major = a.is_column_major();
    for column in 0..a.columns() {
        if is_column_major {
            let elements = a.column(column);
            order.clone().for_each(|(row, pivot)| elements.swap(row, *pivot as usize - 1));
        } else {
            order.clone().for_each(|(row, pivot)| a.swap_in_column(column, row, *pivot as usize - 1));
        }
    }
}

/// The same, in reverse order: the inverse permutation.
pub(crate) fn restore_rows<T: Field>(a: &mut MatrixMut<'_, T>, pivots: &[i32]) {
    exchange_in_order(a, pivots.iter().enumerate().rev());
}

/// Gaussian elimination of a panel whose columns are adjacent in memory.
fn eliminate<T: Field>(a: &mut MatrixMut<'_, T>, pivots: &mut [i32], pivoting: bool) -> Option<usize> {
    with_processor_vectors(
        #[inline(always)]
        || eliminate_columns(a, pivots, pivoting),
    )
}

#[inline(always)]
fn eliminate_columns<T: Field>(
    a: &mut MatrixMut<'_, T>,
    pivots: &mut [i32],
    pivoting: bool,
) -> Option<usize> {
    let mut zero = None;
    for (j, pivot) in pivots.iter_mut().enumerate() {
        let at = if pivoting { j + largest(&a.column(j)[j..]) } else { j };
        *pivot = at as i32 + 1;
        if at != j {
            a.swap_rows(j, at);
        }
        let divisor = a.at(j, j);
        if divisor == T::ZERO {
            zero = zero.or(Some(j));
            // Without pivoting the elements below need not be 0: LAPACK's unpivoted form divides by 0 here as well.
            if pivoting {
                continue;
            }
        }
        a.column(j)[j + 1..].iter_mut().for_each(|x| *x = *x / divisor);
        for k in j + 1..a.columns() {
            let (factors, column) = a.two_columns(j, k);
            let by = column[j];
            column[j + 1..].iter_mut().zip(&factors[j + 1..]).for_each(|(x, factor)| *x = *x - *factor * by);
        }
    }
    zero
}

/// The index of the first element of the largest size; NaN counts as the largest.
#[inline(always)]
fn largest<T: Field>(values: &[T]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        let (size, known) = (value.pivot_size(), values[best].pivot_size());
        if size > known || (size.is_nan() && !known.is_nan()) {
            best = index;
        }
    }
    best
}

/// Which system [`solve_factored`] solves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// `A x = b`
    Plain,
    /// `A' x = b`, with the conjugate transpose.
    Adjoint,
    /// `A^T x = b`
    Transposed,
}

/// Overwrites `b` with the solution of a square system, from the factors and pivots of [`lu`].
pub fn solve_factored<T: Field>(
    factors: Matrix<'_, T>,
    pivots: &[i32],
    system: System,
    mut b: MatrixMut<'_, T>,
) {
    let (lower, upper) = (unit_lower(factors), Triangular { matrix: factors, upper: true, unit: false });
    if b.rows() <= SMALL {
        assert!(factors.rows() == b.rows() && factors.columns() == b.rows(), "a system of other sizes");
        return match system {
            System::Plain => solve_leaves(b, &[lower, upper].map(|t| Leaf::new(&t)), [pivots, &[]]),
            System::Adjoint => {
                solve_leaves(b, &[upper, lower].map(|t| Leaf::new(&t.adjoint())), [&[], pivots]);
            }
            System::Transposed => {
                solve_leaves(b, &[upper, lower].map(|t| Leaf::new(&t.transposed())), [&[], pivots]);
            }
        };
    }
    if system == System::Plain {
        exchange_rows(&mut b, pivots);
        lower.solve(b.reborrow());
        return upper.solve(b);
    }
    let solve = |t: Triangular<'_, T>, b: MatrixMut<'_, T>| match system {
        System::Adjoint => t.adjoint().solve(b),
        _ => t.transposed().solve(b),
    };
    solve(upper, b.reborrow());
    solve(lower, b.reborrow());
    restore_rows(&mut b, pivots);
}
