//! `index_select`, `index_add`, `index_copy` and `index_fill`, which address slices of one dimension by a vector of indices; `one_hot`.

use crate::native::factory::copy;
use crate::native::index::dim_index::{
    Combine, DimIndex, at_least_1d, ensure_written_once, long_index, upcast_if, with_upcast,
};
use crate::native::index::gather_scatter::{into_dense, value_like, zeros_for};
use crate::native::shape::view;
use crate::native::strided_iter::with_zero_stride;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// The index as a vector of i64; a tensor of no dimensions counts as one index.
fn vector(name: &str, index: &Tensor) -> Result<Tensor> {
    ensure!(
        index.dim() <= 1,
        Index(name, "index"),
        "Index is supposed to be a vector, but got dim: {}",
        index.dim()
    );
    let index = long_index(name, index)?;
    if index.dim() == 0 { view::unsqueeze(&index, 0) } else { Ok(index) }
}

/// The strides, over `rank` dimensions, of a vector of indices that extends along `dim`.
fn strides_along(index: &Tensor, dim: usize, rank: usize) -> DimVec {
    let mut strides = DimVec::from_elem(0, rank);
    strides[dim] = index.strides()[0];
    strides
}

/// Shape and type of [`index_select`].
pub fn index_select_meta(self_: &Tensor, dim: i64, index: &Tensor) -> Result<TensorSpec> {
    const NAME: &str = "index_select";
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(NAME))?;
    let index = if index.device().is_meta() { index.clone() } else { vector(NAME, index)? };
    let mut sizes = DimVec::from_slice(self_.sizes());
    match sizes.get_mut(d) {
        Some(size) => *size = index.numel(),
        None => ensure!(
            index.numel() == 1,
            Index(NAME, "index"),
            "Index to scalar can have only 1 value, got {} value(s)",
            index.numel()
        ),
    }
    Ok(TensorSpec::like(self_, &sizes))
}

/// The slices of `self_` along `dim` at `index`, in its order.
pub fn index_select(self_: &Tensor, dim: i64, index: &Tensor, out: &Tensor) -> Result<()> {
    const NAME: &str = "index_select";
    let d = shape::wrap_dim(dim, self_.dim())?;
    let index = vector(NAME, index)?;
    let ((sizes, _), (self_sizes, self_strides)) = (at_least_1d(out), at_least_1d(self_));
    let dim_index = DimIndex {
        name: NAME,
        sizes: &sizes,
        strides: &with_zero_stride(&self_strides, d),
        index_strides: &strides_along(&index, d, sizes.len()),
        dim: d,
        size: self_sizes[d],
        stride: self_strides[d],
    };
    into_dense(out, |dense| dim_index.gather(self_, &index, dense, false))
}

/// The gradient of [`index_select`]: zeros, to which the slices of `grad` are added at `index`.
pub fn index_select_backward(grad: &Tensor, self_sizes: &[i64], dim: i64, index: &Tensor) -> Result<Tensor> {
    ops::index_add(&zeros_for(grad, self_sizes)?, dim, index, grad, Scalar::Int(1))
}

