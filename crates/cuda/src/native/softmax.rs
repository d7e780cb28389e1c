//! `_softmax`, `_log_softmax` and their derivatives.

use super::{RowProgram, dense, name_of, structured};
use crate::launch::{Arguments, guarded};
use flambeau_core::{Result, ScalarType};
use flambeau_ops::native::reduce::softmax;
use flambeau_ops::{Tensor, ops};

structured! {
    _SOFTMAX _SOFTMAX_OUT "softmax" softmax::softmax_kernel_meta, forward:
        (self_: &Tensor, dim: i64, half_to_float: bool) reads [self_];
    _LOG_SOFTMAX _LOG_SOFTMAX_OUT "log_softmax" softmax::log_softmax_kernel_meta, log_forward:
        (self_: &Tensor, dim: i64, half_to_float: bool) reads [self_];
    _SOFTMAX_BACKWARD_DATA _SOFTMAX_BACKWARD_DATA_OUT "softmax_backward" softmax::softmax_backward_meta, backward:
        (grad_output: &Tensor, output: &Tensor, dim: i64, input_dtype: flambeau_core::ScalarType) reads [grad_output, output];
    _LOG_SOFTMAX_BACKWARD_DATA _LOG_SOFTMAX_BACKWARD_DATA_OUT "log_softmax_backward" softmax::log_softmax_backward_meta,
        log_backward: (grad_output: &Tensor, output: &Tensor, dim: i64, input_dtype: flambeau_core::ScalarType)
        reads [grad_output, output];
}

fn forward(self_: &Tensor, dim: i64, _: bool, out: &Tensor) -> Result<()> {
    run("softmax", &[self_], dim, out, &["LOGARITHM false"])
}

fn log_forward(self_: &Tensor, dim: i64, _: bool, out: &Tensor) -> Result<()> {
    run("log_softmax", &[self_], dim, out, &["LOGARITHM true"])
}

fn backward(grad: &Tensor, output: &Tensor, dim: i64, _: ScalarType, out: &Tensor) -> Result<()> {
    run("softmax_backward", &[grad, output], dim, out, &["LOGARITHM false", "BACKWARD"])
}

fn log_backward(grad: &Tensor, output: &Tensor, dim: i64, _: ScalarType, out: &Tensor) -> Result<()> {
    run("log_softmax_backward", &[grad, output], dim, out, &["LOGARITHM true", "BACKWARD"])
}

fn run(name: &'static str, inputs: &[&Tensor], dim: i64, out: &Tensor, flags: &[&str]) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let inputs: Vec<Tensor> = inputs.iter().map(|input| dense(input)).collect::<Result<_>>()?;
    let result = if out.is_contiguous() { out.clone() } else { dense(out)? };
    let sizes = result.sizes();
    let d = if dim < 0 { dim + sizes.len() as i64 } else { dim } as usize;
    let length = sizes.get(d).copied().unwrap_or(1);
    let inner: i64 = sizes.iter().skip(d + 1).product();
    let rows = result.numel() / length;
    let program = RowProgram::new("softmax", name_of(name, result.dtype())?, flags, length);
    let reads: Vec<&Tensor> = inputs.iter().collect();
    guarded(name, &reads, &[&result], |gpu| {
        let function =
            gpu.function(&program.key, || program.source(include_str!("../kernels/softmax.cu")))?;
        let arguments = Arguments::new().int(rows).int(length).int(inner);
        let arguments = inputs.iter().fold(arguments, |arguments, input| arguments.tensor(input));
        gpu.launch(function, program.grid(rows), &arguments.tensor(&result))
    })?;
    if out.is_contiguous() { Ok(()) } else { ops::copy_(out, &result, false) }
}
