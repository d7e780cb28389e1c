//! What is common to both kinds of matrices where two parts are joined: poles and weights that the secular equation need not contain,
//! and products of vectors that use the zeros in them.

use crate::matrix::{Matrix, MatrixMut};
use crate::rotations::rotate_columns;
use flambeau_gemm::scratch;

/// Columns `x` and `y` become `c x + s y` and `c y - s x`.
type Rotation = ([usize; 2], [f64; 2]);

/// Columns that remain in the secular equation, in the order of their poles, and those that do not.
pub(crate) struct Deflation {
    pub(crate) kept: Vec<usize>,
    pub(crate) deflated: Vec<usize>,
    pub(crate) rotations: Vec<Rotation>,
}

impl Deflation {
    /// Of poles `d`, visited in ascending `order`, with `weights`. Weights up to `negligible` count as 0. Of two poles so near to each
    /// other that a rotation by which one weight vanishes changes their matrix by at most `tolerance`, one is deflated.
    pub(crate) fn new(
        d: &mut [f64],
        weights: &mut [f64],
        order: impl Iterator<Item = usize>,
        [negligible, tolerance]: [f64; 2],
    ) -> Self {
        let mut found = Self {
            kept: scratch::with_capacity(d.len()),
            deflated: scratch::with_capacity(d.len()),
            rotations: scratch::with_capacity(0),
        };
        let mut before = None::<usize>;
        for j in order {
            if weights[j].abs() <= negligible {
                scratch::push(&mut found.deflated, j);
                continue;
            }
            if let Some(i) = before {
                let length = weights[i].hypot(weights[j]);
                let (c, s) = (weights[j] / length, -weights[i] / length);
                if ((d[j] - d[i]) * c * s).abs() <= tolerance {
                    (weights[i], weights[j]) = (0.0, length);
                    (d[i], d[j]) = (d[i] * c * c + d[j] * s * s, d[i] * s * s + d[j] * c * c);
                    scratch::push(&mut found.rotations, ([i, j], [c, s]));
                    scratch::push(&mut found.deflated, i);
                } else {
                    scratch::push(&mut found.kept, i);
                }
            }
            before = Some(j);
        }
        before.into_iter().for_each(|last| scratch::push(&mut found.kept, last));
        found
    }

    /// Rotates the columns of a matrix.
    pub(crate) fn rotate(&self, matrix: &mut MatrixMut<'_, f64>) {
        for ([i, j], [c, s]) in &self.rotations {
            rotate_columns(matrix, [*i, *j], *c, *s);
        }
    }

    /// What `values` of the columns become: those of the roots, then those that were deflated.
    pub(crate) fn replace(&self, values: &mut [f64], of_roots: &[f64]) {
        let deflated = scratch::collect(self.deflated.iter().map(|at| values[*at]));
        let (kept, rest) = values.split_at_mut(of_roots.len());
        kept.copy_from_slice(of_roots);
        rest[..deflated.len()].copy_from_slice(&deflated);
    }
}

/// Which rows of a column are not 0, where a matrix of vectors is cut into rows above and rows below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Above,
    Both,
    Below,
}

/// The columns that remain, ordered so that those with rows above are adjacent, and those with rows below too.
pub(crate) struct Grouping {
    /// For each row of the vectors of the secular equation, the column that it belongs to.
    columns: Vec<usize>,
    /// For each pole, its row.
    pub(crate) row_of: Vec<usize>,
    /// The columns with rows above are before this one.
    above: usize,
    /// The columns with rows below begin here.
    below: usize,
}

impl Grouping {
    /// Of columns `kept`, with the rows that they had before rotations.
    pub(crate) fn new(deflation: &Deflation, rows: impl Fn(usize) -> Rows, count: usize) -> Self {
        let mut rows = scratch::collect((0..count).map(rows));
        for ([i, j], _) in &deflation.rotations {
            if rows[*i] != rows[*j] {
                (rows[*i], rows[*j]) = (Rows::Both, Rows::Both);
            }
        }
        let kept = &deflation.kept;
        let mut grouping = Self {
            columns: scratch::with_capacity(kept.len()),
            row_of: scratch::filled(0, kept.len()),
            above: 0,
            below: 0,
        };
        for group in [Rows::Above, Rows::Both, Rows::Below] {
            for (pole, column) in kept.iter().enumerate().filter(|(_, column)| rows[**column] == group) {
                grouping.row_of[pole] = grouping.columns.len();
                scratch::push(&mut grouping.columns, *column);
            }
            match group {
                Rows::Above => grouping.below = grouping.columns.len(),
                Rows::Both => grouping.above = grouping.columns.len(),
                Rows::Below => {}
            }
        }
        grouping
    }

    /// Overwrites the first columns of `q` with the products of those that remain and the vectors of the secular equation, which are
    /// the columns of `vectors`. The deflated columns follow. Rows from `cut` on are those below.
    pub(crate) fn multiply(
        &self,
        q: &mut MatrixMut<'_, f64>,
        cut: usize,
        deflated: &[usize],
        vectors: &[f64],
    ) {
        let (rows, count) = (q.rows(), self.columns.len());
        let mut others = scratch::with_capacity(rows * deflated.len());
        deflated.iter().for_each(|column| others.extend_from_slice(q.column(*column)));
        let vectors = Matrix::new(vectors, count, count, count);
        let products = [(0..cut, 0..self.above), (cut..rows, self.below..count)].map(|(rows, part)| {
            let mut columns = scratch::with_capacity(rows.len() * part.len());
            self.columns[part.clone()]
                .iter()
                .for_each(|j| columns.extend_from_slice(&q.column(*j)[rows.clone()]));
            (rows, part, columns)
        });
        for (rows, part, columns) in &products {
            let columns = Matrix::new(columns, rows.len(), part.len(), rows.len());
            let vectors = vectors.block(part.start, 0, [part.len(), count]);
            let mut to = q.reborrow().block(rows.start, 0, [rows.len(), count]);
            to.multiply_add(1.0, &columns, &vectors, 0.0);
        }
        for (j, column) in others.chunks_exact(rows.max(1)).enumerate() {
            q.column(count + j).copy_from_slice(column);
        }
    }
}
