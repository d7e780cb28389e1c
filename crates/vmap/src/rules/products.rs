//! Matrix products: those of matrices with a batch are batched products.

use crate::batch::{Batch, one};
use flambeau_core::{Result, Scalar, bail, ensure};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// Errors unless the example of argument `index` has `rank` dimensions.
fn expect_rank(batch: &Batch<'_>, index: usize, rank: usize) -> Result<()> {
    let tensor = batch.tensor(index)?;
    ensure!(
        tensor.dim() == rank,
        Shape(batch.operator.name()),
        "expected argument {index} to have {rank} dimensions but got sizes {:?}",
        tensor.sizes()
    );
    Ok(())
}

/// Errors unless two sizes that a product sums over, or computes one by one, are equal.
fn expect_equal(batch: &Batch<'_>, first: &Tensor, second: &Tensor, dims: (usize, usize)) -> Result<()> {
    ensure!(
        first.sizes().get(dims.0) == second.sizes().get(dims.1),
        Shape(batch.operator.name()),
        "operands have sizes {:?} and {:?}, which do not fit",
        first.sizes(),
        second.sizes()
    );
    Ok(())
}

fn expect_type(batch: &Batch<'_>, first: &Tensor, second: &Tensor) -> Result<()> {
    ensure!(
        first.dtype() == second.dtype(),
        Dtype(batch.operator.name()),
        "expected operands of one type but got {} and {}",
        first.dtype(),
        second.dtype()
    );
    Ok(())
}

/// The product of the matrices in arguments `at` and `at + 1`, with the batch in front.
fn matrices(batch: &Batch<'_>, at: usize) -> Result<Tensor> {
    let (a, b) = (batch.tensor(at)?, batch.tensor(at + 1)?);
    expect_rank(batch, at, 2)?;
    expect_rank(batch, at + 1, 2)?;
    expect_equal(batch, a, b, (1, 0))?;
    expect_type(batch, a, b)?;
    ops::matmul(&batch.front(a)?.0, &batch.front(b)?.0)
}

/// The products of the matrices in arguments `at` and `at + 1`, with the batch in front.
fn batches(batch: &Batch<'_>, at: usize) -> Result<Tensor> {
    let (a, b) = (batch.tensor(at)?, batch.tensor(at + 1)?);
    expect_rank(batch, at, 3)?;
    expect_rank(batch, at + 1, 3)?;
    expect_equal(batch, a, b, (0, 0))?;
    expect_equal(batch, a, b, (2, 1))?;
    expect_type(batch, a, b)?;
    ops::matmul(&batch.front(a)?.0, &batch.front(b)?.0)
}

/// The product of a matrix and a vector, with the batch in front.
fn vector(batch: &Batch<'_>, at: usize) -> Result<Tensor> {
    let (a, x) = (batch.tensor(at)?, batch.tensor(at + 1)?);
    expect_rank(batch, at, 2)?;
    expect_rank(batch, at + 1, 1)?;
    expect_equal(batch, a, x, (1, 0))?;
    expect_type(batch, a, x)?;
    let column = ops::unsqueeze(&batch.front(x)?.0, -1)?;
    ops::squeeze_dim(&ops::matmul(&batch.front(a)?.0, &column)?, -1)
}

pub(super) fn mm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    Ok(one(batch.wrap(&matrices(batch, 0)?, 0)?))
}

pub(super) fn bmm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    Ok(one(batch.wrap(&batches(batch, 0)?, 0)?))
}

pub(super) fn mv(batch: &Batch<'_>) -> Result<Vec<Value>> {
    Ok(one(batch.wrap(&vector(batch, 0)?, 0)?))
}

/// `dot`, and `vdot`, which conjugates its first operand.
pub(super) fn dot(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (x, y) = (batch.tensor(0)?, batch.tensor(1)?);
    expect_rank(batch, 0, 1)?;
    expect_rank(batch, 1, 1)?;
    expect_equal(batch, x, y, (0, 0))?;
    expect_type(batch, x, y)?;
    let mut x = batch.front(x)?.0;
    if batch.operator.name() == "vdot" {
        x = ops::conj(&x)?;
    }
    let (row, column) = (ops::unsqueeze(&x, -2)?, ops::unsqueeze(&batch.front(y)?.0, -1)?);
    let product = ops::matmul(&row, &column)?;
    Ok(one(batch.wrap(&ops::reshape(&product, &[batch.size()])?, 0)?))
}

