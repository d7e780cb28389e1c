//! Half precision to and from f32 without a branch, so that the compiler vectorizes loops of conversions for any instruction set.

use half::{bf16, f16};

/// Exact: bf16 is the upper half of an f32.
#[inline(always)]
pub(super) fn widen_bf16(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// Exact: the exponent is moved by a multiplication, which also normalises subnormals.
#[inline(always)]
pub(super) fn widen_f16(x: f16) -> f32 {
    let bits = u32::from(x.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits(); // times 2^112
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | special | (bits & 0x8000) << 16)
}

/// To nearest even. A NaN stays one, quiet.
#[inline(always)]
pub(super) fn narrow_f16(x: f32) -> f16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // From 2^-14 on: the exponent less 112, and the lowest 13 bits rounded into the others; past the largest, infinity.
    let rounded = magnitude.wrapping_add(0xfff + (magnitude >> 13 & 1)).wrapping_sub(112 << 23) >> 13;
    let normal = if rounded < 0x7c00 { rounded } else { 0x7c00 };
    // Below: 0.5 has the unit of the smallest subnormal, 2^-24, so that adding it rounds to multiples of that.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let value = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13 & 0x3ff) } else { finite };
    f16::from_bits((value | bits >> 16 & 0x8000) as u16)
}

/// To nearest even. A NaN stays one, quiet.
#[inline(always)]
pub(super) fn narrow_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    let value = if bits & 0x7fff_ffff > 0x7f80_0000 { bits >> 16 | 0x40 } else { rounded };
    bf16::from_bits(value as u16)
}
