//! `meshgrid`.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, bail, ensure};

/// Each vector expanded to a grid: it varies along a dimension of its own, and is repeated along those of the others.
pub fn meshgrid(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let Some(first) = tensors.first() else {
        bail!(InvalidArgument("meshgrid", "tensors"), "expects a non-empty TensorList");
    };
    let mut sizes = DimVec::new();
    for tensor in tensors {
        ensure!(
            tensor.dim() <= 1,
            Shape("meshgrid", "tensors"),
            "Expected 0D or 1D tensor in the tensor list but got: {:?}",
            tensor.sizes()
        );
        ensure!(
            tensor.dtype() == first.dtype(),
            Dtype("meshgrid", "tensors"),
            "expects all tensors to have the same dtype"
        );
        ensure!(
            tensor.device() == first.device(),
            Device("meshgrid", "tensors"),
            "expects all tensors to have the same device"
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

/// [`meshgrid`]; with an `indexing` of "xy" the first two dimensions are exchanged.
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
            InvalidArgument("meshgrid", "indexing"),
            "indexing must be one of \"xy\" or \"ij\", but received: {other}"
        ),
    }
}
