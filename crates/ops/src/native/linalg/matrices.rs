//! What factorizations and decompositions share: checks of their arguments, column-major copies, loops over the matrices of a batch,
//! and the errors that `info` stands for.

use crate::batched::physical::innermost;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::shape::view::alias;
use crate::native::strided_iter::StridedIter;
use crate::parallel::parallel_for;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, error, shape};
use std::sync::{Mutex, PoisonError};

/// Checks that a tensor has matrices as its last two dimensions, and returns their sizes.
pub(super) fn matrix_sizes(name: &str, argument: &str, tensor: &Tensor) -> Result<[i64; 2]> {
    let &[.., rows, columns] = tensor.sizes() else {
        bail!(Shape(name, argument), "The input tensor {argument} must have at least 2 dimensions.");
    };
    Ok([rows, columns])
}

/// Checks that the matrices are square, and returns the number of rows.
pub(super) fn square_size(name: &str, argument: &str, tensor: &Tensor) -> Result<i64> {
    let [rows, columns] = matrix_sizes(name, argument, tensor)?;
    ensure!(
        rows == columns,
        Shape(name, argument),
        "{argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
    );
    Ok(rows)
}

/// Checks that elements are of f32 or f64, or complex numbers of them.
pub(super) fn ensure_float(name: &str, argument: &str, tensor: &Tensor) -> Result<()> {
    let dtype = tensor.dtype();
    ensure!(
        dtype.is_floating_point() || dtype.is_complex(),
        Dtype(name, argument),
        got = dtype,
        "Expected a floating point or complex tensor as input. Got {got}"
    );
    ensure!(
        matches!(dtype.to_real(), ScalarType::F32 | ScalarType::F64),
        Dtype(name, argument),
        got = dtype,
        "Low precision dtypes not supported. Got {got}"
    );
    Ok(())
}

/// Checks that two arguments are of one type and on one device.
pub(super) fn ensure_alike(name: &str, a: &Tensor, argument: &str, b: &Tensor) -> Result<()> {
    ensure!(
        a.dtype() == b.dtype(),
        Dtype(name, argument),
        expected = a.dtype(),
        got = b.dtype(),
        "Expected {argument} to have the dtype {expected} of the matrices, but got {got}"
    );
    super::matmul::ensure_same_device(name, a, &[b])
}

/// The sizes of the dimensions before the last two.
pub(super) fn batch_sizes(tensor: &Tensor) -> &[i64] {
    &tensor.sizes()[..tensor.dim().saturating_sub(2)]
}

/// The sizes of a batch, followed by others.
pub(super) fn with_sizes(batch: &[i64], last: &[i64]) -> DimVec {
    batch.iter().chain(last).copied().collect()
}

/// A new row-major tensor on the device of `like`.
pub(super) fn new(name: &str, like: &Tensor, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    TensorSpec::like(like, sizes).with_dtype(dtype).allocate(name)
}

/// A new tensor of column-major matrices on the device of `like`.
pub(super) fn new_columns(name: &str, like: &Tensor, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    let transposed: DimVec = match sizes {
        [batch @ .., rows, columns] => with_sizes(batch, &[*columns, *rows]),
        _ => DimVec::from_slice(sizes),
    };
    let mut strides = shape::strides_for(&transposed, MemoryFormat::Contiguous)?;
    let rank = strides.len();
    if rank >= 2 {
        strides.swap(rank - 2, rank - 1);
    }
    TensorSpec::like(like, sizes).with_dtype(dtype).with_strides(strides).allocate(name)
}

/// A copy of column-major matrices, of another type.
pub(super) fn columns_as(name: &str, tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    let made = new_columns(name, tensor, tensor.sizes(), dtype)?;
    ops::copy_(&made, tensor, false)?;
    Ok(made)
}

/// A copy of column-major matrices.
pub(super) fn columns_of(name: &str, tensor: &Tensor) -> Result<Tensor> {
    let &[.., rows, columns] = tensor.sizes() else { return columns_as(name, tensor, tensor.dtype()) };
    let is_small = rows.max(columns) <= SMALL && rows.min(columns) > 1 && tensor.is_contiguous();
    let has_few_rows = (2..FEW).contains(&rows) && columns >= FEW && tensor.strides().last() == Some(&1);
    let has_kernel = matches!(tensor.dtype().to_real(), ScalarType::F32 | ScalarType::F64);
    if !((is_small || has_few_rows) && has_kernel && tensor.device().is_cpu() && tensor.numel() > 0) {
        return columns_as(name, tensor, tensor.dtype());
    }
    if has_few_rows && !is_small {
        return few_rows_interleaved(name, tensor);
    }
    let made = new_columns(name, tensor, tensor.sizes(), tensor.dtype())?;
    let sizes = [rows as usize, columns as usize];
    dispatch_all_types!(wide_floats_and_complex, tensor.dtype(), name, T => {
        with_slices(name, &[tensor], &[&made], |s| {
            transpose_each::<T>(s.read(0)?, s.write(0)?, sizes);
            Ok(())
        })
    })?;
    Ok(made)
}

