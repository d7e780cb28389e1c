//! Modules, optimisers, schedules, data loading and checkpoints.
//!
//! | module | holds |
//! |---|---|
//! | [`module`](mod@module), [`visit`] | what a model is, and how its tensors are found |
//! | [`layers`] | linear maps, convolutions, normalisation, recurrence, attention, activations |
//! | [`functional`] | layers and losses as functions, and their options |
//! | [`init`] | initialisation of parameters |
//! | [`optim`] | SGD, Adam, AdamW, RMSprop, Adagrad, clipping, schedules |
//! | [`data`] | data sets, samplers, the loader |
//! | [`serialization`] | safetensors files, checkpoints, files of `torch.save` |
//!
//! ```
//! use flambeau_autograd::Autograd;
//! use flambeau_nn::optim::{Optimizer, Sgd, SgdOptions};
//! use flambeau_nn::{Forward, Linear, Module};
//! use flambeau_ops::Tensor;
//!
//! let model = Linear::new(2, 1)?;
//! let mut optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(0.1))?;
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

// What `#[derive(Module)]` writes names this crate from outside, and so does its use in here.
extern crate self as flambeau_nn;

#[macro_use]
mod options;

pub mod data;
pub mod functional;
pub mod init;
pub mod layers;
pub mod module;
pub mod optim;
pub mod serialization;
pub mod visit;

pub use flambeau_derive::Module;
pub use layers::*;
pub use module::{Forward, KeyDifference, Loss, Module, StateDict};
pub use visit::{BufferField, Field, Kind, Training, Visitor, VisitorMut};
