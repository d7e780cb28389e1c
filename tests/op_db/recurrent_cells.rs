//! Steps of `lstm` and `gru` from the products of input and state, and their derivatives, element by element.

use super::view::build;
use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, none, row};
use flambeau_core::ErrorKind;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// An array of the sizes of `state` but for the last dimension, which has `parts` times as many elements: `f` of the part, of the position
/// in it, and of the row.
fn of_parts(state: &Array, parts: usize, f: impl Fn(usize, usize, usize) -> f64) -> Array {
    let n = *state.sizes.last().unwrap_or(&1);
    let mut sizes = state.sizes.clone();
    if let Some(last) = sizes.last_mut() {
        *last = parts * n;
    }
    let rows = state.data.len() / n.max(1);
    let data = (0..rows * parts * n).map(|at| f(at % (parts * n) / n, at % n, at / (parts * n))).collect();
    Array::new(&sizes, data)
}

/// Part `part` of `of`, which has `parts`, at position `i` of row `r` of parts of `n` elements.
fn part(of: &Array, parts: usize, n: usize, [part, i, r]: [usize; 3]) -> f64 {
    of.data[(r * parts + part) * n + i]
}

/// The operands of a step of `parts` gates.
struct Step<'a> {
    args: &'a [Arg],
    parts: usize,
    n: usize,
}

impl<'a> Step<'a> {
    fn of(args: &'a [Arg], parts: usize) -> Self {
        Step { args, parts, n: *args[2].array().sizes.last().unwrap_or(&1) }
    }

    fn state(&self) -> &'a Array {
        self.args[2].array()
    }

    /// The product of the input, or of the state, with its bias.
    fn product(&self, k: usize, gate: usize, i: usize, r: usize) -> f64 {
        let bias = self.args[3 + k].optional().map_or(0.0, |bias| bias.data[gate * self.n + i]);
        part(self.args[k].array(), self.parts, self.n, [gate, i, r]) + bias
    }

    fn sum(&self, gate: usize, i: usize, r: usize) -> f64 {
        self.product(0, gate, i, r) + self.product(1, gate, i, r)
    }
}

/// What it shows, what it remembers, and the gates.
fn lstm(args: &[Arg]) -> Vec<Array> {
    let step = Step::of(args, 4);
    let gate = |gate: usize, i: usize, r: usize| {
        let sum = step.sum(gate, i, r);
        if gate == 2 { sum.tanh() } else { sigmoid(sum) }
    };
    let before = |i: usize, r: usize| step.state().data[r * step.n + i];
    let memory = |i: usize, r: usize| gate(1, i, r) * before(i, r) + gate(0, i, r) * gate(2, i, r);
    vec![
        of_parts(step.state(), 1, |_, i, r| gate(3, i, r) * memory(i, r).tanh()),
        of_parts(step.state(), 1, |_, i, r| memory(i, r)),
        of_parts(step.state(), 4, gate),
    ]
}

/// The state after the step, and what is saved.
fn gru(args: &[Arg]) -> Vec<Array> {
    let step = Step::of(args, 3);
    let before = |i: usize, r: usize| step.state().data[r * step.n + i];
    let gate = |gate: usize, i: usize, r: usize| sigmoid(step.sum(gate, i, r));
    let new =
        |i: usize, r: usize| (step.product(0, 2, i, r) + gate(0, i, r) * step.product(1, 2, i, r)).tanh();
    let next = |i: usize, r: usize| {
        let keep = gate(1, i, r);
        (1.0 - keep) * new(i, r) + keep * before(i, r)
    };
    let saved = |part: usize, i: usize, r: usize| match part {
        0 | 1 => gate(part, i, r),
        2 => new(i, r),
        3 => before(i, r),
        _ => step.product(1, 2, i, r),
    };
    vec![of_parts(step.state(), 1, |_, i, r| next(i, r)), of_parts(step.state(), 5, saved)]
}

/// The sum of the rows, or nothing without a bias.
fn bias_of(gates: &Array, size: usize, has_bias: bool) -> Array {
    if !has_bias {
        return Array::new(&[0], vec![]);
    }
    build(&[size], |at| gates.data.iter().skip(at[0]).step_by(size).sum())
}

/// The gradients of the gates, of the memory before and of the bias.
fn lstm_backward(args: &[Arg]) -> Vec<Array> {
    let (cx, cy, saved) = (args[2].array(), args[3].array(), args[4].array());
    let n = *cx.sizes.last().unwrap_or(&1);
    let gate = |gate: usize, i: usize, r: usize| part(saved, 4, n, [gate, i, r]);
    let grad = |k: usize, i: usize, r: usize| args[k].optional().map_or(0.0, |grad| grad.data[r * n + i]);
    let tanh = |i: usize, r: usize| cy.data[r * n + i].tanh();
    let memory =
        |i: usize, r: usize| grad(1, i, r) + grad(0, i, r) * gate(3, i, r) * (1.0 - tanh(i, r) * tanh(i, r));
    let by_gate = |part: usize, i: usize, r: usize| {
        let y = gate(part, i, r);
        let grad = match part {
            0 => memory(i, r) * gate(2, i, r),
            1 => memory(i, r) * cx.data[r * n + i],
            2 => memory(i, r) * gate(0, i, r),
            _ => grad(0, i, r) * tanh(i, r),
        };
        if part == 2 { grad * (1.0 - y * y) } else { grad * y * (1.0 - y) }
    };
    let gates = of_parts(cx, 4, by_gate);
    let before = of_parts(cx, 1, |_, i, r| memory(i, r) * gate(1, i, r));
    let bias = bias_of(&gates, 4 * n, args[5].flag());
    vec![gates, before, bias]
}

