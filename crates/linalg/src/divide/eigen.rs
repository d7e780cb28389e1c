//! Eigenvalues and eigenvectors of symmetric tridiagonal matrices by divide and conquer.
//!
//! A matrix is two tridiagonal ones and a change of rank one. With the eigenvectors Q of these two the matrix is
//! `Q (D + w w') Q'`, and its eigenvalues are the roots of a secular equation. Only the first and the last row of Q enter it. They are
//! computed apart from Q, so that eigenvalues are the same with eigenvectors and without.

use super::LEAF;
use super::deflation::{Deflation, Grouping, Rows};
use super::secular::{Equation, Root};
use crate::matrix::MatrixMut;
use crate::reflector::dot;
use crate::rotations::{Rotations, order_of};
use crate::scaling::{Failure, power_of_two};
use crate::tridiagonal::iterate;
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// Differences that count as rounding errors, in those of the largest number.
pub(super) const TOLERANCE: f64 = 8.0 * f64::EPSILON / 2.0;

/// A part of a tridiagonal matrix, and its eigenvectors.
pub(crate) struct Part<'a> {
    /// The diagonal, which becomes the eigenvalues in the order of the vectors.
    pub(crate) d: &'a mut [f64],
    /// What is beside the diagonal.
    pub(crate) e: &'a mut [f64],
    /// The first and the last row of the matrix of eigenvectors.
    pub(crate) ends: [&'a mut [f64]; 2],
    /// The eigenvectors, if they are computed. Zeros before.
    pub(crate) vectors: Option<MatrixMut<'a, f64>>,
}

/// Overwrites `d` with the eigenvalues, in no order, and `vectors` with the eigenvectors.
pub(crate) fn decompose(
    d: &mut [f64],
    e: &mut [f64],
    vectors: Option<MatrixMut<'_, f64>>,
) -> Result<(), Failure> {
    let n = d.len();
    let (mut first, mut last) = (scratch::filled(0.0, n), scratch::filled(0.0, n));
    solve(&mut Part { d, e, ends: [&mut first, &mut last], vectors }, false)
}

/// The eigenvalues of a part, its vectors, and, if they are `needed`, their first and last rows.
fn solve(part: &mut Part<'_>, needed: bool) -> Result<(), Failure> {
    let n = part.d.len();
    if n <= LEAF {
        return solve_leaf(part);
    }
    let cut = n / 2;
    let joint = part.e[cut - 1];
    part.d[cut - 1] -= joint.abs();
    part.d[cut] -= joint.abs();
    {
        let [first, last] = &mut part.ends;
        let [(d, other_d), (first, other_first), (last, other_last)] =
            [&mut *part.d, first, last].map(|x| x.split_at_mut(cut));
        let (e, other_e) = part.e.split_at_mut(cut);
        let (above, below) = match &mut part.vectors {
            Some(vectors) => {
                let (left, right) = vectors.reborrow().split_columns(cut);
                (Some(left.split_rows(cut).0), Some(right.split_rows(cut).1))
            }
            None => (None, None),
        };
        solve(&mut Part { d, e: &mut e[..cut - 1], ends: [first, last], vectors: above }, true)?;
        let ends = [other_first, other_last];
        solve(&mut Part { d: other_d, e: other_e, ends, vectors: below }, true)?;
    }
    Joint::new(part, cut, joint).finish(part, needed)
}

/// By QR iteration.
fn solve_leaf(part: &mut Part<'_>) -> Result<(), Failure> {
    let n = part.d.len();
    let rows = if part.vectors.is_some() { LEAF } else { 2 };
    let mut q = scratch::filled(0.0, rows * n);
    // Either the identity, with rows of zeros up to a size that is rotated fast, or its first and last row.
    let last = if part.vectors.is_some() { n - 1 } else { 1 };
    match part.vectors {
        Some(_) => (0..n).for_each(|j| q[j * rows + j] = 1.0),
        None => (q[0], q[(n - 1) * rows + 1]) = (1.0, 1.0),
    }
    let mut rotations = Rotations::new(Some(MatrixMut::new(&mut q, rows, n, rows)));
    iterate(part.d, part.e, &mut rotations)?;
    rotations.finish(&scratch::collect(0..n), &scratch::filled(false, n));
    for (j, column) in q.chunks_exact(rows).enumerate() {
        (part.ends[0][j], part.ends[1][j]) = (column[0], column[last]);
        if let Some(vectors) = &mut part.vectors {
            vectors.column(j).copy_from_slice(&column[..n]);
        }
    }
    Ok(())
}

