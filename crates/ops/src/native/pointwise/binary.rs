//! Pointwise operators with two arguments that broadcast.

use crate::loops::{self, NumberFormula};
use crate::native::formulas::chain_rule;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Number, Ordered};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

/// Checks `alpha` of `add` and `sub`: a floating point number requires a floating point result, and a bool a bool result.
#[inline]
fn check_alpha(iter: &TensorIterator<'_>, alpha: Scalar) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype.is_floating_point() || !alpha.is_floating_point(),
        Dtype(iter.name(), "alpha"),
        "For integral input tensors, argument alpha must not be a floating point number."
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
    check_alpha(iter, alpha)
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
            a + V::scalar(self.0) * b
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
    check_alpha(iter, alpha)
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
            a - V::scalar(self.0) * b
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

formulas! { any_kernel(NumberFormula, Number) -> V:
    /// self * other; logical and for bool.
    fn mul, mul_meta = build_binary_op(self_: a, other: b) => a * b;
}

formulas! { ordered_kernel(OrderedFormula, Ordered) -> V:
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
    fn chain, chain_meta = build_binary_float_op(grad_output: g, derivative: d) => chain_rule(g, d);
    /// grad_output / divisor, but grad_output where that is 0.
    fn chain_div, chain_div_meta = build_binary_float_op(grad_output: g, divisor: d) => V::select(g.eq(V::zero()), g, g / d);
    /// self / other, in floating point whatever the types of the inputs are.
    fn div, div_meta = build_binary_float_op(self_: a, other: b) => a / b;
    /// The angle of the point (other, self), in -pi to pi.
    fn atan2, atan2_meta = build_binary_float_op(self_: y, other: x) => angle(y, x);
    /// The magnitude of self with the sign of other.
    fn copysign, copysign_meta = build_binary_float_op(self_: a, other: b) => a.copysign(b);
    /// sqrt(self^2 + other^2), without intermediate overflow.
    fn hypot, hypot_meta = build_binary_op(self_: a, other: b) => length(a, b);
}

/// `atan2(y, x)`, with the results of C at zeros and infinities. The rounding error of the quotient `t` is corrected to first order by
/// `atan'(t) = 1 / (1 + t^2)`, and pi is the sum of two numbers.
#[inline(always)]
fn angle<V: Float>(y: V, x: V) -> V {
    let (zero, one, infinity) = (V::zero(), V::one(), V::constant(f64::INFINITY));
    let (height, width) = (y.abs(), x.abs());
    let steep = height.gt(width);
    let (above, below) = (V::select(steep, width, height), V::select(steep, height, width));
    let quotient = above / below;
    let t = V::select(below.eq(zero), zero, V::select(above.eq(infinity), one, quotient));
    let correction = t.neg_mul_add(below, above) / below / t.mul_add(t, one);
    let small = t.atan() + V::select(correction.is_nan(), zero, correction);

    let pi = std::f64::consts::PI;
    let low = |high: f64| {
        if size_of::<V::Element>() == 4 { high - f64::from(high as f32) } else { high / pi * PI_LOW }
    };
    let from = |high: f64, angle: V| V::constant(high) - (angle - V::constant(low(high)));
    let acute = V::select(steep, from(pi / 2.0, small), small);
    let left = one.copysign(x).lt(zero);
    let result = V::select(left, from(pi, acute), acute).copysign(y);
    V::select(y.ne(y), y, V::select(x.ne(x), x, result))
}

/// pi - f64(pi).
const PI_LOW: f64 = 1.224_646_799_147_353_2e-16;

/// `sqrt(a^2 + b^2)`: both are scaled by a power of two if a square would overflow or underflow. Infinite if either is, even if the
/// other is NaN, as in C.
#[inline(always)]
fn length<V: Float>(a: V, b: V) -> V {
    let (a, b) = (a.abs(), b.abs());
    let infinity = V::constant(f64::INFINITY);
    let (long, short) = (V::select(a.lt(b), b, a), V::select(a.lt(b), a, b));
    let step = if size_of::<V::Element>() == 4 { 80 } else { 600 };
    let (big, small) = (V::constant(2f64.powi(step / 2 + 20)), V::constant(2f64.powi(-step / 2 - 10)));
    let up = V::constant(2f64.powi(step));
    let down = V::constant(2f64.powi(-step));
    let factor = V::select(long.gt(big), down, V::select(long.lt(small), up, V::one()));
    let back = V::select(long.gt(big), up, V::select(long.lt(small), down, V::one()));
    let (long, short) = (long * factor, short * factor);
    let root = long.mul_add(long, short * short).sqrt() * back;
    V::select(a.eq(infinity) | b.eq(infinity), infinity, root)
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
    copysign_scalar, copysign_scalar_() = copysign_tensor, copysign__tensor;
}
