//! Functions that tests compile, their inputs, and the comparison of bits.

#![allow(dead_code, unused_imports, reason = "each test uses a part")]

mod functions;

pub(crate) use functions::{CHAINS, Chain};

use flambeau_core::{Result, ScalarType};
use flambeau_ops::Tensor;

/// Numbers in -8 to 8 that depend on `seed`.
pub(crate) fn numbers(seed: u64, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64 * 16.0 - 8.0
    };
    let count = sizes.iter().product::<i64>();
    Tensor::from_vec((0..count).map(|_| next()).collect::<Vec<f64>>(), sizes)?.to(dtype)
}

/// The bits of all elements, where every NaN is the same.
pub(crate) fn bits(tensor: &Tensor) -> Result<Vec<u64>> {
    Ok(match tensor.dtype() {
        ScalarType::F32 => {
            let bits = |x: f32| if x.is_nan() { u64::MAX } else { u64::from(x.to_bits()) };
            tensor.to_vec::<f32>()?.into_iter().map(bits).collect()
        }
        ScalarType::F64 => {
            let bits = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
            tensor.to_vec::<f64>()?.into_iter().map(bits).collect()
        }
        _ => tensor.to_vec::<bool>()?.into_iter().map(u64::from).collect(),
    })
}

/// Compares geometries, types and bits.
pub(crate) fn assert_same(name: &str, made: &[Tensor], expected: &[Tensor]) {
    assert_eq!(made.len(), expected.len(), "{name}");
    for (made, expected) in made.iter().zip(expected) {
        assert_eq!((made.sizes(), made.strides()), (expected.sizes(), expected.strides()), "{name}");
        assert_eq!(made.dtype(), expected.dtype(), "{name}");
        let (made, expected) = (bits(made).unwrap(), bits(expected).unwrap());
        let differs = made.iter().zip(&expected).position(|(a, b)| a != b);
        let values = differs.map(|i| (i, made[i], expected[i]));
        assert_eq!(values, None, "{name}: position, compiled, eager");
    }
}
