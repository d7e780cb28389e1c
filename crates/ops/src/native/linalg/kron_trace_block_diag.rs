//! `kron`, `trace` and `block_diag`, composed of other operators.

use crate::tensor_iterator::result_type;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, ensure, shape};

/// The Kronecker product: a block matrix of the elements of `self_` times `other`.
pub fn kron(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let rank = self_.dim().max(other.dim());
    let padded = |t: &Tensor| -> DimVec {
        std::iter::repeat_n(1, rank - t.dim()).chain(t.sizes().iter().copied()).collect()
    };
    let (a, b) = (padded(self_), padded(other));
    let blocks: DimVec = a.iter().flat_map(|size| [*size, 1]).collect();
    let inside: DimVec = b.iter().flat_map(|size| [1, *size]).collect();
    let both = a.iter().zip(&b).map(|(x, y)| shape::numel(&[*x, *y]));
    let sizes = both.collect::<Result<DimVec>>().map_err(|e| e.in_operator("kron"))?;
    self_.reshape(&blocks)?.mul(&other.reshape(&inside)?)?.reshape(&sizes)
}

/// The sum of a matrix's diagonal.
pub fn trace(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() == 2,
        Shape("trace", "self"),
        "expected a matrix, but got tensor with dim {}",
        self_.dim()
    );
    self_.diagonal()?.sum()
}

/// A block diagonal matrix of the given matrices; a vector is a row.
pub fn block_diag(tensors: &[Tensor]) -> Result<Tensor> {
    if tensors.is_empty() {
        return ops::empty_memory_format(&[1, 0], None, None, None, None, None);
    }
    // Of all tensors as they are: as matrices a number would count as much as they do.
    let dtype = result_type(tensors).map_err(|e| e.in_operator("block_diag"))?;
    let mut matrices = vec![];
    for (number, tensor) in tensors.iter().enumerate() {
        ensure!(
            tensor.dim() <= 2,
            Shape("block_diag", "tensors"),
            "Input tensors must have 2 or fewer dimensions. Input {number} has {} dimensions",
            tensor.dim()
        );
        let columns = tensor.sizes().last().copied().unwrap_or(1);
        let tensor = ops::to_dtype(tensor, dtype, false, false, None)?;
        matrices.push(if tensor.dim() == 2 { tensor } else { tensor.reshape(&[1, columns])? });
    }
    let total: i64 = matrices.iter().map(|m| m.sizes()[1]).sum();
    let mut before = 0;
    for matrix in &mut matrices {
        let columns = matrix.sizes()[1];
        *matrix = ops::constant_pad_nd(matrix, &[before, total - before - columns], 0.into())?;
        before += columns;
    }
    ops::cat(&matrices, 0)
}
