//! Derivatives of matrix products.

use flambeau_core::{DimVec, Result};
use flambeau_ops::{Tensor, ops};

/// `a b`, the gradient of a matrix with these strides: if the matrix is column-major, so is the product. So the gradient of a linear
/// layer's weight, which is multiplied transposed, has the layout of the weight.
pub fn mm_in_layout(a: &Tensor, b: &Tensor, strides: &[i64]) -> Result<Tensor> {
    match *strides {
        [1, column] if column != 1 => ops::t(&ops::mm(&ops::t(b)?, &ops::t(a)?)?),
        _ => ops::mm(a, b),
    }
}

/// The sum over all dimensions but the last.
pub fn sum_of_rows(tensor: &Tensor) -> Result<Tensor> {
    let leading: DimVec = (0..tensor.dim() as i64 - 1).collect();
    ops::sum_dim_intlist(tensor, Some(&leading), false, None)
}
