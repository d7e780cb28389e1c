//! Pointwise operators with three arguments: `addcmul`, `addcdiv`, `lerp` and `clamp`.

use crate::Tensor;
use crate::native::formulas::build_with_scalars;
use crate::native::pointwise::binary::{self, ordered_max, ordered_min};
use crate::tensor_iterator::{Config, TensorIterator};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

formulas! { number_kernel(NumberFormula, Number) -> V:
    /// self + value * tensor1 * tensor2.
    fn addcmul, addcmul_meta = build_ternary_op(self_: x, tensor1: a, tensor2: b; value: Scalar) => x + V::scalar(value) * a * b;
}

formulas! { number_choice_kernel(OrderedFormula, Ordered) -> V:
    /// Each element clamped to two numbers that are not NaN, of which `min` is not 0 and `max` not -0, so that no zeros of different
    /// signs are compared; NaN is propagated.
    fn between, between_meta = build_converted_op(self_: x; min: Scalar, max: Scalar) => V::scalar(max).min(V::scalar(min).max(x));
    /// The same for a `min` of 0.
    fn between_from_zero, between_from_zero_meta = build_converted_op(self_: x; min: Scalar, max: Scalar) =>
        V::scalar(max).min(V::select(x.ne(x), x, x.max(V::scalar(min))));
    /// The same for any two numbers that are not NaN.
    fn between_any, between_any_meta = build_converted_op(self_: x; min: Scalar, max: Scalar) =>
        V::scalar(max).min_of_signed(V::scalar(min).max_of_signed(x));
    /// The maximum of each element and a number that is neither 0 nor NaN, or is -0.
    fn at_least, at_least_meta = build_converted_op(self_: x; min: Scalar) => V::scalar(min).max(x);
    /// The maximum of each element and the number.
    fn at_least_any, at_least_any_meta = build_converted_op(self_: x; min: Scalar) => {
        let min = V::scalar(min);
        V::select(x.ne(x), x, V::select(min.ne(min), min, x.max(min)))
    };
    /// The minimum of each element and a number that is neither -0 nor NaN.
    fn at_most, at_most_meta = build_converted_op(self_: x; max: Scalar) => V::scalar(max).min(x);
    /// The minimum of each element and the number.
    fn at_most_any, at_most_any_meta = build_converted_op(self_: x; max: Scalar) => {
        let max = V::scalar(max);
        V::select(x.ne(x), x, V::select(max.ne(max), max, x.min(max)))
    };
    /// Each element clamped to the elements of two tensors.
    fn between_tensors, between_tensors_meta = build_ternary_op(self_: x, min: low, max: high) => ordered_min(ordered_max(x, low), high);
}

// Bounds of integers are no `Scalar`, which would be converted for each vector: its kind decides how, and the loop kept the branch.
formulas! { integer_choice_kernel(OrderedFormula, Ordered) -> V:
    /// Each integer clamped to two others.
    fn between_integers, between_integers_meta = build_converted_op(self_: x; min: i64, max: i64) =>
        V::scalar(Scalar::Int(max)).min(V::scalar(Scalar::Int(min)).max(x));
    /// The maximum of each integer and the number.
    fn at_least_integer, at_least_integer_meta = build_converted_op(self_: x; min: i64) => V::scalar(Scalar::Int(min)).max(x);
    /// The minimum of each integer and the number.
    fn at_most_integer, at_most_integer_meta = build_converted_op(self_: x; max: i64) => V::scalar(Scalar::Int(max)).min(x);
}

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// self + value * tensor1 / tensor2, of floating point numbers.
    fn addcdiv, addcdiv_floats_meta = build_ternary_op(self_: x, tensor1: a, tensor2: b; value: Scalar) => x + V::scalar(value) * (a / b);
    /// self + weight * (end - self).
    fn lerp, lerp_floats_meta = build_ternary_op(self_: from, end: to, weight: w) => interpolated(from, to, w);
    /// [`lerp`] with one weight.
    fn lerp_scalar, lerp_scalar_floats_meta = build_binary_op(self_: from, end: to; weight: Scalar) =>
        interpolated(from, to, V::scalar(weight));
}

