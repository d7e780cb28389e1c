//! Eigenvalues and eigenvectors of symmetric and Hermitian matrices.

use super::info_of;
use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, columns_as, ensure_float, ensure_solved, for_each_matrix, in_type, mh, new,
    square_size, widest, with_sizes,
};
use crate::{Tensor, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Complex, Result, ScalarType, bail};
use flambeau_linalg::{Failure, Field, MatrixMut, SpectralInLanes, batch_length, hermitian, hermitian_batch};

/// Rows up to which f32 matrices are computed in f64, so that eigenvalues are right to the last digit. It takes twice as long for larger
/// ones, of which eigenvalues are right to a rounding error of the norm.
const LARGEST_WIDE: usize = 128;

/// Eigenvalues in ascending order, and eigenvectors as columns if `compute_v`.
pub fn _linalg_eigh(a: &Tensor, uplo: &str, compute_v: bool) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "linalg.eigh";
    let n = square_size(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    let lower = match uplo {
        "L" | "l" => true,
        "U" | "u" => false,
        _ => bail!(InvalidArgument(NAME, "UPLO"), "Expected UPLO argument to be 'L' or 'U', but got {uplo}"),
    };
    let value_sizes = with_sizes(batch_sizes(a), &[n]);
    // The upper triangle of a Hermitian matrix is the lower one of its adjoint, which is the same matrix.
    let computed = if n as usize <= LARGEST_WIDE { widest(a.dtype()) } else { a.dtype() };
    let work = columns_as(NAME, &if lower { a.clone() } else { mh(a)? }, computed)?;
    let values = new(NAME, a, &value_sizes, ScalarType::F64)?;
    if values.numel() > 0 && a.device().is_cpu() {
        let info = new(NAME, a, batch_sizes(a), ScalarType::I32)?;
        let results = [&work, &values, &info];
        match computed {
            ScalarType::F32 => decompose_one_by_one::<f32>(NAME, results, compute_v)?,
            ScalarType::Complex64 => decompose_one_by_one::<Complex<f32>>(NAME, results, compute_v)?,
            ScalarType::F64 => decompose_batch::<f64>(NAME, results, compute_v)?,
            _ => decompose_batch::<Complex<f64>>(NAME, results, compute_v)?,
        }
        ensure_solved(NAME, &info, Problem::Eigenvalues)?;
    }
    let vectors = if compute_v { in_type(NAME, &work, a.dtype())? } else { new(NAME, a, &[0], a.dtype())? };
    Ok((ops::to_dtype(&values, a.dtype().to_real(), false, false, None)?, vectors))
}

fn decompose_batch<T: SpectralInLanes + Pod>(name: &str, results: [&Tensor; 3], vectors: bool) -> Result<()> {
    decompose(name, results, batch_length(&[size_of_work(results[0])]), |a: &mut [T], n, values, results| {
        hermitian_batch(a, n, values, vectors, results);
    })
}

fn decompose_one_by_one<T: Field + Pod>(name: &str, results: [&Tensor; 3], vectors: bool) -> Result<()> {
    decompose(name, results, 1, |a: &mut [T], n, values, results| {
        results.fill(hermitian(MatrixMut::new(a, n, n, n), values, vectors));
    })
}

fn size_of_work(work: &Tensor) -> usize {
    work.sizes()[work.dim() - 1] as usize
}

/// Calls `f` with `length` matrices, their number of rows, their eigenvalues and results.
fn decompose<T: Pod + Send>(
    name: &str,
    [work, values, info]: [&Tensor; 3],
    length: usize,
    f: impl Fn(&mut [T], usize, &mut [f64], &mut [std::result::Result<(), Failure>]) + Sync,
) -> Result<()> {
    let n = size_of_work(work);
    with_slices(name, &[], &[work, values, info], |s| {
        let matrices = s.write::<T>(0)?.chunks_mut(length * n * n);
        let items = matrices
            .zip(s.write::<f64>(1)?.chunks_mut(length * n))
            .zip(s.write::<i32>(2)?.chunks_mut(length));
        for_each_matrix(items, length * 4 * n * n * n, |((a, values), info)| {
            let mut results = scratch::filled(Ok(()), info.len());
            f(a, n, values, &mut results);
            info.iter_mut().zip(results).for_each(|(info, result)| *info = info_of(result));
        });
        Ok(())
    })
}

/// Eigenvalues and eigenvectors.
pub fn linalg_eigh(self_: &Tensor, uplo: &str) -> Result<(Tensor, Tensor)> {
    ops::_linalg_eigh(self_, uplo, true)
}

/// Eigenvalues.
pub fn linalg_eigvalsh(self_: &Tensor, uplo: &str) -> Result<Tensor> {
    Ok(ops::_linalg_eigh(self_, uplo, false)?.0)
}
