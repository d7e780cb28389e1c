//! The modules that models are made of.

mod activation;
mod linear;
mod sequential;

pub use activation::*;
pub use linear::Linear;
pub use sequential::Sequential;

use flambeau_autograd::Autograd;
use flambeau_core::Result;
use flambeau_ops::Tensor;

/// A tensor of the default type that asks for a gradient; its values are whatever the memory held.
fn parameter(sizes: &[i64]) -> Result<Tensor> {
    let tensor = Tensor::empty(sizes, flambeau_core::default_dtype())?;
    tensor.requires_grad_(true)?;
    Ok(tensor)
}
