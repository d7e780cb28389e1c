//! Singular values and vectors: a reduction to a real bidiagonal matrix by reflectors, then [`bidiagonal`](crate::bidiagonal).

use crate::bidiagonal::iterate;
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::{apply_adjoint, householder_product};
use crate::reflector::{add_multiple, reflector};
use crate::rotations::{Rotations, order_of};
use crate::scaling::{Failure, scale};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// The singular value decomposition `a = U S V'` of a matrix with at least as many rows as columns; that of another one is its
/// adjoint's. `a` is overwritten with anything, `values` with the singular values in descending order.
///
/// `vectors` are U, with as many columns as `a` or up to as many as it has rows, and V. Each is overwritten.
///
/// # Errors
/// [`Failure`]; the results then hold anything.
pub fn svd<T: Field<Real = f64>>(
    mut a: MatrixMut<'_, T>,
    values: &mut [f64],
    vectors: Option<(MatrixMut<'_, T>, MatrixMut<'_, T>)>,
) -> Result<(), Failure> {
    let (rows, columns) = (a.rows(), a.columns());
    assert!(rows >= columns && values.len() == columns, "{} values of {rows} x {columns}", values.len());
    let factor = scale(&mut a)?;
    let count = columns.saturating_sub(1);
    let mut off = scratch::filled(0.0, count);
    let (mut left_tau, mut right_tau) = (scratch::filled(T::ZERO, columns), scratch::filled(T::ZERO, count));
    let mut right = scratch::filled(T::ZERO, count * count);
    bidiagonalize(&mut a, [values, &mut off], [&mut left_tau, &mut right_tau], &mut right);
    let (u, v) = match vectors {
        Some((mut u, mut v)) => {
            left_vectors(&mut u, &a.view(), &left_tau);
            right_vectors(&mut v, &right, &right_tau);
            (Some(u), Some(v))
        }
        None => (None, None),
    };
    let (mut u, mut v) = (Rotations::new(u), Rotations::new(v));
    iterate(values, &mut off, &mut u, &mut v)?;
    let negative = scratch::collect(values.iter().map(|value| value.is_sign_negative()));
    values.iter_mut().for_each(|value| *value = value.abs());
    let order = order_of(values, true);
    u.finish(&order, &scratch::filled(false, columns));
    v.finish(&order, &scratch::collect(order.iter().map(|from| negative[*from])));
    let sorted = scratch::collect(order.iter().map(|from| values[*from]));
    values.copy_from_slice(&sorted);
    factor.undo(values);
    Ok(())
}

/// Reduces `a` to an upper bidiagonal matrix, given by its diagonal and what is right of it. The vectors of the reflectors from the
/// left remain below the diagonal of `a`. Those from the right become the columns of `right`, a square matrix for all columns of `a`
/// but the first.
fn bidiagonalize<T: Field<Real = f64>>(
    a: &mut MatrixMut<'_, T>,
    [diagonal, off]: [&mut [f64]; 2],
    [left_tau, right_tau]: [&mut [T]; 2],
    right: &mut [T],
) {
    with_processor_vectors(
        #[inline(always)]
        || reduce_columns(a, [diagonal, off], [left_tau, right_tau], right),
    );
}

#[inline(always)]
fn reduce_columns<T: Field<Real = f64>>(
    a: &mut MatrixMut<'_, T>,
    [diagonal, off]: [&mut [f64]; 2],
    [left_tau, right_tau]: [&mut [T]; 2],
    right: &mut [T],
) {
    let (rows, columns) = (a.rows(), a.columns());
    let count = off.len();
    let (mut v, mut product) = (scratch::filled(T::ZERO, count), scratch::filled(T::ZERO, rows));
    for k in 0..columns {
        left_tau[k] = reflector(&mut a.column(k)[k..]);
        diagonal[k] = a.at(k, k).re();
        for j in k + 1..columns {
            let (vector, column) = a.two_columns(k, j);
            apply_adjoint(&vector[k + 1..], left_tau[k], &mut column[k..]);
        }
        if k == count {
            continue;
        }
        let v = &mut v[..count - k];
        v.iter_mut().enumerate().for_each(|(i, v)| *v = a.at(k, k + 1 + i).conj());
        right_tau[k] = reflector(v);
        off[k] = v[0].re();
        v[0] = T::ONE;
        apply_from_right(a, k, v, right_tau[k], &mut product[k + 1..]);
        right[k * count + k..(k + 1) * count].copy_from_slice(v);
    }
}

/// `a = a - tau (a v) v'`, for the part of `a` below row `k` and right of column `k`.
#[inline(always)]
fn apply_from_right<T: Field>(a: &mut MatrixMut<'_, T>, k: usize, v: &[T], tau: T, product: &mut [T]) {
    if tau == T::ZERO {
        return;
    }
    product.fill(T::ZERO);
    for (j, v) in v.iter().enumerate() {
        add_multiple(product, *v, &a.column(k + 1 + j)[k + 1..]);
    }
    for (j, v) in v.iter().enumerate() {
        add_multiple(&mut a.column(k + 1 + j)[k + 1..], -tau * v.conj(), product);
    }
}

fn left_vectors<T: Field>(u: &mut MatrixMut<'_, T>, a: &Matrix<'_, T>, tau: &[T]) {
    let (rows, columns) = (a.rows(), a.columns());
    assert!(u.rows() == rows && u.columns() >= columns, "left vectors of other sizes");
    u.reborrow().block(0, 0, [rows, columns]).copy_from(a);
    householder_product(u.reborrow(), tau);
}

fn right_vectors<T: Field>(v: &mut MatrixMut<'_, T>, right: &[T], tau: &[T]) {
    let n = v.rows();
    assert!(v.columns() == n, "right vectors of other sizes");
    v.fill(T::ZERO);
    if n > 0 {
        v.set(0, 0, T::ONE);
        let mut rest = v.reborrow().block(1, 1, [n - 1, n - 1]);
        rest.copy_from(&Matrix::new(right, n - 1, n - 1, n - 1));
        householder_product(rest, tau);
    }
}
