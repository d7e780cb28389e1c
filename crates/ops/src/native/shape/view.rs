//! Views: tensors with the same storage and other sizes, strides or offsets.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, Geometry, MemoryFormat, Result, ScalarType, TensorImpl, bail, ensure, shape};
use smallvec::SmallVec;

/// A view of the storage of `self_` with the given sizes, strides and offset.
pub fn as_strided(
    self_: &Tensor,
    size: &[i64],
    stride: &[i64],
    storage_offset: Option<i64>,
) -> Result<Tensor> {
    self_.alias_as(size, stride, storage_offset.unwrap_or_else(|| self_.storage_offset()))
}

/// A new tensor with the same storage and geometry.
pub fn alias(self_: &Tensor) -> Result<Tensor> {
    Ok(Tensor::from_impl(self_.impl_().shallow_copy()))
}

/// [`alias`], which autograd does not record.
pub fn detach(self_: &Tensor) -> Result<Tensor> {
    alias(self_)
}

/// A view with other sizes; one of them may be -1.
pub fn view(self_: &Tensor, size: &[i64]) -> Result<Tensor> {
    if let Some(viewed) = self_.impl_().viewed_as(size) {
        return Ok(Tensor::from_impl(viewed));
    }
    let g = self_.geometry();
    let sizes = shape::infer_size(size, g.numel())?;
    match shape::view_strides(g.sizes(), g.strides(), &sizes) {
        Some(strides) => self_.alias_as(&sizes, &strides, g.storage_offset()),
        None => bail!(
            Shape,
            operator = "view",
            argument = "size",
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two \
             contiguous subspaces: sizes {:?}, strides {:?}, requested {size:?}); use reshape instead",
            g.sizes(),
            g.strides()
        ),
    }
}

/// The same bytes as elements of another type; if its size differs, so does the size of the last dimension.
pub fn view_dtype(self_: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    let g = self_.geometry();
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    let mut offset = g.storage_offset();
    let (own, other) = (self_.dtype().size() as i64, dtype.size() as i64);
    if own != other {
        offset = rescaled_strides(self_, &mut sizes, &mut strides, (own, other)).map_err(|e| {
            e.context(format!("cannot view {} as {dtype}, of another element size", self_.dtype()))
        })?;
    }
    let geometry = Geometry::strided(&sizes, &strides, offset)?;
    TensorImpl::new(self_.storage().clone(), geometry, dtype).map(Tensor::from_impl)
}

/// Converts sizes and strides in elements of `own` bytes to elements of `other` bytes; returns the offset.
fn rescaled_strides(
    self_: &Tensor,
    sizes: &mut DimVec,
    strides: &mut DimVec,
    (own, other): (i64, i64),
) -> Result<i64> {
    let (Some(size), Some((last, outer))) = (sizes.last_mut(), strides.split_last_mut()) else {
        bail!(Shape, "self.dim() cannot be 0");
    };
    ensure!(*last == 1, Shape, "self.stride(-1) must be 1, but got {last}");
    let count = |n: i64, what: &str| match n.checked_mul(own) {
        Some(bytes) if bytes % other == 0 => Ok(bytes / other),
        Some(_) => bail!(Shape, "{what} must be divisible by {}, but got {n}", other / own),
        None => bail!(Overflow, "{what} is too large: {n}"),
    };
    *size = count(*size, "self.size(-1)")?;
    for stride in outer {
        *stride = count(*stride, "each stride but the last")?;
    }
    count(self_.storage_offset(), "self.storage_offset()")
}

/// A view with other sizes, or a copy where no view has them.
pub fn reshape(self_: &Tensor, shape: &[i64]) -> Result<Tensor> {
    let sizes = shape::infer_size(shape, self_.numel())?;
    if shape::view_strides(self_.sizes(), self_.strides(), &sizes).is_some() {
        return ops::view(self_, &sizes);
    }
    ops::view(&ops::clone(self_, Some(MemoryFormat::Contiguous))?, &sizes)
}

/// A view with the dimensions in another order.
pub fn permute(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let g = self_.geometry();
    ensure!(
        dims.len() == g.dim(),
        Shape("permute", "dims"),
        "expected as many dims as the tensor has dimensions ({}) but got {dims:?}",
        g.dim()
    );
    let mut seen: DimVec = DimVec::from_elem(0, dims.len());
    let mut sizes = DimVec::new();
    let mut strides = DimVec::new();
    for &dim in dims {
        let d = shape::wrap_dim(dim, g.dim())?;
        ensure!(
            seen[d] == 0,
            InvalidArgument("permute", "dims"),
            "expected each dimension once but got {dims:?}"
        );
        seen[d] = 1;
        sizes.push(g.sizes()[d]);
        strides.push(g.strides()[d]);
    }
    self_.alias_as(&sizes, &strides, g.storage_offset())
}

