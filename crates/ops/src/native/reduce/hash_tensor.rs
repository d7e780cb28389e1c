//! `hash_tensor`: a number of 64 bits that changes with the elements of a tensor.

use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, ScalarType, Storage, ensure};

/// The exclusive or of the elements' bits, as f64 or int64, along the given dimensions or of all elements.
pub fn hash_tensor(self_: &Tensor, dim: &[i64], keepdim: bool, mode: i64) -> Result<Tensor> {
    const NAME: &str = "hash_tensor";
    ensure!(mode == 0, InvalidArgument(NAME, "mode"), "expected 0, the exclusive or, but got {mode}");
    let own = self_.dtype();
    ensure!(!own.is_complex(), Dtype(NAME, "self"), "expected real elements but got {own}");
    let mask =
        DimMask::new((!dim.is_empty()).then_some(dim), self_.dim()).map_err(|e| e.in_operator(NAME))?;
    let dims: Vec<i64> = (0..self_.dim()).filter(|&d| mask.has(d)).map(|d| d as i64).collect();
    for &d in &dims {
        let size = self_.sizes()[d as usize];
        ensure!(size > 0, Shape(NAME, "self"), "expected reduced dimension {d} to have non-zero size");
    }
    let wide = if own.is_floating_point() { ScalarType::F64 } else { ScalarType::I64 };
    let mut bits = self_.detach()?.to_dtype(wide)?.view_dtype(ScalarType::I64)?;
    for &d in &dims {
        bits = xor_along(bits, d)?;
    }
    let bits = if keepdim || dims.is_empty() { bits } else { bits.squeeze_dims(&dims)? };
    let hash = bits.view_dtype(ScalarType::U64)?;
    // Row-major, as every reduction. Where nothing was converted and no dimension has several elements, it is still a view.
    let row_major = Some(MemoryFormat::Contiguous);
    let is_done = hash.is_contiguous() && !Storage::ptr_eq(hash.storage(), self_.storage());
    if is_done { Ok(hash) } else { ops::clone(&hash, row_major) }
}

/// The exclusive or along a dimension: of its halves, until one element is left.
fn xor_along(mut bits: Tensor, dim: i64) -> Result<Tensor> {
    loop {
        let size = bits.sizes()[dim as usize];
        if size == 1 {
            return Ok(bits);
        }
        let half = size / 2;
        let both = bits.narrow(dim, 0, half)?.bitwise_xor(&bits.narrow(dim, half, half)?)?;
        if size % 2 == 1 {
            both.narrow(dim, 0, 1)?.bitwise_xor_(&bits.narrow(dim, size - 1, 1)?)?;
        }
        bits = both;
    }
}
