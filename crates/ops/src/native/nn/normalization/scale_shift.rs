//! Common to normalizations: the types of parameters and statistics, and the formulas that apply them.

use crate::loops::reduce::computing_type;
use crate::loops::row_ops::{ChannelSets, RowSums, channel_norm_backward};
use crate::loops::{self, FloatFormula};
use crate::structured::TensorSpec;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::Float;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, fallible};

/// `x * scale + shift`, broadcast, written into `out`.
pub(super) fn scale_and_shift(name: &'static str, [x, scale, shift, out]: [&Tensor; 4]) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula;
    impl FloatFormula<3> for Formula {
        #[inline(always)]
        fn call<V: Float>(self, [x, scale, shift]: [V; 3]) -> V {
            x.mul_add(scale, shift)
        }
    }
    let mut iter = TensorIterator::out(name, out);
    [x, scale, shift].into_iter().for_each(|input| iter.add_input(input));
    iter.build(Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::float_kernel(&iter, Formula)?;
    }
    iter.finish_out()
}

/// `(x - mean) * scale + shift`, broadcast, written into `out`: exact where `x` is the mean.
pub(super) fn center_and_scale(name: &'static str, inputs: [&Tensor; 4], out: &Tensor) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula;
    impl FloatFormula<4> for Formula {
        #[inline(always)]
        fn call<V: Float>(self, [x, mean, scale, shift]: [V; 4]) -> V {
            (x - mean).mul_add(scale, shift)
        }
    }
    let mut iter = TensorIterator::out(name, out);
    inputs.into_iter().for_each(|input| iter.add_input(input));
    iter.build(Config::PROMOTE)?;
    if !iter.is_meta() {
        loops::float_kernel(&iter, Formula)?;
    }
    iter.finish_out()
}

/// `1 / sqrt(variance + eps)`.
pub(super) fn inverse_root(name: &'static str, variance: &Tensor, eps: f64) -> Result<Tensor> {
    #[derive(Clone, Copy)]
    struct Formula(f64);
    impl FloatFormula<1> for Formula {
        #[inline(always)]
        fn call<V: Float>(self, [x]: [V; 1]) -> V {
            (x + V::constant(self.0)).sqrt().recip()
        }
    }
    let mut iter = TensorIterator::functional(name);
    iter.build_unary_float_op(variance)?;
    if !iter.is_meta() {
        loops::float_kernel(&iter, Formula(eps))?;
    }
    iter.take_result()
}

/// A parameter as kernels read it: contiguous, in the accumulation type.
pub(super) fn parameter(given: Option<&Tensor>, kernel: ScalarType) -> Result<Option<Tensor>> {
    let Some(given) = given else { return Ok(None) };
    if given.dtype() == kernel && given.is_contiguous() {
        return Ok(Some(given.clone()));
    }
    let converted = TensorSpec::like(given, given.sizes()).with_dtype(kernel).allocate("parameter")?;
    ops::copy_(&converted, given, false)?;
    Ok(Some(converted))
}

/// The type of saved statistics: that of the input, or the accumulation type if parameters are of another type than the input.
pub(super) fn statistics_dtype(input: &Tensor, parameters: [Option<&Tensor>; 2]) -> ScalarType {
    let wider = parameters.into_iter().flatten().any(|p| p.dtype() != input.dtype());
    if wider { computing_type(input.dtype()) } else { input.dtype() }
}

/// The gradients of batch or group normalization with respect to input, weight and bias, in two passes over each set of rows; `None` where the
/// tensors do not suit. `statistics` are mean and inverse standard deviation of each set.
pub(super) fn by_sets(
    name: &'static str,
    sets: ChannelSets,
    [grad, input]: [&Tensor; 2],
    statistics: &[Tensor; 2],
    weight: Option<&Tensor>,
    output_mask: [bool; 3],
) -> Result<Option<(Tensor, Tensor, Tensor)>> {
    if input.device().is_meta() || input.numel() == 0 {
        return Ok(None);
    }
    let kernel = computing_type(input.dtype());
    let given = parameter(weight, kernel)?;
    let grad_input = if output_mask[0] {
        TensorSpec::like(input, input.sizes()).allocate(name)?
    } else {
        no_gradient(input)?
    };
    let to = output_mask[0].then_some(&grad_input);
    let statistics = statistics.each_ref();
    let Some(sums) = channel_norm_backward(sets, [grad, input], statistics, given.as_ref(), to)? else {
        return Ok(None);
    };
    let dtype = weight.map_or(input.dtype(), Tensor::dtype);
    let by_channel = |is_needed: bool, k: usize| {
        if !is_needed {
            return no_gradient(input);
        }
        let rows = |channel: usize| sums.iter().skip(channel).step_by(sets.channels);
        let of_channel = |channel: usize| rows(channel).map(|sums: &RowSums| sums[k]).sum::<f64>();
        let totals =
            fallible::collect((0..sets.channels).map(of_channel)).map_err(|e| e.in_operator(name))?;
        Tensor::from_vec(totals, &[sets.channels as i64])?.to(dtype)
    };
    let (grad_weight, grad_bias) = (by_channel(output_mask[1], 1)?, by_channel(output_mask[2], 0)?);
    Ok(Some((grad_input, grad_weight, grad_bias)))
}

/// The placeholder of a gradient that is not requested: a tensor without elements.
pub(super) fn no_gradient(like: &Tensor) -> Result<Tensor> {
    TensorSpec::like(like, &[0]).allocate("gradient")
}

pub(super) fn contiguous(x: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    Ok(parameter(Some(x), dtype)?.unwrap_or_else(|| x.clone()))
}
