//! Attention.

use super::special::sum;
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, Check, Row, WIDE_FLOATS, none, row};
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

/// Query, key and value of these sizes with matrices of `outer`, what is added to the scores, `is_causal`, `scale`.
fn tiled(outer: &[usize], [rows, keys, depth, width]: [usize; 4], bias: Arg, causal: bool) -> Vec<Arg> {
    let sizes = [[rows, depth], [keys, depth], [keys, width]].map(|inner| [outer, &inner].concat());
    let [q, k, v] = [0, 1, 2].map(|n| spread(&sizes[n], n as u64));
    vec![q, k, v, bias, causal.into(), 0.7.into()]
}

/// The arguments of a call, with accessors for loops.
struct Given<'a> {
    q: &'a Array,
    k: &'a Array,
    v: &'a Array,
    mask: &'a Arg,
    causal: bool,
    scale: f64,
}

impl<'a> Given<'a> {
    fn new(a: &'a [Arg], causal: &Arg, scale: &Arg) -> Self {
        let [q, k, v] = [0, 1, 2].map(|n| a[n].array());
        let own = 1.0 / (q.sizes[q.sizes.len() - 1] as f64).sqrt();
        let scale = if matches!(scale, Arg::Value(Value::None)) { own } else { scale.number() };
        Given { q, k, v, mask: &a[3], causal: causal.flag(), scale }
    }

    /// Of `_tiled_attention`.
    fn tiled(a: &'a [Arg]) -> Self {
        Given::new(a, &a[4], &a[5])
    }

    fn outer(&self) -> &[usize] {
        &self.q.sizes[..self.q.sizes.len() - 2]
    }

    fn keys(&self) -> usize {
        self.k.sizes[self.k.sizes.len() - 2]
    }

    /// The sizes of the results, with a last dimension of `width`.
    fn sizes(&self, width: &[usize]) -> Vec<usize> {
        [&self.q.sizes[..self.q.sizes.len() - 1], width].concat()
    }

    /// The head of keys for a head of queries: with grouped queries several consecutive heads share one.
    fn own(&self, head: &[usize]) -> Vec<usize> {
        (0..head.len()).map(|d| head[d] * self.k.sizes[d] / self.q.sizes[d]).collect()
    }

    /// What is added to the score of query `i` and key `j`.
    fn bias(&self, head: &[usize], i: usize, j: usize) -> f64 {
        let hidden = |hides: bool| if hides { f64::NEG_INFINITY } else { 0.0 };
        let index_in_mask =
            |mask: &Array| if mask.sizes.len() == 2 { vec![i, j] } else { [head, &[i, j]].concat() };
        let added = match self.mask {
            Arg::Typed(mask, Bool) => hidden(mask.at(&index_in_mask(mask)) == 0.0),
            mask => mask.optional().map_or(0.0, |mask| mask.at(&index_in_mask(mask))),
        };
        added + hidden(self.causal && j > i)
    }

    /// The scores of a query.
    fn scores(&self, head: &[usize], i: usize) -> Vec<f64> {
        let (own, depth) = (self.own(head), self.q.sizes[self.q.sizes.len() - 1]);
        let score = |j: usize| {
            let product =
                |x: usize| self.q.at(&[head, &[i, x]].concat()) * self.k.at(&[&own[..], &[j, x]].concat());
            self.scale * sum((0..depth).map(product)) + self.bias(head, i, j)
        };
        (0..self.keys()).map(score).collect()
    }

    /// The maximum score of a query and the inverse of the sum of its exponentials; zeros where it sees no key.
    fn statistics(&self, head: &[usize], i: usize) -> [f64; 2] {
        let scores = self.scores(head, i);
        let max_score = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max_score == f64::NEG_INFINITY {
            return [0.0; 2];
        }
        [max_score, 1.0 / sum(scores.iter().map(|score| (score - max_score).exp()))]
    }

