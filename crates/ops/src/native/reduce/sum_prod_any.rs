//! `sum`, `mean`, `prod`, `any`, `all`, `count_nonzero` and `logsumexp`.

use super::complex_parts;
use super::reduced_spec::{mask_of, reduced_spec};
use crate::loops::reduce::{Epilogue, NanSum, NumberFold, Product, Sum};
use crate::loops::reduce::{bool_fold, computing_type, count_fold, log_sum_exp, sum_fold, truth_fold};
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, bail, default_dtype, ensure};

/// The result type of a sum or product: i64 for integers and bool.
fn sum_dtype(self_: &Tensor, dtype: Option<ScalarType>) -> ScalarType {
    let own = self_.dtype();
    dtype.unwrap_or(if own.is_integral(true) { ScalarType::I64 } else { own })
}

/// A sum or product, with the accumulator type of `out`.
fn accumulate(
    name: &str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    out: &Tensor,
    fold: impl NumberFold,
    finish: Epilogue,
) -> Result<()> {
    let mask = mask_of(name, self_, dim)?;
    match out.dtype() {
        ScalarType::Bool => bool_fold(self_, out, mask, fold),
        dtype if dtype.is_integral(false) => sum_fold(self_, out, mask, ScalarType::I64, fold, finish),
        dtype => sum_fold(self_, out, mask, computing_type(dtype), fold, finish),
    }
}

/// [`accumulate`] of parts, where `out` is complex.
fn accumulate_parts(
    name: &str,
    self_: &Tensor,
    dim: Option<&[i64]>,
    out: &Tensor,
    fold: impl NumberFold,
    finish: Epilogue,
) -> Result<()> {
    if !out.dtype().is_complex() {
        return accumulate(name, self_, dim, out, fold, finish);
    }
    complex_parts::fold_parts(name, self_, dim, out, |parts, out, mask| {
        sum_fold(parts, out, mask, out.dtype(), fold, finish)
    })
}

/// A product, with the accumulator type of `out`.
fn accumulate_product(self_: &Tensor, dim: Option<i64>, out: &Tensor) -> Result<()> {
    match out.dtype().is_complex() {
        true => complex_parts::product(self_, dim, out),
        false => accumulate(
            "prod",
            self_,
            dim.as_ref().map(std::slice::from_ref),
            out,
            Product,
            Epilogue::Identity,
        ),
    }
}

/// The sum of all elements.
pub fn sum_all(self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    ops::sum_dim_intlist(self_, None, false, dtype)
}

