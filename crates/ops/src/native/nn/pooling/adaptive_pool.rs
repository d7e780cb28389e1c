//! Adaptive pooling: the mean and the maximum of windows that are chosen to give a result of a given size.
#![expect(unsafe_code, reason = "images reach the loops as raw memory, under guards")]

use super::channels::Channels;
use super::guarded::{max_backward, mean_backward, mean_of};
use super::max_window;
use super::mean::Mean;
use super::spec::{check_indices, gradient_spec, spec};
use super::windows::{Kind, Window, adaptive};
use crate::structured::{TensorSpec, with_scratch};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Result, ScalarType, ensure};

/// The spatial sizes of the result, after the arguments have been checked.
fn output(kind: Kind, self_: &Tensor, output_size: &[i64]) -> Result<[i64; 3]> {
    let name = kind.name;
    ensure!(
        output_size.len() == kind.dims,
        InvalidArgument(name, "output_size"),
        "output_size must be {}, but got {output_size:?}",
        kind.dims
    );
    ensure!(
        output_size.iter().all(|s| *s >= 0),
        InvalidArgument(name, "output_size"),
        "elements of output_size must be greater than or equal to 0 but received {output_size:?}"
    );
    kind.check_input(self_.sizes())?;
    Ok(kind.spatial(output_size))
}

/// The spatial sizes of the result whose gradient is given.
fn output_of(kind: Kind, grad_output: &Tensor, self_: &Tensor) -> Result<[i64; 3]> {
    kind.check_input(self_.sizes())?;
    let dims = grad_output.dim();
    ensure!(
        dims == self_.dim(),
        Shape(kind.name, "grad_output"),
        "expected dimensions {} for `grad_output` but got dimensions {dims}",
        self_.dim()
    );
    Ok(kind.spatial(grad_output.sizes()))
}

fn windows(kind: Kind, sizes: &[i64], output: [i64; 3]) -> Result<[Vec<Window>; 3]> {
    let input = kind.spatial(sizes);
    let along = |d: usize| adaptive(input[d], output[d]).map_err(|e| e.in_operator(kind.name));
    Ok([along(0)?, along(1)?, along(2)?])
}

fn means(kind: Kind, sizes: &[i64], output: [i64; 3]) -> Result<Mean> {
    let input = kind.spatial(sizes).map(|size| size as usize);
    Ok(Mean { windows: windows(kind, sizes, output)?, divisor: None, input })
}

fn mean(kind: Kind, self_: &Tensor, output_size: &[i64], out: &Tensor) -> Result<()> {
    let output = output(kind, self_, output_size)?;
    if out.numel() == 0 {
        return Ok(());
    }
    if output == [1; 3] && self_.is_floating_point() {
        // One window of the whole input: `mean` sums it in cascade, which keeps rounding errors small.
        let dims: Vec<i64> = (-(kind.dims as i64)..0).collect();
        return ops::mean_out(self_, Some(&dims), true, None, out);
    }
    let mean = means(kind, self_.sizes(), output)?;
    dispatch_all_types!(floats, self_.dtype(), kind.name, T => mean_of::<T>(kind, &mean, self_, out))
}

fn mean_gradient(kind: Kind, grad_output: &Tensor, self_: &Tensor, grad_input: &Tensor) -> Result<()> {
    if grad_input.numel() == 0 {
        return Ok(());
    }
    let mean = means(kind, self_.sizes(), kind.spatial(grad_output.sizes()))?;
    mean_backward(kind, &mean, grad_output, grad_input)
}

fn max(kind: Kind, self_: &Tensor, output_size: &[i64], out: &Tensor, indices: &Tensor) -> Result<()> {
    let output = output(kind, self_, output_size)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let (name, input) = (kind.name, kind.spatial(self_.sizes()));
    let windows = windows(kind, self_.sizes(), output)?;
    dispatch_all_types!(floats, self_.dtype(), name, T => with_scratch(name, &[self_], &[out, indices], |guarded| {
        let of = |tensor: &Tensor| Channels::<T>::of(guarded, kind, tensor);
        let indices = Channels::of(guarded, kind, indices);
        // SAFETY: the guards are held; the sizes are the meta function's, and outputs share no memory with the input.
        unsafe { max_window::adaptive_max(&windows, input, &of(self_), &of(out), &indices) };
        Ok(())
    }))
}

