//! A step of long short-term memory from the sums of its gates, and its derivative, each in one pass where the kernel takes the operands.

use super::cell_rows::{Cell, Columns, Input, run};
use super::fill::fill;
use super::gates::{
    bias_gradient, check_parts, check_sizes, check_type, converted, dense, have_sizes_of, new_parts,
    options_converted, parts, rows_of, suit_kernel, suit_operator, sum_of, sum_of_gates, wider_type,
};
use super::slopes::{by_sigmoid, by_tanh};
use crate::native::formulas::chain_rule;
use crate::native::guarded_slices::with_slices;
use crate::vectorized::Float;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::Result;

const NAME: &str = "_thnn_fused_lstm_cell";
const BACKWARD: &str = "_thnn_fused_lstm_cell_backward_impl";

/// The states after a step: what it shows and what it remembers. Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al.,
/// 2000.
pub(super) fn step(of_input: &Tensor, of_state: &Tensor, memory: &Tensor) -> Result<[Tensor; 2]> {
    let operands = [Some(of_state), Some(memory)];
    if !suit_operator(of_input, &operands) || !have_sizes_of::<4>([of_input, of_state], memory) {
        let [_, _, _, _, shown, memory] = composed(&(of_input + of_state)?, memory)?;
        return Ok([shown, memory]);
    }
    if !suit_kernel(of_input, &operands) {
        let (shown, memory, _) = ops::_thnn_fused_lstm_cell(of_input, of_state, memory, None, None)?;
        return Ok([shown, memory]);
    }
    let made = [new_parts(NAME, memory, 1)?, new_parts(NAME, memory, 1)?];
    fill(NAME, WithoutGates::UNBIASED, [of_input, of_state], memory, [None; 2], made.each_ref())?;
    Ok(made)
}

/// The gates after the nonlinearities, and the states after the step, by operators that have derivatives.
fn composed(sums: &Tensor, memory: &Tensor) -> Result<[Tensor; 6]> {
    let [input, forget, new, output] = parts("lstm", sums)?;
    let forget = ops::sigmoid(&forget)?;
    let kept = (&forget * memory)?;
    let (input, new) = (ops::sigmoid(&input)?, ops::tanh(&new)?);
    let memory = (kept + &input * &new)?;
    let output = ops::sigmoid(&output)?;
    let shown = (&output * ops::tanh(&memory)?)?;
    Ok([input, forget, new, output, shown, memory])
}

/// The states after a step, and the gates after the nonlinearities: those of input, forgetting, new and output.
pub fn fused_lstm_cell(
    input_gates: &Tensor,
    hidden_gates: &Tensor,
    cx: &Tensor,
    input_bias: Option<&Tensor>,
    hidden_bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (gates, biases) = ([input_gates, hidden_gates], [input_bias, hidden_bias]);
    let others = [Some(hidden_gates), Some(cx), input_bias, hidden_bias];
    check_type(NAME, input_gates, &others)?;
    check_sizes::<4>(NAME, gates, cx, biases)?;
    if !cx.device().is_meta() && !suit_kernel(input_gates, &others) {
        if let Some(wide) = wider_type(cx) {
            let [x, h, c] = converted([input_gates, hidden_gates, cx], wide)?;
            let [x_bias, h_bias] = options_converted(biases, wide)?;
            let (hy, cy, workspace) = fused_lstm_cell(&x, &h, &c, x_bias.as_ref(), h_bias.as_ref())?;
            let [hy, cy, workspace] = converted([&hy, &cy, &workspace], cx.dtype())?;
            return Ok((hy, cy, workspace));
        }
        let [input, forget, new, output, hy, cy] = composed(&sum_of_gates(gates, biases)?, cx)?;
        return Ok((hy, cy, ops::cat(&[input, forget, new, output], -1)?));
    }
    let made = [new_parts(NAME, cx, 1)?, new_parts(NAME, cx, 1)?, new_parts(NAME, cx, 4)?];
    if !cx.device().is_meta() {
        fill(
            NAME,
            Forward { biases: biases.map(|bias| bias.is_some()) },
            gates,
            cx,
            biases,
            made.each_ref(),
        )?;
    }
    let [hy, cy, workspace] = made;
    Ok((hy, cy, workspace))
}

/// Reads the sums of the gates by input and by state, what is remembered, and biases.
#[derive(Clone, Copy)]
pub(super) struct Forward {
    biases: [bool; 2],
}

impl Forward {
    /// From products that have their biases.
    pub(super) const UNBIASED: Self = Forward { biases: [false; 2] };

