//! Sparse tensors: constructors, conversions between layouts, and the rules by which operators take them.
//!
//! A sparse tensor consists of strided tensors, its parts: indices and values ([`SparseParts`]). It has a dispatch key of its own, above
//! autograd. For this key the operators have rules, registered here at link time, that call operators on the parts. So derivatives are
//! those of the operators that rules call, and the history of a sparse tensor is that of its values. An operator without a rule is an
//! error; no rule makes a dense tensor of a sparse one silently.
//!
//! | module | holds |
//! |---|---|
//! | `dense` | operators on strided tensors, with the arguments that rules need |
//! | `parts` | the parts as rules use them, and the functions that return them |
//! | `convert` | conversions between layouts |
//! | `construct` | constructors, which check indices |
//! | `csr` | matrices in compressed rows, for products |
//! | `rules` | the rules of operators |
//! | `functions` | operators that only sparse tensors have |

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod construct;
mod convert;
mod csr;
mod dense;
mod functions;
mod parts;
mod rules;

pub use construct::{
    sparse_bsc_tensor, sparse_bsr_tensor, sparse_compressed_tensor, sparse_coo_empty, sparse_coo_tensor,
    sparse_csc_tensor, sparse_csr_tensor, validate,
};
pub use convert::{coalesce, sparse_mask, to_dense, to_sparse, to_sparse_coo};
pub use flambeau_ops::tensor::sparse::SparseParts;
pub use functions::{
    Reduction, log_softmax, mm_reduce, sampled_addmm, softmax, sparse_resize_, spdiags, sum, sum_dim,
};
pub use parts::{
    ccol_indices, col_indices, crow_indices, dense_dim, indices, is_coalesced, nnz, raw_indices, raw_values,
    row_indices, sparse_dim, values,
};
