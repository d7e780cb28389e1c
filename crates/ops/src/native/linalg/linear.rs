//! `matmul` for operands of every rank, `linear`, `bilinear`, `outer`, `addr` and `addbmm`, composed of matrix products.

mod fused;

pub use fused::*;

use crate::dispatch::DispatchKey;
use crate::native::reduce::sum_prod_any::as_dtype;
use crate::native::shape::view;
use crate::tensor_iterator::result_type;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, ensure, shape};

const ONE: Scalar = Scalar::Int(1);

/// The product of vectors, matrices and batches of them, by the rules of `torch.matmul` for their ranks.
pub fn matmul(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (a, b) = (self_.dim(), other.dim());
    ensure!(
        a > 0 && b > 0,
        Shape,
        operator = "matmul",
        argument = "self",
        "both arguments to matmul need to be at least 1D, but they are {a}D and {b}D"
    );
    match (a, b) {
        (1, 1) => ops::dot(self_, other),
        (2, 1) => ops::mv(self_, other),
        (1, 2) => {
            let product = ops::mm(&ops::view(self_, &[1, self_.sizes()[0]])?, other)?;
            ops::view(&product, &[other.sizes()[1]])
        }
        (2, 2) => ops::mm(self_, other),
        _ if b <= 2 && can_fold(self_, other) => folded(self_, other),
        _ => batched(self_, other),
    }
}

/// Whether to treat all rows of `tensor` as one matrix: if that takes no copy, or if a batched product would expand `other`,
/// whose gradient would then have to be summed over the batch.
fn can_fold(tensor: &Tensor, other: &Tensor) -> bool {
    let rows = [tensor.numel() / last(tensor).max(1), last(tensor)];
    tensor.numel() == 0
        || other.key_set().has(DispatchKey::Autograd)
        || shape::view_strides(tensor.sizes(), tensor.strides(), &rows).is_some()
}

fn last(tensor: &Tensor) -> i64 {
    tensor.sizes().last().copied().unwrap_or(1)
}

/// The product of all rows of `self_`, as one matrix, with a matrix or vector.
fn folded(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let mut sizes = DimVec::from_slice(self_.sizes());
    sizes.pop();
    let matrix = view::reshape(self_, &[shape::numel(&sizes)?, last(self_)])?;
    if other.dim() == 1 {
        return ops::view(&ops::mv(&matrix, other)?, &sizes);
    }
    sizes.push(last(other));
    ops::view(&ops::mm(&matrix, other)?, &sizes)
}

/// A batched product over the broadcast batch dimensions; a vector is a row on the left, a column on the right.
fn batched(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    let (a, b) = (matrix_sizes(self_, true), matrix_sizes(other, false));
    let batch =
        shape::broadcast(batch_sizes(self_), batch_sizes(other)).map_err(|e| e.in_operator("matmul"))?;
    let product = ops::bmm(&as_batch(self_, &batch, a)?, &as_batch(other, &batch, b)?)?;
    let mut sizes = batch;
    if self_.dim() > 1 {
        sizes.push(a[0]);
    }
    if other.dim() > 1 {
        sizes.push(b[1]);
    }
    ops::view(&product, &sizes)
}

fn batch_sizes(tensor: &Tensor) -> &[i64] {
    &tensor.sizes()[..tensor.dim().saturating_sub(2)]
}

fn matrix_sizes(tensor: &Tensor, row: bool) -> [i64; 2] {
    match *tensor.sizes() {
        [length] if row => [1, length],
        [length] => [length, 1],
        [.., rows, columns] => [rows, columns],
        [] => [1, 1],
    }
}

/// The matrices of `tensor`, expanded to the batch dimensions `batch`, which are merged to one.
fn as_batch(tensor: &Tensor, batch: &[i64], matrix: [i64; 2]) -> Result<Tensor> {
    let with = |batch: &[i64]| batch.iter().chain(&matrix).copied().collect::<DimVec>();
    let matrices = ops::view(tensor, &with(batch_sizes(tensor)))?;
    let expanded = ops::expand(&matrices, &with(batch), false)?;
    view::reshape(&expanded, &with(&[shape::numel(batch)?]))
}

