//! Cholesky factorizations, and systems and inverses by them.

use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, columns_of, ensure_float, ensure_solved, for_each_matrix, matrix_sizes, mh, new,
    rows_of, square_size,
};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};
use flambeau_linalg::{batch_length, cholesky_batch};

/// The factor, and LAPACK's `info`.
pub fn linalg_cholesky_ex(self_: &Tensor, upper: bool, check_errors: bool) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "linalg.cholesky_ex";
    let n = square_size("linalg.cholesky", "A", self_)? as usize;
    ensure_float("linalg.cholesky", "A", self_)?;
    // The upper triangle is the lower one of the transpose, whose columns are adjacent where the rows of the result are. The factor of
    // the transpose, which is the conjugate, is the conjugate of the factor: transposed again, its adjoint.
    let factor = if upper { rows_of(NAME, self_)? } else { columns_of(NAME, self_)? };
    let info = new(NAME, self_, batch_sizes(self_), ScalarType::I32)?;
    if factor.numel() == 0 {
        ops::fill__scalar(&info, Scalar::Int(0))?;
    } else if self_.device().is_cpu() {
        dispatch_all_types!(wide_floats_and_complex, self_.dtype(), NAME, T => with_slices(NAME, &[], &[&factor, &info], |s| {
            let length = batch_length(&[n]);
            let items = s.write::<T>(0)?.chunks_mut(length * n * n).zip(s.write::<i32>(1)?.chunks_mut(length));
            for_each_matrix(items, length * n * n * n, |(factors, info)| cholesky_batch(factors, n, info));
            Ok(())
        }))?;
    }
    if check_errors {
        ensure_solved(NAME, &info, Problem::Cholesky)?;
    }
    Ok((factor, info))
}

/// [`linalg_cholesky_ex`] that fails unless the matrix is positive definite.
pub fn linalg_cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    checked("linalg.cholesky", self_, upper)
}

/// As [`linalg_cholesky`].
pub fn cholesky(self_: &Tensor, upper: bool) -> Result<Tensor> {
    checked("cholesky", self_, upper)
}

fn checked(name: &str, self_: &Tensor, upper: bool) -> Result<Tensor> {
    let (factor, info) = ops::linalg_cholesky_ex(self_, upper, false)?;
    ensure_solved(name, &info, Problem::Cholesky)?;
    Ok(factor)
}

/// The solution of `A X = self_`, from the factor of `A`.
pub fn cholesky_solve(self_: &Tensor, input2: &Tensor, upper: bool) -> Result<Tensor> {
    const NAME: &str = "cholesky_solve";
    let n = square_size(NAME, "A", input2)?;
    let [rows, _] = matrix_sizes(NAME, "b", self_)?;
    ensure!(
        rows == n,
        Shape(NAME, "b"),
        expected = n,
        got = rows,
        "Incompatible matrix sizes for cholesky_solve: each A matrix is {expected} by {expected} but each b matrix is \
         {got} by {}",
        self_.sizes()[self_.dim() - 1]
    );
    let lower = if upper { mh(input2)? } else { input2.clone() };
    let half = ops::linalg_solve_triangular(&lower, self_, false, true, false)?;
    ops::linalg_solve_triangular(&mh(&lower)?, &half, true, true, false)
}

/// The inverse of `A`, from its factor.
pub fn cholesky_inverse(self_: &Tensor, upper: bool) -> Result<Tensor> {
    let n = square_size("cholesky_inverse", "A", self_)?;
    let one = ops::eye(n, Some(self_.dtype()), None, Some(self_.device()), None)?;
    ops::cholesky_solve(&ops::expand(&one, self_.sizes(), false)?, self_, upper)
}
