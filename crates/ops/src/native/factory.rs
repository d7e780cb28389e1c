//! Tensors made from nothing but sizes.

use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, MemoryFormat, Result, Scalar, ScalarType, default_dtype, ensure};

/// Refuses what no kernel here makes yet.
fn check_options(name: &str, layout: Option<Layout>, pin_memory: Option<bool>) -> Result<()> {
    ensure!(
        layout.unwrap_or_default() == Layout::Strided,
        NotImplemented,
        "{name}: expected a strided layout but got {}",
        layout.unwrap_or_default()
    );
    ensure!(pin_memory != Some(true), NotImplemented, "{name}: pinned memory needs a CUDA device");
    Ok(())
}

/// A tensor without values.
pub fn empty(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    check_options("empty", layout, pin_memory)?;
    let (dtype, device) = (dtype.unwrap_or_else(default_dtype), device.unwrap_or(Device::CPU));
    match memory_format {
        None | Some(MemoryFormat::Contiguous) => {
            Tensor::empty_contiguous(size, dtype, device).map_err(|e| e.context("empty"))
        }
        Some(format) => TensorSpec::new(size, dtype, device).with_format(format).allocate("empty"),
    }
}

/// A tensor of zeros.
pub fn zeros(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let made = ops::empty_memory_format(size, dtype, layout, device, pin_memory, None)?;
    ops::zero_(&made)?;
    Ok(made)
}

/// A tensor of ones.
pub fn ones(
    size: &[i64],
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    full(size, Scalar::Int(1), Some(dtype.unwrap_or_else(default_dtype)), layout, device, pin_memory)
}

/// A tensor of one value, of the value's type unless another is asked for.
pub fn full(
    size: &[i64],
    fill_value: Scalar,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
) -> Result<Tensor> {
    let dtype = dtype.unwrap_or_else(|| match fill_value.scalar_type() {
        ScalarType::F64 => default_dtype(),
        other => other,
    });
    let made = ops::empty_memory_format(size, Some(dtype), layout, device, pin_memory, None)?;
    ops::fill__scalar(&made, fill_value)?;
    Ok(made)
}
