//! Derivatives of normalizations: from the gradient of the result by the backward kernels, and from the gradients of the statistics,
//! which are results too.

use super::norm_double_backward::{ONE, ThreeGradients, upcast};
use flambeau_core::{DimVec, Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// The statistics of a normalization: the means, if they are subtracted, and the inverse standard deviations or root mean squares.
struct Statistics {
    /// The input, reshaped.
    x: Tensor,
    /// The dimensions over which the statistics are computed.
    dims: DimVec,
    /// Reshaped so that it broadcasts over the input, like `rstd`.
    mean: Option<Tensor>,
    rstd: Tensor,
}

impl Statistics {
    fn new(
        input: &Tensor,
        sizes: &[i64],
        dims: DimVec,
        mean: Option<&Tensor>,
        rstd: &Tensor,
    ) -> Result<Self> {
        let mut kept = DimVec::from_slice(sizes);
        for dim in &dims {
            let dim = if *dim < 0 { *dim + sizes.len() as i64 } else { *dim };
            kept[dim as usize] = 1;
        }
        let across = |t: &Tensor| upcast(&ops::reshape(t, &kept)?);
        Ok(Statistics {
            x: upcast(&ops::reshape(input, sizes)?)?,
            dims,
            mean: mean.map(across).transpose()?,
            rstd: across(rstd)?,
        })
    }

    fn of_last(input: &Tensor, shape: &[i64], mean: Option<&Tensor>, rstd: &Tensor) -> Result<Self> {
        let dims = (1..=shape.len() as i64).map(|d| -d).collect();
        Self::new(input, input.sizes(), dims, mean, rstd)
    }

    fn of_groups(input: &Tensor, [n, group]: [i64; 2], mean: &Tensor, rstd: &Tensor) -> Result<Self> {
        let size = input.numel() / (n * group).max(1);
        Self::new(input, &[n, group, size], DimVec::from_slice(&[2]), Some(mean), rstd)
    }

    fn of_channels(input: &Tensor, mean: &Tensor, rstd: &Tensor) -> Result<Self> {
        let dims = (0..input.dim() as i64).filter(|d| *d != 1).collect();
        Self::new(input, input.sizes(), dims, Some(mean), rstd)
    }

    fn deviation(&self) -> Result<Tensor> {
        self.mean.as_ref().map_or_else(|| Ok(self.x.clone()), |mean| ops::sub_tensor(&self.x, mean, ONE))
    }

    /// Twice the derivative of the inverse root with respect to the mean square.
    fn slope(&self) -> Result<Tensor> {
        ops::neg(&ops::mul_tensor(&ops::square(&self.rstd)?, &self.rstd)?)
    }

    /// The gradient of the input, of `sizes`, from those of mean and inverse root.
    fn backward(&self, [mean, rstd]: [Option<&Tensor>; 2], sizes: &[i64]) -> Result<Option<Tensor>> {
        let share = Scalar::Float(self.rstd.numel() as f64 / self.x.numel().max(1) as f64);
        let across = |t: &Tensor| ops::mul_scalar(&upcast(&ops::reshape(t, self.rstd.sizes())?)?, share);
        let level = mean.map(|grad| ops::expand(&across(grad)?, self.x.sizes(), false)).transpose()?;
        let tilt = rstd
            .map(|grad| {
                ops::mul_tensor(&ops::mul_tensor(&across(grad)?, &self.slope()?)?, &self.deviation()?)
            })
            .transpose()?;
        sum(level, tilt)?.map(|sum| ops::reshape(&sum, sizes)).transpose()
    }

    fn mean_tangent(&self, input: &Tensor, like: &Tensor) -> Result<Tensor> {
        let mean =
            ops::mean_dim(&upcast(&ops::reshape(input, self.x.sizes())?)?, Some(&self.dims), true, None)?;
        ops::reshape(&mean, like.sizes())
    }

    fn rstd_tangent(&self, input: &Tensor, like: &Tensor) -> Result<Tensor> {
        let moved = ops::mul_tensor(&upcast(&ops::reshape(input, self.x.sizes())?)?, &self.deviation()?)?;
        let mean = ops::mean_dim(&moved, Some(&self.dims), true, None)?;
        ops::reshape(&ops::mul_tensor(&mean, &self.slope()?)?, like.sizes())
    }
}

fn sum(a: Option<Tensor>, b: Option<Tensor>) -> Result<Option<Tensor>> {
    match (a, b) {
        (Some(a), Some(b)) => ops::add_tensor(&a, &b, ONE).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

/// The gradients that are selected by `mask`, with `more` added to the first.
fn with_statistics(
    found: Option<(Tensor, Tensor, Tensor)>,
    mask: [bool; 3],
    more: impl FnOnce() -> Result<Option<Tensor>>,
) -> Result<ThreeGradients> {
    let (input, weight, bias) = match found {
        Some((input, weight, bias)) => (Some(input), Some(weight), Some(bias)),
        None => (None, None, None),
    };
    let input = if mask[0] { sum(input, more()?)? } else { None };
    Ok((input, weight.filter(|_| mask[1]), bias.filter(|_| mask[2])))
}

/// The gradients of layer normalization, from those of its result, its means and its inverse standard deviations.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn layer_norm_backward(
    grad: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    grad_rstd: Option<&Tensor>,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    mask: [bool; 3],
) -> Result<ThreeGradients> {
    let found = grad.map(|grad| {
        ops::native_layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, mask)
    });
    with_statistics(found.transpose()?, mask, || match (grad_mean, grad_rstd) {
        (None, None) => Ok(None),
        grads => Statistics::of_last(input, normalized_shape, Some(mean), rstd)?
            .backward([grads.0, grads.1], input.sizes()),
    })
}

/// The gradients of root mean square normalization, from those of its result and its inverse roots.
pub fn rms_norm_backward(
    grad: Option<&Tensor>,
    grad_rstd: Option<&Tensor>,
    input: &Tensor,
    normalized_shape: &[i64],
    rstd: &Tensor,
    weight: Option<&Tensor>,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let found = grad
        .map(|grad| ops::_fused_rms_norm_backward(grad, input, normalized_shape, rstd, weight, mask))
        .transpose()?;
    let (of_input, of_weight) = found.map_or((None, None), |(input, weight)| (Some(input), Some(weight)));
    let more = match grad_rstd.filter(|_| mask[0]) {
        None => None,
        grad => {
            Statistics::of_last(input, normalized_shape, None, rstd)?.backward([None, grad], input.sizes())?
        }
    };
    Ok((sum(of_input.filter(|_| mask[0]), more)?, of_weight.filter(|_| mask[1])))
}

/// The gradients of group normalization with `n` by `group` groups, from those of its result, its means and its inverse standard
/// deviations.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn group_norm_backward(
    grad: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    grad_rstd: Option<&Tensor>,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    area: i64,
    group: i64,
    mask: [bool; 3],
) -> Result<ThreeGradients> {
    let found = grad.map(|grad| {
        ops::native_group_norm_backward(grad, input, mean, rstd, weight, n, c, area, group, mask)
    });
    with_statistics(found.transpose()?, mask, || match (grad_mean, grad_rstd) {
        (None, None) => Ok(None),
        grads => {
            Statistics::of_groups(input, [n, group], mean, rstd)?.backward([grads.0, grads.1], input.sizes())
        }
    })
}

