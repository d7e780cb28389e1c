//! `tril` and `triu`, the triangles of matrices.

use crate::tensor_iterator::TensorIterator;
use crate::{Tensor, loops, ops};
use flambeau_core::{Result, Scalar, ScalarType, bail};
use std::mem::MaybeUninit;

/// Builds an iterator over a mask of the triangle, the matrices, and a zero. In each row the mask is `lower` below a border: the number of
/// the row plus `shift`.
fn build<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, shift: i64, lower: bool) -> Result<()> {
    let &[.., rows, columns] = self_.sizes() else {
        bail!(Shape(iter.name(), "self"), "input tensor must have at least 2 dimensions");
    };
    let on = Some(self_.device());
    let mask = ops::empty_memory_format(&[rows, columns], Some(ScalarType::Bool), None, on, None, None)?;
    let width = columns.max(1) as usize;
    loops::generate::<bool>(iter.name(), &mask, |start, mut part| {
        let (mut row, mut column) = (start / width, start % width);
        while !part.is_empty() {
            let (of_row, rest) = part.split_at_mut(part.len().min(width - column));
            let border = (row as i64).saturating_add(shift).clamp(0, columns) as usize;
            let (before, after) = of_row.split_at_mut(border.saturating_sub(column).min(of_row.len()));
            before.fill(MaybeUninit::new(lower));
            after.fill(MaybeUninit::new(!lower));
            (part, row, column) = (rest, row + 1, 0);
        }
    })?;
    iter.add_owned_input(mask);
    iter.add_input(self_);
    let zero = ops::full(&[], Scalar::Int(0), Some(self_.dtype()), None, on, None)?;
    iter.add_owned_input(zero.clone());
    iter.build_choice_between(self_, &zero)?;
    crate::native::formulas::check_out(iter, self_.dtype())
}

/// Shape and type of [`tril`].
pub fn tril_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, diagonal: i64) -> Result<()> {
    build(iter, self_, diagonal.saturating_add(1), true)
}

/// The elements on and below a diagonal of each matrix, zeros above.
pub fn tril(iter: &mut TensorIterator<'_>, _: &Tensor, _: i64) -> Result<()> {
    loops::select_kernel(iter)
}

/// Shape and type of [`triu`].
pub fn triu_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, diagonal: i64) -> Result<()> {
    build(iter, self_, diagonal, false)
}

/// The elements on and above a diagonal of each matrix, zeros below.
pub fn triu(iter: &mut TensorIterator<'_>, _: &Tensor, _: i64) -> Result<()> {
    loops::select_kernel(iter)
}
