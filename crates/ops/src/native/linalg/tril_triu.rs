//! `tril` and `triu`, the triangles of matrices.

use crate::tensor_iterator::{Config, TensorIterator};
use crate::{Tensor, loops, ops};
use flambeau_core::{Result, Scalar, ScalarType, bail};

/// Builds an iterator over a mask of the triangle, the matrices, and a zero.
fn build<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    keeps: impl Fn(i64, i64) -> bool + Sync,
) -> Result<()> {
    let &[.., rows, columns] = self_.sizes() else {
        bail!(Shape(iter.name(), "self"), "input tensor must have at least 2 dimensions");
    };
    let on = Some(self_.device());
    let mask = ops::empty_memory_format(&[rows, columns], Some(ScalarType::Bool), None, on, None, None)?;
    let width = columns.max(1);
    loops::generate_by_index::<bool>(iter.name(), &mask, |i| keeps(i as i64 / width, i as i64 % width))?;
    iter.add_owned_input(mask);
    iter.add_input(self_);
    iter.add_owned_input(ops::full(&[], Scalar::Int(0), Some(self_.dtype()), None, on, None)?);
    iter.build(Config::PROMOTE)?;
    crate::native::formulas::check_out(iter, self_.dtype())
}

/// Shape and type of [`tril`].
pub fn tril_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, diagonal: i64) -> Result<()> {
    build(iter, self_, |row, column| column.saturating_sub(row) <= diagonal)
}

/// The elements on and below a diagonal of each matrix, zeros above.
pub fn tril(iter: &mut TensorIterator<'_>, _: &Tensor, _: i64) -> Result<()> {
    loops::select_kernel(iter)
}

/// Shape and type of [`triu`].
pub fn triu_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, diagonal: i64) -> Result<()> {
    build(iter, self_, |row, column| column.saturating_sub(row) >= diagonal)
}

/// The elements on and above a diagonal of each matrix, zeros below.
pub fn triu(iter: &mut TensorIterator<'_>, _: &Tensor, _: i64) -> Result<()> {
    loops::select_kernel(iter)
}
