//! In-place views, such as `squeeze_`, which replace the geometry of the tensor, and `resize_`.

use crate::Tensor;
use crate::native::shape::view;
use crate::structured::resize;
use flambeau_core::{Geometry, MemoryFormat, Result, ensure};

/// Replaces the geometry of `self_` by that of a view of it.
fn set_geometry_of(self_: &Tensor, view: &Tensor) -> Result<()> {
    let g = view.geometry();
    self_.impl_().set_geometry(Geometry::strided(g.sizes(), g.strides(), g.storage_offset())?)
}

/// As [`view::squeeze`].
pub fn squeeze_(self_: &Tensor) -> Result<()> {
    set_geometry_of(self_, &view::squeeze(self_)?)
}

/// As [`view::squeeze_dim`].
pub fn squeeze_dim_(self_: &Tensor, dim: i64) -> Result<()> {
    set_geometry_of(self_, &view::squeeze_dim(self_, dim)?)
}

/// As [`view::squeeze_dims`].
pub fn squeeze_dims_(self_: &Tensor, dim: &[i64]) -> Result<()> {
    set_geometry_of(self_, &view::squeeze_dims(self_, dim)?)
}

/// As [`view::unsqueeze`].
pub fn unsqueeze_(self_: &Tensor, dim: i64) -> Result<()> {
    set_geometry_of(self_, &view::unsqueeze(self_, dim)?)
}

/// As [`view::transpose`].
pub fn transpose_(self_: &Tensor, dim0: i64, dim1: i64) -> Result<()> {
    set_geometry_of(self_, &view::transpose(self_, dim0, dim1)?)
}

/// As [`view::t`].
pub fn t_(self_: &Tensor) -> Result<()> {
    ensure!(
        self_.dim() <= 2,
        Shape("t_", "self"),
        "expects a tensor with <= 2 dimensions, but self is {}D",
        self_.dim()
    );
    transpose_(self_, 0, if self_.dim() < 2 { 0 } else { 1 })
}

/// As [`view::as_strided`].
pub fn as_strided_(self_: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Result<()> {
    set_geometry_of(self_, &view::as_strided(self_, size, stride, storage_offset)?)
}

/// Changes the sizes, with dense strides; the storage grows if necessary, and keeps its bytes.
pub fn resize_(self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> Result<()> {
    ensure!(
        memory_format != Some(MemoryFormat::Preserve),
        InvalidArgument("resize_", "memory_format"),
        "unsupported memory format Preserve"
    );
    if self_.sizes() == size && memory_format.is_none() {
        return Ok(());
    }
    resize(self_, size, memory_format.unwrap_or_default()).map_err(|e| e.in_operator("resize_"))
}

/// [`resize_`] to the sizes of `the_template`, and with `Preserve` to its memory format.
pub fn resize_as_(self_: &Tensor, the_template: &Tensor, memory_format: Option<MemoryFormat>) -> Result<()> {
    let format = match memory_format {
        Some(MemoryFormat::Preserve) => Some(the_template.suggest_memory_format()),
        format => format,
    };
    resize_(self_, the_template.sizes(), format)
}
