//! Derivatives of the leaf operators of sparse tensors. Patterns are constants; gradients of values have the pattern of the values.

use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

/// The gradient of the values of a softmax of segments, or of its logarithm.
pub fn segment_softmax_backward(
    grad: &Tensor,
    result: &Tensor,
    starts: &Tensor,
    log: bool,
) -> Result<Tensor> {
    let (count, device) = (Scalar::Int(result.size(0)?), Some(result.device()));
    let positions = ops::arange(count, Some(ScalarType::I64), None, device, None)?;
    let pair = ops::_convert_indices_from_csr_to_coo(starts, &positions, false, false)?;
    let groups = ops::select_int(&pair, 0, 0)?;
    let sums =
        |terms: &Tensor| ops::index_select(&ops::_segment_sum(terms, None, starts, &groups)?, 0, &groups);
    if log {
        return ops::sub_tensor(grad, &ops::mul_tensor(&ops::exp(result)?, &sums(grad)?)?, Scalar::Int(1));
    }
    let terms = ops::mul_tensor(grad, result)?;
    ops::sub_tensor(&terms, &ops::mul_tensor(result, &sums(&terms)?)?, Scalar::Int(1))
}

/// The gradient of values, from that of the sums of those with equal coordinates.
pub fn coo_coalesced_backward(grad: &Tensor, indices: &Tensor, size: &[i64]) -> Result<Tensor> {
    let (.., groups) = ops::_coo_order(indices, size)?;
    ops::index_select(grad, 0, &groups)
}

/// The gradient of the values of a matrix, from that of its transpose: the transpose of a matrix with the same pattern as the transpose.
pub fn csr_transposed_backward(
    grad: &Tensor,
    pointers: &Tensor,
    rows: &Tensor,
    pointers_before: i64,
) -> Result<Tensor> {
    ops::_csr_transposed(pointers, rows, grad, pointers_before - 1).map(|(.., values)| values)
}

/// The gradient of the values of a matrix, from that of selected rows.
pub fn csr_select_backward(grad: &Tensor, crow: &Tensor, index: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let count = sizes.first().copied().unwrap_or_default();
    let (_, positions) = ops::_csr_select_rows(crow, index, count)?;
    let zeros = ops::zeros(sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
    ops::index_add(&zeros, 0, &positions, grad, Scalar::Int(1))
}

/// The gradient of the values of one of two matrices, from that of their sum: the elements at its own positions, which the sum has too.
pub fn csr_add_backward(
    grad: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    crow_of: &Tensor,
    col_of: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    let keys = |crow: &Tensor, col: &Tensor| {
        let pair = ops::_convert_indices_from_csr_to_coo(crow, col, false, false)?;
        let starts = ops::mul_scalar(&ops::select_int(&pair, 0, 0)?, Scalar::Int(columns))?;
        ops::add_tensor(&starts, &ops::select_int(&pair, 0, 1)?, Scalar::Int(1))
    };
    let (all, own) = (keys(crow, col)?, keys(crow_of, col_of)?);
    let positions = ops::searchsorted_tensor(&all, &own, false, false, None, None)?;
    ops::index_select(grad, 0, &positions)
}

/// The transpose of a matrix in compressed rows with `columns` columns, times a dense matrix.
pub fn csr_transposed_mm(
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    dense: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    let (crow, col, values) = ops::_csr_transposed(crow, col, values, columns)?;
    ops::_csr_mm(&crow, &col, &values, dense)
}

/// The gradient of the values of the first factor: the gradient times the transpose of the second factor, at the pattern of the first.
#[expect(clippy::too_many_arguments, reason = "three patterns")]
pub fn csr_matmul_first_backward(
    grad: &Tensor,
    crow1: &Tensor,
    col1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    values2: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    let inner = crow2.numel() - 1;
    let (crow2, col2, values2) = ops::_csr_transposed(crow2, col2, values2, columns)?;
    ops::_csr_matmul_values(crow, col, grad, &crow2, &col2, &values2, crow1, col1, inner)
}

/// The gradient of the values of the second factor: the transpose of the first factor times the gradient, at the pattern of the second.
#[expect(clippy::too_many_arguments, reason = "three patterns")]
pub fn csr_matmul_second_backward(
    grad: &Tensor,
    crow1: &Tensor,
    col1: &Tensor,
    values1: &Tensor,
    crow2: &Tensor,
    col2: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    columns: i64,
) -> Result<Tensor> {
    let (crow1, col1, values1) = ops::_csr_transposed(crow1, col1, values1, crow2.numel() - 1)?;
    ops::_csr_matmul_values(&crow1, &col1, &values1, crow, col, grad, crow2, col2, columns)
}

/// The gradients of the values and of the right-hand side of a triangular system.
#[expect(clippy::too_many_arguments, reason = "those of the operator and its result")]
pub fn csr_solve_backward(
    grad: &Tensor,
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    result: &Tensor,
    upper: bool,
    unitriangular: bool,
    mask: [bool; 2],
) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let (pointers, rows, transposed_values) = ops::_csr_transposed(crow, col, values, crow.numel() - 1)?;
    let grad_rhs = ops::_csr_solve(&pointers, &rows, &transposed_values, grad, !upper, unitriangular)?;
    let grad_values = match mask[0] {
        true => Some(triangle(crow, col, &grad_rhs, result, upper, unitriangular)?),
        false => None,
    };
    Ok((grad_values, Some(grad_rhs)))
}

/// `-grad_rhs * result^T` at the positions that the system reads.
fn triangle(
    crow: &Tensor,
    col: &Tensor,
    grad_rhs: &Tensor,
    result: &Tensor,
    upper: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    let sampled = ops::neg(&ops::_csr_sampled_mm(crow, col, grad_rhs, result)?)?;
    let pair = ops::_convert_indices_from_csr_to_coo(crow, col, false, false)?;
    let above =
        ops::sub_tensor(&ops::select_int(&pair, 0, 1)?, &ops::select_int(&pair, 0, 0)?, Scalar::Int(1))?;
    let zero = Scalar::Int(0);
    let unread = match (upper, unitriangular) {
        (true, false) => ops::lt_scalar(&above, zero)?,
        (true, true) => ops::le_scalar(&above, zero)?,
        (false, false) => ops::gt_scalar(&above, zero)?,
        (false, true) => ops::ge_scalar(&above, zero)?,
    };
    ops::masked_fill_scalar(&sampled, &unread, zero)
}
