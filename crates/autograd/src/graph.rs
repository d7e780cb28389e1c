//! The graph: nodes that turn the gradients of an operator's outputs into those of its inputs, and the edges between them.
//!
//! | module | holds |
//! |---|---|
//! | [`gradients`] | gradients on their way, and what they must fit |
//! | [`hooks`] | functions of users, on gradients and on what is saved |
//! | `dual_level` | the levels of forward mode, whose tangents go along with what is saved |
//! | [`node`] | nodes, edges, and what a node knows of the pass it runs in |
//! | [`operator`] | the node of an operator, `saved` the values that it keeps |
//! | `release`, `spares` | how nodes are dropped, and which owners of them are kept for the next graph |
//! | `live` | how many there are |

pub(crate) mod dual_level;
pub mod gradients;
pub mod hooks;
pub(crate) mod live;
pub mod node;
pub mod operator;
pub(crate) mod release;
mod saved;
pub(crate) mod spares;