macro_rules! adaptive_pools {
    ($($dims:literal, mean: $mean_name:literal $mean_backward_name:literal
       $composed:ident $mean:ident $mean_meta:ident $mean_backward:ident $mean_backward_meta:ident,
       max: $max_name:literal $max_backward_name:literal
       $max:ident $max_meta:ident $max_backward:ident $max_backward_meta:ident;)*) => {$(
        /// The mean of windows chosen so that the result has `output_size`.
        pub fn $composed(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
            ops::$mean(self_, output_size)
        }

        #[doc = concat!("Shape and type of [`", stringify!($mean), "`].")]
        pub fn $mean_meta(self_: &Tensor, output_size: &[i64]) -> Result<TensorSpec> {
            let kind = Kind { name: $mean_name, dims: $dims };
            Ok(spec(kind, self_, output(kind, self_, output_size)?))
        }

        /// The mean of windows chosen so that the result has `output_size`.
        pub fn $mean(self_: &Tensor, output_size: &[i64], out: &Tensor) -> Result<()> {
            mean(Kind { name: $mean_name, dims: $dims }, self_, output_size, out)
        }

        #[doc = concat!("Shape and type of [`", stringify!($mean_backward), "`].")]
        pub fn $mean_backward_meta(grad_output: &Tensor, self_: &Tensor) -> Result<TensorSpec> {
            let kind = Kind { name: $mean_backward_name, dims: $dims };
            gradient_spec(kind, grad_output, self_, output_of(kind, grad_output, self_)?)
        }

        /// Each element of `grad_output` divided evenly among the elements of its window.
        pub fn $mean_backward(grad_output: &Tensor, self_: &Tensor, grad_input: &Tensor) -> Result<()> {
            mean_gradient(Kind { name: $mean_backward_name, dims: $dims }, grad_output, self_, grad_input)
        }

        #[doc = concat!("Shapes and types of [`", stringify!($max), "`].")]
        pub fn $max_meta(self_: &Tensor, output_size: &[i64]) -> Result<(TensorSpec, TensorSpec)> {
            let kind = Kind { name: $max_name, dims: $dims };
            let spec = spec(kind, self_, output(kind, self_, output_size)?);
            Ok((spec.clone(), spec.with_dtype(ScalarType::I64)))
        }

        /// The maximum of windows chosen so that the result has `output_size`, and its row-major index in the channel.
        pub fn $max(self_: &Tensor, output_size: &[i64], out: &Tensor, indices: &Tensor) -> Result<()> {
            max(Kind { name: $max_name, dims: $dims }, self_, output_size, out, indices)
        }

        #[doc = concat!("Shape and type of [`", stringify!($max_backward), "`].")]
        pub fn $max_backward_meta(grad_output: &Tensor, self_: &Tensor, indices: &Tensor) -> Result<TensorSpec> {
            let kind = Kind { name: $max_backward_name, dims: $dims };
            check_indices(kind.name, indices, grad_output.sizes())?;
            gradient_spec(kind, grad_output, self_, output_of(kind, grad_output, self_)?)
        }

        /// Each element of `grad_output` added to the element of the input that was the maximum.
        pub fn $max_backward(
            grad_output: &Tensor, _self: &Tensor, indices: &Tensor, grad_input: &Tensor,
        ) -> Result<()> {
            max_backward(Kind { name: $max_backward_name, dims: $dims }, grad_output, indices, grad_input)
        }
    )*};
}

adaptive_pools! {
    2, mean: "adaptive_avg_pool2d" "adaptive_avg_pool2d_backward" adaptive_avg_pool2d _adaptive_avg_pool2d
        _adaptive_avg_pool2d_meta _adaptive_avg_pool2d_backward _adaptive_avg_pool2d_backward_meta,
       max: "adaptive_max_pool2d" "adaptive_max_pool2d_backward" adaptive_max_pool2d adaptive_max_pool2d_meta
        adaptive_max_pool2d_backward adaptive_max_pool2d_backward_meta;
    3, mean: "adaptive_avg_pool3d" "adaptive_avg_pool3d_backward" adaptive_avg_pool3d _adaptive_avg_pool3d
        _adaptive_avg_pool3d_meta _adaptive_avg_pool3d_backward _adaptive_avg_pool3d_backward_meta,
       max: "adaptive_max_pool3d" "adaptive_max_pool3d_backward" adaptive_max_pool3d adaptive_max_pool3d_meta
        adaptive_max_pool3d_backward adaptive_max_pool3d_backward_meta;
}
