//! Operators that PyTorch does not have or does not call: classes and modes see those that it calls instead.

use super::below_autograd;
use flambeau_core::{DispatchKey, Result, Scalar, bail};
use flambeau_ops::dispatch::{BoxedKernel, BoxedRegistration, Call, OperatorInfo, Value, inventory};
use flambeau_ops::{Tensor, ops};

/// `x + 2`, which PyTorch calls `add.Tensor` with a number for a tensor.
struct NumberAsTensor(&'static dyn OperatorInfo);

impl BoxedKernel for NumberAsTensor {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let mut arguments = call.arguments.to_vec();
        if let Some(Value::Scalar(number)) = arguments.get(1) {
            arguments[1] = Tensor::wrapped_number(*number)?.into();
        }
        let _below = below_autograd();
        self.0.call_boxed(&arguments)
    }
}

macro_rules! numbers_as_tensors {
    ($($number:ident => $tensor:ident,)*) => {$(
        inventory::submit!(BoxedRegistration::new(&ops::$number, DispatchKey::Python, &NumberAsTensor(&ops::$tensor)));
    )*};
}

numbers_as_tensors! {
    ADD_SCALAR => ADD_TENSOR,
    ADD__SCALAR => ADD__TENSOR,
    SUB_SCALAR => SUB_TENSOR,
    SUB__SCALAR => SUB__TENSOR,
    MUL_SCALAR => MUL_TENSOR,
    MUL__SCALAR => MUL__TENSOR,
    DIV_SCALAR => DIV_TENSOR,
    DIV__SCALAR => DIV__TENSOR,
}

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
