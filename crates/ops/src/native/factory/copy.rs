//! `copy_`, `clone`, `_to_copy` and `fill_`.

use crate::host_copies::HostCopies;
use crate::loops::{self, NumberFormula};
use crate::native::factory::empty_full::dense_strides;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::Number;
use crate::{Tensor, ops};
use flambeau_core::{Device, Layout, MemoryFormat, Result, Scalar, ScalarType, Storage, ensure, shape};

/// Writes `src`, broadcast and converted, into `self_`.
pub fn copy_(self_: &Tensor, src: &Tensor, _non_blocking: bool) -> Result<()> {
    if self_.is_same(src) {
        return Ok(());
    }
    ensure_broadcasts(self_, src)?;
    let mut iter = TensorIterator::in_place("copy_", self_);
    iter.add_input(src);
    iter.build(Config::COPY)?;
    if iter.is_meta() { Ok(()) } else { loops::copy_kernel(&iter) }
}

fn ensure_broadcasts(self_: &Tensor, src: &Tensor) -> Result<()> {
    ensure!(
        shape::expand_strides(src.sizes(), src.strides(), self_.sizes()).is_ok(),
        Shape("copy_", "src"),
        "expected `src` to broadcast to {:?} but got {:?}",
        self_.sizes(),
        src.sizes()
    );
    Ok(())
}

/// [`copy_`] where one of the two is on a device without a kernel for it: a copy of bytes if type and geometry agree and both are
/// contiguous, else through copies on the host.
pub fn copy_between_devices(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<()> {
    if self_.is_same(src) {
        return Ok(());
    }
    ensure_broadcasts(self_, src)?;
    if self_.numel() == 0 {
        return Ok(());
    }
    let have_same_layout = self_.dtype() == src.dtype()
        && self_.sizes() == src.sizes()
        && self_.is_contiguous()
        && src.is_contiguous()
        && !Storage::ptr_eq(self_.storage(), src.storage());
    if have_same_layout {
        let start = |t: &Tensor| (t.storage_offset() as usize).wrapping_mul(t.dtype().size());
        let nbytes = src.numel() as usize * src.dtype().size();
        return Storage::copy_range((src.storage(), start(src)), (self_.storage(), start(self_)), nbytes)
            .map_err(|error| error.in_operator("copy_"));
    }
    let mut copies = HostCopies::default();
    let (to, from) = (copies.on_host(self_)?, copies.on_host(src)?);
    ops::copy_(&to, &from, non_blocking)?;
    copies.write_back()
}

/// A copy with its own storage.
pub fn clone(self_: &Tensor, memory_format: Option<MemoryFormat>) -> Result<Tensor> {
    let format = memory_format.unwrap_or(MemoryFormat::Preserve);
    let copy = match format {
        MemoryFormat::Preserve => {
            let strides = dense_strides(self_)?;
            Tensor::empty_with_strides(self_.sizes(), &strides, self_.dtype(), self_.device())?
        }
        format => TensorSpec::like(self_, self_.sizes()).with_format(format).allocate("clone")?,
    };
    ops::copy_(&copy, self_, false)?;
    Ok(copy)
}

/// A copy of another type, on another device or in another memory format.
pub fn to_copy(
    self_: &Tensor,
    dtype: Option<ScalarType>,
    layout: Option<Layout>,
    device: Option<Device>,
    _pin_memory: Option<bool>,
    non_blocking: bool,
    memory_format: Option<MemoryFormat>,
) -> Result<Tensor> {
    ensure!(
        layout.unwrap_or(self_.layout()) == self_.layout(),
        NotImplemented("_to_copy", "layout"),
        "conversion between layouts is not implemented"
    );
    let (dtype, device) = (dtype.unwrap_or(self_.dtype()), device.unwrap_or(self_.device()));
    let copy = match memory_format.unwrap_or(MemoryFormat::Preserve) {
        MemoryFormat::Preserve => {
            Tensor::empty_with_strides(self_.sizes(), &dense_strides(self_)?, dtype, device)?
        }
        format => TensorSpec::new(self_.sizes(), dtype, device).with_format(format).allocate("_to_copy")?,
    };
    if !device.is_meta() {
        ops::copy_(&copy, self_, non_blocking)?;
    }
    Ok(copy)
}

/// Writes `value` to all elements.
pub fn fill_(self_: &Tensor, value: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Constant(Scalar);
    impl NumberFormula<0> for Constant {
        #[inline(always)]
        fn call<V: Number>(self, []: [V; 0]) -> V {
            V::scalar(self.0)
        }
    }
    value.check_range(self_.dtype()).map_err(|e| e.in_operator("fill_"))?;
    // Filled as i64, which holds the lower half of u64: the bits of the others are those of negative numbers.
    let value = if self_.dtype() == ScalarType::U64 { Scalar::Int(value.to_u64() as i64) } else { value };
    let mut iter = TensorIterator::in_place("fill_", self_);
    iter.build_nullary_op()?;
    if iter.is_meta() { Ok(()) } else { loops::constant_kernel(&iter, Constant(value)) }
}

/// Writes 0 to all elements.
pub fn zero_(self_: &Tensor) -> Result<()> {
    ops::fill__scalar(self_, Scalar::Int(0))
}

/// A tensor like `self_` with the values of `src`, broadcast and converted.
pub fn copy(self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<Tensor> {
    let copy = ops::empty_like(self_, None, None, None, None, None)?;
    ops::copy_(&copy, src, non_blocking)?;
    Ok(copy)
}

/// A tensor like `self_` filled with `value`.
pub fn fill(self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let filled = ops::empty_like(self_, None, None, None, None, None)?;
    ops::fill__scalar(&filled, value)?;
    Ok(filled)
}

/// [`fill`] with the value of a tensor without dimensions.
pub fn fill_tensor(self_: &Tensor, value: &Tensor) -> Result<Tensor> {
    ensure!(
        value.dim() == 0,
        InvalidArgument("fill", "value"),
        "fill_ only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    copy(self_, value, false)
}
