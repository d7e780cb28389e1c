//! Sparse tensors as their parts: what rules compute with.

use crate::dense::{joined, raveled, rows, slice};
use flambeau_core::{DimVec, Layout, Result, bail, ensure};
use flambeau_ops::tensor::sparse::SparseParts;
use flambeau_ops::{Tensor, ops};

/// Whether a tensor has a sparse layout.
pub(crate) fn is_sparse(tensor: &Tensor) -> bool {
    tensor.layout().is_sparse()
}

/// Coordinates and values.
#[derive(Clone, Debug)]
pub(crate) struct Coo {
    /// `[sparse_dim, nnz]`.
    pub(crate) indices: Tensor,
    /// `[nnz, *dense]`.
    pub(crate) values: Tensor,
    pub(crate) sizes: DimVec,
    pub(crate) is_coalesced: bool,
}

impl Coo {
    /// The parts of a tensor of layout `SparseCoo`.
    pub(crate) fn of(tensor: &Tensor) -> Result<Coo> {
        match tensor.sparse_parts() {
            Some(SparseParts::Coo { indices, values, is_coalesced }) => {
                let [sparse_dim, nnz] = indices.sizes()[..] else { return changed("indices", &indices) };
                // Somebody with access to a part can resize it.
                if sparse_dim > tensor.dim() as i64 || values.sizes().first() != Some(&nnz) {
                    return changed("values", &values);
                }
                Ok(Coo { indices, values, sizes: tensor.sizes().into(), is_coalesced })
            }
            _ => bail!(
                InvalidArgument,
                "expected a tensor of layout {} but got one of layout {}",
                Layout::SparseCoo,
                tensor.layout()
            ),
        }
    }

    pub(crate) fn sparse_dim(&self) -> usize {
        self.indices.sizes()[0] as usize
    }

    pub(crate) fn nnz(&self) -> i64 {
        self.indices.sizes()[1]
    }

    pub(crate) fn sparse_sizes(&self) -> &[i64] {
        &self.sizes[..self.sparse_dim()]
    }

    pub(crate) fn dense_sizes(&self) -> &[i64] {
        &self.sizes[self.sparse_dim()..]
    }

    /// The indices in one sparse dimension.
    pub(crate) fn row(&self, dim: usize) -> Result<Tensor> {
        ops::select_int(&self.indices, 0, dim as i64)
    }

    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        let Coo { indices, values, sizes, is_coalesced } = self;
        Tensor::from_sparse_parts(
            Layout::SparseCoo,
            &sizes,
            SparseParts::Coo { indices, values, is_coalesced },
        )
    }

    /// The same pattern with other values, whose dense sizes may differ.
    pub(crate) fn with_values(&self, values: Tensor) -> Coo {
        let sizes = joined(&[self.sparse_sizes(), &values.sizes()[1..]]);
        Coo { values, sizes, ..self.clone() }
    }

    /// Equal coordinates joined and their values summed, in ascending order.
    pub(crate) fn coalesced(&self) -> Result<Coo> {
        if self.is_coalesced {
            return Ok(self.clone());
        }
        let (indices, values) = ops::_coo_coalesced(&self.indices, &self.values, self.sparse_sizes())?;
        Ok(Coo { indices, values, sizes: self.sizes.clone(), is_coalesced: true })
    }

    /// The row-major index of each coordinate in the sparse dimensions, which are checked.
    pub(crate) fn keys(&self) -> Result<Tensor> {
        check_coordinates("indices", &self.indices, self.sparse_sizes())?;
        raveled(&self.indices, self.sparse_sizes())
    }

    /// The position in `other`, which is coalesced, of each coordinate that is there too: positions here, positions there.
    pub(crate) fn common(&self, other: &Coo) -> Result<(Tensor, Tensor)> {
        let (own, theirs) = (self.keys()?, other.keys()?);
        let found = ops::searchsorted_tensor(&theirs, &own, false, false, None, None)?;
        if other.nnz() == 0 {
            let none = slice(&found, 0, 0, 0)?;
            return Ok((none.clone(), none));
        }
        let found = ops::clamp(&found, None, Some((other.nnz() - 1).into()))?;
        let here = crate::dense::positions(&ops::eq_tensor(&rows(&theirs, &found)?, &own)?)?;
        let there = rows(&found, &here)?;
        Ok((here, there))
    }

    /// Only the elements at these positions.
    pub(crate) fn at(&self, positions: &Tensor) -> Result<Coo> {
        let indices = ops::index_select(&self.indices, 1, positions)?;
        Ok(Coo { indices, values: rows(&self.values, positions)?, ..self.clone() })
    }
}

