//! Modules, optimisers, schedules, data loading and checkpoints.
//!
//! | module | holds |
//! |---|---|
//! | [`module`](mod@module), [`visit`] | what a model is, and how its tensors are found |
//! | [`layers`] | linear maps, convolutions, normalisation, attention, activations |
//! | [`init`] | initialisation of parameters |
//! | [`optim`] | SGD, Adam, AdamW, clipping, schedules |
//! | [`data`] | data sets, samplers, the loader |
//! | [`serialization`] | safetensors files, checkpoints, files of `torch.save` |
//!
//! ```
//! use flambeau_autograd::Autograd;
//! use flambeau_nn::optim::{Optimizer, Sgd, SgdOptions};
//! use flambeau_nn::{Linear, Module};
//! use flambeau_ops::Tensor;
//!
//! let model = Linear::new(2, 1)?;
//! let mut optimizer = Sgd::new(model.parameters(), SgdOptions { lr: 0.1, ..Default::default() })?;
//! let (x, y) = (Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]), Tensor::from([[1.0f32], [2.0]]));
//! for _ in 0..3 {
//!     optimizer.zero_grad()?;
//!     let error = model.forward(&x)?.sub(&y)?;
//!     error.mul(&error)?.sum()?.backward()?;
//!     optimizer.step()?;
//! }
//! # Ok::<(), flambeau_core::Error>(())
//! ```

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub mod data;
pub mod init;
pub mod layers;
pub mod module;
pub mod optim;
pub mod serialization;
pub mod visit;

pub use layers::*;
pub use module::{KeyDifference, Module, StateDict};
pub use visit::{Buffer, Field, Kind, Training, Visitor, VisitorMut};
