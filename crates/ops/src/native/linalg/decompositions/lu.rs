//! LU factorizations, their factors as matrices, and systems solved with them.

use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, broadcast_batches, columns_of, columns_to_read, ensure_alike, ensure_float,
    ensure_solved, for_each_matrix, matrix_sizes, new, new_columns, rows_of, square_size, with_sizes,
};
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, ensure};
use flambeau_linalg::{InLanes, System, batch_length, lu_batch, solve_factored_batch};

/// The factors in one tensor, the pivots, and LAPACK's `info`.
pub fn linalg_lu_factor_ex(a: &Tensor, pivot: bool, check_errors: bool) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.lu_factor_ex";
    let made = factor(NAME, a, pivot)?;
    if check_errors {
        ensure_solved(NAME, &made.2, Problem::LuFactor)?;
    }
    Ok(made)
}

pub(super) fn factor(name: &str, a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let [rows, columns] = matrix_sizes(name, "A", a)?;
    ensure_float(name, "A", a)?;
    let count = rows.min(columns);
    let factors = columns_of(name, a)?;
    let pivots = new(name, a, &with_sizes(batch_sizes(a), &[count]), ScalarType::I32)?;
    let info = new(name, a, batch_sizes(a), ScalarType::I32)?;
    if pivots.numel() == 0 {
        ops::fill__scalar(&info, Scalar::Int(0))?;
    } else if a.device().is_cpu() {
        let sizes = [rows as usize, columns as usize];
        dispatch_all_types!(wide_floats_and_complex, a.dtype(), name, T => {
            with_slices(name, &[], &[&factors, &pivots, &info], |s| {
                factor_each::<T>(s.write(0)?, sizes, s.write(1)?, s.write(2)?, pivot);
                Ok(())
            })
        })?;
    }
    Ok((factors, pivots, info))
}

fn factor_each<T: InLanes>(
    factors: &mut [T],
    [rows, columns]: [usize; 2],
    pivots: &mut [i32],
    info: &mut [i32],
    pivoting: bool,
) {
    let count = rows.min(columns);
    let length = batch_length(&[rows, columns]);
    let items = factors.chunks_mut(length * rows * columns).zip(pivots.chunks_mut(length * count));
    let items = items.zip(info.chunks_mut(length));
    for_each_matrix(items, length * rows * columns * count, |((factors, pivots), info)| {
        lu_batch(factors, [rows, columns], pivots, info, pivoting);
    });
}

/// [`linalg_lu_factor_ex`] that fails for a singular matrix.
pub fn linalg_lu_factor(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor)> {
    let (factors, pivots, info) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    ensure_solved("torch.linalg.lu_factor", &info, Problem::LuFactor)?;
    Ok((factors, pivots))
}

/// The permutation and the factors as matrices.
pub fn linalg_lu(a: &Tensor, pivot: bool) -> Result<(Tensor, Tensor, Tensor)> {
    matrix_sizes("linalg.lu", "A", a)?;
    let (factors, pivots, _) = ops::linalg_lu_factor_ex(a, pivot, false)?;
    let (p, l, u) = ops::lu_unpack(&factors, &pivots, true, pivot)?;
    Ok((p, l, u))
}

/// `P`, `L` and `U` of packed factors and pivots. What is not requested has no elements.
pub fn lu_unpack(
    factors: &Tensor,
    pivots: &Tensor,
    unpack_data: bool,
    unpack_pivots: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "lu_unpack";
    let [rows, columns] = matrix_sizes(NAME, "LU_data", factors)?;
    let (count, batch) = (rows.min(columns), batch_sizes(factors));
    let empty = || new(NAME, factors, &[0], factors.dtype());
    let (l, u) = if unpack_data {
        let lower = ops::tril(&ops::narrow(factors, -1, 0, count)?, -1)?;
        ops::fill__scalar(&ops::diagonal(&lower, 0, -2, -1)?, Scalar::Int(1))?;
        (lower, ops::triu(&ops::narrow(factors, -2, 0, count)?, 0)?)
    } else {
        (empty()?, empty()?)
    };
    let p = if unpack_pivots {
        check_pivots(NAME, factors, pivots, count)?;
        permutation(NAME, pivots, &with_sizes(batch, &[rows, rows]), factors.dtype())?
    } else {
        empty()?
    };
    Ok((p, l, u))
}

fn check_pivots(name: &str, factors: &Tensor, pivots: &Tensor, count: i64) -> Result<()> {
    ensure!(
        pivots.dtype() == ScalarType::I32,
        Dtype(name, "LU_pivots"),
        got = pivots.dtype(),
        "LU_pivots is expected to be a contiguous tensor of torch.int32 dtype, but got {got}"
    );
    ensure!(
        pivots.sizes() == with_sizes(batch_sizes(factors), &[count]).as_slice(),
        Shape(name, "LU_pivots"),
        expected = format_args!("{:?}", with_sizes(batch_sizes(factors), &[count])),
        got = format_args!("{:?}", pivots.sizes()),
        "Expected the pivots to be of sizes {expected} but got {got}"
    );
    crate::native::linalg::matmul::ensure_same_device(name, factors, &[pivots])
}

