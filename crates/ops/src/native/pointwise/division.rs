//! `div` with a rounding mode, `floor_divide`, `remainder` and `fmod`.

use crate::enums::RoundingMode;
use crate::loops::{Division, DivisionFormula};
use crate::native::pointwise::binary;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Mask};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, bail, ensure};

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// The quotient of floating point numbers, rounded towards zero.
    fn trunc_floats, trunc_floats_meta = build_binary_op(self_: a, other: b) => (a / b).trunc();
    /// The quotient of floating point numbers, rounded down.
    fn floor_floats, floor_floats_meta = build_binary_op(self_: a, other: b) => floor_quotient(a, b);
    /// The remainder with the sign of the divisor, of floating point numbers.
    fn remainder_floats, remainder_floats_meta = build_binary_op(self_: a, other: b) => {
        let rest = fmod_lanes(a, b);
        V::select(is_opposite(rest, b), rest + b, rest)
    };
    /// The remainder with the sign of the dividend, of floating point numbers.
    fn fmod_floats, fmod_floats_meta = build_binary_op(self_: a, other: b) => fmod_lanes(a, b);
}

formulas! { division_kernel(IntegerFormula, Integer) -> V:
    /// The quotient of integers, rounded towards zero.
    fn trunc_integers, trunc_integers_meta = build_binary_op(self_: a, other: b) => a.div_trunc(b);
    /// The quotient of integers, rounded down.
    fn floor_integers, floor_integers_meta = build_binary_op(self_: a, other: b) => a.div_floor(b);
    /// The remainder with the sign of the divisor, of integers.
    fn remainder_integers, remainder_meta = build_binary_op(self_: a, other: b) => a.remainder(b);
    /// The remainder with the sign of the dividend, of integers.
    fn fmod_integers, fmod_meta = build_binary_op(self_: a, other: b) => a.remainder_trunc(b);
}

/// The formulas of integers that floats hold.
macro_rules! of_floats {
    ($($formula:ident = $division:ident => $result:expr;)*) => {$(
        impl DivisionFormula for $formula::Formula {
            #[inline(always)]
            fn of_floats<V: Float>(self, $division: Division<V>) -> V {
                $result
            }
        }
    )*};
}

of_floats! {
    trunc_integers = d => {
        let exceeds = is_opposite(d.rest, d.dividend);
        V::select(exceeds, d.quotient - V::one().copysign(d.quotient), d.quotient)
    };
    floor_integers = d => V::select(is_opposite(d.rest, d.divisor), d.quotient - V::one(), d.quotient);
    remainder_integers = d => V::select(is_opposite(d.rest, d.divisor), d.rest + d.divisor, d.rest);
    fmod_integers = d => {
        V::select(is_opposite(d.rest, d.dividend), d.rest + d.divisor.abs().copysign(d.dividend), d.rest)
    };
}

/// Whether a remainder is not 0 and its sign differs from that of the divisor.
#[inline(always)]
fn is_opposite<V: Float>(rest: V, divisor: V) -> V::Mask {
    let zero = V::zero();
    rest.ne(zero) & ((divisor.lt(zero) & !rest.lt(zero)) | (!divisor.lt(zero) & rest.lt(zero)))
}

/// The quotient rounded down, as Python's `//`. It is computed from the exact remainder, so that `a = q b + r` holds even where `a / b`
/// rounds up to an integer. For a divisor of 0 it is `a / b`.
#[inline(always)]
fn floor_quotient<V: Float>(a: V, b: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    let plain = a / b;
    let rest = fmod_lanes(a, b);
    let exact = (a - rest) / b;
    let quotient = V::select(is_opposite(rest, b), exact - one, exact);
    let floor = quotient.floor();
    let nearest = V::select((quotient - floor).gt(V::constant(0.5)), floor + one, floor);
    let signed = V::select(quotient.ne(zero), nearest, zero.copysign(plain));
    V::select(b.eq(zero), plain, signed)
}

