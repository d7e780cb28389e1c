//! Reverse-mode and forward-mode automatic differentiation: records the operators that run as a graph, and traverses the graph
//! backwards to compute gradients.
//!
//! A module uses modules of the rows above it in this table, and none of its own row or below; `cargo xtask tidy` checks that.
//!
//! | layer | module | holds |
//! |---|---|---|
//! | 1 | `alias`, `factory`, `spin_lock` | tensors without history; a lock for a few words |
//! | | `batched` | tensors of `vmap`, whose history is that of the tensor below |
//! | | [`grad_mode`], [`anomaly`] | whether a thread records operators, and whether it records backtraces of the calls |
//! | 2 | [`graph`] | nodes, edges, hooks, and how nodes are dropped |
//! | 3 | [`variable`] | the autograd metadata of a tensor, views, tangents, and saved variables |
//! | 4 | [`engine`], [`record`] | the backward pass: [`backward`] and [`grad`]; what recording kernels call |
//! | 5 | `tensor` | methods on tensors and nodes: [`Autograd`] |
//! | 6 | [`formulas`] | derivative formulas that are too long for `derivatives.yaml` |
//! | 7 | [`forward`](mod@forward) | forward mode |
//! | 8 | `generated` | the recording kernels |
//! | | [`function`], [`functional`] | derivatives that users write; Jacobians and Hessians by both modes |
//! | | [`defined`] | operators that were defined at run time and have no derivative |
//! | | `checkpoint` | segments of a computation that are recomputed instead of saving tensors: [`checkpoint`] |
//! | | [`gradcheck`](mod@gradcheck), [`profiler`] | analytic against numerical gradients; times and memory of operators |
//!
//! # Differences from PyTorch's autograd
//!
//! - A node saves a tensor only if a formula that is needed uses its elements; sizes and strides are saved by themselves.
//! - A node saves aliases without history, so that no in-place operator can close a cycle between a tensor and a node that saved it
//!   ([`variable`]). A formula borrows saved values, and they are dropped after it, unless the graph is retained or the formula failed.
//! - A leaf owns its accumulator, which refers to the leaf weakly. A recorded call counts one reference for each leaf, and a leaf that
//!   nobody owns gets no gradient, which nobody could read.
//! - A leaf whose geometry changed (`t_`, `as_strided_`) has another accumulator in later graphs. Earlier graphs refuse it, since the
//!   change counts as a change of its version.
//! - A gradient is written in place, or stored by a leaf, only if nobody else owns it or its storage.
//! - Views inside formulas are not tracked while the pass is not recorded. Hooks and custom functions follow the ordinary rules.
//! - In inference mode, views of ordinary tensors are ordinary tensors. Writing to an inference tensor in place afterwards is an error
//!   only where it would be recorded, since the storage has the version counter.
//! - Anomaly mode, hooks on saved tensors and grad modes belong to a thread, and end with their guards.
//!
//! ```
//! use flambeau_autograd::Autograd;
//! use flambeau_ops::{Tensor, ops};
//! let x = Tensor::from_vec(vec![1.0f64, 2.0, 3.0], &[3])?;
//! x.requires_grad_(true)?;
//! let x2 = ops::mul_tensor(&x, &x)?;
//! ops::mm(&ops::view(&x2, &[1, 3])?, &Tensor::from([[1.0f64], [1.0], [1.0]]))?.backward()?;
//! assert!(x.grad().is_some());
//! # Ok::<(), flambeau_core::Error>(())
//! ```

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod alias;
pub mod anomaly;
mod batched;
mod checkpoint;
pub mod defined;
pub mod engine;
mod factory;
pub mod formulas;
pub mod forward;
pub mod function;
pub mod functional;
mod generated;
pub mod grad_mode;
pub mod gradcheck;
pub mod graph;
pub mod profiler;
pub mod record;
mod spin_lock;
mod tensor;
pub mod variable;

pub use anomaly::detect_anomaly;
pub use checkpoint::checkpoint;
pub use engine::{backward, grad};
pub use function::{Function, apply};
pub use grad_mode::{
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled,
};
pub use gradcheck::{gradcheck, gradgradcheck};
pub use graph::gradients::Gradients;
pub use graph::hooks::{HookHandle, saved_tensors_hooks};
pub use graph::live::live_nodes;
pub use graph::node::{Context, Edge, Edges, Node, NodePtr, new_node};
pub use graph::operator::{Backward, GraphNode};
pub use tensor::{Autograd, NodeHandle};
pub use variable::exclusive;
pub use variable::saved_variable::{SavedVariable, Unpacked};
