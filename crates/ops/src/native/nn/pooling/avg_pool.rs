//! `avg_pool2d` and `avg_pool3d`: the mean of each window.

use super::guarded::{mean_backward, mean_of};
use super::mean::Mean;
use super::spec::{gradient_spec, spec};
use super::windows::{Kind, Pool, PoolArgs};
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Result, ScalarType, ensure};

/// `count_include_pad` and `divisor_override`.
type Divisor = (bool, Option<i64>);

/// The checked parameters.
fn checked(kind: Kind, given: &PoolArgs<'_>, sizes: &[i64], divisor: Option<i64>) -> Result<Pool> {
    ensure!(divisor != Some(0), InvalidArgument(kind.name, "divisor_override"), "divisor must be not zero");
    Pool::new(kind, given, sizes)
}

fn means(kind: Kind, pool: &Pool, (padded, divisor): Divisor) -> Result<Mean> {
    let along = |d: usize| pool.windows(d, padded).map_err(|e| e.in_operator(kind.name));
    let windows = [along(0)?, along(1)?, along(2)?];
    Ok(Mean { windows, divisor, input: pool.input.map(|size| size as usize) })
}

fn forward(kind: Kind, self_: &Tensor, given: &PoolArgs<'_>, counted: Divisor, out: &Tensor) -> Result<()> {
    let pool = checked(kind, given, self_.sizes(), counted.1)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mean = means(kind, &pool, counted)?;
    match self_.dtype() {
        ScalarType::I64 => mean_of::<i64>(kind, &mean, self_, out),
        dtype => dispatch_all_types!(floats, dtype, kind.name, T => mean_of::<T>(kind, &mean, self_, out)),
    }
}

fn backward(
    kind: Kind,
    [grad_output, self_, grad_input]: [&Tensor; 3],
    given: &PoolArgs<'_>,
    counted: Divisor,
) -> Result<()> {
    let pool = checked(kind, given, self_.sizes(), counted.1)?;
    if grad_input.numel() == 0 {
        return Ok(());
    }
    mean_backward(kind, &means(kind, &pool, counted)?, grad_output, grad_input)
}

macro_rules! avg_pools {
    ($($dims:literal $name:literal $backward_name:literal
       $forward:ident $meta:ident $backward:ident $backward_meta:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($forward), "`].")]
        pub fn $meta(
            self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool,
            _count_include_pad: bool, divisor_override: Option<i64>,
        ) -> Result<TensorSpec> {
            let given = PoolArgs { kernel_size, stride, padding, dilation: &[1], ceil_mode };
            let kind = Kind { name: $name, dims: $dims };
            Ok(spec(kind, self_, checked(kind, &given, self_.sizes(), divisor_override)?.output))
        }

        /// The mean of each window; padding counts as zeros, or not at all.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $forward(
            self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], ceil_mode: bool,
            count_include_pad: bool, divisor_override: Option<i64>, out: &Tensor,
        ) -> Result<()> {
            let given = PoolArgs { kernel_size, stride, padding, dilation: &[1], ceil_mode };
            let kind = Kind { name: $name, dims: $dims };
            forward(kind, self_, &given, (count_include_pad, divisor_override), out)
        }

        #[doc = concat!("Shape and type of [`", stringify!($backward), "`].")]
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $backward_meta(
            grad_output: &Tensor, self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64],
            ceil_mode: bool, _count_include_pad: bool, divisor_override: Option<i64>,
        ) -> Result<TensorSpec> {
            let given = PoolArgs { kernel_size, stride, padding, dilation: &[1], ceil_mode };
            let kind = Kind { name: $backward_name, dims: $dims };
            let pool = checked(kind, &given, self_.sizes(), divisor_override)?;
            gradient_spec(kind, grad_output, self_, pool.output)
        }

        /// Each element of `grad_output` divided evenly among the elements of its window.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $backward(
            grad_output: &Tensor, self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64],
            ceil_mode: bool, count_include_pad: bool, divisor_override: Option<i64>, grad_input: &Tensor,
        ) -> Result<()> {
            let given = PoolArgs { kernel_size, stride, padding, dilation: &[1], ceil_mode };
            let kind = Kind { name: $backward_name, dims: $dims };
            let tensors = [grad_output, self_, grad_input];
            backward(kind, tensors, &given, (count_include_pad, divisor_override))
        }
    )*};
}

avg_pools! {
    2 "avg_pool2d" "avg_pool2d_backward" avg_pool2d avg_pool2d_meta avg_pool2d_backward avg_pool2d_backward_meta;
    3 "avg_pool3d" "avg_pool3d_backward" avg_pool3d avg_pool3d_meta avg_pool3d_backward avg_pool3d_backward_meta;
}
