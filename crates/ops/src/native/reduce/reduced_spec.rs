//! The dimensions that a reduction folds, and the output that leaves.

use crate::Tensor;
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use flambeau_core::{Result, ScalarType};

/// The dimensions to reduce; messages name the operator.
pub(super) fn mask_of(name: &str, self_: &Tensor, dim: Option<&[i64]>) -> Result<DimMask> {
    DimMask::new(dim, self_.dim()).map_err(|e| e.context(name))
}

/// An output of the reduced sizes.
pub(super) fn reduced_spec(
    name: &str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: ScalarType,
) -> Result<TensorSpec> {
    let sizes = mask_of(name, self_, dim)?.reduced_sizes(self_.sizes(), keepdim);
    Ok(TensorSpec::like(self_, &sizes).with_dtype(dtype))
}
