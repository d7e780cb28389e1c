//! asinh, acosh and atanh, each the logarithm of a number in two parts.

use super::super::lanes::Float;
use super::Pair;
use super::log::log_of_sum;

/// From here on `x^2 + 1` and `x^2 - 1` round to `x^2`, even as sums of two floats: the result is `ln x + ln 2`.
#[inline(always)]
fn is_large<V: Float>(x: V) -> V::Mask {
    x.gt(V::constant(if size_of::<V::Element>() == 4 { 2f64.powi(14) } else { 2f64.powi(28) }))
}

/// `result`, or `x + c x^3` for `x` so small that the error of that is below a hundredth of an ulp: `1 + x` loses too many digits of it.
#[inline(always)]
fn or_cubic<V: Float>(x: V, c: f64, result: V) -> V {
    let limit = V::constant(if size_of::<V::Element>() == 4 { 2f64.powi(-7) } else { 2f64.powi(-14) });
    V::select(x.abs().lt(limit), (x * x * V::constant(c)).mul_add(x, x).copysign(x), result)
}

/// The square root in two parts.
#[inline(always)]
fn root<V: Float>(x: Pair<V>) -> Pair<V> {
    let high = x.high.sqrt();
    let rest = high.neg_mul_add(high, x.high) + x.low;
    Pair::new(high, V::select(high.gt(V::zero()), rest / (high + high), V::zero()))
}

/// `ln(1 + x)`, or `ln(2 large)` where the mask holds.
#[inline(always)]
fn log1p_or_log_of_double<V: Float>(x: Pair<V>, is_large: V::Mask, large: V) -> V {
    let one_more = Pair::sum(V::one(), x.high).plus_low(x.low);
    let high = V::select(is_large, large, one_more.high);
    let low = V::select(is_large, V::zero(), one_more.low);
    log_of_sum(Pair::new(high, low), V::select(is_large, V::one(), V::zero()))
}

/// `ln(1 + a + a^2 / (1 + sqrt(1 + a^2)))` with `a = |x|`.
#[inline(always)]
pub(in super::super) fn asinh<V: Float>(x: V) -> V {
    let a = x.abs();
    let square = Pair::product(a, a);
    let root = root(Pair::sum(V::one(), square.high).plus_low(square.low).normalized());
    let divisor = Pair::sum(V::one(), root.high).plus_low(root.low);
    let quotient = square.divided_by(divisor, divisor.high.recip());
    let sum = Pair::sum(a, quotient.high).plus_low(quotient.low);
    or_cubic(x, -1.0 / 6.0, log1p_or_log_of_double(sum, is_large(a), a).copysign(x))
}

/// `ln(1 + (x - 1) + sqrt(x^2 - 1))`.
#[inline(always)]
pub(in super::super) fn acosh<V: Float>(x: V) -> V {
    let square = Pair::product(x, x);
    let root = root(Pair::sum(square.high, -V::one()).plus_low(square.low).normalized());
    let above = Pair::sum(x, -V::one());
    let sum = Pair::sum(root.high, above.high).plus_low(root.low + above.low);
    let result = log1p_or_log_of_double(sum, is_large(x), x);
    V::select(x.lt(V::one()), V::constant(f64::NAN), result)
}

/// `ln(1 + 2 a / (1 - a)) / 2` with `a = |x|`.
#[inline(always)]
pub(in super::super) fn atanh<V: Float>(x: V) -> V {
    let a = x.abs();
    let rest = Pair::sum(V::one(), -a);
    let quotient = Pair::new(a + a, V::zero()).divided_by(rest, rest.high.recip());
    let half = V::constant(0.5) * log1p_or_log_of_double(quotient, a.ne(a), a);
    or_cubic(x, 1.0 / 3.0, V::select(a.eq(V::one()), V::constant(f64::INFINITY), half).copysign(x))
}
