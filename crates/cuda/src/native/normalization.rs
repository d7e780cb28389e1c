//! Layer normalization and its derivative.

use super::{RowProgram, computing_type, dense, dense_as, empty, name_of};
use crate::launch::{Arguments, Grid, ceil_div, guarded};
use flambeau_core::{DispatchKeySet, Result, ScalarType, ensure};
use flambeau_ops::{Tensor, ops, register};

register!(ops::NATIVE_LAYER_NORM, Cuda, native_layer_norm);
register!(ops::NATIVE_LAYER_NORM_BACKWARD, Cuda, native_layer_norm_backward);

const SOURCE: &str = include_str!("../kernels/layer_norm.cu");
/// Rows whose gradients of the parameters a thread sums.
const CHUNK: i64 = 64;

/// Rows and their length, after checking that the parameters have the shape of a row.
fn rows_of(
    name: &str,
    input: &Tensor,
    normalized_shape: &[i64],
    parameters: [Option<&Tensor>; 2],
) -> Result<(i64, i64)> {
    ensure!(
        !normalized_shape.is_empty() && input.sizes().ends_with(normalized_shape),
        Shape(name, "input"),
        "Given normalized_shape={normalized_shape:?}, expected input with shape [*, {normalized_shape:?}], but got \
         input of size {:?}",
        input.sizes()
    );
    for parameter in parameters.into_iter().flatten() {
        ensure!(
            parameter.sizes() == normalized_shape,
            Shape(name, "weight"),
            "expected parameters of sizes {normalized_shape:?} but got {:?}",
            parameter.sizes()
        );
    }
    ensure!(
        input.is_floating_point(),
        NotImplemented(name, "input"),
        "\"{name}\" not implemented for '{}'",
        input.dtype()
    );
    let length = normalized_shape.iter().product();
    Ok((if length == 0 { 0 } else { input.numel() / length }, length))
}

/// The type of the statistics that are returned, as on the host.
fn statistics_type(input: &Tensor, parameters: [Option<&Tensor>; 2]) -> ScalarType {
    let differs = parameters.into_iter().flatten().any(|parameter| parameter.dtype() != input.dtype());
    if differs { computing_type(input.dtype()) } else { input.dtype() }
}

fn statistics_sizes(input: &Tensor, normalized_shape: &[i64]) -> Vec<i64> {
    let outer = input.dim() - normalized_shape.len();
    let size = |d: usize| if d < outer { input.sizes()[d] } else { 1 };
    (0..input.dim()).map(size).collect()
}

fn parameter(tensor: Option<&Tensor>, dtype: ScalarType) -> Result<Option<Tensor>> {
    tensor.map(|tensor| dense_as(tensor, dtype)).transpose()
}

fn address(tensor: Option<&Tensor>) -> u64 {
    tensor.map_or(0, crate::launch::address)
}

