//! What anomaly mode adds to a pass: errors say where the node that failed was recorded, and a node that returns a NaN fails.

use crate::grad_mode::no_grad;
use crate::graph::gradients::Gradients;
use crate::graph::node::Node;
use crate::{anomaly, factory};
use flambeau_core::{Error, Result, ScalarType, bail};
use flambeau_ops::Tensor;

/// Adds to an `error` of `node` the backtrace of the call that recorded the node, if the mode is on.
pub(super) fn explain(error: Error, node: &dyn Node) -> Error {
    if !anomaly::is_anomaly_enabled().0 {
        return error;
    }
    let name = node.name();
    error.context(match node.header().trace() {
        Some(trace) => {
            format!("Error detected in {name}. Traceback of forward call that caused the error:\n{trace}")
        }
        None => format!(
            "Error detected in {name}. No forward pass information available. Enable detect anomaly during forward \
             pass for more information."
        ),
    })
}

/// Refuses NaN among the gradients that `node` returned, if the mode includes this check.
#[inline]
pub(super) fn check_nan(node: &dyn Node, grads: &Gradients) -> Result<()> {
    if anomaly::looks_for_nan() { refuse_nan(node, grads) } else { Ok(()) }
}

#[cold]
fn refuse_nan(node: &dyn Node, grads: &Gradients) -> Result<()> {
    let _unrecorded = no_grad();
    for (i, grad) in grads.iter().enumerate() {
        if let Some(grad) = grad
            && has_nan(grad)?
        {
            bail!(Autograd, "Function '{}' returned nan values in its {i}th output.", node.name());
        }
    }
    Ok(())
}

fn has_nan(grad: &Tensor) -> Result<bool> {
    let values = factory::to_dtype(grad, ScalarType::F64)?.to_vec::<f64>()?;
    Ok(values.iter().any(|value| value.is_nan()))
}
