//! Triangular systems whose matrix is in compressed rows.

use super::arguments::{Pattern, contiguous, indices};
use crate::native::guarded_slices::with_slices;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use bytemuck::Pod;
use flambeau_core::{Result, ensure};
use std::ops::{Div, Mul, Sub};

/// The solution `x` of `A x = rhs`, where `A` is the upper or lower triangle of a square matrix in compressed rows; its diagonal counts as
/// ones if `unitriangular`, and as zeros where it has no elements.
pub fn csr_solve(
    crow: &Tensor,
    col: &Tensor,
    values: &Tensor,
    rhs: &Tensor,
    upper: bool,
    unitriangular: bool,
) -> Result<Tensor> {
    const NAME: &str = "_csr_solve";
    let (crow, col) = (indices(NAME, "crow", crow)?, indices(NAME, "col", col)?);
    ensure!(
        values.sizes() == col.sizes() && rhs.dim() == 2 && crow.numel() == rhs.sizes()[0] + 1,
        Shape(NAME, "rhs"),
        "expected a value for each of {} columns, and a matrix with {} rows, but got {} and {}",
        col.numel(),
        crow.numel() - 1,
        values.signature(),
        rhs.signature()
    );
    let dtype = values.dtype();
    ensure!(dtype == rhs.dtype(), Dtype(NAME, "rhs"), "expected a matrix of {dtype} but got {}", rhs.dtype());
    let out = TensorSpec::like(rhs, rhs.sizes()).allocate(NAME)?;
    if out.device().is_meta() {
        return Ok(out);
    }
    let (from, rhs) = (contiguous(values, dtype)?, contiguous(rhs, dtype)?);
    let size = rhs.sizes()[0];
    dispatch_all_types!(wide_floats, dtype, NAME, T => {
        with_slices(NAME, &[&crow, &col, &from, &rhs], &[&out], |s| {
            let pattern = Pattern::new(NAME, s.read(0)?, s.read(1)?, size)?;
            let out = s.write::<T>(0)?;
            out.copy_from_slice(s.read(3)?);
            let system = System { pattern, values: s.read::<T>(2)?, upper, unitriangular };
            system.solve(rhs.sizes()[1] as usize, out);
            Ok(())
        })
    })?;
    Ok(out)
}

struct System<'a, T> {
    pattern: Pattern<'a>,
    values: &'a [T],
    upper: bool,
    unitriangular: bool,
}

impl<T: Pod + Sub<Output = T> + Mul<Output = T> + Div<Output = T>> System<'_, T> {
    /// Substitution: each row depends on those before it, or if `upper` on those after it.
    fn solve(&self, width: usize, x: &mut [T]) {
        if width == 0 {
            return;
        }
        let size = self.pattern.rows.len();
        for step in 0..size {
            self.solve_row(if self.upper { size - 1 - step } else { step }, width, x);
        }
    }

    fn solve_row(&self, row: usize, width: usize, x: &mut [T]) {
        let mut diagonal = T::zeroed();
        for position in self.pattern.rows.segment(row) {
            let (column, value) = (self.pattern.col[position] as usize, self.values[position]);
            if column == row {
                diagonal = value;
            } else if (column > row) == self.upper {
                for j in 0..width {
                    x[row * width + j] = x[row * width + j] - value * x[column * width + j];
                }
            }
        }
        if !self.unitriangular {
            x[row * width..(row + 1) * width].iter_mut().for_each(|x| *x = *x / diagonal);
        }
    }
}
