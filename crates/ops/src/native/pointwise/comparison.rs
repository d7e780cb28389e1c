//! Comparisons, and predicates such as `isnan` and `signbit`.

use crate::loops;
use crate::native::pointwise::complex;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::Vector;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, bail, ensure};

type MaskOf<V> = <V as Vector>::Mask;

formulas! { comparison_kernel(Comparison, Number) -> MaskOf<V>:
    /// a == b; NaN equals nothing.
    fn eq, eq_meta = build_comparison_op(self_: a, other: b) => a.eq(b);
    /// a != b; NaN differs from everything.
    fn ne, ne_meta = build_comparison_op(self_: a, other: b) => a.ne(b);
    /// Whether it is NaN.
    fn isnan, isnan_meta = build_unary_bool_op(self_: x) => x.ne(x);
    /// Whether it is neither infinite nor NaN.
    fn isfinite, isfinite_meta = build_unary_bool_op(self_: x) => (x * V::zero()).eq(V::zero());
    /// Whether a real number is infinite.
    fn is_infinite, is_infinite_meta = build_unary_bool_op(self_: x) => x.eq(x) & (x * V::zero()).ne(V::zero());
}

formulas! { order_kernel(OrderedComparison, Ordered) -> MaskOf<V>:
    /// a < b.
    fn lt, lt_meta = build_comparison_op(self_: a, other: b) => a.lt(b);
    /// a <= b.
    fn le, le_meta = build_comparison_op(self_: a, other: b) => a.le(b);
    /// a > b.
    fn gt, gt_meta = build_comparison_op(self_: a, other: b) => a.gt(b);
    /// a >= b.
    fn ge, ge_meta = build_comparison_op(self_: a, other: b) => a.ge(b);
}

formulas! { ordered_comparison_kernel(OrderedComparison, Ordered) -> MaskOf<V>:
    /// Whether it is positive infinity.
    fn is_positive_infinity, is_positive_infinity_meta = build_predicate_op(self_: x) => x.gt(V::zero()) & x.eq(x) & (x * V::zero()).ne(V::zero());
    /// Whether it is negative infinity.
    fn is_negative_infinity, is_negative_infinity_meta = build_predicate_op(self_: x) => x.lt(V::zero()) & x.eq(x) & (x * V::zero()).ne(V::zero());
    /// Whether it is below 0.
    fn is_negative, is_negative_meta = build_unary_bool_op(self_: x) => x.lt(V::zero());
}

formulas! { float_comparison_kernel(FloatComparison, Float) -> MaskOf<V>:
    /// Whether the sign bit is set.
    fn has_sign, has_sign_meta = build_unary_bool_op(self_: x) => V::one().copysign(x).lt(V::zero());
}

formulas! { float_comparison_kernel(FloatComparison, Float) -> MaskOf<V>:
    /// [`isclose`] of floating point numbers.
    fn floats_close, floats_close_meta = build_comparison_op(self_: a, other: b; rtol: f64, atol: f64, equal_nan: bool) => {
        let difference = (a - b).abs();
        let allowed = V::constant(atol) + (V::constant(rtol) * b).abs();
        let close = a.eq(b) | ((difference * V::zero()).eq(V::zero()) & difference.le(allowed));
        if equal_nan { close | (a.ne(a) & b.ne(b)) } else { close }
    };
}

/// Shape and type of [`isposinf`].
pub fn isposinf_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    is_positive_infinity_meta(iter, self_)
}

/// Whether it is positive infinity.
pub fn isposinf(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    // uint64 has no kernels of ordered numbers; none of its numbers is infinite, nor NaN.
    if iter.common_dtype() == ScalarType::U64 {
        isnan(iter, self_)
    } else {
        is_positive_infinity(iter, self_)
    }
}

/// Shape and type of [`isneginf`].
pub fn isneginf_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    is_negative_infinity_meta(iter, self_)
}

/// Whether it is negative infinity.
pub fn isneginf(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if iter.common_dtype() == ScalarType::U64 {
        isnan(iter, self_)
    } else {
        is_negative_infinity(iter, self_)
    }
}

/// Shape and type of [`isinf`].
pub fn isinf_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    is_infinite_meta(iter, self_)
}

/// Whether it is infinite; a complex number is, if a part is.
pub fn isinf(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if iter.common_dtype().is_complex() { complex::isinf(iter) } else { is_infinite(iter, self_) }
}

/// Shape and type of [`signbit`].
pub fn signbit_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    crate::native::formulas::build_predicate_op(iter, self_)
}

