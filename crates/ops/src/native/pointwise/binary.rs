//! Pointwise operators with two arguments that broadcast.

use crate::loops::{self, Argument, IntegerFormula, NumberFormula};
use crate::native::formulas::chain_rule;
use crate::native::pointwise::complex;
use crate::native::pointwise::plane::{angle, length};
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Integer, Number, Ordered};
use crate::{Tensor, ops};
use flambeau_core::{Element, Result, Scalar, ScalarType, ensure};

/// Checks `alpha` of `add` and `sub`: a floating point number requires a floating point result, and a bool a bool result; `factor`, with
/// which `other` is multiplied before it is added, is in the range of the result's dtype.
#[inline]
fn check_alpha(iter: &TensorIterator<'_>, alpha: Scalar, factor: impl FnOnce() -> Scalar) -> Result<()> {
    if alpha == Scalar::Int(1) {
        return Ok(());
    }
    check_other_alpha(iter, alpha)?;
    factor().check_range(iter.common_dtype()).map_err(|e| e.in_operator(iter.name()))
}

/// The number with the other sign.
fn negated(number: Scalar) -> Scalar {
    match number {
        Scalar::Int(i) => Scalar::Int(i.wrapping_neg()),
        Scalar::Float(x) => Scalar::Float(-x),
        Scalar::Complex(re, im) => Scalar::Complex(-re, -im),
        other => other,
    }
}

fn check_other_alpha(iter: &TensorIterator<'_>, alpha: Scalar) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype.is_differentiable() || !alpha.is_floating_point(),
        Dtype(iter.name(), "alpha"),
        "For integral input tensors, argument alpha must not be a floating point number."
    );
    ensure!(
        dtype.is_complex() || !alpha.is_complex(),
        Dtype(iter.name(), "alpha"),
        "For non-complex input tensors, argument alpha must not be a complex number."
    );
    ensure!(
        dtype == ScalarType::Bool || !matches!(alpha, Scalar::Bool(_)),
        Dtype(iter.name(), "alpha"),
        "Boolean alpha only supported for Boolean results."
    );
    Ok(())
}

/// Shape and type of [`add`].
pub fn add_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    alpha: Scalar,
) -> Result<()> {
    iter.build_binary_op(self_, other)?;
    check_alpha(iter, alpha, || alpha)
}

/// self + alpha * other.
pub fn add(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, alpha: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Plain;
    impl NumberFormula<2> for Plain {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a + b
        }
    }
    #[derive(Clone, Copy)]
    struct Scaled(Scalar);
    impl NumberFormula<2> for Scaled {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a + b.scaled(self.0)
        }
        #[inline(always)]
        fn with_arguments_as<E: Element>(self) -> Self {
            Scaled(self.0.as_element::<E>())
        }
    }
    if alpha == Scalar::Int(1) {
        loops::any_kernel(iter, Plain)
    } else {
        loops::any_kernel(iter, Scaled(alpha))
    }
}

/// Shape and type of [`sub`].
pub fn sub_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    alpha: Scalar,
) -> Result<()> {
    iter.build_binary_op(self_, other)?;
    check_sub(iter, self_, other)?;
    check_alpha(iter, alpha, || negated(alpha))
}

/// Refuses bool, which has no subtraction.
fn check_sub(iter: &TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
    ensure!(
        iter.common_dtype() != ScalarType::Bool,
        Dtype(iter.name(), "other"),
        "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` \
         operator instead."
    );
    ensure!(
        self_.dtype() != ScalarType::Bool && other.dtype() != ScalarType::Bool,
        Dtype(iter.name()),
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the \
         `~` or `logical_not()` operator instead."
    );
    Ok(())
}

/// self - alpha * other.
pub fn sub(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, alpha: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula(Scalar);
    impl NumberFormula<2> for Formula {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a - b.scaled(self.0)
        }
        #[inline(always)]
        fn with_arguments_as<E: Element>(self) -> Self {
            Formula(self.0.as_element::<E>())
        }
    }
    loops::number_kernel(iter, Formula(alpha))
}

/// The maximum; 0 is larger than -0, and NaN is propagated.
#[inline(always)]
pub(crate) fn ordered_max<V: Ordered>(a: V, b: V) -> V {
    V::select(a.ne(a), a, a.max_of_signed(b))
}

/// The minimum; -0 is smaller than 0, and NaN is propagated.
#[inline(always)]
pub(crate) fn ordered_min<V: Ordered>(a: V, b: V) -> V {
    V::select(a.ne(a), a, a.min_of_signed(b))
}

