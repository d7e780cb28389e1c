//! Views and other operators whose kernels of the host touch no element, or only by loops that run on the device.

use flambeau_core::{DispatchKeySet, MemoryFormat, Result, Scalar, ScalarType};
use flambeau_ops::native::linalg::tril_triu;
use flambeau_ops::native::nn::normalization;
use flambeau_ops::native::pointwise::{activation, activation_piecewise};
use flambeau_ops::native::shape::{flip_roll, view, view_backward, view_in_place};
use flambeau_ops::tensor_iterator::iterate;
use flambeau_ops::{Tensor, ops, register};

/// Registers kernels of the host.
macro_rules! of_the_host {
    ($($operator:ident $kernel:path: ($($arg:ident: $ty:ty),*) -> $returned:ty;)*) => {$(
        const _: () = {
            #[allow(clippy::too_many_arguments, reason = "the schema's")]
            fn kernel(_: DispatchKeySet, $($arg: $ty),*) -> Result<$returned> {
                $kernel($($arg),*)
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

of_the_host! {
    AS_STRIDED view::as_strided: (self_: &Tensor, size: &[i64], stride: &[i64], storage_offset: Option<i64>) -> Tensor;
    UNFOLD view::unfold: (self_: &Tensor, dimension: i64, size: i64, step: i64) -> Tensor;
    RESIZE_ view_in_place::resize_: (self_: &Tensor, size: &[i64], memory_format: Option<MemoryFormat>) -> ();
    LOG_SIGMOID_FORWARD activation::log_sigmoid_forward: (self_: &Tensor) -> (Tensor, Tensor);
    GLU activation_piecewise::glu: (self_: &Tensor, dim: i64) -> Tensor;
    ROLL flip_roll::roll: (self_: &Tensor, shifts: &[i64], dims: &[i64]) -> Tensor;
    UNFOLD_BACKWARD view_backward::unfold_backward:
        (grad_in: &Tensor, input_sizes: &[i64], dim: i64, size: i64, step: i64) -> Tensor;
    _PRELU_KERNEL_BACKWARD activation_piecewise::prelu_kernel_backward:
        (grad_output: &Tensor, self_: &Tensor, weight: &Tensor) -> (Tensor, Tensor);
    NATIVE_BATCH_NORM_BACKWARD normalization::native_batch_norm_backward:
        (grad_out: &Tensor, input: &Tensor, weight: Option<&Tensor>, running_mean: Option<&Tensor>, running_var: Option<&Tensor>,
            save_mean: Option<&Tensor>, save_invstd: Option<&Tensor>, train: bool, eps: f64, output_mask: [bool; 3])
        -> (Tensor, Tensor, Tensor);
    NATIVE_GROUP_NORM_BACKWARD normalization::native_group_norm_backward:
        (grad_out: &Tensor, input: &Tensor, mean: &Tensor, rstd: &Tensor, weight: Option<&Tensor>, n: i64, c: i64, area: i64,
            group: i64, output_mask: [bool; 3]) -> (Tensor, Tensor, Tensor);
    FLIP flip: (self_: &Tensor, dims: &[i64]) -> Tensor;
    TRIL tril: (self_: &Tensor, diagonal: i64) -> Tensor;
    TRIU triu: (self_: &Tensor, diagonal: i64) -> Tensor;
}

/// Each dimension is read from its last index to its first.
fn flip(self_: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let shape = flip_roll::flip(&super::meta(self_)?, dims)?;
    let result = super::made(&shape, self_.device())?;
    let mut flipped = self_.clone();
    for &dim in dims.iter().filter(|_| self_.dim() > 0 && self_.numel() > 0) {
        let d = flambeau_core::shape::wrap_dim(dim, self_.dim())?;
        let last = self_.sizes()[d] - 1;
        let (long, device) = (Some(ScalarType::I64), Some(self_.device()));
        let (start, end, step) = (Scalar::Int(last), Scalar::Int(-1), Scalar::Int(-1));
        let indices = ops::arange_start_step(start, end, step, long, None, device, None)?;
        flipped = ops::index_select(&flipped, d as i64, &indices)?;
    }
    ops::copy_(&result, &flipped, false)?;
    Ok(result)
}

fn tril(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    iterate::functional("tril", |iter| {
        tril_triu::tril_meta(iter, self_, diagonal)?;
        tril_triu::tril(iter, self_, diagonal)
    })
}

fn triu(self_: &Tensor, diagonal: i64) -> Result<Tensor> {
    iterate::functional("triu", |iter| {
        tril_triu::triu_meta(iter, self_, diagonal)?;
        tril_triu::triu(iter, self_, diagonal)
    })
}
