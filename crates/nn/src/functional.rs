//! Layers and losses as functions: names and defaults are those of PyTorch's `torch.nn.functional`.
//!
//! What a function cannot do without is an argument; the rest are options with defaults, set by name:
//!
//! ```
//! use flambeau_nn::functional::{self, CrossEntropy, Reduction};
//! use flambeau_ops::Tensor;
//! let (logits, targets) = (Tensor::from([[2.0f64, 0.0], [0.0, 1.0]]), Tensor::from([0i64, 1]));
//! let mean = functional::cross_entropy(&logits, &targets, CrossEntropy::default())?;
//! let smooth = CrossEntropy::default().label_smoothing(0.1).reduction(Reduction::Sum);
//! let sum = functional::cross_entropy(&logits, &targets, smooth)?;
//! assert!(sum.item::<f64>()? > 2.0 * mean.item::<f64>()?);
//! # Ok::<(), flambeau_core::Error>(())
//! ```
//!
//! The options of a loss or of an activation are a [`Module`](crate::Module) too: [`CrossEntropy`] is PyTorch's
//! `CrossEntropyLoss`, under which name the crate exports it.

mod activation;
mod attention;
mod convolution;
mod distance;
mod dropout;
mod embedding;
mod loss;
mod normalization;
mod padding;
mod pooling;
mod resampling;

pub(crate) use convolution::{around, conv, conv_transpose};
pub(crate) use dropout::check_probability;
pub(crate) use embedding::padding_row;
pub(crate) use pooling::{adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool};

pub use crate::options::Size;
pub use activation::*;
pub use attention::*;
pub use convolution::*;
pub use distance::*;
pub use dropout::*;
pub use embedding::*;
pub use loss::*;
pub use normalization::*;
pub use padding::*;
pub use pooling::*;
pub use resampling::*;
