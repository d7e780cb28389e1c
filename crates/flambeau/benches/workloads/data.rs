//! Inputs that every library makes alike: a 32-bit hash of the element number.

use flambeau_core::Result;
use flambeau_ops::Tensor;

fn hash(i: u32, seed: u32) -> u32 {
    let mut h = i.wrapping_mul(0x9E37_79B1).wrapping_add(seed.wrapping_mul(0x85EB_CA77));
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}

/// Numbers in [-1, 1).
pub(super) fn fill(sizes: &[i64], seed: u32) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>() as u32;
    let value = |i: u32| (hash(i, seed) >> 8) as f32 * 2f32.powi(-23) - 1.0;
    Tensor::from_vec((0..count).map(value).collect(), sizes)
}
