//! What autograd keeps beside a tensor, and how a graph reaches it.
//!
//! | module | holds |
//! |---|---|
//! | `meta` | history or gradient, and whose view it is |
//! | `accumulate_grad` | the node of a leaf |
//! | `view`, `as_strided` | which memory a view looks at, and its node where another view was written |
//! | `history` | where the gradient of a tensor goes |
//! | `tangents` | what a tensor carries in forward mode |
//! | [`exclusive`] | what a tensor or a node alone keeps alive, for collectors of cycles |
//! | [`saved_variable`] | tensors that a node keeps for its backward |

pub(crate) mod accumulate_grad;
pub(crate) mod as_strided;
pub mod exclusive;
pub(crate) mod history;
pub(crate) mod meta;
pub mod saved_variable;
pub(crate) mod tangents;
pub(crate) mod view;
