//! Attention, against loops in f64, and its derivatives.

use super::{constant, ix, one, to_bool, transposed, values, x};
use flambeau_autograd::grad;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};

struct Case {
    query: [i64; 4],
    keys: i64,
    heads: i64,
    width: i64,
    mask: Option<Tensor>,
    causal: bool,
    scale: Option<f64>,
}

impl Case {
    fn inputs(&self) -> [Tensor; 3] {
        let [batch, _, _, depth] = self.query;
        let (key, value) =
            ([batch, self.heads, self.keys, depth], [batch, self.heads, self.keys, self.width]);
        [transposed(&self.query, 1), x(&key, 2), transposed(&value, 3)]
    }

    fn call(&self, x: &[Tensor]) -> Result<Tensor> {
        let shared = self.heads != self.query[1];
        let mask = self.mask.as_ref();
        ops::scaled_dot_product_attention(&x[0], &x[1], &x[2], mask, 0.0, self.causal, self.scale, shared)
    }

    /// What is added to the score of a query and a key.
    fn bias(&self, [b, h, i, j]: [i64; 4]) -> f64 {
        let hidden = |hidden: bool| if hidden { f64::NEG_INFINITY } else { 0.0 };
        let Some(mask) = &self.mask else { return hidden(self.causal && j > i) };
        let [batch, heads, rows, _] = self.query;
        let whole = ops::expand(mask, &[batch, heads, rows, self.keys], false).unwrap();
        let offset = (((b * heads + h) * rows + i) * self.keys + j) as usize;
        let value = values(&ops::to_dtype(&whole, ScalarType::F64, false, false, None).unwrap())[offset];
        if mask.dtype() == ScalarType::Bool { hidden(value == 0.0) } else { value }
    }

    fn expected(&self, [q, k, v]: [&[f64]; 3]) -> Vec<f64> {
        let [batch, heads, rows, depth] = self.query;
        let scale = self.scale.unwrap_or(1.0 / (depth as f64).sqrt());
        let row = |of: &[f64], heads: i64, rows: i64, width: i64, b: i64, h: i64, i: i64| {
            let start = ((b * heads + h) * rows + i) * width;
            of[start as usize..(start + width) as usize].to_vec()
        };
        let mut out = vec![];
        for (b, h, i) in
            (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..rows).map(move |i| (b, h, i))))
        {
            let query = row(q, heads, rows, depth, b, h, i);
            let own = h / (heads / self.heads);
            let score = |j: i64| {
                let key = row(k, self.heads, self.keys, depth, b, own, j);
                let dot: f64 = query.iter().zip(&key).map(|(a, b)| a * b).sum();
                (dot * scale + self.bias([b, h, i, j])).exp()
            };
            let weights: Vec<f64> = (0..self.keys).map(score).collect();
            let total: f64 = weights.iter().sum();
            let mut sums = vec![0.0; self.width as usize];
            for (j, weight) in (0..).zip(&weights).filter(|_| total > 0.0) {
                let value = row(v, self.heads, self.keys, self.width, b, own, j);
                sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += weight / total * value);
            }
            out.extend(sums);
        }
        out
    }
}

fn cases() -> Vec<Case> {
    let plain =
        || Case { query: [2, 1, 3, 2], keys: 4, heads: 1, width: 2, mask: None, causal: false, scale: None };
    // The second query sees no key.
    let hidden = to_bool(&ix(&[1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1], &[3, 4]));
    let numbers = constant(&x(&[2, 1, 3, 4], 5));
    let infinite =
        ops::where_scalarother(&hidden, &constant(&x(&[3, 4], 5)), super::s(f64::NEG_INFINITY)).unwrap();
    vec![
        plain(),
        Case { scale: Some(-0.7), ..plain() },
        Case { causal: true, ..plain() },
        Case { causal: true, query: [1, 1, 4, 2], keys: 3, ..plain() },
        Case { mask: Some(hidden), ..plain() },
        Case { mask: Some(numbers), ..plain() },
        Case { mask: Some(infinite), ..plain() },
        Case { query: [1, 2, 2, 2], keys: 3, heads: 2, ..plain() },
        Case { query: [1, 4, 2, 1], keys: 3, heads: 2, causal: true, ..plain() },
    ]
}

