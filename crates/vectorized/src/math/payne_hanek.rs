//! Arguments modulo pi/2, exactly, however large they are: after Payne and Hanek (1983).

use std::f64::consts::FRAC_PI_2;

use super::FloatElement;

/// The binary digits of 2/pi after the point, 64 to a word.
#[rustfmt::skip]
const TWO_OVER_PI: [u64; 21] = [
    0, // so that a range of words may begin before the point
    0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0, 0x0649_2eea_09d1_921c, 0xfe1d_eb1c_b129_a73e, 0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41, 0x3991_d639_8353_39f4, 0x9c84_5f8b_bdf9_283b, 0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f, 0x6d36_7ecf_27cb_09b7, 0x4f46_3f66_9e5f_ea2d, 0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea, 0x6bfb_5fb1_1f8d_5d08, 0x5603_3046_fc7b_6bab, 0xf0cf_bc20_9af4_361d,
];

/// `(n, high, low)` with `x = n * pi/2 + high + low` modulo 2 pi, and `|high|` at most pi/4. For finite `|x| >= 1`;
/// NaN otherwise. The product with 2/pi keeps 190 bits after the point, of which at most 62 can be zeros.
pub(super) fn reduce(x: f64) -> (u8, f64, f64) {
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1075;
    if !x.is_finite() || exponent < -52 {
        return (0, f64::NAN, f64::NAN);
    }
    let significand = (x.to_bits() & 0x000f_ffff_ffff_ffff) | (1 << 52);
    let product = times_window(significand, (exponent - 2 + 64) as usize);

    // The top two bits are the quadrant; the rest is a signed fraction of a quadrant once they are shifted out.
    let fraction =
        (((product[0] as u128) << 64 | product[1] as u128) << 2 | (product[2] >> 62) as u128) as i128;
    let quadrant = ((product[0] >> 62) as u8 + u8::from(fraction < 0)) & 3;
    let first = fraction as f64;
    let second = (fraction - first as i128) as f64;
    let (first, second) = (first * 2f64.powi(-128), second * 2f64.powi(-128));

    let high = first * FRAC_PI_2;
    let low = first.mul_add(FRAC_PI_2, -high) + (first * f64::FRAC_PI_2_LOW + second * FRAC_PI_2);
    if x < 0.0 { (4u8.wrapping_sub(quadrant) & 3, -high, -low) } else { (quadrant, high, low) }
}

/// `significand` times the 192 binary digits of 2/pi from `start` on, modulo 2^192, highest word first.
fn times_window(significand: u64, start: usize) -> [u64; 3] {
    let word = |i: usize| TWO_OVER_PI.get(i).copied().unwrap_or(0);
    let digits = |i: usize| {
        let (index, shift) = ((start + 64 * i) / 64, start % 64);
        ((u128::from(word(index)) << 64 | u128::from(word(index + 1))) >> (64 - shift)) as u64
    };
    let times = |i: usize, carry: u64| u128::from(significand) * u128::from(digits(i)) + u128::from(carry);
    let lowest = times(2, 0);
    let middle = times(1, (lowest >> 64) as u64);
    let highest = times(0, (middle >> 64) as u64);
    [highest as u64, middle as u64, lowest as u64]
}