/// The error of a part whose sizes do not fit the others any more.
fn changed<T>(part: &str, tensor: &Tensor) -> Result<T> {
    bail!(
        Shape("sparse tensor", part),
        "expected {part} that fit the other parts of the tensor but got sizes {:?}; have they been resized?",
        tensor.sizes()
    )
}

/// Requires coordinates inside of `sizes`, a row of `indices` for each dimension.
///
/// # Errors
/// `Index` for the first dimension with an index out of bounds.
pub(crate) fn check_coordinates(argument: &str, indices: &Tensor, sizes: &[i64]) -> Result<()> {
    if indices.numel() == 0 {
        return Ok(());
    }
    let low = ops::amin(indices, &[1], false)?.to_vec::<i64>()?;
    let high = ops::amax(indices, &[1], false)?.to_vec::<i64>()?;
    for (d, size) in sizes.iter().enumerate() {
        for index in [low[d], high[d]] {
            ensure!(
                (0..*size).contains(&index),
                Index("sparse tensor", argument),
                "index {index} is out of bounds for dimension {d} with size {size}"
            );
        }
    }
    Ok(())
}

/// Compressed rows or columns, of elements or blocks.
#[derive(Clone, Debug)]
pub(crate) struct Compressed {
    pub(crate) layout: Layout,
    pub(crate) compressed: Tensor,
    pub(crate) plain: Tensor,
    pub(crate) values: Tensor,
    pub(crate) sizes: DimVec,
}

impl Compressed {
    pub(crate) fn of(tensor: &Tensor) -> Result<Compressed> {
        match tensor.sparse_parts() {
            Some(SparseParts::Compressed { compressed, plain, values }) => {
                let dims = compressed.dim();
                if dims == 0 || dims >= tensor.dim() || compressed.sizes().last() == Some(&0) {
                    return changed("compressed indices", &compressed);
                }
                if plain.dim() != dims || values.sizes().get(..dims) != Some(plain.sizes()) {
                    return changed("values", &values);
                }
                let (layout, sizes) = (tensor.layout(), tensor.sizes().into());
                Ok(Compressed { layout, compressed, plain, values, sizes })
            }
            _ => bail!(
                InvalidArgument,
                "expected a tensor of a compressed layout but got one of layout {}",
                tensor.layout()
            ),
        }
    }

    pub(crate) fn batch_dim(&self) -> usize {
        self.compressed.dim() - 1
    }

    pub(crate) fn batch_sizes(&self) -> &[i64] {
        &self.sizes[..self.batch_dim()]
    }

    /// Stored elements or blocks of each batch element.
    pub(crate) fn nnz(&self) -> i64 {
        self.plain.sizes().last().copied().unwrap_or_default()
    }

    /// Rows and columns of a block.
    pub(crate) fn block_sizes(&self) -> [i64; 2] {
        match self.values.sizes().get(self.batch_dim() + 1..) {
            Some([rows, columns, ..]) if self.layout.is_blocked() => [*rows, *columns],
            _ => [1, 1],
        }
    }

    pub(crate) fn dense_sizes(&self) -> &[i64] {
        &self.sizes[self.batch_dim() + 2..]
    }

    pub(crate) fn into_tensor(self) -> Result<Tensor> {
        let Compressed { layout, compressed, plain, values, sizes } = self;
        Tensor::from_sparse_parts(layout, &sizes, SparseParts::Compressed { compressed, plain, values })
    }
}

/// The number of sparse dimensions: 2 for compressed layouts, and 0 for strided tensors, as in PyTorch.
pub fn sparse_dim(tensor: &Tensor) -> i64 {
    match tensor.sparse_parts() {
        Some(SparseParts::Coo { indices, .. }) => indices.sizes().first().copied().unwrap_or_default(),
        Some(SparseParts::Compressed { .. }) => 2,
        None => 0,
    }
}

/// The number of dense dimensions, which follow the sparse ones.
pub fn dense_dim(tensor: &Tensor) -> i64 {
    match tensor.sparse_parts() {
        Some(SparseParts::Coo { .. }) => tensor.dim() as i64 - sparse_dim(tensor),
        Some(SparseParts::Compressed { compressed, .. }) => tensor.dim() as i64 - compressed.dim() as i64 - 1,
        None => tensor.dim() as i64,
    }
}

