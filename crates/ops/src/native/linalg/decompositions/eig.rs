//! Eigenvalues and eigenvectors of any square matrices.

use super::info_of;
use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, columns_as, ensure_float, ensure_solved, for_each_matrix, in_type, new,
    new_columns, square_size, widest, with_sizes,
};
use crate::{Tensor, dispatch_all_types, ops};
use bytemuck::Pod;
use flambeau_core::{Result, ScalarType};
use flambeau_linalg::{Field, MatrixMut, eig};

/// Rows up to which matrices of f32 are computed in f64. It takes twice as long for larger ones.
const LARGEST_WIDE: usize = 64;

/// Eigenvalues, and eigenvectors as columns if `compute_v`, both complex.
pub fn _linalg_eig(a: &Tensor, compute_v: bool) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "torch.linalg.eig";
    let n = square_size("linalg.eig", "A", a)?;
    ensure_float("linalg.eig", "A", a)?;
    let dtype = a.dtype().to_complex();
    let computed = if n as usize <= LARGEST_WIDE { widest(a.dtype()) } else { a.dtype() };
    let wide = computed.to_complex();
    let values = new(NAME, a, &with_sizes(batch_sizes(a), &[n]), wide)?;
    let vectors = match compute_v {
        true => new_columns(NAME, a, a.sizes(), wide)?,
        false => new(NAME, a, &[0], wide)?,
    };
    if values.numel() > 0 && a.device().is_cpu() {
        let work = columns_as(NAME, a, computed)?;
        let operands = [&work, &values, &vectors];
        let info = dispatch_all_types!(wide_floats_and_complex, computed, NAME, T => {
            decompose::<T>(NAME, operands, compute_v)
        })?;
        ensure_solved(NAME, &info, Problem::GeneralEigenvalues)?;
    }
    let values = ops::to_dtype(&values, dtype, false, false, None)?;
    Ok((values, in_type(NAME, &vectors, dtype)?))
}

fn decompose<T: Field<Complex: Pod> + Pod>(
    name: &str,
    [work, values, vectors]: [&Tensor; 3],
    compute_v: bool,
) -> Result<Tensor> {
    let n = work.sizes()[work.dim() - 1] as usize;
    let info = new(name, work, batch_sizes(work), ScalarType::I32)?;
    with_slices(name, &[], &[work, values, vectors, &info], |s| {
        let mut rest = s.write::<T::Complex>(2)?;
        let sides = std::iter::from_fn(|| {
            // Empty parts where no vectors are computed.
            let (first, others) = std::mem::take(&mut rest).split_at_mut(if compute_v { n * n } else { 0 });
            rest = others;
            Some(first)
        });
        let matrices = s.write::<T>(0)?.chunks_exact_mut(n * n);
        let values = s.write::<T::Complex>(1)?.chunks_exact_mut(n);
        let items = matrices.zip(values).zip(s.write::<i32>(3)?).zip(sides);
        for_each_matrix(items, 10 * n * n * n, |(((a, values), info), vectors)| {
            let vectors = compute_v.then(|| MatrixMut::new(vectors, n, n, n));
            *info = info_of(eig(MatrixMut::new(a, n, n, n), values, vectors));
        });
        Ok(())
    })?;
    Ok(info)
}

/// Eigenvalues and eigenvectors.
pub fn linalg_eig(self_: &Tensor) -> Result<(Tensor, Tensor)> {
    ops::_linalg_eig(self_, true)
}

/// Eigenvalues.
pub fn linalg_eigvals(self_: &Tensor) -> Result<Tensor> {
    square_size("linalg.eigvals", "A", self_)?;
    Ok(ops::_linalg_eig(self_, false)?.0)
}
