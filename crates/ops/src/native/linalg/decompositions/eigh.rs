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
use flambeau_linalg::{SpectralInLanes, batch_length, hermitian_batch};

/// Eigenvalues in ascending order, and eigenvectors as columns if `compute_v`. Computed in f64, so that those of f32 matrices are right
/// to the last digit.
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
    let work = columns_as(NAME, &if lower { a.clone() } else { mh(a)? }, widest(a.dtype()))?;
    let values = new(NAME, a, &value_sizes, ScalarType::F64)?;
    if values.numel() > 0 && a.device().is_cpu() {
        let info = new(NAME, a, batch_sizes(a), ScalarType::I32)?;
        if a.is_complex() {
            decompose::<Complex<f64>>(NAME, &work, &values, &info, compute_v)?;
        } else {
            decompose::<f64>(NAME, &work, &values, &info, compute_v)?;
        }
        ensure_solved(NAME, &info, Problem::Eigenvalues)?;
    }
    let vectors = if compute_v { in_type(NAME, &work, a.dtype())? } else { new(NAME, a, &[0], a.dtype())? };
    Ok((ops::to_dtype(&values, a.dtype().to_real(), false, false, None)?, vectors))
}

fn decompose<T: SpectralInLanes + Pod>(
    name: &str,
    work: &Tensor,
    values: &Tensor,
    info: &Tensor,
    vectors: bool,
) -> Result<()> {
    let n = work.sizes()[work.dim() - 1] as usize;
    with_slices(name, &[], &[work, values, info], |s| {
        let length = batch_length(&[n]);
        let matrices = s.write::<T>(0)?.chunks_mut(length * n * n);
        let items = matrices
            .zip(s.write::<f64>(1)?.chunks_mut(length * n))
            .zip(s.write::<i32>(2)?.chunks_mut(length));
        for_each_matrix(items, length * 4 * n * n * n, |((a, values), info)| {
            let mut results = scratch::filled(Ok(()), info.len());
            hermitian_batch(a, n, values, vectors, &mut results);
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
