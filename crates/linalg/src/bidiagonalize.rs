//! The reduction of matrices to real upper bidiagonal ones by reflectors from both sides: LAPACK's `gebrd`.
//!
//! Half of the work is two products of the matrix and a vector for each pair of reflectors. They read the matrix once: Howell, Demmel,
//! Fulton, Hammarling and Marmol, "Cache efficient bidiagonalization using BLAS 2.5 operators" (2008). The other half, the change of
//! the matrix, is done for a panel of reflectors at once by a product of matrices.

use crate::columns::{Columns, WIDTH, add_columns, dots};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::apply_adjoint_to_columns;
use crate::reflector::{add_multiple, dot, reflector};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// Pairs of reflectors in a panel.
const PANEL: usize = 32;
/// Columns up to which the matrix is changed after each reflector.
const UNBLOCKED: usize = 64;
/// Rows of the matrix below this size may vanish in products, which are then computed of the reflector instead.
const SMALL_ROW: f64 = 1e-140;

/// What the reduction finds: the bidiagonal matrix, the factors of reflectors, and the vectors of those from the right.
pub(crate) struct Reduced<'a, T> {
    pub(crate) diagonal: &'a mut [f64],
    pub(crate) off: &'a mut [f64],
    pub(crate) left_tau: &'a mut [T],
    pub(crate) right_tau: &'a mut [T],
    /// A square matrix for all columns but the first, with the vectors as columns.
    pub(crate) right: MatrixMut<'a, T>,
}

impl<T: Field> Reduced<'_, T> {
    /// From one row and column on.
    fn from(&mut self, at: usize) -> Reduced<'_, T> {
        let off = at.min(self.off.len());
        let size = self.off.len() - off;
        Reduced {
            diagonal: &mut self.diagonal[at..],
            off: &mut self.off[off..],
            left_tau: &mut self.left_tau[at..],
            right_tau: &mut self.right_tau[off..],
            right: self.right.reborrow().block(off, off, [size, size]),
        }
    }
}

/// Reduces `a`, with at least as many rows as columns. The vectors of the reflectors from the left remain below its diagonal.
pub(crate) fn bidiagonalize<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, mut reduced: Reduced<'_, T>) {
    let (rows, columns) = (a.rows(), a.columns());
    let mut start = 0;
    while columns - start > UNBLOCKED {
        let mut trailing = a.reborrow().block(start, start, [rows - start, columns - start]);
        reduce_panel(&mut trailing, &mut reduced.from(start));
        start += PANEL;
    }
    let mut rest = a.reborrow().block(start, start, [rows - start, columns - start]);
    with_processor_vectors(
        #[inline(always)]
        || reduce_columns(&mut rest, &mut reduced.from(start)),
    );
}

/// A pair of reflectors at a time.
#[inline(always)]
fn reduce_columns<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, reduced: &mut Reduced<'_, T>) {
    let (rows, columns) = (a.rows(), a.columns());
    let count = reduced.off.len();
    let (mut v, mut product) = (scratch::filled(T::ZERO, count), scratch::filled(T::ZERO, rows));
    for k in 0..columns {
        let (mut own, mut others) = a.reborrow().block(k, k, [rows - k, columns - k]).split_columns(1);
        let own = own.column(0);
        let tau = reflector(own);
        (reduced.left_tau[k], reduced.diagonal[k]) = (tau, own[0].re());
        apply_adjoint_to_columns(&own[1..], tau, &mut others);
        if k == count {
            continue;
        }
        let v = &mut v[..count - k];
        v.iter_mut().enumerate().for_each(|(i, v)| *v = a.at(k, k + 1 + i).conj());
        let tau = reflector(v);
        (reduced.right_tau[k], reduced.off[k]) = (tau, v[0].re());
        v[0] = T::ONE;
        apply_from_right(a, k, v, tau, &mut product[k + 1..]);
        reduced.right.column(k)[k..].copy_from_slice(v);
    }
}

/// `a = a - tau (a v) v'`, for the part of `a` below row `k` and right of column `k`.
#[inline(always)]
fn apply_from_right<T: Field>(a: &mut MatrixMut<'_, T>, k: usize, v: &[T], tau: T, product: &mut [T]) {
    if tau == T::ZERO {
        return;
    }
    product.fill(T::ZERO);
    multiply(&a.view(), k, v, product);
    for (j, v) in v.iter().enumerate() {
        add_multiple(&mut a.column(k + 1 + j)[k + 1..], -tau * v.conj(), product);
    }
}