/// Column-major matrices that are only read: those of the tensor itself where they follow one another, and else a copy.
pub(super) fn columns_to_read(name: &str, tensor: &Tensor) -> Result<Tensor> {
    if are_columns(tensor) { alias(tensor) } else { columns_of(name, tensor) }
}

/// Whether the elements are column-major matrices that follow one another.
fn are_columns(tensor: &Tensor) -> bool {
    let rank = tensor.dim();
    let (sizes, strides) = (tensor.sizes(), tensor.strides());
    // In the order of memory, the rows of a column first.
    let batch = (0..rank.saturating_sub(2)).rev();
    let mut step = 1;
    rank >= 2
        && [rank - 2, rank - 1].into_iter().chain(batch).all(|d| {
            let is_next = sizes[d] == 1 || strides[d] == step;
            step *= sizes[d];
            is_next
        })
}

/// Rows and columns of matrices that are too small for a general copy, which starts anew for each row.
const SMALL: i64 = 32;

/// Rows from which on a general copy moves blocks; of fewer it copies each column on its own.
const FEW: i64 = 8;

/// A copy of column-major matrices of few rows, whose elements are adjacent.
fn few_rows_interleaved(name: &str, tensor: &Tensor) -> Result<Tensor> {
    let made = new_columns(name, tensor, tensor.sizes(), tensor.dtype())?;
    let (&[.., rows, columns], &[ref strides @ .., row_stride, _]) = (tensor.sizes(), tensor.strides())
    else {
        return Ok(made);
    };
    let mut matrices = scratch::with_capacity((made.numel() / (rows * columns).max(1)) as usize);
    StridedIter::new(batch_sizes(tensor), [strides]).for_each(|[first]| matrices.push(first as usize));
    let [rows, columns, pitch] = [rows, columns, row_stride].map(|size| size as usize);
    dispatch_all_types!(wide_floats_and_complex, tensor.dtype(), name, T => {
        with_slices(name, &[tensor], &[&made], |s| {
            let (from, matrices) = (s.read::<T>(0)?, &matrices);
            fill(s.write::<T>(0)?, rows, |range, to| {
                let (mut at, mut rest) = (range.start / rows, to);
                while !rest.is_empty() {
                    let (matrix, column) = (at / columns, at % columns);
                    let count = (columns - column).min(rest.len() / rows);
                    let (part, after) = rest.split_at_mut(count * rows);
                    interleave(&from[matrices[matrix] + column..], pitch, rows, part);
                    (at, rest) = (at + count, after);
                }
            });
            Ok(())
        })
    })?;
    Ok(made)
}

/// Writes the first elements of all rows, which begin every `pitch` elements, then the second ones, and so on.
fn interleave<T: Copy>(from: &[T], pitch: usize, rows: usize, to: &mut [T]) {
    with_processor_vectors(
        #[inline(always)]
        || match rows {
            2 => interleave_rows::<T, 2>(from, pitch, to),
            3 => interleave_rows::<T, 3>(from, pitch, to),
            4 => interleave_rows::<T, 4>(from, pitch, to),
            _ => {
                const COLUMNS: usize = 64;
                for (number, to) in to.chunks_mut(COLUMNS * rows).enumerate() {
                    for row in 0..rows {
                        let from = &from[row * pitch + number * COLUMNS..];
                        for (column, x) in to.chunks_exact_mut(rows).zip(from) {
                            column[row] = *x;
                        }
                    }
                }
            }
        },
    );
}

/// [`interleave`] of a constant number of rows, which the compiler makes shuffles of vectors.
#[inline(always)]
fn interleave_rows<T: Copy, const ROWS: usize>(from: &[T], pitch: usize, to: &mut [T]) {
    let columns = to.as_chunks_mut::<ROWS>().0;
    let mut rows = [from; ROWS];
    for (row, elements) in rows.iter_mut().enumerate() {
        *elements = &from[row * pitch..][..columns.len()];
    }
    for (at, column) in columns.iter_mut().enumerate() {
        for row in 0..ROWS {
            column[row] = rows[row][at];
        }
    }
}

/// Copies row-major matrices to column-major ones.
fn transpose_each<T: Copy + Send + Sync>(from: &[T], to: &mut [T], [rows, columns]: [usize; 2]) {
    const RUN: usize = 64;
    let size = rows * columns;
    let items = from.chunks(RUN * size).zip(to.chunks_mut(RUN * size));
    for_each_matrix(items, RUN * size, |(from, to)| {
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
            for (j, column) in to.chunks_exact_mut(rows).enumerate() {
                for (x, row) in column.iter_mut().zip(from.chunks_exact(columns)) {
                    *x = row[j];
                }
            }
        }
    });
}

/// A row-major copy.
pub(super) fn rows_of(name: &str, tensor: &Tensor) -> Result<Tensor> {
    if tensor.dim() < 2 || !tensor.device().is_cpu() {
        let made = new(name, tensor, tensor.sizes(), tensor.dtype())?;
        ops::copy_(&made, tensor, false)?;
        return Ok(made);
    }
    // Its memory is that of the columns of the transposes.
    let strides = shape::strides_for(tensor.sizes(), MemoryFormat::Contiguous)?;
    columns_of(name, &mt(tensor)?)?.alias_as(tensor.sizes(), &strides, 0)
}

