//! `_cross_entropy`, `nll_loss` and their derivatives.

use super::{RowProgram, computing_type, dense, dense_as, empty, name_of, reduction_of};
use crate::launch::{Arguments, address, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType, ensure};
use flambeau_ops::native::nn::loss;
use flambeau_ops::ops::options::Reduction;
use flambeau_ops::{Tensor, ops, register};

register!(ops::_CROSS_ENTROPY, Cuda, cross_entropy);
register!(ops::_CROSS_ENTROPY_BACKWARD, Cuda, cross_entropy_backward);
register!(ops::NLL_LOSS_FORWARD, Cuda, nll_loss_forward);
register!(ops::NLL_LOSS_BACKWARD, Cuda, nll_loss_backward);

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

/// The classes of samples, of which each is a row: the index of each class, 0 where it is ignored, and the weight of each sample.
struct Samples {
    rows: Tensor,
    classes: Tensor,
    weights: Tensor,
}

impl Samples {
    fn new(self_: &Tensor, target: &Tensor, weight: Option<&Tensor>, ignore_index: i64) -> Result<Self> {
        let wide = computing_type(self_.dtype());
        let count = target.numel();
        let classes_last = ops::movedim_int(&dense_as(self_, wide)?, self_.dim().min(2) as i64 - 1, -1)?;
        let rows = ops::reshape(&classes_last, &[count, classes_last.sizes()[self_.dim() - 1]])?;
        let target = ops::reshape(&dense_as(target, ScalarType::I64)?, &[count])?;
        let is_ignored = ops::eq_scalar(&target, Scalar::Int(ignore_index))?;
        let classes = ops::masked_fill_scalar(&target, &is_ignored, Scalar::Int(0))?;
        let each = match weight {
            Some(weight) => ops::index_select(&dense_as(weight, wide)?, 0, &classes)?,
            None => ops::ones(&[count], Some(wide), None, Some(rows.device()), None)?,
        };
        let weights = ops::masked_fill_scalar(&each, &is_ignored, Scalar::Int(0))?;
        Ok(Samples { rows, classes: ops::unsqueeze(&classes, 1)?, weights })
    }
}

fn nll_loss_forward(
    _: DispatchKeySet,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "nll_loss";
    let (output, total) = loss::nll_loss_forward_meta(self_, target, weight, reduction, ignore_index)?;
    let (output, total) = (output.allocate(NAME)?, total.allocate(NAME)?);
    let samples = Samples::new(self_, target, weight, ignore_index)?;
    let picked = ops::squeeze_dim(&ops::gather(&samples.rows, 1, &samples.classes, false)?, 1)?;
    // An ignored sample has no loss, whatever its score is.
    let is_counted = ops::ne_scalar(&samples.weights, Scalar::Int(0))?;
    let products = ops::neg(&ops::mul_tensor(&picked, &samples.weights)?)?;
    let losses =
        ops::where_self(&is_counted, &products, &ops::zeros_like(&products, None, None, None, None, None)?)?;
    let sum = |t: &Tensor| ops::sum_dim_intlist(t, None, false, None);
    match reduction_of(NAME, reduction)? {
        Reduction::None => {
            ops::copy_(&output, &ops::view(&losses, output.sizes())?, false)?;
            ops::zero_(&total)?;
            return Ok((output, total));
        }
        Reduction::Mean => {
            let mean = ops::div_tensor(&sum(&losses)?, &sum(&samples.weights)?)?;
            ops::copy_(&output, &mean, false)?;
        }
        Reduction::Sum => ops::copy_(&output, &sum(&losses)?, false)?,
    }
    ops::copy_(&total, &sum(&samples.weights)?, false)?;
    Ok((output, total))
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn nll_loss_backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    self_: &Tensor,
    target: &Tensor,
    weight: Option<&Tensor>,
    reduction: i64,
    ignore_index: i64,
    total_weight: &Tensor,
) -> Result<Tensor> {
    const NAME: &str = "nll_loss_backward";
    let spec = loss::nll_loss_backward_meta(
        grad_output,
        self_,
        target,
        weight,
        reduction,
        ignore_index,
        total_weight,
    )?;
    let result = spec.allocate(NAME)?;
    let kind = reduction_of(NAME, reduction)?;
    let samples = Samples::new(self_, target, weight, ignore_index)?;
    let count = samples.weights.numel();
    let expected = if kind == Reduction::None { count } else { 1 };
    ensure!(
        grad_output.numel() == expected,
        Shape(NAME, "grad_output"),
        "expected {expected} gradients but got {}",
        grad_output.numel()
    );
    let wide = samples.rows.dtype();
    let grad = ops::reshape(&dense_as(grad_output, wide)?, &[expected])?;
    let mut amounts = ops::mul_tensor(&grad, &samples.weights)?;
    if kind == Reduction::Mean {
        amounts = ops::div_tensor(&amounts, &dense_as(total_weight, wide)?)?;
    }
    // Ignored samples give 0 even if the total weight is 0.
    let is_zero = ops::eq_scalar(&samples.weights, Scalar::Int(0))?;
    let amounts = ops::neg(&ops::masked_fill_scalar(&amounts, &is_zero, Scalar::Int(0))?)?;
    let zeros = ops::zeros_like(&samples.rows, None, None, None, None, None)?;
    let scattered = ops::scatter_src(&zeros, 1, &samples.classes, &ops::unsqueeze(&amounts, 1)?)?;
    let dim = self_.dim().min(2) as i64 - 1;
    let classes_last = ops::movedim_int(&result, dim, -1)?;
    ops::copy_(&classes_last, &ops::view(&scattered, classes_last.sizes())?, false)?;
    Ok(result)
}
