//! Aliases of tensors without their history.

use flambeau_core::Result;
use flambeau_ops::Tensor;

/// Another handle on the same elements, and so on the same version counter, but with no history, hooks or gradient.
#[inline]
pub(crate) fn alias(tensor: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_impl(tensor.impl_().shallow_copy()))
}