/// The matrices of two tensors, both with the same batch dimensions.
pub(super) fn broadcast_batches(name: &str, a: &Tensor, b: &Tensor) -> Result<[Tensor; 2]> {
    let batch = shape::broadcast(batch_sizes(a), batch_sizes(b)).map_err(|e| e.in_operator(name))?;
    let expand = |t: &Tensor| ops::expand(t, &with_sizes(&batch, &t.sizes()[t.dim() - 2..]), false);
    Ok([expand(a)?, expand(b)?])
}

/// The transposes of the last two dimensions.
pub(super) fn mt(tensor: &Tensor) -> Result<Tensor> {
    ops::transpose_int(tensor, -2, -1)
}

/// The conjugate transposes of the last two dimensions: views for real numbers.
pub(super) fn mh(tensor: &Tensor) -> Result<Tensor> {
    ops::conj(&mt(tensor)?)
}

/// The type that decompositions which iterate compute in.
pub(super) fn widest(dtype: ScalarType) -> ScalarType {
    if dtype.is_complex() { ScalarType::Complex128 } else { ScalarType::F64 }
}

/// Column-major matrices in another type.
pub(super) fn in_type(name: &str, columns: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if columns.dtype() == dtype { Ok(columns.clone()) } else { columns_as(name, columns, dtype) }
}

/// Multiply-adds for which another thread is worthwhile.
const WORTH_A_THREAD: usize = 1 << 16;
/// Multiply-adds of a matrix from which on its own products use all threads.
const LARGE: usize = 1 << 24;

/// Calls `f` for each item of a batch, `work` multiply-adds each: several on a thread if they are small, one after another if each uses
/// all threads.
pub(super) fn for_each_matrix<I: Send>(items: impl Iterator<Item = I>, work: usize, f: impl Fn(I) + Sync) {
    if work >= LARGE {
        return items.for_each(f);
    }
    // A lock gives access to each item, without contention.
    let items = scratch::collect(items.map(|item| Mutex::new(Some(item))));
    parallel_for(0..items.len(), (WORTH_A_THREAD / work.max(1)).max(1), |part| {
        for item in &items[part] {
            if let Some(item) = item.lock().unwrap_or_else(PoisonError::into_inner).take() {
                f(item);
            }
        }
    });
}

/// The number of LAPACK's argument that holds the matrix, negated.
pub(super) const NOT_FINITE: i32 = -4;

/// What a positive `info` means.
#[derive(Clone, Copy)]
pub(super) enum Problem {
    LuFactor,
    Cholesky,
    Inverse,
    Solve,
    Ldl,
    Eigenvalues,
    GeneralEigenvalues,
    SingularValues,
}

/// Fails for the first matrix whose `info` is not 0, in PyTorch's words: under `vmap` for the first of all examples. Does nothing for
/// tensors without elements on the host.
pub(super) fn ensure_solved(name: &str, info: &Tensor, problem: Problem) -> Result<()> {
    let info = innermost(info);
    if !info.device().is_cpu() {
        return Ok(());
    }
    let info = ops::contiguous(info, MemoryFormat::Contiguous)?;
    with_slices(name, &[&info], &[], |s| {
        let values = s.read::<i32>(0)?;
        let Some(at) = values.iter().position(|value| *value != 0) else { return Ok(()) };
        let batch = if info.dim() == 0 { String::new() } else { format!(": (Batch element {at})") };
        Err(error!(LinAlg, "{name}{batch}: {}", reason(problem, values[at]))
            .with_operator(name)
            .with_argument("A"))
    })
}

fn reason(problem: Problem, info: i32) -> String {
    const IN_VAIN: &str = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated";
    match problem {
        Problem::GeneralEigenvalues if info == NOT_FINITE => {
            "input tensor should not contain infs or NaNs.".to_owned()
        }
        _ if info == NOT_FINITE => {
            "The algorithm failed to converge because the input matrix contained non-finite values."
                .to_owned()
        }
        Problem::LuFactor => format!(
            "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If you still want \
             to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        ),
        Problem::Cholesky => format!(
            "The factorization could not be completed because the input is not positive-definite (the leading minor \
             of order {info} is not positive-definite)."
        ),
        Problem::Inverse => format!(
            "The diagonal element {info} is zero, the inversion could not be completed because the input matrix is \
             singular."
        ),
        Problem::Ldl => format!(
            "D[{info},{info}] is zero and using it on ldl_solve would result in a division by zero. If you still want to perform \
             the factorization, consider calling linalg.ldl_factor_ex(A)"
        ),
        Problem::Solve => "The solver failed because the input matrix is singular.".to_owned(),
        Problem::Eigenvalues | Problem::GeneralEigenvalues => {
            format!("{IN_VAIN} eigenvalues (error code: {info}).")
        }
        Problem::SingularValues => format!("{IN_VAIN} singular values (error code: {info})."),
    }
}
