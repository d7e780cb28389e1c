//! `softmax`, `log_softmax` and their derivatives.

use crate::loops::row_ops::{softmax_backward_rows, softmax_rows};
use crate::structured::TensorSpec;
use crate::tensor_iterator::DimMask;
use crate::{Tensor, ops};
use flambeau_core::{Result, ScalarType, ensure, shape};

/// The mask of dimension `dim`; a tensor without dimensions is a single row.
fn mask_of(name: &str, self_: &Tensor, dim: i64) -> Result<DimMask> {
    shape::wrap_dim(dim, self_.dim()).map_err(|e| e.in_operator(name))?;
    DimMask::new(Some(&[dim]), self_.dim())
}

fn forward_meta(name: &str, self_: &Tensor, dim: i64, half_to_float: bool) -> Result<TensorSpec> {
    mask_of(name, self_, dim)?;
    ensure!(
        !half_to_float,
        NotImplemented(name, "dtype"),
        "with half to float conversion is not supported on CPU"
    );
    ensure!(
        self_.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}\" not implemented for '{}'",
        self_.dtype()
    );
    Ok(TensorSpec::like(self_, self_.sizes()))
}

fn backward_meta(
    name: &str,
    grad_output: &Tensor,
    output: &Tensor,
    dim: i64,
    input_dtype: ScalarType,
) -> Result<TensorSpec> {
    mask_of(name, output, dim)?;
    ensure!(
        grad_output.sizes() == output.sizes() && grad_output.dtype() == output.dtype(),
        Shape(name, "grad_output"),
        "expected `grad_output` and `output` of the same sizes and type but got {} and {}",
        grad_output.signature(),
        output.signature()
    );
    ensure!(
        input_dtype == output.dtype(),
        NotImplemented(name, "input_dtype"),
        "expected input_dtype {} but got {input_dtype}",
        output.dtype()
    );
    Ok(TensorSpec::like(output, output.sizes()))
}

/// `self_` converted to `dtype`, if given. Integers are not converted without it.
fn converted(self_: &Tensor, dtype: Option<ScalarType>) -> Result<Tensor> {
    match dtype {
        Some(dtype) if dtype != self_.dtype() => crate::native::reduce::sum_prod_any::to_dtype(self_, dtype),
        _ => Ok(self_.clone()),
    }
}

macro_rules! softmaxes {
    ($($name:literal $log:literal: $public:ident $kernel:ident $kernel_meta:ident $ops:ident
        $backward:ident $backward_meta:ident;)*) => {$(
        #[doc = concat!("`", $name, "` along a dimension, after conversion to `dtype`.")]
        pub fn $public(self_: &Tensor, dim: i64, dtype: Option<ScalarType>) -> Result<Tensor> {
            ops::$ops(&converted(self_, dtype)?, dim, false)
        }

        #[doc = concat!("Shape and type of [`", stringify!($kernel), "`].")]
        pub fn $kernel_meta(self_: &Tensor, dim: i64, half_to_float: bool) -> Result<TensorSpec> {
            forward_meta($name, self_, dim, half_to_float)
        }

        #[doc = concat!("`", $name, "` along a dimension.")]
        pub fn $kernel(self_: &Tensor, dim: i64, _half_to_float: bool, out: &Tensor) -> Result<()> {
            softmax_rows(self_, out, mask_of($name, self_, dim)?, $log)
        }

        #[doc = concat!("Shape and type of [`", stringify!($backward), "`].")]
        pub fn $backward_meta(
            grad_output: &Tensor,
            output: &Tensor,
            dim: i64,
            input_dtype: ScalarType,
        ) -> Result<TensorSpec> {
            backward_meta($name, grad_output, output, dim, input_dtype)
        }

        #[doc = concat!("The derivative of `", $name, "`, from its result.")]
        pub fn $backward(
            grad_output: &Tensor,
            output: &Tensor,
            dim: i64,
            _input_dtype: ScalarType,
            grad_input: &Tensor,
        ) -> Result<()> {
            softmax_backward_rows(grad_output, output, grad_input, mask_of($name, output, dim)?, $log)
        }
    )*};
}

softmaxes! {
    "softmax" false: softmax softmax_kernel softmax_kernel_meta _softmax softmax_backward softmax_backward_meta;
    "log_softmax" true: log_softmax log_softmax_kernel log_softmax_kernel_meta _log_softmax
        log_softmax_backward log_softmax_backward_meta;
}
