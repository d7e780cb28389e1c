//! `searchsorted` and `bucketize`: binary search in sorted sequences.

mod ranks;

use crate::native::element_bits::{ElementBits, Sortable};
use crate::native::factory::copy;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::gather_scatter;
use crate::structured::TensorSpec;
use crate::tensor_iterator::result_type;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// Whether the index after equal elements is requested, from `right` and `side`, which must agree.
fn is_right(right: bool, side: Option<&str>) -> Result<bool> {
    match side {
        None => Ok(right),
        Some("right") => Ok(true),
        Some("left") => {
            ensure!(
                !right,
                InvalidArgument("searchsorted", "side"),
                "side and right can't be set to opposites, got side of left while right was True"
            );
            Ok(false)
        }
        Some(other) => {
            bail!(
                InvalidArgument("searchsorted", "side"),
                "side can only be 'left' or 'right' but got {other}"
            )
        }
    }
}

/// For each of `values` the number of elements of a sorted sequence that are less or equal.
pub(in crate::native) fn count_up_to<N: Sortable>(sequence: &[N], values: &[N], counts: &mut [i64]) {
    ranks::ranks(sequence, values, true, counts);
}

/// The elements of a type, dense: without a copy if they are so, since a sequence may be much longer than a search in it takes.
fn dense_as(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype && tensor.is_contiguous() {
        return Ok(tensor.clone());
    }
    copy::to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
}

/// For each value the index in its row of `sorted_sequence` at which inserting it would keep the order.
pub fn searchsorted(
    sorted_sequence: &Tensor,
    self_: &Tensor,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    const NAME: &str = "searchsorted";
    let right = is_right(right, side)?;
    ensure!(
        sorted_sequence.dim() > 0,
        Shape(NAME, "sorted_sequence"),
        "boundaries tensor should have positive dimension, but got 0 dimension"
    );
    let rows_fit = sorted_sequence.dim() == self_.dim()
        && sorted_sequence.sizes().split_last().map(|s| s.1) == self_.sizes().split_last().map(|s| s.1);
    ensure!(
        sorted_sequence.dim() == 1 || rows_fit,
        Shape(NAME, "self"),
        "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value \
         tensor must match, but we got boundaries tensor {:?} and input value tensor {:?}",
        sorted_sequence.sizes(),
        self_.sizes()
    );
    let dtype = if out_int32 { ScalarType::I32 } else { ScalarType::I64 };
    let made = TensorSpec::like(self_, self_.sizes()).with_dtype(ScalarType::I64).allocate(NAME)?;
    if made.numel() > 0 && !made.device().is_meta() {
        let sequence = match sorter {
            Some(sorter) => in_order(sorted_sequence, sorter)?,
            None => sorted_sequence.clone(),
        };
        let common = result_type([&sequence, self_])?;
        search_rows(&dense_as(&sequence, common)?, &dense_as(self_, common)?, right, &made)?;
    }
    if out_int32 { copy::to_copy(&made, Some(dtype), None, None, None, false, None) } else { Ok(made) }
}

fn in_order(sequence: &Tensor, sorter: &Tensor) -> Result<Tensor> {
    ensure!(
        sequence.sizes() == sorter.sizes() && sorter.dtype() == ScalarType::I64,
        Shape("searchsorted", "sorter"),
        "boundary and sorter must have the same size and sorter must be a tensor of long, but got boundary \
         tensor {:?} and sorter tensor {:?} of {}",
        sequence.sizes(),
        sorter.sizes(),
        sorter.dtype()
    );
    let made = TensorSpec::like(sequence, sequence.sizes()).allocate("searchsorted")?;
    gather_scatter::gather(sequence, -1, sorter, false, &made)?;
    Ok(made)
}

/// [`searchsorted`] of dense tensors of one type.
fn search_rows(sequence: &Tensor, values: &Tensor, right: bool, made: &Tensor) -> Result<()> {
    let n = sequence.sizes().last().copied().unwrap_or(0) as usize;
    let per_row = values.sizes().last().copied().unwrap_or(1) as usize;
    let shared = sequence.dim() == 1;
    dispatch_all_types!(ordered, sequence.dtype(), "searchsorted", T => {
        type N = <T as ElementBits>::Number;
        with_slices("searchsorted", &[sequence, values], &[made], |s| {
            let (sequence, values, out) = (s.read::<N>(0)?, s.read::<N>(1)?, s.write::<i64>(0)?);
            fill(out, 1, |range, mut part| {
                let mut at = range.start;
                while at < range.end {
                    // Up to the end of the row.
                    let end = if shared { range.end } else { range.end.min((at / per_row + 1) * per_row) };
                    let row = if shared { 0 } else { at / per_row * n };
                    let (found, rest) = part.split_at_mut(end - at);
                    ranks::ranks(&sequence[row..row + n], &values[at..end], right, found);
                    (at, part) = (end, rest);
                }
            });
            Ok(())
        })
    })
}

/// [`searchsorted`] of one number.
pub fn searchsorted_scalar(
    sorted_sequence: &Tensor,
    self_: Scalar,
    out_int32: bool,
    right: bool,
    side: Option<&str>,
    sorter: Option<&Tensor>,
) -> Result<Tensor> {
    ensure!(
        sorted_sequence.dim() == 1,
        Shape("searchsorted", "self"),
        "input value can be a scalar only when the boundaries tensor has 1 dimension, but got sizes {:?}",
        sorted_sequence.sizes()
    );
    let value = copy::to_copy(
        &Tensor::wrapped_number(self_)?,
        None,
        None,
        Some(sorted_sequence.device()),
        None,
        false,
        None,
    )?;
    if self_.is_in_range(sorted_sequence.dtype()) {
        return ops::searchsorted_tensor(sorted_sequence, &value, out_int32, right, side, sorter);
    }
    // A number out of the range of the boundaries' type must not be converted to it. With one dimension, the value takes part in type
    // promotion.
    let found =
        ops::searchsorted_tensor(sorted_sequence, &value.reshape(&[1])?, out_int32, right, side, sorter)?;
    found.reshape(&[])
}

/// For each value the index of the interval between `boundaries` that contains it.
pub fn bucketize(self_: &Tensor, boundaries: &Tensor, out_int32: bool, right: bool) -> Result<Tensor> {
    ensure!(
        boundaries.dim() == 1,
        Shape("bucketize", "boundaries"),
        "boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.dim()
    );
    searchsorted(boundaries, self_, out_int32, right, None, None).map_err(|e| e.in_operator("bucketize"))
}

/// The index of the interval that contains a number.
pub fn bucketize_scalar(self_: Scalar, boundaries: &Tensor, out_int32: bool, right: bool) -> Result<Tensor> {
    ops::searchsorted_scalar(boundaries, self_, out_int32, right, None, None)
}