/// Adds the product of `v` and the part of `a` below row `k` and right of column `k`.
#[inline(always)]
fn multiply<T: Field>(a: &Matrix<'_, T>, k: usize, v: &[T], product: &mut [T]) {
    let (whole, rest) = v.as_chunks::<WIDTH>();
    for (number, factors) in whole.iter().enumerate() {
        let j = k + 1 + number * WIDTH;
        add_columns(product, [0, 1, 2, 3].map(|i| &a.column(j + i)[k + 1..]), *factors);
    }
    for (i, factor) in rest.iter().enumerate() {
        add_multiple(product, *factor, &a.column(k + 1 + whole.len() * WIDTH + i)[k + 1..]);
    }
}

/// The vectors of a panel. The matrix is changed by `-u y' - x v'` for each of its pairs of reflectors, with vectors `u` and `v`.
struct Panel<T> {
    /// The columns `u`, then the columns `x`.
    left: Vec<T>,
    /// The columns `y`, then the columns `v`.
    right: Vec<T>,
    rows: usize,
    columns: usize,
}

/// The reflectors of the first [`PANEL`] rows and columns, and the change of the others.
fn reduce_panel<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, reduced: &mut Reduced<'_, T>) {
    let (rows, columns) = (a.rows(), a.columns());
    let zeros = |size: usize| scratch::filled(T::ZERO, 2 * PANEL * size);
    let mut panel = Panel { left: zeros(rows), right: zeros(columns), rows, columns };
    let mut work = [scratch::filled(T::ZERO, columns), scratch::filled(T::ZERO, columns)];
    with_processor_vectors(
        #[inline(always)]
        || (0..PANEL).for_each(|k| panel.reduce(a, k, reduced, &mut work)),
    );
    let [left, right] = [(&panel.left, rows), (&panel.right, columns)]
        .map(|(x, size)| Matrix::new(x, size, 2 * PANEL, size).block(PANEL, 0, [size - PANEL, 2 * PANEL]));
    let mut trailing = a.reborrow().block(PANEL, PANEL, [rows - PANEL, columns - PANEL]);
    trailing.multiply_add(-1.0, &left, &right.adjoint(), 1.0);
}

impl<T: Field<Real = f64>> Panel<T> {
    /// The pair of reflectors of row and column `k`.
    #[inline(always)]
    fn reduce(
        &mut self,
        a: &mut MatrixMut<'_, T>,
        k: usize,
        reduced: &mut Reduced<'_, T>,
        work: &mut [Vec<T>; 2],
    ) {
        let [correction, row] = work.each_mut().map(|work| &mut work[k + 1..self.columns]);
        let mut pair = self.pair(k);
        let tau = pair.reduce_column(&mut a.column(k)[k..]);
        (reduced.left_tau[k], reduced.diagonal[k]) = (tau, a.at(k, k).re());
        row.iter_mut().enumerate().for_each(|(j, row)| *row = a.at(k, k + 1 + j).conj());
        pair.correct(correction, row);
        pair.x.fill(T::ZERO);
        multiply_twice(
            &a.view(),
            k,
            [&mut *pair.u, &mut *pair.x],
            tau,
            [&mut *correction, &mut *row, &mut *pair.y],
        );
        (reduced.right_tau[k], reduced.off[k]) = pair.reduce_row(&a.view(), row);
        reduced.right.column(k)[k..].copy_from_slice(pair.v);
    }

    #[inline(always)]
    fn pair(&mut self, k: usize) -> Pair<'_, T> {
        let (rows, columns) = (self.rows, self.columns);
        let (u_before, u) = self.left.split_at_mut(k * rows);
        let (u, x) = u.split_at_mut((PANEL - k) * rows);
        let (x_before, x) = x.split_at_mut(k * rows);
        let (y_before, y) = self.right.split_at_mut(k * columns);
        let (y, v) = y.split_at_mut((PANEL - k) * columns);
        let (v_before, v) = v.split_at_mut(k * columns);
        Pair {
            k,
            before: [(u_before, y_before), (x_before, v_before)],
            sizes: [rows, columns],
            u: &mut u[k..rows],
            x: &mut x[k + 1..rows],
            y: &mut y[k + 1..columns],
            v: &mut v[k + 1..columns],
        }
    }
}

/// A pair of reflectors of a panel.
struct Pair<'a, T> {
    k: usize,
    /// The columns `u` and `y` of the earlier pairs, then their columns `x` and `v`.
    before: [(&'a [T], &'a [T]); 2],
    /// Of the columns in `before`.
    sizes: [usize; 2],
    /// From row `k` on; the others from the row after it.
    u: &'a mut [T],
    x: &'a mut [T],
    y: &'a mut [T],
    v: &'a mut [T],
}

