//! `nonzero` in its forms: the indices of elements that differ from zero.

use crate::native::factory::copy;
use crate::native::guarded_slices::{fill_both, with_slices};
use crate::native::index::masked_select::refuse_meta;
use crate::native::index::row_major::Divisor;
use crate::native::index::true_indices::TrueFlags;
use crate::native::shape::view;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure, fallible};

/// The indices of the elements that are not 0, a row for each, in row-major order.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    const NAME: &str = "nonzero";
    refuse_meta(NAME, self_)?;
    let differ = ops::ne_scalar(self_, Scalar::Int(0))?.contiguous()?;
    let (sizes, rank) = (differ.sizes(), differ.dim());
    // The result is transposed: the indices of one dimension are contiguous, as in PyTorch.
    let (columns, count) = with_slices(NAME, &[&differ], &[], |s| {
        let flags = TrueFlags::of(s.read(0)?)?;
        let count = flags.count();
        let mut columns = fallible::filled(0i64, count * rank)?;
        if let Some((outer, inner)) = columns.split_at_mut_checked(count) {
            // Indices in row-major order, of which the outermost ones are left in the end.
            flags.write_indices(outer);
            for (size, column) in sizes.iter().skip(1).zip(inner.chunks_mut(count.max(1))).rev() {
                split_indices(outer, *size, column);
            }
        }
        Ok((columns, count))
    })
    .map_err(|e| e.in_operator(NAME))?;
    view::transpose(&Tensor::from_vec(columns, &[rank as i64, count as i64])?, 0, 1)
}

/// Writes the remainders of `indices`, which ascend, by `size` to `column`, and replaces the indices by the quotients.
fn split_indices(indices: &mut [i64], size: i64, column: &mut [i64]) {
    let divisor = Divisor::new(size, indices.last().copied().unwrap_or(0));
    fill_both((indices, column), 1, |_, indices, remainders| {
        for (index, remainder) in indices.iter_mut().zip(remainders) {
            (*index, *remainder) = match divisor {
                Some(divisor) => divisor.split(*index),
                None => (*index / size, *index % size),
            };
        }
    });
}

/// Another name of [`nonzero`].
pub fn argwhere(self_: &Tensor) -> Result<Tensor> {
    ops::nonzero(self_)
}

/// The indices of the elements that are not 0, a vector for each dimension.
pub fn nonzero_numpy(self_: &Tensor) -> Result<Vec<Tensor>> {
    let self_ = if self_.dim() == 0 { ops::unsqueeze(self_, 0)? } else { self_.clone() };
    ops::unbind_int(&ops::nonzero(&self_)?, 1)
}

/// The indices of the first `size` elements that are not 0; if there are fewer, rows of `fill_value` follow.
pub fn nonzero_static(self_: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    ensure!(size >= 0, InvalidArgument("nonzero_static", "size"), "'size' must be an non-negative integer");
    let sizes = [size, self_.dim() as i64];
    let options = (Some(ScalarType::I64), Some(self_.device()));
    let made = ops::full(&sizes, Scalar::Int(fill_value), options.0, None, options.1, None)?;
    if !self_.device().is_meta() {
        let found = self_.nonzero()?;
        let count = found.sizes()[0].min(size);
        copy::copy_(
            &view::slice(&made, 0, Some(0), Some(count), 1)?,
            &view::slice(&found, 0, Some(0), Some(count), 1)?,
            false,
        )?;
    }
    Ok(made)
}
