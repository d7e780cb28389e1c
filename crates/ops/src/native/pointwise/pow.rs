//! `pow`.

use crate::Tensor;
use crate::loops::{self, Argument, IntegerFormula};
use crate::native::formulas::build_with_scalars;
use crate::native::pointwise::{complex, unary};
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::{Float, Integer, Mask};
use flambeau_core::{Element, Result, Scalar, ScalarType, ensure};

formulas! { half_kernel(FloatFormula, Float) -> V:
    /// x^2.
    fn square, square_meta = build_converted_op(self_: x) => x * x, complex x * x;
}

formulas! { float_kernel(FloatFormula, Float) -> V:
    /// x^exponent for floating point numbers.
    fn pow_floats, pow_floats_meta = build_binary_op(self_: x, exponent: y) => x.pow(y), complex complex::pow(x, y);
    /// x^exponent with one exponent, which is not rounded to half types.
    fn pow_by, pow_by_meta = build_converted_op(self_: x; exponent: Scalar) => x.pow(V::scalar(exponent));
    /// x^0, of NaN too.
    fn zeroth_power, zeroth_power_meta = build_converted_op(self_: _x) => V::one();
    /// x^1, as in the gradient of x^2.
    fn first_power, first_power_meta = build_converted_op(self_: x) => x, complex x;
    /// x^3.
    fn cube, cube_meta = build_converted_op(self_: x) => x * x * x, complex x * x * x;
    /// x^4.
    fn fourth, fourth_meta = build_converted_op(self_: x) => { let square = x * x; square * square };
    /// x^1.5.
    fn three_halves, three_halves_meta = build_converted_op(self_: x) => x.abs() * root(x);
    /// x^2.5.
    fn five_halves, five_halves_meta = build_converted_op(self_: x) => x * x * root(x);
    /// x^-2, as the square of the reciprocal, which overflows only if the result does.
    fn inverse_square, inverse_square_meta = build_converted_op(self_: x) => { let inverse = x.recip(); inverse * inverse };
}

/// The square root as a factor of x^1.5 and x^2.5: 0 for -0, and infinite for -infinity, as C's `pow` requires.
#[inline(always)]
fn root<V: Float>(x: V) -> V {
    let infinity = V::constant(f64::INFINITY);
    V::select(x.eq(-infinity), infinity, x.sqrt().abs())
}

/// Powers of integers by repeated squaring, which wrap. For negative exponents the result is truncated: that of 1 and -1 is 1 or -1, that
/// of other integers 0.
#[derive(Clone, Copy)]
struct Powers;

impl IntegerFormula<2> for Powers {
    #[inline(always)]
    fn call<V: Integer>(self, [base, exponent]: [V; 2]) -> V {
        integer_power(base, exponent)
    }
}

/// [`Powers`] with one exponent of at least 0.
#[derive(Clone, Copy)]
struct PowerOf(Scalar);

impl IntegerFormula<1> for PowerOf {
    #[inline(always)]
    fn call<V: Integer>(self, [base]: [V; 1]) -> V {
        integer_power(base, V::scalar(self.0))
    }
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        PowerOf(self.0.as_element::<E>())
    }
}

#[inline(always)]
fn integer_power<V: Integer>(base: V, exponent: V) -> V {
    let (zero, one) = (V::zero(), V::one());
    let odd = |e: V| (e & one).ne(zero);
    let (mut result, mut square, mut left) = (one, base, exponent);
    while left.gt(zero).any() {
        result = V::select(odd(left) & left.gt(zero), result * square, result);
        square = square * square;
        left = V::select(left.gt(zero), left.shr(one), zero);
    }
    let alternating = V::select(odd(exponent), base, one);
    let inverse = V::select(base.eq(one), one, V::select(base.eq(-one), alternating, zero));
    V::select(exponent.lt(zero), inverse, result)
}

/// Runs a kernel of integers; refuses bool.
fn integer_kernel<const N: usize>(iter: &TensorIterator<'_>, formula: impl IntegerFormula<N>) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype != ScalarType::Bool,
        NotImplemented(iter.name(), "self"),
        "\"pow\" not implemented for {dtype}"
    );
    loops::integer_kernel(iter, formula)
}

/// Shape and type of [`pow`].
pub fn pow_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, exponent: &'a Tensor) -> Result<()> {
    iter.build_binary_op(self_, exponent)
}

/// self to the power of exponent.
pub fn pow(iter: &mut TensorIterator<'_>, self_: &Tensor, exponent: &Tensor) -> Result<()> {
    if iter.common_dtype().is_differentiable() {
        pow_floats(iter, self_, exponent)
    } else {
        integer_kernel(iter, Powers)
    }
}

/// Shape and type of [`pow_scalar`].
pub fn pow_scalar_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, exponent: Scalar) -> Result<()> {
    ensure!(
        !(self_.dtype().is_integral(true) && exponent.is_integral(true) && exponent.to_i64() < 0),
        InvalidArgument(iter.name(), "exponent"),
        "Integers to negative integer powers are not allowed."
    );
    if self_.dtype() != ScalarType::Bool && exponent.is_integral(true) {
        exponent.check_range(self_.dtype()).map_err(|e| e.in_operator(iter.name()))?;
    }
    build_with_scalars(iter, self_, [exponent])
}

/// self to the power of a number; simple exponents are computed by products and roots, with errors of at most 2.5 ulp.
pub fn pow_scalar(iter: &mut TensorIterator<'_>, self_: &Tensor, exponent: Scalar) -> Result<()> {
    if iter.common_dtype().is_complex() {
        return complex_power(iter, self_, exponent);
    }
    if !iter.common_dtype().is_floating_point() {
        return integer_kernel(iter, PowerOf(exponent));
    }
    match exponent.to_f64() {
        0.0 => zeroth_power(iter, self_),
        1.0 => first_power(iter, self_),
        2.0 => square(iter, self_),
        3.0 => cube(iter, self_),
        4.0 => fourth(iter, self_),
        1.5 => three_halves(iter, self_),
        2.5 => five_halves(iter, self_),
        0.5 => unary::sqrt(iter, self_),
        -0.5 => unary::rsqrt(iter, self_),
        -1.0 => unary::reciprocal(iter, self_),
        -2.0 => inverse_square(iter, self_),
        _ => pow_by(iter, self_, exponent),
    }
}

/// [`pow_scalar`] of complex numbers.
fn complex_power(iter: &mut TensorIterator<'_>, self_: &Tensor, exponent: Scalar) -> Result<()> {
    match exponent.to_complex() {
        (1.0, 0.0) => first_power(iter, self_),
        (2.0, 0.0) => square(iter, self_),
        (3.0, 0.0) => cube(iter, self_),
        (0.5, 0.0) => unary::sqrt(iter, self_),
        (-0.5, 0.0) => unary::rsqrt(iter, self_),
        (-1.0, 0.0) => unary::reciprocal(iter, self_),
        _ => complex::pow_by(iter, exponent),
    }
}

/// Shape and type of [`pow_of_scalar`].
pub fn pow_of_scalar_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: Scalar,
    exponent: &'a Tensor,
) -> Result<()> {
    iter.add_owned_input(Tensor::wrapped_number(self_)?);
    iter.add_input(exponent);
    iter.build(Config::PROMOTE)
}

/// A number to the power of each element.
pub fn pow_of_scalar(iter: &mut TensorIterator<'_>, _: Scalar, exponent: &Tensor) -> Result<()> {
    pow(iter, exponent, exponent)
}
