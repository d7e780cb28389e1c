//! The row of `pairwise_distance`.

use super::diff_cov::norm;
use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, row};

/// Operands that broadcast, a norm, what is added to differences, and whether the dimension stays.
fn sample(sizes: [&[usize]; 2], p: f64, eps: f64, keepdim: bool) -> Vec<Arg> {
    let some = |nr: usize| Array::fill(sizes[nr], -2.0..2.0, 1 + nr as u64);
    vec![some(0).into(), some(1).into(), p.into(), eps.into(), keepdim.into()]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let reference = |a: &[Arg]| {
        let (eps, p) = (a[3].number(), a[2].number());
        let apart = a[0].array().zip(a[1].array(), |x, y| x - y + eps);
        let last = apart.sizes.len() - 1;
        vec![apart.reduce(&[last], a[4].flag(), |row| norm(row.iter().copied(), p))]
    };
    let calls = [
        sample([&[3, 4], &[3, 4]], 2.0, 1e-6, false),
        sample([&[3, 4], &[4]], 1.0, 0.5, true),
        sample([&[2, 1, 3], &[2, 3]], 3.0, 0.125, false),
        sample([&[2, 5], &[2, 5]], f64::INFINITY, 0.0, false),
        sample([&[0, 5], &[1, 5]], 2.0, 1e-6, false),
    ];
    let all = row("pairwise_distance").types(FLOATS).terms(16.0).reference(reference);
    vec![calls.into_iter().fold(all, Row::sample)]
}
