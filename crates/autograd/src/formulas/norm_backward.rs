//! Derivatives of normalizations: those of the kernels, and by the statistics that come with a result.

use super::normalizations::{ONE, ThreeGradients, widened};
use flambeau_core::{DimVec, Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// What a normalization found out about an input: means, unless those stay, and the inverse roots of mean squares.
struct Statistics {
    /// The input, as its groups are looked at.
    x: Tensor,
    /// The dimensions of a group.
    dims: DimVec,
    /// Both as they broadcast over the input.
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
        let across = |t: &Tensor| widened(&ops::reshape(t, &kept)?);
        Ok(Statistics {
            x: widened(&ops::reshape(input, sizes)?)?,
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

    /// The derivative of the inverse root by the mean square, doubled.
    fn slope(&self) -> Result<Tensor> {
        ops::neg(&ops::mul_tensor(&ops::square(&self.rstd)?, &self.rstd)?)
    }

    /// The gradient of the input, of `sizes`, from those of mean and inverse root.
    fn backward(&self, [mean, rstd]: [Option<&Tensor>; 2], sizes: &[i64]) -> Result<Option<Tensor>> {
        let share = Scalar::Float(self.rstd.numel() as f64 / self.x.numel().max(1) as f64);
        let across = |t: &Tensor| ops::mul_scalar(&widened(&ops::reshape(t, self.rstd.sizes())?)?, share);
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
            ops::mean_dim(&widened(&ops::reshape(input, self.x.sizes())?)?, Some(&self.dims), true, None)?;
        ops::reshape(&mean, like.sizes())
    }

    fn rstd_tangent(&self, input: &Tensor, like: &Tensor) -> Result<Tensor> {
        let moved = ops::mul_tensor(&widened(&ops::reshape(input, self.x.sizes())?)?, &self.deviation()?)?;
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

/// Three results as gradients, with `more` added to the first.
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

/// Of layer normalization, from the gradients of its result, its means and its inverse deviations.
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

/// Of root mean square normalization, from the gradients of its result and its inverse roots.
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

/// Of group normalization, of `n` by `group` groups, from the gradients of its result, its means and its inverse deviations.
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

/// Of batch normalization, from the gradients of its result and, in training, of its means and its inverse deviations.
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

/// Of the means of layer normalization in forward mode.
pub fn layer_norm_mean_tangent(
    tangent: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_last(input, normalized_shape, Some(mean), rstd)?.mean_tangent(tangent, mean)
}

/// Of the inverse deviations of layer normalization, or without means of the inverse roots of mean squares, in forward mode.
pub fn layer_norm_rstd_tangent(
    tangent: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: Option<&Tensor>,
    rstd: &Tensor,
) -> Result<Tensor> {
    Statistics::of_last(input, normalized_shape, mean, rstd)?.rstd_tangent(tangent, rstd)
}

/// Of the means of group normalization in forward mode.
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

/// Of the inverse deviations of group normalization in forward mode.
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

/// Of the means of batch normalization in forward mode; none outside training.
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

/// Of the inverse deviations of batch normalization in forward mode; none outside training.
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