/// The gradients of both products, of the state before and of the biases.
fn gru_backward(args: &[Arg]) -> Vec<Array> {
    let (grad, saved) = (args[0].array(), args[1].array());
    let n = *grad.sizes.last().unwrap_or(&1);
    let get = |which: usize, i: usize, r: usize| part(saved, 5, n, [which, i, r]);
    let by = |product: usize, part: usize, i: usize, r: usize| {
        let g = grad.data[r * n + i];
        let (reset, keep, new) = (get(0, i, r), get(1, i, r), get(2, i, r));
        let by_new = g * (1.0 - keep) * (1.0 - new * new);
        match part {
            0 => by_new * get(4, i, r) * reset * (1.0 - reset),
            1 => g * (get(3, i, r) - new) * keep * (1.0 - keep),
            _ => {
                if product == 0 {
                    by_new
                } else {
                    by_new * reset
                }
            }
        }
    };
    let products = [0, 1].map(|product| of_parts(grad, 3, |part, i, r| by(product, part, i, r)));
    let before = of_parts(grad, 1, |_, i, r| grad.data[r * n + i] * get(1, i, r));
    let biases = products.each_ref().map(|of| bias_of(of, 3 * n, args[2].flag()));
    let ([of_input, of_state], [input, hidden]) = (products, biases);
    vec![of_input, of_state, before, input, hidden]
}

fn fill(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -1.5..1.5, seed)
}

/// What sigmoid returns, and nearly what tanh does.
fn gates(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, 0.1..0.9, seed)
}

/// The arguments of a step of states of these sizes, with `parts` gates.
fn step(leading: &[usize], n: usize, parts: usize, biases: [bool; 2]) -> Vec<Arg> {
    let sizes = |parts: usize| [leading, &[parts * n]].concat();
    let bias = |k: usize| if biases[k] { fill(&[parts * n], 3 + k as u64).into() } else { none() };
    vec![
        fill(&sizes(parts), 0).into(),
        fill(&sizes(parts), 1).into(),
        fill(&sizes(1), 2).into(),
        bias(0),
        bias(1),
    ]
}

fn forward(name: &'static str, parts: usize, reference: fn(&[Arg]) -> Vec<Array>) -> Row {
    let mut wrong = step(&[3], 2, parts, [false; 2]);
    wrong[2] = fill(&[3, 3], 2).into();
    row(name)
        .types(FLOATS)
        .ulps(8.0)
        .terms(4.0)
        .sample(step(&[], 1, parts, [false; 2]))
        .sample(step(&[2], 1, parts, [true; 2]))
        .sample(step(&[3], 2, parts, [false; 2]))
        .sample(step(&[2], 19, parts, [true; 2]))
        .sample(step(&[], 3, parts, [true, false]))
        .sample(step(&[0], 2, parts, [false, true]))
        .reference(reference)
        .refuses(wrong, ErrorKind::Shape, "gates of the size of the state")
}

fn lstm_gradients(leading: &[usize], n: usize, grads: [bool; 2], has_bias: bool) -> Vec<Arg> {
    let sizes = |parts: usize| [leading, &[parts * n]].concat();
    let grad = |k: usize| if grads[k] { fill(&sizes(1), 4 + k as u64).into() } else { none() };
    let (cx, cy): (Arg, Arg) = (fill(&sizes(1), 0).into(), fill(&sizes(1), 1).into());
    vec![grad(0), grad(1), cx, cy, gates(&sizes(4), 2).into(), has_bias.into()]
}

fn gru_gradients(leading: &[usize], n: usize, has_bias: bool) -> Vec<Arg> {
    let sizes = |parts: usize| [leading, &[parts * n]].concat();
    vec![fill(&sizes(1), 0).into(), gates(&sizes(5), 1).into(), has_bias.into()]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let backward = |name| row(name).types(FLOATS).ulps(8.0).terms(4.0);
    vec![
        forward("_thnn_fused_lstm_cell", 4, lstm),
        forward("_thnn_fused_gru_cell", 3, gru),
        backward("_thnn_fused_lstm_cell_backward_impl")
            .sample(lstm_gradients(&[], 1, [true; 2], true))
            .sample(lstm_gradients(&[1], 1, [true, false], false))
            .sample(lstm_gradients(&[1], 1, [false, true], true))
            .sample(lstm_gradients(&[3], 2, [true; 2], true))
            .sample(lstm_gradients(&[2], 19, [true, false], false))
            .sample(lstm_gradients(&[2], 3, [false, true], false))
            .sample(lstm_gradients(&[], 3, [true; 2], true))
            .reference(lstm_backward),
        backward("_thnn_fused_gru_cell_backward")
            .sample(gru_gradients(&[], 1, false))
            .sample(gru_gradients(&[2], 1, true))
            .sample(gru_gradients(&[3], 2, true))
            .sample(gru_gradients(&[2], 19, false))
            .sample(gru_gradients(&[], 3, true))
            .reference(gru_backward),
    ]
}