fn native_layer_norm(
    _: DispatchKeySet,
    input: &Tensor,
    normalized_shape: &[i64],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "native_layer_norm";
    let (rows, length) = rows_of(NAME, input, normalized_shape, [weight, bias])?;
    let (kernel, saved) = (computing_type(input.dtype()), statistics_type(input, [weight, bias]));
    let out = empty(input.sizes(), input.dtype(), input.device())?;
    let sizes = statistics_sizes(input, normalized_shape);
    let statistic = || empty(&sizes, kernel, input.device());
    let (mean, rstd) = (statistic()?, statistic()?);
    if input.numel() == 0 {
        ops::zero_(&mean)?;
        ops::zero_(&rstd)?;
    } else {
        let (x, weight, bias) = (dense(input)?, parameter(weight, kernel)?, parameter(bias, kernel)?);
        let program = RowProgram::new("layer_norm", name_of(NAME, x.dtype())?, &[], length);
        let reads: Vec<&Tensor> = [Some(&x), weight.as_ref(), bias.as_ref()].into_iter().flatten().collect();
        guarded(NAME, &reads, &[&out, &mean, &rstd], |gpu| {
            let function = gpu.function(&program.key, || program.source(SOURCE))?;
            let arguments = Arguments::new().int(rows).int(length).tensor(&x).word(address(weight.as_ref()));
            let arguments = arguments.word(address(bias.as_ref())).tensor(&out).tensor(&mean).tensor(&rstd);
            gpu.launch(function, program.grid(rows), &arguments.double(eps))
        })?;
    }
    Ok((out, dense_as(&mean, saved)?, dense_as(&rstd, saved)?))
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn native_layer_norm_backward(
    _: DispatchKeySet,
    grad_out: &Tensor,
    input: &Tensor,
    normalized_shape: &[i64],
    mean: &Tensor,
    rstd: &Tensor,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "native_layer_norm_backward";
    let (rows, length) = rows_of(NAME, input, normalized_shape, [weight, bias])?;
    ensure!(
        grad_out.sizes() == input.sizes() && mean.numel() == rows && rstd.numel() == rows,
        Shape(NAME, "grad_out"),
        "expected `grad_out` of sizes {:?} and {rows} statistics but got {:?}, {} and {}",
        input.sizes(),
        grad_out.sizes(),
        mean.numel(),
        rstd.numel()
    );
    let kernel = computing_type(input.dtype());
    let (grad, x) = (dense_as(grad_out, input.dtype())?, dense(input)?);
    let (mean, rstd) = (dense_as(mean, kernel)?, dense_as(rstd, kernel)?);
    let statistics = [&grad, &x, &mean, &rstd];
    let grad_input = match output_mask[0] {
        true => of_input(NAME, statistics, parameter(weight, kernel)?.as_ref(), [rows, length])?,
        false => empty(&[0], input.dtype(), input.device())?,
    };
    let requested = [weight.filter(|_| output_mask[1]), bias.filter(|_| output_mask[2])];
    let [grad_weight, grad_bias] = of_parameters(NAME, statistics, requested, [rows, length])?;
    Ok((grad_input, grad_weight, grad_bias))
}

/// The gradient of the input.
fn of_input(
    name: &'static str,
    [grad, x, mean, rstd]: [&Tensor; 4],
    weight: Option<&Tensor>,
    [rows, length]: [i64; 2],
) -> Result<Tensor> {
    let result = empty(x.sizes(), x.dtype(), x.device())?;
    if result.numel() == 0 {
        return Ok(result);
    }
    let program = RowProgram::new("layer_norm", name_of(name, x.dtype())?, &["BACKWARD"], length);
    let reads: Vec<&Tensor> =
        [Some(grad), Some(x), Some(mean), Some(rstd), weight].into_iter().flatten().collect();
    guarded(name, &reads, &[&result], |gpu| {
        let function = gpu.function(&program.key, || program.source(SOURCE))?;
        let arguments = Arguments::new().int(rows).int(length).tensor(grad).tensor(x).word(address(weight));
        gpu.launch(function, program.grid(rows), &arguments.tensor(mean).tensor(rstd).tensor(&result))
    })?;
    Ok(result)
}

/// The gradients of those of weight and bias that are given: sums of chunks of rows, which are summed in their order.
fn of_parameters(
    name: &'static str,
    [grad, x, mean, rstd]: [&Tensor; 4],
    requested: [Option<&Tensor>; 2],
    [rows, length]: [i64; 2],
) -> Result<[Tensor; 2]> {
    let nothing = || empty(&[0], x.dtype(), x.device());
    if requested.iter().all(Option::is_none) {
        return Ok([nothing()?, nothing()?]);
    }
    // Few enough chunks for a grid.
    let chunk = CHUNK.max(ceil_div(rows, 32768));
    let chunks = ceil_div(rows, chunk);
    let sums = empty(&[chunks, 2, length], mean.dtype(), x.device())?;
    if sums.numel() > 0 {
        let program = RowProgram::new("layer_norm", name_of(name, x.dtype())?, &["PARAMETERS"], length);
        guarded(name, &[grad, x, mean, rstd], &[&sums], |gpu| {
            let function = gpu.function(&program.key, || program.source(SOURCE))?;
            let arguments = Arguments::new().int(rows).int(length).int(chunk).tensor(grad).tensor(x);
            let grid = Grid { blocks: [ceil_div(length, 256), chunks, 1], threads: 256 };
            gpu.launch(function, grid, &arguments.tensor(mean).tensor(rstd).tensor(&sums))
        })?;
    }
    let sums = ops::sum_dim_intlist(&sums, Some(&[0]), false, None)?;
    let gradient = |index: i64, requested: Option<&Tensor>| match requested {
        Some(parameter) => {
            let sum = ops::reshape(&ops::select_int(&sums, 0, index)?, parameter.sizes())?;
            ops::_to_copy(&sum, Some(parameter.dtype()), None, None, None, false, None)
        }
        None => nothing(),
    };
    Ok([gradient(0, requested[0])?, gradient(1, requested[1])?])
}
