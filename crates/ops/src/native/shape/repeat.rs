//! `repeat`, `tile` and `repeat_interleave`.

use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ScalarType, bail, ensure, shape};

/// `self_` repeated `repeats[d]` times along each dimension `d`; missing dimensions are inserted in front.
pub fn repeat(self_: &Tensor, repeats: &[i64]) -> Result<Tensor> {
    ensure!(
        repeats.len() >= self_.dim(),
        Shape("repeat", "repeats"),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let missing = repeats.len() - self_.dim();
    // Each dimension of the result is split into repetitions and size; the source is expanded along the former.
    let (mut result_sizes, mut split, mut unexpanded, mut expanded) =
        (DimVec::new(), DimVec::new(), DimVec::new(), DimVec::new());
    for (d, &times) in repeats.iter().enumerate() {
        let size = if d < missing { 1 } else { self_.sizes()[d - missing] };
        let Some(product) = times.checked_mul(size).filter(|_| times >= 0) else {
            bail!(
                InvalidArgument("repeat", "repeats"),
                "expected repeats of at least 0 that fit in 63 bits but got {repeats:?}"
            );
        };
        result_sizes.push(product);
        split.extend([times, size]);
        unexpanded.extend([1, size]);
        expanded.extend([times, size]);
    }
    let made = TensorSpec::like(self_, &result_sizes).allocate("repeat")?;
    if made.numel() > 0 {
        let tiles = view::view(&made, &split)?;
        let source = copy::clone(self_, Some(MemoryFormat::Contiguous))?;
        ops::copy_(&tiles, &view::expand(&view::view(&source, &unexpanded)?, &expanded, false)?, false)?;
    }
    Ok(made)
}

/// [`repeat`], with `dims` extended by leading ones to the number of dimensions.
pub fn tile(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut repeats = DimVec::from_elem(1, self_.dim().saturating_sub(dims.len()));
    repeats.extend_from_slice(dims);
    ops::repeat(self_, &repeats)
}

/// Every index repeated `repeats[index]` times: the indices that `repeat_interleave` selects.
pub fn repeat_interleave_indices(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "repeat_interleave";
    ensure!(repeats.dim() == 1, Shape(NAME, "repeats"), "only accept 1D vector as repeat");
    ensure!(
        matches!(repeats.dtype(), ScalarType::I32 | ScalarType::I64),
        Dtype(NAME, "repeats"),
        "repeats has to be Long or Int tensor"
    );
    if repeats.numel() == 0 {
        return TensorSpec::like(repeats, &[0]).allocate(NAME);
    }
    let counts = if repeats.dtype() == ScalarType::I64 && repeats.is_contiguous() {
        repeats.clone()
    } else {
        copy::to_copy(
            repeats,
            Some(ScalarType::I64),
            None,
            None,
            None,
            false,
            Some(MemoryFormat::Contiguous),
        )?
    };
    let total = with_slices(NAME, &[&counts], &[], |s| total_of(s.read::<i64>(0)?))?;
    ensure!(
        output_size.is_none_or(|size| size == total),
        InvalidArgument(NAME, "output_size"),
        "allocated size does not match required size: expected output_size {total} but got {output_size:?}"
    );
    let made = TensorSpec::like(repeats, &[total]).with_dtype(ScalarType::I64).allocate(NAME)?;
    with_slices(NAME, &[&counts], &[&made], |s| {
        write_repeated(s.read::<i64>(0)?, s.write::<i64>(0)?);
        Ok(())
    })?;
    if repeats.dtype() == ScalarType::I64 {
        return Ok(made);
    }
    copy::to_copy(&made, Some(repeats.dtype()), None, None, None, false, None)
}

/// The sum of repeats, none of which is negative.
fn total_of(counts: &[i64]) -> Result<i64> {
    let signs = with_processor_vectors(
        #[inline(always)]
        || counts.iter().fold(0, |signs, count| signs | count),
    );
    ensure!(signs >= 0, InvalidArgument("repeat_interleave", "repeats"), "repeats can not be negative");
    Ok(counts.iter().fold(0i64, |sum, count| sum.saturating_add(*count)))
}

/// Indices that are written at a time, of which those after the repeats are overwritten.
const AT_ONCE: usize = 4;

/// Each index as many times as its count says; zeros where the counts were changed since they were summed.
fn write_repeated(counts: &[i64], mut out: &mut [i64]) {
    for (index, &count) in (0i64..).zip(counts) {
        let count = (count as usize).min(out.len());
        match out.first_chunk_mut::<AT_ONCE>() {
            Some(first) if count <= AT_ONCE => *first = [index; AT_ONCE],
            _ => out[..count].fill(index),
        }
        out = &mut out[count..];
    }
    out.fill(0);
}

/// Each slice of a dimension repeated as many times as `repeats` says for its index.
pub fn repeat_interleave(
    self_: &Tensor,
    repeats: &Tensor,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    let flat = if dim.is_none() { ops::flatten_using_ints(self_, 0, -1)? } else { self_.clone() };
    let input = if flat.dim() == 0 { ops::reshape(&flat, &[1])? } else { flat };
    let d = shape::wrap_dim(dim.unwrap_or(0), input.dim()).map_err(|e| e.in_operator("repeat_interleave"))?;
    let size = input.sizes()[d];
    ensure!(
        repeats.dim() <= 1,
        Shape("repeat_interleave", "repeats"),
        "repeats must be 0-dim or 1-dim tensor"
    );
    let repeats = if repeats.numel() == 1 {
        ops::expand(&ops::reshape(repeats, &[1])?, &[size], false)?
    } else {
        repeats.clone()
    };
    ensure!(
        repeats.numel() == size,
        Shape("repeat_interleave", "repeats"),
        "repeats must have the same size as input along dim, but got repeats.size(0) = {} and \
         input.size({d}) = {size}",
        repeats.numel()
    );
    ops::index_select(&input, d as i64, &ops::repeat_interleave_tensor(&repeats, output_size)?)
}

/// Each slice of a dimension repeated `repeats` times.
pub fn repeat_interleave_int(
    self_: &Tensor,
    repeats: i64,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Tensor> {
    ensure!(repeats >= 0, InvalidArgument("repeat_interleave", "repeats"), "repeats can not be negative");
    let input = if dim.is_none() || self_.dim() == 0 { ops::reshape(self_, &[-1])? } else { self_.clone() };
    let d = shape::wrap_dim(dim.unwrap_or(0), input.dim()).map_err(|e| e.in_operator("repeat_interleave"))?;
    let total = input.sizes()[d].checked_mul(repeats);
    ensure!(
        output_size.is_none() || output_size == total,
        InvalidArgument("repeat_interleave", "output_size"),
        "expected output_size {total:?} but got {output_size:?}"
    );
    let mut sizes = DimVec::from_slice(input.sizes());
    sizes.insert(d + 1, repeats);
    let expanded = ops::expand(&ops::unsqueeze(&input, d as i64 + 1)?, &sizes, false)?;
    let copied = ops::clone(&expanded, Some(MemoryFormat::Contiguous))?;
    ops::flatten_using_ints(&copied, d as i64, d as i64 + 1)
}
