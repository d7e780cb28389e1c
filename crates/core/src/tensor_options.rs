//! The options of a new tensor: scalar type, layout, device, pinned memory, gradient.

use crate::{Device, Layout, ScalarType};
use std::sync::atomic::{AtomicU8, Ordering};

/// The properties of a new tensor, each optional. PyTorch's `TensorOptions`.
///
/// ```
/// use flambeau_core::{Device, ScalarType, TensorOptions};
/// let options = TensorOptions::from(ScalarType::F64).device(Device::META);
/// assert_eq!(options.dtype, Some(ScalarType::F64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TensorOptions {
    /// Element type; `None` is the default, f32 unless it was changed.
    pub dtype: Option<ScalarType>,
    /// Layout; `None` is strided.
    pub layout: Option<Layout>,
    /// Device; `None` is the CPU.
    pub device: Option<Device>,
    /// Page-locked host memory.
    pub pin_memory: Option<bool>,
}

impl TensorOptions {
    /// All properties left to their defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// With elements of `dtype`.
    pub fn dtype(self, dtype: ScalarType) -> Self {
        TensorOptions { dtype: Some(dtype), ..self }
    }

    /// On `device`.
    pub fn device(self, device: Device) -> Self {
        TensorOptions { device: Some(device), ..self }
    }

    /// With `layout`.
    pub fn layout(self, layout: Layout) -> Self {
        TensorOptions { layout: Some(layout), ..self }
    }
}

impl From<ScalarType> for TensorOptions {
    fn from(dtype: ScalarType) -> Self {
        TensorOptions::new().dtype(dtype)
    }
}

impl From<Device> for TensorOptions {
    fn from(device: Device) -> Self {
        TensorOptions::new().device(device)
    }
}

impl From<()> for TensorOptions {
    fn from((): ()) -> Self {
        TensorOptions::new()
    }
}

impl From<(ScalarType, Device)> for TensorOptions {
    fn from((dtype, device): (ScalarType, Device)) -> Self {
        TensorOptions::new().dtype(dtype).device(device)
    }
}

static DEFAULT_DTYPE: AtomicU8 = AtomicU8::new(ScalarType::F32 as u8);

/// The floating point type of factories and of integer division: f32, unless [`set_default_dtype`] changed it.
#[inline]
pub fn default_dtype() -> ScalarType {
    let code = DEFAULT_DTYPE.load(Ordering::Relaxed);
    [ScalarType::F16, ScalarType::BF16, ScalarType::F64]
        .into_iter()
        .find(|d| *d as u8 == code)
        .unwrap_or(ScalarType::F32)
}

/// Changes [`default_dtype`] for the whole process.
///
/// # Errors
/// `Dtype` unless `dtype` is a floating point type with arithmetic.
pub fn set_default_dtype(dtype: ScalarType) -> crate::Result<()> {
    crate::ensure!(
        dtype.is_floating_point() && !dtype.is_float8(),
        Dtype,
        "expected a floating point default dtype but got {dtype}"
    );
    DEFAULT_DTYPE.store(dtype as u8, Ordering::Relaxed);
    Ok(())
}