/// Combines the slices of `self_` at `index` with those of `source`. `fresh` says that `self_` is new, so that nobody sees it if the
/// call fails.
fn scatter_slices(
    name: &str,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    how: Combine,
    fresh: bool,
) -> Result<()> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    ensure_written_once(name, self_)?;
    let index = vector(name, index)?;
    ensure!(
        source.dtype() == self_.dtype(),
        Dtype(name, "source"),
        "self and source expected to have the same dtype, but got (self) {} and (source) {}",
        self_.dtype(),
        source.dtype()
    );
    let (mut sizes, self_strides) = at_least_1d(self_);
    let self_size = sizes[d];
    sizes[d] = index.numel();
    let (source_sizes, source_strides) = at_least_1d(source);
    let scalar = source.dim() == 0 && index.numel() == 1 && self_.dim() <= 1;
    ensure!(
        source_sizes == sizes || scalar,
        Shape(name, "source"),
        "expected source of sizes {sizes:?} for {} indices of dimension {d} of a tensor of sizes {:?} but got {:?}",
        index.numel(),
        self_.sizes(),
        source.sizes()
    );
    if self_.device().is_meta() || shape::numel(&sizes)? == 0 && index.numel() == 0 {
        return Ok(());
    }
    let upcast = how.needs_upcast(self_.dtype());
    let source = upcast_if(source, upcast)?;
    let source_strides = if upcast { at_least_1d(&source).1 } else { source_strides };
    let (zero_stride, index_strides) =
        (with_zero_stride(&self_strides, d), strides_along(&index, d, sizes.len()));
    let dim_index = DimIndex {
        name,
        sizes: &sizes,
        strides: &zero_stride,
        index_strides: &index_strides,
        dim: d,
        size: self_size,
        stride: self_strides[d],
    };
    if upcast && dim_index.scatter_few(self_, &index, (&source, &source_strides), how)? {
        return Ok(());
    }
    with_upcast(self_, how, |target, upcast| {
        let strides = if upcast { at_least_1d(target).1 } else { self_strides.clone() };
        let dim_index = DimIndex { strides: &with_zero_stride(&strides, d), stride: strides[d], ..dim_index };
        dim_index.scatter(target, &index, (&source, &source_strides), how, fresh || upcast)
    })
}

fn copied(self_: &Tensor) -> Result<Tensor> {
    copy::clone(self_, Some(MemoryFormat::Contiguous))
}

/// `alpha` times `source`.
fn scaled(self_: &Tensor, source: &Tensor, alpha: Scalar) -> Result<Tensor> {
    const NAME: &str = "index_add";
    ensure!(
        source.dim() == self_.dim(),
        Shape(NAME, "source"),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = {:?} \
         source.shape = {:?}",
        self_.sizes(),
        source.sizes()
    );
    alpha.check_range(self_.dtype()).map_err(|e| e.in_operator(NAME))?;
    if alpha.to_complex() == (1.0, 0.0) { Ok(source.clone()) } else { ops::mul_scalar(source, alpha) }
}

/// Adds `alpha` times the slices of `source`, in the order of `index`.
pub fn index_add_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar) -> Result<()> {
    scatter_slices("index_add", self_, dim, index, &scaled(self_, source, alpha)?, Combine::Add, false)
}

/// As [`index_add_`], into a copy.
pub fn index_add(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor, alpha: Scalar) -> Result<Tensor> {
    let (made, source) = (copied(self_)?, scaled(self_, source, alpha)?);
    scatter_slices("index_add", &made, dim, index, &source, Combine::Add, true)?;
    Ok(made)
}

/// Copies the slices of `source` to those of `self_` at `index`; of equal indices the last one wins.
pub fn index_copy_(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<()> {
    scatter_slices("index_copy", self_, dim, index, source, Combine::Assign, false)
}

/// As [`index_copy_`], into a copy.
pub fn index_copy(self_: &Tensor, dim: i64, index: &Tensor, source: &Tensor) -> Result<Tensor> {
    let made = copied(self_)?;
    scatter_slices("index_copy", &made, dim, index, source, Combine::Assign, true)?;
    Ok(made)
}

/// Fills the slices at `index` with `value`; negative indices count from the end.
pub fn index_fill_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    index_fill_tensor_(self_, dim, index, &value_like("index_fill", self_, value)?)
}

/// As [`index_fill_`], into a copy.
pub fn index_fill(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let made = copy::clone(self_, Some(MemoryFormat::Preserve))?;
    index_fill_(&made, dim, index, value)?;
    Ok(made)
}

