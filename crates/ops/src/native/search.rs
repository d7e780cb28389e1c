//! Places in sorted sequences, and sets of values.

use super::slices::{fill, with_slices};
use super::stored::{Numeric, Stored};
use super::{copy, gather, sort, view};
use crate::structured::TensorSpec;
use crate::tensor_iterator::result_type;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{MemoryFormat, Result, Scalar, ScalarType, bail, ensure};

/// Whether the place behind equal elements is meant.
fn is_right(right: bool, side: Option<&str>) -> Result<bool> {
    match side {
        None => Ok(right),
        Some("right") => Ok(true),
        Some("left") => {
            ensure!(
                !right,
                InvalidArgument,
                "searchsorted: side and right can't be set to opposites, got side of left while right was True"
            );
            Ok(false)
        }
        Some(other) => {
            bail!(InvalidArgument, "searchsorted: side can only be 'left' or 'right' but got {other}")
        }
    }
}

fn dense_as(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    copy::to_copy(tensor, Some(dtype), None, None, None, false, Some(MemoryFormat::Contiguous))
}

/// For each value the place in its row of `sorted_sequence` where it would be put in.
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
        Shape,
        "{NAME}: boundaries tensor should have positive dimension, but got 0 dimension"
    );
    let rows_fit = sorted_sequence.dim() == self_.dim()
        && sorted_sequence.sizes().split_last().map(|s| s.1) == self_.sizes().split_last().map(|s| s.1);
    ensure!(
        sorted_sequence.dim() == 1 || rows_fit,
        Shape,
        "{NAME}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value \
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
        places(&dense_as(&sequence, common)?, &dense_as(self_, common)?, right, &made)?;
    }
    if out_int32 { copy::to_copy(&made, Some(dtype), None, None, None, false, None) } else { Ok(made) }
}

fn in_order(sequence: &Tensor, sorter: &Tensor) -> Result<Tensor> {
    ensure!(
        sequence.sizes() == sorter.sizes() && sorter.dtype() == ScalarType::I64,
        Shape,
        "searchsorted: boundary and sorter must have the same size and sorter must be a tensor of long, but got boundary \
         tensor {:?} and sorter tensor {:?} of {}",
        sequence.sizes(),
        sorter.sizes(),
        sorter.dtype()
    );
    let made = TensorSpec::like(sequence, sequence.sizes()).allocate("searchsorted")?;
    gather::gather(sequence, -1, sorter, false, &made)?;
    Ok(made)
}

/// Dense rows of boundaries and of values.
fn places(sequence: &Tensor, values: &Tensor, right: bool, made: &Tensor) -> Result<()> {
    let n = sequence.sizes().last().copied().unwrap_or(0) as usize;
    let per_row = values.sizes().last().copied().unwrap_or(1) as usize;
    let shared = sequence.dim() == 1;
    dispatch_all_types!(all, sequence.dtype(), "searchsorted", T => {
        type N = <T as Stored>::Number;
        with_slices("searchsorted", &[sequence, values], &[made], |s| {
            let (sequence, values, out) = (s.read::<N>(0)?, s.read::<N>(1)?, s.write::<i64>(0)?);
            fill(out, 1, |range, part| {
                for (to, at) in part.iter_mut().zip(range) {
                    let row = if shared { 0 } else { at / per_row * n };
                    let value = values[at].order();
                    let before = |b: &N| if right { b.order() <= value } else { b.order() < value };
                    *to = sequence[row..row + n].partition_point(before) as i64;
                }
            });
            Ok(())
        })
    })
}

/// The same for one number.
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
        Shape,
        "searchsorted: input value can be a scalar only when the boundaries tensor has 1 dimension, but got sizes {:?}",
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
    ops::searchsorted_tensor(sorted_sequence, &value, out_int32, right, side, sorter)
}

/// For each value the number of the interval between `boundaries` that it lies in.
pub fn bucketize(self_: &Tensor, boundaries: &Tensor, out_int32: bool, right: bool) -> Result<Tensor> {
    ensure!(
        boundaries.dim() == 1,
        Shape,
        "bucketize: boundaries tensor must be 1 dimension, but got dim({})",
        boundaries.dim()
    );
    searchsorted(boundaries, self_, out_int32, right, None, None).map_err(|e| e.context("bucketize"))
}

/// The distinct values in order; for each element the number of its value, and for each value how often it is there. The
/// latter two are empty unless asked for.
pub fn unique2(
    self_: &Tensor,
    _sorted: bool,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let flat = dense_as(self_, self_.dtype())?;
    let (values, indices) = sort::sort_default(&view::view(&flat, &[self_.numel()])?, 0, false)?;
    runs("_unique2", self_, &values, Some(&indices), return_inverse, return_counts)
}

/// The same where equal values stand side by side, in the order they stand in.
pub fn unique_consecutive(
    self_: &Tensor,
    return_inverse: bool,
    return_counts: bool,
    dim: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(
        dim.is_none(),
        NotImplemented,
        "unique_consecutive: equal slices of one dimension are not implemented"
    );
    let flat = view::view(&dense_as(self_, self_.dtype())?, &[self_.numel()])?;
    runs("unique_consecutive", self_, &flat, None, return_inverse, return_counts)
}

/// Runs of equal elements of `values`, which stood at `places` of `self_`. NaN equals nothing, as in PyTorch.
fn runs(
    name: &str,
    self_: &Tensor,
    values: &Tensor,
    places: Option<&Tensor>,
    return_inverse: bool,
    return_counts: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    ensure!(!self_.device().is_meta(), NotImplemented, "{name}: a tensor on meta has no values");
    let starts = dispatch_all_types!(all, values.dtype(), name, T => {
        type N = <T as Stored>::Number;
        with_slices(name, &[values], &[], |s| {
            let values = s.read::<N>(0)?;
            let nan = N::of(Scalar::Float(f64::NAN)).order();
            let differ = |i: &usize| {
                let order = values[*i].order();
                *i == 0 || order != values[*i - 1].order() || (N::HAS_NAN && order == nan)
            };
            Ok((0..values.len()).filter(differ).map(|i| i as i64).collect::<Vec<_>>())
        })
    })?;
    let n = values.numel();
    let count = starts.len() as i64;
    let chosen = TensorSpec::like(values, &[count]).allocate(name)?;
    if count > 0 {
        let starts = Tensor::from_vec(starts.clone(), &[count])?;
        gather::gather(values, 0, &starts, false, &chosen)?;
    }
    let ends = starts.iter().skip(1).copied().chain([n]);
    let lengths: Vec<i64> = starts.iter().zip(ends).map(|(start, end)| end - start).collect();
    let inverse = if return_inverse {
        inverse(&lengths, places, self_)?
    } else {
        Tensor::from_vec(Vec::<i64>::new(), &[0])?
    };
    let counts = if return_counts { lengths } else { vec![] };
    let length = counts.len() as i64;
    Ok((chosen, inverse, Tensor::from_vec(counts, &[length])?))
}

/// For each element the number of its run.
fn inverse(lengths: &[i64], places: Option<&Tensor>, self_: &Tensor) -> Result<Tensor> {
    let numbers = lengths.iter().zip(0i64..).flat_map(|(n, run)| std::iter::repeat_n(run, *n as usize));
    let mut inverse = vec![0i64; self_.numel() as usize];
    match places {
        Some(places) => {
            let places = places.to_vec::<i64>()?;
            places.iter().zip(numbers).for_each(|(place, run)| inverse[*place as usize] = run);
        }
        None => inverse.iter_mut().zip(numbers).for_each(|(to, run)| *to = run),
    }
    Tensor::from_vec(inverse, self_.sizes())
}
