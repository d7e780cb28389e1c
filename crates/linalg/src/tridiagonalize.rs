//! The reduction of Hermitian matrices to real tridiagonal ones by reflectors: LAPACK's `sytrd`, for the lower triangle.
//!
//! Half of the work is a product of the matrix and a vector for each reflector. The other half, the change of the matrix, is done for a
//! panel of reflectors at once by products of matrices: Dongarra, Sorensen and Hammarling, "Block reduction of matrices to condensed
//! forms for eigenvalue computations" (1989).

use crate::columns::{Columns, WIDTH, add_columns_and_dots};
use crate::field::{Field, Real};
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::{add_multiple, dot, reflector};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// Reflectors in a panel.
const PANEL: usize = 32;
/// Rows up to which the matrix is changed after each reflector.
const UNBLOCKED: usize = 96;
/// Columns of the trailing matrix that are changed by one product, of which the part above the diagonal is lost work.
const STRIP: usize = 64;

/// Overwrites the lower triangle with a tridiagonal matrix, the vectors of the reflectors below its subdiagonal `off`.
pub(crate) fn tridiagonalize<T: Field>(a: &mut MatrixMut<'_, T>, off: &mut [f64], tau: &mut [T]) {
    let n = a.rows();
    let mut start = 0;
    while n - start > UNBLOCKED {
        let size = n - start;
        let mut trailing = a.reborrow().block(start, start, [size, size]);
        let end = start + PANEL;
        reduce_panel(&mut trailing, &mut off[start..end], &mut tau[start..end]);
        start = end;
    }
    let mut rest = a.reborrow().block(start, start, [n - start, n - start]);
    with_processor_vectors(
        #[inline(always)]
        || reduce_columns(&mut rest, &mut off[start..], &mut tau[start..]),
    );
}

/// A reflector at a time.
#[inline(always)]
fn reduce_columns<T: Field>(a: &mut MatrixMut<'_, T>, off: &mut [f64], tau: &mut [T]) {
    let n = a.rows();
    let (mut p, mut v) = (scratch::filled(T::ZERO, n), scratch::filled(T::ZERO, n));
    for k in 0..n - 1 {
        let length = n - 1 - k;
        let column = &mut a.column(k)[k + 1..];
        tau[k] = reflector(column);
        off[k] = column[0].re().to_f64();
        if tau[k] == T::ZERO {
            continue;
        }
        let (v, p) = (&mut v[..length], &mut p[..length]);
        v.copy_from_slice(column);
        v[0] = T::ONE;
        let mut trailing = a.reborrow().block(k + 1, k + 1, [length, length]);
        multiply_hermitian(&trailing.view(), v, p);
        finish_product(p, v, tau[k]);
        for j in 0..length {
            let (by_p, by_v) = (-v[j].conj(), -p[j].conj());
            let column = &mut trailing.column(j)[j..];
            for ((x, p), v) in column.iter_mut().zip(&p[j..]).zip(&v[j..]) {
                *x = *x + (*p * by_p + *v * by_v);
            }
        }
    }
}

/// From `p = a v`: the vector by which `H' a H = a - v p' - p v'`.
#[inline(always)]
fn finish_product<T: Field>(p: &mut [T], v: &[T], tau: T) {
    p.iter_mut().for_each(|p| *p = *p * tau);
    let shift = (tau.conj() * dot(v, p)).scaled(T::Real::from_f64(-0.5));
    add_multiple(p, shift, v);
}

