//! The parts of sparse tensors: a few strided tensors of indices and values, kept with the sizes of the whole.

use super::Tensor;
use crate::ops;
use flambeau_core::tensor_impl::Parts;
use flambeau_core::{DispatchKey, Layout, Result, TensorImpl, bail, ensure, shape};
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

    /// The indices, of compressed layouts the plain ones.
    fn indices(&self) -> &Tensor {
        match self {
            SparseParts::Coo { indices, .. } => indices,
            SparseParts::Compressed { plain, .. } => plain,
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

    /// Whether both have the same indices in the same order, and values of the same sizes, so that values correspond by position.
    ///
    /// # Errors
    /// Those of comparing indices.
    pub fn has_pattern_of(&self, other: &SparseParts) -> Result<bool> {
        if self.values().sizes() != other.values().sizes() {
            return Ok(false);
        }
        match (self, other) {
            (SparseParts::Coo { indices: a, .. }, SparseParts::Coo { indices: b, .. }) => same_indices(a, b),
            (
                SparseParts::Compressed { compressed, plain, .. },
                SparseParts::Compressed { compressed: others, plain: other_plain, .. },
            ) => Ok(same_indices(compressed, others)? && same_indices(plain, other_plain)?),
            _ => Ok(false),
        }
    }

    /// Requires numbers of dimensions that a tensor with `dims` dimensions can have, which kernels take for granted.
    fn check_ranks(&self, dims: usize) -> Result<()> {
        let fits = match self {
            SparseParts::Coo { indices, values, .. } => {
                indices.dim() == 2 && values.dim() >= 1 && indices.sizes()[0] <= dims as i64
            }
            SparseParts::Compressed { compressed, plain, values } => {
                let batch_and_one = compressed.dim();
                batch_and_one >= 1
                    && plain.dim() == batch_and_one
                    && values.dim() >= batch_and_one
                    && dims > batch_and_one
            }
        };
        ensure!(
            fits,
            Shape("sparse tensor", "indices"),
            "expected indices and values of a sparse tensor with {dims} dimensions but got sizes {:?} and {:?}",
            self.indices().sizes(),
            self.values().sizes()
        );
        Ok(())
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

/// Whether two tensors of indices are the same or equal. Those on two devices count as different.
fn same_indices(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.is_same(b) {
        return Ok(true);
    }
    if a.sizes() != b.sizes() || a.device() != b.device() {
        return Ok(false);
    }
    ops::equal(a, &ops::to_dtype(b, a.dtype(), false, false, None)?)
}

/// What another crate makes of the new values of a sparse tensor before they replace the old ones, or why it refuses:
/// `inventory::submit!(Replacement(check));`. The function takes the old and the new values.
pub struct Replacement(pub fn(&Tensor, Tensor) -> Result<Tensor>);

inventory::collect!(Replacement);

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
        parts.check_ranks(sizes.len())?;
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

    /// Whether in-place operators on a sparse tensor write what nobody else can reach: its values belong to it alone, and no two of them
    /// share memory. True for strided tensors, which have no parts.
    #[inline]
    pub fn owns_sparse_values(&self) -> bool {
        self.layout() == Layout::Strided || self.owns_extension_values()
    }

    #[cold]
    fn owns_extension_values(&self) -> bool {
        let Some(own) = self.impl_().extension().and_then(|parts| parts.downcast_ref::<Extension>()) else {
            return false;
        };
        let parts = own.0.read();
        let values = parts.values();
        values.is_sole_owner() && shape::is_non_overlapping_and_dense(values.sizes(), values.strides())
    }

    /// Parts that an in-place operator may give a sparse tensor: their values require a gradient if it is a leaf that does.
    ///
    /// # Errors
    /// `Autograd` for a leaf that requires a gradient while operators are recorded.
    pub fn replacement_parts(&self, parts: SparseParts) -> Result<SparseParts> {
        let Some(own) = self.sparse_parts() else { return Ok(parts) };
        let values = inventory::iter::<Replacement>
            .into_iter()
            .try_fold(parts.values().clone(), |values, other| other.0(own.values(), values))?;
        Ok(parts.with_values(values))
    }

    /// Writes parts into a sparse tensor, as in-place operators do. Where the pattern stays, values are written in place, so that all
    /// tensors which share them see it, and versions and the history are those of strided tensors.
    ///
    /// # Errors
    /// Those of `copy_`, of [`replacement_parts`](Self::replacement_parts) and of
    /// [`replace_sparse_parts`](Self::replace_sparse_parts).
    pub fn write_sparse_parts(&self, parts: SparseParts) -> Result<()> {
        match self.sparse_parts() {
            Some(own) if own.has_pattern_of(&parts)? => ops::copy_(own.values(), parts.values(), false),
            _ => self.replace_sparse_parts(self.replacement_parts(parts)?),
        }
    }

    /// Gives a sparse tensor other parts, whatever its history.
    ///
    /// # Errors
    /// `Shape` for parts with other numbers of dimensions, `InvalidArgument` for a tensor that is not sparse, and for values of another type or device.
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
        parts.check_ranks(self.dim())?;
        // Dropped outside the lock: its destructor may run code of the user.
        let before = std::mem::replace(&mut *own.0.write(), parts);
        drop(before);
        Ok(())
    }
}