/// Two parts that are joined.
struct Joint {
    cut: usize,
    /// The weight of each column.
    weights: Vec<f64>,
    deflation: Deflation,
    /// By what numbers are divided while the secular equation is solved: a power of two.
    scale: f64,
}

impl Joint {
    /// Joins two parts with the element `joint` beside their diagonals. Rotates vectors where poles are equal.
    fn new(part: &mut Part<'_>, cut: usize, joint: f64) -> Self {
        let d = &mut *part.d;
        let scale = power_of_two(largest(d).max(joint.abs()));
        d.iter_mut().for_each(|d| *d /= scale);
        let root = (joint.abs() / scale).sqrt();
        let [first, last] = &mut part.ends;
        let above = last[..cut].iter().map(|x| x * root);
        let below = first[cut..].iter().map(|x| x * root.copysign(joint));
        let mut weights = scratch::collect(above.chain(below));
        first[cut..].fill(0.0);
        last[..cut].fill(0.0);
        let (length, largest_weight) = (std::f64::consts::SQRT_2 * root, largest(&weights));
        let tolerance = TOLERANCE * largest(d).max(length * largest_weight);
        // A weight that is left out changes the matrix by its product with the others.
        let negligible = if length > 0.0 { tolerance / length } else { 0.0 };
        let order = order_of(d, false);
        let deflation = Deflation::new(d, &mut weights, order.into_iter(), [negligible, tolerance]);
        for ends in &mut part.ends {
            deflation.rotate(&mut MatrixMut::new(ends, 1, weights.len(), 1));
        }
        part.vectors.iter_mut().for_each(|vectors| deflation.rotate(vectors));
        Self { cut, weights, deflation, scale }
    }

    fn finish(self, part: &mut Part<'_>, needed: bool) -> Result<(), Failure> {
        let kept = &self.deflation.kept;
        let of_kept = |values: &[f64]| scratch::collect(kept.iter().map(|at| values[*at]));
        let (points, weights) = (of_kept(part.d), of_kept(&self.weights));
        let equation = Equation { points: &points, weights: &weights, squared: false };
        let roots = equation.solve()?;
        let values = scratch::collect(roots.iter().map(|root| equation.value(*root)));
        if needed || part.vectors.is_some() {
            let exact = equation.exact_weights(&roots);
            let count = part.d.len();
            let half = |column: usize| if column < self.cut { Rows::Above } else { Rows::Below };
            let grouping = Grouping::new(&self.deflation, half, count);
            let ends =
                if needed { [0, 1].map(|end| of_kept(part.ends[end])) } else { [Vec::new(), Vec::new()] };
            let into = part.vectors.is_some().then_some(&grouping);
            let [vectors, first, last] = vectors(&equation, &roots, &exact, &ends, into);
            if needed {
                self.deflation.replace(part.ends[0], &first);
                self.deflation.replace(part.ends[1], &last);
            }
            if let Some(q) = &mut part.vectors {
                grouping.multiply(q, self.cut, &self.deflation.deflated, &vectors);
            }
        }
        self.deflation.replace(part.d, &values);
        part.d.iter_mut().for_each(|d| *d *= self.scale);
        Ok(())
    }
}

/// The largest magnitude.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// The vectors of the secular equation, with rows as in `grouping`, if there is one; and the products of `ends` and the vectors.
fn vectors(
    equation: &Equation<'_>,
    roots: &[Root],
    weights: &[f64],
    ends: &[Vec<f64>; 2],
    grouping: Option<&Grouping>,
) -> [Vec<f64>; 3] {
    let count = roots.len();
    let mut vectors = scratch::filled(0.0, if grouping.is_some() { count * count } else { 0 });
    let mut products = [0, 1].map(|_| scratch::filled(0.0, if ends[0].is_empty() { 0 } else { count }));
    let mut x = scratch::filled(0.0, count);
    for (i, root) in roots.iter().enumerate() {
        with_processor_vectors(
            #[inline(always)]
            || {
                equation.distances(*root, &mut x);
                x.iter_mut().zip(weights).for_each(|(x, weight)| *x = weight / *x);
                let length = dot(&x, &x).sqrt();
                x.iter_mut().for_each(|x| *x /= length);
                for (products, end) in products.iter_mut().zip(ends).filter(|(_, end)| !end.is_empty()) {
                    products[i] = dot(end, &x);
                }
            },
        );
        if let Some(grouping) = grouping {
            let column = &mut vectors[i * count..(i + 1) * count];
            grouping.row_of.iter().zip(&x).for_each(|(row, x)| column[*row] = *x);
        }
    }
    let [first, last] = products;
    [vectors, first, last]
}