/// The reflectors of the first [`PANEL`] columns, and the change of the others.
fn reduce_panel<T: Field>(a: &mut MatrixMut<'_, T>, off: &mut [f64], tau: &mut [T]) {
    let n = a.rows();
    // The vectors of reflectors, then those of `finish_product`; and in the other order.
    let (mut left, mut right) =
        (scratch::filled(T::ZERO, 2 * PANEL * n), scratch::filled(T::ZERO, 2 * PANEL * n));
    with_processor_vectors(
        #[inline(always)]
        || {
            let (v, p) = left.split_at_mut(PANEL * n);
            for k in 0..PANEL {
                tau[k] = reduce_column(a, k, v, p);
                off[k] = a.at(k + 1, k).re().to_f64();
            }
        },
    );
    right[..PANEL * n].copy_from_slice(&left[PANEL * n..]);
    right[PANEL * n..].copy_from_slice(&left[..PANEL * n]);
    let (left, right) = (Matrix::new(&left, n, 2 * PANEL, n), Matrix::new(&right, n, 2 * PANEL, n));
    for j in (PANEL..n).step_by(STRIP) {
        let (rows, columns) = (n - j, STRIP.min(n - j));
        let (left, right) = (left.block(j, 0, [rows, 2 * PANEL]), right.block(j, 0, [columns, 2 * PANEL]));
        let mut strip = a.reborrow().block(j, j, [rows, columns]);
        strip.multiply_add(-T::Real::ONE, &left, &right.adjoint(), T::Real::ONE);
    }
}

/// The reflector of column `k`, which is first changed as those before require. The columns after it are not changed.
#[inline(always)]
fn reduce_column<T: Field>(a: &mut MatrixMut<'_, T>, k: usize, v: &mut [T], p: &mut [T]) -> T {
    let n = a.rows();
    let mut factors = [T::ZERO; PANEL];
    let factors = &mut factors[..k];
    let (v_before, v) = v.split_at_mut(k * n);
    let (p_before, p) = p.split_at_mut(k * n);
    let before = |elements, from| Columns { elements, pitch: n, from };
    for (row, columns) in [(&*p_before, &*v_before), (&*v_before, &*p_before)] {
        factors.iter_mut().enumerate().for_each(|(j, factor)| *factor = row[j * n + k].conj());
        before(columns, k).subtract_from(&mut a.column(k)[k..], factors);
    }
    let (v, p) = (&mut v[k + 1..n], &mut p[k + 1..n]);
    let column = &mut a.column(k)[k + 1..];
    let tau = reflector(column);
    if tau == T::ZERO {
        return tau;
    }
    v.copy_from_slice(column);
    v[0] = T::ONE;
    let size = n - k - 1;
    multiply_hermitian(&a.view().block(k + 1, k + 1, [size, size]), v, p);
    for (row, columns) in [(&*p_before, &*v_before), (&*v_before, &*p_before)] {
        before(row, k + 1).dots(v, factors);
        before(columns, k + 1).subtract_from(p, factors);
    }
    finish_product(p, v, tau);
    tau
}

/// `p = a v`, from the lower triangle.
#[inline(always)]
fn multiply_hermitian<T: Field>(a: &Matrix<'_, T>, v: &[T], p: &mut [T]) {
    p.fill(T::ZERO);
    let n = v.len();
    let whole = n / WIDTH * WIDTH;
    for j in (0..whole).step_by(WIDTH) {
        let below = j + WIDTH;
        multiply_triangle(a, j..below, v, p);
        let columns = [0, 1, 2, 3].map(|k| &a.column(j + k)[below..]);
        let factors = [v[j], v[j + 1], v[j + 2], v[j + 3]];
        let sums = add_columns_and_dots(&mut p[below..], columns, factors, &v[below..]);
        p[j..below].iter_mut().zip(sums).for_each(|(p, sum)| *p = *p + sum);
    }
    multiply_triangle(a, whole..n, v, p);
}

/// The part of the product that a few rows and columns on the diagonal contribute.
#[inline(always)]
fn multiply_triangle<T: Field>(a: &Matrix<'_, T>, range: std::ops::Range<usize>, v: &[T], p: &mut [T]) {
    for j in range.clone() {
        let column = a.column(j);
        p[j] = p[j] + v[j].scaled(column[j].re());
        for i in j + 1..range.end {
            p[i] = p[i] + column[i] * v[j];
            p[j] = p[j] + column[i].conj() * v[i];
        }
    }
}
