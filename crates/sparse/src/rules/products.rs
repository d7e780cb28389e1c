//! Products of matrices and vectors, in every mix of sparse and strided operands.

use super::{rules, unsupported};
use crate::csr::{Csr, unstacked};
use crate::dense::{add, joined, product, reshape, scaled};
use crate::parts::{Compressed, is_sparse};
use flambeau_core::{Layout, Result, Scalar, ensure};
use flambeau_ops::{Tensor, ops};

/// The transpose of a strided matrix.
fn t(matrix: &Tensor) -> Result<Tensor> {
    ops::transpose_int(matrix, 0, 1)
}

/// The layout of a product of two sparse matrices: that of the first, where both are compressed.
fn layout_of_product(a: &Tensor, b: &Tensor) -> Layout {
    let is_coo = [a, b].iter().any(|t| t.layout() == Layout::SparseCoo);
    if is_coo { Layout::SparseCoo } else { a.layout() }
}

/// The product of two matrices, at least one of which is sparse. A product with a strided matrix is strided.
pub(crate) fn mm(name: &str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    for (argument, operand) in [("self", a), ("mat2", b)] {
        ensure!(
            operand.dim() == 2,
            Shape(name, argument),
            "expected a matrix but got sizes {:?}",
            operand.sizes()
        );
    }
    match (is_sparse(a), is_sparse(b)) {
        (true, false) => Csr::of(name, a)?.times(name, b),
        (false, true) => {
            ensure!(
                a.sizes()[1] == b.sizes()[0],
                Shape(name),
                "mat1 and mat2 shapes cannot be multiplied ({:?} and {:?})",
                a.sizes(),
                b.sizes()
            );
            t(&Csr::of(name, b)?.transposed()?.times(name, &t(a)?)?)
        }
        _ => {
            let block = if a.layout().is_blocked() { Some(Compressed::of(a)?.block_sizes()) } else { None };
            let layout = layout_of_product(a, b);
            // Blocks of the first matrix need not divide the product.
            let layout = if layout.is_blocked() { Layout::SparseCsr } else { layout };
            let made = Csr::of(name, a)?.times_sparse(name, &Csr::of(name, b)?)?;
            made.into_tensor(layout, block)
        }
    }
}

fn mv(name: &str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    ensure!(
        a.dim() == 2 && b.dim() == 1,
        Shape(name),
        "expected a matrix and a vector but got sizes {:?} and {:?}",
        a.sizes(),
        b.sizes()
    );
    if is_sparse(b) {
        return unsupported(name, b, "a vector must be strided");
    }
    reshape(&mm(name, a, &ops::unsqueeze(b, 1)?)?, &[a.sizes()[0]])
}

/// Products of the matrices of two batches.
fn bmm(name: &str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (x, y) = (a.sizes(), b.sizes());
    ensure!(
        x.len() == y.len()
            && x.len() >= 3
            && x[..x.len() - 2] == y[..y.len() - 2]
            && x[x.len() - 1] == y[y.len() - 2],
        Shape(name),
        "expected batches of matrices that can be multiplied but got sizes {x:?} and {y:?}"
    );
    let last = x.len() - 2;
    let batch = &x[..last];
    match (is_sparse(a), is_sparse(b)) {
        (true, false) => {
            let stacked = reshape(b, &[product(&y[..=last])?, y[last + 1]])?;
            unstacked(&Csr::block_diagonal(name, a)?.times(name, &stacked)?, batch, x[last])
        }
        (false, true) => {
            let columns = product(&joined(&[batch, &[x[last + 1]]]))?;
            let stacked = reshape(&ops::transpose_int(a, -1, -2)?, &[columns, x[last]])?;
            let made = Csr::block_diagonal(name, b)?.transposed()?.times(name, &stacked)?;
            ops::transpose_int(&unstacked(&made, batch, y[last + 1])?, -1, -2)
        }
        _ => unsupported(name, b, "products of batches of sparse matrices are not implemented"),
    }
}