#[test]
fn agrees_with_loops() {
    for (n, case) in cases().iter().enumerate() {
        let inputs = case.inputs();
        let found = case.call(&inputs).unwrap();
        assert_eq!(found.sizes(), [&case.query[..3], &[case.width]].concat());
        let [q, k, v] = inputs.each_ref().map(values);
        for (found, expected) in values(&found).iter().zip(case.expected([&q, &k, &v])) {
            assert!((found - expected).abs() < 1e-14, "case {n}: {found} {expected}");
        }
    }
}

#[test]
fn has_derivatives() {
    for (n, case) in cases().iter().enumerate() {
        one(&format!("case {n}"), |x| case.call(x), &case.inputs());
    }
    let mask = x(&[3, 4], 6);
    let inputs = [x(&[3, 2], 1), x(&[4, 2], 2), x(&[4, 2], 3), mask];
    let f = |x: &[Tensor]| {
        ops::scaled_dot_product_attention(&x[0], &x[1], &x[2], Some(&x[3]), 0.0, false, None, false)
    };
    one("mask", f, &inputs);
}

#[test]
fn of_nothing() {
    let inputs = [x(&[3, 2], 1), x(&[0, 2], 2), x(&[0, 5], 3)];
    let f = |causal| {
        ops::scaled_dot_product_attention(&inputs[0], &inputs[1], &inputs[2], None, 0.0, causal, None, false)
    };
    [true, false].into_iter().for_each(|causal| assert_eq!(values(&f(causal).unwrap()), [0.0; 15]));
}

/// All weights are dropped, or those that stay are scaled; the gradient is that of the weights which stayed.
#[test]
fn drops() {
    let inputs = [x(&[4, 2], 1), x(&[50, 2], 2), x(&[50, 1], 3)];
    let f = |p| {
        ops::scaled_dot_product_attention(&inputs[0], &inputs[1], &inputs[2], None, p, false, None, false)
            .unwrap()
    };
    assert_eq!(values(&f(1.0)), [0.0; 4]);
    let y = f(0.5);
    assert_ne!(values(&y), values(&f(0.0)));
    // The result is linear in the values: gradient times value is the sum of the results.
    let total = ops::sum(&y, None).unwrap();
    let found = grad(std::slice::from_ref(&total), &inputs[2..], &[], None, false, false).unwrap();
    let again = ops::sum(&ops::mul_tensor(found[0].as_ref().unwrap(), &inputs[2]).unwrap(), None).unwrap();
    assert!((values(&again)[0] - values(&total)[0]).abs() < 1e-13);
}

#[test]
fn refuses() {
    let t = |sizes: &[i64]| x(sizes, 1);
    let f = |q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, causal, shared| {
        ops::scaled_dot_product_attention(q, k, v, mask, 0.0, causal, None, shared).is_err()
    };
    assert!(f(&t(&[3]), &t(&[3, 2]), &t(&[3, 2]), None, false, false), "a vector");
    assert!(f(&t(&[3, 2]), &t(&[3, 4]), &t(&[3, 4]), None, false, false), "widths");
    assert!(f(&t(&[3, 2]), &t(&[3, 2]), &t(&[4, 2]), None, false, false), "keys without values");
    assert!(f(&t(&[3, 2]), &t(&[3, 2]), &t(&[3, 2]), Some(&t(&[3, 3])), true, false), "two masks");
    assert!(
        f(&t(&[3, 2]), &t(&[3, 2]), &t(&[3, 2]), Some(&ix(&[0], &[1])), false, false),
        "a mask of integers"
    );
    let (q, k) = (t(&[3, 2, 2]), t(&[2, 2, 2]));
    assert!(f(&q, &k, &k, None, false, true), "heads that do not divide");
    assert!(f(&t(&[3, 2]), &t(&[3, 2]), &t(&[3, 2]), None, false, true), "no heads");
    assert!(
        f(&ix(&[1, 2], &[1, 2]), &ix(&[1, 2], &[1, 2]), &ix(&[1, 2], &[1, 2]), None, false, false),
        "integers"
    );
}
