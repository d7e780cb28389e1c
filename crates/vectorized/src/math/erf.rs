//! The error function and its complement.

use super::super::lanes::{Float, Mask};
use super::exp::Exponential;
use super::{FloatElement, Pair, polynomial};

/// Where the formulas of `erfc` change: below, `1 - erf(x)` does not cancel much.
const ERFC_SMALL: f64 = 0.75;

/// Where the formulas of `erf` change.
const ERF_SMALL: f64 = 0.9;

/// `erf(x) - x` for `|x| <= 1`.
#[inline(always)]
fn small_low<V: Float>(x: V) -> V {
    x * polynomial(x * x, V::Element::ERF)
}

/// A polynomial whose first coefficient dominates, and is given in two parts.
#[inline(always)]
fn polynomial_pair<V: Float>(x: V, coefficients: &'static [V::Element], first_low: V::Element) -> Pair<V> {
    let low = x.mul_add(polynomial(x, &coefficients[1..]), V::splat(first_low));
    Pair::fast_sum(V::splat(coefficients[0]), low)
}

/// `x + x P(x^2)` up to 0.9, and `1 - e^-P(x - 1)` beyond, where a few ulp of `erfc` are less than one of `erf`.
#[inline(always)]
pub(in super::super) fn erf<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let small = x + small_low(x);
    let beyond = V::splat(V::Element::ERF_MAX).min(magnitude) - V::one();
    let log = polynomial_pair(beyond, V::Element::NEG_LOG_ERFC, V::Element::NEG_LOG_ERFC_LOW);
    let erfc = Exponential::of_pair(Pair::new(-log.high, -log.low)).value();
    let large = (V::one() - erfc).copysign(x);
    V::select(magnitude.lt(V::constant(ERF_SMALL)), small, large)
}

/// `erf(x) / x` in `x^2`, for `x` up to `HALF_MAX`: with the smallest relative error.
const ERF_TO_HALF: [f64; 10] = [
    1.128_377_1,
    -0.376_078_16,
    0.112_647_854,
    -0.026_564_706,
    0.004_972_412_7,
    -0.000_729_156_95,
    8.007_730_5e-5,
    -6.094_470_8e-6,
    2.823_102_2e-7,
    -5.928_241_5e-9,
];

/// From here on `erf` rounds to 1 in f16 and bf16.
const HALF_MAX: f64 = 2.83;

/// One polynomial, with the precision of results that are rounded to f16 or bf16.
#[inline(always)]
pub(in super::super) fn erf_to_half<V: Float>(x: V) -> (V, bool) {
    let magnitude = x.abs();
    let bounded = V::constant(HALF_MAX).min(magnitude);
    let (square, mut quotient) = (bounded * bounded, V::zero());
    for (i, &coefficient) in ERF_TO_HALF.iter().rev().enumerate() {
        let coefficient = V::constant(coefficient);
        quotient = if i == 0 { coefficient } else { quotient.mul_add(square, coefficient) };
    }
    // Neither denormal nor NaN.
    let are_normal = magnitude.ge(V::constant(f64::from(f32::MIN_POSITIVE))).all();
    ((bounded * quotient).copysign(x), are_normal)
}

/// `e^(x^2) erfc(x)` for `x` in 3/4 to `ERFC_MAX`, as a quotient: `P(t)`, `1 + 2 x` and its reciprocal, with
/// `t = (x - c) / (x + c)` (the variable is that of Shepherd and Laframboise, 1981).
#[inline(always)]
fn scaled_quotient<V: Float>(x: V) -> (Pair<V>, Pair<V>, V) {
    // One division for both quotients.
    let divisor = Pair::fast_sum(x + x, V::one());
    let centre = V::splat(V::Element::ERFC_CENTRE);
    let inverse = ((x + centre) * divisor.high).recip();
    let t = (x - centre) * (divisor.high * inverse);
    (polynomial_pair(t, V::Element::ERFC, V::Element::ERFC_LOW), divisor, (x + centre) * inverse)
}

/// `erfc(x)` for `x` in 3/4 to `ERFC_MAX`.
#[inline(always)]
fn erfc_large<V: Float>(x: V) -> V {
    let square = Pair::product(x, x);
    let power = Exponential::of_pair(Pair::new(-square.high, -square.low));
    let e = power.significand();
    let (p, divisor, reciprocal) = scaled_quotient(x);
    let product = Pair::product(e.high, p.high);
    let dividend = product.plus_low(e.high.mul_add(p.low, e.low * p.high));
    dividend.divided_by(divisor, reciprocal).value().scale(power.n)
}

/// `erfcx(x)` from `ERFC_MAX` on: `(1 - y + 3 y^2 - 15 y^3 + ...) / (x sqrt(pi))` with `y = 1 / (2 x^2)`, where the first
/// term left out is below a hundredth of an ulp (Abramowitz and Stegun, 7.1.23).
#[inline(always)]
fn erfcx_far<V: Float>(x: V) -> V {
    let y = (x * x * V::constant(2.0)).recip();
    let mut sum = V::one();
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = (y * V::constant(odd)).neg_mul_add(sum, V::one());
    }
    sum * V::constant(std::f64::consts::FRAC_2_SQRT_PI / 2.0) / x
}

/// `e^(x^2) erfc(x)`, by the formula of `erfc` without its exponential; `erfcx(-x) = 2 e^(x^2) - erfcx(x)`.
#[inline(always)]
pub(in super::super) fn erfcx<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let limit = V::constant(ERFC_SMALL);
    let end = V::splat(V::Element::ERFC_MAX);
    // Beyond these the exponential of the square is infinite.
    let bounded = V::constant(if size_of::<V::Element>() == 4 { 10.0 } else { 27.0 }).min(magnitude);
    let square = Pair::product(bounded, bounded);
    let exp_of_square = Exponential::of_pair(square).value();
    let small = exp_of_square * Pair::fast_sum(V::one(), -x).plus_low(-small_low(x)).value();
    let (p, divisor, reciprocal) = scaled_quotient(limit.max(end.min(magnitude)));
    let near = p.divided_by(divisor, reciprocal).value();
    let positive = V::select(magnitude.lt(end), near, erfcx_far(magnitude));
    let large = V::select(x.lt(V::zero()), exp_of_square + exp_of_square - positive, positive);
    V::select(magnitude.lt(limit), small, large)
}

/// `1 - x - x P(x^2)` up to 3/4 in magnitude; `erfc(-x) = 2 - erfc(x)`.
#[inline(always)]
pub(in super::super) fn erfc<V: Float>(x: V) -> V {
    let magnitude = x.abs();
    let limit = V::constant(ERFC_SMALL);
    let small = Pair::fast_sum(V::one(), -x).plus_low(-small_low(x)).value();
    let positive = erfc_large(limit.max(V::splat(V::Element::ERFC_MAX).min(magnitude)));
    let large = V::select(x.lt(V::zero()), V::constant(2.0) - positive, positive);
    V::select(magnitude.lt(limit), small, large)
}