/// As [`index_fill_`], with the element of a tensor of no dimensions.
pub fn index_fill_tensor_(self_: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<()> {
    const NAME: &str = "index_fill";
    ensure!(
        value.dim() == 0,
        Shape(NAME, "value"),
        "only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(NAME))?;
    let (mut sizes, self_strides) = at_least_1d(self_);
    let index = wrapped(NAME, &vector(NAME, index)?, d, sizes[d])?;
    ensure!(
        self_.dtype().is_complex() || !value.dtype().is_complex(),
        Dtype(NAME, "value"),
        "expected a real value for a tensor of {} but got one of {}",
        self_.dtype(),
        value.dtype()
    );
    if !value.device().is_meta() && value.dtype() != self_.dtype() {
        value.item_scalar()?.check_range(self_.dtype()).map_err(|e| e.in_operator(NAME))?;
    }
    let value = copy::to_copy(value, Some(self_.dtype()), None, None, None, false, None)?;
    ensure_written_once(NAME, self_)?;
    let size = sizes[d];
    sizes[d] = index.numel();
    if self_.device().is_meta() || index.numel() == 0 {
        return Ok(());
    }
    let dim_index = DimIndex {
        name: NAME,
        sizes: &sizes,
        strides: &with_zero_stride(&self_strides, d),
        index_strides: &strides_along(&index, d, sizes.len()),
        dim: d,
        size,
        stride: self_strides[d],
    };
    // `wrapped` has checked the indices.
    dim_index.scatter(self_, &index, (&value, &DimVec::from_elem(0, sizes.len())), Combine::Assign, true)
}

/// As [`index_fill_tensor_`], into a copy.
pub fn index_fill_tensor(self_: &Tensor, dim: i64, index: &Tensor, value: &Tensor) -> Result<Tensor> {
    let made = copy::clone(self_, Some(MemoryFormat::Preserve))?;
    index_fill_tensor_(&made, dim, index, value)?;
    Ok(made)
}

/// Indices in `-size..size` as dense indices in `0..size`; others are refused.
pub(crate) fn wrapped(name: &str, index: &Tensor, dim: usize, size: i64) -> Result<Tensor> {
    if index.device().is_meta() {
        return Ok(index.clone());
    }
    let mut values = index.to_vec::<i64>().map_err(|e| e.in_operator(name))?;
    for value in &mut values {
        if *value < -size || *value >= size {
            bail!(
                Index(name, "index"),
                "index {value} is out of bounds for dimension {dim} with size {size}"
            );
        }
        *value += if *value < 0 { size } else { 0 };
    }
    Tensor::from_vec(values, index.sizes())
}

/// For each element of `self_` a vector of zeros with a one at that index.
pub fn one_hot(self_: &Tensor, num_classes: i64) -> Result<Tensor> {
    const NAME: &str = "one_hot";
    ensure!(
        self_.dtype() == ScalarType::I64,
        Dtype(NAME, "self"),
        "is only applicable to index tensor of type LongTensor but got {}",
        self_.dtype()
    );
    let classes = if num_classes == -1 {
        let values = self_.to_vec::<i64>().map_err(|e| e.in_operator(NAME))?;
        let Some(max) = values.iter().max() else {
            bail!(InvalidArgument(NAME, "self"), "Can not infer total number of classes from empty tensor.");
        };
        max.saturating_add(1)
    } else {
        num_classes
    };
    ensure!(
        classes > 0 || (classes == 0 && self_.numel() == 0),
        InvalidArgument(NAME, "num_classes"),
        "num_classes should be positive, but got {num_classes} for values that need {classes}"
    );
    let mut sizes = DimVec::from_slice(self_.sizes());
    sizes.push(classes);
    let zeros = ops::zeros(&sizes, Some(ScalarType::I64), None, Some(self_.device()), None)?;
    if self_.numel() == 0 {
        return Ok(zeros);
    }
    ops::scatter_value(&zeros, -1, &ops::unsqueeze(self_, -1)?, Scalar::Int(1))
        .map_err(|e| e.in_operator(NAME))
}