/// `from + w (to - from)`, computed from the nearer end so that weights 0 and 1 give the ends exactly.
#[inline(always)]
pub(super) fn interpolated<V: crate::vectorized::Float>(from: V, to: V, w: V) -> V {
    let step = to - from;
    V::select(w.abs().lt(V::constant(0.5)), from + w * step, to - step * (V::one() - w))
}

/// Shape and type of [`addcdiv`].
pub fn addcdiv_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    tensor1: &'a Tensor,
    tensor2: &'a Tensor,
    _: Scalar,
) -> Result<()> {
    ensure!(
        !(tensor1.dtype().is_integral(true) && tensor2.dtype().is_integral(true)),
        Dtype(iter.name(), "tensor2"),
        "Integer division with addcdiv is not supported: convert `tensor1` or `tensor2` to a floating point type"
    );
    iter.build_ternary_op(self_, tensor1, tensor2)
}

/// Refuses an `other` of another type than `self_`.
fn check_same_dtype(iter: &TensorIterator<'_>, self_: &Tensor, name: &str, other: &Tensor) -> Result<()> {
    ensure!(
        self_.dtype() == other.dtype(),
        Dtype(iter.name(), name),
        "expected dtype {} for `{name}` but got dtype {}",
        self_.dtype(),
        other.dtype()
    );
    Ok(())
}

/// Shape and type of [`lerp`].
pub fn lerp_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    end: &'a Tensor,
    weight: &'a Tensor,
) -> Result<()> {
    check_same_dtype(iter, self_, "end", end)?;
    if weight.dim() > 0 {
        check_same_dtype(iter, self_, "weight", weight)?;
    }
    iter.build_ternary_op(self_, end, weight)?;
    crate::native::formulas::check_out(iter, self_.dtype())
}

/// Shape and type of [`lerp_scalar`].
pub fn lerp_scalar_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    end: &'a Tensor,
    weight: Scalar,
) -> Result<()> {
    check_same_dtype(iter, self_, "end", end)?;
    ensure!(
        !weight.is_complex() || self_.is_complex(),
        Dtype(iter.name(), "weight"),
        "expected a real weight for tensors of {} but got {weight}",
        self_.dtype()
    );
    iter.build_binary_op(self_, end)
}

/// Refuses a call without any bound.
fn check_limits(iter: &TensorIterator<'_>, some: bool) -> Result<()> {
    ensure!(some, InvalidArgument(iter.name(), "min"), "At least one of 'min' or 'max' must not be None");
    Ok(())
}

/// A bound as the nearest number of the type: 300 becomes 255 for uint8.
fn saturated(limit: Scalar, dtype: ScalarType) -> Scalar {
    if !dtype.is_integral(true) {
        return limit;
    }
    if dtype == ScalarType::U64 {
        // The i64 of the same order, which stands for it in `number_choice_kernel`.
        let nearest = if limit.to_f64() < 0.0 { 0 } else { limit.to_u64() };
        return Scalar::Int((nearest ^ 1 << 63) as i64);
    }
    let unused = 64 - 8 * dtype.size() as u32;
    let (min, max) = if dtype.is_signed() {
        (i64::MIN >> unused, i64::MAX >> unused)
    } else {
        (0, i64::MAX >> (unused - 1))
    };
    Scalar::Int(limit.to_i64().clamp(min, max))
}

/// Shape and type of [`clamp`].
pub fn clamp_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<()> {
    check_limits(iter, min.is_some() || max.is_some())?;
    build_with_scalars(iter, self_, [min, max].into_iter().flatten())
}

