//! Singular value decompositions.

use super::info_of;
use crate::native::guarded_slices::with_slices;
use crate::native::linalg::matrices::{
    Problem, batch_sizes, columns_as, ensure_float, ensure_solved, for_each_matrix, in_type, matrix_sizes,
    mh, new, new_columns, widest, with_sizes,
};
use crate::{Tensor, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Complex, Result, Scalar, ScalarType, ensure};
use flambeau_linalg::{SpectralInLanes, batch_length, svd_batch};

/// U, S and the conjugate transpose of V, of which U and V have no elements unless `compute_uv`. Computed in f64, so that singular
/// values of f32 matrices are right to the last digit.
pub fn _linalg_svd(
    a: &Tensor,
    full_matrices: bool,
    compute_uv: bool,
    driver: Option<&str>,
) -> Result<(Tensor, Tensor, Tensor)> {
    const NAME: &str = "linalg.svd";
    let [rows, columns] = matrix_sizes(NAME, "A", a)?;
    ensure_float(NAME, "A", a)?;
    ensure!(
        driver.is_none(),
        InvalidArgument(NAME, "driver"),
        "keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
    );
    let (tall, batch) = (rows >= columns, batch_sizes(a));
    let [long, short] = if tall { [rows, columns] } else { [columns, rows] };
    let width = if full_matrices { long } else { short };
    // That of a wide matrix is its adjoint's with U and V exchanged. U is column-major and the transpose of V row-major, so that the
    // memory of both holds vectors one after another.
    let wide = widest(a.dtype());
    let work = columns_as(NAME, &if tall { a.clone() } else { mh(a)? }, wide)?;
    let values = new(NAME, a, &with_sizes(batch, &[short]), ScalarType::F64)?;
    let count = |of_rows: bool| if of_rows == tall { width } else { short };
    let (u_sizes, v_sizes) =
        (with_sizes(batch, &[rows, count(true)]), with_sizes(batch, &[count(false), columns]));
    let [u, v] = match compute_uv {
        true => [new_columns(NAME, a, &u_sizes, wide)?, new(NAME, a, &v_sizes, wide)?],
        false => [new(NAME, a, &[0], wide)?, new(NAME, a, &[0], wide)?],
    };
    if a.device().is_cpu() && values.numel() > 0 {
        let sides = if tall { [&u, &v] } else { [&v, &u] };
        if wide.is_complex() {
            decompose::<Complex<f64>>(NAME, [&work, &values], sides, compute_uv)?;
        } else {
            decompose::<f64>(NAME, [&work, &values], sides, compute_uv)?;
        }
    } else if compute_uv {
        identities(&u)?;
        identities(&v)?;
    }
    let vh = ops::conj(&ops::to_dtype(&v, a.dtype(), false, false, None)?)?;
    let values = ops::to_dtype(&values, a.dtype().to_real(), false, false, None)?;
    Ok((in_type(NAME, &u, a.dtype())?, values, vh))
}

/// The vectors of matrices without elements.
fn identities(vectors: &Tensor) -> Result<()> {
    ops::fill__scalar(vectors, Scalar::Int(0))?;
    ops::fill__scalar(&ops::diagonal(vectors, 0, -2, -1)?, Scalar::Int(1))
}

/// Decomposes tall matrices: `vectors` are the left and the right ones.
fn decompose<T: SpectralInLanes + Pod>(
    name: &str,
    [work, values]: [&Tensor; 2],
    vectors: [&Tensor; 2],
    compute: bool,
) -> Result<()> {
    let &[.., rows, columns] = work.sizes() else { return Ok(()) };
    let [rows, columns] = [rows as usize, columns as usize];
    let info = new(name, work, batch_sizes(work), ScalarType::I32)?;
    let count = info.numel() as usize;
    with_slices(name, &[], &[work, values, vectors[0], vectors[1], &info], |s| {
        let (left, right) = (s.write::<T>(2)?, s.write::<T>(3)?);
        let width = if compute { left.len() / count / rows } else { 0 };
        // Empty parts where no vectors are computed.
        let length = batch_length(&[rows, columns]);
        let sizes = [rows * width, if compute { columns * columns } else { 0 }].map(|size| length * size);
        let mut parts = Parts { left, right, sizes };
        let sides = (0..count.div_ceil(length)).map(|_| parts.next());
        let matrices = s.write::<T>(0)?.chunks_mut(length * rows * columns);
        let items = matrices.zip(s.write::<f64>(1)?.chunks_mut(length * columns));
        let items = items.zip(s.write::<i32>(4)?.chunks_mut(length)).zip(sides);
        let work = length * 6 * rows * columns * columns;
        for_each_matrix(items, work, |(((a, values), info), [left, right])| {
            let mut results = scratch::filled(Ok(()), info.len());
            let vectors = compute.then_some((left, width, right));
            svd_batch(a, [rows, columns], values, vectors, &mut results);
            info.iter_mut().zip(results).for_each(|(info, result)| *info = info_of(result));
        });
        Ok(())
    })?;
    ensure_solved(name, &info, Problem::SingularValues)
}

/// The vectors of some matrices after those of others; the last ones may be fewer.
struct Parts<'a, T> {
    left: &'a mut [T],
    right: &'a mut [T],
    sizes: [usize; 2],
}

impl<'a, T> Parts<'a, T> {
    fn next(&mut self) -> [&'a mut [T]; 2] {
        let take = |from: &mut &'a mut [T], size: usize| {
            let all = std::mem::take(from);
            let (first, rest) = all.split_at_mut(size.min(all.len()));
            *from = rest;
            first
        };
        [take(&mut self.left, self.sizes[0]), take(&mut self.right, self.sizes[1])]
    }
}

/// The decomposition with all columns of U and V, or only those of singular values.
pub fn linalg_svd(a: &Tensor, full_matrices: bool, driver: Option<&str>) -> Result<(Tensor, Tensor, Tensor)> {
    ops::_linalg_svd(a, full_matrices, true, driver)
}

/// Singular values in descending order.
pub fn linalg_svdvals(a: &Tensor, driver: Option<&str>) -> Result<Tensor> {
    Ok(ops::_linalg_svd(a, false, false, driver)?.1)
}

/// [`linalg_svd`] with V instead of its conjugate transpose. Without `compute_uv`, U and V are zeros.
pub fn svd(self_: &Tensor, some: bool, compute_uv: bool) -> Result<(Tensor, Tensor, Tensor)> {
    let [rows, columns] = matrix_sizes("linalg.svd", "input", self_)?;
    let (u, s, vh) = ops::_linalg_svd(self_, !some, compute_uv, None)?;
    if compute_uv {
        return Ok((u, s, mh(&vh)?));
    }
    let zeros = |n: i64| {
        let sizes = with_sizes(batch_sizes(self_), &[n, n]);
        ops::zeros(&sizes, Some(self_.dtype()), None, Some(self_.device()), None)
    };
    Ok((zeros(rows)?, s, zeros(columns)?))
}
