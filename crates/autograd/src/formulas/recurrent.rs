//! Derivatives of steps of recurrent networks. The saved gates are results too, through which second derivatives come.

use flambeau_core::{Result, Scalar};
use flambeau_ops::native::nn::recurrent::{gru_workspace_backward, lstm_workspace_backward};
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
        gates = sum_of(gates, lstm_workspace_backward(grad, workspace)?)?;
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
        let [by_input, by_product, by_state] = gru_workspace_backward(grad, workspace)?;
        (of_input, of_state) = (sum_of(of_input, by_input)?, sum_of(of_state, by_product)?);
        state = sum_of(state, by_state)?;
    }
    Ok((of_input.clone(), of_state.clone(), state, of_input, of_state))
}

/// `a + b`, or `b` alone.
fn sum_of(a: Option<Tensor>, b: Tensor) -> Result<Option<Tensor>> {
    a.map_or_else(|| Ok(b.clone()), |a| ops::add_tensor(&a, &b, ONE)).map(Some)
}