/// The matrix with a 1 in row `to` and column `i`, where row `to` of `A` became row `i`.
fn permutation(name: &str, pivots: &Tensor, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    let made = new(name, pivots, sizes, ScalarType::Bool)?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    let rows = sizes.last().copied().unwrap_or(0) as usize;
    if made.numel() == 0 || !made.device().is_cpu() {
        return ops::to_dtype(&made, dtype, false, false, None);
    }
    let (count, pivots) = (pivots.sizes().last().copied().unwrap_or(0) as usize, dense(pivots)?);
    with_slices(name, &[&pivots], &[&made], |s| {
        let (pivots, made) = (s.read::<i32>(0)?, s.write::<u8>(0)?);
        for (at, made) in made.chunks_exact_mut(rows * rows).enumerate() {
            let pivots = &pivots[at * count..(at + 1) * count];
            ensure_in_range(name, pivots, rows)?;
            let mut order = scratch::collect(0..rows);
            pivots.iter().enumerate().for_each(|(row, pivot)| order.swap(row, *pivot as usize - 1));
            order.iter().enumerate().for_each(|(row, from)| made[from * rows + row] = 1);
        }
        Ok(())
    })?;
    ops::to_dtype(&made, dtype, false, false, None)
}

/// Pivots are an argument, so they may be anything.
fn ensure_in_range(name: &str, pivots: &[i32], rows: usize) -> Result<()> {
    let wrong = pivots.iter().find(|pivot| !(1..=rows as i64).contains(&i64::from(**pivot)));
    ensure!(
        wrong.is_none(),
        InvalidArgument(name, "pivots"),
        "pivots passed to {name} must be between 1 and {rows}, but got {}. Did you properly pass the result of lu_factor?",
        wrong.copied().unwrap_or_default()
    );
    Ok(())
}

fn dense(tensor: &Tensor) -> Result<Tensor> {
    ops::contiguous(tensor, MemoryFormat::Contiguous)
}

/// The solution of `A X = B` or, where `left` is false, of `X A = B`, from factors; with the conjugate transpose of `A` if `adjoint`.
pub fn linalg_lu_solve(
    factors: &Tensor,
    pivots: &Tensor,
    b: &Tensor,
    left: bool,
    adjoint: bool,
) -> Result<Tensor> {
    const NAME: &str = "linalg.lu_solve";
    let n = square_size(NAME, "LU", factors)?;
    ensure_float(NAME, "LU", factors)?;
    ensure_alike(NAME, factors, "B", b)?;
    check_right_side(NAME, n, b, left)?;
    check_pivots(NAME, factors, pivots, n)?;
    let [factors, b] = broadcast_batches(NAME, factors, b)?;
    let pivots = dense(&ops::expand(pivots, &with_sizes(batch_sizes(&factors), &[n]), false)?)?;
    // `X A = B` is the transposed system. Its right side and solution are the same matrices, whose rows are adjacent.
    let x = if left { columns_of(NAME, &b)? } else { rows_of(NAME, &b)? };
    if x.numel() > 0 && x.device().is_cpu() {
        let system = match (left, adjoint) {
            (true, false) => System::Plain,
            (true, true) => System::Adjoint,
            (false, false) => System::Transposed,
            // The transpose of `A'` is the conjugate of `A`.
            (false, true) => System::Plain,
        };
        let factors = columns_to_read(NAME, &factors)?;
        let factors = if (left, adjoint) == (false, true) { conjugated(NAME, &factors)? } else { factors };
        solve_each(NAME, &factors, &pivots, system, &x)?;
    }
    Ok(x)
}

/// [`linalg_lu_solve`] with the right side first.
pub fn lu_solve(self_: &Tensor, factors: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    ops::linalg_lu_solve(factors, pivots, self_, true, false)
}

/// The conjugates of column-major matrices, which are the matrices themselves if they are real.
fn conjugated(name: &str, columns: &Tensor) -> Result<Tensor> {
    if columns.is_complex() { columns_of(name, &ops::conj(columns)?) } else { Ok(columns.clone()) }
}

/// Checks that the right side of a system with `n` unknowns fits.
pub(super) fn check_right_side(name: &str, n: i64, b: &Tensor, left: bool) -> Result<()> {
    let [rows, columns] = matrix_sizes(name, "B", b)?;
    let (size, side) = if left { (rows, "AX = B") } else { (columns, "XA = B") };
    ensure!(
        size == n,
        Shape(name, "B"),
        expected = n,
        got = size,
        "Incompatible shapes of A and B for the equation {side}: a system of {expected} equations, and a right side of \
         ({rows}x{columns})"
    );
    Ok(())
}

/// Overwrites right sides with solutions: the columns of the systems are adjacent in `x`, and `x` has elements.
fn solve_each(name: &str, factors: &Tensor, pivots: &Tensor, system: System, x: &Tensor) -> Result<()> {
    let n = factors.sizes()[factors.dim() - 1] as usize;
    let columns = x.numel() as usize * n / factors.numel() as usize;
    dispatch_all_types!(wide_floats_and_complex, x.dtype(), name, T => with_slices(name, &[factors, pivots], &[x], |s| {
        let (factors, pivots) = (s.read::<T>(0)?, s.read::<i32>(1)?);
        ensure_in_range(name, pivots, n)?;
        let length = batch_length(&[n, columns]);
        let items = factors.chunks(length * n * n).zip(pivots.chunks(length * n));
        let items = items.zip(s.write::<T>(0)?.chunks_mut(length * n * columns));
        for_each_matrix(items, length * n * n * columns, |((factors, pivots), x)| {
            solve_factored_batch(factors, n, pivots, system, x, columns);
        });
        Ok(())
    }))
}

/// The inverse from factors: the solution for the identity.
pub(super) fn inverse_of_factors(name: &str, factors: &Tensor, pivots: &Tensor) -> Result<Tensor> {
    let made = new_columns(name, factors, factors.sizes(), factors.dtype())?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    ops::fill__scalar(&ops::diagonal(&made, 0, -2, -1)?, Scalar::Int(1))?;
    if made.numel() > 0 && made.device().is_cpu() {
        solve_each(name, factors, pivots, System::Plain, &made)?;
    }
    Ok(made)
}
