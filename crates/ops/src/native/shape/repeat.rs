//! Copies in another arrangement: repeated, reversed, rotated, padded.

use crate::native::factory::empty_full::dense_strides;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::element_bits::{Moved, Stored};
use crate::native::shape::view::wrap_dims;
use crate::native::strided_iter::Walk;
use crate::native::factory::copy;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// `self_` repeated `repeats[d]` times along each dimension `d`, new ones in front.
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    ensure!(
        repeats.len() >= self_.dim(),
        Shape,
        "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let missing = repeats.len() - self_.dim();
    let (mut wanted, mut cut, mut once, mut many) =
        (DimVec::new(), DimVec::new(), DimVec::new(), DimVec::new());
    for (d, &times) in repeats.iter().enumerate() {
        let size = if d < missing { 1 } else { self_.sizes()[d - missing] };
        let Some(product) = times.checked_mul(size).filter(|_| times >= 0) else {
            bail!(
                InvalidArgument,
                "repeat: expected repeats of at least 0 that fit in 63 bits but got {repeats:?}"
            );
        };
        wanted.push(product);
        cut.extend([times, size]);
        once.extend([1, size]);
        many.extend([times, size]);
    }
    let made = TensorSpec::like(self_, &wanted).allocate("repeat")?;
    if made.numel() > 0 {
        let tiles = view::view(&made, &cut)?;
        let source = copy::clone(self_, Some(MemoryFormat::Contiguous))?;
        ops::copy_(&tiles, &view::expand(&view::view(&source, &once)?, &many, false)?, false)?;
    }
    Ok(made)
}

/// The same with as many leading ones as are missing.
pub fn tile(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut repeats = DimVec::from_elem(1, self_.dim().saturating_sub(dims.len()));
    repeats.extend_from_slice(dims);
    ops::repeat(self_, &repeats)
}

/// Every index `repeats[index]` times: what `repeat_interleave` selects.
pub fn repeat_interleave_indices(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "repeat_interleave";
    ensure!(repeats.dim() == 1, Shape, "{NAME}: only accept 1D vector as repeat");
    ensure!(
        matches!(repeats.dtype(), ScalarType::I32 | ScalarType::I64),
        Dtype,
        "{NAME}: repeats has to be Long or Int tensor"
    );
    let counts = copy::to_copy(repeats, Some(ScalarType::I64), None, None, None, false, None)?;
    let counts = counts.to_vec::<i64>().map_err(|e| e.context(NAME))?;
    let Some(least) = counts.iter().min() else {
        return TensorSpec::like(repeats, &[0]).allocate(NAME);
    };
    ensure!(*least >= 0, InvalidArgument, "{NAME}: repeats can not be negative");
    let total = counts.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)).unwrap_or(i64::MAX);
    ensure!(
        output_size.is_none_or(|size| size == total),
        InvalidArgument,
        "{NAME}: allocated size does not match required size: expected output_size {total} but got {output_size:?}"
    );
    let made = TensorSpec::like(repeats, &[total]).with_dtype(ScalarType::I64).allocate(NAME)?;
    with_slices(NAME, &[], &[&made], |s| {
        let mut places = s.write::<i64>(0)?.iter_mut();
        for (index, count) in counts.iter().enumerate() {
            places.by_ref().take(*count as usize).for_each(|place| *place = index as i64);
        }
        Ok(())
    })?;
    copy::to_copy(&made, Some(repeats.dtype()), None, None, None, false, None)
}

/// Each index of a dimension repeated as often as `repeats` says of it.
pub fn repeat_interleave(
    self_: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let flat = if dim.is_none() { ops::flatten_using_ints(self_, 0, -1)? } else { self_.clone() };
    let input = if flat.dim() == 0 { ops::reshape(&flat, &[1])? } else { flat };
    let d = shape::wrap_dim(dim.unwrap_or(0), input.dim()).map_err(|e| e.context("repeat_interleave"))?;
    let size = input.sizes()[d];
    ensure!(repeats.dim() <= 1, Shape, "repeat_interleave: repeats must be 0-dim or 1-dim tensor");
    let repeats = if repeats.numel() == 1 {
        ops::expand(&ops::reshape(repeats, &[1])?, &[size], false)?
    } else {
        repeats.clone()
    };
    ensure!(
        repeats.numel() == size,
        Shape,
        "repeat_interleave: repeats must have the same size as input along dim, but got repeats.size(0) = {} and \
         input.size({d}) = {size}",
        repeats.numel()
    );
    ops::index_select(&input, d as i64, &ops::repeat_interleave_tensor(&repeats, output_size)?)
}

