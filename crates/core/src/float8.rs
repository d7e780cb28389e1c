//! Floating point numbers of eight bits. They are stored, moved, converted and compared; arithmetic on them is done in f32, to which and
//! from which everything here converts. The formats are those of the OCP's "8-bit Floating Point Specification" (OFP8, 2023) and
//! "Microscaling Formats Specification" (MX, 2023).
#![expect(unsafe_code, reason = "declares the layout of types")]

use bytemuck::{Pod, Zeroable};
use std::cmp::Ordering;
use std::fmt;

/// The exponent's bias of an f32, and the bits of its mantissa.
const BIAS: u32 = 127;
const MANTISSA: u32 = 23;
const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0xFF << MANTISSA;
/// A quiet NaN without a sign.
const NAN: u32 = INFINITY | 1 << (MANTISSA - 1);

/// The code, without its sign and not bounded above, of the number that is nearest to the magnitude `bits` of an f32 in a format with
/// `mantissa` bits of mantissa and this bias; halfway between two, that whose last bit is 0.
fn nearest(bits: u32, mantissa: u32, bias: u32) -> u32 {
    let rebias = (BIAS - bias) << MANTISSA;
    let smallest_normal = rebias + (1 << MANTISSA);
    if bits < smallest_normal {
        // Numbers below are multiples of the smallest one. Added to a number whose last bit has that value, they round to such.
        let unit = (BIAS - bias + 1 + MANTISSA - mantissa) << MANTISSA;
        return (f32::from_bits(bits) + f32::from_bits(unit)).to_bits() - unit;
    }
    let dropped = MANTISSA - mantissa;
    let (rebased, half) = (bits - rebias, 1 << (dropped - 1));
    (rebased + (half - 1) + ((rebased >> dropped) & 1)) >> dropped
}

/// The bits of the f32 of a code without its sign that is neither infinite nor NaN.
fn bits_of_finite(code: u32, mantissa: u32, bias: u32) -> u32 {
    if code >> mantissa == 0 {
        let unit = f32::from_bits((BIAS + 1 - bias - mantissa) << MANTISSA);
        return (code as f32 * unit).to_bits();
    }
    (code << (MANTISSA - mantissa)) + ((BIAS - bias) << MANTISSA)
}

/// PyTorch's `float8_e4m3fn`: four bits of exponent, three of mantissa, no infinities, and one NaN of either sign.
///
/// ```
/// use flambeau_core::F8E4M3FN;
/// assert_eq!(F8E4M3FN::from_f32(0.3).to_f32(), 0.3125);
/// assert_eq!(F8E4M3FN::from_f32(1e10).to_f32(), 448.0);
/// assert!(F8E4M3FN::from_bits(0xFF).to_f32().is_nan());
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E4M3FN(u8);

impl F8E4M3FN {
    const MANTISSA: u32 = 3;
    const BIAS: u32 = 7;
    const NAN: u32 = 0x7F;
    const LARGEST: u32 = 0x7E;

    /// The nearest number. Larger ones than the largest, infinities among them, become the largest.
    pub fn from_f32(value: f32) -> Self {
        let (sign, bits) = (value.to_bits() & SIGN, value.to_bits() & !SIGN);
        let code = match bits > INFINITY {
            true => Self::NAN,
            false => nearest(bits, Self::MANTISSA, Self::BIAS).min(Self::LARGEST),
        };
        F8E4M3FN((sign >> 24 | code) as u8)
    }

    /// The value, exactly.
    pub fn to_f32(self) -> f32 {
        let (sign, code) = (u32::from(self.0 & 0x80) << 24, u32::from(self.0 & 0x7F));
        let bits = if code == Self::NAN { NAN } else { bits_of_finite(code, Self::MANTISSA, Self::BIAS) };
        f32::from_bits(sign | bits)
    }
}

/// PyTorch's `float8_e5m2`: the upper half of an f16, with infinities and NaN.
///
/// ```
/// use flambeau_core::F8E5M2;
/// assert_eq!(F8E5M2::from_f32(0.3).to_f32(), 0.3125);
/// assert_eq!(F8E5M2::from_f32(-1e10).to_f32(), f32::NEG_INFINITY);
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E5M2(u8);

impl F8E5M2 {
    const MANTISSA: u32 = 2;
    const BIAS: u32 = 15;
    const NAN: u32 = 0x7F;
    const INFINITY: u32 = 0x7C;

    /// The nearest number; what is half a step past the largest one, or more, becomes infinite.
    pub fn from_f32(value: f32) -> Self {
        let (sign, bits) = (value.to_bits() & SIGN, value.to_bits() & !SIGN);
        let code = match bits > INFINITY {
            true => Self::NAN,
            false => nearest(bits, Self::MANTISSA, Self::BIAS).min(Self::INFINITY),
        };
        F8E5M2((sign >> 24 | code) as u8)
    }