/// Shape and type of [`sum`].
pub fn sum_meta(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<TensorSpec> {
    let spec = reduced_spec("sum", self_, dim, keepdim, sum_dtype(self_, dtype))?;
    Ok(if dtype.is_some() { spec } else { spec.in_type_of_out() })
}

/// The sum along dimensions.
pub fn sum(
    self_: &Tensor,
    dim: Option<&[i64]>,
    _keepdim: bool,
    _dtype: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    accumulate_parts("sum", self_, dim, out, Sum, Epilogue::Identity)
}

/// Shape and type of [`nansum`].
pub fn nansum_meta(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<TensorSpec> {
    let spec = reduced_spec("nansum", self_, dim, keepdim, sum_dtype(self_, dtype))?;
    Ok(if dtype.is_some() { spec } else { spec.in_type_of_out() })
}

/// The sum along dimensions, with NaN counted as 0.
pub fn nansum(
    self_: &Tensor,
    dim: Option<&[i64]>,
    _keepdim: bool,
    _dtype: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    ensure!(
        !self_.dtype().is_complex(),
        NotImplemented("nansum", "self"),
        "nansum does not support complex inputs"
    );
    if self_.dtype().is_floating_point() {
        accumulate("nansum", self_, dim, out, NanSum, Epilogue::Identity)
    } else {
        accumulate_parts("nansum", self_, dim, out, Sum, Epilogue::Identity)
    }
}

/// The type of a mean, which must be a floating point type.
fn mean_dtype(self_: &Tensor, dtype: Option<ScalarType>) -> Result<ScalarType> {
    let (which, result) = match dtype {
        Some(dtype) => ("Optional dtype", dtype),
        None => ("Input dtype", self_.dtype()),
    };
    ensure!(
        result.is_differentiable(),
        Dtype,
        operator = "mean",
        argument = "dtype",
        "mean(): could not infer output dtype. {which} must be either a floating point or complex dtype. Got: {result}"
    );
    Ok(result)
}

/// The mean of all elements.
pub fn mean_all(self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    ops::mean_dim(self_, None, false, dtype)
}

/// Shape and type of [`mean`].
pub fn mean_meta(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<TensorSpec> {
    Ok(reduced_spec("mean", self_, dim, keepdim, mean_dtype(self_, dtype)?)?.converted_to_out())
}

/// The mean along dimensions; NaN if they have no elements.
pub fn mean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    _keepdim: bool,
    _dtype: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    let count = mask_of("mean", self_, dim)?.count(self_.sizes());
    accumulate_parts("mean", self_, dim, out, Sum, Epilogue::Divide(count as f64))
}

/// The product of all elements.
pub fn prod_all(self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    let out = TensorSpec::like(self_, &[]).with_dtype(sum_dtype(self_, dtype)).allocate("prod")?;
    if !out.device().is_meta() {
        accumulate_product(self_, None, &out)?;
    }
    Ok(out)
}

/// Shape and type of [`prod`].
pub fn prod_meta(self_: &Tensor, dim: i64, keepdim: bool, dtype: Option<ScalarType>) -> Result<TensorSpec> {
    let spec = reduced_spec("prod", self_, Some(&[dim]), keepdim, sum_dtype(self_, dtype))?;
    Ok(if dtype.is_some() { spec } else { spec.in_type_of_out() })
}

/// The product along a dimension.
pub fn prod(
    self_: &Tensor,
    dim: i64,
    _keepdim: bool,
    _dtype: Option<ScalarType>,
    out: &Tensor,
) -> Result<()> {
    accumulate_product(self_, Some(dim), out)
}

/// The result type of `any` and `all`: bool, but u8 for u8, as in PyTorch, where this is older than bool tensors.
fn any_all_dtype(self_: &Tensor) -> ScalarType {
    if self_.dtype() == ScalarType::U8 { ScalarType::U8 } else { ScalarType::Bool }
}

/// `any` and `all`, of all elements, along one dimension, and along several.
macro_rules! any_all {
    ($($name:literal, $some:literal: $all:ident $dim:ident $dim_meta:ident $dims:ident $dims_meta:ident $all_meta:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($all), "`].")]
        pub fn $all_meta(self_: &Tensor) -> Result<TensorSpec> {
            reduced_spec($name, self_, None, false, any_all_dtype(self_))
        }

        #[doc = concat!("`", $name, "` of all elements.")]
        pub fn $all(self_: &Tensor, out: &Tensor) -> Result<()> {
            truth_fold(self_, out, mask_of($name, self_, None)?, $some)
        }

        #[doc = concat!("Shape and type of [`", stringify!($dim), "`].")]
        pub fn $dim_meta(self_: &Tensor, dim: i64, keepdim: bool) -> Result<TensorSpec> {
            reduced_spec($name, self_, Some(&[dim]), keepdim, any_all_dtype(self_))
        }

        #[doc = concat!("`", $name, "` along a dimension.")]
        pub fn $dim(self_: &Tensor, dim: i64, _keepdim: bool, out: &Tensor) -> Result<()> {
            truth_fold(self_, out, mask_of($name, self_, Some(&[dim]))?, $some)
        }

        #[doc = concat!("Shape and type of [`", stringify!($dims), "`].")]
        pub fn $dims_meta(self_: &Tensor, dim: Option<&[i64]>, keepdim: bool) -> Result<TensorSpec> {
            if dim.is_some_and(<[i64]>::is_empty) {
                return Ok(TensorSpec::like(self_, self_.sizes()).with_dtype(any_all_dtype(self_)));
            }
            reduced_spec($name, self_, dim, keepdim, any_all_dtype(self_))
        }

        #[doc = concat!("`", $name, "` along dimensions; along none of them, whether each element differs from zero.")]
        pub fn $dims(self_: &Tensor, dim: Option<&[i64]>, _keepdim: bool, out: &Tensor) -> Result<()> {
            if dim.is_some_and(<[i64]>::is_empty) {
                return match out.dtype() {
                    ScalarType::Bool => ops::copy_(out, self_, false),
                    _ => ops::copy_(out, &to_dtype(self_, ScalarType::Bool)?, false),
                };
            }
            truth_fold(self_, out, mask_of($name, self_, dim)?, $some)
        }
    )*};
}

