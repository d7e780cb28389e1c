//! Matrices to decompose, and what rows of decompositions have in common.

use super::plain_linalg::*;
use crate::array::Array;
use crate::row::{Arg, Check, Row, WIDE_FLOATS, row};
use flambeau_core::ErrorKind;

/// Well conditioned matrices, which need no exchange of rows for stability.
pub(super) fn regular(sizes: &[usize], seed: u64) -> Array {
    let (columns, rows) = (sizes[sizes.len() - 1], sizes[sizes.len() - 2]);
    let mut a = Array::fill(sizes, -1.0..1.0, seed);
    for (at, x) in a.data.iter_mut().enumerate() {
        let (i, j) = (at / columns % rows, at % columns);
        *x += if (i + 1) % rows == j { 3.0 + j as f64 / 2.0 } else { 0.0 };
    }
    a
}

/// Any matrices.
pub(super) fn any(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -1.0..1.0, seed)
}

/// Symmetric positive definite matrices.
pub(super) fn definite(sizes: &[usize], seed: u64) -> Array {
    let n = sizes[sizes.len() - 1];
    let a = any(sizes, seed);
    each(&a, &[n, n], |m| m.matmul(&transposed(m)).zip(&identity(n, n), |x, one| x + one))
}

/// Symmetric matrices with distinct eigenvalues.
pub(super) fn symmetric(sizes: &[usize], seed: u64) -> Array {
    let n = sizes[sizes.len() - 1];
    let a = any(sizes, seed);
    let spread = build(n, n, |i, j| if i == j { 2.0 * i as f64 } else { 0.0 });
    each(&a, &[n, n], |m| m.zip(&transposed(m), |x, y| (x + y) / 2.0).zip(&spread, |x, s| x + s))
}

pub(super) const SQUARE: &[&[usize]] =
    &[&[3, 3], &[2, 2, 2], &[1, 1], &[0, 0], &[2, 0, 0], &[0, 2, 2], &[18, 18]];
pub(super) const OBLONG: &[&[usize]] =
    &[&[3, 3], &[4, 2], &[2, 4], &[2, 3, 2], &[0, 3], &[3, 0], &[0, 2, 3], &[19, 17]];

/// A row of f32 and f64, with a sample for each of the shapes.
pub(super) fn over(
    name: &'static str,
    shapes: &[&[usize]],
    make: fn(&[usize], u64) -> Array,
    rest: &[Arg],
) -> Row {
    let start = row(name).types(WIDE_FLOATS).ulps(200.0).terms(4.0);
    let sample = |sizes: &&[usize], seed: u64| [vec![make(sizes, seed).into()], rest.to_vec()].concat();
    shapes.iter().zip(1..).fold(start, |row, (sizes, seed)| row.sample(sample(sizes, seed)))
}

pub(super) fn not_square(row: Row, rest: &[Arg]) -> Row {
    let refused = |row: Row, sizes: &[usize], says| {
        row.refuses([vec![any(sizes, 1).into()], rest.to_vec()].concat(), ErrorKind::Shape, says)
    };
    let row = refused(row, &[2, 3], "must be batches of square matrices, but they are 2 by 3 matrices");
    refused(row, &[3], "must have at least 2 dimensions")
}

pub(super) fn not_a_matrix(row: Row, rest: &[Arg]) -> Row {
    let vector = [vec![any(&[3], 1).into()], rest.to_vec()].concat();
    row.refuses(vector, ErrorKind::Shape, "must have at least 2 dimensions")
}

pub(super) fn last(a: &Array) -> [usize; 2] {
    [a.sizes[a.sizes.len() - 2], a.sizes[a.sizes.len() - 1]]
}

pub(super) fn zeros_of_batch(a: &Array) -> Array {
    each(a, &[], |_| Array::scalar(0.0))
}

pub(super) fn vector(values: Vec<f64>) -> Array {
    Array::new(&[values.len()], values)
}

/// The gradient of a symmetric matrix is symmetric, while only one triangle is read: differences of single elements see another one.
pub(super) fn one_triangle(row: Row) -> Row {
    const REASON: &str = "one triangle is read, and the gradient is the symmetric one; crates/autograd/tests/derivatives checks it";
    row.skip(Check::Gradients, REASON).skip(Check::SecondGradients, REASON).skip(Check::Tangents, REASON)
}

pub(super) fn text(value: &str) -> Arg {
    value.into()
}
