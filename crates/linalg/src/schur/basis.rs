//! The basis of a Schur form, and the changes that the steps of QR iteration make to its columns.

use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;

/// What is multiplied to some columns of the basis from the right.
#[derive(Clone, Copy)]
pub(super) enum Change<T: Field> {
    Reflection { first: usize, width: usize, v: [T; 3], tau: T },
    Rotation { first: usize, cosine: T::Real, sine: T::Real },
}

/// The basis of a Schur form, if it is computed. Its rows are independent, so changes are collected, and then applied to as many rows at
/// once as fit the cache, by several threads.
pub(crate) struct Basis<'a, T: Field> {
    matrix: Option<MatrixMut<'a, T>>,
    waiting: Vec<Change<T>>,
}

impl<'a, T: Field> Basis<'a, T> {
    /// Rows of a panel.
    const PANEL: usize = 64;
    /// Changes for each column that are collected before they are applied.
    const COLLECTED: usize = 16;

    pub(crate) fn new(matrix: Option<MatrixMut<'a, T>>) -> Self {
        let expected = matrix.as_ref().map_or(0, |matrix| 8 * matrix.columns());
        Self { matrix, waiting: scratch::with_capacity(expected) }
    }

    /// Whether there is one.
    pub(super) fn is_computed(&self) -> bool {
        self.matrix.is_some()
    }

    pub(super) fn push(&mut self, change: Change<T>) {
        let Some(matrix) = &self.matrix else { return };
        scratch::push(&mut self.waiting, change);
        if self.waiting.len() >= Self::COLLECTED * matrix.columns() {
            self.apply();
        }
    }

    /// Applies what is waiting.
    pub(super) fn apply(&mut self) {
        let (Some(matrix), waiting) = (&mut self.matrix, &self.waiting) else { return };
        if waiting.is_empty() {
            return;
        }
        for_each_task(matrix.reborrow().panels(Self::PANEL), |mut panel| {
            with_processor_vectors(
                #[inline(always)]
                || change_panel(&mut panel, waiting),
            );
        });
        self.waiting.clear();
    }

    /// Multiplies the columns from `first` on by a square matrix.
    pub(super) fn multiply(&mut self, first: usize, by: &Matrix<'_, T>) {
        self.apply();
        if let Some(matrix) = &mut self.matrix {
            let rows = matrix.rows();
            multiply_right(matrix.reborrow().block(0, first, [rows, by.rows()]), by);
        }
    }
}

/// `a = a b`, for a square matrix `b`.
pub(super) fn multiply_right<T: Field>(mut a: MatrixMut<'_, T>, b: &Matrix<'_, T>) {
    let (rows, columns) = (a.rows(), a.columns());
    if rows == 0 {
        return;
    }
    let mut product = scratch::filled(T::ZERO, rows * columns);
    let mut product = MatrixMut::new(&mut product, rows, columns, rows);
    product.multiply_add(T::Real::ONE, &a.view(), b, T::Real::ZERO);
    a.copy_from(&product.view());
}

/// `a = b' a`, for a square matrix `b`.
pub(super) fn multiply_left<T: Field>(mut a: MatrixMut<'_, T>, b: &Matrix<'_, T>) {
    let (rows, columns) = (a.rows(), a.columns());
    if columns == 0 {
        return;
    }
    let mut product = scratch::filled(T::ZERO, rows * columns);
    let mut product = MatrixMut::new(&mut product, rows, columns, rows);
    product.multiply_add(T::Real::ONE, &b.adjoint(), &a.view(), T::Real::ZERO);
    a.copy_from(&product.view());
}

#[inline(always)]
fn change_panel<T: Field>(panel: &mut MatrixMut<'_, T>, changes: &[Change<T>]) {
    let rows = panel.rows();
    for change in changes {
        match *change {
            Change::Reflection { first, width, v, tau } => {
                reflect_from_right(panel.reborrow().block(0, first, [rows, width]), &v, tau);
            }
            Change::Rotation { first, cosine, sine } => {
                rotate_from_right(&mut panel.reborrow().block(0, first, [rows, 2]), cosine, sine);
            }
        }
    }
}

/// Rotates two columns.
#[inline(always)]
pub(super) fn rotate_from_right<T: Field>(a: &mut MatrixMut<'_, T>, cosine: T::Real, sine: T::Real) {
    let (x, y) = a.two_columns(0, 1);
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (x.scaled(cosine) + y.scaled(sine), y.scaled(cosine) - x.scaled(sine));
    }
}

/// `x = H' x`, for the reflector `I - tau v v'` with `v[0] = 1`, of two or three elements.
#[inline(always)]
pub(super) fn reflect_column<T: Field>(x: &mut [T], v: &[T; 3], tau: T) {
    match x {
        [x, y] => {
            let sum = tau.conj() * (*x + v[1].conj() * *y);
            (*x, *y) = (*x - sum, *y - sum * v[1]);
        }
        [x, y, z] => {
            let sum = tau.conj() * (*x + v[1].conj() * *y + v[2].conj() * *z);
            (*x, *y, *z) = (*x - sum, *y - sum * v[1], *z - sum * v[2]);
        }
        _ => {}
    }
}

/// `a = a H`, for a matrix of two or three columns.
#[inline(always)]
pub(super) fn reflect_from_right<T: Field>(a: MatrixMut<'_, T>, v: &[T; 3], tau: T) {
    let (mut first, rest) = a.split_columns(1);
    let (mut second, mut third) = rest.split_columns(1);
    let third = (third.columns() > 0).then(|| third.column(0));
    reflect_columns(first.column(0), second.column(0), third, v, tau);
}

/// The same for columns as slices.
#[inline(always)]
pub(super) fn reflect_columns<T: Field>(x: &mut [T], y: &mut [T], z: Option<&mut [T]>, v: &[T; 3], tau: T) {
    let factors = [tau, tau * v[1].conj(), tau * v[2].conj()];
    let pairs = x.iter_mut().zip(y);
    let Some(z) = z else {
        for (x, y) in pairs {
            let sum = *x + *y * v[1];
            (*x, *y) = (*x - sum * factors[0], *y - sum * factors[1]);
        }
        return;
    };
    for ((x, y), z) in pairs.zip(z) {
        let sum = *x + *y * v[1] + *z * v[2];
        (*x, *y, *z) = (*x - sum * factors[0], *y - sum * factors[1], *z - sum * factors[2]);
    }
}