    fn weights(&self, head: &[usize], i: usize) -> Vec<f64> {
        let [max_score, inverse] = self.statistics(head, i);
        self.scores(head, i).iter().map(|score| (score - max_score).exp() * inverse).collect()
    }

    /// For each head and query the values, by their weights.
    fn attended(&self) -> Array {
        let r = self.q.sizes.len();
        build(&self.sizes(&self.v.sizes[r - 1..]), |at| {
            let (head, i, c) = (&at[..r - 2], at[r - 2], at[r - 1]);
            let (own, weights) = (self.own(head), self.weights(head, i));
            sum(weights.iter().enumerate().map(|(j, w)| w * self.v.at(&[&own[..], &[j, c]].concat())))
        })
    }

    fn statistic(&self, which: usize) -> Array {
        build(&self.sizes(&[]), |at| self.statistics(&at[..at.len() - 1], at[at.len() - 1])[which])
    }

    /// The gradients of query, key and value.
    fn slopes(&self, grad: &Array) -> Vec<Array> {
        let r = self.q.sizes.len();
        let rows = self.q.sizes[r - 2];
        let row = |head: &[usize], i: usize| -> (Vec<f64>, Vec<f64>) {
            let weights = self.weights(head, i);
            let product = |j: usize, c: usize| {
                grad.at(&[head, &[i, c]].concat()) * self.v.at(&[head, &[j, c]].concat())
            };
            let slopes: Vec<f64> =
                (0..self.keys()).map(|j| sum((0..grad.sizes[r - 1]).map(|c| product(j, c)))).collect();
            let mean = sum(weights.iter().zip(&slopes).map(|(w, slope)| w * slope));
            let slopes = weights.iter().zip(slopes).map(|(w, slope)| w * (slope - mean)).collect();
            (weights, slopes)
        };
        let heads: Vec<Vec<usize>> = indices(self.outer()).collect();
        let tables: Vec<Vec<(Vec<f64>, Vec<f64>)>> =
            heads.iter().map(|head| (0..rows).map(|i| row(head, i)).collect()).collect();
        let table = |head: &[usize]| &tables[heads.iter().position(|h| h == head).unwrap()];
        let by_query = |at: &[usize]| {
            let (head, x) = (&at[..r - 2], at[r - 1]);
            let slopes = &table(head)[at[r - 2]].1;
            self.scale * sum((0..self.keys()).map(|j| slopes[j] * self.k.at(&[head, &[j, x]].concat())))
        };
        let by_key = |at: &[usize]| {
            let (head, j, x) = (&at[..r - 2], at[r - 2], at[r - 1]);
            self.scale * sum((0..rows).map(|i| table(head)[i].1[j] * self.q.at(&[head, &[i, x]].concat())))
        };
        let by_value = |at: &[usize]| {
            let (head, j, c) = (&at[..r - 2], at[r - 2], at[r - 1]);
            sum((0..rows).map(|i| table(head)[i].0[j] * grad.at(&[head, &[i, c]].concat())))
        };
        vec![build(&self.q.sizes, by_query), build(&self.k.sizes, by_key), build(&self.v.sizes, by_value)]
    }
}

