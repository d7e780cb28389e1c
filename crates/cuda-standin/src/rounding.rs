//! Floating point formats, and rounding in every mode. Results are computed in `f64` and rounded to odd there: a lost remainder leaves
//! the last bit set, so that a second rounding to at most 50 bits gives what one rounding of the exact result would have given.

use crate::instruction::{FloatType, Mode, Rounding};

/// The layout of a format: bits of the exponent and of the fraction.
#[derive(Clone, Copy, Debug)]
struct Format {
    exponent: u32,
    fraction: u32,
}

const fn format(ty: FloatType) -> Format {
    match ty {
        FloatType::F16 => Format { exponent: 5, fraction: 10 },
        FloatType::BF16 => Format { exponent: 8, fraction: 7 },
        FloatType::F32 => Format { exponent: 8, fraction: 23 },
        FloatType::F64 => Format { exponent: 11, fraction: 52 },
    }
}

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// The exponent of the smallest normal number.
    fn min_exponent(self) -> i32 {
        1 - self.bias()
    }

    fn max(self) -> f64 {
        (2.0 - power_of_two(-(self.fraction as i32))) * power_of_two(self.bias())
    }
}

/// 2 to a power between -1022 and 1023.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023).clamp(1, 2046) as u64) << 52)
}

/// The NaN that results have: of f64 any.
pub(crate) fn canonical_nan(ty: FloatType) -> u64 {
    match ty {
        FloatType::F16 | FloatType::BF16 => 0x7fff,
        FloatType::F32 => 0x7fff_ffff,
        FloatType::F64 => 0xfff8_0000_0000_0000,
    }
}

/// The value of an element.
pub(crate) fn decode(ty: FloatType, bits: u64) -> f64 {
    match ty {
        FloatType::F64 => f64::from_bits(bits),
        FloatType::F32 => f64::from(f32::from_bits(bits as u32)),
        FloatType::BF16 => f64::from(f32::from_bits((bits as u32) << 16)),
        FloatType::F16 => decode_half(bits as u32),
    }
}

fn decode_half(bits: u32) -> f64 {
    let (exponent, fraction) = ((bits >> 10) & 31, f64::from(bits & 1023));
    let size = match exponent {
        0 => fraction * power_of_two(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * power_of_two(exponent as i32 - 25),
    };
    if bits & 0x8000 != 0 { -size } else { size }
}

/// The element of a value that the type has exactly, or of NaN.
pub(crate) fn encode(ty: FloatType, value: f64) -> u64 {
    if value.is_nan() {
        return canonical_nan(ty);
    }
    match ty {
        FloatType::F64 => value.to_bits(),
        FloatType::F32 => u64::from((value as f32).to_bits()),
        FloatType::BF16 => u64::from((value as f32).to_bits() >> 16),
        FloatType::F16 => u64::from(encode_half(value)),
    }
}

fn encode_half(value: f64) -> u32 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size >= 65536.0 {
        return sign | 0x7c00;
    }
    if size < power_of_two(-14) {
        return sign | (size * power_of_two(24)) as u32;
    }
    let bits = size.to_bits();
    let exponent = (bits >> 52) as i32 - 1023 + 15;
    sign | ((exponent as u32) << 10) | ((bits >> 42) as u32 & 1023)
}

/// Rounds to an integer.
pub(crate) fn to_integer(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::ToZero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

/// Rounds a value, which was rounded to odd, to a narrower type. Of f64 the value is the result.
pub(crate) fn round(ty: FloatType, value: f64, rounding: Rounding) -> f64 {
    if ty == FloatType::F64 || value == 0.0 || !value.is_finite() {
        return value;
    }
    let format = format(ty);
    let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).max(format.min_exponent());
    let unit = exponent - format.fraction as i32;
    let rounded = to_integer(value * power_of_two(-unit), rounding) * power_of_two(unit);
    if rounded == 0.0 {
        return 0f64.copysign(value);
    }
    if rounded.abs() <= format.max() {
        return rounded;
    }
    let stays = match rounding {
        Rounding::Nearest => false,
        Rounding::ToZero => true,
        Rounding::Down => value > 0.0,
        Rounding::Up => value < 0.0,
    };
    if stays { format.max().copysign(value) } else { f64::INFINITY.copysign(value) }
}

/// A zero of the same sign where the value is subnormal.
pub(crate) fn flush(ty: FloatType, value: f64) -> f64 {
    if value.abs() < power_of_two(format(ty).min_exponent()) { 0f64.copysign(value) } else { value }
}

/// A result in its type: rounded, flushed, clamped.
pub(crate) fn finish(ty: FloatType, value: f64, mode: Mode) -> f64 {
    let mut value = round(ty, value, mode.rounding);
    if mode.flushes {
        value = flush(ty, value);
    }
    if mode.saturates {
        value = if value > 0.0 { value.min(1.0) } else { 0.0 };
    }
    value
}

/// The f64 nearest to an exact value, moved to odd: `error` has the sign of the exact value minus `nearest`.
fn odd(nearest: f64, error: f64) -> f64 {
    let is_even = nearest.to_bits() & 1 == 0;
    if error == 0.0 || !nearest.is_finite() || !error.is_finite() || !is_even {
        return nearest;
    }
    if error > 0.0 { nearest.next_up() } else { nearest.next_down() }
}

/// The remainder of a sum that was rounded to nearest (Knuth's two-sum).
fn sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let b_part = sum - a;
    (a - (sum - b_part)) + (b - b_part)
}

/// The sum, rounded to odd; an exact zero has the sign that the mode gives it.
pub(crate) fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
    let sum = a + b;
    if sum == 0.0
        && rounding == Rounding::Down
        && !(a == 0.0 && b == 0.0 && a.is_sign_positive() == b.is_sign_positive())
    {
        return -0.0;
    }
    odd(sum, sum_error(a, b, sum))
}

