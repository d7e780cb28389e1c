//! `copy_`: within a device by the loops, from and to other devices through dense memory.

use super::{dense_as, empty};
use crate::pinned::copying;
use flambeau_core::{DispatchKeySet, Result};
use flambeau_ops::native::factory::copy;
use flambeau_ops::{Tensor, ops, register};

register!(ops::COPY_, Cuda, copy_);

fn copy_(_: DispatchKeySet, self_: &Tensor, src: &Tensor, non_blocking: bool) -> Result<()> {
    if self_.device() == src.device() {
        return copy::copy_(self_, src, non_blocking);
    }
    let is_plain = self_.dtype() == src.dtype()
        && self_.sizes() == src.sizes()
        && self_.is_contiguous()
        && src.is_contiguous();
    if is_plain || src.device().is_meta() {
        return copying(non_blocking, || copy::copy_between_devices(self_, src, non_blocking));
    }
    // Converted where it is, so that no byte goes that the target does not keep; broadcast where it goes.
    let converted = dense_as(src, self_.dtype())?;
    let moved = empty(src.sizes(), self_.dtype(), self_.device())?;
    copy::copy_between_devices(&moved, &converted, non_blocking)?;
    ops::copy_(self_, &moved, non_blocking)
}
