//! `split`, `chunk`, `tensor_split`, `unbind` and `hsplit` to `dsplit`: views of consecutive parts of a dimension.

use crate::native::shape::view;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, ensure, fallible, shape};

/// The approximate memory of a view and its node in the autograd graph.
const BYTES_OF_VIEW: usize = 512;

/// An empty list with room for `count` tensors.
fn list(name: &str, count: i64) -> Result<Vec<Tensor>> {
    let count = count.max(0) as usize;
    // The tensors are allocated one by one, which aborts when out of memory: so their memory is checked here, too.
    let room = fallible::ensure_room(count.saturating_mul(BYTES_OF_VIEW));
    room.and_then(|()| fallible::with_capacity(count)).map_err(|e| e.in_operator(name))
}

/// Pieces whose starts and ends `bounds` gives.
fn pieces(
    name: &str,
    self_: &Tensor,
    dim: usize,
    count: i64,
    bounds: impl Fn(i64) -> (i64, i64),
) -> Result<Vec<Tensor>> {
    let mut made = list(name, count)?;
    for index in 0..count {
        let (start, end) = bounds(index);
        made.push(view::slice(self_, dim as i64, Some(start), Some(end), 1)?);
    }
    Ok(made)
}

fn dimension(name: &str, self_: &Tensor, dim: i64) -> Result<(usize, i64)> {
    ensure!(self_.dim() > 0, Shape(name, "self"), "expects at least a 1-dimensional tensor");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    Ok((d, self_.sizes()[d]))
}

/// Pieces of size `split_size`; the last one may be smaller.
pub fn split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    let (d, size) = dimension("split", self_, dim)?;
    ensure!(
        split_size >= 0,
        InvalidArgument("split", "split_size"),
        "expects split_size be non-negative, but got split_size={split_size}"
    );
    ensure!(
        split_size > 0 || size == 0,
        InvalidArgument("split", "split_size"),
        "split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
    );
    let step = split_size.max(1);
    let count = (size / step + i64::from(size % step != 0)).max(1);
    pieces("split", self_, d, count, |i| (i * step, (i * step).saturating_add(step).min(size)))
}

/// Pieces of the given sizes, which add up to the dimension's.
pub fn split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let (d, size) = dimension("split_with_sizes", self_, dim)?;
    ensure!(
        split_sizes.iter().all(|s| *s >= 0),
        InvalidArgument("split_with_sizes", "split_sizes"),
        "expects split_sizes have only non-negative entries, but got split_sizes={split_sizes:?}"
    );
    let total = split_sizes.iter().try_fold(0i64, |sum, s| sum.checked_add(*s));
    ensure!(
        total == Some(size),
        InvalidArgument("split_with_sizes", "split_sizes"),
        "expects split_sizes to sum exactly to {size} (input tensor's size at dimension {dim}), but got \
         split_sizes={split_sizes:?}"
    );
    let mut start = 0;
    let mut cut = |length: &i64| {
        let from = start;
        start += length;
        view::slice(self_, d as i64, Some(from), Some(start), 1)
    };
    let mut made = list("split_with_sizes", split_sizes.len() as i64)?;
    for size in split_sizes {
        made.push(cut(size)?);
    }
    Ok(made)
}

/// Another name of [`split_with_sizes`].
pub fn split_sizes(self_: &Tensor, split_size: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    ops::split_with_sizes(self_, split_size, dim)
}

/// At most `chunks` pieces of equal size; the last may be smaller.
pub fn chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    let (_, size) = dimension("chunk", self_, dim)?;
    ensure!(
        chunks > 0,
        InvalidArgument("chunk", "chunks"),
        "expects `chunks` to be greater than 0, got: {chunks}"
    );
    if size == 0 {
        drop(list("chunk", chunks)?);
        let sizes = fallible::filled(0, chunks as usize).map_err(|e| e.in_operator("chunk"))?;
        return ops::split_with_sizes(self_, &sizes, dim);
    }
    ops::split_tensor(self_, size / chunks + i64::from(size % chunks != 0), dim)
}

/// Exactly `sections` pieces; if they do not divide the size, the first ones are larger by one.
pub fn tensor_split_sections(self_: &Tensor, sections: i64, dim: i64) -> Result<Vec<Tensor>> {
    let (d, size) = dimension("tensor_split", self_, dim)?;
    ensure!(
        sections > 0,
        InvalidArgument("tensor_split", "sections"),
        "number of sections must be larger than 0, got {sections}"
    );
    let (min_size, remainder) = (size / sections, size % sections);
    let start = |i: i64| i * min_size + i.min(remainder);
    let mut made = list("tensor_split", sections)?;
    for i in 0..sections {
        made.push(ops::slice_tensor(self_, d as i64, Some(start(i)), Some(start(i + 1)), 1)?);
    }
    Ok(made)
}

