//! Singular values and vectors: a reduction to a real bidiagonal matrix by reflectors, then [QR iteration](crate::bidiagonal) or, for
//! larger ones, [divide and conquer](crate::divide).

use crate::bidiagonal::iterate;
use crate::bidiagonalize::{Reduced, bidiagonalize};
use crate::divide::{LEAF, singular};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::{householder_product, multiply_by_q};
use crate::rotations::{Rotations, order_of, permute};
use crate::scaling::{Failure, scale};
use flambeau_gemm::scratch;

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
    let reduced = Reduced {
        diagonal: values,
        off: &mut off,
        left_tau: &mut left_tau,
        right_tau: &mut right_tau,
        right: MatrixMut::new(&mut right, count, count, count),
    };
    bidiagonalize(&mut a, reduced);
    let (left, right) = (a.view(), Matrix::new(&right, count, count, count));
    let reflectors = [(left, &left_tau), (right, &right_tau)];
    if columns <= LEAF {
        by_iteration(values, &mut off, reflectors, vectors)?;
    } else {
        by_division(values, &mut off, reflectors, vectors)?;
    }
    factor.undo(values);
    Ok(())
}

/// Vectors of reflectors from the left and from the right, with their factors.
type Reflectors<'a, T> = [(Matrix<'a, T>, &'a Vec<T>); 2];

/// The singular values of the bidiagonal matrix with the diagonal `values`, and the vectors of what was reduced to it. QR iteration
/// rotates the products of the reflectors.
fn by_iteration<T: Field<Real = f64>>(
    values: &mut [f64],
    off: &mut [f64],
    [(left, left_tau), (right, right_tau)]: Reflectors<'_, T>,
    vectors: Option<(MatrixMut<'_, T>, MatrixMut<'_, T>)>,
) -> Result<(), Failure> {
    let (u, v) = match vectors {
        Some((mut u, mut v)) => {
            left_vectors(&mut u, &left, left_tau);
            right_vectors(&mut v, &right, right_tau);
            (Some(u), Some(v))
        }
        None => (None, None),
    };
    let (mut u, mut v) = (Rotations::new(u), Rotations::new(v));
    iterate(values, off, &mut u, &mut v)?;
    let negative = scratch::collect(values.iter().map(|value| value.is_sign_negative()));
    values.iter_mut().for_each(|value| *value = value.abs());
    let order = order_of(values, true);
    u.finish(&order, &scratch::filled(false, values.len()));
    v.finish(&order, &scratch::collect(order.iter().map(|from| negative[*from])));
    permute(values, &order);
    Ok(())
}

/// The same by divide and conquer. The reflectors are applied to the vectors of the bidiagonal matrix.
fn by_division<T: Field<Real = f64>>(
    values: &mut [f64],
    off: &mut [f64],
    [(left, left_tau), (right, right_tau)]: Reflectors<'_, T>,
    vectors: Option<(MatrixMut<'_, T>, MatrixMut<'_, T>)>,
) -> Result<(), Failure> {
    let n = values.len();
    let zeros = || scratch::filled(0.0, if vectors.is_some() { n * n } else { 0 });
    let mut found = [zeros(), zeros()];
    let matrices = vectors.is_some().then(|| found.each_mut().map(|x| MatrixMut::new(x, n, n, n)));
    singular::decompose(values, off, matrices)?;
    let order = order_of(values, true);
    permute(values, &order);
    let Some((mut u, mut v)) = vectors else { return Ok(()) };
    for (to, found) in [(&mut u, &found[0]), (&mut v, &found[1])] {
        for (j, from) in order.iter().enumerate() {
            let (copied, rest) = to.column(j).split_at_mut(n);
            let from = &found[from * n..(from + 1) * n];
            copied.iter_mut().zip(from).for_each(|(to, from)| *to = T::from_real(*from));
            rest.fill(T::ZERO);
        }
    }
    for j in n..u.columns() {
        let column = u.column(j);
        column.fill(T::ZERO);
        column[j] = T::ONE;
    }
    multiply_by_q(left, left_tau, [false, false], u);
    multiply_by_q(right, right_tau, [false, false], v.block(1, 0, [n - 1, n]));
    Ok(())
}

fn left_vectors<T: Field>(u: &mut MatrixMut<'_, T>, a: &Matrix<'_, T>, tau: &[T]) {
    let (rows, columns) = (a.rows(), a.columns());
    assert!(u.rows() == rows && u.columns() >= columns, "left vectors of other sizes");
    u.reborrow().block(0, 0, [rows, columns]).copy_from(a);
    householder_product(u.reborrow(), tau);
}

fn right_vectors<T: Field>(v: &mut MatrixMut<'_, T>, right: &Matrix<'_, T>, tau: &[T]) {
    let n = v.rows();
    assert!(v.columns() == n, "right vectors of other sizes");
    v.fill(T::ZERO);
    if n > 0 {
        v.set(0, 0, T::ONE);
        let mut rest = v.reborrow().block(1, 1, [n - 1, n - 1]);
        rest.copy_from(right);
        householder_product(rest, tau);
    }
}
