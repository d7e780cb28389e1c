//! Kernels that call other operators, below autograd.

use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// The third power of each element.
pub fn cube(self_: &Tensor) -> Result<Tensor> {
    ops::mul_tensor(&ops::mul_tensor(self_, self_)?, self_)
}

/// `tanh(self) * gate * factor`.
pub fn gated_tanh(self_: &Tensor, gate: &Tensor, factor: Scalar) -> Result<Tensor> {
    ops::mul_scalar(&ops::mul_tensor(&ops::tanh(self_)?, gate)?, factor)
}
