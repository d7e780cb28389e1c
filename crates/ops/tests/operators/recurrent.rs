//! Steps of recurrent networks have the bits of the operators that they stand for, with and without what a backward pass needs.

use crate::support::*;
use flambeau_core::ScalarType;
use flambeau_ops::{Tensor, ops};

const WIDE: [ScalarType; 2] = [ScalarType::F32, ScalarType::F64];

/// Rows and hidden sizes: parts of vectors, whole ones, and rows for several threads.
const SIZES: &[[i64; 2]] = &[[1, 1], [1, 2], [3, 7], [2, 16], [5, 37], [300, 70]];

fn bits(tensor: &Tensor) -> Vec<u64> {
    values(tensor).into_iter().map(f64::to_bits).collect()
}

fn parts(tensor: &Tensor, count: i64) -> Vec<Tensor> {
    ops::chunk(tensor, count, -1).unwrap()
}

fn assert_same(got: &[&Tensor], expected: &[Tensor], what: &str) {
    for (k, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.sizes(), expected.sizes(), "{what} {k}");
        assert!(bits(got) == bits(expected), "{what} {k}");
    }
}

/// Inputs of `parts` gates for input and state, and states, of which the first is transposed in memory.
fn operands([rows, n]: [i64; 2], parts: i64, dtype: ScalarType) -> [Tensor; 4] {
    let transposed = sample(&[n, rows], dtype, 2).t().unwrap();
    let gates = |seed| sample(&[rows, parts * n], dtype, seed);
    [gates(0), gates(1), transposed, sample(&[rows, n], dtype, 3)]
}

fn lstm_cell([a, b, cx, _]: &[Tensor; 4]) -> [Tensor; 3] {
    let gates = parts(&a.add(b).unwrap(), 4);
    let made = [
        gates[0].sigmoid().unwrap(),
        gates[1].sigmoid().unwrap(),
        gates[2].tanh().unwrap(),
        gates[3].sigmoid().unwrap(),
    ];
    let kept = made[1].mul(cx).unwrap();
    let cy = kept.add(&made[0].mul(&made[2]).unwrap()).unwrap();
    let hy = made[3].mul(&cy.tanh().unwrap()).unwrap();
    [hy, cy, ops::cat(&made, -1).unwrap()]
}

#[test]
fn steps_of_lstm_have_the_bits_of_its_operators() {
    for (size, dtype) in SIZES.iter().flat_map(|size| WIDE.map(|dtype| (*size, dtype))) {
        let operands = operands(size, 4, dtype);
        let [a, b, cx, grad] = &operands;
        let expected = lstm_cell(&operands);
        let (hy, cy, saved) = ops::_thnn_fused_lstm_cell(a, b, cx, None, None).unwrap();
        assert_same(&[&hy, &cy, &saved], &expected, &format!("lstm {size:?} {dtype}"));

        let (by_gates, by_cx, bias) =
            ops::_thnn_fused_lstm_cell_backward_impl(Some(grad), Some(cx), cx, &cy, &saved, true).unwrap();
        let [input, forget, new, output] = parts(&saved, 4).try_into().unwrap();
        let tanh = cy.tanh().unwrap();
        let shown = ops::tanh_backward(&grad.mul(&output).unwrap(), &tanh).unwrap();
        let memory = cx.add(&shown).unwrap();
        let slope = |by: &Tensor, y: &Tensor| ops::sigmoid_backward(&memory.mul(by).unwrap(), y).unwrap();
        let gates = [
            slope(&new, &input),
            slope(cx, &forget),
            ops::tanh_backward(&memory.mul(&input).unwrap(), &new).unwrap(),
            ops::sigmoid_backward(&grad.mul(&tanh).unwrap(), &output).unwrap(),
        ];
        let expected = [ops::cat(&gates, -1).unwrap(), memory.mul(&forget).unwrap()];
        assert_same(&[&by_gates, &by_cx], &expected, &format!("gradient of lstm {size:?} {dtype}"));
        assert_same(&[&bias], &[by_gates.sum_dim(0).unwrap()], "bias of lstm");
    }
}

