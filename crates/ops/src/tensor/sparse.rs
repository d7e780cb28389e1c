//! The parts of sparse tensors: a few strided tensors of indices and values, kept with the sizes of the whole.

use super::Tensor;
use flambeau_core::tensor_impl::Parts;
use flambeau_core::{DispatchKey, Layout, Result, TensorImpl, bail, ensure};
use parking_lot::RwLock;

/// What a sparse tensor consists of. Gradients are those of the values, which carry the history.
#[derive(Clone, Debug)]
pub enum SparseParts {
    /// The layout `SparseCoo`.
    Coo {
        /// The indices in the sparse dimensions, int64 of `[sparse_dim, nnz]`.
        indices: Tensor,
        /// An element, or a strided tensor of the dense dimensions, for each column of `indices`.
        values: Tensor,
        /// Whether the columns of `indices` are distinct and in ascending order.
        is_coalesced: bool,
    },
    /// Compressed rows or columns, of elements or blocks.
    Compressed {
        /// Where each row (or column) starts among the plain indices, and where the last one ends: `[*batch, rows + 1]`.
        compressed: Tensor,
        /// The column (or row) of each element or block, ascending in each row: `[*batch, nnz]`.
        plain: Tensor,
        /// `[*batch, nnz, *block, *dense]`.
        values: Tensor,
    },
}

impl SparseParts {
    /// The values.
    pub fn values(&self) -> &Tensor {
        match self {
            SparseParts::Coo { values, .. } | SparseParts::Compressed { values, .. } => values,
        }
    }

    /// The same pattern with other values.
    pub fn with_values(&self, values: Tensor) -> SparseParts {
        let mut made = self.clone();
        match &mut made {
            SparseParts::Coo { values: old, .. } | SparseParts::Compressed { values: old, .. } => {
                *old = values
            }
        }
        made
    }

    /// All parts with their names, indices first.
    pub fn named(&self, layout: Layout) -> [(&'static str, &Tensor); 3] {
        match self {
            // An uncompressed tensor has one tensor of indices, which is listed twice to keep the arity.
            SparseParts::Coo { indices, values, .. } => {
                [("indices", indices), ("indices", indices), ("values", values)]
            }
            SparseParts::Compressed { compressed, plain, values } if layout.has_compressed_rows() => {
                [("crow_indices", compressed), ("col_indices", plain), ("values", values)]
            }
            SparseParts::Compressed { compressed, plain, values } => {
                [("ccol_indices", compressed), ("row_indices", plain), ("values", values)]
            }
        }
    }
}

/// The parts behind a lock, since in-place operators replace them.
struct Extension(RwLock<SparseParts>);

impl Tensor {
    /// A sparse tensor of these parts. Whether indices are in bounds and in order is for kernels to check, which they do, and for
    /// constructors such as `sparse_coo_tensor`.
    ///
    /// # Errors
    /// `Shape` and `Overflow` for impossible sizes; `InvalidArgument` where parts do not belong to the layout.
    pub fn from_sparse_parts(layout: Layout, sizes: &[i64], parts: SparseParts) -> Result<Tensor> {
        let key = match (&parts, layout) {
            (SparseParts::Coo { .. }, Layout::SparseCoo) => DispatchKey::Sparse,
            (SparseParts::Compressed { .. }, layout) if layout.is_sparse_compressed() => {
                DispatchKey::SparseCompressed
            }
            _ => bail!(InvalidArgument, "expected the parts of a tensor of layout {layout}"),
        };
        let values = parts.values();
        ensure!(
            values.layout() == Layout::Strided,
            InvalidArgument,
            "expected values of layout {} but got {}",
            Layout::Strided,
            values.layout()
        );
        let (device, dtype) = (values.device(), values.dtype());
        let elements = Box::new(Extension(RwLock::new(parts)));
        let parts = Parts { layout, device, dtype, sizes: sizes.into(), keys: key.into(), elements };
        TensorImpl::from_parts(parts).map(Tensor::from_impl)
    }

    /// The parts, if it is sparse. They share their elements with the tensor.
    #[inline]
    pub fn sparse_parts(&self) -> Option<SparseParts> {
        if self.layout() == Layout::Strided { None } else { self.extension_parts() }
    }

    #[cold]
    fn extension_parts(&self) -> Option<SparseParts> {
        self.impl_().extension()?.downcast_ref::<Extension>().map(|parts| parts.0.read().clone())
    }

    /// Gives a sparse tensor other parts, as in-place operators do.
    ///
    /// # Errors
    /// `InvalidArgument` for a tensor that is not sparse, and for values of another type or device.
    pub fn replace_sparse_parts(&self, parts: SparseParts) -> Result<()> {
        let Some(own) = self.impl_().extension().and_then(|parts| parts.downcast_ref::<Extension>()) else {
            bail!(InvalidArgument, "expected a sparse tensor but got one of layout {}", self.layout())
        };
        let is_coo = matches!(parts, SparseParts::Coo { .. });
        ensure!(
            parts.values().dtype() == self.dtype()
                && parts.values().device() == self.device()
                && is_coo == (self.layout() == Layout::SparseCoo),
            InvalidArgument,
            "expected parts of {} on {} for a tensor of layout {}",
            self.dtype(),
            self.device(),
            self.layout()
        );
        // Dropped outside the lock: its destructor may run code of the user.
        let before = std::mem::replace(&mut *own.0.write(), parts);
        drop(before);
        Ok(())
    }
}
