//! A step of a gated recurrent unit from the products of input and state, and its derivative, each in one pass where the kernel takes the
//! operands.

use super::cell_rows::{Cell, Columns, Input, run};
use super::fill::fill;
use super::gates::{
    bias_gradient, check_parts, check_sizes, check_type, converted, dense, have_sizes_of, new_parts,
    options_converted, parts, rows_of, suit_kernel, suit_operator, wider_type,
};
use super::slopes::{by_sigmoid, by_tanh};
use crate::native::formulas::chain_rule;
use crate::native::guarded_slices::with_slices;
use crate::vectorized::Float;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, Scalar};

const NAME: &str = "_thnn_fused_gru_cell";
const BACKWARD: &str = "_thnn_fused_gru_cell_backward";
const ONE: Scalar = Scalar::Int(1);

/// The state after a step: Cho et al., 2014, with the reset after the product, as PyTorch and cuDNN have it. `of_input` and `of_state` are
/// the products with their biases, `[.., 3 hidden]`.
pub(super) fn step(of_input: &Tensor, of_state: &Tensor, state: &Tensor) -> Result<Tensor> {
    let operands = [Some(of_state), Some(state)];
    if !suit_operator(of_input, &operands) || !have_sizes_of::<3>([of_input, of_state], state) {
        let [.., next] = composed([of_input, of_state], state)?;
        return Ok(next);
    }
    if !suit_kernel(of_input, &operands) {
        return Ok(ops::_thnn_fused_gru_cell(of_input, of_state, state, None, None)?.0);
    }
    let made = new_parts(NAME, state, 1)?;
    fill(NAME, WithoutGates::UNBIASED, [of_input, of_state], state, [None; 2], [&made])?;
    Ok(made)
}

/// The gates after the nonlinearities (reset, keep and new), the product of the state that is reset, and the state after the step, by
/// operators that have derivatives.
fn composed([of_input, of_state]: [&Tensor; 2], state: &Tensor) -> Result<[Tensor; 5]> {
    let [reset_x, keep_x, new_x] = parts("gru", of_input)?;
    let [reset_h, keep_h, new_h] = parts("gru", of_state)?;
    let keep = ops::sigmoid(&(keep_x + keep_h)?)?;
    let reset = ops::sigmoid(&(reset_x + reset_h)?)?;
    let new = ops::tanh(&(new_x + &reset * &new_h)?)?;
    let next = (&new + &keep * (state - &new)?)?;
    Ok([reset, keep, new, new_h, next])
}

/// `product + bias`.
fn with_bias(product: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    bias.map_or_else(|| Ok(product.clone()), |bias| product + bias)
}

/// The state after a step, and what its derivative is computed from: the gates after the nonlinearities, which are those of reset, keeping
/// and new, the state before, and the product of the state that is reset.
pub fn fused_gru_cell(
    input_gates: &Tensor,
    hidden_gates: &Tensor,
    hx: &Tensor,
    input_bias: Option<&Tensor>,
    hidden_bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (gates, biases) = ([input_gates, hidden_gates], [input_bias, hidden_bias]);
    let others = [Some(hidden_gates), Some(hx), input_bias, hidden_bias];
    check_type(NAME, input_gates, &others)?;
    check_sizes::<3>(NAME, gates, hx, biases)?;
    if !hx.device().is_meta() && !suit_kernel(input_gates, &others) {
        if let Some(wide) = wider_type(hx) {
            let [x, h, state] = converted([input_gates, hidden_gates, hx], wide)?;
            let [x_bias, h_bias] = options_converted(biases, wide)?;
            let (hy, workspace) = fused_gru_cell(&x, &h, &state, x_bias.as_ref(), h_bias.as_ref())?;
            let [hy, workspace] = converted([&hy, &workspace], hx.dtype())?;
            return Ok((hy, workspace));
        }
        let products = [with_bias(input_gates, input_bias)?, with_bias(hidden_gates, hidden_bias)?];
        let [reset, keep, new, new_h, next] = composed(products.each_ref(), hx)?;
        return Ok((next, ops::cat(&[reset, keep, new, hx.clone(), new_h], -1)?));
    }
    let made = [new_parts(NAME, hx, 1)?, new_parts(NAME, hx, 5)?];
    if !hx.device().is_meta() {
        fill(
            NAME,
            Forward { biases: biases.map(|bias| bias.is_some()) },
            gates,
            hx,
            biases,
            made.each_ref(),
        )?;
    }
    let [hy, workspace] = made;
    Ok((hy, workspace))
}