    /// The value, exactly.
    pub fn to_f32(self) -> f32 {
        let (sign, code) = (u32::from(self.0 & 0x80) << 24, u32::from(self.0 & 0x7F));
        let bits = match code.cmp(&Self::INFINITY) {
            Ordering::Less => bits_of_finite(code, Self::MANTISSA, Self::BIAS),
            Ordering::Equal => INFINITY,
            Ordering::Greater => NAN,
        };
        f32::from_bits(sign | bits)
    }
}

/// PyTorch's `float8_e8m0fnu`: the exponent of an f32. Powers of two from 2^-127 to 2^127 and NaN; without sign and zero.
///
/// ```
/// use flambeau_core::F8E8M0FNU;
/// assert_eq!(F8E8M0FNU::from_f32(-3.0).to_f32(), 4.0);
/// assert_eq!(F8E8M0FNU::from_f32(0.0).to_f32(), 2f32.powi(-127));
/// assert!(F8E8M0FNU::from_f32(f32::INFINITY).to_f32().is_nan());
/// ```
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct F8E8M0FNU(u8);

impl F8E8M0FNU {
    const NAN: u32 = 0xFF;

    /// The nearest power of two by the distance of values, without the sign, and the larger one halfway between two; NaN for what is not
    /// finite. Of subnormal numbers those above 2^-127 become 2^-126, and the others 2^-127, as in PyTorch.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits() & !SIGN;
        let (exponent, fraction) = (bits >> MANTISSA, bits & ((1 << MANTISSA) - 1));
        let half = 1 << (MANTISSA - 1);
        // The leading bit of a mantissa is the last bit of the result in a tie: it is 1 unless the number is subnormal.
        let rounds_up = fraction > half || (fraction == half && exponent > 0);
        F8E8M0FNU(if exponent == Self::NAN { exponent } else { exponent + u32::from(rounds_up) } as u8)
    }

    /// The value, exactly.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(match u32::from(self.0) {
            0 => 1 << (MANTISSA - 1),
            Self::NAN => NAN,
            exponent => exponent << MANTISSA,
        })
    }
}

macro_rules! float8 {
    ($($name:ident)*) => {$(
        impl $name {
            /// The number of a code.
            pub const fn from_bits(code: u8) -> Self {
                $name(code)
            }

            /// The code.
            pub const fn to_bits(self) -> u8 {
                self.0
            }
        }

        // SAFETY: a byte, of which every value is a number.
        unsafe impl Zeroable for $name {}
        // SAFETY: as above.
        unsafe impl Pod for $name {}

        /// By value: zeros are equal, and NaN differs from itself.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> f64 {
                value.to_f32().into()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.to_f32(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.to_f32(), f)
            }
        }
    )*};
}

