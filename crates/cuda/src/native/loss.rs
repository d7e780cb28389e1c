//! `_cross_entropy` and its derivative.

use super::{RowProgram, dense, dense_as, empty, name_of, reduction_of};
use crate::launch::{Arguments, address, guarded};
use flambeau_core::{DispatchKeySet, Result, ScalarType, ensure};
use flambeau_ops::native::nn::loss;
use flambeau_ops::ops::options::Reduction;
use flambeau_ops::{Tensor, ops, register};

register!(ops::_CROSS_ENTROPY, Cuda, cross_entropy);
register!(ops::_CROSS_ENTROPY_BACKWARD, Cuda, cross_entropy_backward);

const NAME: &str = "_cross_entropy";
const BACKWARD: &str = "_cross_entropy_backward";
const SOURCE: &str = include_str!("../kernels/cross_entropy.cu");

/// The operands, dense: scores, classes, weights.
struct Operands {
    scores: Tensor,
    classes: Tensor,
    weight: Option<Tensor>,
}

impl Operands {
    fn new(scores: &Tensor, target: &Tensor, weight: Option<&Tensor>) -> Result<Self> {
        let weight = weight.map(|weight| dense_as(weight, scores.dtype())).transpose()?;
        Ok(Operands { scores: dense(scores)?, classes: dense_as(target, ScalarType::I64)?, weight })
    }

    fn reads(&self) -> Vec<&Tensor> {
        [Some(&self.scores), Some(&self.classes), self.weight.as_ref()].into_iter().flatten().collect()
    }

    fn rows_and_length(&self) -> [i64; 2] {
        [self.scores.sizes()[0], self.scores.sizes()[1]]
    }

    fn weight_address(&self) -> u64 {
        self.weight.as_ref().map_or(0, address)
    }
}

fn cross_entropy(
    _: DispatchKeySet,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let (output, total, highest, logarithm) =
        loss::fused_cross_entropy_meta(self_, target, weight, reduction, ignore_index)?;
    let (max_score, log_sum) = (highest.allocate(NAME)?, logarithm.allocate(NAME)?);
    let operands = Operands::new(self_, target, weight)?;
    let [rows, length] = operands.rows_and_length();
    let (losses, shares) = (dense_like(&max_score)?, dense_like(&max_score)?);
    if rows > 0 {
        let program = RowProgram::new(NAME, name_of(NAME, self_.dtype())?, &[], length);
        guarded(NAME, &operands.reads(), &[&losses, &shares, &max_score, &log_sum], |gpu| {
            let function = gpu.function(&program.key, || program.source(SOURCE))?;
            let arguments =
                Arguments::new().int(rows).int(length).tensor(&operands.scores).tensor(&operands.classes);
            let arguments = arguments.word(operands.weight_address()).int(ignore_index).tensor(&losses);
            let arguments = arguments.tensor(&shares).tensor(&max_score).tensor(&log_sum);
            let arguments = arguments.word(gpu.faults.address).int(gpu.faults.number_of("cross_entropy"));
            gpu.launch(function, program.grid(rows), &arguments)
        })?;
    }
    let sum = |t: &Tensor| ops::sum_dim_intlist(t, None, false, None);
    let (total, output) = (total.allocate(NAME)?, output.allocate(NAME)?);
    let kind = reduction_of(NAME, reduction)?;
    let all = sum(&shares)?;
    match kind {
        Reduction::None => {
            ops::copy_(&output, &losses, false)?;
            ops::zero_(&total)?;
        }
        Reduction::Mean => ops::copy_(&output, &ops::div_tensor(&sum(&losses)?, &all)?, false)?,
        Reduction::Sum => ops::copy_(&output, &sum(&losses)?, false)?,
    }
    if kind != Reduction::None {
        ops::copy_(&total, &all, false)?;
    }
    Ok((output, total, max_score, log_sum))
}

fn dense_like(tensor: &Tensor) -> Result<Tensor> {
    empty(tensor.sizes(), tensor.dtype(), tensor.device())
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn cross_entropy_backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
    max_score: &Tensor,
    log_sum: &Tensor,
) -> Result<Tensor> {
    let spec = loss::fused_cross_entropy_backward_meta(
        grad_output,
        self_,
        target,
        weight,
        reduction,
        ignore_index,
        total_weight,
        max_score,
        log_sum,
    )?;
    let kind = reduction_of(NAME, reduction)?;
    let operands = Operands::new(self_, target, weight)?;
    let [rows, length] = operands.rows_and_length();
    let result = spec.allocate(BACKWARD)?;
    if result.numel() == 0 {
        return Ok(result);
    }
    let expected = if kind == Reduction::None { rows } else { 1 };
    ensure!(
        grad_output.numel() == expected,
        Shape(BACKWARD, "grad_output"),
        "expected {expected} gradients but got {}",
        grad_output.numel()
    );
    let (grad, total) = (dense_as(grad_output, self_.dtype())?, dense_as(total_weight, self_.dtype())?);
    let (max_score, log_sum) = (dense(max_score)?, dense(log_sum)?);
    let program = RowProgram::new(NAME, name_of(BACKWARD, self_.dtype())?, &["BACKWARD"], length);
    let mut reads = operands.reads();
    reads.extend([&grad, &total, &max_score, &log_sum]);
    guarded(BACKWARD, &reads, &[&result], |gpu| {
        let function = gpu.function(&program.key, || program.source(SOURCE))?;
        let arguments =
            Arguments::new().int(rows).int(length).tensor(&operands.scores).tensor(&operands.classes);
        let arguments = arguments.word(operands.weight_address()).int(ignore_index).tensor(&max_score);
        let arguments = arguments.tensor(&log_sum).tensor(&grad).int(i64::from(kind == Reduction::None));
        let arguments = arguments.word(if kind == Reduction::Mean { address(&total) } else { 0 });
        let arguments = arguments.tensor(&result).word(gpu.faults.address);
        let arguments = arguments.int(gpu.faults.number_of("cross_entropy"));
        gpu.launch(function, program.grid(rows), &arguments)
    })?;
    Ok(result)
}