/// Reads the products of input and state, the state before, and biases.
#[derive(Clone, Copy)]
pub(super) struct Forward {
    biases: [bool; 2],
}

impl Forward {
    /// From products that have their biases.
    pub(super) const UNBIASED: Self = Forward { biases: [false; 2] };

    /// The gates after the nonlinearities, the state before, the product that is reset, and the state after.
    #[inline(always)]
    fn states<V: Float>(self, at: &impl Columns<V>) -> [V; 6] {
        let reset = self.sum(at, 0).sigmoid();
        let keep = self.sum(at, 1).sigmoid();
        let (mut new_x, mut new_h, state) = (at.read(0, 2), at.read(1, 2), at.read(2, 0));
        if self.biases[0] {
            new_x = new_x + at.read(3, 2);
        }
        if self.biases[1] {
            new_h = new_h + at.read(4, 2);
        }
        let new = (new_x + reset * new_h).tanh();
        [reset, keep, new, state, new_h, new + keep * (state - new)]
    }

    #[inline(always)]
    fn sum<V: Float>(self, at: &impl Columns<V>, gate: usize) -> V {
        let (mut of_input, mut of_state) = (at.read(0, gate), at.read(1, gate));
        if self.biases[0] {
            of_input = of_input + at.read(3, gate);
        }
        if self.biases[1] {
            of_state = of_state + at.read(4, gate);
        }
        of_input + of_state
    }
}

impl Cell<5, 2> for Forward {
    const READS: [usize; 5] = [3, 3, 1, 3, 3];
    const WRITES: [usize; 2] = [1, 5];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let [reset, keep, new, state, new_h, next] = self.states(at);
        at.write(0, 0, next);
        at.write(1, 0, reset);
        at.write(1, 1, keep);
        at.write(1, 2, new);
        at.write(1, 3, state);
        at.write(1, 4, new_h);
    }
}

/// The state alone, where there will be no backward pass.
#[derive(Clone, Copy)]
pub(super) struct WithoutGates(Forward);

impl WithoutGates {
    /// As [`Forward::UNBIASED`].
    pub(super) const UNBIASED: Self = WithoutGates(Forward::UNBIASED);
}

impl Cell<5, 1> for WithoutGates {
    const READS: [usize; 5] = <Forward as Cell<5, 2>>::READS;
    const WRITES: [usize; 1] = [1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let [.., next] = self.0.states(at);
        at.write(0, 0, next);
    }
}

/// The gradients of the products of input and state, of `hx`, and of the biases, which have no elements without `has_bias`.
pub fn fused_gru_cell_backward(
    grad_hy: &Tensor,
    workspace: &Tensor,
    has_bias: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor, Tensor)> {
    check_type(BACKWARD, grad_hy, &[Some(workspace)])?;
    check_parts(BACKWARD, "workspace", workspace, 5, grad_hy)?;
    let [of_input, of_state, grad_hx] = match suit_kernel(grad_hy, &[Some(workspace)]) {
        true => backward_rows(grad_hy, workspace)?,
        false => wide_backward(grad_hy, workspace)?,
    };
    let input_bias = bias_gradient(BACKWARD, &of_input, has_bias)?;
    let hidden_bias = bias_gradient(BACKWARD, &of_state, has_bias)?;
    Ok((of_input, of_state, grad_hx, input_bias, hidden_bias))
}

/// [`composed_backward`], in f32 for half precision.
fn wide_backward(grad: &Tensor, workspace: &Tensor) -> Result<[Tensor; 3]> {
    let Some(wide) = wider_type(grad) else { return composed_backward(grad, workspace) };
    let [of_next, saved] = converted([grad, workspace], wide)?;
    converted(composed_backward(&of_next, &saved)?.each_ref(), grad.dtype())
}