float8! { F8E4M3FN F8E5M2 F8E8M0FNU }

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 to a power, exactly.
    fn power_of_2(exponent: i32) -> f64 {
        f64::from_bits(((exponent + 1023) as u64) << 52)
    }

    /// The value of a code by the formats' definition, in f64.
    fn defined(code: u8, mantissa: u32, bias: i32, special: impl Fn(u32) -> Option<f64>) -> f64 {
        let (sign, magnitude) = (if code & 0x80 == 0 { 1.0 } else { -1.0 }, u32::from(code & 0x7F));
        let (exponent, fraction) =
            ((magnitude >> mantissa) as i32, (magnitude & ((1 << mantissa) - 1)) as f64);
        let fraction = fraction / power_of_2(mantissa as i32);
        let finite = match exponent {
            0 => fraction * power_of_2(1 - bias),
            _ => (1.0 + fraction) * power_of_2(exponent - bias),
        };
        sign * special(magnitude).unwrap_or(finite)
    }

    fn e4m3(code: u8) -> f64 {
        defined(code, 3, 7, |magnitude| (magnitude == 0x7F).then_some(f64::NAN))
    }

    fn e5m2(code: u8) -> f64 {
        defined(code, 2, 15, |magnitude| match magnitude {
            0x7C => Some(f64::INFINITY),
            0x7D.. => Some(f64::NAN),
            _ => None,
        })
    }

    fn e8m0(code: u8) -> f64 {
        if code == 0xFF { f64::NAN } else { power_of_2(i32::from(code) - 127) }
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn every_code_has_the_value_of_its_format() {
        for code in 0..=u8::MAX {
            assert!(same(F8E4M3FN::from_bits(code).into(), e4m3(code)), "{code:#x}");
            assert!(same(F8E5M2::from_bits(code).into(), e5m2(code)), "{code:#x}");
            assert!(same(F8E8M0FNU::from_bits(code).into(), e8m0(code)), "{code:#x}");
        }
    }

    #[test]
    fn every_code_comes_back_from_f32() {
        for code in 0..=u8::MAX {
            assert_eq!(F8E4M3FN::from_f32(F8E4M3FN::from_bits(code).to_f32()).to_bits(), code);
            assert_eq!(F8E8M0FNU::from_f32(F8E8M0FNU::from_bits(code).to_f32()).to_bits(), code);
            let nan = if code & 0x7F > 0x7C { code | 0x7F } else { code };
            assert_eq!(F8E5M2::from_f32(F8E5M2::from_bits(code).to_f32()).to_bits(), nan);
        }
    }

    /// The nearest of the codes below `count` to a magnitude, searched for in f64, of two at one distance the even one.
    fn searched(magnitude: f64, count: u8, value: fn(u8) -> f64) -> u8 {
        let distance = |code: &u8| (value(*code) - magnitude).abs();
        let nearer = |a: &u8, b: &u8| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1)));
        (0..count).min_by(nearer).unwrap_or(0)
    }

    /// f32 near all codes and all points halfway between two, one step of an f32 to either side, and others.
    fn probes(value: fn(u8) -> f64) -> Vec<f32> {
        let mut probes = vec![0.0, f32::MIN_POSITIVE, f32::from_bits(1), f32::MAX];
        for code in 0..0x7F {
            let middle = (value(code) + value(code + 1)) / 2.0;
            for near in [value(code) as f32, middle as f32] {
                let bits = near.to_bits();
                probes.extend([bits.saturating_sub(1), bits, bits + 1].map(f32::from_bits));
            }
        }
        probes.retain(|x| x.is_finite());
        probes
    }

    #[test]
    fn numbers_round_to_the_nearest_and_halves_to_even() {
        for x in probes(e4m3) {
            let expected = if x >= 448.0 { 0x7E } else { searched(x.into(), 0x7F, e4m3) };
            assert_eq!(F8E4M3FN::from_f32(x).to_bits(), expected, "{x:e}");
            assert_eq!(F8E4M3FN::from_f32(-x).to_bits(), expected | 0x80, "{x:e}");
        }
        for x in probes(e5m2) {
            let expected = if x >= 61440.0 { 0x7C } else { searched(x.into(), 0x7C, e5m2) };
            assert_eq!(F8E5M2::from_f32(x).to_bits(), expected, "{x:e}");
            assert_eq!(F8E5M2::from_f32(-x).to_bits(), expected | 0x80, "{x:e}");
        }
    }

    #[test]
    fn powers_of_two_are_the_nearest_and_lose_the_sign() {
        for code in 1..0xFE {
            let (low, high) = (e8m0(code), e8m0(code + 1));
            let (step, middle) = (low / 64.0, (low + high) / 2.0);
            for (x, expected) in [(low, code), (middle - step, code), (middle, code + 1)] {
                assert_eq!(F8E8M0FNU::from_f32(x as f32).to_bits(), expected, "{x:e}");
                assert_eq!(F8E8M0FNU::from_f32(-x as f32).to_bits(), expected, "{x:e}");
            }
        }
        let lowest = e8m0(0) as f32;
        for (x, expected) in [(0.0, 0), (lowest / 2.0, 0), (lowest, 0), (lowest * 1.25, 1)] {
            assert_eq!(F8E8M0FNU::from_f32(x).to_bits(), expected, "{x:e}");
        }
        assert_eq!(F8E8M0FNU::from_f32(f32::MAX).to_bits(), 0xFF);
        assert_eq!(F8E8M0FNU::from_f32(f32::INFINITY).to_bits(), 0xFF);
        assert_eq!(F8E8M0FNU::from_f32(f32::NAN).to_bits(), 0xFF);
    }

    #[test]
    fn what_is_not_finite_has_the_codes_of_the_format() {
        let code = |x: f32| (F8E4M3FN::from_f32(x).to_bits(), F8E5M2::from_f32(x).to_bits());
        assert_eq!(code(f32::INFINITY), (0x7E, 0x7C));
        assert_eq!(code(f32::NEG_INFINITY), (0xFE, 0xFC));
        assert_eq!(code(f32::from_bits(NAN)), (0x7F, 0x7F));
        assert_eq!(code(f32::from_bits(NAN | SIGN)), (0xFF, 0xFF));
        assert_eq!(code(-0.0), (0x80, 0x80));
    }

    #[test]
    fn numbers_compare_by_value() {
        assert_eq!(F8E4M3FN::from_bits(0), F8E4M3FN::from_bits(0x80));
        assert_ne!(F8E5M2::from_bits(0x7F), F8E5M2::from_bits(0x7F));
        assert!(F8E8M0FNU::from_bits(3) < F8E8M0FNU::from_bits(4));
        assert_eq!(format!("{:?} {}", F8E5M2::from_f32(1.5), F8E4M3FN::from_f32(2.0)), "1.5 2");
    }
}
