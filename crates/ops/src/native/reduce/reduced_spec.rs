//! Checked dimensions of a reduction, and the shape of its result.

use crate::Tensor;
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use flambeau_core::{Result, ScalarType};

/// The dimensions to reduce; `name` is the operator, for messages.
pub(super) fn mask_of(name: &str, self_: &Tensor, dim: Option<&[i64]>) -> Result<DimMask> {
    DimMask::new(dim, self_.dim()).map_err(|e| e.in_operator(name))
}

/// The shape and type of the result of a reduction.
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
