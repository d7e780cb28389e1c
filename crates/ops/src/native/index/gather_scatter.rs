//! Elements read or written at places that a tensor of indices names, along one dimension.

use crate::native::index::dim_index::{Combine, Places, at_least_1d, ensure_written_once, in_wide, long_index, widened};
use crate::native::strided_iter::without;
use crate::native::factory::copy;
use crate::native::shape::view;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// Refuses an index that reaches past `sizes` of the tensor called `which`, in all dimensions but `except`.
fn check_fits(name: &str, index: &Tensor, which: &str, tensor: &Tensor, except: Option<usize>) -> Result<()> {
    let ((index_sizes, _), (sizes, _)) = (at_least_1d(index), at_least_1d(tensor));
    ensure!(
        index_sizes.len() == sizes.len(),
        Shape,
        "{name}: Index tensor must have the same number of dimensions as {which} tensor"
    );
    ensure!(
        (0..sizes.len()).all(|d| Some(d) == except || index_sizes[d] <= sizes[d]),
        Shape,
        "{name}: Expected index {index_sizes:?} to be no larger than {which} {sizes:?} apart from dimension {except:?}"
    );
    Ok(())
}

/// Shape and type of [`gather`].
pub fn gather_meta(self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<TensorSpec> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context("gather"))?;
    ensure!(
        matches!(index.dtype(), ScalarType::I64 | ScalarType::I32) || index.numel() == 0,
        Dtype,
        "gather: Expected dtype int32/int64 for index but got {}",
        index.dtype()
    );
    if index.numel() > 0 {
        check_fits("gather", index, "input", self_, Some(d))?;
    }
    Ok(TensorSpec::like(self_, index.sizes()))
}

/// `out[i][j][k] = self_[index[i][j][k]][j][k]`, for dimension 0.
pub fn gather(self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool, out: &Tensor) -> Result<()> {
    if out.numel() == 0 {
        return Ok(());
    }
    let dim = shape::wrap_dim(dim, self_.dim())?;
    let index = long_index("gather", index)?;
    let ((sizes, index_strides), (self_sizes, self_strides)) = (at_least_1d(&index), at_least_1d(self_));
    let places = Places {
        name: "gather",
        sizes: &sizes,
        strides: &without(&self_strides, dim),
        index_strides: &index_strides,
        dim,
        size: self_sizes[dim],
        stride: self_strides[dim],
    };
    into_dense(out, |dense| places.pick(self_, &index, dense))
}

/// Calls `f` with `out`, or with a dense tensor that is copied into it.
pub(crate) fn into_dense(out: &Tensor, f: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    if out.is_contiguous() {
        return f(out);
    }
    let dense = TensorSpec::like(out, out.sizes()).allocate("index")?;
    f(&dense)?;
    copy::copy_(out, &dense, false)
}

/// What is written at the places that an index names.
#[derive(Clone, Copy)]
struct Written<'a> {
    /// As large as the index, or a single element where `one_value`.
    src: &'a Tensor,
    one_value: bool,
    how: Combine,
    /// Nobody sees what it is written into if the call fails.
    fresh: bool,
}

impl<'a> Written<'a> {
    /// The elements of `src`, into a tensor that others know.
    fn elements(src: &'a Tensor, how: Combine) -> Self {
        Written { src, one_value: false, how, fresh: false }
    }

    /// The one element of `value`.
    fn value(value: &'a Tensor, how: Combine) -> Self {
        Written { one_value: true, ..Written::elements(value, how) }
    }

    fn into_fresh(self) -> Self {
        Written { fresh: true, ..self }
    }
}

/// Writes into the places of `self_` that `index` names.
fn scatter(name: &str, self_: &Tensor, dim: i64, index: &Tensor, written: Written<'_>) -> Result<()> {
    let Written { src, one_value, how, fresh } = written;
    let dim = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context(name))?;
    ensure_written_once(name, self_)?;
    ensure!(
        src.dtype() == self_.dtype(),
        Dtype,
        "{name}: Expected self.dtype to be equal to src.dtype, but got {} and {}",
        self_.dtype(),
        src.dtype()
    );
    if index.numel() == 0 {
        return Ok(());
    }
    let index = long_index(name, index)?;
    check_fits(name, &index, "self", self_, Some(dim))?;
    if !one_value {
        check_fits(name, &index, "src", src, None)?;
    }
    if self_.device().is_meta() {
        return Ok(());
    }
    let (sizes, index_strides) = at_least_1d(&index);
    in_wide(self_, how, |target, wide| {
        let (self_sizes, self_strides) = at_least_1d(target);
        let src = widened(src, wide)?;
        let src_strides = if one_value { DimVec::from_elem(0, sizes.len()) } else { at_least_1d(&src).1 };
        let places = Places {
            name,
            sizes: &sizes,
            strides: &without(&self_strides, dim),
            index_strides: &index_strides,
            dim,
            size: self_sizes[dim],
            stride: self_strides[dim],
        };
        places.place(target, &index, (&src, &src_strides), how, fresh || wide)
    })
}

