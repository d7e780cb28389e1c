//! Systems of equations: triangular ones, and those that an LU factorization solves.

use super::lu::{check_right_side, factor, linalg_lu_solve};
use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, broadcast_batches, columns_of, columns_to_read, ensure_alike, ensure_float, ensure_solved,
    for_each_matrix, rows_of, square_size,
};
use crate::native::shape::view::alias;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::Result;
use flambeau_linalg::{batch_length, solve_triangular_batch};

/// The solution of `A X = B` or, where `left` is false, of `X A = B`, for a triangular `A`.
pub fn linalg_solve_triangular(
    self_: &Tensor,
    b: &Tensor,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    const NAME: &str = "linalg.solve_triangular";
    let n = square_size(NAME, "A", self_)?;
    ensure_float(NAME, "A", self_)?;
    ensure_alike(NAME, self_, "B", b)?;
    check_right_side(NAME, n, b, left)?;
    let [a, b] = broadcast_batches(NAME, self_, b)?;
    // From the right it is the transposed system, whose columns are the rows of `X`.
    let x = if left { columns_of(NAME, &b)? } else { rows_of(NAME, &b)? };
    if x.numel() > 0 && x.device().is_cpu() {
        let n = n as usize;
        let columns = x.numel() as usize * n / a.numel() as usize;
        let length = batch_length(&[n, columns]);
        // Rows of small matrices are read as columns of their transposes, whose elements then are in the same lanes.
        let by_rows = length > 1 && a.is_contiguous();
        let a = if by_rows { alias(&a)? } else { columns_to_read(NAME, &a)? };
        let flags = [upper != by_rows, unitriangular, left == by_rows];
        dispatch_all_types!(wide_floats_and_complex, x.dtype(), NAME, T => with_slices(NAME, &[&a], &[&x], |s| {
            let items = s.read::<T>(0)?.chunks(length * n * n).zip(s.write::<T>(0)?.chunks_mut(length * n * columns));
            for_each_matrix(items, length * n * n * columns, |(a, x)| {
                solve_triangular_batch(a, n, flags, x, columns);
            });
            Ok(())
        }))?;
    }
    Ok(x)
}

/// The solution of a triangular system, and a copy of its matrix.
pub fn triangular_solve(
    self_: &Tensor,
    a: &Tensor,
    upper: bool,
    transpose: bool,
    unitriangular: bool,
) -> Result<(Tensor, Tensor)> {
    square_size("triangular_solve", "A", a)?;
    let matrix = if transpose { crate::native::linalg::matrices::mt(a)? } else { a.clone() };
    let solution = ops::linalg_solve_triangular(&matrix, self_, upper != transpose, true, unitriangular)?;
    Ok((solution, ops::clone(a, None)?))
}

/// Whether the right side is a batch of vectors: it has one dimension, or the sizes of `A` without the last.
pub(super) fn is_vector(a: &Tensor, b: &Tensor) -> bool {
    b.dim() == 1 || (a.dim() == b.dim() + 1 && *b.sizes() == a.sizes()[..b.dim()])
}

/// The solution with the factors, pivots and `info` of the matrix.
pub fn _linalg_solve_ex(
    a: &Tensor,
    b: &Tensor,
    left: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.solve";
    square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let vector = is_vector(a, b);
    let right = match vector {
        true if left => ops::unsqueeze(b, -1)?,
        true => ops::unsqueeze(b, -2)?,
        false => b.clone(),
    };
    check_right_side(NAME, a.sizes()[a.dim() - 1], &right, left)?;
    ensure_alike(NAME, a, "B", b)?;
    let (factors, pivots, info) = factor(NAME, a, true)?;
    if check_errors {
        ensure_solved("torch.linalg.solve_ex", &info, Problem::Solve)?;
    }
    let x = linalg_lu_solve(&factors, &pivots, &right, left, false)?;
    let x = if vector { without_unit(&x, left)? } else { x };
    Ok((x, factors, pivots, info))
}

/// A batch of single columns or rows as vectors, in a tensor of its own.
fn without_unit(x: &Tensor, left: bool) -> Result<Tensor> {
    let x = ops::squeeze_dim(x, if left { -1 } else { -2 })?;
    rows_of("linalg.solve", &x)
}

/// The solution, and LAPACK's `info`.
pub fn linalg_solve_ex(a: &Tensor, b: &Tensor, left: bool, check_errors: bool) -> Result<(Tensor, Tensor)> {
    let (x, _, _, info) = ops::_linalg_solve_ex(a, b, left, check_errors)?;
    Ok((x, info))
}

/// The solution of `A X = B`, or of `X A = B` where `left` is false.
pub fn linalg_solve(a: &Tensor, b: &Tensor, left: bool) -> Result<Tensor> {
    let (x, _, _, info) = ops::_linalg_solve_ex(a, b, left, false)?;
    ensure_solved("torch.linalg.solve", &info, Problem::Solve)?;
    Ok(x)
}
