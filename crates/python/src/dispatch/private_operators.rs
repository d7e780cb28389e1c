//! Operators that PyTorch does not have, for classes and modes taken apart into those that it has.

use super::below_autograd;
use flambeau_core::{DispatchKey, Result, Scalar, bail};
use flambeau_ops::dispatch::{BoxedKernel, BoxedRegistration, Call, Value, inventory};
use flambeau_ops::{Tensor, ops};

/// `_linear(input, weight, bias)` as `t` and `addmm` or `matmul`, as PyTorch does `linear`.
struct Linear;

inventory::submit!(BoxedRegistration::new(&ops::_LINEAR, DispatchKey::Python, &Linear));

impl BoxedKernel for Linear {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let [Value::Tensor(input), Value::Tensor(weight), bias] = call.arguments else {
            bail!(InvalidArgument(call.operator.name()), "expected an input, a weight and a bias")
        };
        let _below = below_autograd();
        let transposed = ops::t(weight)?;
        let product = match bias {
            Value::Tensor(bias) if input.dim() == 2 => {
                ops::addmm(bias, input, &transposed, Scalar::Int(1), Scalar::Int(1))?
            }
            Value::Tensor(bias) => ops::add_tensor(&ops::matmul(input, &transposed)?, bias, Scalar::Int(1))?,
            _ => ops::matmul(input, &transposed)?,
        };
        Ok(vec![product.into()])
    }
}

/// `_linear_weight_backward(grad_output, input)`: the product of both as matrices.
struct LinearWeightBackward;

inventory::submit!(BoxedRegistration::new(
    &ops::_LINEAR_WEIGHT_BACKWARD,
    DispatchKey::Python,
    &LinearWeightBackward
));

impl BoxedKernel for LinearWeightBackward {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let [Value::Tensor(grad), Value::Tensor(input)] = call.arguments else {
            bail!(InvalidArgument(call.operator.name()), "expected a gradient and an input")
        };
        let _below = below_autograd();
        Ok(vec![ops::mm(&ops::t(&matrix(grad)?)?, &matrix(input)?)?.into()])
    }
}

/// A tensor of any rank as the matrix of its rows.
fn matrix(tensor: &Tensor) -> Result<Tensor> {
    let columns = tensor.sizes().last().copied().unwrap_or(1);
    let rows = tensor.numel() / columns.max(1);
    if tensor.dim() == 2 { Ok(tensor.clone()) } else { ops::reshape(tensor, &[rows, columns]) }
}