/// Calls of the tiled operators: one block and several, in part of a vector and past one, more queries than keys and fewer, none.
fn calls() -> Vec<Vec<Arg>> {
    let hidden = f64::NEG_INFINITY;
    let blind = [0.5, hidden, -0.25, 1.0, hidden, hidden, hidden, hidden, 0.0, 0.5, hidden, -1.0];
    let blind = || Arg::Tensor(Array::new(&[3, 4], blind.to_vec()));
    vec![
        tiled(&[], [3, 4, 2, 3], none(), false),
        tiled(&[], [3, 4, 2, 1], none(), true),
        tiled(&[2], [2, 1, 1, 2], none(), true),
        tiled(&[], [3, 4, 1, 1], blind(), false),
        tiled(&[], [3, 4, 2, 1], blind(), true),
        tiled(&[1], [2, 2, 1, 1], spread(&[1, 2, 2], 7), true),
        tiled(&[2, 1], [70, 130, 4, 5], none(), false),
        tiled(&[2], [130, 70, 3, 17], none(), true),
        tiled(&[1], [70, 135, 3, 2], spread(&[1, 70, 135], 8), true),
        tiled(&[], [1, 9, 4, 4], none(), false),
        tiled(&[], [3, 0, 2, 2], none(), true),
        tiled(&[], [0, 3, 2, 2], none(), true),
        tiled(&[0], [2, 3, 2, 2], none(), false),
        tiled(&[2], [3, 3, 0, 2], none(), true),
        tiled(&[2], [3, 3, 2, 0], none(), true),
    ]
}

fn tiled_rows() -> [Row; 2] {
    let start = |name: &'static str| row(name).types(WIDE_FLOATS).ulps(6.0).terms(2.0);
    let forward = calls().into_iter().fold(start("_tiled_attention"), Row::sample);
    let with_statistics = |mut call: Vec<Arg>| {
        let given = Given::tiled(&call);
        let grad = Array::fill(&given.attended().sizes, -1.0..1.0, 9);
        let statistics = [0, 1].map(|which| Arg::Constant(given.statistic(which)));
        call.splice(4..4, statistics);
        call.insert(0, grad.into());
        call
    };
    let reason = "its derivative is the second of _tiled_attention, and is checked there";
    let backward = calls().into_iter().map(with_statistics).fold(
        start("_tiled_attention_backward")
            .skip(Check::Gradients, reason)
            .skip(Check::SecondGradients, reason),
        Row::sample,
    );
    let wrong = |sizes: [&[usize]; 3], bias: Arg| {
        let [q, k, v] = [0, 1, 2].map(|n| spread(sizes[n], n as u64));
        vec![q, k, v, bias, false.into(), 1.0.into()]
    };
    let ill = |grad: &[usize], known: &[usize]| {
        let [grad, first, second] = [grad, known, known].map(|sizes| spread(sizes, 0));
        let [q, k, v] = [&[3, 2], &[4, 2], &[4, 3]].map(|sizes| spread(sizes, 1));
        vec![grad, q, k, v, none(), first, second, false.into(), 1.0.into()]
    };
    let shape = ErrorKind::Shape;
    [
        forward
            .reference(|a| {
                let given = Given::tiled(a);
                vec![given.attended(), given.statistic(0), given.statistic(1)]
            })
            .refuses(wrong([&[3], &[3, 2], &[3, 2]], none()), shape, "at least 2 dimensions")
            .refuses(wrong([&[3, 2], &[4, 3], &[4, 3]], none()), shape, "width of the query")
            .refuses(wrong([&[3, 2], &[4, 2], &[5, 2]], none()), shape, "for each value")
            .refuses(wrong([&[2, 3, 2], &[1, 4, 2], &[2, 4, 2]], none()), shape, "outer dimensions")
            .refuses(wrong([&[3, 2], &[4, 2], &[4, 2]], spread(&[1, 4], 3)), shape, "attn_bias"),
        backward
            .reference(|a| {
                let given = Given::new(&a[1..], &a[7], &a[8]);
                given.slopes(a[0].array())
            })
            .refuses(ill(&[3, 2], &[3]), shape, "sizes of the result")
            .refuses(ill(&[3, 3], &[2]), shape, "statistics"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let [forward, backward] = tiled_rows();
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
            .reference(|a| vec![Given::new(a, &a[5], &a[6]).attended()])
            .refuses(call(wrong, none(), false, none(), false), ErrorKind::Shape, "width of the query")
            .refuses(call(plain, seen(), true, none(), false), ErrorKind::InvalidArgument, "is_causal"),
        forward,
        backward,
    ]
}