/// The product of vectors, matrices and batches.
fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    const NAME: &str = "matmul";
    match (a.dim(), b.dim()) {
        (2, 1) => mv(NAME, a, b),
        (1, 2) if !is_sparse(a) => reshape(&mm(NAME, &ops::unsqueeze(a, 0)?, b)?, &[b.sizes()[1]]),
        (2, 2) => mm(NAME, a, b),
        (2, dims) if dims > 2 && !is_sparse(b) => {
            // The batch as further columns.
            let last = dims as i64 - 2;
            let columns = ops::movedim_int(b, last, 0)?;
            let (inner, rest) = (columns.sizes()[0], columns.sizes()[1..].to_vec());
            let made = mm(NAME, a, &reshape(&columns, &[inner, product(&rest)?])?)?;
            let sizes: Vec<i64> = std::iter::once(a.sizes()[0]).chain(rest).collect();
            ops::movedim_int(&reshape(&made, &sizes)?, 0, last)
        }
        (dims, 2) if dims > 2 && !is_sparse(a) => {
            let inner = a.sizes()[dims - 1];
            let stacked = reshape(a, &[product(&a.sizes()[..dims - 1])?, inner])?;
            let made = mm(NAME, &stacked, b)?;
            let sizes = joined(&[&a.sizes()[..dims - 1], &[b.sizes()[1]]]);
            reshape(&made, &sizes)
        }
        (x, y) if x == y && x > 2 => bmm(NAME, a, b),
        _ => unsupported(
            NAME,
            if is_sparse(a) { a } else { b },
            "products of these dimensions are not implemented",
        ),
    }
}

/// `beta input + alpha product`, of the sizes and the type of the product.
fn added(name: &str, input: &Tensor, made: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    ensure!(
        input.dtype() == made.dtype(),
        Dtype(name, "input"),
        "expected {}, the type of the product, but got {}",
        made.dtype(),
        input.dtype()
    );
    let input = addend(name, input, made)?;
    let made = if is_sparse(made) { ops::mul_scalar(made, alpha)? } else { scaled(made, alpha)? };
    if !beta.is_complex() && beta.to_f64() == 0.0 {
        return Ok(made);
    }
    let input = if is_sparse(&input) { ops::mul_scalar(&input, beta)? } else { scaled(&input, beta)? };
    add(&input, &made)
}

/// What is added to a product, in its sizes: the sum must not be larger than the product.
fn addend(name: &str, input: &Tensor, made: &Tensor) -> Result<Tensor> {
    if !is_sparse(input) {
        return ops::expand(input, made.sizes(), false).map_err(|e| e.in_operator(name));
    }
    super::check_same_sizes(name, input, made)?;
    Ok(input.clone())
}

fn addmm(input: &Tensor, a: &Tensor, b: &Tensor, beta: Scalar, alpha: Scalar) -> Result<Tensor> {
    if !is_sparse(a) && !is_sparse(b) {
        return unsupported("addmm", input, "a product of strided matrices is not sparse");
    }
    added("addmm", input, &mm("addmm", a, b)?, beta, alpha)
}

fn linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if weight.dim() != 2 {
        return unsupported("linear", weight, "a weight must be a matrix");
    }
    let made = ops::matmul(input, &ops::transpose_int(weight, 0, 1)?)?;
    bias.map_or_else(|| Ok(made.clone()), |bias| add(&made, bias))
}

/// The solution of a triangular system with a sparse matrix, and an empty tensor, as PyTorch returns it.
fn triangular_solve(
    b: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "triangular_solve";
    if is_sparse(b) {
        return unsupported(NAME, b, "a right-hand side must be strided");
    }
    let matrix = Csr::of(NAME, a)?;
    ensure!(
        matrix.rows == matrix.columns && b.dim() == 2 && b.sizes()[0] == matrix.rows,
        Shape(NAME),
        "expected a square matrix, and as many rows of b, but got sizes {:?} and {:?}",
        a.sizes(),
        b.sizes()
    );
    let matrix = if transpose { matrix.transposed()? } else { matrix };
    let solution =
        ops::_csr_solve(&matrix.crow, &matrix.col, &matrix.values, b, upper != transpose, unitriangular)?;
    Ok((solution, crate::dense::zeros(&[0], b)?))
}

rules! {
    MM => |_, a, b| mm("mm", a, b);
    MV => |_, a, b| mv("mv", a, b);
    BMM => |_, a, b| bmm("bmm", a, b);
    MATMUL => |_, a, b| matmul(a, b);
    ADDMM => |_, input, a, b, beta, alpha| addmm(input, a, b, beta, alpha);
    ADDMV => |_, input, a, b, beta, alpha| added("addmv", input, &mv("addmv", a, b)?, beta, alpha);
    LINEAR => |_, input, weight, bias| linear(input, weight, bias);
    TRIANGULAR_SOLVE => |_, b, a, upper, transpose, unit| triangular_solve(b, a, upper, transpose, unit);
}
