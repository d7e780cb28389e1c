//! Group normalization: each group of channels of each sample by its mean and variance.

use super::scale_shift::{
    by_sets, center_and_scale, contiguous, inverse_root, no_gradient, parameter, statistics_dtype,
};
use crate::loops::reduce::{computing_type, moments};
use crate::loops::row_ops::ChannelSets;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view::reshape;
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ensure, shape};

const NAME: &str = "native_group_norm";
const ONE: Scalar = Scalar::Int(1);

/// Group normalization.
pub fn group_norm(
    input: &Tensor,
    num_groups: i64,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enabled: bool,
) -> Result<Tensor> {
    ensure!(
        input.dim() >= 2,
        Shape("group_norm", "input"),
        "expected an input of at least 2 dimensions but got {}",
        input.signature()
    );
    let (n, c) = (input.sizes()[0], input.sizes()[1]);
    ensure!(
        c > 0,
        InvalidArgument,
        operator = "group_norm",
        argument = "input",
        "Expected number of channels to be greater than 0, got {c}"
    );
    let area = shape::product(&input.sizes()[2..]);
    ensure!(
        area > 0,
        InvalidArgument,
        operator = "group_norm",
        argument = "input",
        "Expected HxW to be greater than 0, got {area}"
    );
    Ok(ops::native_group_norm(input, weight, bias, n, c, area, num_groups, eps)?.0)
}

fn check(input: &Tensor, parameters: [Option<&Tensor>; 2], [n, c, area, groups]: [i64; 4]) -> Result<()> {
    ensure!(
        groups > 0 && c % groups == 0,
        InvalidArgument,
        operator = "group_norm",
        argument = "num_groups",
        "Expected number of channels in input to be divisible by num_groups, but got input of shape {:?} and num_groups={groups}",
        input.sizes()
    );
    ensure!(
        c.checked_mul(area).and_then(|sample| sample.checked_mul(n)) == Some(input.numel()),
        Shape(NAME, "input"),
        "expected an input of {n} x {c} x {area} elements but got {}",
        input.signature()
    );
    ensure!(
        input.is_floating_point(),
        NotImplemented,
        operator = "group_norm",
        argument = "input",
        "\"GroupNorm\" not implemented for '{}'",
        input.dtype()
    );
    for (name, parameter) in ["weight", "bias"].iter().zip(parameters) {
        let numel = parameter.map_or(c, Tensor::numel);
        ensure!(
            numel == c,
            Shape,
            operator = "group_norm",
            argument = name,
            "Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of {numel} \
             elements and input of shape {:?}",
            input.sizes()
        );
    }
    Ok(())
}

/// Group normalization, with the mean and the inverse standard deviation of each group, `n` by `group`.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn native_group_norm(
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    area: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    check(input, [weight, bias], [n, c, area, group])?;
    let kernel = computing_type(input.dtype());
    let out = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
    let spec = TensorSpec::like(input, &[n, group]).with_dtype(kernel);
    let (mean, var) = (spec.allocate(NAME)?, spec.allocate(NAME)?);
    if input.device().is_meta() {
        return Ok((out, mean, var));
    }
    let x = reshape(input, &[n, c, area])?;
    let grouped = reshape(&x, &[n, group, c / group * area])?;
    moments(&grouped, &var, &mean, DimMask::new(Some(&[2]), 3)?, 0.0, false)?;
    let rstd = inverse_root(NAME, &var, eps)?;
    let [center, scale, shift] = affine(&mean, &rstd, [weight, bias], [n, c, group])?;
    center_and_scale(NAME, [&x, &center, &scale, &shift], &ops::view(&out, &[n, c, area])?)?;
    let saved = statistics_dtype(input, [weight, bias]);
    Ok((out, as_dtype(&mean, saved)?, as_dtype(&rstd, saved)?))
}

/// The mean, the factor and the term of each channel of each sample, broadcast with `n` by `c` by 1: `(x - mean) * scale + shift`.
fn affine(
    mean: &Tensor,
    rstd: &Tensor,
    [weight, bias]: [Option<&Tensor>; 2],
    [n, c, group]: [i64; 3],
) -> Result<[Tensor; 3]> {
    let by_channel = |of_group: &Tensor| -> Result<Tensor> {
        let repeated = ops::view(of_group, &[n, group, 1])?.expand(&[n, group, c / group])?;
        reshape(&repeated, &[n, c, 1])
    };
    let of_channels = |given: Option<&Tensor>| -> Result<Option<Tensor>> {
        parameter(given, rstd.dtype())?.map(|p| ops::view(&p, &[1, c, 1])).transpose()
    };
    let scale = by_channel(rstd)?;
    let scale = match of_channels(weight)? {
        Some(weight) => ops::mul_tensor(&scale, &weight)?,
        None => scale,
    };
    let zero = || ops::zeros(&[1, 1, 1], Some(rstd.dtype()), None, None, None);
    Ok([by_channel(mean)?, scale, of_channels(bias)?.map_or_else(zero, Ok)?])
}

/// The derivative of [`native_group_norm`] with respect to input, weight and bias.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn native_group_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    n: i64,
    c: i64,
    area: i64,
    group: i64,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    check(input, [weight, None], [n, c, area, group])?;
    let kernel = computing_type(input.dtype());
    let (images, channels) = (n as usize, c as usize);
    let sets = ChannelSets { images, channels, area: area as usize, group: Some((c / group) as usize) };
    let statistics = [contiguous(mean, kernel)?, contiguous(rstd, kernel)?];
    if let Some(gradients) = by_sets(NAME, sets, [grad_out, input], &statistics, weight, output_mask)? {
        return Ok(gradients);
    }
    let (d, mul) = (c / group, ops::mul_tensor);
    let grad = reshape(&contiguous(grad_out, kernel)?, &[n, group, d, area])?;
    let x = reshape(&contiguous(input, kernel)?, &[n, group, d, area])?;
    let statistic = |t: &Tensor| ops::view(&contiguous(t, kernel)?, &[n, group, 1, 1]);
    let (mean, rstd) = (statistic(mean)?, statistic(rstd)?);
    let normal = mul(&ops::sub_tensor(&x, &mean, ONE)?, &rstd)?;
    let product = mul(&grad, &normal)?;
    let grad_input = if output_mask[0] {
        let weight = parameter(weight, kernel)?.map(|w| ops::view(&w, &[1, group, d, 1])).transpose()?;
        let weigh = |t: &Tensor| weight.as_ref().map_or_else(|| Ok(t.clone()), |w| mul(t, w));
        let weighted = weigh(&grad)?;
        let a = ops::mean_dim(&weighted, Some(&[2, 3]), true, None)?;
        let b = ops::mean_dim(&weigh(&product)?, Some(&[2, 3]), true, None)?;
        let tilted = ops::sub_tensor(&ops::sub_tensor(&weighted, &a, ONE)?, &mul(&normal, &b)?, ONE)?;
        as_dtype(&ops::view(&mul(&tilted, &rstd)?, input.sizes())?, input.dtype())?
    } else {
        no_gradient(input)?
    };
    let dtype = weight.map_or(input.dtype(), Tensor::dtype);
    let by_channel = |t: &Tensor| -> Result<Tensor> {
        let sums = ops::sum_dim_intlist(t, Some(&[0, 3]), false, None)?;
        as_dtype(&ops::view(&sums, &[c])?, dtype)
    };
    let grad_weight = if output_mask[1] { by_channel(&product)? } else { no_gradient(input)? };
    let grad_bias = if output_mask[2] { by_channel(&grad)? } else { no_gradient(input)? };
    Ok((grad_input, grad_weight, grad_bias))
}