/// `input weight^T + bias`.
pub fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    ensure!(
        input.dim() > 0 && weight.dim() > 0,
        Shape,
        operator = "linear",
        argument = "input",
        "both arguments to linear need to be at least 1D, but they are {}D and {}D",
        input.dim(),
        weight.dim()
    );
    if fused::can_fuse(input, weight, bias) {
        return ops::_linear(input, weight, bias);
    }
    let transposed = ops::t(weight)?;
    let Some(bias) = bias else { return ops::matmul(input, &transposed) };
    if input.dim() == 2 {
        return ops::addmm(bias, input, &transposed, ONE, ONE);
    }
    ops::add_tensor(&ops::matmul(input, &transposed)?, bias, ONE)
}

/// `sum over i and j of input1[i] weight[o, i, j] input2[j]`, and `bias`.
pub fn bilinear(input1: &Tensor, input2: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    const NAME: &str = "bilinear()";
    for (argument, tensor) in [("input2", Some(input2)), ("weight", Some(weight)), ("bias", bias)] {
        ensure!(
            tensor.is_none_or(|tensor| tensor.dtype() == input1.dtype()),
            Dtype(NAME, argument),
            expected = input1.dtype(),
            got = tensor.map_or(input1.dtype(), Tensor::dtype),
            "All tensors must have the same dtype, but input1 has {expected} and {argument} has {got}"
        );
    }
    let (batch, other) = (input1.dim(), input2.dim());
    ensure!(batch == other, Shape(NAME, "input2"), "input dimensions do not match: got {batch} and {other}");
    ensure!(
        batch > 0 && input1.sizes()[..batch - 1] == input2.sizes()[..batch - 1],
        Shape(NAME, "input2"),
        "input batch dimensions do not match: got {:?} and {:?}",
        input1.sizes(),
        input2.sizes()
    );
    ensure!(
        weight.dim() == 3 && weight.sizes()[1] == last(input1) && weight.sizes()[2] == last(input2),
        Shape(NAME, "weight"),
        "input sizes {} and {} do not match weight size: got {:?}",
        last(input1),
        last(input2),
        weight.sizes()
    );
    ensure!(
        bias.is_none_or(|bias| bias.sizes() == &weight.sizes()[..1]),
        Shape(NAME, "bias"),
        "bias size does not match weight size: got {:?} but expected {}",
        bias.map(Tensor::sizes),
        weight.sizes()[0]
    );
    let [out, left, right] = [0, 1, 2].map(|d| weight.sizes()[d]);
    let rows = shape::numel(&input1.sizes()[..batch - 1])?;
    let (x, y) = (input1.reshape(&[rows, left])?, input2.reshape(&[rows, right, 1])?);
    let half = x.mm(&weight.permute(&[1, 0, 2])?.reshape(&[left, shape::numel(&[out, right])?])?)?;
    let product = half.reshape(&[rows, out, right])?.bmm(&y)?;
    let mut sizes = DimVec::from_slice(input1.sizes());
    sizes[batch - 1] = out;
    let product = product.reshape(&sizes)?;
    bias.map_or_else(|| Ok(product.clone()), |bias| ops::add_tensor(&product, bias, ONE))
}

/// The products of every element of one vector with every one of another.
pub fn outer(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    for (name, vector) in [("self", self_), ("vec2", vec2)] {
        ensure!(
            vector.dim() == 1,
            Shape("outer", name),
            "Expected 1-D argument {name}, but got {}-D",
            vector.dim()
        );
    }
    let column = ops::view(self_, &[self_.sizes()[0], 1])?;
    if self_.numel() < WORTH_A_COPY || vec2.is_contiguous() {
        return ops::mul_tensor(&column, vec2);
    }
    // Each row of the result reads all of it.
    ops::mul_tensor(&column, &ops::contiguous(vec2, MemoryFormat::Contiguous)?)
}

/// Rows of [`outer`] from which on a strided vector is copied first.
const WORTH_A_COPY: i64 = 64;

/// As [`outer`].
pub fn ger(self_: &Tensor, vec2: &Tensor) -> Result<Tensor> {
    ops::outer(self_, vec2)
}

