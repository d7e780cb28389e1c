//! `nonzero` in its forms: the indices of elements that differ from zero.

use crate::native::element_bits::{ElementBits, Numeric};
use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::native::index::masked_select::refuse_meta;
use crate::native::index::row_major::Divisor;
use crate::native::index::true_indices::true_indices;
use crate::native::shape::view;
use crate::native::strided_iter::StridedIter;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure, fallible};

/// The indices of the elements that are not 0, a row for each, in row-major order.
pub fn nonzero(self_: &Tensor) -> Result<Tensor> {
    refuse_meta("nonzero", self_)?;
    // Types whose zeros have several codes, and that have no comparison of bits.
    let by_value = self_.dtype().is_float8() || self_.dtype() == ScalarType::Complex32;
    let self_ = &(if by_value { ops::ne_scalar(self_, Scalar::Int(0))? } else { self_.clone() });
    let rank = self_.dim();
    let mut flat_indices = true_indices(&differ_from_zero(self_)?)?;
    // The result is transposed: the indices of one dimension are contiguous, as in PyTorch.
    let count = flat_indices.len();
    let mut columns = fallible::filled(0i64, count * rank).map_err(|e| e.in_operator("nonzero"))?;
    for (size, column) in self_.sizes().iter().zip(columns.chunks_mut(count.max(1))).rev() {
        split_indices(&mut flat_indices, *size, column);
    }
    view::transpose(&Tensor::from_vec(columns, &[rank as i64, count as i64])?, 0, 1)
}

/// For each element in row-major order whether it is not 0. NaN is not.
fn differ_from_zero(self_: &Tensor) -> Result<Vec<bool>> {
    let iter = StridedIter::new(self_.sizes(), [self_.strides()]);
    let mut flags = fallible::filled(false, iter.numel())?;
    dispatch_all_types!(moved, self_.dtype(), "nonzero", T => {
        with_slices("nonzero", &[self_], &[], |s| {
            let values = s.read::<<T as ElementBits>::Number>(0)?;
            if self_.is_contiguous() {
                for (flag, value) in flags.iter_mut().zip(values) {
                    *flag = !value.is_zero();
                }
            } else {
                let mut flags = flags.iter_mut();
                iter.for_each(|[at]| {
                    if let Some(flag) = flags.next() {
                        *flag = !values[at as usize].is_zero();
                    }
                });
            }
            Ok(())
        })
    })?;
    Ok(flags)
}

/// Writes the remainders of `indices` by `size` to `column`, and replaces the indices by the quotients.
fn split_indices(indices: &mut [i64], size: i64, column: &mut [i64]) {
    if let Some(divisor) = Divisor::new(size, indices.last().copied().unwrap_or(0)) {
        for (index, remainder) in indices.iter_mut().zip(column) {
            (*index, *remainder) = divisor.split(*index);
        }
        return;
    }
    for (index, remainder) in indices.iter_mut().zip(column) {
        (*remainder, *index) = (*index % size, *index / size);
    }
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