/// Each index of a dimension repeated `repeats` times.
pub fn repeat_interleave_int(
    self_: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    ensure!(repeats >= 0, InvalidArgument, "repeat_interleave: repeats can not be negative");
    let input = if dim.is_none() || self_.dim() == 0 { ops::reshape(self_, &[-1])? } else { self_.clone() };
    let d = shape::wrap_dim(dim.unwrap_or(0), input.dim()).map_err(|e| e.context("repeat_interleave"))?;
    let total = input.sizes()[d].checked_mul(repeats);
    ensure!(
        output_size.is_none() || output_size == total,
        InvalidArgument,
        "repeat_interleave: expected output_size {total:?} but got {output_size:?}"
    );
    let mut sizes = DimVec::from_slice(input.sizes());
    sizes.insert(d + 1, repeats);
    let expanded = ops::expand(&ops::unsqueeze(&input, d as i64 + 1)?, &sizes, false)?;
    let copied = ops::clone(&expanded, Some(MemoryFormat::Contiguous))?;
    ops::flatten_using_ints(&copied, d as i64, d as i64 + 1)
}

/// The indices of the dimensions `dims` in reverse order.
pub fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let dims = wrap_dims("flip", dims, self_.dim())?;
    let made = TensorSpec::like(self_, self_.sizes()).with_strides(dense_strides(self_)?).allocate("flip")?;
    if made.device().is_meta() || made.numel() == 0 {
        return Ok(made);
    }
    // The result is filled in the order of its memory, so that the walk is over its dense dimensions.
    let order = memory_order(&made);
    let g = self_.geometry();
    let sizes: DimVec = order.iter().map(|d| g.sizes()[*d]).collect();
    let step = |d: &usize| if dims.contains(d) { -g.strides()[*d] } else { g.strides()[*d] };
    let steps: DimVec = order.iter().map(step).collect();
    let last = |d: &usize| if self_.dim() == 0 { 0 } else { (g.sizes()[*d] - 1) * g.strides()[*d] };
    let start: i64 = dims.iter().map(last).sum();
    let walk = Walk::new(&sizes, [&steps]);
    dispatch_all_types!(all, self_.dtype(), "flip", T => {
        with_slices("flip", &[self_], &[&made], |s| {
            let (from, to) = (s.read::<<T as Stored>::Bits>(0)?, s.write::<<T as Stored>::Bits>(0)?);
            fill(to, 1, |range, mut part| {
                let step = walk.steps()[0];
                walk.stretches(range, |[first], n| {
                    let (row, rest) = std::mem::take(&mut part).split_at_mut(n);
                    part = rest;
                    let first = (start + first) as usize;
                    match step {
                        1 => row.copy_from_slice(&from[first..first + n]),
                        -1 => row.iter_mut().zip(from[first + 1 - n..=first].iter().rev()).for_each(|(to, x)| *to = *x),
                        step => {
                            row.iter_mut().zip(0..).for_each(|(to, j)| *to = from[(first as i64 + j * step) as usize]);
                        }
                    }
                    <T as Stored>::Bits::settle(row);
                });
            });
            Ok(())
        })
    })?;
    Ok(made)
}

/// The dimensions of a dense tensor, outermost in memory first.
fn memory_order(dense: &Tensor) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dense.dim()).collect();
    order.sort_by_key(|d| std::cmp::Reverse(dense.strides()[*d]));
    order
}

/// The columns in reverse order.
pub fn fliplr(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 2, Shape, "fliplr: Input must be >= 2-d.");
    ops::flip(self_, &[1])
}

/// The rows in reverse order.
pub fn flipud(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() >= 1, Shape, "flipud: Input must be >= 1-d.");
    ops::flip(self_, &[0])
}

