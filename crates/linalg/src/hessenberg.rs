//! The reduction of any square matrix to Hessenberg form by reflectors: LAPACK's `gehrd`.
//!
//! A fifth of the work is a product of the matrix and a vector for each reflector. The rest, the change of the matrix, is done for a
//! panel of reflectors at once by products of matrices: Quintana-Orti and van de Geijn, "Improving the performance of reduction to
//! Hessenberg form" (2006).

use crate::columns::{Columns, WIDTH, add_columns};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::apply_adjoint_to_columns;
use crate::reflector::{Block, add_multiple, reflector};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Reflectors in a panel.
const PANEL: usize = 32;
/// Rows up to which the matrix is changed after each reflector.
const UNBLOCKED: usize = 96;

/// Reduces the rows and columns in `active` to Hessenberg form. What is outside of them is triangular already. The vectors of the
/// reflectors remain below the subdiagonal.
pub(crate) fn hessenberg<T: Field>(a: &mut MatrixMut<'_, T>, active: &Range<usize>, tau: &mut [T]) {
    let Range { mut start, end } = *active;
    while end.saturating_sub(start) > UNBLOCKED {
        reduce_panel(a, start, end, &mut tau[start..start + PANEL]);
        start += PANEL;
    }
    // Two rows have no element to reduce.
    if end.saturating_sub(start) > 2 {
        with_processor_vectors(
            #[inline(always)]
            || reduce_columns(a, &(start..end), tau),
        );
    }
}

/// A reflector at a time.
#[inline(always)]
fn reduce_columns<T: Field>(a: &mut MatrixMut<'_, T>, active: &Range<usize>, tau: &mut [T]) {
    let (n, end) = (a.rows(), active.end);
    let (mut v, mut product) = (scratch::filled(T::ZERO, n), scratch::filled(T::ZERO, n));
    for k in active.start..end.saturating_sub(2) {
        let column = &mut a.column(k)[k + 1..end];
        tau[k] = reflector(column);
        if tau[k] == T::ZERO {
            continue;
        }
        let v = &mut v[..end - k - 1];
        v.copy_from_slice(column);
        v[0] = T::ONE;
        reflect_from_right(&mut a.reborrow().block(0, k + 1, [end, v.len()]), v, tau[k], &mut product);
        let mut others = a.reborrow().block(k + 1, k + 1, [end - k - 1, n - k - 1]);
        apply_adjoint_to_columns(&v[1..], tau[k], &mut others);
    }
}

/// `a = a H`, for the reflector `I - tau v v'`. `product` has at least as many elements as a column.
#[inline(always)]
pub(crate) fn reflect_from_right<T: Field>(a: &mut MatrixMut<'_, T>, v: &[T], tau: T, product: &mut [T]) {
    let product = &mut product[..a.rows()];
    product.fill(T::ZERO);
    multiply(&a.view(), v, product);
    for (j, v) in v.iter().enumerate() {
        add_multiple(a.column(j), -(tau * v.conj()), product);
    }
}

/// `product += a v`.
#[inline(always)]
fn multiply<T: Field>(a: &Matrix<'_, T>, v: &[T], product: &mut [T]) {
    let (whole, rest) = v.as_chunks::<WIDTH>();
    for (number, factors) in whole.iter().enumerate() {
        add_columns(product, [0, 1, 2, 3].map(|k| a.column(number * WIDTH + k)), *factors);
    }
    for (k, factor) in rest.iter().enumerate() {
        add_multiple(product, *factor, a.column(whole.len() * WIDTH + k));
    }
}

/// The vectors of a panel, as columns from the row after its first one: the product of its reflectors is `I - V T V'`.
struct Panel<T> {
    v: Vec<T>,
    /// The product of the matrix, before the panel, and `V T`.
    y: Vec<T>,
    /// By columns.
    t: [[T; PANEL]; PANEL],
    rows: usize,
}

/// The reflectors of the columns from `start` on, and the change of the matrix.
fn reduce_panel<T: Field>(a: &mut MatrixMut<'_, T>, start: usize, end: usize, tau: &mut [T]) {
    let (n, first) = (a.rows(), start + 1);
    let rows = end - first;
    let zeros = || scratch::filled(T::ZERO, PANEL * rows);
    let mut panel = Panel { v: zeros(), y: zeros(), t: [[T::ZERO; PANEL]; PANEL], rows };
    let mut active = a.reborrow().block(first, start, [rows, rows + 1]);
    with_processor_vectors(
        #[inline(always)]
        || tau.iter_mut().enumerate().for_each(|(k, tau)| *tau = panel.reduce(&mut active, k)),
    );
    // From the right: the rows in which the reflectors were found, without the columns that are done, and the rows above.
    let (v, y) = (Matrix::new(&panel.v, rows, PANEL, rows), Matrix::new(&panel.y, rows, PANEL, rows));
    let done = PANEL - 1;
    let v_rest = v.block(done, 0, [rows - done, PANEL]);
    a.reborrow().block(first, start + PANEL, [rows, rows - done]).multiply_add(
        -T::Real::ONE,
        &y,
        &v_rest.adjoint(),
        T::Real::ONE,
    );
    let block = Block::new(&a.view().block(first, start, [rows, PANEL]), tau);
    block.apply_right(false, a.reborrow().block(0, first, [first, rows]));
    // From the left.
    block.apply(true, &mut a.reborrow().block(first, start + PANEL, [rows, n - start - PANEL]));
}

impl<T: Field> Panel<T> {
    /// The reflector of column `k` of `a`, which begins with the panel's first column and the row after that. The column is changed as
    /// the reflectors before require; the columns after it are not.
    #[inline(always)]
    fn reduce(&mut self, a: &mut MatrixMut<'_, T>, k: usize) -> T {
        let rows = self.rows;
        let (v_before, v) = self.v.split_at_mut(k * rows);
        let (y_before, y) = self.y.split_at_mut(k * rows);
        let (v, y) = (&mut v[..rows], &mut y[..rows]);
        let (before, products) = (
            Columns { elements: &*v_before, pitch: rows, from: 0 },
            Columns { elements: &*y_before, pitch: rows, from: 0 },
        );
        let (mut factors, mut others) = ([T::ZERO; PANEL], [T::ZERO; PANEL]);
        let (factors, others) = (&mut factors[..k], &mut others[..k]);
        if k > 0 {
            // Row `k - 1` from the panel's start is the one that belongs to this column.
            factors
                .iter_mut()
                .enumerate()
                .for_each(|(j, factor)| *factor = v_before[j * rows + k - 1].conj());
            products.subtract_from(a.column(k), factors);
            // From the left: `T'` is a lower triangle.
            before.dots(a.column(k), factors);
            for (i, other) in others.iter_mut().enumerate() {
                *other = (0..=i).map(|j| self.t[i][j].conj() * factors[j]).sum();
            }
            before.subtract_from(a.column(k), others);
        }
        let tau = reflector(&mut a.column(k)[k..]);
        v[k..].copy_from_slice(&a.column(k)[k..]);
        v[k] = T::ONE;
        self.t[k][k] = tau;
        if tau == T::ZERO {
            return tau;
        }
        multiply(&a.view().block(0, k + 1, [rows, rows - k]), &v[k..], y);
        before.dots(v, factors);
        products.subtract_from(y, factors);
        y.iter_mut().for_each(|y| *y = *y * tau);
        // The factors are negative now.
        for i in 0..k {
            self.t[k][i] = tau * (i..k).map(|j| self.t[j][i] * factors[j]).sum::<T>();
        }
        tau
    }
}
