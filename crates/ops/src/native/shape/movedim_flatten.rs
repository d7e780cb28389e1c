//! Views that are composed of other views: `flatten`, `unflatten`, `movedim`, `narrow`, `expand_as`, `mT` and others.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, ensure, fallible, shape};

/// `self_` in the sizes of `other`.
pub fn view_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::view(self_, other.sizes())
}

/// `self_` in the sizes of `other`; a copy where no view has them.
pub fn reshape_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::reshape(self_, other.sizes())
}

/// `self_` expanded to the sizes of `other`.
pub fn expand_as(self_: &Tensor, other: &Tensor) -> Result<Tensor> {
    ops::expand(self_, other.sizes(), false)
}

/// `self_` expanded to `size`.
pub fn broadcast_to(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    ops::expand(self_, size, false)
}

/// All tensors expanded to the sizes that they broadcast to.
pub fn broadcast_tensors(tensors: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut sizes = DimVec::new();
    for tensor in tensors {
        sizes = shape::broadcast(&sizes, tensor.sizes()).map_err(|e| e.in_operator("broadcast_tensors"))?;
    }
    fallible::try_collect(tensors.iter().map(|t| ops::expand(t, &sizes, false)))
}

/// Dimensions `start_dim` to `end_dim` merged to one.
pub fn flatten(self_: &Tensor, start_dim: i64, end_dim: i64) -> Result<Tensor> {
    let context = |e: flambeau_core::Error| e.in_operator("flatten");
    let start = shape::wrap_dim(start_dim, self_.dim()).map_err(context)?;
    let end = shape::wrap_dim(end_dim, self_.dim()).map_err(context)?;
    ensure!(
        start <= end,
        InvalidArgument("flatten", "start_dim"),
        "has invalid args: start_dim cannot come after end_dim"
    );
    if self_.dim() == 0 {
        return ops::reshape(self_, &[1]);
    }
    if start == end {
        return Ok(self_.clone());
    }
    let sizes = self_.sizes();
    let joined = shape::numel(&sizes[start..=end]).map_err(context)?;
    let mut flattened = DimVec::from_slice(&sizes[..start]);
    flattened.push(joined);
    flattened.extend_from_slice(&sizes[end + 1..]);
    ops::reshape(self_, &flattened)
}

/// All elements as one dimension.
pub fn ravel(self_: &Tensor) -> Result<Tensor> {
    ops::view(&ops::contiguous(self_, MemoryFormat::Contiguous)?, &[-1])
}

/// Dimension `dim` split into several of `sizes`; one of them may be -1.
pub fn unflatten(self_: &Tensor, dim: i64, sizes: &[i64]) -> Result<Tensor> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("unflatten"))?;
    ensure!(!sizes.is_empty(), InvalidArgument("unflatten", "sizes"), "sizes must be non-empty");
    ensure!(
        self_.dim() > 0,
        Index("unflatten", "self"),
        "expected a dimension to split but the tensor has none"
    );
    let whole = self_.sizes()[d];
    let inferred = shape::infer_size(sizes, whole).map_err(|e| {
        e.context(format!(
            "unflatten: provided sizes {sizes:?} don't multiply up to the size of dim {d} ({whole}) in the input tensor"
        ))
    })?;
    let mut unflattened = DimVec::from_slice(self_.sizes());
    unflattened.remove(d);
    unflattened.insert_from_slice(d, &inferred);
    ops::view(self_, &unflattened)
}

/// `length` indices of a dimension from `start`.
pub fn narrow(self_: &Tensor, dim: i64, start: i64, length: i64) -> Result<Tensor> {
    ensure!(self_.dim() > 0, Shape("narrow", "self"), "cannot be applied to a 0-dim tensor");
    ensure!(length >= 0, InvalidArgument("narrow", "length"), "length must be non-negative but got {length}");
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("narrow"))?;
    let size = self_.sizes()[d];
    ensure!(
        (-size..=size).contains(&start),
        Index("narrow", "start"),
        "start out of range (expected to be in range of [{}, {size}], but got {start})",
        -size
    );
    let start = if start < 0 { start + size } else { start };
    ensure!(
        start <= size.saturating_sub(length),
        InvalidArgument("narrow", "length"),
        "start ({start}) + length ({length}) exceeds dimension size ({size})"
    );
    ops::slice_tensor(self_, dim, Some(start), Some(start + length), 1)
}

/// [`narrow`] from the index in a tensor without dimensions.
pub fn narrow_tensor(self_: &Tensor, dim: i64, start: &Tensor, length: i64) -> Result<Tensor> {
    ensure!(
        start.dim() == 0 && start.dtype().is_integral(false),
        InvalidArgument("narrow", "start"),
        "start must be an 0-dim integral Tensor."
    );
    ops::narrow(self_, dim, start.item_scalar()?.to_i64(), length)
}

/// Moves dimensions `source` to positions `destination`; the others keep their order.
pub fn movedim(self_: &Tensor, source: &[i64], destination: &[i64]) -> Result<Tensor> {
    ensure!(
        source.len() == destination.len(),
        InvalidArgument("movedim", "source"),
        "Invalid source or destination dims: source ({source:?} dims) should contain the same number of dims as \
         destination ({destination:?} dims)"
    );
    let rank = self_.dim();
    let source = crate::native::shape::view::wrap_dims("movedim: repeated dim in `source`", source, rank)?;
    let destination =
        crate::native::shape::view::wrap_dims("movedim: repeated dim in `destination`", destination, rank)?;
    if rank == 0 {
        return ops::alias(self_);
    }
    let mut order = DimVec::from_elem(-1, rank);
    source.iter().zip(&destination).for_each(|(from, to)| order[*to] = *from as i64);
    let mut others = (0..rank).filter(|d| !source.contains(d));
    for unset in order.iter_mut().filter(|dim| **dim < 0) {
        *unset = others.next().map_or(-1, |d| d as i64);
    }
    ops::permute(self_, &order)
}

/// Moves dimension `source` to position `destination`.
pub fn movedim_int(self_: &Tensor, source: i64, destination: i64) -> Result<Tensor> {
    ops::movedim_intlist(self_, &[source], &[destination])
}

/// Two dimensions exchanged.
pub fn swapaxes(self_: &Tensor, axis0: i64, axis1: i64) -> Result<Tensor> {
    ops::transpose_int(self_, axis0, axis1)
}

/// The dimensions in reverse order.
pub fn numpy_t(self_: &Tensor) -> Result<Tensor> {
    let order: DimVec = (0..self_.dim() as i64).rev().collect();
    ops::permute(self_, &order)
}

/// The last two dimensions exchanged.
pub fn m_t(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 2,
        Shape,
        operator = "mT",
        argument = "self",
        "mT: tensor.mT is only supported on matrices or batches of matrices. Got {}-D tensor.",
        self_.dim()
    );
    ops::transpose_int(self_, -2, -1)
}

/// The conjugate with the last two dimensions exchanged.
pub fn adjoint(self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() >= 2,
        Shape("adjoint", "self"),
        "tensor.adjoint() is only supported on matrices or batches of matrices. Got {}-D tensor.",
        self_.dim()
    );
    ops::transpose_int(&ops::conj(self_)?, -2, -1)
}