    /// The gates after the nonlinearities, and the states.
    #[inline(always)]
    fn states<V: Float>(self, at: &impl Columns<V>) -> [V; 6] {
        let input = self.sum(at, 0).sigmoid();
        let forget = self.sum(at, 1).sigmoid();
        let new = self.sum(at, 2).tanh();
        let output = self.sum(at, 3).sigmoid();
        let memory = forget * at.read(2, 0) + input * new;
        [input, forget, new, output, output * memory.tanh(), memory]
    }

    #[inline(always)]
    fn sum<V: Float>(self, at: &impl Columns<V>, gate: usize) -> V {
        let mut sum = at.read(0, gate) + at.read(1, gate);
        if self.biases[0] {
            sum = sum + at.read(3, gate);
        }
        if self.biases[1] {
            sum = sum + at.read(4, gate);
        }
        sum
    }
}

impl Cell<5, 3> for Forward {
    const READS: [usize; 5] = [4, 4, 1, 4, 4];
    const WRITES: [usize; 3] = [1, 1, 4];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let [input, forget, new, output, shown, memory] = self.states(at);
        at.write(0, 0, shown);
        at.write(1, 0, memory);
        at.write(2, 0, input);
        at.write(2, 1, forget);
        at.write(2, 2, new);
        at.write(2, 3, output);
    }
}

/// The states alone, where there will be no backward pass.
#[derive(Clone, Copy)]
pub(super) struct WithoutGates(Forward);

impl WithoutGates {
    /// As [`Forward::UNBIASED`].
    pub(super) const UNBIASED: Self = WithoutGates(Forward::UNBIASED);
}

impl Cell<5, 2> for WithoutGates {
    const READS: [usize; 5] = <Forward as Cell<5, 3>>::READS;
    const WRITES: [usize; 2] = [1, 1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let [_, _, _, _, shown, memory] = self.0.states(at);
        at.write(0, 0, shown);
        at.write(1, 0, memory);
    }
}

/// The gradients of the sums of the gates, of `cx` and of the bias, which has no elements without `has_bias`. One of the gradients of the
/// results may be absent.
pub fn fused_lstm_cell_backward(
    grad_hy: Option<&Tensor>,
    grad_cy: Option<&Tensor>,
    cx: &Tensor,
    cy: &Tensor,
    workspace: &Tensor,
    has_bias: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let others = [grad_hy, grad_cy, Some(cy), Some(workspace)];
    check_type(BACKWARD, cx, &others)?;
    check_parts(BACKWARD, "workspace", workspace, 4, cx)?;
    for (which, state) in [("cy", Some(cy)), ("grad_hy", grad_hy), ("grad_cy", grad_cy)] {
        if let Some(state) = state {
            check_parts(BACKWARD, which, state, 1, cx)?;
        }
    }
    let grads = [grad_hy, grad_cy];
    let (gates, grad_cx) = if suit_kernel(cx, &others) {
        backward_rows(grads, cx, cy, workspace)?
    } else {
        wide_backward(grads, cx, cy, workspace)?
    };
    let grad_bias = bias_gradient(BACKWARD, &gates, has_bias)?;
    Ok((gates, grad_cx, grad_bias))
}

/// The gradients of the sums of the gates and of `cx`, by operators that have derivatives, in f32 for half precision.
fn wide_backward(
    grads: [Option<&Tensor>; 2],
    cx: &Tensor,
    cy: &Tensor,
    workspace: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let Some(wide) = wider_type(cx) else { return composed_backward(grads, cx, cy, workspace) };
    let [grad_hy, grad_cy] = options_converted(grads, wide)?;
    let [x, y, saved] = converted([cx, cy, workspace], wide)?;
    let (gates, memory) = composed_backward([grad_hy.as_ref(), grad_cy.as_ref()], &x, &y, &saved)?;
    let [gates, memory] = converted([&gates, &memory], cx.dtype())?;
    Ok((gates, memory))
}