/// `beta * self_ + alpha * outer(vec1, vec2)`; where `beta` is 0, `self_` is not read.
pub fn addr(self_: &Tensor, vec1: &Tensor, vec2: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    for (name, vector) in [("vec1", vec1), ("vec2", vec2)] {
        ensure!(
            vector.dim() == 1,
            Shape("addr", name),
            "Expected 1-D argument {name}, but got {}-D",
            vector.dim()
        );
    }
    let sizes = [vec1.sizes()[0], vec2.sizes()[0]];
    // A number is promoted as the matrix that it is expanded to.
    let addend = ops::expand(self_, &sizes, false).map_err(|e| e.in_operator("addr"))?;
    let dtype = result_type([&addend, vec1, vec2]).map_err(|e| e.in_operator("addr"))?;
    for (name, factor) in [("beta", beta), ("alpha", alpha)] {
        check_factor_of_addr(name, factor, dtype)?;
    }
    // bool operands give a bool result, whatever the factors.
    let are_bool = [self_, vec1, vec2].iter().all(|t| t.dtype() == ScalarType::Bool);
    let factor = |s: Scalar| if are_bool { Scalar::Bool(s.to_bool()) } else { s };
    let (beta, alpha) = (factor(beta), factor(alpha));
    let addend = as_dtype(&addend, dtype)?;
    let [vec1, vec2] = [as_dtype(vec1, dtype)?, as_dtype(vec2, dtype)?];
    if dtype.is_floating_point() && !beta.is_complex() && beta.to_f64() == 1.0 {
        // Without a matrix of products in memory, in the order of the addend, whatever that is.
        let [column, row] = [ops::unsqueeze(&vec1, 1)?, ops::unsqueeze(&vec2, 0)?];
        return ops::addcmul(&addend, &column, &row, alpha);
    }
    let vec1 = if alpha == ONE { vec1 } else { ops::mul_scalar(&vec1, alpha)? };
    let product = match addend.strides() {
        // In the order of the addend, so that neither is read across cache lines.
        [row, column] if 0 < *row && row < column => ops::t(&ops::outer(&vec2, &vec1)?)?,
        _ => ops::outer(&vec1, &vec2)?,
    };
    match beta {
        beta if !beta.to_bool() => Ok(product),
        ONE => ops::add_tensor(&addend, &product, ONE),
        beta => ops::add_tensor(&product, &addend, beta),
    }
}

/// A bool requires a bool result, and a number that is no integer one that is no integer.
fn check_factor_of_addr(name: &'static str, factor: Scalar, dtype: ScalarType) -> Result<()> {
    ensure!(
        dtype == ScalarType::Bool || !matches!(factor, Scalar::Bool(_)),
        Dtype("addr", name),
        "Boolean {name} only supported for Boolean results."
    );
    ensure!(
        dtype.is_differentiable() || !(factor.is_floating_point() || factor.is_complex()),
        Dtype("addr", name),
        "For integral input tensors, argument {name} must not be a floating point number."
    );
    factor.check_range(dtype).map_err(|e| e.in_operator("addr"))
}

/// `beta * self_ + alpha * sum_i batch1[i] batch2[i]`: one product with a long inner dimension, of the concatenated matrices.
/// Where `beta` is 0, `self_` is not read.
pub fn addbmm(
    self_: &Tensor,
    batch1: &Tensor,
    batch2: &Tensor,
    beta: Scalar,
    alpha: Scalar,
) -> Result<Tensor> {
    ensure!(batch1.dim() == 3, Shape("addbmm", "batch1"), "batch1 must be a 3D tensor");
    ensure!(batch2.dim() == 3, Shape("addbmm", "batch2"), "batch2 must be a 3D tensor");
    let (a, b) = (batch1.sizes(), batch2.sizes());
    ensure!(
        a[0] == b[0],
        Shape("addbmm", "batch2"),
        "batch1 and batch2 must have same number of batches, got {} and {}",
        a[0],
        b[0]
    );
    ensure!(
        a[2] == b[1],
        Shape("addbmm", "batch2"),
        "Incompatible matrix sizes for bmm ({}x{} and {}x{})",
        a[1],
        a[2],
        b[1],
        b[2]
    );
    let side_by_side =
        view::reshape(&ops::permute(batch1, &[1, 0, 2])?, &[a[1], shape::numel(&[a[0], a[2]])?])?;
    let stacked = view::reshape(batch2, &[shape::numel(&[b[0], b[1]])?, b[2]])?;
    ops::addmm(self_, &side_by_side, &stacked, beta, alpha).map_err(|e| e.in_operator("addbmm"))
}
