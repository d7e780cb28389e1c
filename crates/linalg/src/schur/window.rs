//! Aggressive early deflation: the Schur form of the last rows and columns of a block shows which of its eigenvalues are those of the
//! whole block. In the basis of this form the element left of the window becomes a column, the spike. An eigenvalue whose element of
//! the spike is negligible has converged. The others are exchanged with those before them, so that all are examined. Braman, Byers
//! and Mathias, "The multishift QR algorithm. Part II: aggressive early deflation" (2002).

use super::{Basis, Iteration, complex, negligible_size, pair_less_corner, unit};
use crate::field::{Field, Real};
use crate::hessenberg::{hessenberg, reflect_from_right};
use crate::matrix::{Matrix, MatrixMut};
use crate::qr::{apply_adjoint_to_columns, multiply_by_q};
use crate::reflector::reflector;
use crate::scaling::Failure;
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Rows and columns of a Hessenberg matrix.
pub(super) struct Window<T: Field> {
    /// The rows and columns, then their Schur form.
    pub(super) t: Vec<T>,
    /// The basis of the Schur form.
    pub(super) v: Vec<T>,
    pub(super) rows: usize,
    /// The element left of the first one.
    before: T,
    /// The eigenvalues in the order of the diagonal.
    pub(super) values: Vec<T::Complex>,
}

impl<T: Field> Window<T> {
    /// A copy of some rows and columns of `h`; where they are a block as a whole, without the element before them.
    pub(super) fn new(h: &Matrix<'_, T>, range: Range<usize>, is_whole: bool) -> Self {
        let rows = range.len();
        let (mut t, mut v) = (scratch::filled(T::ZERO, rows * rows), scratch::filled(T::ZERO, rows * rows));
        for j in 0..rows {
            let height = (j + 2).min(rows);
            let column = &h.column(range.start + j)[range.start..range.start + height];
            t[j * rows..j * rows + height].copy_from_slice(column);
            v[j * rows + j] = T::ONE;
        }
        let before = if is_whole { T::ZERO } else { h.at(range.start, range.start - 1) };
        Self { t, v, rows, before, values: scratch::filled(T::Complex::ZERO, rows) }
    }

    pub(super) fn triangle(&self) -> Matrix<'_, T> {
        Matrix::new(&self.t, self.rows, self.rows, self.rows)
    }

    pub(super) fn basis(&self) -> Matrix<'_, T> {
        Matrix::new(&self.v, self.rows, self.rows, self.rows)
    }

    /// The window and its basis, to change.
    pub(super) fn parts(&mut self) -> [MatrixMut<'_, T>; 2] {
        let rows = self.rows;
        [&mut self.t, &mut self.v].map(|x| MatrixMut::new(x, rows, rows, rows))
    }

    /// What is now left of the first element.
    pub(super) fn element_before(&self) -> T {
        self.before * self.v[0].conj()
    }

    /// Computes the Schur form.
    pub(super) fn decompose(&mut self) -> Result<(), Failure> {
        let rows = self.rows;
        let [h, v] = [&mut self.t, &mut self.v].map(|x| MatrixMut::new(x, rows, rows, rows));
        Iteration { h, q: Basis::new(Some(v)), active: 0..rows }.run(&mut self.values)
    }

    /// Orders the eigenvalues so that those which have converged are the last ones. Returns how many have not.
    pub(super) fn deflate(&mut self) -> usize {
        // Between `examined` and `kept` are those that are not yet examined.
        let (mut kept, mut examined, mut moved) = (self.rows, 0, false);
        while examined < kept {
            let width = self.width_before(kept);
            let first = kept - width;
            if self.has_converged(first, width) {
                kept = first;
            } else if first == examined {
                break;
            } else {
                moved = true;
                if !self.move_up(first, width, examined) {
                    break;
                }
                examined += width;
            }
        }
        if moved {
            self.find_values();
        }
        kept
    }

    /// Rows of the diagonal block that ends before a row.
    fn width_before(&self, end: usize) -> usize {
        if !T::IS_COMPLEX && end > 1 && self.triangle().at(end - 1, end - 2) != T::ZERO { 2 } else { 1 }
    }

    /// Whether the spike is negligible in the rows of a diagonal block.
    fn has_converged(&self, first: usize, width: usize) -> bool {
        let (t, v) = (self.triangle(), self.basis());
        let size = |i: usize, j: usize| t.at(i, j).pivot_size();
        let mut own = size(first, first);
        if width == 2 {
            own = own + size(first + 1, first).sqrt() * size(first, first + 1).sqrt();
        }
        let before = self.before.pivot_size();
        let own = if own == T::Real::ZERO { before } else { own };
        let bound = negligible_size::<T::Real>(self.rows).larger(unit::<T::Real>() * own);
        (first..first + width).all(|j| before * v.at(0, j).pivot_size() <= bound)
    }

    /// Moves a diagonal block up to a row. Returns whether it is there, and still one block.
    fn move_up(&mut self, mut first: usize, width: usize, to: usize) -> bool {
        while first > to {
            let above = self.width_before(first);
            if !self.exchange(first - above, [above, width]) {
                return false;
            }
            first -= above;
            if width == 2 && self.triangle().at(first + 1, first) == T::ZERO {
                return false;
            }
        }
        true
    }

    /// The eigenvalues of the diagonal blocks.
    fn find_values(&mut self) {
        let (mut end, zero) = (self.rows, T::Real::ZERO);
        while end > 0 {
            let width = self.width_before(end);
            let t = self.triangle();
            let at = |i: usize, j: usize| complex(t.at(i, j));
            let corner = at(end - 1, end - 1);
            if width == 1 {
                self.values[end - 1] = corner;
            } else {
                let (k, l) = (end - 2, end - 1);
                let [x, y] = pair_less_corner([at(k, k), at(k, l), at(l, k), corner]);
                let pair = if x.im() >= zero { [x, y] } else { [y, x] };
                self.values[k..end].copy_from_slice(&pair.map(|x| corner + x));
            }
            end -= width;
        }
    }

    /// Restores the Hessenberg form of the first `kept` rows: a reflector makes their part of the spike one element again.
    pub(super) fn restore(&mut self, kept: usize) {
        if kept < 2 {
            return;
        }
        let (rows, basis) = (self.rows, self.basis());
        let mut spike = scratch::collect((0..kept).map(|j| basis.at(0, j).conj()));
        let mut tau = scratch::filled(T::ZERO, kept - 1);
        let factor = reflector(&mut spike);
        spike[0] = T::ONE;
        let mut product = scratch::filled(T::ZERO, rows);
        let [mut t, mut v] = self.parts();
        with_processor_vectors(
            #[inline(always)]
            || {
                let mut above = t.reborrow().block(0, 0, [kept, rows]);
                apply_adjoint_to_columns(&spike[1..], factor, &mut above);
                reflect_from_right(&mut above.block(0, 0, [kept, kept]), &spike, factor, &mut product);
                reflect_from_right(&mut v.reborrow().block(0, 0, [rows, kept]), &spike, factor, &mut product);
            },
        );
        hessenberg(&mut t, &(0..kept), &mut tau);
        let vectors = t.view().block(1, 0, [kept - 1, kept - 1]);
        multiply_by_q(vectors, &tau, [true, false], v.block(0, 1, [rows, kept - 1]));
        for j in 0..kept {
            t.column(j)[(j + 2).min(kept)..kept].fill(T::ZERO);
        }
    }
}