/// `beta * self + alpha * product`, where a `beta` of 0 ignores even a NaN in `self`.
fn added(batch: &Batch<'_>, product: &Tensor, rank: usize) -> Result<Vec<Value>> {
    let (beta, alpha) = (batch.scalar(3)?, batch.scalar(4)?);
    let addend = batch.tensor(0)?;
    let expanded = match product.dim() {
        dim if dim == rank => {
            ops::expand(&ops::unsqueeze(product, 0)?, &batch.sizes(product.sizes()), false)?
        }
        _ => product.clone(),
    };
    let product = &expanded;
    ensure!(
        addend.dim() <= rank,
        Shape(batch.operator.name()),
        "expected self to broadcast to a result of {rank} dimensions but got sizes {:?}",
        addend.sizes()
    );
    let scaled = if is(alpha, 1.0) { product.clone() } else { times(product, alpha)? };
    if is(beta, 0.0) {
        return Ok(one(batch.wrap(&scaled, 0)?));
    }
    expect_type(batch, addend, product)?;
    let addend = crate::kinds::pointwise::with_rank(batch, addend, rank)?;
    let addend = if is(beta, 1.0) { addend } else { times(&addend, beta)? };
    let sum = ops::add_tensor(&addend, &scaled, Scalar::Int(1))?;
    if sum.sizes() != product.sizes() {
        bail!(
            Shape(batch.operator.name()),
            "self does not broadcast to the sizes {:?} of the product",
            product.sizes()
        );
    }
    Ok(one(batch.wrap(&sum, 0)?))
}

fn is(scalar: Scalar, number: f64) -> bool {
    !scalar.is_complex() && scalar.to_f64() == number
}

/// The product with a number; one with a fraction does not change the type of integers.
fn times(tensor: &Tensor, factor: Scalar) -> Result<Tensor> {
    let factor = match factor {
        Scalar::Float(number) if !tensor.is_floating_point() && !tensor.is_complex() => {
            Scalar::Int(number as i64)
        }
        other => other,
    };
    ops::mul_scalar(tensor, factor)
}

pub(super) fn addmm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    added(batch, &matrices(batch, 1)?, 2)
}

pub(super) fn addmv(batch: &Batch<'_>) -> Result<Vec<Value>> {
    added(batch, &vector(batch, 1)?, 1)
}

pub(super) fn baddbmm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    added(batch, &batches(batch, 1)?, 3)
}

pub(super) fn addbmm(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let products = batches(batch, 1)?;
    added(batch, &ops::sum_dim_intlist(&products, Some(&[-3]), false, Some(products.dtype()))?, 2)
}

pub(super) fn addr(batch: &Batch<'_>) -> Result<Vec<Value>> {
    expect_rank(batch, 1, 1)?;
    expect_rank(batch, 2, 1)?;
    let (column, row) = (batch.front(batch.tensor(1)?)?.0, batch.front(batch.tensor(2)?)?.0);
    let product = ops::mul_tensor(&ops::unsqueeze(&column, -1)?, &ops::unsqueeze(&row, -2)?)?;
    added(batch, &product, 2)
}

/// `input @ weight.T + bias`.
pub(super) fn linear(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (input, weight, bias) = (batch.tensor(0)?, batch.tensor(1)?, batch.optional(2));
    let is_shared = !batch.is_batched(weight) && bias.is_none_or(|bias| !batch.is_batched(bias));
    if is_shared {
        let mut arguments = batch.arguments.to_vec();
        arguments[0] = Value::Tensor(batch.front(input)?.0);
        return batch.wrap_all(batch.call(&arguments)?);
    }
    let Some((features, leading)) = input.sizes().split_last() else {
        bail!(Shape(batch.operator.name()), "expected an input with a dimension of features but got none")
    };
    let rows: i64 = leading.iter().product();
    let x = ops::reshape(&batch.full(input)?, &batch.sizes(&[rows, *features]))?;
    let product = ops::matmul(&x, &ops::transpose_int(&batch.full(weight)?, -2, -1)?)?;
    let product = match bias {
        Some(bias) => {
            let bias = ops::unsqueeze(&batch.full(bias)?, 1)?;
            ops::add_tensor(&product, &bias, Scalar::Int(1))?
        }
        None => product,
    };
    let outputs = weight.sizes().first().copied().unwrap_or(1);
    let sizes: Vec<i64> = leading.iter().copied().chain([outputs]).collect();
    Ok(one(batch.wrap(&ops::reshape(&product, &batch.sizes(&sizes))?, 0)?))
}

/// `grad_output.T @ input`, summed over all leading dimensions.
pub(super) fn linear_weight_backward(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let rows = |index: usize| {
        let tensor = batch.tensor(index)?;
        let features = tensor.sizes().last().copied().unwrap_or(1);
        let count: i64 = tensor.sizes().iter().rev().skip(1).product();
        ops::reshape(&batch.full(tensor)?, &batch.sizes(&[count, features]))
    };
    let product = ops::matmul(&ops::transpose_int(&rows(0)?, -2, -1)?, &rows(1)?)?;
    Ok(one(batch.wrap(&product, 0)?))
}