impl<T: Field<Real = f64>> Pair<'_, T> {
    /// Changes column `k` as the earlier pairs require. Its reflector is `u`; returns the factor.
    #[inline(always)]
    fn reduce_column(&mut self, column: &mut [T]) -> T {
        let [rows, columns] = self.sizes;
        let mut factors = [T::ZERO; PANEL];
        let factors = &mut factors[..self.k];
        for (left, right) in self.before {
            factors
                .iter_mut()
                .enumerate()
                .for_each(|(j, factor)| *factor = right[j * columns + self.k].conj());
            Columns { elements: left, pitch: rows, from: self.k }.subtract_from(column, factors);
        }
        let tau = reflector(column);
        self.u.copy_from_slice(column);
        self.u[0] = T::ONE;
        tau
    }

    /// What the earlier pairs change in the product of the matrix and `u`, and in the `row`.
    #[inline(always)]
    fn correct(&self, correction: &mut [T], row: &mut [T]) {
        let [rows, columns] = self.sizes;
        let mut factors = [T::ZERO; PANEL];
        let factors = &mut factors[..self.k];
        correction.fill(T::ZERO);
        for (left, right) in self.before {
            let right = Columns { elements: right, pitch: columns, from: self.k + 1 };
            Columns { elements: left, pitch: rows, from: self.k }.dots(self.u, factors);
            right.add_to(correction, factors);
            factors.iter_mut().enumerate().for_each(|(j, factor)| *factor = left[j * rows + self.k].conj());
            right.subtract_from(row, factors);
        }
    }

    /// The reflector `v` of the row, of which `x` holds the product with the matrix. Returns its factor, and what is right of the
    /// diagonal.
    #[inline(always)]
    fn reduce_row(&mut self, a: &Matrix<'_, T>, row: &[T]) -> (T, f64) {
        let (k, [rows, columns]) = (self.k, self.sizes);
        let (x, v) = (&mut *self.x, &mut *self.v);
        v.copy_from_slice(row);
        let tau = reflector(v);
        let (first, beta) = (row[0], v[0]);
        v[0] = T::ONE;
        if tau == T::ZERO {
            x.fill(T::ZERO);
            return (tau, beta.re());
        }
        if beta.re().abs() >= SMALL_ROW {
            // The row is `(first - beta) v`, and `beta` as its first number.
            add_multiple(x, -beta, &a.column(k + 1)[k + 1..]);
            let reciprocal = T::ONE / (first - beta);
            x.iter_mut().for_each(|x| *x = *x * reciprocal);
        } else {
            x.fill(T::ZERO);
            multiply(a, k, v, x);
        }
        add_multiple(x, -dot(self.y, v), &self.u[1..]);
        let mut factors = [T::ZERO; PANEL];
        let factors = &mut factors[..k];
        for (left, right) in self.before {
            Columns { elements: right, pitch: columns, from: k + 1 }.dots(v, factors);
            Columns { elements: left, pitch: rows, from: k + 1 }.subtract_from(x, factors);
        }
        x.iter_mut().for_each(|x| *x = *x * tau);
        (tau, beta.re())
    }
}

/// For each column `c` of the part of `a` right of column `k`: its number in `y`, which is `tau (c' u - correction)`; its number in
/// `row`, less that of `y`; and to `x`, the column times this number.
#[inline(always)]
fn multiply_twice<T: Field>(
    a: &Matrix<'_, T>,
    k: usize,
    [u, x]: [&mut [T]; 2],
    tau: T,
    [correction, row, y]: [&mut [T]; 3],
) {
    let whole = y.len() / WIDTH * WIDTH;
    for j in (0..whole).step_by(WIDTH) {
        let columns = [0, 1, 2, 3].map(|i| &a.column(k + 1 + j + i)[k..]);
        let sums = dots(columns, u);
        for (i, sum) in sums.into_iter().enumerate() {
            y[j + i] = tau * (sum - correction[j + i]);
            row[j + i] = row[j + i] - y[j + i];
        }
        add_columns(x, columns.map(|column| &column[1..]), [0, 1, 2, 3].map(|i| row[j + i]));
    }
    for j in whole..y.len() {
        let column = &a.column(k + 1 + j)[k..];
        y[j] = tau * (dot(column, u) - correction[j]);
        row[j] = row[j] - y[j];
        add_multiple(x, row[j], &column[1..]);
    }
}
