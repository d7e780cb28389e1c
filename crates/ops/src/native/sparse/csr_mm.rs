//! Products of a matrix in compressed rows and a dense one, and products of dense matrices at the positions of a pattern.

use super::arguments::{
    IndexElement, Pattern, Pointers, SumElement, check_bounds, contiguous, dispatch_indices, indices,
    indices_of_either_type, prefetch_elements, sum_type,
};
use super::segments::{Terms, WORK, sum_segments};
use super::terms::NumberTerms;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ensure};
use std::ops::Range;

/// How many positions ahead rows are prefetched.
const AHEAD: usize = 8;

/// Rows of a dense matrix times the values of a sparse one.
struct Products<'a, T, I> {
    col: &'a [I],
    values: &'a [T],
    dense: &'a [T],
    width: usize,
}

impl<T: SumElement, I: IndexElement> Terms<T> for Products<'_, T, I> {
    type Index = I;

    #[inline(always)]
    fn matrix(&self) -> &[T] {
        self.dense
    }

    #[inline(always)]
    fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    fn row(&self, position: usize) -> Option<usize> {
        self.col.get(position).map(|column| column.position())
    }

    #[inline(always)]
    fn numbers(&self) -> NumberTerms<'_, T, I> {
        NumberTerms { table: self.dense, indices: Some(self.col), weights: Some(self.values) }
    }

    #[inline(always)]
    fn weighted_rows(&self, positions: Range<usize>) -> impl Iterator<Item = (usize, Option<T>)> {
        let (col, values) = (&self.col[positions.clone()], &self.values[positions]);
        col.iter().zip(values).map(|(column, value)| (column.position(), Some(*value)))
    }
}

/// `y[i][j] = sum(values[p] * dense[col[p]][j])` over the positions `p` of row `i`.
pub fn csr_mm(crow: &Tensor, col: &Tensor, values: &Tensor, dense: &Tensor) -> Result<Tensor> {
    const NAME: &str = "_csr_mm";
    let (crow, col) = (indices(NAME, "crow", crow)?, indices_of_either_type(NAME, "col", col)?);
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
    let (sums, rows_of_dense) = (sum_type(NAME, values.dtype())?, dense.sizes()[0]);
    let (from, matrix) = (contiguous(values, sums)?, contiguous(dense, sums)?);
    let out = TensorSpec::like(&from, &sizes).allocate(NAME)?;
    dispatch_all_types!(accumulators, sums, NAME, T => dispatch_indices!(col, I => {
        with_slices(NAME, &[&crow, &col, &from, &matrix], &[&out], |s| {
            let col = s.read::<I>(1)?;
            let rows = Pointers::new(NAME, "crow", s.read(0)?, col.len())?;
            let (values, dense, width) = (s.read::<T>(2)?, s.read::<T>(3)?, sizes[1] as usize);
            let is_done = match width {
                0 => None,
                _ => sum_segments(&rows, &Products { col, values, dense, width }, s.write::<T>(0)?),
            };
            // Columns are checked where they are read, and here only to say which one is wrong.
            is_done.map_or_else(|| check_bounds(NAME, "col", col, rows_of_dense), Ok)
        })
    }))?;
    contiguous(&out, values.dtype())
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
    fill_chunks(out, 1, WORK / width.max(1), |range, part| {
        let (mut row, mut positions) = (pattern.rows.segment_of(range.start), range);
        T::inner_products(
            #[inline(always)]
            || {
                let position = positions.next().unwrap_or_default();
                while pattern.rows.segment(row).end <= position {
                    row += 1;
                }
                if let Some(later) = pattern.col.get(position + AHEAD) {
                    prefetch_elements(b, *later as usize * width, width);
                }
                (row, pattern.col[position] as usize)
            },
            [a, b],
            width,
            part,
        );
    });
}
