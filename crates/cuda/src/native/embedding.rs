//! `embedding` and the gradient of its table.

use super::{dense, dense_as, element_name_of, empty, number_name_of, program};
use crate::launch::{Arguments, Grid, ceil_div, guarded};
use flambeau_core::{DimVec, DispatchKeySet, Result, ScalarType, ensure};
use flambeau_ops::{Tensor, ops, register};

register!(ops::EMBEDDING, Cuda, embedding);
register!(ops::EMBEDDING_DENSE_BACKWARD, Cuda, embedding_dense_backward);

const SOURCE: &str = include_str!("../kernels/embedding.cu");

fn indices_of(name: &str, indices: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(indices.dtype(), ScalarType::I64 | ScalarType::I32),
        Dtype(name, "indices"),
        "expected indices of type int64 or int32 but got {}",
        indices.dtype()
    );
    dense_as(indices, ScalarType::I64)
}

fn embedding(
    _: DispatchKeySet,
    weight: &Tensor,
    indices: &Tensor,
    _padding_idx: i64,
    _scale_grad_by_freq: bool,
    sparse: bool,
) -> Result<Tensor> {
    const NAME: &str = "embedding";
    ensure!(!sparse, NotImplemented(NAME, "sparse"), "sparse gradients are not implemented");
    ensure!(weight.dim() == 2, Shape(NAME, "weight"), "'weight' must be 2-D but got {}-D", weight.dim());
    let list = indices_of(NAME, indices)?;
    let ([size, width], [row, column]) =
        ([weight.sizes()[0], weight.sizes()[1]], [weight.strides()[0], weight.strides()[1]]);
    let mut sizes = DimVec::from_slice(indices.sizes());
    sizes.push(width);
    let out = empty(&sizes, weight.dtype(), weight.device())?;
    if list.numel() == 0 {
        return Ok(out);
    }
    let dtype = element_name_of(NAME, weight.dtype())?;
    guarded(NAME, &[weight, &list], &[&out], |gpu| {
        let function = gpu.function(&format!("embedding {dtype}"), || {
            program(&format!("typedef {dtype} T;\n"), &[SOURCE])
        })?;
        let arguments =
            Arguments::new().int(width).int(size).int(row).int(column).tensor(weight).tensor(&list);
        let arguments = arguments.tensor(&out).word(gpu.faults.address).int(gpu.faults.number_of(NAME));
        gpu.launch(function, Grid { blocks: [list.numel(), 1, 1], threads: 256 }, &arguments)
    })?;
    Ok(out)
}

fn embedding_dense_backward(
    _: DispatchKeySet,
    grad_output: &Tensor,
    indices: &Tensor,
    num_weights: i64,
    padding_idx: i64,
    scale_grad_by_freq: bool,
) -> Result<Tensor> {
    const NAME: &str = "embedding_dense_backward";
    let width = grad_output.sizes().last().copied().unwrap_or(1);
    ensure!(
        indices.numel().checked_mul(width) == Some(grad_output.numel()),
        Shape(NAME, "grad_output"),
        "expected a row of grad_output for each index but got sizes {:?} for indices of sizes {:?}",
        grad_output.sizes(),
        indices.sizes()
    );
    let out = empty(&[num_weights, width], grad_output.dtype(), grad_output.device())?;
    if out.numel() == 0 {
        return Ok(out);
    }
    let (grad, list) = (dense(grad_output)?, indices_of(NAME, indices)?);
    let dtype = number_name_of(NAME, grad.dtype())?;
    guarded(NAME, &[&grad, &list], &[&out], |gpu| {
        let check =
            gpu.function("check_indices", || program("", &[include_str!("../kernels/check_indices.cu")]))?;
        let arguments = Arguments::new().int(list.numel()).int(num_weights).tensor(&list);
        let arguments = arguments.word(gpu.faults.address).int(gpu.faults.number_of(NAME));
        gpu.launch(check, Grid::of(list.numel(), 256), &arguments)?;
        let function = gpu.function(&format!("embedding backward {dtype}"), || {
            program(&format!("typedef {dtype} T;\n#define BACKWARD\n"), &[SOURCE])
        })?;
        let arguments = Arguments::new().int(list.numel()).int(width).int(padding_idx);
        let arguments = arguments.int(i64::from(scale_grad_by_freq)).tensor(&grad).tensor(&list).tensor(&out);
        let grid = Grid { blocks: [num_weights, ceil_div(width, 256), 1], threads: 256 };
        gpu.launch(function, grid, &arguments)
    })?;
    Ok(out)
}
