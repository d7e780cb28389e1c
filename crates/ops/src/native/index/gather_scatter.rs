//! `gather`, `scatter` and their variants, and `take_along_dim`.

use crate::enums::ScatterReduction;
use crate::native::factory::copy;
use crate::native::index::dim_index::{
    Combine, DimIndex, at_least_1d, ensure_written_once, long_index, upcast_if, with_upcast,
};
use crate::native::strided_iter::with_zero_stride;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ScalarType, bail, ensure, shape};

/// Refuses an index that is larger than the tensor called `which` in a dimension other than `except`.
fn check_fits(name: &str, index: &Tensor, which: &str, tensor: &Tensor, except: Option<usize>) -> Result<()> {
    let ((index_sizes, _), (sizes, _)) = (at_least_1d(index), at_least_1d(tensor));
    ensure!(
        index_sizes.len() == sizes.len(),
        Shape(name, "index"),
        "Index tensor must have the same number of dimensions as {which} tensor"
    );
    ensure!(
        (0..sizes.len()).all(|d| Some(d) == except || index_sizes[d] <= sizes[d]),
        Shape(name, "index"),
        "Expected index {index_sizes:?} to be no larger than {which} {sizes:?} apart from dimension {except:?}"
    );
    Ok(())
}

/// Shape and type of [`gather`].
pub fn gather_meta(self_: &Tensor, dim: i64, index: &Tensor, _sparse_grad: bool) -> Result<TensorSpec> {
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator("gather"))?;
    ensure!(
        matches!(index.dtype(), ScalarType::I64 | ScalarType::I32) || index.numel() == 0,
        Dtype("gather", "index"),
        "Expected dtype int32/int64 for index but got {}",
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
    let dim_index = DimIndex {
        name: "gather",
        sizes: &sizes,
        strides: &with_zero_stride(&self_strides, dim),
        index_strides: &index_strides,
        dim,
        size: self_sizes[dim],
        stride: self_strides[dim],
    };
    into_dense(out, |dense| dim_index.gather(self_, &index, dense, false))
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

/// What `scatter` writes, and how.
#[derive(Clone, Copy)]
struct Source<'a> {
    /// At least as large as the index, or a single element if `one_value`.
    src: &'a Tensor,
    one_value: bool,
    how: Combine,
    /// Whether the output is new, so that nobody sees it if the call fails.
    fresh: bool,
}

impl<'a> Source<'a> {
    /// The elements of `src`, into a tensor of the caller.
    fn elements(src: &'a Tensor, how: Combine) -> Self {
        Source { src, one_value: false, how, fresh: false }
    }

    /// The one element of `value`.
    fn value(value: &'a Tensor, how: Combine) -> Self {
        Source { one_value: true, ..Source::elements(value, how) }
    }

    fn into_fresh(self) -> Self {
        Source { fresh: true, ..self }
    }
}

/// Combines the elements of `self_` at `index` with the source.
fn scatter(name: &str, self_: &Tensor, dim: i64, index: &Tensor, source: Source<'_>) -> Result<()> {
    let Source { src, one_value, how, fresh } = source;
    let dim = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    ensure_written_once(name, self_)?;
    ensure!(
        src.dtype() == self_.dtype(),
        Dtype(name, "src"),
        "Expected self.dtype to be equal to src.dtype, but got {} and {}",
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
    let upcast = how.needs_upcast(self_.dtype());
    let src = upcast_if(src, upcast)?;
    let src_strides = if one_value { DimVec::from_elem(0, sizes.len()) } else { at_least_1d(&src).1 };
    let (self_sizes, self_strides) = at_least_1d(self_);
    let zero_stride = with_zero_stride(&self_strides, dim);
    let dim_index = DimIndex {
        name,
        sizes: &sizes,
        strides: &zero_stride,
        index_strides: &index_strides,
        dim,
        size: self_sizes[dim],
        stride: self_strides[dim],
    };
    if upcast && dim_index.scatter_few(self_, &index, (&src, &src_strides), how)? {
        return Ok(());
    }
    with_upcast(self_, how, |target, upcast| {
        let strides = at_least_1d(target).1;
        let dim_index =
            DimIndex { strides: &with_zero_stride(&strides, dim), stride: strides[dim], ..dim_index };
        dim_index.scatter(target, &index, (&src, &src_strides), how, fresh || upcast)
    })
}

/// A tensor without dimensions that holds `value`, of the type and on the device of `self_`.
pub(crate) fn value_like(name: &str, self_: &Tensor, value: Scalar) -> Result<Tensor> {
    let made = TensorSpec::like(self_, &[]).allocate(name)?;
    copy::fill_(&made, value).map_err(|e| e.in_operator(name))?;
    Ok(made)
}

fn reduction(name: &str, reduce: &str) -> Result<Combine> {
    match reduce {
        "add" => Ok(Combine::Add),
        "multiply" => Ok(Combine::Multiply),
        other => {
            bail!(
                InvalidArgument(name, "reduce"),
                "reduce argument must be either add or multiply. got {other}"
            )
        }
    }
}

fn copied(self_: &Tensor) -> Result<Tensor> {
    copy::clone(self_, Some(MemoryFormat::Contiguous))
}

/// [`scatter`] into a copy.
fn scattered(name: &str, self_: &Tensor, dim: i64, index: &Tensor, source: Source<'_>) -> Result<Tensor> {
    let made = copied(self_)?;
    scatter(name, &made, dim, index, source.into_fresh())?;
    Ok(made)
}

/// `self_[index[i][j]][j] = src[i][j]`, for dimension 0.
pub fn scatter_src_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    scatter("scatter", self_, dim, index, Source::elements(src, Combine::Assign))
}