/// Pieces between the given indices, which are clamped as those of a slice.
pub fn tensor_split_indices(self_: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    let (d, size) = dimension("tensor_split", self_, dim)?;
    let starts = std::iter::once(0).chain(indices.iter().copied());
    let ends = indices.iter().copied().chain([size]);
    let mut made = list("tensor_split", indices.len() as i64 + 1)?;
    for (start, end) in starts.zip(ends) {
        made.push(ops::slice_tensor(self_, d as i64, Some(start), Some(end), 1)?);
    }
    Ok(made)
}

/// `tensor_split` with the indices, or the number of pieces, in a CPU tensor.
pub fn tensor_split_tensor(self_: &Tensor, indices_or_sections: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        indices_or_sections.dim() <= 1 && indices_or_sections.dtype() == ScalarType::I64,
        InvalidArgument("tensor_split", "tensor_indices_or_sections"),
        "expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor of int64, but \
         got {} dims of {}",
        indices_or_sections.dim(),
        indices_or_sections.dtype()
    );
    match indices_or_sections.dim() {
        0 => ops::tensor_split_sections(self_, indices_or_sections.item_scalar()?.to_i64(), dim),
        _ => ops::tensor_split_indices(self_, &indices_or_sections.to_vec::<i64>()?, dim),
    }
}

/// The slices of a dimension, which is removed.
pub fn unbind(self_: &Tensor, dim: i64) -> Result<Vec<Tensor>> {
    ensure!(
        self_.dim() > 0,
        Index("unbind", "self"),
        "dimension specified as {dim} but tensor has no dimensions"
    );
    let (d, size) = dimension("unbind", self_, dim)?;
    let mut made = list("unbind", size)?;
    for index in 0..size {
        made.push(view::select(self_, d as i64, index)?);
    }
    Ok(made)
}

/// The same pieces as separate slices: autograd allows in-place writes to these, but not to several views of one operator.
fn as_slices(self_: &Tensor, dim: i64, pieces: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut start = 0;
    let slice = |piece: &Tensor| {
        let from = start;
        start += piece.size(dim)?;
        ops::slice_tensor(self_, dim, Some(from), Some(start), 1)
    };
    fallible::try_collect(pieces.iter().map(slice))
}

/// The pieces of [`split`], each of which may be written in place.
pub fn unsafe_split(self_: &Tensor, split_size: i64, dim: i64) -> Result<Vec<Tensor>> {
    as_slices(self_, dim, &ops::split_tensor(self_, split_size, dim)?)
}

/// The pieces of [`split_with_sizes`], each of which may be written in place.
pub fn unsafe_split_with_sizes(self_: &Tensor, split_sizes: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    as_slices(self_, dim, &ops::split_with_sizes(self_, split_sizes, dim)?)
}

/// The pieces of [`chunk`], each of which may be written in place.
pub fn unsafe_chunk(self_: &Tensor, chunks: i64, dim: i64) -> Result<Vec<Tensor>> {
    as_slices(self_, dim, &ops::chunk(self_, chunks, dim)?)
}

/// The dimension that `hsplit`, `vsplit` or `dsplit` splits, of a tensor that must have at least `min_dims` dimensions.
fn split_dim(name: &str, self_: &Tensor, min_dims: usize) -> Result<i64> {
    ensure!(
        self_.dim() >= min_dims,
        Shape(name, "self"),
        "requires a tensor with at least {min_dims} dimension, but got a tensor with {} dimensions!",
        self_.dim()
    );
    Ok(match name {
        "hsplit" => i64::from(self_.dim() > 1),
        "vsplit" => 0,
        _ => 2,
    })
}

fn split_evenly(name: &str, self_: &Tensor, min_dims: usize, sections: i64) -> Result<Vec<Tensor>> {
    let dim = split_dim(name, self_, min_dims)?;
    let size = self_.size(dim)?;
    ensure!(
        sections != 0 && size % sections == 0,
        InvalidArgument(name, "sections"),
        "attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by the \
         split_size {sections}!"
    );
    ops::tensor_split_sections(self_, sections, dim)
}

macro_rules! splits {
    ($($name:literal $min_dims:literal: $sections:ident $indices:ident;)*) => {$(
        #[doc = concat!("`", $name, "` into equal pieces.")]
        pub fn $sections(self_: &Tensor, sections: i64) -> Result<Vec<Tensor>> {
            split_evenly($name, self_, $min_dims, sections)
        }

        #[doc = concat!("`", $name, "` at the given indices.")]
        pub fn $indices(self_: &Tensor, indices: &[i64]) -> Result<Vec<Tensor>> {
            ops::tensor_split_indices(self_, indices, split_dim($name, self_, $min_dims)?)
        }
    )*};
}

splits! {
    "hsplit" 1: hsplit_int hsplit_array;
    "vsplit" 2: vsplit_int vsplit_array;
    "dsplit" 3: dsplit_int dsplit_array;
}
