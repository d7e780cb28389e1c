//! The graph: nodes that compute the gradients of an operator's inputs from those of its outputs, and the edges between them.
//!
//! | module | holds |
//! |---|---|
//! | [`gradients`] | lists of gradients, and the sizes, dtype and device that a gradient must have |
//! | [`hooks`] | functions of users, which are called with gradients and with tensors that are saved |
//! | `dual_level` | the dual levels of forward mode; saved variables keep the tangents of their level |
//! | [`node`] | nodes, edges, and what a node knows of the pass it runs in |
//! | [`operator`] | the node of an operator, `saved` the values that it keeps for the backward pass |
//! | `release`, `grad_accumulator_cache` | how nodes are dropped, and which references to leaves' nodes the next graph reuses |
//! | `live` | the number of nodes that exist |

pub(crate) mod dual_level;
pub(crate) mod grad_accumulator_cache;
pub mod gradients;
pub mod hooks;
pub(crate) mod live;
pub mod node;
pub mod operator;
pub(crate) mod release;
mod saved;
