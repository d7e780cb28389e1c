//! Layer and RMS normalization of the last dimensions; batch normalization of channels; group normalization.

mod batch_norm;
mod group_norm;
mod scale_shift;

pub use batch_norm::*;
pub use group_norm::{group_norm, native_group_norm, native_group_norm_backward};

use crate::loops::reduce::computing_type;
use crate::loops::row_ops::{
    Affine, GradRows, ROWS_PER_PART, is_one_element, layer_norm_backward_rows, layer_norm_rows,
    rms_norm_rows, sum_parameter_grads,
};
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, ensure};
use scale_shift::{contiguous, no_gradient, parameter, statistics_dtype};

/// The mask of the last dimensions, after checking that they and the parameters have `normalized_shape`.
fn last_dims(
    name: &str,
    input: &Tensor,
    normalized_shape: &[i64],
    parameters: [Option<&Tensor>; 2],
) -> Result<DimMask> {
    ensure!(
        !normalized_shape.is_empty(),
        Shape(name, "normalized_shape"),
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got \
         normalized_shape = {normalized_shape:?}"
    );
    for (which, parameter) in ["weight", "bias"].iter().zip(parameters) {
        let sizes = parameter.map_or(normalized_shape, Tensor::sizes);
        ensure!(
            sizes == normalized_shape,
            Shape(name, which),
            "Expected {which} to be of same shape as normalized_shape, but got {which} of shape {sizes:?} and \
             normalized_shape = {normalized_shape:?}"
        );
    }
    ensure!(
        input.sizes().ends_with(normalized_shape),
        Shape(name, "input"),
        "Given normalized_shape={normalized_shape:?}, expected input with shape [*, {normalized_shape:?}], but got \
         input of size {:?}",
        input.sizes()
    );
    ensure!(
        input.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "input",
        "\"{name}\" not implemented for '{}'",
        input.dtype()
    );
    let dims: Vec<i64> =
        (0..normalized_shape.len() as i64).map(|d| d - normalized_shape.len() as i64).collect();
    DimMask::new(Some(&dims), input.dim())
}

/// Layer normalization.
pub fn layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
    _cudnn_enable: bool,
) -> Result<Tensor> {
    Ok(ops::native_layer_norm(input, normalized_shape, weight, bias, eps)?.0)
}

/// Layer normalization, with the means and the inverse standard deviations.
pub fn native_layer_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "native_layer_norm";
    let mask = last_dims(NAME, input, normalized_shape, [weight, bias])?;
    let (kernel, saved) = (computing_type(input.dtype()), statistics_dtype(input, [weight, bias]));
    let out = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
    let spec = TensorSpec::like(input, &mask.reduced_sizes(input.sizes(), true)).with_dtype(kernel);
    let (mean, rstd) = (spec.allocate(NAME)?, spec.allocate(NAME)?);
    if input.numel() == 0 {
        ops::zero_(&mean)?;
        ops::zero_(&rstd)?;
    } else if !input.device().is_meta() {
        let (weight, bias) = (parameter(weight, kernel)?, parameter(bias, kernel)?);
        let affine = Affine { weight: weight.as_ref(), bias: bias.as_ref() };
        layer_norm_rows(input, affine, [&out, &mean, &rstd], mask, eps)?;
    }
    Ok((out, as_dtype(&mean, saved)?, as_dtype(&rstd, saved)?))
}

/// The derivative of [`native_layer_norm`] with respect to input, weight and bias.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn native_layer_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "native_layer_norm_backward";
    let mask = last_dims(NAME, input, normalized_shape, [weight, bias])?;
    check_backward(NAME, [grad_out, input], normalized_shape, [Some(mean), Some(rstd)])?;
    let kernel = computing_type(input.dtype());
    let (mean, rstd) = (contiguous(mean, kernel)?, contiguous(rstd, kernel)?);
    let grad_input = if output_mask[0] {
        let grad = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
        if !input.device().is_meta() {
            let weight = parameter(weight, kernel)?;
            layer_norm_backward_rows([grad_out, input], Some(&mean), &rstd, weight.as_ref(), &grad, mask)?;
        }
        grad
    } else {
        no_gradient(input)?
    };
    let requested = [weight.filter(|_| output_mask[1]), bias.filter(|_| output_mask[2])];
    let [grad_weight, grad_bias] =
        parameter_gradients(NAME, [grad_out, input], Some(&mean), &rstd, mask, requested)?;
    Ok((grad_input, grad_weight, grad_bias))
}

