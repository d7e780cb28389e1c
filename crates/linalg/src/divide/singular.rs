//! Singular values and vectors of upper bidiagonal matrices by divide and conquer.
//!
//! Without one of its rows a matrix is two bidiagonal ones, each with a column more than rows. With their singular vectors the whole is
//! `U M V'`, where M is diagonal but for that row, and its squared singular values are the roots of a secular equation. Only the first
//! and the last row of V enter it. They are computed apart from V, so that values are the same with vectors and without.

use super::LEAF;
use super::deflation::{Deflation, Grouping, Rows};
use super::eigen::{TOLERANCE, largest};
use super::secular::{Equation, Root};
use crate::bidiagonal::iterate;
use crate::matrix::MatrixMut;
use crate::reflector::dot;
use crate::rotations::{Rotations, order_of, rotate_columns, rotation_of};
use crate::scaling::{Failure, power_of_two};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// A number that counts as 0 beside 1. Its square is far from the end of the range.
const VANISHING: f64 = 1e-120;

/// A part of a bidiagonal matrix, with as many columns as rows or one more, and its singular vectors.
pub(crate) struct Part<'a> {
    /// The diagonal, which becomes the singular values in the order of the vectors.
    pub(crate) d: &'a mut [f64],
    /// What is right of the diagonal: as many numbers as there are columns but the first.
    pub(crate) e: &'a mut [f64],
    /// The first and the last row of the matrix of right vectors. If it has a column more than there are values, that is the vector
    /// which the matrix maps to 0.
    pub(crate) ends: [&'a mut [f64]; 2],
    /// The left and the right vectors, if they are computed. Zeros before.
    pub(crate) vectors: Option<[MatrixMut<'a, f64>; 2]>,
}

/// Overwrites `d` with the singular values, in no order, and `vectors` with the left and right vectors.
pub(crate) fn decompose(
    d: &mut [f64],
    e: &mut [f64],
    vectors: Option<[MatrixMut<'_, f64>; 2]>,
) -> Result<(), Failure> {
    let n = d.len();
    let (mut first, mut last) = (scratch::filled(0.0, n), scratch::filled(0.0, n));
    // Rotations of subnormal numbers are not orthogonal.
    let vanishing = VANISHING * largest(d).max(largest(e));
    d.iter_mut().chain(&mut *e).filter(|x| x.abs() <= vanishing).for_each(|x| *x = 0.0);
    solve(&mut Part { d, e, ends: [&mut first, &mut last], vectors }, false)
}

/// The block on the diagonal from row and column `at` on.
fn block<'a>(matrix: &'a mut MatrixMut<'_, f64>, at: usize, size: usize) -> MatrixMut<'a, f64> {
    matrix.reborrow().block(at, at, [size, size])
}

/// The values of a part, its vectors, and, if they are `needed`, the first and last rows of the right ones.
fn solve(part: &mut Part<'_>, needed: bool) -> Result<(), Failure> {
    let (rows, columns) = (part.d.len(), part.ends[0].len());
    if columns <= LEAF {
        return solve_leaf(part);
    }
    let cut = columns / 2 - 1;
    let joint = [part.d[cut], part.e[cut]];
    let [first, last] = &mut part.ends;
    let [(first, other_first), (last, other_last)] = [first, last].map(|end| end.split_at_mut(cut + 1));
    let mut above = Part {
        d: &mut part.d[..cut],
        e: &mut part.e[..cut],
        ends: [first, last],
        vectors: part.vectors.as_mut().map(|[u, v]| [block(u, 0, cut), block(v, 0, cut + 1)]),
    };
    solve(&mut above, true)?;
    let (start, ends) = (cut + 1, [other_first, other_last]);
    let mut below = Part {
        d: &mut part.d[start..],
        e: &mut part.e[start..],
        ends,
        vectors: part
            .vectors
            .as_mut()
            .map(|[u, v]| [block(u, start, rows - start), block(v, start, columns - start)]),
    };
    solve(&mut below, true)?;
    Joint::new(part, cut, joint).finish(part, needed)
}

/// By QR iteration.
fn solve_leaf(part: &mut Part<'_>) -> Result<(), Failure> {
    let (rows, columns) = (part.d.len(), part.ends[0].len());
    let alone = part.vectors.is_none();
    // Either the identity, with rows of zeros up to a size that is rotated fast, or its first and last row.
    let (height, last) = if alone { (2, 1) } else { (LEAF, columns - 1) };
    let mut v = scratch::filled(0.0, height * columns);
    if alone {
        (v[0], v[(columns - 1) * height + 1]) = (1.0, 1.0);
    } else {
        (0..columns).for_each(|j| v[j * height + j] = 1.0);
    }
    let mut u = scratch::filled(0.0, if alone { 0 } else { LEAF * rows });
    (0..rows).for_each(|j| u.iter_mut().skip(j * LEAF + j).take(1).for_each(|u| *u = 1.0));
    let mut left = Rotations::new((!alone).then(|| MatrixMut::new(&mut u, LEAF, rows, LEAF)));
    let mut right = Rotations::new(Some(MatrixMut::new(&mut v, height, columns, height)));
    if columns > rows {
        make_square(part.d, part.e, &mut left, &mut right);
    }
    iterate(part.d, &mut part.e[..rows.saturating_sub(1)], &mut left, &mut right)?;
    let signs = part.d.iter().map(|value| value.is_sign_negative());
    let negative = scratch::collect(signs.chain(std::iter::repeat_n(false, columns - rows)));
    part.d.iter_mut().for_each(|value| *value = value.abs());
    left.finish(&scratch::collect(0..rows), &scratch::filled(false, rows));
    right.finish(&scratch::collect(0..columns), &negative);
    for (j, column) in v.chunks_exact(height).enumerate() {
        (part.ends[0][j], part.ends[1][j]) = (column[0], column[last]);
    }
    let Some([to_u, to_v]) = &mut part.vectors else { return Ok(()) };
    (0..rows).for_each(|j| to_u.column(j).copy_from_slice(&u[j * LEAF..][..rows]));
    (0..columns).for_each(|j| to_v.column(j).copy_from_slice(&v[j * height..][..columns]));
    Ok(())
}

/// Rotates the column that is too many into the others, from the right, which makes the matrix lower bidiagonal; then its rows, which
/// makes it an upper one again.
fn make_square<'a>(
    d: &mut [f64],
    e: &mut [f64],
    left: &mut Rotations<'a, f64>,
    right: &mut Rotations<'a, f64>,
) {
    for (matrix, count) in [(right, d.len()), (left, d.len().saturating_sub(1))] {
        for i in 0..count {
            let [c, s, r] = rotation_of(d[i], e[i]);
            (d[i], e[i]) = (r, 0.0);
            if let Some(next) = d.get_mut(i + 1) {
                (e[i], *next) = (s * *next, c * *next);
            }
            matrix.rotate([i, i + 1], c, s);
        }
    }
}

/// Two parts that are joined.
struct Joint {
    cut: usize,
    /// The joining row, in the basis of right vectors.
    weights: Vec<f64>,
    /// Without the joining row, which always remains and has pole 0.
    deflation: Deflation,
    /// By what numbers are divided while the secular equation is solved: a power of two.
    scale: f64,
    /// Whether the weight of the joining row vanishes, and so the smallest value.
    is_singular: bool,
}

impl Joint {
    /// Joins two parts by the row with numbers `joint`, to the left and to the right of the cut. Rotates vectors where poles are equal.
    fn new(part: &mut Part<'_>, cut: usize, joint: [f64; 2]) -> Self {
        part.d[cut] = 0.0;
        let scale = power_of_two(largest(part.d).max(joint[0].abs()).max(joint[1].abs()));
        part.d.iter_mut().for_each(|d| *d /= scale);
        let [alpha, beta] = joint.map(|x| x / scale);
        let rows = part.d.len();
        let [first, last] = &mut part.ends;
        let above = last[..=cut].iter().map(|x| x * alpha);
        let mut weights = scratch::collect(above.chain(first[cut + 1..].iter().map(|x| x * beta)));
        first[cut + 1..].fill(0.0);
        last[..=cut].fill(0.0);
        if let Some(other) = weights.get(rows).copied() {
            // Both parts have a vector that they map to 0. One combination of these is mapped to the joining row, the other to 0.
            let [c, s, r] = rotation_of(weights[cut], other);
            weights[cut] = r;
            weights.truncate(rows);
            for end in &mut part.ends {
                rotate_columns(&mut MatrixMut::new(end, 1, rows + 1, 1), [cut, rows], c, s);
            }
            part.vectors.iter_mut().for_each(|[_, v]| rotate_columns(v, [cut, rows], c, s));
        }
        if let Some([u, _]) = &mut part.vectors {
            u.set(cut, cut, 1.0);
        }
        let tolerance = TOLERANCE * largest(part.d).max(alpha.abs()).max(beta.abs());
        let order = order_of(part.d, false).into_iter().filter(|at| *at != cut);
        let deflation = Deflation::new(part.d, &mut weights, order, [tolerance, tolerance]);
        for end in &mut part.ends {
            deflation.rotate(&mut MatrixMut::new(&mut end[..rows], 1, rows, 1));
        }
        part.vectors.iter_mut().flatten().for_each(|vectors| deflation.rotate(vectors));
        let mut found = Self { cut, weights, deflation, scale, is_singular: false };
        found.separate(part.d, tolerance);
        found
    }

    /// Puts the joining row before the others, with a weight that is not 0, and the smallest other pole apart from 0.
    fn separate(&mut self, d: &mut [f64], tolerance: f64) {
        let own = &mut self.weights[self.cut];
        self.is_singular = own.abs() <= VANISHING;
        if self.is_singular {
            *own = VANISHING;
        }
        if let Some(smallest) = self.deflation.kept.first() {
            d[*smallest] = d[*smallest].max(tolerance / 2.0);
        }
        self.deflation.kept.insert(0, self.cut);
    }

    fn finish(self, part: &mut Part<'_>, needed: bool) -> Result<(), Failure> {
        let kept = &self.deflation.kept;
        let of_kept = |values: &[f64]| scratch::collect(kept.iter().map(|at| values[*at]));
        let (points, weights) = (of_kept(part.d), of_kept(&self.weights));
        let equation = Equation { points: &points, weights: &weights, squared: true };
        let roots = equation.solve()?;
        let mut values = scratch::collect(roots.iter().map(|root| equation.value(*root)));
        if self.is_singular {
            values[0] = 0.0;
        }
        if needed || part.vectors.is_some() {
            let exact = equation.exact_weights(&roots);
            let rows = part.d.len();
            let has_more_columns = part.ends[0].len() > rows;
            let rows_of = |column: usize| match column.cmp(&self.cut) {
                std::cmp::Ordering::Less => Rows::Above,
                std::cmp::Ordering::Equal if has_more_columns => Rows::Both,
                std::cmp::Ordering::Equal => Rows::Above,
                std::cmp::Ordering::Greater => Rows::Below,
            };
            let grouping = Grouping::new(&self.deflation, rows_of, rows);
            let ends =
                if needed { [0, 1].map(|end| of_kept(part.ends[end])) } else { [Vec::new(), Vec::new()] };
            let into = part.vectors.is_some().then_some(&grouping);
            let found = Vectors::new(&equation, &roots, &exact, &ends, into);
            if needed {
                part.ends
                    .iter_mut()
                    .zip(&found.ends)
                    .for_each(|(end, new)| self.deflation.replace(&mut end[..rows], new));
            }
            for (q, vectors) in part.vectors.iter_mut().flatten().zip([&found.left, &found.right]) {
                let mut of_values = q.reborrow().split_columns(rows).0;
                grouping.multiply(&mut of_values, self.cut + 1, &self.deflation.deflated, vectors);
            }
        }
        self.deflation.replace(part.d, &values);
        part.d.iter_mut().for_each(|d| *d *= self.scale);
        Ok(())
    }
}

/// The vectors of the secular equation.
struct Vectors {
    /// With rows as in the grouping, if there is one.
    left: Vec<f64>,
    right: Vec<f64>,
    /// The products of the ends and the right vectors.
    ends: [Vec<f64>; 2],
}

impl Vectors {
    fn new(
        equation: &Equation<'_>,
        roots: &[Root],
        weights: &[f64],
        ends: &[Vec<f64>; 2],
        grouping: Option<&Grouping>,
    ) -> Self {
        let count = roots.len();
        let square = if grouping.is_some() { count * count } else { 0 };
        let of_ends = || scratch::filled(0.0, if ends[0].is_empty() { 0 } else { count });
        let mut found = Self {
            left: scratch::filled(0.0, square),
            right: scratch::filled(0.0, square),
            ends: [of_ends(), of_ends()],
        };
        let (mut left, mut right) = (scratch::filled(0.0, count), scratch::filled(0.0, count));
        for (i, root) in roots.iter().enumerate() {
            with_processor_vectors(
                #[inline(always)]
                || {
                    equation.distances(*root, &mut right);
                    right.iter_mut().zip(weights).for_each(|(x, weight)| *x = weight / *x);
                    left.iter_mut().zip(&right).zip(equation.points).for_each(|((y, x), d)| *y = d * x);
                    left[0] = -1.0;
                    for x in [&mut left, &mut right] {
                        let length = dot(x, x).sqrt();
                        x.iter_mut().for_each(|x| *x /= length);
                    }
                    for (products, end) in found.ends.iter_mut().zip(ends).filter(|(_, end)| !end.is_empty())
                    {
                        products[i] = dot(end, &right);
                    }
                },
            );
            let Some(grouping) = grouping else { continue };
            for (to, from) in [(&mut found.left, &left), (&mut found.right, &right)] {
                let column = &mut to[i * count..(i + 1) * count];
                grouping.row_of.iter().zip(from).for_each(|(row, x)| column[*row] = *x);
            }
        }
        found
    }
}