/// The gradients of the sums of the gates and of `cx`, by operators that have derivatives.
fn composed_backward(
    [grad_hy, grad_cy]: [Option<&Tensor>; 2],
    cx: &Tensor,
    cy: &Tensor,
    workspace: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let [input, forget, new, output] = parts(BACKWARD, workspace)?;
    let (mut by_output, mut by_shown) = (None, None);
    if let Some(grad) = grad_hy {
        let tanh = ops::tanh(cy)?;
        by_output = Some(ops::_chain(grad, &tanh)?);
        by_shown = Some(ops::tanh_backward(&ops::_chain(grad, &output)?, &tanh)?);
    }
    let zeros = || ops::zeros_like(cy, None, None, None, None, None);
    let memory = sum_of(grad_cy.cloned(), by_shown)?.map_or_else(zeros, Ok)?;
    let by_output = by_output.map_or_else(zeros, Ok)?;
    let by_gates = [
        ops::sigmoid_backward(&ops::_chain(&memory, &new)?, &input)?,
        ops::sigmoid_backward(&ops::_chain(&memory, cx)?, &forget)?,
        ops::tanh_backward(&ops::_chain(&memory, &input)?, &new)?,
        ops::sigmoid_backward(&by_output, &output)?,
    ];
    Ok((ops::cat(&by_gates, -1)?, ops::_chain(&memory, &forget)?))
}

/// The gradient of the sums of the gates, from that of the gates after the nonlinearities, of which `workspace` is full.
///
/// # Errors
/// Those of the operators.
pub fn lstm_workspace_backward(grad: &Tensor, workspace: &Tensor) -> Result<Tensor> {
    let (grads, gates) = (parts::<4>(BACKWARD, grad)?, parts::<4>(BACKWARD, workspace)?);
    let by_gates = [
        ops::sigmoid_backward(&grads[0], &gates[0])?,
        ops::sigmoid_backward(&grads[1], &gates[1])?,
        ops::tanh_backward(&grads[2], &gates[2])?,
        ops::sigmoid_backward(&grads[3], &gates[3])?,
    ];
    ops::cat(&by_gates, -1)
}

/// The same by the kernel.
fn backward_rows(
    grads: [Option<&Tensor>; 2],
    cx: &Tensor,
    cy: &Tensor,
    workspace: &Tensor,
) -> Result<(Tensor, Tensor)> {
    let made = [new_parts(BACKWARD, cx, 4)?, new_parts(BACKWARD, cx, 1)?];
    let (cx, cy, workspace) = (dense(cx)?, dense(cy)?, dense(workspace)?);
    // A gradient that is absent is not read.
    let [shown, memory] = grads.map(|grad| dense(grad.unwrap_or(&cy)));
    let (shown, memory) = (shown?, memory?);
    let cell = Backward { grads: grads.map(|grad| grad.is_some()) };
    let reads = [&shown, &memory, &cx, &cy, &workspace];
    let sizes = rows_of(&cx);
    with_slices(BACKWARD, &reads, &[&made[0], &made[1]], |s| {
        dispatch_all_types!(floats, cx.dtype(), BACKWARD, T => {
            let mut from = [Input { elements: &[][..], is_repeated: false }; 5];
            for (k, input) in from.iter_mut().enumerate() {
                input.elements = s.read::<T>(k)?;
            }
            run(BACKWARD, cell, sizes, from, [s.write::<T>(0)?, s.write::<T>(1)?])
        })
    })?;
    let [gates, grad_cx] = made;
    Ok((gates, grad_cx))
}

/// Reads the gradients of the states after the step, the memory before and after, and the gates.
#[derive(Clone, Copy)]
pub(super) struct Backward {
    grads: [bool; 2],
}

impl Backward {
    /// From the gradients of both states.
    pub(super) const OF_BOTH: Self = Backward { grads: [true; 2] };
}

impl Cell<5, 2> for Backward {
    const READS: [usize; 5] = [1, 1, 1, 1, 4];
    const WRITES: [usize; 2] = [4, 1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let [input, forget, new, output] = [at.read(4, 0), at.read(4, 1), at.read(4, 2), at.read(4, 3)];
        let [of_shown, of_memory] = self.grads;
        let (mut by_output, mut by_memory) = (V::zero(), V::zero());
        if of_shown {
            let (grad, tanh) = (at.read(0, 0), at.read(3, 0).tanh());
            by_output = chain_rule(grad, tanh);
            by_memory = by_tanh(chain_rule(grad, output), tanh);
        }
        if of_memory {
            let grad = at.read(1, 0);
            by_memory = if of_shown { grad + by_memory } else { grad };
        }
        at.write(0, 0, by_sigmoid(chain_rule(by_memory, new), input));
        at.write(0, 1, by_sigmoid(chain_rule(by_memory, at.read(2, 0)), forget));
        at.write(0, 2, by_tanh(chain_rule(by_memory, input), new));
        at.write(0, 3, by_sigmoid(by_output, output));
        at.write(1, 0, chain_rule(by_memory, forget));
    }
}
