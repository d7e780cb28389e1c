//! Clips gradients that are too large.

use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`clip_grad_norm_`].
    ClipGradNorm {
        /// The order of the norm; `f64::INFINITY` is that of the largest absolute value.
        norm_type: f64 = 2.0,
    }
}

/// Scales all gradients by the same factor so that the norm of them together is at most `max_norm`, and returns what it was.
///
/// # Errors
/// `InvalidArgument` unless `max_norm >= 0` and `norm_type > 0`; `NotImplemented` for gradients of a type without norms.
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_nn::optim::{ClipGradNorm, clip_grad_norm_};
/// use flambeau_ops::Tensor;
/// let x = Tensor::from([0.0f64, 0.0]);
/// x.requires_grad_(true)?;
/// x.set_grad(Some(&Tensor::from([3.0f64, 4.0])))?;
/// assert_eq!(clip_grad_norm_(std::slice::from_ref(&x), 1.0, ClipGradNorm::default())?, 5.0);
/// let clipped = x.grad().map(|g| g.to_vec::<f64>()).transpose()?.unwrap_or_default();
/// assert!((clipped[0] - 0.6).abs() < 1e-6);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn clip_grad_norm_(params: &[Tensor], max_norm: f64, options: ClipGradNorm) -> Result<f64> {
    let norm_type = options.norm_type;
    ensure!(max_norm >= 0.0, InvalidArgument, "clip_grad_norm_: expected max_norm >= 0 but got {max_norm}");
    ensure!(norm_type > 0.0, InvalidArgument, "clip_grad_norm_: expected norm_type > 0 but got {norm_type}");
    let _guard = no_grad();
    let grads: Vec<Tensor> = params.iter().filter_map(Autograd::grad).collect();
    let norms: Result<Vec<f64>> = grads.iter().map(|grad| norm(grad, norm_type)).collect();
    let total = match norm_type.is_infinite() {
        true => norms?.into_iter().fold(0.0, f64::max),
        false => norms?.iter().map(|n| n.powf(norm_type)).sum::<f64>().powf(norm_type.recip()),
    };
    let factor = max_norm / (total + 1e-6);
    // A factor that is not a number says that a gradient is not one: it goes on, as in PyTorch.
    if factor.is_nan() || factor < 1.0 {
        grads.iter().try_for_each(|grad| ops::mul__scalar(grad, factor.into()))?;
    }
    Ok(total)
}

/// Cuts every element of every gradient to `-limit ..= limit`.
///
/// # Errors
/// `InvalidArgument` unless `limit >= 0`.
pub fn clip_grad_value_(params: &[Tensor], limit: f64) -> Result<()> {
    ensure!(
        limit >= 0.0,
        InvalidArgument,
        "clip_grad_value_: expected a limit of at least 0 but got {limit}"
    );
    let _guard = no_grad();
    let grads = params.iter().filter_map(Autograd::grad);
    grads.into_iter().try_for_each(|grad| ops::clamp_(&grad, Some((-limit).into()), Some(limit.into())))
}

fn norm(grad: &Tensor, order: f64) -> Result<f64> {
    let norm = ops::linalg_vector_norm(grad, order.into(), None, false, None)?;
    Ok(norm.item_scalar()?.to_f64())
}