/// As [`scatter_src_`], into a copy.
pub fn scatter_src(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered("scatter", self_, dim, index, Source::elements(src, Combine::Assign))
}

/// `self_[index[i][j]][j] = value`, for dimension 0.
pub fn scatter_value_(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<()> {
    let value = value_like("scatter", self_, value)?;
    scatter("scatter", self_, dim, index, Source::value(&value, Combine::Assign))
}

/// As [`scatter_value_`], into a copy.
pub fn scatter_value(self_: &Tensor, dim: i64, index: &Tensor, value: Scalar) -> Result<Tensor> {
    let value = value_like("scatter", self_, value)?;
    scattered("scatter", self_, dim, index, Source::value(&value, Combine::Assign))
}

/// As [`scatter_src_`], but adds to the elements of `self_` or multiplies them, as `reduce` says.
pub fn scatter_reduce_src_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<()> {
    scatter("scatter", self_, dim, index, Source::elements(src, reduction("scatter", reduce)?))
}

/// As [`scatter_reduce_src_`], into a copy.
pub fn scatter_reduce_src(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
) -> Result<Tensor> {
    scattered("scatter", self_, dim, index, Source::elements(src, reduction("scatter", reduce)?))
}

/// As [`scatter_value_`], but adds to the elements of `self_` or multiplies them, as `reduce` says.
pub fn scatter_reduce_value_(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    value: Scalar,
    reduce: &str,
) -> Result<()> {
    let value = value_like("scatter", self_, value)?;
    scatter("scatter", self_, dim, index, Source::value(&value, reduction("scatter", reduce)?))
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
    scattered("scatter", self_, dim, index, Source::value(&value, reduction("scatter", reduce)?))
}

/// `self_[index[i][j]][j] += src[i][j]`, for dimension 0, in row-major order of `index`.
pub fn scatter_add_(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<()> {
    scatter("scatter_add", self_, dim, index, Source::elements(src, Combine::Add))
}

/// As [`scatter_add_`], into a copy.
pub fn scatter_add(self_: &Tensor, dim: i64, index: &Tensor, src: &Tensor) -> Result<Tensor> {
    scattered("scatter_add", self_, dim, index, Source::elements(src, Combine::Add))
}

/// As [`scatter_src`], but reduces the elements of `src` that have the same index, and with `include_self` that of `self_`, by sum,
/// prod, mean, amax or amin.
pub fn scatter_reduce_two(
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    src: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    const NAME: &str = "scatter_reduce";
    let Some(reduce) = ScatterReduction::from_text(reduce) else {
        bail!(
            InvalidArgument(NAME, "reduce"),
            "reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    };
    let (how, start) = match reduce {
        ScatterReduction::Sum | ScatterReduction::Mean => (Combine::Add, 0.0),
        ScatterReduction::Prod => (Combine::Multiply, 1.0),
        ScatterReduction::Amax => (Combine::Maximum, f64::NEG_INFINITY),
        ScatterReduction::Amin => (Combine::Minimum, f64::INFINITY),
    };
    let made = copied(self_)?;
    if !include_self {
        let start = match how {
            Combine::Maximum | Combine::Minimum => extreme(self_.dtype(), start),
            _ => Scalar::Float(start),
        };
        let start = value_like(NAME, self_, start)?;
        scatter(NAME, &made, dim, index, Source::value(&start, Combine::Assign).into_fresh())?;
    }
    scatter(NAME, &made, dim, index, Source::elements(src, how).into_fresh())?;
    if reduce == ScatterReduction::Mean {
        let counts = element_counts(self_, dim, index, include_self)?;
        let rounding = if self_.is_floating_point() { None } else { Some("floor") };
        ops::div__tensor_mode(&made, &counts, rounding)?;
    }
    Ok(made)
}

/// For each element of `self_` how many elements [`scatter_reduce_two`] reduces to it, at least 1.
fn element_counts(self_: &Tensor, dim: i64, index: &Tensor, include_self: bool) -> Result<Tensor> {
    let counts = ops::ones(self_.sizes(), Some(ScalarType::I64), None, Some(self_.device()), None)?;
    if !include_self {
        scatter_value_(&counts, dim, index, Scalar::Int(0))?;
    }
    scatter_reduce_value_(&counts, dim, index, Scalar::Int(1), "add")?;
    Ok(counts)
}

/// The minimum of a type if `sign` is negative, else the maximum.
fn extreme(dtype: ScalarType, sign: f64) -> Scalar {
    let (min, max) = match dtype {
        ScalarType::Bool => return Scalar::Bool(sign > 0.0),
        ScalarType::U8 => (0, 255),
        ScalarType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX)),
        ScalarType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        ScalarType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        ScalarType::I64 => (i64::MIN, i64::MAX),
        _ => return Scalar::Float(sign),
    };
    Scalar::Int(if sign < 0.0 { min } else { max })
}

/// Indices below `size` in which negative ones, which count from the end, are replaced by those from the start.
fn wrap_indices(indices: &Tensor, size: i64) -> Result<Tensor> {
    let from_end = ops::lt_scalar(indices, Scalar::Int(0))?;
    ops::where_self(&from_end, &ops::add_scalar(indices, Scalar::Int(size), Scalar::Int(1))?, indices)
}

/// [`gather`] with an index that broadcasts against `self_` in the other dimensions.
pub fn take_along_dim(self_: &Tensor, indices: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    const NAME: &str = "take_along_dim";
    ensure!(
        matches!(indices.dtype(), ScalarType::I32 | ScalarType::I64),
        Dtype(NAME, "indices"),
        "dtype of indices should be int64 or int32 but got {}",
        indices.dtype()
    );
    let Some(dim) = dim else {
        let indices = wrap_indices(&ops::reshape(indices, &[-1])?, self_.numel())?;
        return ops::gather(&ops::reshape(self_, &[-1])?, 0, &indices, false);
    };
    ensure!(
        self_.dim() == indices.dim(),
        Shape(NAME, "indices"),
        "input and indices should have the same number of dimensions, but got {} dimensions for input, and {} \
         dimensions for indices",
        self_.dim(),
        indices.dim()
    );
    let d = shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(NAME))?;
    if self_.dim() == 0 {
        return ops::gather(self_, 0, indices, false);
    }
    let mut own = DimVec::from_slice(self_.sizes());
    own[d] = 1;
    let mut other = DimVec::from_slice(indices.sizes());
    other[d] = 1;
    let mut sizes = shape::broadcast(&own, &other).map_err(|e| e.in_operator(NAME))?;
    sizes[d] = self_.sizes()[d];
    let source = ops::expand(self_, &sizes, false)?;
    sizes[d] = indices.sizes()[d];
    let indices = wrap_indices(indices, self_.sizes()[d])?;
    ops::gather(&source, d as i64, &ops::expand(&indices, &sizes, false)?, false)
}

/// The gradient of [`gather`] with respect to `self_`: zeros, to which `grad` is added at the indices that were read.
pub fn gather_backward(
    grad: &Tensor,
    self_: &Tensor,
    dim: i64,
    index: &Tensor,
    sparse_grad: bool,
) -> Result<Tensor> {
    ensure!(
        !sparse_grad,
        NotImplemented("gather_backward", "sparse_grad"),
        "sparse gradients are not implemented"
    );
    let zeros = zeros_for(grad, self_.sizes())?;
    ops::scatter_add(&zeros, dim, index, grad)
}

/// Zeros of the type and on the device of `grad`.
pub(crate) fn zeros_for(grad: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    ops::zeros(sizes, Some(grad.dtype()), Some(grad.layout()), Some(grad.device()), None)
}

/// The gradient of `sort`, `topk` or `max.dim` with respect to the input: zeros, with `grad` at the indices of the selected values.
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
    let (grad, indices) = (ops::unsqueeze(grad, dim)?, ops::unsqueeze(indices, dim)?);
    ops::scatter_src(&zeros_for(&grad, sizes)?, dim, &indices, &grad)
}