/// The tensor of no dimensions that holds `value` in the type and place of `self_`.
pub(crate) fn value_like(name: &str, self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let made = TensorSpec::like(self_, &[]).allocate(name)?;
    copy::fill_(&made, value).map_err(|e| e.context(name))?;
    Ok(made)
}

fn reduction(name: &str, reduce: &str) -> Result<Combine> {
    match reduce {
        "add" => Ok(Combine::Add),
        "multiply" => Ok(Combine::Multiply),
        other => {
            bail!(InvalidArgument, "{name}: reduce argument must be either add or multiply. got {other}")
        }
    }
}

fn copied(self_: &Tensor) -> Result<Tensor> {
    copy::clone(self_, Some(MemoryFormat::Contiguous))
}

/// [`scatter`] into a copy.
fn scattered(name: &str, self_: &Tensor, dim: i64, index: &Tensor, written: Written<'_>) -> Result<Tensor> {
    let made = copied(self_)?;
    scatter(name, &made, dim, index, written.into_fresh())?;
    Ok(made)
}

/// `self_[index[i][j]][j] = src[i][j]`, for dimension 0.
pub fn scatter_src_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    scatter("scatter", self_, dim, index, Written::elements(src, Combine::Assign))
}

/// As [`scatter_src_`], into a copy.
pub fn scatter_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered("scatter", self_, dim, index, Written::elements(src, Combine::Assign))
}

/// `self_[index[i][j]][j] = value`, for dimension 0.
pub fn scatter_value_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    let value = value_like("scatter", self_, value)?;
    scatter("scatter", self_, dim, index, Written::value(&value, Combine::Assign))
}

/// As [`scatter_value_`], into a copy.
pub fn scatter_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let value = value_like("scatter", self_, value)?;
    scattered("scatter", self_, dim, index, Written::value(&value, Combine::Assign))
}

/// As [`scatter_src_`], added to or multiplied with what is there.
pub fn scatter_reduce_src_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<()> {
    scatter("scatter", self_, dim, index, Written::elements(src, reduction("scatter", reduce)?))
}

/// As [`scatter_reduce_src_`], into a copy.
pub fn scatter_reduce_src(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scattered("scatter", self_, dim, index, Written::elements(src, reduction("scatter", reduce)?))
}

/// As [`scatter_value_`], added to or multiplied with what is there.
pub fn scatter_reduce_value_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<()> {
    let value = value_like("scatter", self_, value)?;
    scatter("scatter", self_, dim, index, Written::value(&value, reduction("scatter", reduce)?))
}

/// As [`scatter_reduce_value_`], into a copy.
pub fn scatter_reduce_value(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<Tensor> {
    let value = value_like("scatter", self_, value)?;
    scattered("scatter", self_, dim, index, Written::value(&value, reduction("scatter", reduce)?))
}

/// `self_[index[i][j]][j] += src[i][j]`, for dimension 0, in row-major order of `index`.
pub fn scatter_add_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    scatter("scatter_add", self_, dim, index, Written::elements(src, Combine::Add))
}

/// As [`scatter_add_`], into a copy.
pub fn scatter_add(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered("scatter_add", self_, dim, index, Written::elements(src, Combine::Add))
}

/// As [`scatter_src`], combined with what is there by sum, prod, amax or amin.
pub fn scatter_reduce_two(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    const NAME: &str = "scatter_reduce";
    let (how, start) = match reduce {
        "sum" | "mean" => (Combine::Add, 0.0),
        "prod" => (Combine::Multiply, 1.0),
        "amax" => (Combine::Greatest, f64::NEG_INFINITY),
        "amin" => (Combine::Least, f64::INFINITY),
        other => bail!(
            InvalidArgument,
            "{NAME}: reduce argument must be either sum, prod, mean, amax or amin, got {other}."
        ),
    };
    let made = copied(self_)?;
    if !include_self {
        let start = match how {
            Combine::Greatest | Combine::Least => extreme(self_.dtype(), start),
            _ => Scalar::Float(start),
        };
        let start = value_like(NAME, self_, start)?;
        scatter(NAME, &made, dim, index, Written::value(&start, Combine::Assign).into_fresh())?;
    }
    scatter(NAME, &made, dim, index, Written::elements(src, how).into_fresh())?;
    if reduce == "mean" {
        let counts = written(self_, dim, index, include_self)?;
        let rounding = if self_.is_floating_point() { None } else { Some("floor") };
        ops::div__tensor_mode(&made, &counts, rounding)?;
    }
    Ok(made)
}