/// The product of two numbers of at most 24 bits plus a third, rounded to odd. The product is exact.
pub(crate) fn mul_add(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
    add(a * b, c, rounding)
}

/// The quotient, rounded to odd.
pub(crate) fn div(a: f64, b: f64) -> f64 {
    let quotient = a / b;
    let rest = (-quotient).mul_add(b, a);
    odd(quotient, if b < 0.0 { -rest } else { rest })
}

/// The square root, rounded to odd.
pub(crate) fn sqrt(a: f64) -> f64 {
    let root = a.sqrt();
    odd(root, (-root).mul_add(root, a))
}

/// An integer, rounded to odd.
pub(crate) fn of_integer(value: i128) -> f64 {
    let nearest = value as f64;
    odd(nearest, (value - nearest as i128) as f64)
}

/// Moves a value that was rounded to nearest to what another mode gives; `error` has the sign of the exact value minus it.
pub(crate) fn directed(nearest: f64, error: f64, rounding: Rounding) -> f64 {
    let down = error < 0.0;
    match rounding {
        _ if error == 0.0 || error.is_nan() => nearest,
        Rounding::Down if down => nearest.next_down(),
        Rounding::Up if !down => nearest.next_up(),
        Rounding::ToZero if down && nearest > 0.0 => nearest.next_down(),
        Rounding::ToZero if !down && nearest < 0.0 => nearest.next_up(),
        _ => nearest,
    }
}

/// A sum or product of f64 in any mode; products below 2^-960 may be off by their last bit in modes other than to nearest.
pub(crate) fn directed_sum(a: f64, b: f64, rounding: Rounding) -> f64 {
    let sum = a + b;
    if sum == 0.0 {
        return add(a, b, rounding);
    }
    directed(sum, sum_error(a, b, sum), rounding)
}

pub(crate) fn directed_product(a: f64, b: f64, rounding: Rounding) -> f64 {
    let product = a * b;
    directed(product, a.mul_add(b, -product), rounding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_come_and_go_unchanged() {
        for bits in 0..=0xffffu64 {
            for ty in [FloatType::F16, FloatType::BF16] {
                let value = decode(ty, bits);
                let expected = if value.is_nan() { 0x7fff } else { bits };
                assert_eq!(encode(ty, value), expected, "{ty:?} {bits:#x}");
            }
        }
    }

    /// Rounds by a search among all halves.
    fn nearest_half(value: f64) -> f64 {
        let all = (0..0x7c00u64).map(|bits| decode(FloatType::F16, bits));
        let mut best = (f64::INFINITY, 0.0, 1);
        for (bits, half) in all.enumerate() {
            let distance = (half - value.abs()).abs();
            if distance < best.0 || (distance == best.0 && bits % 2 == 0) {
                best = (distance, half, bits % 2);
            }
        }
        if value.abs() >= 65520.0 { f64::INFINITY.copysign(value) } else { best.1.copysign(value) }
    }

    #[test]
    fn rounding_to_half_is_that_of_the_nearest() {
        let mut value = 1e-9f64;
        while value < 1e6 {
            for v in [value, -value, (value as f32).into(), decode(FloatType::F16, encode_half(value).into())]
            {
                assert_eq!(round(FloatType::F16, v, Rounding::Nearest), nearest_half(v), "{v:e}");
            }
            value *= 1.37;
        }
        assert_eq!(round(FloatType::F16, 2049.0, Rounding::Nearest), 2048.0);
        assert_eq!(round(FloatType::F16, 2051.0, Rounding::Nearest), 2052.0);
        assert_eq!(round(FloatType::F16, 2049.0, Rounding::Up), 2050.0);
        assert_eq!(round(FloatType::F16, 1e9, Rounding::ToZero), 65504.0);
        assert_eq!(round(FloatType::F16, 1e9, Rounding::Down), 65504.0);
        assert_eq!(round(FloatType::F16, -1e9, Rounding::Down), f64::NEG_INFINITY);
        assert_eq!(round(FloatType::F32, 1e-46, Rounding::Up), f64::from(f32::from_bits(1)));
    }

    #[test]
    fn rounding_to_single_is_that_of_the_processor() {
        let mut bits = 0x1234_5678_9abc_def0u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let value = f64::from_bits(bits);
            let rounded = round(FloatType::F32, value, Rounding::Nearest);
            assert!(rounded == f64::from(value as f32) || value.is_nan(), "{value:e}");
            let (down, up) =
                (round(FloatType::F32, value, Rounding::Down), round(FloatType::F32, value, Rounding::Up));
            assert!(value.is_nan() || (down <= value && value <= up), "{value:e}");
        }
    }

    #[test]
    fn sums_that_need_more_than_53_bits_are_rounded_once() {
        // 2^15 + 2^4 is halfway between two halves; the small term decides.
        let half = |sum| round(FloatType::F16, sum, Rounding::Nearest);
        let tie = 32768.0 + 16.0;
        assert_eq!(half(tie), 32768.0);
        assert_eq!(half(add(tie, power_of_two(-45), Rounding::Nearest)), 32800.0);
        assert_eq!(half(add(tie, -power_of_two(-45), Rounding::Nearest)), 32768.0);
        assert_eq!(add(1.0, -1.0, Rounding::Down).to_bits(), (-0.0f64).to_bits());
        assert_eq!(add(1.0, -1.0, Rounding::Nearest).to_bits(), 0);
        assert_eq!(directed_sum(1.0, 1e-30, Rounding::Up), 1f64.next_up());
        assert_eq!(directed_sum(1.0, -1e-30, Rounding::ToZero), 1f64.next_down());
    }
}
