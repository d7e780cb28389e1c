//! Vectors spread over grids and diagonals.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, bail, ensure};

/// Each vector along a dimension of its own, repeated along those of the others.
pub fn meshgrid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let Some(first) = tensors.first() else {
        bail!(InvalidArgument, "meshgrid: expects a non-empty TensorList");
    };
    let mut sizes = DimVec::new();
    for tensor in tensors {
        ensure!(
            tensor.dim() <= 1,
            Shape,
            "meshgrid: Expected 0D or 1D tensor in the tensor list but got: {:?}",
            tensor.sizes()
        );
        ensure!(
            tensor.dtype() == first.dtype(),
            Dtype,
            "meshgrid: expects all tensors to have the same dtype"
        );
        ensure!(
            tensor.device() == first.device(),
            Device,
            "meshgrid: expects all tensors to have the same device"
        );
        sizes.push(tensor.numel());
    }
    let along = |(d, tensor): (usize, &Tensor)| {
        let mut own = DimVec::from_elem(1, sizes.len());
        own[d] = tensor.numel();
        ops::expand(&ops::view(tensor, &own)?, &sizes, false)
    };
    tensors.iter().enumerate().map(along).collect()
}

/// The same; with `indexing` of "xy" the first two dimensions are exchanged.
pub fn meshgrid_indexing(tensors: &[Tensor], indexing: &str) -> Result<Vec<Tensor>> {
    match indexing {
        "xy" if tensors.len() >= 2 => {
            let mut exchanged = tensors.to_vec();
            exchanged.swap(0, 1);
            let mut grids = ops::meshgrid(&exchanged)?;
            grids.swap(0, 1);
            Ok(grids)
        }
        "xy" | "ij" => ops::meshgrid(tensors),
        other => bail!(
            InvalidArgument,
            "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {other}"
        ),
    }
}

/// The matrix with a vector on its diagonal, or a copy of the diagonal of a matrix.
pub fn diag(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    match self_.dim() {
        1 => ops::diag_embed(self_, diagonal, -2, -1),
        2 => ops::clone(&ops::diagonal(self_, diagonal, 0, 1)?, Some(MemoryFormat::Contiguous)),
        other => bail!(Shape, "diag: Supports 1D or 2D tensors. Got {other}D"),
    }
}

/// The matrix with all elements on its diagonal.
pub fn diagflat(self_: &Tensor, offset: i64) -> Result<Tensor> {
    ops::diag(&ops::reshape(self_, &[-1])?, offset)
}
