//! Steps of recurrent networks have the bits of the operators that they stand for, with and without what a backward pass needs.

use crate::support::*;
use flambeau_core::ScalarType;
use flambeau_ops::{Tensor, ops};
use std::ops::Range;

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

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Tanh,
    Relu,
    Gru,
    Lstm,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Tanh, Kind::Relu, Kind::Gru, Kind::Lstm];

    fn gates(self) -> i64 {
        [1, 1, 3, 4][self as usize]
    }

    fn states(self) -> usize {
        [1, 1, 1, 2][self as usize]
    }

    /// The states after a step, by operators.
    fn step(self, [of_input, of_state]: [&Tensor; 2], states: &[Tensor]) -> Vec<Tensor> {
        match self {
            Kind::Tanh => vec![of_input.add(of_state).unwrap().tanh().unwrap()],
            Kind::Relu => vec![of_input.add(of_state).unwrap().relu().unwrap()],
            Kind::Gru => {
                vec![ops::_thnn_fused_gru_cell(of_input, of_state, &states[0], None, None).unwrap().0]
            }
            Kind::Lstm => {
                let made = ops::_thnn_fused_lstm_cell(of_input, of_state, &states[1], None, None).unwrap();
                vec![made.0, made.1]
            }
        }
    }

    /// The outputs and the states at the end, of packed sequences or padded ones, in both directions.
    fn network(self, x: &Tensor, sizes: Option<&Tensor>, hx: &[Tensor], params: &[Tensor]) -> Vec<Tensor> {
        macro_rules! call {
            ($padded:ident, $packed:ident, $hx:expr) => {
                match sizes {
                    None => ops::$padded(x, $hx, params, true, 1, 0.0, false, true, false),
                    Some(sizes) => ops::$packed(x, sizes, $hx, params, true, 1, 0.0, false, true),
                }
                .unwrap()
            };
        }
        let (output, state) = match self {
            Kind::Tanh => call!(rnn_tanh_input, rnn_tanh_data, &hx[0]),
            Kind::Relu => call!(rnn_relu_input, rnn_relu_data, &hx[0]),
            Kind::Gru => call!(gru_input, gru_data, &hx[0]),
            Kind::Lstm => {
                let (output, shown, memory) = call!(lstm_input, lstm_data, hx);
                return vec![output, shown, memory];
            }
        };
        vec![output, state]
    }

    /// The same of one direction by the operator that saves what a backward pass needs.
    fn layer(
        self,
        x: &Tensor,
        counts: &[i64],
        hx: &[Tensor],
        params: &[Tensor],
        reverse: bool,
    ) -> Vec<Tensor> {
        let is_gru = self == Kind::Gru;
        let [input, hidden, bias, hidden_bias] = params else { panic!("expected four parameters") };
        let bias = if is_gru { bias.clone() } else { bias.add(hidden_bias).unwrap() };
        let (products, bias) =
            (ops::linear(x, input, Some(&bias)).unwrap(), Some(hidden_bias).filter(|_| is_gru));
        let mode = [1, 0, 3, 2][self as usize];
        let (output, shown, memory, _, _) =
            ops::_recurrent_layer(&products, hidden, bias, &hx[0], hx.get(1), counts, mode, reverse).unwrap();
        [output, shown, memory].into_iter().take(1 + hx.len()).collect()
    }

    /// The outputs of the steps, whose rows these are, and the states at the end, by operators.
    fn pass(
        self,
        x: &Tensor,
        mut states: Vec<Tensor>,
        params: &[Tensor],
        steps: &[Range<i64>],
    ) -> (Tensor, Vec<Tensor>) {
        let rows_of = |tensor: &Tensor, rows: Range<i64>| {
            ops::slice_tensor(tensor, 0, Some(rows.start), Some(rows.end), 1).unwrap()
        };
        let [input, hidden, bias, hidden_bias] = params else { panic!("expected four parameters") };
        let is_gru = self == Kind::Gru;
        let bias = if is_gru { bias.clone() } else { bias.add(hidden_bias).unwrap() };
        let products = ops::linear(x, input, Some(&bias)).unwrap();
        let (mut outputs, batch) = (Vec::new(), states[0].sizes()[0]);
        for rows in steps {
            let count = rows.end - rows.start;
            let before: Vec<Tensor> = states.iter().map(|state| rows_of(state, 0..count)).collect();
            let of_state = ops::linear(&before[0], hidden, Some(hidden_bias).filter(|_| is_gru)).unwrap();
            let made = self.step([&rows_of(&products, rows.clone()), &of_state], &before);
            for (state, made) in states.iter_mut().zip(&made) {
                *state = ops::cat(&[made.clone(), rows_of(state, count..batch)], 0).unwrap();
            }
            outputs.push((rows.start, made[0].clone()));
        }
        outputs.sort_by_key(|(start, _)| *start);
        let outputs: Vec<Tensor> = outputs.into_iter().map(|(_, output)| output).collect();
        (ops::cat(&outputs, 0).unwrap(), states)
    }
}