/// Elements moved along dimensions, those that leave at the end come in at the start; without dimensions, in flat order.
pub fn roll(self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Result<Tensor> {
    ensure!(!shifts.is_empty(), InvalidArgument, "roll: `shifts` required");
    if dims.is_empty() && shifts.len() == 1 {
        let flat = copy::clone(self_, Some(MemoryFormat::Contiguous))?;
        let rolled = roll_dim(&view::view(&flat, &[-1])?, shifts[0], 0)?;
        return view::view(&rolled, self_.sizes());
    }
    ensure!(
        shifts.len() == dims.len(),
        InvalidArgument,
        "roll: shifts and dimensions must align. shifts: {}, dims:{}",
        shifts.len(),
        dims.len()
    );
    ensure!(self_.dim() > 0, Index, "roll: Dimension specified as {} but tensor has no dimensions", dims[0]);
    let mut rolled = self_.clone();
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context("roll"))?;
        rolled = roll_dim(&rolled, shift, d)?;
    }
    Ok(rolled)
}

fn roll_dim(self_: &Tensor, shift: i64, dim: usize) -> Result<Tensor> {
    let size = self_.sizes().get(dim).copied().unwrap_or(0);
    if size == 0 {
        return copy::clone(self_, Some(MemoryFormat::Contiguous));
    }
    let shift = shift.rem_euclid(size);
    let made = TensorSpec::like(self_, self_.sizes()).allocate("roll")?;
    let part = |t: &Tensor, start, end| view::slice(t, dim as i64, Some(start), Some(end), 1);
    ops::copy_(&part(&made, shift, size)?, &part(self_, 0, size - shift)?, false)?;
    ops::copy_(&part(&made, 0, shift)?, &part(self_, size - shift, size)?, false)?;
    Ok(made)
}

/// A turn by `k` quarters in the plane of two dimensions, from the first towards the second.
pub fn rot90(self_: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    ensure!(
        dims.len() == 2,
        InvalidArgument,
        "rot90: expected total rotation dims == 2, but got dims = {}",
        dims.len()
    );
    ensure!(self_.dim() >= 2, Shape, "rot90: expected total dims >= 2, but got total dims = {}", self_.dim());
    wrap_dims("rot90: expected rotation dims to be different", dims, self_.dim())?;
    match k.rem_euclid(4) {
        1 => view::transpose(&ops::flip(self_, &dims[1..])?, dims[0], dims[1]),
        2 => ops::flip(self_, dims),
        3 => view::transpose(&ops::flip(self_, &dims[..1])?, dims[0], dims[1]),
        _ => ops::clone(self_, Some(MemoryFormat::Contiguous)),
    }
}

/// `self_` with `pad[0]` elements before and `pad[1]` behind the last dimension, the next two for the one before, and so on;
/// negative ones cut. New elements are `value`.
pub fn constant_pad_nd(self_: &Tensor, pad: &[i64], value: Scalar) -> Result<Tensor> {
    const NAME: &str = "constant_pad_nd";
    ensure!(
        pad.len().is_multiple_of(2),
        InvalidArgument,
        "{NAME}: Length of pad must be even but instead it equals {}",
        pad.len()
    );
    ensure!(
        pad.len() / 2 <= self_.dim(),
        InvalidArgument,
        "{NAME}: Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while \
         the input has {} dimensions.",
        pad.len(),
        self_.dim()
    );
    let mut sizes = DimVec::from_slice(self_.sizes());
    for (pair, d) in pad.chunks(2).zip((0..self_.dim()).rev()) {
        let padded = sizes[d].checked_add(pair[0]).and_then(|s| s.checked_add(pair[1])).filter(|s| *s >= 0);
        let Some(size) = padded else {
            bail!(
                InvalidArgument,
                "{NAME}: The input size {}, plus negative padding {} and {} resulted in a negative output size, which is \
                 invalid. Check dimension {d} of your input.",
                sizes[d],
                pair[0],
                pair[1]
            );
        };
        sizes[d] = size;
    }
    let made = TensorSpec::like(self_, &sizes).with_format(self_.suggest_memory_format()).allocate(NAME)?;
    ops::fill__scalar(&made, value)?;
    let (mut to, mut from) = (made.clone(), self_.clone());
    for (pair, d) in pad.chunks(2).zip((0..self_.dim() as i64).rev()) {
        to = view::slice(&to, d, Some(pair[0].max(0)), Some(sizes[d as usize] - pair[1].max(0)), 1)?;
        let end = self_.sizes()[d as usize] - pair[1].min(0).saturating_neg();
        from = view::slice(&from, d, Some(pair[0].min(0).saturating_neg()), Some(end.max(0)), 1)?;
    }
    if from.numel() > 0 && to.numel() > 0 {
        ops::copy_(&to, &from, false)?;
    }
    Ok(made)
}
