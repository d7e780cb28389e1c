//! Factorizations of symmetric and Hermitian matrices that need not be definite, and systems solved with them.

use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, broadcast_batches, columns_of, columns_to_read, ensure_alike, ensure_float,
    ensure_solved, for_each_matrix, matrix_sizes, new, square_size, with_sizes,
};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, ensure};
use flambeau_linalg::{Matrix, MatrixMut, ldl, ldl_pivots_are_valid, ldl_solve};

/// L and D in one matrix, the pivots, and LAPACK's `info`. The lower triangle is read.
pub fn linalg_ldl_factor_ex(
    self_: &Tensor,
    hermitian: bool,
    check_errors: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "torch.linalg.ldl_factor_ex";
    let n = square_size(NAME, "A", self_)?;
    ensure_float(NAME, "A", self_)?;
    let factors = columns_of(NAME, &ops::tril(self_, 0)?)?;
    let pivots = new(NAME, self_, &with_sizes(batch_sizes(self_), &[n]), ScalarType::I32)?;
    let info = new(NAME, self_, batch_sizes(self_), ScalarType::I32)?;
    if pivots.numel() == 0 {
        ops::fill__scalar(&info, Scalar::Int(0))?;
    } else if self_.device().is_cpu() {
        let n = n as usize;
        dispatch_all_types!(wide_floats_and_complex, self_.dtype(), NAME, T => {
            with_slices(NAME, &[], &[&factors, &pivots, &info], |s| {
                let matrices = s.write::<T>(0)?.chunks_exact_mut(n * n);
                let items = matrices.zip(s.write::<i32>(1)?.chunks_exact_mut(n)).zip(s.write::<i32>(2)?);
                for_each_matrix(items, n * n * n, |((a, pivots), info)| {
                    *info = ldl(MatrixMut::new(a, n, n, n), pivots, hermitian);
                });
                Ok(())
            })
        })?;
    }
    if check_errors {
        ensure_solved(NAME, &info, Problem::Ldl)?;
    }
    Ok((factors, pivots, info))
}

/// [`linalg_ldl_factor_ex`] that fails for a matrix with a block of zeros.
pub fn linalg_ldl_factor(self_: &Tensor, hermitian: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = ops::linalg_ldl_factor_ex(self_, hermitian, false)?;
    ensure_solved("torch.linalg.ldl_factor", &info, Problem::Ldl)?;
    Ok((factors, pivots))
}

/// The solution of `A X = B`, from the factors and pivots of `A`.
pub fn linalg_ldl_solve(ld: &Tensor, pivots: &Tensor, b: &Tensor, hermitian: bool) -> Result<Tensor> {
    const NAME: &str = "torch.linalg.ldl_solve";
    let n = square_size(NAME, "LD", ld)?;
    ensure_float(NAME, "LD", ld)?;
    ensure_alike(NAME, ld, "B", b)?;
    let [rows, columns] = matrix_sizes(NAME, "B", b)?;
    ensure!(
        rows == n,
        Shape(NAME, "B"),
        expected = n,
        got = rows,
        "Incompatible matrix sizes for torch.linalg.ldl_solve: each A matrix is {expected} by {expected} but each b matrix is \
         {got} by {columns}"
    );
    check_pivots(NAME, ld, pivots)?;
    let [factors, b] = broadcast_batches(NAME, ld, b)?;
    let pivots = ops::expand(pivots, &with_sizes(batch_sizes(&factors), &[n]), false)?;
    let pivots = ops::contiguous(&pivots, MemoryFormat::Contiguous)?;
    let x = columns_of(NAME, &b)?;
    if x.numel() > 0 && x.device().is_cpu() {
        let factors = columns_to_read(NAME, &factors)?;
        solve_each(NAME, [&factors, &pivots, &x], [n as usize, columns as usize], hermitian)?;
    }
    Ok(x)
}

fn solve_each(
    name: &str,
    [factors, pivots, x]: [&Tensor; 3],
    [n, columns]: [usize; 2],
    hermitian: bool,
) -> Result<()> {
    dispatch_all_types!(wide_floats_and_complex, x.dtype(), name, T => with_slices(name, &[factors, pivots], &[x], |s| {
        let (factors, pivots) = (s.read::<T>(0)?, s.read::<i32>(1)?);
        ensure!(
            pivots.chunks_exact(n).all(ldl_pivots_are_valid),
            InvalidArgument(name, "pivots"),
            "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2), and negative ones be in equal pairs. Did you \
             properly pass the result of ldl_factor?"
        );
        let items = s.write::<T>(0)?.chunks_exact_mut(n * columns).enumerate();
        for_each_matrix(items, n * n * columns, |(at, x)| {
            let factors = Matrix::new(&factors[at * n * n..(at + 1) * n * n], n, n, n);
            ldl_solve(factors, &pivots[at * n..(at + 1) * n], hermitian, MatrixMut::new(x, n, columns, n));
        });
        Ok(())
    }))
}

fn check_pivots(name: &str, ld: &Tensor, pivots: &Tensor) -> Result<()> {
    let expected = &ld.sizes()[..ld.dim() - 1];
    ensure!(
        *pivots.sizes() == *expected,
        Shape(name, "pivots"),
        expected = format_args!("{expected:?}"),
        got = format_args!("{:?}", pivots.sizes()),
        "Expected LD.shape[:-1] {expected} and pivots.shape to be the same, but got pivots with shape {got} instead"
    );
    ensure!(
        pivots.dtype() == ScalarType::I32,
        Dtype(name, "pivots"),
        got = pivots.dtype(),
        "Expected pivots to be integers of the type int32, but got {got}"
    );
    crate::native::linalg::matmul::ensure_same_device(name, ld, &[pivots])
}