any_all! {
    "any", true: any any_dim any_dim_meta any_dims any_dims_meta any_meta;
    "all", false: all all_dim all_dim_meta all_dims all_dims_meta all_meta;
}

/// A copy of type `dtype`.
pub(crate) fn to_dtype(self_: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    let copy = TensorSpec::like(self_, self_.sizes()).with_dtype(dtype).allocate("to")?;
    ops::copy_(&copy, self_, false)?;
    Ok(copy)
}

/// `self_` if it is of type `dtype`, else a copy of that type.
pub(crate) fn as_dtype(self_: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if self_.dtype() == dtype { Ok(self_.clone()) } else { to_dtype(self_, dtype) }
}

/// The number of nonzero elements along dimensions.
pub fn count_nonzero_dims(self_: &Tensor, dim: &[i64]) -> Result<Tensor> {
    let out =
        reduced_spec("count_nonzero", self_, Some(dim), false, ScalarType::I64)?.allocate("count_nonzero")?;
    if !out.device().is_meta() {
        let elements = if is_counted(self_.dtype()) { self_ } else { &to_dtype(self_, ScalarType::Bool)? };
        count_fold(elements, &out, mask_of("count_nonzero", elements, Some(dim))?)?;
    }
    Ok(out)
}

/// Whether elements of this type are counted as they are; those of others as bools.
fn is_counted(dtype: ScalarType) -> bool {
    use ScalarType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8};
    matches!(dtype, Bool | U8 | I8 | I16 | I32 | I64 | F16 | BF16 | F32 | F64)
}

/// The number of nonzero elements along one dimension, or of all.
pub fn count_nonzero(self_: &Tensor, dim: Option<i64>) -> Result<Tensor> {
    match dim {
        Some(dim) => ops::count_nonzero_dim_intlist(self_, &[dim]),
        None => ops::count_nonzero_dim_intlist(self_, &[]),
    }
}

/// `log(sum(e^x))` along dimensions, computed without overflow.
pub fn logsumexp(self_: &Tensor, dim: &[i64], keepdim: bool) -> Result<Tensor> {
    let dtype = self_.dtype().to_floating_point(default_dtype());
    let out = reduced_spec("logsumexp", self_, Some(dim), keepdim, dtype)?.allocate("logsumexp")?;
    if !out.device().is_meta() {
        let self_ = as_dtype(self_, dtype)?;
        log_sum_exp(&self_, &out, mask_of("logsumexp", &self_, Some(dim))?)?;
    }
    Ok(out)
}

/// The mean of the elements that are not NaN.
pub fn nanmean(
    self_: &Tensor,
    dim: Option<&[i64]>,
    keepdim: bool,
    dtype: Option<ScalarType>,
) -> Result<Tensor> {
    if !self_.dtype().is_floating_point() {
        bail!(
            Dtype("nanmean", "self"),
            "expected input to have floating point dtype but got {}",
            self_.dtype()
        );
    }
    if let Some(dtype) = dtype {
        ensure!(
            dtype.is_differentiable(),
            Dtype("nanmean", "dtype"),
            "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {dtype}"
        );
    }
    let count = ops::sum_dim_intlist(&self_.isnan()?.logical_not()?, dim, keepdim, None)?;
    ops::nansum(self_, dim, keepdim, dtype)?.div(&count)
}
