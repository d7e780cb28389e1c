//! Operators that compute any number of leading dimensions: the batch becomes the first one.

use crate::batch::Batch;
use crate::kinds::loops;
use crate::kinds::pointwise::any_format;
use flambeau_core::Result;
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let mut arguments = batch.with_tensors(|tensor| batch.full(tensor))?;
    arguments.iter_mut().for_each(any_format);
    batch.wrap_all(batch.call(&arguments)?)
}

/// Operators of matrices, whose leading dimensions broadcast: an operand with fewer of them gets sizes of 1 after the batch.
pub(crate) fn matrices(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let cores = cores(batch)?;
    let leading = |(tensor, core): (&Tensor, &usize)| tensor.dim().checked_sub(*core);
    let counts: Option<Vec<usize>> = batch.tensors().zip(&cores).map(leading).collect();
    // A matrix without enough dimensions: the operator itself says so.
    let Some(counts) = counts else { return loops::examples(batch) };
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut missing = counts.into_iter().map(|count| most - count);
    let mut arguments = Vec::with_capacity(batch.arguments.len());
    for argument in batch.arguments {
        arguments.push(match argument {
            Value::Tensor(tensor) => Value::Tensor(padded(batch, tensor, missing.next().unwrap_or(0))?),
            other => other.clone(),
        });
    }
    batch.wrap_all(batch.call(&arguments)?)
}

fn padded(batch: &Batch<'_>, tensor: &Tensor, missing: usize) -> Result<Tensor> {
    let full = batch.full(tensor)?;
    if missing == 0 {
        return Ok(full);
    }
    let mut sizes = batch.sizes(&vec![1; missing]);
    sizes.extend(tensor.sizes());
    ops::reshape(&full, &sizes)
}

/// For each tensor, how many of its last dimensions are those of one matrix or vector.
fn cores(batch: &Batch<'_>) -> Result<Vec<usize>> {
    let names = batch.operator.arguments()?;
    let matrix = batch.tensors().next().map(|tensor| tensor.sizes().to_vec()).unwrap_or_default();
    let may_be_vector = batch.operator.name() == "_linalg_solve_ex";
    let core = |(index, value): (usize, &Value)| {
        let Value::Tensor(tensor) = value else { return None };
        Some(match names.get(index).map_or("", |argument| argument.name.as_str()) {
            "pivots" | "LU_pivots" | "tau" | "input2" => 1,
            "atol" | "rtol" => 0,
            "B" if may_be_vector && is_vector(tensor, &matrix) => 1,
            _ => 2,
        })
    };
    Ok(batch.arguments.iter().enumerate().filter_map(core).collect())
}

/// Whether the right hand side of a system is a vector, by PyTorch's rule.
fn is_vector(b: &Tensor, matrix: &[i64]) -> bool {
    b.dim() == 1 || (b.dim() + 1 == matrix.len() && matrix.starts_with(b.sizes()))
}
