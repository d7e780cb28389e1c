//! Cholesky factorization, by recursion on halves.

use crate::field::{Field, Real as _};
use crate::matrix::{Matrix, MatrixMut};
use crate::triangular::Triangular;
use flambeau_vectorized::with_processor_vectors;

/// Columns up to which a block is factored column by column.
const LEAF: usize = 16;
/// Columns up to which an update of a triangle computes the square around it.
const UPDATE_LEAF: usize = 64;

/// Overwrites the lower triangle of a Hermitian matrix with its factor L, `a = L L'`, and the upper one with zeros. Only the lower
/// triangle is read.
///
/// Returns LAPACK's `info`: 0, or the order of the first leading minor that is not positive. The columns before it are L's.
pub fn cholesky<T: Field>(mut a: MatrixMut<'_, T>) -> i32 {
    let n = a.rows();
    assert!(n == a.columns(), "a square matrix");
    let failed = factor(a.reborrow());
    for j in 1..n {
        a.column(j)[..j].fill(T::ZERO);
    }
    failed.map_or(0, |column| column as i32 + 1)
}

fn factor<T: Field>(mut a: MatrixMut<'_, T>) -> Option<usize> {
    let n = a.rows();
    if n <= LEAF {
        return factor_leaf(&mut a);
    }
    let half = (n / 2).next_multiple_of(LEAF).min(n - 1);
    let (mut left, right) = a.split_columns(half);
    let failed = factor(left.reborrow().block(0, 0, [half, half]));
    if failed.is_some() {
        return failed;
    }
    let (above, mut below) = left.split_rows(half);
    Triangular { matrix: above.view(), upper: false, unit: false }.adjoint().solve_right(below.reborrow());
    let mut corner = right.block(half, 0, [n - half, n - half]);
    subtract_square(corner.reborrow(), below.view());
    factor(corner).map(|column| column + half)
}

/// `c -= a a'` in the lower triangle; what is above is overwritten with anything.
fn subtract_square<T: Field>(mut c: MatrixMut<'_, T>, a: Matrix<'_, T>) {
    let (n, k) = (a.rows(), a.columns());
    if n <= UPDATE_LEAF {
        return c.multiply_add(-T::Real::ONE, &a, &a.adjoint(), T::Real::ONE);
    }
    let half = n / 2;
    let (first, last) = (a.block(0, 0, [half, k]), a.block(half, 0, [n - half, k]));
    let (left, right) = c.split_columns(half);
    let (above, mut below) = left.split_rows(half);
    subtract_square(above, first);
    below.multiply_add(-T::Real::ONE, &last, &first.adjoint(), T::Real::ONE);
    subtract_square(right.block(half, 0, [n - half, n - half]), last);
}

fn factor_leaf<T: Field>(a: &mut MatrixMut<'_, T>) -> Option<usize> {
    with_processor_vectors(
        #[inline(always)]
        || factor_columns(a),
    )
}

#[inline(always)]
fn factor_columns<T: Field>(a: &mut MatrixMut<'_, T>) -> Option<usize> {
    let n = a.rows();
    for j in 0..n {
        let pivot = a.at(j, j).re();
        let is_positive = pivot > T::Real::ZERO;
        // Not `pivot <= 0`, so that NaN fails too.
        if !is_positive {
            return Some(j);
        }
        let root = pivot.sqrt();
        a.set(j, j, T::from_real(root));
        a.column(j)[j + 1..].iter_mut().for_each(|x| *x = x.divided(root));
        for k in j + 1..n {
            let (factors, column) = a.two_columns(j, k);
            let by = factors[k].conj();
            column[k..].iter_mut().zip(&factors[k..]).for_each(|(x, factor)| *x = *x - *factor * by);
        }
    }
    None
}
