//! `var`, `std` and their like, and the normalizations that use them: of batches, of groups, and by the root of the mean square.

use super::reduce::Reduction;
use super::{computing_type, dense_as, empty, made, meta};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, bail};
use flambeau_ops::native::nn::normalization;
use flambeau_ops::native::reduce::var_mean;
use flambeau_ops::structured::TensorSpec;
use flambeau_ops::{Tensor, ops, register};

register!(ops::VAR_CORRECTION, Cuda, var);
register!(ops::STD_CORRECTION, Cuda, std);
register!(ops::VAR_MEAN_CORRECTION, Cuda, var_mean_kernel);
register!(ops::STD_MEAN_CORRECTION, Cuda, std_mean_kernel);
register!(ops::NATIVE_BATCH_NORM, Cuda, native_batch_norm);
register!(ops::NATIVE_GROUP_NORM, Cuda, native_group_norm);
register!(ops::_FUSED_RMS_NORM, Cuda, fused_rms_norm);
register!(ops::_FUSED_RMS_NORM_BACKWARD, Cuda, fused_rms_norm_backward);

const ONE: Scalar = Scalar::Int(1);

type Dims<'a> = Option<&'a [i64]>;

fn correction_of(given: Option<Scalar>) -> f64 {
    given.unwrap_or(ONE).to_f64()
}

/// The reduction of that name, into a new tensor of `spec`.
fn spread(
    name: &'static str,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    spec: TensorSpec,
) -> Result<Tensor> {
    let out = spec.allocate(name)?;
    if self_.dtype().is_complex() {
        let keepdim = out.dim() == self_.dim();
        ops::copy_(&out, &complex_spread(name, self_, dim, correction, keepdim)?, false)?;
    } else {
        Reduction::new(name, self_, dim)?.run(name, [Some(&out), None], correction_of(correction))?;
    }
    Ok(out)
}

/// The variance of complex numbers is that of their real and imaginary parts together.
fn complex_spread(
    name: &str,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    let of = |part: &Tensor| ops::var_correction(part, dim, correction, keepdim);
    let sum = ops::add_tensor(&of(&ops::real(self_)?)?, &of(&ops::imag(self_)?)?, ONE)?;
    if name == "std" { ops::sqrt(&sum) } else { Ok(sum) }
}

fn var(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    spread("var", self_, dim, correction, var_mean::var_meta(self_, dim, correction, keepdim)?)
}

