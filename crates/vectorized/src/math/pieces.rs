//! Functions that are approximated by a short polynomial on each of 16 intervals from 0 on, and by a longer formula beyond.

use super::super::lanes::Float;

/// `1.5 * 2^21`: adding it to an f32 rounds to a multiple of 1/4, and the low bits hold how many.
const ROUND_QUARTER: f64 = 3_145_728.0;

/// The piece in which a number is, as bits of a float whose low bits are the piece's index, and the distance from the piece's point.
pub(super) struct Piece<V: Float> {
    index: V::Bits,
    pub(super) distance: V,
}

impl<V: Float> Piece<V> {
    /// The piece of length 1/4, or `times` that, around one of `points`.
    #[inline(always)]
    pub(super) fn of(z: V, times: f64, points: &'static [V::Element; 16]) -> Self {
        let index = (z + V::constant(times * ROUND_QUARTER)).to_bits();
        Self { index, distance: z - V::look_up(points, index) }
    }

    /// The piece's entry of a table.
    #[inline(always)]
    pub(super) fn look_up(&self, table: &'static [V::Element; 16]) -> V {
        V::look_up(table, self.index)
    }

    /// The polynomial in the distance whose coefficients are in these tables, from the constant on.
    #[inline(always)]
    pub(super) fn polynomial(&self, coefficients: &'static [[V::Element; 16]]) -> V {
        let mut sum = V::zero();
        for (i, table) in coefficients.iter().rev().enumerate() {
            let coefficient = self.look_up(table);
            sum = if i == 0 { coefficient } else { sum.mul_add(self.distance, coefficient) };
        }
        sum
    }
}

/// Evaluates a table of `piece_tables` at `z`, where [`in_pieces`] holds, in f32.
#[inline(always)]
pub(super) fn by_pieces<V: Float, const N: usize>(z: V, table: &'static [[V::Element; 16]; N]) -> V {
    Piece::of(z, 1.0, &table[0]).polynomial(&table[1..])
}

/// The lanes in which `z` is in one of the 16 pieces of length 1/4.
#[inline(always)]
pub(super) fn in_pieces<V: Float>(z: V) -> V::Mask {
    z.lt(V::constant(15.5 / 4.0))
}
