//! `repeat`, `tile` and `repeat_interleave`.

use crate::native::factory::copy;
use crate::native::guarded_slices::with_slices;
use crate::native::shape::view;
use crate::structured::TensorSpec;
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
    let counts = copy::to_copy(repeats, Some(ScalarType::I64), None, None, None, false, None)?;
    let counts = counts.to_vec::<i64>().map_err(|e| e.in_operator(NAME))?;
    let Some(min) = counts.iter().min() else {
        return TensorSpec::like(repeats, &[0]).allocate(NAME);
    };
    ensure!(*min >= 0, InvalidArgument(NAME, "repeats"), "repeats can not be negative");
    let total = counts.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)).unwrap_or(i64::MAX);
    ensure!(
        output_size.is_none_or(|size| size == total),
        InvalidArgument(NAME, "output_size"),
        "allocated size does not match required size: expected output_size {total} but got {output_size:?}"
    );
    let made = TensorSpec::like(repeats, &[total]).with_dtype(ScalarType::I64).allocate(NAME)?;
    with_slices(NAME, &[], &[&made], |s| {
        let mut out = s.write::<i64>(0)?.iter_mut();
        for (index, count) in counts.iter().enumerate() {
            out.by_ref().take(*count as usize).for_each(|to| *to = index as i64);
        }
        Ok(())
    })?;
    copy::to_copy(&made, Some(repeats.dtype()), None, None, None, false, None)
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