/// Each element clamped to `min..=max`, and to `max` if `min > max`. NaN is propagated, and a bound of NaN gives NaN.
pub fn clamp(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    min: Option<Scalar>,
    max: Option<Scalar>,
) -> Result<()> {
    let dtype = iter.common_dtype();
    match (min.map(|m| saturated(m, dtype)), max.map(|m| saturated(m, dtype))) {
        (Some(Scalar::Int(min)), Some(Scalar::Int(max))) if dtype.is_integral(false) => {
            between_integers(iter, self_, min, max)
        }
        (Some(Scalar::Int(min)), None) if dtype.is_integral(false) => at_least_integer(iter, self_, min),
        (None, Some(Scalar::Int(max))) if dtype.is_integral(false) => at_most_integer(iter, self_, max),
        (Some(min), Some(max)) if min.to_f64().is_nan() || max.to_f64().is_nan() => {
            at_least_any(iter, self_, Scalar::Float(f64::NAN))
        }
        (Some(min), Some(max)) => match [min, max].map(|bound| Bound::of(bound, dtype)) {
            [Bound::Zero, Bound::Zero | Bound::Other] => between_from_zero(iter, self_, min, max),
            [_, Bound::Zero | Bound::Other] => between(iter, self_, min, max),
            _ => between_any(iter, self_, min, max),
        },
        (Some(min), None) => match Bound::of(min, dtype) {
            Bound::Other | Bound::NegativeZero => at_least(iter, self_, min),
            _ => at_least_any(iter, self_, min),
        },
        (None, Some(max)) => match Bound::of(max, dtype) {
            Bound::Other | Bound::Zero => at_most(iter, self_, max),
            _ => at_most_any(iter, self_, max),
        },
        (None, None) => check_limits(iter, false),
    }
}

/// What a bound is, of which the formulas that suit it depend: a comparison does not tell 0 from -0.
#[derive(Clone, Copy, PartialEq)]
enum Bound {
    Zero,
    NegativeZero,
    Nan,
    Other,
}

impl Bound {
    /// Of a bound in the type in which elements of `dtype` are compared, to which it may round to a zero.
    fn of(value: Scalar, dtype: ScalarType) -> Self {
        let value = value.to_f64();
        let rounds = dtype.is_floating_point() && dtype != ScalarType::F64;
        let value = if rounds { f64::from(value as f32) } else { value };
        match value {
            value if value.is_nan() => Bound::Nan,
            0.0 if value.is_sign_negative() => Bound::NegativeZero,
            0.0 => Bound::Zero,
            _ => Bound::Other,
        }
    }
}

/// Shape and type of [`clamp_min`].
pub fn clamp_min_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, min: Scalar) -> Result<()> {
    build_with_scalars(iter, self_, [min])
}

/// The maximum of each element and the number.
pub fn clamp_min(iter: &mut TensorIterator<'_>, self_: &Tensor, min: Scalar) -> Result<()> {
    clamp(iter, self_, Some(min), None)
}

/// Shape and type of [`clamp_max`].
pub fn clamp_max_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, max: Scalar) -> Result<()> {
    build_with_scalars(iter, self_, [max])
}

/// The minimum of each element and the number.
pub fn clamp_max(iter: &mut TensorIterator<'_>, self_: &Tensor, max: Scalar) -> Result<()> {
    clamp(iter, self_, None, Some(max))
}

/// Shape and type of [`clamp_tensor`].
pub fn clamp_tensor_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    min: Option<&'a Tensor>,
    max: Option<&'a Tensor>,
) -> Result<()> {
    check_limits(iter, min.is_some() || max.is_some())?;
    iter.add_input(self_);
    [min, max].into_iter().flatten().for_each(|limit| iter.add_input(limit));
    iter.build(Config::PROMOTE)
}

/// Each element clamped to the elements of two tensors.
pub fn clamp_tensor(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    min: Option<&Tensor>,
    max: Option<&Tensor>,
) -> Result<()> {
    match (min, max) {
        (Some(min), Some(max)) => between_tensors(iter, self_, min, max),
        (Some(min), None) => binary::maximum(iter, self_, min),
        (None, Some(max)) => binary::minimum(iter, self_, max),
        (None, None) => check_limits(iter, false),
    }
}

/// Shape and type of [`clamp_min_tensor`].
pub fn clamp_min_tensor_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    min: &'a Tensor,
) -> Result<()> {
    iter.build_binary_op(self_, min)
}

/// Elementwise maximum.
pub fn clamp_min_tensor(iter: &mut TensorIterator<'_>, self_: &Tensor, min: &Tensor) -> Result<()> {
    binary::maximum(iter, self_, min)
}

/// Shape and type of [`clamp_max_tensor`].
pub fn clamp_max_tensor_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    max: &'a Tensor,
) -> Result<()> {
    iter.build_binary_op(self_, max)
}

/// Elementwise minimum.
pub fn clamp_max_tensor(iter: &mut TensorIterator<'_>, self_: &Tensor, max: &Tensor) -> Result<()> {
    binary::minimum(iter, self_, max)
}
