//! Attention.

use super::special::sum;
use super::view::build;
use crate::array::Array;
use crate::row::{Arg, Row, WIDE_FLOATS, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::Bool;
use flambeau_ops::dispatch::Value;

fn spread(sizes: &[usize], seed: u64) -> Arg {
    Array::fill(sizes, -1.0..1.0, seed).into()
}

/// Query, key and value of these sizes, mask, no dropout, `is_causal`, `scale`, `enable_gqa`.
fn call(sizes: [&[usize]; 3], mask: Arg, causal: bool, scale: Arg, shared: bool) -> Vec<Arg> {
    let [q, k, v] = [0, 1, 2].map(|n| spread(sizes[n], n as u64));
    vec![q, k, v, mask, 0.0.into(), causal.into(), scale, shared.into()]
}

/// What is added to the score of query `i` and key `j`.
fn bias(a: &[Arg], i: usize, j: usize) -> f64 {
    let hidden = |hides: bool| if hides { f64::NEG_INFINITY } else { 0.0 };
    match &a[3] {
        Arg::Typed(mask, _) => hidden(mask.at(&[i, j]) == 0.0),
        mask => mask.optional().map_or(hidden(a[5].flag() && j > i), |mask| mask.at(&[i, j])),
    }
}

/// For each head and query the values, weighed by the exponentials of the scores; zeros where no key is seen.
fn attended(a: &[Arg]) -> Vec<Array> {
    let [q, k, v] = [0, 1, 2].map(|n| a[n].array());
    let r = q.sizes.len();
    let own = 1.0 / (q.sizes[r - 1] as f64).sqrt();
    let scale = if matches!(a[6], Arg::Value(Value::None)) { own } else { a[6].number() };
    let sizes = [&q.sizes[..r - 1], &v.sizes[r - 1..]].concat();
    let value = |at: &[usize]| {
        let (head, i, c) = (&at[..r - 2], at[r - 2], at[r - 1]);
        // A head of keys serves as many heads of queries, one after the other.
        let served = |d: usize| head[d] * k.sizes[d] / q.sizes[d];
        let own: Vec<usize> = (0..head.len()).map(served).collect();
        let score = |j: usize| {
            let product = |x: usize| q.at(&[head, &[i, x]].concat()) * k.at(&[&own[..], &[j, x]].concat());
            (scale * sum((0..q.sizes[r - 1]).map(product)) + bias(a, i, j)).exp()
        };
        let weights: Vec<f64> = (0..k.sizes[r - 2]).map(score).collect();
        let total = sum(weights.iter().copied());
        let weighed = weights.iter().enumerate().map(|(j, w)| w * v.at(&[&own[..], &[j, c]].concat()));
        if total == 0.0 { 0.0 } else { sum(weighed) / total }
    };
    vec![build(&sizes, value)]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let seen = || {
        Arg::Typed(Array::new(&[3, 4], [1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1].map(f64::from).to_vec()), Bool)
    };
    let plain: [&[usize]; 3] = [&[3, 2], &[4, 2], &[4, 3]];
    let heads: [&[usize]; 3] = [&[2, 4, 5, 8], &[2, 2, 5, 8], &[2, 2, 5, 8]];
    let wrong: [&[usize]; 3] = [&[3, 2], &[4, 3], &[4, 3]];
    vec![
        row("scaled_dot_product_attention")
            .types(WIDE_FLOATS)
            .ulps(6.0)
            .terms(1.0)
            .sample(call(plain, none(), false, none(), false))
            .sample(call(plain, none(), true, 0.5.into(), false))
            .sample(call(plain, seen(), false, none(), false))
            .sample(call(plain, spread(&[3, 4], 7), false, none(), false))
            .sample(call(heads, none(), true, none(), true))
            .sample(call([&[2, 17, 4], &[2, 33, 4], &[2, 33, 4]], none(), false, none(), false))
            .reference(attended)
            .refuses(call(wrong, none(), false, none(), false), ErrorKind::Shape, "width of the query")
            .refuses(call(plain, seen(), true, none(), false), ErrorKind::InvalidArgument, "is_causal"),
    ]
}
