//! Common to normalizations: the types of parameters and statistics, and the formulas that apply them.

use crate::loops::reduce::computing_type;
use crate::loops::{self, FloatFormula};
use crate::structured::TensorSpec;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::Float;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType};

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

/// The placeholder of a gradient that is not requested: a tensor without elements.
pub(super) fn no_gradient(like: &Tensor) -> Result<Tensor> {
    TensorSpec::like(like, &[0]).allocate("gradient")
}

pub(super) fn contiguous(x: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    Ok(parameter(Some(x), dtype)?.unwrap_or_else(|| x.clone()))
}
