//! Inputs of the workloads, which are the same for every library: a 32-bit hash of the index of the element.

use flambeau::core::Element;
use flambeau::{Autograd, Result, ScalarType, Tensor, ops};

fn hash(i: u32, seed: u32) -> u32 {
    let mut h = i.wrapping_mul(0x9E37_79B1).wrapping_add(seed.wrapping_mul(0x85EB_CA77));
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}

fn count(sizes: &[i64]) -> u32 {
    sizes.iter().product::<i64>() as u32
}

/// Values where an operator would have put them: in memory of the library's allocator, as those of PyTorch's arrays from NumPy are
/// in memory of NumPy's.
fn made<T: Element>(values: impl Iterator<Item = T>, sizes: &[i64]) -> Result<Tensor> {
    ops::clone(&Tensor::from_vec(values.collect(), sizes)?, None)
}

/// Numbers in [-1, 1).
pub(super) fn fill(sizes: &[i64], seed: u32) -> Result<Tensor> {
    let value = |i: u32| (hash(i, seed) >> 8) as f32 * 2f32.powi(-23) - 1.0;
    made((0..count(sizes)).map(value), sizes)
}

/// Numbers in [0.5, 1.5).
pub(super) fn positive(sizes: &[i64], seed: u32) -> Result<Tensor> {
    fill(sizes, seed)?.mul_scalar(0.5)?.add_scalar(1.0)
}

/// Whether each of those numbers is above 0.
pub(super) fn mask(sizes: &[i64], seed: u32) -> Result<Tensor> {
    fill(sizes, seed)?.gt_scalar(0)
}

/// Numbers in [-1, 1) of another type.
pub(super) fn fill_as(sizes: &[i64], seed: u32, dtype: ScalarType) -> Result<Tensor> {
    fill(sizes, seed)?.to(dtype)
}

/// Indices below `bound`.
pub(super) fn indices(sizes: &[i64], bound: u32, seed: u32) -> Result<Tensor> {
    made((0..count(sizes)).map(|i| (hash(i, seed) % bound) as i64), sizes)
}

/// The tensor, as a leaf that requires a gradient.
pub(super) fn requiring_grad(tensor: Tensor) -> Result<Tensor> {
    tensor.requires_grad_(true)?;
    Ok(tensor)
}

/// [`fill`], as a leaf that requires a gradient.
pub(super) fn leaf(sizes: &[i64], seed: u32) -> Result<Tensor> {
    requiring_grad(fill(sizes, seed)?)
}

/// The parameters of a model in a fixed order, each from the next seed.
#[derive(Default)]
pub(super) struct Params(pub(super) Vec<Tensor>);

impl Params {
    fn keep(&mut self, tensor: Tensor) -> Result<Tensor> {
        let tensor = requiring_grad(tensor)?;
        self.0.push(tensor.clone());
        Ok(tensor)
    }

    /// Numbers in [-scale, scale).
    pub(super) fn uniform(&mut self, sizes: &[i64], scale: f64) -> Result<Tensor> {
        let seed = 100 + self.0.len() as u32;
        self.keep(fill(sizes, seed)?.mul_scalar(scale)?)
    }

    /// One number everywhere.
    pub(super) fn constant(&mut self, sizes: &[i64], value: f64) -> Result<Tensor> {
        self.keep(Tensor::full(sizes, value, ScalarType::F32)?)
    }

    /// Weight and bias.
    pub(super) fn linear(&mut self, inputs: i64, outputs: i64) -> Result<(Tensor, Tensor)> {
        let weight = self.uniform(&[outputs, inputs], (inputs as f64).powf(-0.5))?;
        Ok((weight, self.constant(&[outputs], 0.0)?))
    }

    /// Scale and shift of a norm.
    pub(super) fn norm(&mut self, size: i64) -> Result<(Tensor, Tensor)> {
        Ok((self.constant(&[size], 1.0)?, self.constant(&[size], 0.0)?))
    }
}