/// How many elements come together at each place of `self_`, at least one.
fn written(self_: &Tensor, dim: i64, index: &Tensor, include_self: bool) -> Result<Tensor> {
    let counts = ops::ones(self_.sizes(), Some(ScalarType::I64), None, Some(self_.device()), None)?;
    if !include_self {
        scatter_value_(&counts, dim, index, Scalar::Int(0))?;
    }
    scatter_reduce_value_(&counts, dim, index, Scalar::Int(1), "add")?;
    Ok(counts)
}

/// The least value of a type where `sign` is negative, else the greatest.
fn extreme(dtype: ScalarType, sign: f64) -> Scalar {
    let (least, greatest) = match dtype {
        ScalarType::Bool => return Scalar::Bool(sign > 0.0),
        ScalarType::U8 => (0, 255),
        ScalarType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        ScalarType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        ScalarType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        ScalarType::I64 => (i64::MIN, i64::MAX),
        _ => return Scalar::Float(sign),
    };
    Scalar::Int(if sign < 0.0 { least } else { greatest })
}

/// Indices of which negative ones count from the end of `size`.
fn counted_from_start(indices: &Tensor, size: i64) -> Result<Tensor> {
    let from_end = ops::lt_scalar(indices, Scalar::Int(0))?;
    ops::where_self(&from_end, &ops::add_scalar(indices, Scalar::Int(size), Scalar::Int(1))?, indices)
}

/// [`gather`] with an index that broadcasts against `self_` in the other dimensions.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "take_along_dim";
    let Some(dim) = dim else {
        let indices = counted_from_start(&ops::reshape(indices, &[-1])?, self_.numel())?;
        return ops::gather(&ops::reshape(self_, &[-1])?, 0, &indices, false);
    };
    ensure!(
        self_.dim() == indices.dim(),
        Shape,
        "{NAME}: input and indices should have the same number of dimensions, but got {} dimensions for input, and {} \
         dimensions for indices",
        self_.dim(),
        indices.dim()
    );
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.context(NAME))?;
    if self_.dim() == 0 {
        return ops::gather(self_, 0, indices, false);
    }
    let mut own = DimVec::from_slice(self_.sizes());
    own[d] = 1;
    let mut other = DimVec::from_slice(indices.sizes());
    other[d] = 1;
    let mut sizes = shape::broadcast(&own, &other).map_err(|e| e.context(NAME))?;
    sizes[d] = self_.sizes()[d];
    let source = ops::expand(self_, &sizes, false)?;
    sizes[d] = indices.sizes()[d];
    let indices = counted_from_start(indices, self_.sizes()[d])?;
    ops::gather(&source, d as i64, &ops::expand(&indices, &sizes, false)?, false)
}

/// What `self_` of [`gather`] receives: `grad` added up at the places it was read from.
pub fn gather_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse_grad: bool,
) -> Result<Tensor> {
    ensure!(!sparse_grad, NotImplemented, "gather_backward: sparse gradients are not implemented");
    let zeros = zeros_for(grad, self_.sizes())?;
    ops::scatter_add(&zeros, dim, index, grad)
}

/// Zeros of the type and place of `grad`.
pub(crate) fn zeros_for(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::zeros(sizes, Some(grad.dtype()), Some(grad.layout()), Some(grad.device()), None)
}

/// What the input of `sort`, `topk`, `max.dim` receives: `grad` at the places of the values that were chosen.
pub fn value_selecting_reduction_backward(
    grad: &Tensor,
    dim: i64,
    indices: &Tensor,
    sizes: &[i64],
    keepdim: bool,
) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return ops::scatter_src(&zeros_for(grad, sizes)?, dim, indices, grad);
    }
    let (grad, indices) = (ops::unsqueeze(grad, dim)?, view::unsqueeze(indices, dim)?);
    ops::scatter_src(&zeros_for(&grad, sizes)?, dim, &indices, &grad)
}