/// The gradients of the products and of the state, by operators that have derivatives.
fn composed_backward(grad: &Tensor, workspace: &Tensor) -> Result<[Tensor; 3]> {
    let [reset, keep, new, state, new_h] = parts(BACKWARD, workspace)?;
    let kept = ops::_chain(grad, &keep)?;
    let by_keep = ops::_chain(grad, &ops::sub_tensor(&state, &new, ONE)?)?;
    let by_new = ops::tanh_backward(&ops::sub_tensor(grad, &kept, ONE)?, &new)?;
    let by_keep = ops::sigmoid_backward(&by_keep, &keep)?;
    let by_reset = ops::sigmoid_backward(&ops::_chain(&by_new, &new_h)?, &reset)?;
    let by_new_h = ops::_chain(&by_new, &reset)?;
    let of_input = ops::cat(&[by_reset.clone(), by_keep.clone(), by_new], -1)?;
    Ok([of_input, ops::cat(&[by_reset, by_keep, by_new_h], -1)?, kept])
}

/// The gradients of the products of input and state, and of the state before, from that of what [`fused_gru_cell`] saves.
///
/// # Errors
/// Those of the operators.
pub fn gru_workspace_backward(grad: &Tensor, workspace: &Tensor) -> Result<[Tensor; 3]> {
    let [by_reset, by_keep, by_new, by_state, by_product] = parts(BACKWARD, grad)?;
    let [reset, keep, new, _, product] = parts(BACKWARD, workspace)?;
    let by_new = ops::tanh_backward(&by_new, &new)?;
    let by_reset = ops::add_tensor(&by_reset, &ops::_chain(&by_new, &product)?, ONE)?;
    let by_reset = ops::sigmoid_backward(&by_reset, &reset)?;
    let by_keep = ops::sigmoid_backward(&by_keep, &keep)?;
    let by_product = ops::add_tensor(&by_product, &ops::_chain(&by_new, &reset)?, ONE)?;
    let gates = |last: Tensor| ops::cat(&[by_reset.clone(), by_keep.clone(), last], -1);
    Ok([gates(by_new)?, gates(by_product)?, by_state])
}

/// The same by the kernel.
fn backward_rows(grad: &Tensor, workspace: &Tensor) -> Result<[Tensor; 3]> {
    let made = [new_parts(BACKWARD, grad, 3)?, new_parts(BACKWARD, grad, 3)?, new_parts(BACKWARD, grad, 1)?];
    let (grad, workspace) = (dense(grad)?, dense(workspace)?);
    let sizes = rows_of(&grad);
    with_slices(BACKWARD, &[&grad, &workspace], &made.each_ref(), |s| {
        dispatch_all_types!(floats, grad.dtype(), BACKWARD, T => {
            let from = [s.read::<T>(0)?, s.read::<T>(1)?].map(|elements| Input { elements, is_repeated: false });
            run(BACKWARD, Backward, sizes, from, [s.write::<T>(0)?, s.write::<T>(1)?, s.write::<T>(2)?])
        })
    })?;
    Ok(made)
}

/// Reads the gradient of the state after the step, and what [`fused_gru_cell`] has saved.
#[derive(Clone, Copy)]
pub(super) struct Backward;

impl Cell<2, 3> for Backward {
    const READS: [usize; 2] = [1, 5];
    const WRITES: [usize; 3] = [3, 3, 1];

    #[inline(always)]
    fn step<V: Float>(self, at: &mut impl Columns<V>) {
        let grad = at.read(0, 0);
        let [reset, keep, new] = [at.read(1, 0), at.read(1, 1), at.read(1, 2)];
        let [state, new_h] = [at.read(1, 3), at.read(1, 4)];
        let kept = chain_rule(grad, keep);
        let by_keep = by_sigmoid(chain_rule(grad, state - new), keep);
        let by_new = by_tanh(grad - kept, new);
        let by_reset = by_sigmoid(chain_rule(by_new, new_h), reset);
        at.write(0, 0, by_reset);
        at.write(0, 1, by_keep);
        at.write(0, 2, by_new);
        at.write(1, 0, by_reset);
        at.write(1, 1, by_keep);
        at.write(1, 2, chain_rule(by_new, reset));
        at.write(2, 0, kept);
    }
}