/// Whether the sign bit is set, also for -0 and NaN.
pub fn signbit(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if iter.common_dtype().is_floating_point() { has_sign(iter, self_) } else { is_negative(iter, self_) }
}

/// Shape and type of a comparison with a number. A number out of the range of the elements' type must not be converted to it: it takes
/// part in type promotion as a tensor would.
fn build_comparison_with<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: Scalar) -> Result<()> {
    let changes_type = (other.is_floating_point() && !self_.is_floating_point()) || other.is_complex();
    if changes_type
        || self_.dtype().is_complex()
        || self_.dtype() == ScalarType::Bool
        || other.is_in_range(self_.dtype())
    {
        return iter.build_number_op(self_, other, Config::COMPARE);
    }
    let sizes: &[i64] = if self_.dim() > 0 { &[1] } else { &[] };
    let (other, wide) = if self_.is_floating_point() {
        (other, ScalarType::F64)
    } else if self_.dtype().is_barebones_unsigned() || other.scalar_type() == ScalarType::U64 {
        // Types that promote with no other integer. An infinity compares with all elements as a number out of their range does.
        (Scalar::Float(f64::INFINITY.copysign(other.to_f64())), ScalarType::F64)
    } else {
        (other, ScalarType::I64)
    };
    iter.add_input(self_);
    iter.add_owned_input(ops::full(sizes, other, Some(wide), None, Some(self_.device()), None)?);
    iter.build(Config::COMPARE)
}

/// Comparisons with a number.
macro_rules! comparisons_with_numbers {
    ($($name:ident, $meta:ident = $of_tensors:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: Scalar) -> Result<()> {
            build_comparison_with(iter, self_, other)
        }

        #[doc = concat!("[`", stringify!($of_tensors), "`] with a number.")]
        pub fn $name(iter: &mut TensorIterator<'_>, self_: &Tensor, _: Scalar) -> Result<()> {
            $of_tensors(iter, self_, self_)
        }
    )*};
}

comparisons_with_numbers! {
    eq_scalar, eq_scalar_meta = eq;
    ne_scalar, ne_scalar_meta = ne;
    lt_scalar, lt_scalar_meta = lt;
    le_scalar, le_scalar_meta = le;
    gt_scalar, gt_scalar_meta = gt;
    ge_scalar, ge_scalar_meta = ge;
}

/// Shape and type of [`isclose`].
pub fn isclose_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    rtol: f64,
    atol: f64,
    _: bool,
) -> Result<()> {
    ensure!(
        self_.dtype() == other.dtype(),
        Dtype("isclose", "other"),
        "expected `other` of type {} but got {}",
        self_.dtype(),
        other.dtype()
    );
    for (name, value) in [("rtol", rtol), ("atol", atol)] {
        // A NaN tolerance passes, as in PyTorch: then only equal elements are close.
        if value < 0.0 {
            bail!(
                InvalidArgument("isclose", name),
                "{name} must be greater than or equal to zero, but got {value}"
            );
        }
    }
    iter.add_input(self_);
    iter.add_input(other);
    // Integers are compared exactly if both tolerances are 0, and in floating point otherwise.
    let exact = rtol == 0.0 && atol == 0.0;
    iter.build(Config { promote_integers_to_float: !exact, ..Config::COMPARE })
}

/// Whether `|a - b| <= atol + rtol * |b|`, or a = b, or, with `equal_nan`, both are NaN.
pub fn isclose(
    iter: &mut TensorIterator<'_>,
    self_: &Tensor,
    other: &Tensor,
    rtol: f64,
    atol: f64,
    equal_nan: bool,
) -> Result<()> {
    if iter.common_dtype().is_complex() {
        complex::isclose(iter, [rtol, atol], equal_nan)
    } else if iter.common_dtype().is_floating_point() {
        floats_close(iter, self_, other, rtol, atol, equal_nan)
    } else {
        eq(iter, self_, other)
    }
}

/// Whether sizes and all elements are equal; NaN is not equal to itself.
pub fn equal(self_: &Tensor, other: &Tensor) -> Result<bool> {
    if self_.sizes() != other.sizes() {
        return Ok(false);
    }
    loops::all_true(&ops::eq_tensor(self_, other)?)
}

/// Whether all elements are close in the sense of [`isclose`], after broadcasting.
pub fn allclose(self_: &Tensor, other: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
    loops::all_true(&ops::isclose(self_, other, rtol, atol, equal_nan)?)
}
