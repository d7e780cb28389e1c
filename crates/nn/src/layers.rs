//! The modules that models are made of.

mod activation;
mod attention;
mod convolution;
mod dropout;
mod embedding;
mod linear;
mod normalization;
mod pooling;
mod sequential;

pub use activation::*;
pub use attention::MultiHeadAttention;
pub use convolution::{Conv2d, Conv2dOptions};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::Linear;
pub use normalization::{BatchNorm2d, LayerNorm, RmsNorm};
pub use pooling::{AvgPool2d, MaxPool2d};
pub use sequential::Sequential;

use flambeau_autograd::Autograd;
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// An uninitialised tensor of the default type that requires a gradient.
fn parameter(sizes: &[i64]) -> Result<Tensor> {
    let tensor = Tensor::empty(sizes, flambeau_core::default_dtype())?;
    tensor.requires_grad_(true)?;
    Ok(tensor)
}

/// An argument that counts something.
fn check_positive(what: &str, value: i64) -> Result<()> {
    ensure!(value > 0, InvalidArgument, "expected {what} of at least 1 but got {value}");
    Ok(())
}
