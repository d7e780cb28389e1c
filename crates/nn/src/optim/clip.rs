//! Clips gradients that are too large.

use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Device, Result, Scalar, ScalarType, ensure};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`clip_grad_norm_`].
    ClipGradNorm {
        /// The order of the norm; `f64::INFINITY` is that of the largest absolute value.
        norm_type: f64 = 2.0,
    }
}

/// Scales all gradients by the same factor so that the norm of them together is at most `max_norm`, and returns what it was, as f64 on the
/// device of the first gradient. Nothing waits for a device.
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
/// let norm = clip_grad_norm_(std::slice::from_ref(&x), 1.0, ClipGradNorm::default())?;
/// assert_eq!(norm.item::<f64>()?, 5.0);
/// let clipped = x.grad().map(|g| g.to_vec::<f64>()).transpose()?.unwrap_or_default();
/// assert!((clipped[0] - 0.6).abs() < 1e-6);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn clip_grad_norm_(params: &[Tensor], max_norm: f64, options: ClipGradNorm) -> Result<Tensor> {
    let norm_type = options.norm_type;
    ensure!(max_norm >= 0.0, InvalidArgument, "clip_grad_norm_: expected max_norm >= 0 but got {max_norm}");
    ensure!(norm_type > 0.0, InvalidArgument, "clip_grad_norm_: expected norm_type > 0 but got {norm_type}");
    let _guard = no_grad();
    let grads: Vec<Tensor> = params.iter().filter_map(Autograd::grad).collect();
    let total = total_norm(&grads, norm_type)?;
    let factor = ops::add_scalar(&total, Scalar::Float(1e-6), Scalar::Int(1))?;
    let factor =
        ops::clamp(&ops::mul_scalar(&ops::reciprocal(&factor)?, max_norm.into())?, None, Some(1.0.into()))?;
    // On the host the factor is at hand; elsewhere a multiplication costs less than to wait for it. A factor that is not a number says
    // that a gradient is not one: it goes on, as in PyTorch.
    if !factor.device().is_cpu() || factor.item::<f64>()? != 1.0 {
        for grad in &grads {
            ops::mul__tensor(grad, &number_on(&factor, grad.device())?)?;
        }
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

/// A number as f64 on a device.
fn number_on(number: &Tensor, device: Device) -> Result<Tensor> {
    number.to((ScalarType::F64, device))
}

/// The norm of all elements of all tensors, as if they were one vector.
fn total_norm(grads: &[Tensor], order: f64) -> Result<Tensor> {
    // A tensor without elements has no maximum, and takes no part in that of the others.
    let some = grads.iter().filter(|grad| grad.numel() > 0 || order.is_finite());
    let norm = |grad: &Tensor| {
        let norm = ops::linalg_vector_norm(grad, order.into(), None, false, None)?;
        number_on(&norm, grads.first().map_or(norm.device(), Tensor::device))
    };
    let norms = some.map(norm).collect::<Result<Vec<Tensor>>>()?;
    match norms.is_empty() {
        true => Tensor::zeros(&[], (ScalarType::F64, grads.first().map_or(Device::CPU, Tensor::device))),
        false => ops::linalg_vector_norm(&ops::stack(&norms, 0)?, order.into(), None, false, None),
    }
}