/// A network in both directions through steps of these numbers of rows, of which none falls if it is padded.
fn assert_network(kind: Kind, dtype: ScalarType, counts: &[i64], [input, hidden]: [i64; 2], padded: bool) {
    let (mut steps, mut total) = (Vec::new(), 0);
    for count in counts {
        steps.push(total..total + count);
        total += count;
    }
    let (gates, batch) = (kind.gates() * hidden, counts[0]);
    let x = sample(&[total, input], dtype, 0);
    let hx: Vec<Tensor> =
        (0..kind.states()).map(|nr| sample(&[2, batch, hidden], dtype, 1 + nr as u64)).collect();
    let params = |seed: u64| {
        // The backward direction's weight of the state is transposed in memory.
        let weight = match seed {
            10 => sample(&[gates, hidden], dtype, seed),
            _ => sample(&[hidden, gates], dtype, seed).t().unwrap(),
        };
        let biases = [sample(&[gates], dtype, seed + 1), sample(&[gates], dtype, seed + 2)];
        [sample(&[gates, input], dtype, seed + 3), weight].into_iter().chain(biases).collect::<Vec<Tensor>>()
    };
    let passes = [params(10), params(20)];
    let state =
        |index: i64| -> Vec<Tensor> { hx.iter().map(|state| state.select(0, index).unwrap()).collect() };
    let (forwards, ends) = kind.pass(&x, state(0), &passes[0], &steps);
    steps.reverse();
    let (backwards, backward_ends) = kind.pass(&x, state(1), &passes[1], &steps);
    let what = format!("{kind:?} {dtype} {counts:?} {hidden} padded: {padded}");
    for (index, output, ends) in [(0, &forwards, &ends), (1, &backwards, &backward_ends)] {
        let got = kind.layer(&x, counts, &state(index), &passes[index as usize], index == 1);
        let expected: Vec<Tensor> = std::iter::once(output).chain(ends).cloned().collect();
        assert_same(&got.iter().collect::<Vec<_>>(), &expected, &format!("layer of {what}"));
    }
    let mut expected = vec![ops::cat(&[forwards, backwards], -1).unwrap()];
    expected.extend(
        ends.into_iter().zip(backward_ends).map(|(end, other)| ops::stack(&[end, other], 0).unwrap()),
    );
    let length = counts.len() as i64;
    let got = if padded {
        expected[0] = expected[0].reshape(&[length, batch, 2 * hidden]).unwrap();
        kind.network(&x.reshape(&[length, batch, input]).unwrap(), None, &hx, &passes.concat())
    } else {
        let sizes = Tensor::from_vec(counts.to_vec(), &[length]).unwrap();
        kind.network(&x, Some(&sizes), &hx, &passes.concat())
    };
    let got: Vec<&Tensor> = got.iter().collect();
    assert_same(&got, &expected, &what);
}

/// The kernel of all steps has the bits of a product and a cell for each.
#[test]
fn networks_have_the_bits_of_their_steps() {
    for dtype in [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64] {
        for kind in Kind::ALL {
            for sizes in [[1, 1], [3, 2], [5, 7], [4, 37], [9, 64]] {
                for counts in [&[1][..], &[1; 5], &[2; 3], &[5; 9], &[17; 40]] {
                    assert_network(kind, dtype, counts, sizes, true);
                }
                for counts in [&[1][..], &[3, 2, 2], &[5, 5, 3, 1, 1], &[20, 19, 19, 7, 7, 2]] {
                    assert_network(kind, dtype, counts, sizes, false);
                }
            }
        }
    }
}