/// The gradients of batch normalization, from those of its result and, in training, of its means and its inverse standard deviations.
#[expect(clippy::too_many_arguments, reason = "those of the operator and the gradients of its outputs")]
pub fn batch_norm_backward(
    grad: Option<&Tensor>,
    grad_mean: Option<&Tensor>,
    grad_rstd: Option<&Tensor>,
    input: &Tensor,
    weight: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    save_mean: &Tensor,
    save_invstd: &Tensor,
    train: bool,
    eps: f64,
    mask: [bool; 3],
) -> Result<ThreeGradients> {
    let (mean, invstd) = (Some(save_mean), Some(save_invstd));
    let found = grad.map(|grad| {
        ops::native_batch_norm_backward(
            grad,
            input,
            weight,
            running_mean,
            running_var,
            mean,
            invstd,
            train,
            eps,
            mask,
        )
    });
    with_statistics(found.transpose()?, mask, || match (grad_mean, grad_rstd) {
        _ if !train => Ok(None),
        (None, None) => Ok(None),
        grads => Statistics::of_channels(input, save_mean, save_invstd)?
            .backward([grads.0, grads.1], input.sizes()),
    })
}

/// The tangent of the means of layer normalization.
pub fn layer_norm_mean_tangent(
    tangent: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_last(input, normalized_shape, Some(mean), rstd)?.mean_tangent(tangent, mean)
}

/// The tangent of the inverse standard deviations of layer normalization, or, without means, of the inverse root mean squares.
pub fn layer_norm_rstd_tangent(
    tangent: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: Option<&Tensor>,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_last(input, normalized_shape, mean, rstd)?.rstd_tangent(tangent, rstd)
}

/// The tangent of the means of group normalization.
pub fn group_norm_mean_tangent(
    tangent: &Tensor,
    input: &Tensor,
    n: i64,
    group: i64,
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_groups(input, [n, group], mean, rstd)?.mean_tangent(tangent, mean)
}

/// The tangent of the inverse standard deviations of group normalization.
pub fn group_norm_rstd_tangent(
    tangent: &Tensor,
    input: &Tensor,
    n: i64,
    group: i64,
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_groups(input, [n, group], mean, rstd)?.rstd_tangent(tangent, rstd)
}

/// The tangent of the means of batch normalization; zeros outside training.
pub fn batch_norm_mean_tangent(
    tangent: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    train: bool,
) -> Result<Tensor> {
    match train {
        true => Statistics::of_channels(input, mean, rstd)?.mean_tangent(tangent, mean),
        false => ops::zeros_like(mean, None, None, None, None, None),
    }
}

/// The tangent of the inverse standard deviations of batch normalization; zeros outside training.
pub fn batch_norm_rstd_tangent(
    tangent: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    train: bool,
) -> Result<Tensor> {
    match train {
        true => Statistics::of_channels(input, mean, rstd)?.rstd_tangent(tangent, rstd),
        false => ops::zeros_like(rstd, None, None, None, None, None),
    }
}