/// The gradients of those of weight and bias that are given, with their sizes and types.
fn parameter_gradients(
    name: &str,
    [grad_out, input]: [&Tensor; 2],
    mean: Option<&Tensor>,
    rstd: &Tensor,
    mask: DimMask,
    requested: [Option<&Tensor>; 2],
) -> Result<[Tensor; 2]> {
    if requested.iter().all(Option::is_none) {
        return Ok([no_gradient(input)?, no_gradient(input)?]);
    }
    let kernel = computing_type(input.dtype());
    let n = mask.count(input.sizes());
    let rows = if n == 0 { 0 } else { input.numel() / n };
    let parts = rows.div_euclid(ROWS_PER_PART as i64) + i64::from(rows % ROWS_PER_PART as i64 != 0);
    let sums = TensorSpec::like(input, &[parts, 2, n]).with_dtype(kernel).allocate(name)?;
    if !input.device().is_meta() && sums.numel() > 0 {
        let repeated = grad_out.dtype() == kernel && is_one_element(grad_out);
        let grad = if repeated { grad_out.clone() } else { contiguous(grad_out, kernel)? };
        let grad = GradRows { tensor: &grad, row: if repeated { 0 } else { n as usize }, repeated };
        let x = contiguous(input, kernel)?;
        sum_parameter_grads(grad, &x, mean, rstd, [rows as usize, n as usize], &sums)?;
    }
    let sums = ops::sum_dim_intlist(&sums, Some(&[0]), false, None)?;
    let gradient = |index: i64, requested: Option<&Tensor>| match requested {
        Some(parameter) => {
            let sum = ops::select_int(&sums, 0, index)?;
            ops::clone(&as_dtype(&ops::reshape(&sum, parameter.sizes())?, parameter.dtype())?, None)
        }
        None => no_gradient(input),
    };
    Ok([gradient(0, requested[0])?, gradient(1, requested[1])?])
}

/// Checks that the gradient has the sizes of the input, and that there is one statistic for each row.
fn check_backward(
    name: &str,
    [grad_out, input]: [&Tensor; 2],
    normalized_shape: &[i64],
    statistics: [Option<&Tensor>; 2],
) -> Result<()> {
    ensure!(
        grad_out.sizes() == input.sizes(),
        Shape(name, "grad_out"),
        "expected `grad_out` of sizes {:?} but got {:?}",
        input.sizes(),
        grad_out.sizes()
    );
    let outer = &input.sizes()[..input.dim() - normalized_shape.len()];
    let rows = outer.iter().fold(1i64, |all, size| all.wrapping_mul(*size));
    for (which, statistic) in ["mean", "rstd"].iter().zip(statistics) {
        let got = statistic.map_or(rows, Tensor::numel);
        ensure!(got == rows, Shape(name, which), "expected `{which}` of {rows} elements but got {got}");
    }
    Ok(())
}

/// Root mean square normalization.
pub fn rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<Tensor> {
    Ok(ops::_fused_rms_norm(input, normalized_shape, weight, eps)?.0)
}

/// Root mean square normalization, with the inverse roots of the mean squares, in the accumulation type.
pub fn fused_rms_norm(
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    eps: Option<f64>,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "rms_norm";
    let mask = last_dims(NAME, input, normalized_shape, [weight, None])?;
    let kernel = computing_type(input.dtype());
    let default_eps = if kernel == ScalarType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let out = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
    let sizes = mask.reduced_sizes(input.sizes(), true);
    let rrms = TensorSpec::like(input, &sizes).with_dtype(kernel).allocate(NAME)?;
    if input.numel() == 0 {
        ops::zero_(&rrms)?;
    } else if !input.device().is_meta() {
        rms_norm_rows(
            input,
            parameter(weight, kernel)?.as_ref(),
            [&out, &rrms],
            mask,
            eps.unwrap_or(default_eps),
        )?;
    }
    Ok((out, rrms))
}

/// The derivative of [`fused_rms_norm`] with respect to input and weight.
pub fn fused_rms_norm_backward(
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    rstd: &Tensor,
    weight: Option<&Tensor>,
    output_mask: [bool; 2],
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "_fused_rms_norm_backward";
    let mask = last_dims(NAME, input, normalized_shape, [weight, None])?;
    check_backward(NAME, [grad_out, input], normalized_shape, [None, Some(rstd)])?;
    let kernel = computing_type(input.dtype());
    let rstd = contiguous(rstd, kernel)?;
    let grad_input = TensorSpec::like(input, input.sizes()).allocate(NAME)?;
    if output_mask[0] && !input.device().is_meta() {
        let weight = parameter(weight, kernel)?;
        layer_norm_backward_rows([grad_out, input], None, &rstd, weight.as_ref(), &grad_input, mask)?;
    }
    let requested = [weight.filter(|_| output_mask[1]), None];
    let [grad_weight, _] = parameter_gradients(NAME, [grad_out, input], None, &rstd, mask, requested)?;
    Ok((if output_mask[0] { grad_input } else { no_gradient(input)? }, grad_weight))
}
