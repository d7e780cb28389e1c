//! Records a graph of operators and walks it backwards.
//!
//! | module | holds |
//! |---|---|
//! | [`node`] | the graph: nodes, edges, and how they are dropped |
//! | `variable`, `accumulate_grad` | what hangs on a tensor, and the node of a leaf |
//! | [`saved_variable`] | tensors that a node keeps for its backward |
//! | [`engine`] | the walk: [`backward`] and [`grad`] |
//! | [`view`], `copy_slices` | views and in-place operators |
//! | [`forward`](mod@forward), [`functional`] | forward mode; Jacobians and Hessians by both modes |
//! | [`record`], `generated` | what recording kernels call, and the kernels |
//! | `checkpoint` | parts of a computation that run again instead of keeping tensors: [`checkpoint`] |
//! | [`grad_mode`], [`hooks`], [`anomaly`], [`function`] | the rest of the contract |
//! | [`profiler`] | what took how long, and how much memory |
//! | [`formulas`] | derivatives that are more than a line |
//! | [`gradcheck`](mod@gradcheck) | analytic against numeric |
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

mod accumulate_grad;
pub mod anomaly;
mod checkpoint;
mod copy_slices;
pub mod engine;
pub mod formulas;
pub mod forward;
pub mod function;
pub mod functional;
mod generated;
pub mod grad_mode;
pub mod gradcheck;
mod handle;
pub mod hooks;
pub mod node;
pub mod profiler;
pub mod record;
pub mod saved_variable;
mod spares;
mod spin_lock;
mod tensor;
mod variable;
pub mod view;

pub use anomaly::detect_anomaly;
pub use checkpoint::checkpoint;
pub use engine::{Context, backward, grad};
pub use function::{Function, apply};
pub use grad_mode::{
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled,
};
pub use gradcheck::{gradcheck, gradgradcheck};
pub use hooks::{HookHandle, saved_tensors_hooks};
pub use node::{Backward, Edge, Edges, Gradients, GraphNode, Node, NodePtr, live_nodes, new_node};
pub use saved_variable::{SavedVariable, Unpacked};
pub use tensor::{Autograd, NodeHandle};
