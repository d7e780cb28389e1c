//! Products of a matrix in compressed rows and a dense one, and products of dense matrices at the positions of a pattern.

use super::arguments::{Pattern, SumElement, contiguous, indices, sum_type};
use crate::native::guarded_slices::{fill, with_slices};
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ensure};

/// Columns whose sums are computed at a time, in registers.
const TILE: usize = 32;
/// Partial sums of an inner product, which a compiler can keep in vectors.
const LANES: usize = 8;

/// `y[i][j] = sum(values[p] * dense[col[p]][j])` over the positions `p` of row `i`.
pub fn csr_mm(crow: &Tensor, col: &Tensor, values: &Tensor, dense: &Tensor) -> Result<Tensor> {
    const NAME: &str = "_csr_mm";
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    ensure!(
        values.sizes() == col.sizes() && dense.dim() == 2 && crow.numel() > 0,
        Shape(NAME, "values"),
        "expected a value for each of {} columns, and a matrix, but got {} and {}",
        col.numel(),
        values.signature(),
        dense.signature()
    );
    ensure!(
        values.dtype() == dense.dtype(),
        Dtype(NAME, "dense"),
        "expected a matrix of {} but got {}",
        values.dtype(),
        dense.dtype()
    );
    let sizes = [crow.numel() - 1, dense.sizes()[1]];
    if values.device().is_meta() {
        return TensorSpec::like(values, &sizes).allocate(NAME);
    }
    let sums = sum_type(NAME, values.dtype())?;
    let (from, matrix) = (contiguous(values, sums)?, contiguous(dense, sums)?);
    let out = TensorSpec::like(&from, &sizes).allocate(NAME)?;
    dispatch_all_types!(accumulators, sums, NAME, T => {
        with_slices(NAME, &[&crow, &col, &from, &matrix], &[&out], |s| {
            let pattern = Pattern::new(NAME, s.read(0)?, s.read(1)?, dense.sizes()[0])?;
            multiply(&pattern, s.read::<T>(2)?, s.read::<T>(3)?, sizes[1] as usize, s.write::<T>(0)?);
            Ok(())
        })
    })?;
    contiguous(&out, values.dtype())
}

fn multiply<T: SumElement>(pattern: &Pattern<'_>, values: &[T], dense: &[T], width: usize, out: &mut [T]) {
    if width == 0 {
        return;
    }
    fill(out, width, |range, part| {
        for (to, row) in part.chunks_exact_mut(width).zip(range.start / width..) {
            let positions = pattern.rows.segment(row);
            let entries = values[positions.clone()].iter().zip(&pattern.col[positions]);
            if let [sum] = to {
                *sum = entries.fold(T::ZERO, |sum, (v, c)| sum.plus(v.times(dense[*c as usize])));
                continue;
            }
            for (tile, to) in to.chunks_mut(TILE).enumerate() {
                let entries = entries.clone().map(|(v, c)| (*v, &dense[*c as usize * width + tile * TILE..]));
                match <&mut [T; TILE]>::try_from(&mut *to) {
                    Ok(to) => add_tile(entries, to),
                    Err(_) => add_columns(entries, to),
                }
            }
        }
    });
}

/// Weighted sums of the first columns of rows, in registers.
#[inline(always)]
fn add_tile<'a, T: SumElement, const N: usize>(entries: impl Iterator<Item = (T, &'a [T])>, to: &mut [T; N]) {
    let mut sums = [T::ZERO; N];
    for (value, row) in entries {
        for (sum, x) in sums.iter_mut().zip(&row[..N]) {
            *sum = sum.plus(value.times(*x));
        }
    }
    *to = sums;
}

fn add_columns<'a, T: SumElement>(entries: impl Iterator<Item = (T, &'a [T])>, to: &mut [T]) {
    to.fill(T::ZERO);
    for (value, row) in entries {
        for (sum, x) in to.iter_mut().zip(row) {
            *sum = sum.plus(value.times(*x));
        }
    }
}

/// At each position of a pattern, in row `i` and column `j`, the inner product of row `i` of `mat1` and row `j` of `mat2`.
pub fn csr_sampled_mm(crow: &Tensor, col: &Tensor, mat1: &Tensor, mat2: &Tensor) -> Result<Tensor> {
    const NAME: &str = "_csr_sampled_mm";
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    ensure!(
        mat1.dim() == 2 && mat2.dim() == 2 && mat1.sizes()[1] == mat2.sizes()[1],
        Shape(NAME, "mat2"),
        "expected two matrices with rows of one length but got {} and {}",
        mat1.signature(),
        mat2.signature()
    );
    ensure!(
        crow.numel() == mat1.sizes()[0] + 1 && mat1.dtype() == mat2.dtype(),
        Shape(NAME, "mat1"),
        "expected matrices of one type, and a row of mat1 for each of {} rows, but got {} and {}",
        crow.numel() - 1,
        mat1.signature(),
        mat2.signature()
    );
    if mat1.device().is_meta() {
        return TensorSpec::like(mat1, col.sizes()).allocate(NAME);
    }
    let sums = sum_type(NAME, mat1.dtype())?;
    let (a, b) = (contiguous(mat1, sums)?, contiguous(mat2, sums)?);
    let out = TensorSpec::like(&a, col.sizes()).allocate(NAME)?;
    dispatch_all_types!(accumulators, sums, NAME, T => {
        with_slices(NAME, &[&crow, &col, &a, &b], &[&out], |s| {
            let pattern = Pattern::new(NAME, s.read(0)?, s.read(1)?, mat2.sizes()[0])?;
            sample(&pattern, [s.read::<T>(2)?, s.read::<T>(3)?], mat1.sizes()[1] as usize, s.write::<T>(0)?);
            Ok(())
        })
    })?;
    contiguous(&out, mat1.dtype())
}

fn sample<T: SumElement>(pattern: &Pattern<'_>, [a, b]: [&[T]; 2], width: usize, out: &mut [T]) {
    fill(out, 1, |range, part| {
        let mut row = pattern.rows.segment_of(range.start);
        for (to, position) in part.iter_mut().zip(range) {
            while pattern.rows.segment(row).end <= position {
                row += 1;
            }
            let column = pattern.col[position] as usize;
            *to = dot(&a[row * width..(row + 1) * width], &b[column * width..(column + 1) * width]);
        }
    });
}

/// The inner product, in partial sums whose order depends on the length alone.
fn dot<T: SumElement>(a: &[T], b: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a.remainder().iter().zip(b.remainder());
    let rest = rest.fold(T::ZERO, |sum, (x, y)| sum.plus(x.times(*y)));
    for (a, b) in a.zip(b) {
        for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
            *sum = sum.plus(x.times(*y));
        }
    }
    sums.iter().fold(rest, |sum, part| sum.plus(*part))
}
