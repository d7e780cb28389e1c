//! The autograd metadata of tensors, and saved variables.
//!
//! | module | holds |
//! |---|---|
//! | `meta` | the metadata: history or gradient, and the base of a view |
//! | `accumulate_grad` | the node of a leaf |
//! | `view`, `as_strided` | views and their bases; the node of a view whose base was written in place |
//! | `layout_parts` | the values of sparse tensors, which stand for them |
//! | `history` | where the gradient of a tensor goes |
//! | `tangents` | the tangent of a tensor in forward mode |
//! | [`exclusive`] | what only a given tensor or node keeps alive, for garbage collectors of front ends |
//! | [`saved_variable`] | tensors that a node keeps for the backward pass |

pub(crate) mod accumulate_grad;
pub(crate) mod as_strided;
pub mod exclusive;
pub(crate) mod history;
pub(crate) mod layout_parts;
pub(crate) mod meta;
pub mod saved_variable;
pub(crate) mod tangents;
pub(crate) mod view;
