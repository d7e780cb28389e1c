//! `contiguous`, `to` and `type_as`, which copy only where type, device or memory format differ; `conj`.

use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, MemoryFormat, Result, ScalarType, ensure};

/// `self_` if it has the memory format, else a copy that has.
pub fn contiguous(self_: &Tensor, memory_format: MemoryFormat) -> Result<Tensor> {
    ensure!(
        memory_format != MemoryFormat::Preserve,
        InvalidArgument("contiguous", "memory_format"),
        "preserve memory format is unsupported by the contiguous operator"
    );
    if self_.is_contiguous_as(memory_format) {
        return Ok(self_.clone());
    }
    ops::clone(self_, Some(memory_format))
}

/// `self_` if it has the requested type, layout, device and memory format, else a converted copy.
#[expect(clippy::too_many_arguments, reason = "those of the schema")]
pub fn to(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    pin_memory: Option<bool>,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let in_order = match memory_format {
        None | Some(MemoryFormat::Preserve) => true,
        Some(format) => self_.suggest_memory_format() == format,
    };
    let matches = dtype.is_none_or(|d| d == self_.dtype())
        && layout.is_none_or(|l| l == self_.layout())
        && device.is_none_or(|d| d == self_.device());
    if matches && in_order && !copy {
        return Ok(self_.clone());
    }
    ops::_to_copy(self_, dtype, layout, device, pin_memory, non_blocking, memory_format)
}

/// [`to`] a device and a type.
pub fn to_device(
    self_: &Tensor,
    device: Device,
    dtype: ScalarType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, Some(dtype), None, Some(device), None, non_blocking, copy, memory_format)
}

/// [`to`] a type.
pub fn to_dtype(
    self_: &Tensor,
    dtype: ScalarType,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    to(self_, Some(dtype), None, None, None, non_blocking, copy, memory_format)
}

/// [`to`] the type and device of `other`.
pub fn to_other(
    self_: &Tensor,
    other: &Tensor,
    non_blocking: bool,
    copy: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    let (dtype, device) = (Some(other.dtype()), Some(other.device()));
    to(self_, dtype, Some(other.layout()), device, None, non_blocking, copy, memory_format)
}

/// `self_` converted to the type and device of `other`.
pub fn type_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    to_other(self_, other, false, false, None)
}

/// The conjugate: a copy of complex numbers, and `self_` if it is real.
pub fn conj(self_: &Tensor) -> Result<Tensor> {
    if self_.dtype().is_complex() { ops::_conj_physical(self_) } else { Ok(self_.clone()) }
}

/// `self_`: nothing is conjugated or negated lazily.
pub fn resolve(self_: &Tensor) -> Result<Tensor> {
    Ok(self_.clone())
}

/// As [`conj`].
pub fn conj_physical(self_: &Tensor) -> Result<Tensor> {
    conj(self_)
}
