//! Functions that are a short polynomial in each of 16 pieces of 0 to 31/8, and something longer beyond.

use super::super::lanes::Float;

/// Where the pieces end.
const END: f64 = 31.0 / 8.0;

/// `1.5 * 2^21`: adding it to an f32 rounds to a multiple of 1/4, and the low bits hold how many.
const ROUND_QUARTER: f64 = 3_145_728.0;

/// By a table of `piece_tables`, of `z` in 0 to `END`, in f32.
#[inline(always)]
pub(super) fn by_pieces<V: Float, const N: usize>(z: V, table: &'static [[V::Element; 16]; N]) -> V {
    let index = (z + V::constant(ROUND_QUARTER)).to_bits();
    let distance = z - V::look_up(&table[0], index);
    let mut sum = V::look_up(&table[N - 1], index);
    for coefficients in table[1..N - 1].iter().rev() {
        sum = sum.mul_add(distance, V::look_up(coefficients, index));
    }
    sum
}

/// Where the pieces have `z`.
#[inline(always)]
pub(super) fn in_pieces<V: Float>(z: V) -> V::Mask {
    z.lt(V::constant(END))
}
