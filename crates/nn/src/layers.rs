//! The modules that models are made of.

mod activation;
mod attention;
mod convolution;
mod dropout;
mod embedding;
mod linear;
mod loss;
mod normalization;
mod padding;
mod pooling;
mod recurrent;
mod sequential;
mod transformer;

pub use activation::*;
pub use attention::*;
pub use convolution::*;
pub use dropout::*;
pub use embedding::Embedding;
pub use linear::*;
pub use loss::*;
pub use normalization::*;
pub use padding::*;
pub use pooling::*;
pub use recurrent::*;
pub use sequential::Sequential;
pub use transformer::*;

use flambeau_autograd::Autograd;
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// An uninitialised tensor of the default type that requires a gradient.
fn parameter(sizes: &[i64]) -> Result<Tensor> {
    let tensor = Tensor::empty(sizes, flambeau_core::default_dtype())?;
    tensor.requires_grad_(true)?;
    Ok(tensor)
}

/// A parameter, if there is to be one.
fn parameter_if(present: bool, sizes: &[i64]) -> Result<Option<Tensor>> {
    present.then(|| parameter(sizes)).transpose()
}

/// An argument that counts something.
fn check_positive(what: &str, value: i64) -> Result<()> {
    ensure!(value > 0, InvalidArgument, "expected {what} of at least 1 but got {value}");
    Ok(())
}