/// The exact remainder of the division rounded towards zero, as C's `fmod`.
///
/// If `q = trunc(a / b)` has fewer bits than the significand, `a - q b` is a multiple of the ulp of `b` and at most `b`, and so a fused
/// multiply-add computes it exactly. `q` may be too large by one, which the sign of the result shows. Larger quotients, and division
/// by 0, are computed lane by lane in f64.
#[inline(always)]
fn fmod_lanes<V: Float>(a: V, b: V) -> V {
    let zero = V::zero();
    let quotient = (a / b).trunc();
    let rest = quotient.neg_mul_add(b, a);
    let is_q_too_large = (rest.lt(zero) & a.gt(zero)) | (rest.gt(zero) & a.lt(zero));
    let near = V::select(is_q_too_large, rest + b.abs().copysign(a), rest).copysign(a);
    let infinite = b.abs().eq(V::constant(f64::INFINITY)) & (a * zero).eq(zero);
    let result = V::select(infinite, a, near);
    let limit = if size_of::<V::Element>() == 4 { 2f64.powi(22) } else { 2f64.powi(51) };
    // Unused lanes at the end of a row hold 0 / 0: NaN, which is not above the limit.
    let far = quotient.abs().gt(V::constant(limit));
    if far.any() { V::select(far, a.fmod(b), result) } else { result }
}

/// Operators with different kernels for integers and floating point numbers.
macro_rules! by_category {
    ($($(#[$doc:meta])* fn $name:ident = $integers:ident, $floats:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
            if iter.common_dtype().is_floating_point() {
                return $floats(iter, self_, other);
            }
            ensure_numbers_fit(iter, [self_, other])?;
            $integers(iter, self_, other)
        }
    )*};
}

/// Refuses a divisor (or dividend) out of the range of the elements' type. In sums and products a wrapped number gives the wrapped
/// result, but a quotient by 300 wrapped to 8 bits is meaningless.
fn ensure_numbers_fit(iter: &TensorIterator<'_>, operands: [&Tensor; 2]) -> Result<()> {
    let dtype = iter.common_dtype();
    for number in operands.into_iter().filter(|operand| operand.is_wrapped_number()) {
        let value = number.item_scalar()?;
        ensure!(
            value.is_in_range(dtype),
            InvalidArgument(iter.name(), "other"),
            "expected a number in the range of {dtype} but got {value}"
        );
    }
    Ok(())
}

by_category! {
    /// The remainder with the sign of `other`, as Python's `%`.
    fn remainder = remainder_integers, remainder_floats;
    /// The remainder with the sign of `self_`, as C's `fmod`.
    fn fmod = fmod_integers, fmod_floats;
    /// The quotient rounded down.
    fn div_floor = floor_integers, floor_floats;
    /// The quotient rounded towards 0.
    fn div_trunc = trunc_integers, trunc_floats;
}

/// The rounding mode of `div`.
fn rounding_of(name: &str, mode: Option<&str>) -> Result<Option<RoundingMode>> {
    let Some(text) = mode else { return Ok(None) };
    match RoundingMode::from_text(text) {
        Some(mode) => Ok(Some(mode)),
        None => bail!(
            InvalidArgument(name, "rounding_mode"),
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{text}'"
        ),
    }
}

/// Shape and type of [`div_mode`].
pub fn div_mode_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    rounding_mode: Option<&str>,
) -> Result<()> {
    match rounding_of(iter.name(), rounding_mode)? {
        None => iter.build_binary_float_op(self_, other),
        Some(_) => iter.build_binary_op(self_, other),
    }
}

/// The quotient, rounded as `rounding_mode` says.
pub fn div_mode(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    other: &Tensor,
    rounding_mode: Option<&str>,
) -> Result<()> {
    match rounding_of(iter.name(), rounding_mode)? {
        None => binary::div(iter, self_, other),
        Some(RoundingMode::Trunc) => div_trunc(iter, self_, other),
        Some(RoundingMode::Floor) => div_floor(iter, self_, other),
    }
}

/// Shape and type of [`floor_divide`].
pub fn floor_divide_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
) -> Result<()> {
    iter.build_binary_op(self_, other)
}

/// The quotient rounded down, as Python's `//`.
pub fn floor_divide(iter: &mut TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
    div_floor(iter, self_, other)
}

/// Another name of `div`.
pub fn true_divide(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::div_tensor(self_, other)
}

/// Another name of `div_`.
pub fn true_divide_(self_: &Tensor, other: &Tensor) -> Result<()> {
    ops::div__tensor(self_, other)
}

scalar_overloads! {
    div_scalar_mode, div_scalar_mode_(rounding_mode: Option<&str>) = div_tensor_mode, div__tensor_mode;
    true_divide_scalar, true_divide_scalar_() = div_tensor, div__tensor;
    floor_divide_scalar, floor_divide_scalar_() = floor_divide, floor_divide__tensor;
    remainder_scalar, remainder_scalar_() = remainder_tensor, remainder__tensor;
    fmod_scalar, fmod_scalar_() = fmod_tensor, fmod__tensor;
}

/// The remainder of a number by each element.
pub fn remainder_scalar_tensor(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::remainder_tensor(&Tensor::wrapped_number(self_)?, other)
}