/// How many elements or blocks are stored, in each batch element.
///
/// # Errors
/// `InvalidArgument` for a strided tensor.
pub fn nnz(tensor: &Tensor) -> Result<i64> {
    match tensor.sparse_parts() {
        Some(SparseParts::Coo { indices, .. }) => Ok(indices.sizes().get(1).copied().unwrap_or_default()),
        Some(SparseParts::Compressed { plain, .. }) => Ok(plain.sizes().last().copied().unwrap_or_default()),
        None => bail!(
            InvalidArgument("_nnz"),
            "expected a sparse tensor but got one of layout {}",
            tensor.layout()
        ),
    }
}

/// Whether the coordinates are distinct and in ascending order.
///
/// # Errors
/// `InvalidArgument` for other layouts than `SparseCoo`.
pub fn is_coalesced(tensor: &Tensor) -> Result<bool> {
    Ok(Coo::of(tensor).map_err(|e| e.in_operator("is_coalesced"))?.is_coalesced)
}

/// Indices for a caller: the same elements, but whoever resizes the result leaves the sparse tensor as it is.
fn alias_of(indices: Tensor) -> Result<Tensor> {
    ops::detach(&indices)
}

/// The coordinates of a tensor of layout `SparseCoo`, whether it is coalesced or not.
///
/// # Errors
/// `InvalidArgument` for other layouts.
pub fn raw_indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(Coo::of(tensor).map_err(|e| e.in_operator("_indices"))?.indices)
}

/// The coordinates of a coalesced tensor.
///
/// # Errors
/// `InvalidArgument` for other layouts than `SparseCoo`, and for uncoalesced tensors.
pub fn indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(require_coalesced("indices", tensor)?.indices)
}

fn require_coalesced(name: &str, tensor: &Tensor) -> Result<Coo> {
    let coo = Coo::of(tensor).map_err(|e| e.in_operator(name))?;
    ensure!(
        coo.is_coalesced,
        InvalidArgument(name),
        "cannot get {name} on an uncoalesced tensor, please call .coalesce() first"
    );
    Ok(coo)
}

/// The values, whether the tensor is coalesced or not. They carry the history.
///
/// # Errors
/// `InvalidArgument` for strided tensors.
pub fn raw_values(tensor: &Tensor) -> Result<Tensor> {
    match tensor.sparse_parts() {
        Some(parts) => Ok(parts.values().clone()),
        None => {
            bail!(
                InvalidArgument("_values"),
                "expected a sparse tensor but got one of layout {}",
                tensor.layout()
            )
        }
    }
}

/// The values, which carry the history.
///
/// # Errors
/// `InvalidArgument` for strided tensors, and for uncoalesced ones.
pub fn values(tensor: &Tensor) -> Result<Tensor> {
    if tensor.layout() == Layout::SparseCoo {
        return Ok(require_coalesced("values", tensor)?.values);
    }
    raw_values(tensor).map_err(|e| e.in_operator("values"))
}

fn compressed_part(name: &str, tensor: &Tensor, by_rows: bool) -> Result<Compressed> {
    let layout = tensor.layout();
    ensure!(
        layout.is_sparse_compressed() && layout.has_compressed_rows() == by_rows,
        InvalidArgument(name),
        "expected a tensor with compressed {} but got one of layout {layout}",
        if by_rows { "rows" } else { "columns" }
    );
    Compressed::of(tensor)
}

/// Where each row starts, and the last one ends.
///
/// # Errors
/// `InvalidArgument` for other layouts than `SparseCsr` and `SparseBsr`.
pub fn crow_indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(compressed_part("crow_indices", tensor, true)?.compressed)
}

/// The column of each element or block.
///
/// # Errors
/// As [`crow_indices`].
pub fn col_indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(compressed_part("col_indices", tensor, true)?.plain)
}

/// Where each column starts, and the last one ends.
///
/// # Errors
/// `InvalidArgument` for other layouts than `SparseCsc` and `SparseBsc`.
pub fn ccol_indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(compressed_part("ccol_indices", tensor, false)?.compressed)
}

/// The row of each element or block.
///
/// # Errors
/// As [`ccol_indices`].
pub fn row_indices(tensor: &Tensor) -> Result<Tensor> {
    alias_of(compressed_part("row_indices", tensor, false)?.plain)
}
