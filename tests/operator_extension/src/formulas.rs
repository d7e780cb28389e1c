//! The functions that `derivatives.yaml` declares under `helpers`.

use flambeau_core::{Result, Scalar};
use flambeau_ops::{Tensor, ops};

/// The derivative of the hyperbolic tangent: `1 - tanh(self)^2`.
pub fn tanh_slope(self_: &Tensor) -> Result<Tensor> {
    let square = ops::square(&ops::tanh(self_)?)?;
    ops::rsub_scalar(&square, Scalar::Int(1), Scalar::Int(1))
}
