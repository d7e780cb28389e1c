//! Eigenvalues and eigenvectors of Hermitian matrices: a reduction to a real tridiagonal matrix by reflectors, then
//! [QR iteration](crate::tridiagonal) or, for larger ones, [divide and conquer](crate::divide). The tridiagonal matrix and its
//! eigenvectors are those of f64 in any case, so that eigenvalues of f32 are as accurate as the reduction, within a rounding error of the
//! norm: QR iteration in f32 would lose digits.

use crate::divide::{LEAF, eigen};
use crate::field::{Field, Real};
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::{multiply_by_q, product_below_diagonal};
use crate::rotations::{Rotations, order_of, permute};
use crate::scaling::{Failure, Scale, scale};
use crate::tridiagonal::iterate;
use crate::tridiagonalize::tridiagonalize;
use flambeau_gemm::scratch;

/// The eigenvalues of a Hermitian matrix in ascending order, from its lower triangle. With `vectors`, `a` is overwritten with the
/// eigenvectors as columns, else with anything.
///
/// # Errors
/// [`Failure`]; `a` and `values` then hold anything.
pub fn hermitian<T: Field>(
    mut a: MatrixMut<'_, T>,
    values: &mut [f64],
    vectors: bool,
) -> Result<(), Failure> {
    let n = a.rows();
    assert!(a.columns() == n && values.len() == n, "{n} eigenvalues of a square matrix");
    if n == 0 {
        return Ok(());
    }
    let factor = prepare(&mut a)?;
    let (mut off, mut tau) = (scratch::filled(0.0, n - 1), scratch::filled(T::ZERO, n - 1));
    tridiagonalize(&mut a, &mut off, &mut tau);
    (0..n).for_each(|j| values[j] = a.at(j, j).re().to_f64());
    if n <= LEAF {
        by_iteration(a, values, &mut off, vectors.then_some(&tau))?;
    } else {
        by_division(a, values, &mut off, vectors.then_some(&tau))?;
    }
    factor.undo(values);
    Ok(())
}

/// The eigenvalues of the tridiagonal matrix with the diagonal `values`, and with `tau` the eigenvectors of `a`. QR iteration rotates
/// the product of the reflectors.
fn by_iteration<T: Field>(
    mut a: MatrixMut<'_, T>,
    values: &mut [f64],
    off: &mut [f64],
    tau: Option<&Vec<T>>,
) -> Result<(), Failure> {
    tau.into_iter().for_each(|tau| product_below_diagonal(&mut a, tau));
    let mut rotations = Rotations::new(tau.is_some().then_some(a));
    iterate(values, off, &mut rotations)?;
    let order = order_of(values, false);
    rotations.finish(&order, &scratch::filled(false, values.len()));
    permute(values, &order);
    Ok(())
}

/// The same by divide and conquer. The reflectors are applied to the eigenvectors of the tridiagonal matrix.
fn by_division<T: Field>(
    mut a: MatrixMut<'_, T>,
    values: &mut [f64],
    off: &mut [f64],
    tau: Option<&Vec<T>>,
) -> Result<(), Failure> {
    let n = values.len();
    let mut vectors = scratch::filled(0.0, if tau.is_some() { n * n } else { 0 });
    let matrix = tau.is_some().then(|| MatrixMut::new(&mut vectors, n, n, n));
    eigen::decompose(values, off, matrix)?;
    let order = order_of(values, false);
    permute(values, &order);
    let Some(tau) = tau else { return Ok(()) };
    let reflectors = a.to_vec();
    for (to, from) in order.iter().enumerate() {
        let from = &vectors[from * n..(from + 1) * n];
        a.column(to).iter_mut().zip(from).for_each(|(to, from)| *to = T::from_real(T::Real::from_f64(*from)));
    }
    let reflectors = Matrix::new(&reflectors, n, n, n).block(1, 0, [n - 1, n - 1]);
    multiply_by_q(reflectors, tau, [false, false], a.block(1, 0, [n - 1, n]));
    Ok(())
}

/// Clears what is not read, and scales the matrix if its numbers are extreme.
pub(crate) fn prepare<T: Field>(a: &mut MatrixMut<'_, T>) -> Result<Scale, Failure> {
    clear_unread(a);
    scale(a)
}

/// What is above the diagonal and the imaginary parts on it are not read, so they must neither count as extreme nor as infinite.
fn clear_unread<T: Field>(a: &mut MatrixMut<'_, T>) {
    for j in 0..a.columns() {
        a.column(j)[..j].fill(T::ZERO);
        a.set(j, j, T::from_real(a.at(j, j).re()));
    }
}
