//! `max_pool2d` and `max_pool3d`: the maximum of each window.
#![expect(unsafe_code, reason = "images reach the loops as raw memory, under guards")]

use super::channels::Channels;
use super::guarded::max_backward;
use super::max_window;
use super::spec::{check_indices, gradient_spec, spec};
use super::windows::{Kind, Pool, PoolArgs};
use crate::structured::{TensorSpec, with_scratch};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, ScalarType, ensure};

fn forward_specs(kind: Kind, self_: &Tensor, given: &PoolArgs<'_>) -> Result<(TensorSpec, TensorSpec)> {
    let pool = Pool::new(kind, given, self_.sizes())?;
    let spec = spec(kind, self_, pool.output);
    Ok((spec.clone(), spec.with_dtype(ScalarType::I64)))
}

fn forward(kind: Kind, self_: &Tensor, given: &PoolArgs<'_>, out: &Tensor, indices: &Tensor) -> Result<()> {
    let pool = Pool::new(kind, given, self_.sizes())?;
    let name = kind.name;
    ensure!(
        pool.kernel_numel() < i64::from(u32::MAX),
        NotImplemented(name, "kernel_size"),
        "windows of more than 2^32 - 2 elements are not implemented"
    );
    dispatch_all_types!(ordered_numbers, self_.dtype(), name, T => with_scratch(name, &[self_], &[out, indices], |guarded| {
        if out.numel() == 0 {
            return Ok(());
        }
        let of = |tensor: &Tensor| Channels::<T>::of(guarded, kind, tensor);
        // SAFETY: the guards are held; the sizes are the meta function's, and outputs share no memory with the input.
        unsafe { max_window::max(&pool, &of(self_), &of(out), &Channels::of(guarded, kind, indices)) };
        Ok(())
    }))
}

fn backward_spec(
    kind: Kind,
    grad_output: &Tensor,
    self_: &Tensor,
    given: &PoolArgs<'_>,
    indices: &Tensor,
) -> Result<TensorSpec> {
    let pool = Pool::new(kind, given, self_.sizes())?;
    check_indices(kind.name, indices, grad_output.sizes())?;
    gradient_spec(kind, grad_output, self_, pool.output)
}

macro_rules! max_pools {
    ($($dims:literal $name:literal $backward_name:literal
       $values:ident $both:ident $both_meta:ident $backward:ident $backward_meta:ident;)*) => {$(
        #[doc = concat!("Shapes and types of [`", stringify!($both), "`].")]
        pub fn $both_meta(
            self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil_mode: bool,
        ) -> Result<(TensorSpec, TensorSpec)> {
            let given = PoolArgs { kernel_size, stride, padding, dilation, ceil_mode };
            forward_specs(Kind { name: $name, dims: $dims }, self_, &given)
        }

        /// The maximum of each window, and its row-major index in the channel.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $both(
            self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil_mode: bool,
            out: &Tensor, indices: &Tensor,
        ) -> Result<()> {
            let given = PoolArgs { kernel_size, stride, padding, dilation, ceil_mode };
            forward(Kind { name: $name, dims: $dims }, self_, &given, out, indices)
        }

        #[doc = concat!("The values of [`", stringify!($both), "`].")]
        pub fn $values(
            self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64], dilation: &[i64], ceil_mode: bool,
        ) -> Result<Tensor> {
            ops::$both(self_, kernel_size, stride, padding, dilation, ceil_mode).map(|(values, _)| values)
        }

        #[doc = concat!("Shape and type of [`", stringify!($backward), "`].")]
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $backward_meta(
            grad_output: &Tensor, self_: &Tensor, kernel_size: &[i64], stride: &[i64], padding: &[i64],
            dilation: &[i64], ceil_mode: bool, indices: &Tensor,
        ) -> Result<TensorSpec> {
            let given = PoolArgs { kernel_size, stride, padding, dilation, ceil_mode };
            backward_spec(Kind { name: $backward_name, dims: $dims }, grad_output, self_, &given, indices)
        }

        /// Each element of `grad_output` added to the element of the input that was the maximum.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $backward(
            grad_output: &Tensor, _self: &Tensor, _kernel_size: &[i64], _stride: &[i64], _padding: &[i64],
            _dilation: &[i64], _ceil_mode: bool, indices: &Tensor, grad_input: &Tensor,
        ) -> Result<()> {
            max_backward(Kind { name: $backward_name, dims: $dims }, grad_output, indices, grad_input)
        }
    )*};
}

max_pools! {
    2 "max_pool2d" "max_pool2d_with_indices_backward" max_pool2d max_pool2d_with_indices
        max_pool2d_with_indices_meta max_pool2d_with_indices_backward max_pool2d_with_indices_backward_meta;
    3 "max_pool3d" "max_pool3d_with_indices_backward" max_pool3d max_pool3d_with_indices
        max_pool3d_with_indices_meta max_pool3d_with_indices_backward max_pool3d_with_indices_backward_meta;
}