/// A view with two dimensions exchanged.
pub fn transpose(self_: &Tensor, dim0: i64, dim1: i64) -> Result<Tensor> {
    let g = self_.geometry();
    let (a, b) = (shape::wrap_dim(dim0, g.dim())?, shape::wrap_dim(dim1, g.dim())?);
    if a == b {
        return alias(self_);
    }
    Ok(Tensor::from_impl(self_.impl_().transposed(a, b)))
}

/// The transpose of a matrix; tensors of fewer dimensions are returned as they are.
pub fn t(self_: &Tensor) -> Result<Tensor> {
    ensure!(self_.dim() <= 2, Shape("t", "self"), "expected at most 2 dimensions but got {}", self_.dim());
    ops::transpose_int(self_, 0, if self_.dim() < 2 { 0 } else { 1 })
}

/// A view with a dimension of size 1 inserted at `dim`.
pub fn unsqueeze(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let g = self_.geometry();
    let d = shape::wrap_dim(dim, g.dim() + 1)?;
    let stride = if d < g.dim() { g.sizes()[d].saturating_mul(g.strides()[d]) } else { 1 };
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    sizes.insert(d, 1);
    strides.insert(d, stride);
    self_.alias_as(&sizes, &strides, g.storage_offset())
}

/// A view with dimensions of size 1 expanded to `size`; -1 keeps a size.
pub fn expand(self_: &Tensor, size: &[i64], _implicit: bool) -> Result<Tensor> {
    let g = self_.geometry();
    let missing = size.len().checked_sub(g.dim());
    let Some(missing) = missing else {
        bail!(
            Shape("expand", "size"),
            "expected at least {} sizes for a tensor of sizes {:?} but got {size:?}",
            g.dim(),
            g.sizes()
        );
    };
    let mut target = DimVec::from_slice(size);
    for (d, size_d) in target.iter_mut().enumerate() {
        if *size_d == -1 && d >= missing {
            *size_d = g.sizes()[d - missing];
        }
        ensure!(
            *size_d >= 0,
            Shape("expand", "size"),
            "expected sizes of at least 0 (or -1 for existing dimensions) but got {size:?}"
        );
    }
    let strides =
        shape::expand_strides(g.sizes(), g.strides(), &target).map_err(|e| e.in_operator("expand"))?;
    self_.alias_as(&target, &strides, g.storage_offset())
}

/// The slice at one index of a dimension, which is removed.
pub fn select(self_: &Tensor, dim: i64, index: i64) -> Result<Tensor> {
    let g = self_.geometry();
    ensure!(g.dim() > 0, Index("select", "self"), "cannot be applied to a tensor with no dimensions");
    let d = shape::wrap_dim(dim, g.dim())?;
    let size = g.sizes()[d];
    ensure!(
        index >= -size && index < size,
        Index("select", "index"),
        "index {index} out of range for dimension {dim} of size {size}"
    );
    let at = if index < 0 { index + size } else { index };
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    sizes.remove(d);
    let stride = strides.remove(d);
    // Of an empty tensor the product may be beyond 2^63.
    self_.alias_as(&sizes, &strides, g.storage_offset().saturating_add(at.saturating_mul(stride)))
}

/// Every `step`-th index of a dimension in `start..end`, which are clamped to its size.
pub fn slice(self_: &Tensor, dim: i64, start: Option<i64>, end: Option<i64>, step: i64) -> Result<Tensor> {
    let g = self_.geometry();
    ensure!(g.dim() > 0, Index("slice", "self"), "cannot be applied to a tensor with no dimensions");
    let d = shape::wrap_dim(dim, g.dim())?;
    ensure!(step > 0, InvalidArgument("slice", "step"), "expected a positive step but got {step}");
    let size = g.sizes()[d];
    let clamp = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
    let start = clamp(start.unwrap_or(0));
    let end = clamp(end.unwrap_or(i64::MAX)).max(start);
    let count = (end - start) / step + i64::from((end - start) % step != 0);
    match self_.impl_().sliced(d, start, count, step) {
        Some(made) => Ok(Tensor::from_impl(made)),
        None => bail!(Internal("slice"), "expected indices of {size} but got {count} from {start} by {step}"),
    }
}

