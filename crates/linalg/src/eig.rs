//! Eigenvalues and eigenvectors of any square matrix: balancing, the Schur form, back substitution.

use crate::balance::Balance;
use crate::eigenvectors::{is_second, vectors_of_schur_form};
use crate::field::Field;
use crate::hessenberg::hessenberg;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::product_below_diagonal;
use crate::reflector::norm;
use crate::scaling::{Failure, scale};
use crate::schur::{Basis, Iteration, complex};
use flambeau_gemm::scratch;

/// Rows from which on columns begin a cache line later than their length says: where it is a power of two, columns would share a few
/// sets of the L1 cache.
const PADDED: usize = 64;
/// The elements of a cache line of f64.
const PADDING: usize = 8;
/// Columns of a triangle that are multiplied at once.
const TRIANGLE: usize = 64;

/// The eigenvalues of a matrix, in the order in which they are found on the diagonal of its Schur form, and eigenvectors as columns of
/// norm 1. Those of a real matrix are real, or conjugates that follow each other, of which the first has the positive imaginary part.
/// The largest element of a complex vector is real. `a` is overwritten with anything.
///
/// A matrix without a basis of eigenvectors has nearly parallel ones, as in LAPACK.
///
/// # Errors
/// [`Failure`]; the results then hold anything.
pub fn eig<T: Field>(
    mut a: MatrixMut<'_, T>,
    values: &mut [T::Complex],
    vectors: Option<MatrixMut<'_, T::Complex>>,
) -> Result<(), Failure> {
    let n = a.rows();
    assert!(a.columns() == n && values.len() == n, "{n} eigenvalues of a square matrix");
    if n == 0 {
        return Ok(());
    }
    let factor = scale(&mut a)?;
    let pitch = if n < PADDED { n } else { n + PADDING };
    let mut padded = scratch::filled(T::ZERO, if n < PADDED { 0 } else { pitch * n });
    let mut a = if n < PADDED {
        a
    } else {
        let mut copy = MatrixMut::new(&mut padded, n, n, pitch);
        copy.copy_from(&a.view());
        copy
    };
    let balance = Balance::new(&mut a);
    let mut tau = scratch::filled(T::ZERO, n - 1);
    hessenberg(&mut a, &balance.active, &mut tau);
    let mut basis = scratch::filled(T::ZERO, if vectors.is_some() { pitch * n } else { 0 });
    let basis_matrix = vectors.is_some().then(|| {
        let mut basis = MatrixMut::new(&mut basis, n, n, pitch);
        basis.copy_from(&a.view());
        product_below_diagonal(&mut basis, &tau);
        basis
    });
    for j in 0..n {
        a.column(j)[(j + 2).min(n)..].fill(T::ZERO);
    }
    Iteration { h: a.reborrow(), q: Basis::new(basis_matrix), active: balance.active.clone() }.run(values)?;
    if let Some(mut vectors) = vectors {
        let of_schur_form = vectors_of_schur_form(&a.view(), values);
        let (basis, of_schur_form) = (Matrix::new(&basis, n, n, pitch), Matrix::new(&of_schur_form, n, n, n));
        multiply_triangle(&mut a, &basis, &of_schur_form);
        unpack(&a.view(), values, &mut vectors);
        balance.undo(&mut vectors);
        normalize::<T>(&mut vectors, values);
    }
    values.iter_mut().for_each(|value| *value = factor.undone(*value));
    Ok(())
}

/// The first vectors of pairs and the other vectors, of columns as those of [`vectors_of_schur_form`].
fn unpack<T: Field>(columns: &Matrix<'_, T>, values: &[T::Complex], vectors: &mut MatrixMut<'_, T::Complex>) {
    for (index, value) in values.iter().enumerate() {
        let (to, from) = (vectors.column(index), columns.column(index));
        to.iter_mut().zip(from).for_each(|(to, from)| *to = complex(*from));
        if !T::IS_COMPLEX && value.im() > T::Real::ZERO {
            let parts = columns.column(index + 1);
            to.iter_mut().zip(parts).for_each(|(to, part)| *to = T::Complex::from_parts(to.re(), part.re()));
        }
    }
}

/// `product = a b`, where `b` has zeros below the diagonal, but for an element beside it.
fn multiply_triangle<T: Field>(product: &mut MatrixMut<'_, T>, a: &Matrix<'_, T>, b: &Matrix<'_, T>) {
    let n = product.columns();
    for start in (0..n).step_by(TRIANGLE) {
        let columns = TRIANGLE.min(n - start);
        let inner = (start + columns + 1).min(n);
        let (a, b) = (a.block(0, 0, [n, inner]), b.block(0, start, [inner, columns]));
        product.reborrow().block(0, start, [n, columns]).multiply_add(T::Real::ONE, &a, &b, T::Real::ZERO);
    }
}

/// Gives columns norm 1, and complex ones a real element where they are largest.
fn normalize<T: Field>(vectors: &mut MatrixMut<'_, T::Complex>, values: &[T::Complex]) {
    for (index, value) in values.iter().enumerate() {
        if is_second::<T>(*value) {
            let (first, second) = vectors.two_columns(index - 1, index);
            second.iter_mut().zip(first).for_each(|(second, first)| *second = first.conj());
            continue;
        }
        let column = vectors.column(index);
        let length = norm(column);
        column.iter_mut().for_each(|x| *x = x.divided(length));
        if !T::IS_COMPLEX && value.im() == T::Real::ZERO {
            continue;
        }
        let square = |x: T::Complex| x.re() * x.re() + x.im() * x.im();
        let larger = |best: usize, at: usize| {
            if square(column[at]) > square(column[best]) { at } else { best }
        };
        let at = (0..column.len()).fold(0, larger);
        let phase = column[at].conj().divided(column[at].magnitude());
        column.iter_mut().for_each(|x| *x = *x * phase);
        column[at] = T::Complex::from_real(column[at].re());
    }
}