fn std(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<Tensor> {
    spread("std", self_, dim, correction, var_mean::std_meta(self_, dim, correction, keepdim)?)
}

fn var_mean_kernel(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let (spread, mean) = var_mean::var_mean(&meta(self_)?, dim, correction, keepdim)?;
    with_mean("var", self_, dim, correction_of(correction), [&spread, &mean])
}

fn std_mean_kernel(
    _: DispatchKeySet,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: Option<Scalar>,
    keepdim: bool,
) -> Result<(Tensor, Tensor)> {
    let (spread, mean) = var_mean::std_mean(&meta(self_)?, dim, correction, keepdim)?;
    with_mean("std", self_, dim, correction_of(correction), [&spread, &mean])
}

fn with_mean(
    fold: &'static str,
    self_: &Tensor,
    dim: Dims<'_>,
    correction: f64,
    like: [&Tensor; 2],
) -> Result<(Tensor, Tensor)> {
    let (spread, mean) = (made(like[0], self_.device())?, made(like[1], self_.device())?);
    if self_.dtype().is_complex() {
        let keepdim = spread.dim() == self_.dim();
        let correction = Some(Scalar::Float(correction));
        ops::copy_(&spread, &complex_spread(fold, self_, dim, correction, keepdim)?, false)?;
        ops::copy_(&mean, &ops::mean_dim(self_, dim, keepdim, None)?, false)?;
        return Ok((spread, mean));
    }
    Reduction::new(fold, self_, dim)?.run(fold, [Some(&spread), Some(&mean)], correction)?;
    Ok((spread, mean))
}

/// Mean and variance without correction, in the type in which sums are computed.
fn moments(x: &Tensor, dims: &[i64], sizes: &[i64]) -> Result<(Tensor, Tensor)> {
    let kernel = computing_type(x.dtype());
    let (mean, var) = (empty(sizes, kernel, x.device())?, empty(sizes, kernel, x.device())?);
    Reduction::new("var", x, Some(dims))?.run("var", [Some(&var), Some(&mean)], 0.0)?;
    Ok((mean, var))
}

fn inverse_root(variance: &Tensor, eps: f64) -> Result<Tensor> {
    ops::rsqrt(&ops::add_scalar(variance, Scalar::Float(eps), ONE)?)
}

/// `(x - mean) * rstd * weight + bias`, of tensors that broadcast, in the type of `out`.
fn normalized(
    x: &Tensor,
    [mean, rstd]: [&Tensor; 2],
    [weight, bias]: [Option<&Tensor>; 2],
    out: &Tensor,
) -> Result<()> {
    let mut y = ops::mul_tensor(&ops::sub_tensor(x, mean, ONE)?, rstd)?;
    if let Some(weight) = weight {
        y = ops::mul_tensor(&y, weight)?;
    }
    if let Some(bias) = bias {
        y = ops::add_tensor(&y, bias, ONE)?;
    }
    ops::copy_(out, &y, false)
}

/// A parameter in a type, viewed with sizes that broadcast.
fn parameter(given: Option<&Tensor>, dtype: ScalarType, sizes: &[i64]) -> Result<Option<Tensor>> {
    given.map(|given| ops::view(&dense_as(given, dtype)?, sizes)).transpose()
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn native_batch_norm(
    _: DispatchKeySet,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    running_mean: Option<&Tensor>,
    running_var: Option<&Tensor>,
    training: bool,
    momentum: f64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "batch_norm";
    let without_values = |t: Option<&Tensor>| t.map(meta).transpose();
    let (w, b, m, v) = (
        without_values(weight)?,
        without_values(bias)?,
        without_values(running_mean)?,
        without_values(running_var)?,
    );
    let shapes = normalization::native_batch_norm(
        &meta(input)?,
        w.as_ref(),
        b.as_ref(),
        m.as_ref(),
        v.as_ref(),
        training,
        momentum,
        eps,
    )?;
    let out = made(&shapes.0, input.device())?;
    let (kernel, channels) = (computing_type(input.dtype()), input.sizes()[1]);
    let mut across = vec![1; input.dim()];
    across[1] = channels;
    let (mean, invstd) = if training {
        let dims: Vec<i64> = (0..input.dim() as i64).filter(|d| *d != 1).collect();
        let (mean, var) = moments(input, &dims, &[channels])?;
        let count = input.numel() as f64 / channels as f64;
        if count > 0.0 {
            update(running_mean, &mean, momentum, 1.0)?;
            update(running_var, &var, momentum, count / (count - 1.0))?;
        }
        (mean, inverse_root(&var, eps)?)
    } else {
        let (Some(mean), Some(var)) = (running_mean, running_var) else {
            bail!(
                InvalidArgument(NAME, "running_mean"),
                "expected `running_mean` and `running_var` to be defined in evaluation mode"
            );
        };
        (dense_as(mean, kernel)?, inverse_root(&dense_as(var, kernel)?, eps)?)
    };
    let parameters = [parameter(weight, kernel, &across)?, parameter(bias, kernel, &across)?];
    let statistics = [ops::view(&mean, &across)?, ops::view(&invstd, &across)?];
    normalized(
        &dense_or_same(input, kernel)?,
        [&statistics[0], &statistics[1]],
        [parameters[0].as_ref(), parameters[1].as_ref()],
        &out,
    )?;
    if !training {
        let none = || empty(&[0], input.dtype(), input.device());
        return Ok((out, none()?, none()?));
    }
    let saved = saved_type(input, [weight, bias]);
    Ok((out, dense_as(&mean, saved)?, dense_as(&invstd, saved)?))
}

/// A tensor in a type, with its strides.
fn dense_or_same(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype { Ok(tensor.clone()) } else { dense_as(tensor, dtype) }
}

/// The type of statistics that are returned, as on the host.
fn saved_type(input: &Tensor, parameters: [Option<&Tensor>; 2]) -> ScalarType {
    let differs = parameters.into_iter().flatten().any(|parameter| parameter.dtype() != input.dtype());
    if differs { computing_type(input.dtype()) } else { input.dtype() }
}

/// `running = (1 - momentum) * running + momentum * statistic * factor`.
fn update(running: Option<&Tensor>, statistic: &Tensor, momentum: f64, factor: f64) -> Result<()> {
    let Some(running) = running else { return Ok(()) };
    let old = ops::mul_scalar(running, Scalar::Float(1.0 - momentum))?;
    let new = ops::mul_scalar(statistic, Scalar::Float(momentum * factor))?;
    ops::copy_(running, &ops::add_tensor(&old, &new, ONE)?, false)
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn native_group_norm(
    _: DispatchKeySet,
    input: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    n: i64,
    c: i64,
    area: i64,
    group: i64,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    let (w, b) = (weight.map(meta).transpose()?, bias.map(meta).transpose()?);
    let shapes =
        normalization::native_group_norm(&meta(input)?, w.as_ref(), b.as_ref(), n, c, area, group, eps)?;
    let out = made(&shapes.0, input.device())?;
    let kernel = computing_type(input.dtype());
    let x = ops::reshape(&dense_as(input, kernel)?, &[n, group, c / group, area])?;
    let rows = ops::reshape(&x, &[n, group, c / group * area])?;
    let (mean, var) = moments(&rows, &[2], &[n, group])?;
    let rstd = inverse_root(&var, eps)?;
    let of_groups = |t: &Tensor| ops::view(t, &[n, group, 1, 1]);
    let sizes = [1, group, c / group, 1];
    let parameters = [parameter(weight, kernel, &sizes)?, parameter(bias, kernel, &sizes)?];
    normalized(
        &x,
        [&of_groups(&mean)?, &of_groups(&rstd)?],
        [parameters[0].as_ref(), parameters[1].as_ref()],
        &ops::view(&out, &[n, group, c / group, area])?,
    )?;
    let saved = saved_type(input, [weight, bias]);
    Ok((out, dense_as(&mean, saved)?, dense_as(&rstd, saved)?))
}

/// The last dimensions, as many as a shape has.
fn last_dims(shape: &[i64]) -> Vec<i64> {
    (0..shape.len() as i64).map(|d| d - shape.len() as i64).collect()
}

fn fused_rms_norm(
    _: DispatchKeySet,
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    let w = weight.map(meta).transpose()?;
    let shapes = normalization::fused_rms_norm(&meta(input)?, normalized_shape, w.as_ref(), eps)?;
    let (out, kernel) = (made(&shapes.0, input.device())?, computing_type(input.dtype()));
    if input.numel() == 0 {
        let rrms = made(&shapes.1, input.device())?;
        ops::zero_(&rrms)?;
        return Ok((out, rrms));
    }
    let default_eps = if kernel == ScalarType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let x = dense_as(input, kernel)?;
    let dims = last_dims(normalized_shape);
    let squares = ops::mean_dim(&ops::mul_tensor(&x, &x)?, Some(&dims), true, None)?;
    let rrms = inverse_root(&squares, eps.unwrap_or(default_eps))?;
    let mut y = ops::mul_tensor(&x, &rrms)?;
    if let Some(weight) = weight {
        y = ops::mul_tensor(&y, &dense_as(weight, kernel)?)?;
    }
    ops::copy_(&out, &y, false)?;
    Ok((out, rrms))
}

fn fused_rms_norm_backward(
    _: DispatchKeySet,
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    rstd: &Tensor,
    weight: Option<&Tensor>,
    output_mask: [bool; 2],
) -> Result<(Tensor, Tensor)> {
    let w = weight.map(meta).transpose()?;
    let shapes = normalization::fused_rms_norm_backward(
        &meta(grad_out)?,
        &meta(input)?,
        normalized_shape,
        &meta(rstd)?,
        w.as_ref(),
        output_mask,
    )?;
    let kernel = computing_type(input.dtype());
    let (grad, x, rstd) = (dense_as(grad_out, kernel)?, dense_as(input, kernel)?, dense_as(rstd, kernel)?);
    let (of_input, of_weight) = (made(&shapes.0, input.device())?, made(&shapes.1, input.device())?);
    let normal = ops::mul_tensor(&x, &rstd)?;
    if output_mask[0] && of_input.numel() > 0 {
        let weighted = match weight {
            Some(weight) => ops::mul_tensor(&grad, &dense_as(weight, kernel)?)?,
            None => grad.clone(),
        };
        let dims = last_dims(normalized_shape);
        let along = ops::mean_dim(&ops::mul_tensor(&weighted, &normal)?, Some(&dims), true, None)?;
        let centred = ops::sub_tensor(&weighted, &ops::mul_tensor(&normal, &along)?, ONE)?;
        ops::copy_(&of_input, &ops::mul_tensor(&centred, &rstd)?, false)?;
    }
    if output_mask[1] && weight.is_some() {
        let outer: Vec<i64> = (0..(input.dim() - normalized_shape.len()) as i64).collect();
        let each = ops::mul_tensor(&grad, &normal)?;
        let sum = match outer.is_empty() {
            true => each,
            false => ops::sum_dim_intlist(&each, Some(&outer), false, None)?,
        };
        ops::copy_(&of_weight, &ops::view(&sum, of_weight.sizes())?, false)?;
    }
    Ok((of_input, of_weight))
}