/// A view without the dimensions of size 1.
pub fn squeeze(self_: &Tensor) -> Result<Tensor> {
    without_units(self_, |_| true)
}

/// A view without dimension `dim`, if its size is 1.
pub fn squeeze_dim(self_: &Tensor, dim: i64) -> Result<Tensor> {
    let d = shape::wrap_dim(dim, self_.dim())?;
    without_units(self_, |other| other == d)
}

/// A view without those of the dimensions `dim` whose size is 1.
pub fn squeeze_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let dims = wrap_dims("squeeze", dim, self_.dim())?;
    without_units(self_, |d| dims.contains(&d))
}

fn without_units(self_: &Tensor, is_removed: impl Fn(usize) -> bool) -> Result<Tensor> {
    let g = self_.geometry();
    let kept = |d: &usize| g.sizes()[*d] != 1 || !is_removed(*d);
    let sizes: DimVec = (0..g.dim()).filter(kept).map(|d| g.sizes()[d]).collect();
    let strides: DimVec = (0..g.dim()).filter(kept).map(|d| g.strides()[d]).collect();
    self_.alias_as(&sizes, &strides, g.storage_offset())
}

/// Converts dimensions, of which negative ones count from the end, to indices from the front; refuses repeated ones.
pub(crate) fn wrap_dims(name: &str, dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 6]>> {
    let mut wrapped: SmallVec<[usize; 6]> = SmallVec::new();
    for &dim in dims {
        let d = shape::wrap_dim(dim, rank).map_err(|e| e.in_operator(name))?;
        ensure!(
            !wrapped.contains(&d),
            InvalidArgument(name, "dims"),
            "dim {d} appears multiple times in the list of dims"
        );
        wrapped.push(d);
    }
    Ok(wrapped)
}

/// The elements whose indices in two dimensions differ by `offset`, as the last dimension of a view; both dimensions are removed.
pub fn diagonal(self_: &Tensor, offset: i64, dim1: i64, dim2: i64) -> Result<Tensor> {
    let g = self_.geometry();
    let context = |e: flambeau_core::Error| e.in_operator("diagonal");
    let a = shape::wrap_dim(dim1, g.dim()).map_err(context)?;
    let b = shape::wrap_dim(dim2, g.dim()).map_err(context)?;
    ensure!(
        a != b,
        InvalidArgument("diagonal", "dim2"),
        "diagonal dimensions cannot be identical {dim1}, {dim2}"
    );
    let (rows, columns) = (g.sizes()[a], g.sizes()[b]);
    let (below, right) = if offset < 0 { (offset.saturating_neg(), 0) } else { (0, offset) };
    let length = rows.saturating_sub(below).min(columns.saturating_sub(right)).max(0);
    let behind = |index: i64, d: usize| index.saturating_mul(g.strides()[d]);
    let start = if length > 0 { behind(below, a).saturating_add(behind(right, b)) } else { 0 };
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    for d in [a.max(b), a.min(b)] {
        sizes.remove(d);
        strides.remove(d);
    }
    sizes.push(length);
    strides.push(g.strides()[a].saturating_add(g.strides()[b]));
    self_.alias_as(&sizes, &strides, g.storage_offset().saturating_add(start))
}

/// A view of windows of `size` elements of a dimension, one every `step`; the last dimension is that of a window's elements.
pub fn unfold(self_: &Tensor, dimension: i64, size: i64, step: i64) -> Result<Tensor> {
    let g = self_.geometry();
    let d = shape::wrap_dim(dimension, g.dim()).map_err(|e| e.in_operator("unfold"))?;
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    let (length, stride) = if g.dim() == 0 { (1, 1) } else { (sizes[d], strides[d]) };
    ensure!(size >= 0, InvalidArgument("unfold", "size"), "size is {size} but must be >= 0");
    ensure!(
        size <= length,
        InvalidArgument("unfold", "size"),
        "maximum size for tensor at dimension {d} is {length} but size is {size}"
    );
    ensure!(step > 0, InvalidArgument("unfold", "step"), "step is {step} but must be > 0");
    if g.dim() > 0 {
        sizes[d] = (length - size) / step + 1;
        strides[d] = stride.saturating_mul(step);
    }
    sizes.push(size);
    strides.push(stride);
    self_.alias_as(&sizes, &strides, g.storage_offset())
}
