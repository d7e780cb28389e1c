//! Derivatives of steps of recurrent networks. The saved gates are results too, through which second derivatives come.

use flambeau_core::{Result, Scalar, bail};
use flambeau_ops::{Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

/// The gradients of `input_gates`, `hidden_gates`, the state, `input_bias` and `hidden_bias`.
type CellGradients = (Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>, Option<Tensor>);

/// The gradients of the arguments of `_thnn_fused_lstm_cell`, from those of its results.
pub fn lstm_cell_backward(
    grad_hy: Option<&Tensor>,
    grad_cy: Option<&Tensor>,
    grad_workspace: Option<&Tensor>,
    cx: &Tensor,
    cy: &Tensor,
    workspace: &Tensor,
) -> Result<CellGradients> {
    let (mut gates, mut memory) = (None, None);
    if grad_hy.is_some() || grad_cy.is_some() {
        let (of_gates, of_memory, _) =
            ops::_thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, false)?;
        (gates, memory) = (Some(of_gates), Some(of_memory));
    }
    if let Some(grad) = grad_workspace {
        let (grads, results) = (parts::<4>(grad)?, parts::<4>(workspace)?);
        let by_gates = [
            ops::sigmoid_backward(&grads[0], &results[0])?,
            ops::sigmoid_backward(&grads[1], &results[1])?,
            ops::tanh_backward(&grads[2], &results[2])?,
            ops::sigmoid_backward(&grads[3], &results[3])?,
        ];
        gates = sum_of(gates, ops::cat(&by_gates, -1)?)?;
    }
    Ok((gates.clone(), gates.clone(), memory, gates.clone(), gates))
}

/// The gradients of the arguments of `_thnn_fused_gru_cell`, from those of its results.
pub fn gru_cell_backward(
    grad_hy: Option<&Tensor>,
    grad_workspace: Option<&Tensor>,
    workspace: &Tensor,
) -> Result<CellGradients> {
    let (mut of_input, mut of_state, mut state) = (None, None, None);
    if let Some(grad) = grad_hy {
        let (input, hidden, before, _, _) = ops::_thnn_fused_gru_cell_backward(grad, workspace, false)?;
        (of_input, of_state, state) = (Some(input), Some(hidden), Some(before));
    }
    if let Some(grad) = grad_workspace {
        let [by_reset, by_keep, by_new, by_state, by_product] = parts::<5>(grad)?;
        let [reset, keep, new, _, product] = parts::<5>(workspace)?;
        let by_new = ops::tanh_backward(&by_new, &new)?;
        let by_reset = ops::add_tensor(&by_reset, &ops::_chain(&by_new, &product)?, ONE)?;
        let by_reset = ops::sigmoid_backward(&by_reset, &reset)?;
        let by_keep = ops::sigmoid_backward(&by_keep, &keep)?;
        let by_product = ops::add_tensor(&by_product, &ops::_chain(&by_new, &reset)?, ONE)?;
        let gates = |last: Tensor| ops::cat(&[by_reset.clone(), by_keep.clone(), last], -1);
        (of_input, of_state) = (sum_of(of_input, gates(by_new)?)?, sum_of(of_state, gates(by_product)?)?);
        state = sum_of(state, by_state)?;
    }
    Ok((of_input.clone(), of_state.clone(), state, of_input, of_state))
}

/// The parts of the last dimension, as many as gates were saved.
fn parts<const N: usize>(tensor: &Tensor) -> Result<[Tensor; N]> {
    match ops::chunk(tensor, N as i64, -1)?.try_into() {
        Ok(parts) => Ok(parts),
        Err(_) => bail!(Internal, "expected {N} saved gates of one size but got sizes {:?}", tensor.sizes()),
    }
}

/// `a + b`, or `b` alone.
fn sum_of(a: Option<Tensor>, b: Tensor) -> Result<Option<Tensor>> {
    a.map_or_else(|| Ok(b.clone()), |a| ops::add_tensor(&a, &b, ONE)).map(Some)
}