formulas! { product_kernel(NumberFormula, Number) -> V:
    /// self * other; logical and for bool.
    fn mul, mul_meta = build_binary_op(self_: a, other: b) => a * b;
}

formulas! { choice_kernel(OrderedFormula, Ordered) -> V:
    /// The maximum, NaN if either is NaN. Here and in all operators that choose one of two numbers, 0 is larger than -0, as in `maximum`
    /// of IEEE 754-2019.
    fn maximum, maximum_meta = build_binary_op(self_: a, other: b) => ordered_max(a, b);
    /// The minimum, NaN if either is NaN.
    fn minimum, minimum_meta = build_binary_op(self_: a, other: b) => ordered_min(a, b);
    /// The maximum; of a number and NaN, the number.
    fn fmax, fmax_meta = build_binary_op(self_: a, other: b) => V::select(b.ne(b), a, a.max_of_signed(b));
    /// The minimum; of a number and NaN, the number.
    fn fmin, fmin_meta = build_binary_op(self_: a, other: b) => V::select(b.ne(b), a, a.min_of_signed(b));
}

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// grad_output * derivative, but grad_output where that is 0: see the chain rule in `derivatives.yaml`.
    fn chain, chain_meta = build_binary_float_op(grad_output: g, derivative: d) => chain_rule(g, d), complex complex::chain_rule(g, d);
    /// grad_output / divisor, but grad_output where that is 0.
    fn chain_div, chain_div_meta = build_binary_float_op(grad_output: g, divisor: d) => V::select(g.eq(V::zero()), g, g / d),
        complex complex::chain_div(g, d);
    /// self / other, in floating point whatever the types of the inputs are.
    fn div, div_meta = build_binary_float_op(self_: a, other: b) => a / b, complex complex::quotient(a, b);
    /// The angle of the point (other, self), in -pi to pi.
    fn atan2, atan2_meta = build_binary_float_op(self_: y, other: x) => angle(y, x);
    /// The magnitude of self with the sign of other, by arithmetic.
    fn copysign_of_floats, copysign_meta = build_binary_float_op(self_: a, other: b) => a.copysign(b);
    /// sqrt(self^2 + other^2), without intermediate overflow.
    fn hypot, hypot_meta = build_binary_op(self_: a, other: b) => length(a, b);
}

/// The bits of a number of 16 bits with the sign of another.
#[derive(Clone, Copy)]
struct SignOfOther;

impl IntegerFormula<2> for SignOfOther {
    #[inline(always)]
    fn call<V: Integer>(self, [a, b]: [V; 2]) -> V {
        let sign = V::scalar(Scalar::Int(1 << 15));
        (a & !sign) | (b & sign)
    }
}

/// The magnitude of self with the sign of other.
pub fn copysign(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    loops::float_sign_kernel(iter, copysign_of_floats::Formula {}, SignOfOther)
}

/// A number as the second operand of [`copysign`], which reads its sign only: in half precision one of that type, so that no element is
/// converted.
fn number_with_sign(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    let dtype = self_.dtype();
    let is_half = dtype.is_floating_point() && dtype.size() == size_of::<u16>();
    if !is_half || !self_.device().is_cpu() {
        return Tensor::wrapped_number(other);
    }
    let is_negative = match other {
        Scalar::Float(x) => x.is_sign_negative(),
        Scalar::Int(n) => n < 0,
        _ => return Tensor::wrapped_number(other),
    };
    Tensor::wrapped_number(Scalar::Float(if is_negative { -1.0 } else { 1.0 }))?.to(dtype)
}

/// [`copysign`] with a number.
pub fn copysign_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::copysign_tensor(self_, &number_with_sign(self_, other)?)
}

/// [`copysign_scalar`] in place.
pub fn copysign_scalar_(self_: &Tensor, other: Scalar) -> Result<()> {
    ops::copysign__tensor(self_, &number_with_sign(self_, other)?)
}

/// other - alpha * self.
pub fn rsub(self_: &Tensor, other: &Tensor, alpha: Scalar) -> Result<Tensor> {
    ops::sub_tensor(other, self_, alpha)
}

/// [`rsub`] with a number.
pub fn rsub_scalar(self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<Tensor> {
    ops::sub_tensor(&Tensor::wrapped_number(other)?, self_, alpha)
}

scalar_overloads! {
    add_scalar, add_scalar_(alpha: Scalar) = add_tensor, add__tensor;
    sub_scalar, sub_scalar_(alpha: Scalar) = sub_tensor, sub__tensor;
    mul_scalar, mul_scalar_() = mul_tensor, mul__tensor;
    div_scalar, div_scalar_() = div_tensor, div__tensor;
}