#[test]
fn steps_of_gru_have_the_bits_of_its_operators() {
    for (size, dtype) in SIZES.iter().flat_map(|size| WIDE.map(|dtype| (*size, dtype))) {
        let [a, b, hx, grad] = operands(size, 3, dtype);
        let (x, h) = (parts(&a, 3), parts(&b, 3));
        let gate = |k: usize| x[k].add(&h[k]).unwrap().sigmoid().unwrap();
        let (reset, keep) = (gate(0), gate(1));
        let new = x[2].add(&reset.mul(&h[2]).unwrap()).unwrap().tanh().unwrap();
        let rest = hx.sub(&new).unwrap();
        let next = new.add(&keep.mul(&rest).unwrap()).unwrap();
        let list = [reset.clone(), keep.clone(), new.clone(), hx.clone(), h[2].clone()];
        let (hy, saved) = ops::_thnn_fused_gru_cell(&a, &b, &hx, None, None).unwrap();
        assert_same(&[&hy, &saved], &[next, ops::cat(&list, -1).unwrap()], &format!("gru {size:?} {dtype}"));

        let (of_input, of_state, before, _, _) =
            ops::_thnn_fused_gru_cell_backward(&grad, &saved, false).unwrap();
        let kept = grad.mul(&keep).unwrap();
        let by_new = ops::tanh_backward(&grad.sub(&kept).unwrap(), &new).unwrap();
        let by_keep = ops::sigmoid_backward(&grad.mul(&rest).unwrap(), &keep).unwrap();
        let by_reset = ops::sigmoid_backward(&by_new.mul(&h[2]).unwrap(), &reset).unwrap();
        let last = by_new.mul(&reset).unwrap();
        let joined = |last: Tensor| ops::cat(&[by_reset.clone(), by_keep.clone(), last], -1).unwrap();
        let expected = [joined(by_new.clone()), joined(last), kept];
        let what = format!("gradient of gru {size:?} {dtype}");
        assert_same(&[&of_input, &of_state, &before], &expected, &what);
    }
}

/// A step that nothing records computes no gates for a backward pass, and has the same bits.
#[test]
fn cells_have_the_bits_of_their_products_and_steps() {
    for dtype in WIDE {
        let (x, w) = (sample(&[4, 3], dtype, 0), sample(&[20, 3], dtype, 1));
        let (h, u) = (sample(&[4, 5], dtype, 2), sample(&[20, 5], dtype, 3));
        let (products, c) =
            ([ops::linear(&x, &w, None), ops::linear(&h, &u, None)], sample(&[4, 5], dtype, 4));
        let [a, b] = products.map(Result::unwrap);
        let (hy, cy) = ops::lstm_cell(&x, &[h.clone(), c.clone()], &w, &u, None, None).unwrap();
        let [expected_hy, expected_cy, _] = lstm_cell(&[a, b, c.clone(), c]);
        assert_same(&[&hy, &cy], &[expected_hy, expected_cy], &format!("lstm_cell {dtype}"));
    }
}

/// In half precision a step is computed in f32, and rounded once.
#[test]
fn steps_of_half_precision_are_rounded_once() {
    for dtype in [ScalarType::F16, ScalarType::BF16] {
        let operands = operands([3, 21], 4, dtype);
        let [a, b, cx, _] = &operands;
        let wide = operands.each_ref().map(|tensor| cast(tensor, ScalarType::F32));
        let (hy, cy, saved) = ops::_thnn_fused_lstm_cell(a, b, cx, None, None).unwrap();
        let expected = lstm_cell(&wide).map(|tensor| cast(&tensor, dtype));
        assert_same(&[&hy, &cy, &saved], &expected, &format!("{dtype}"));
    }
}
