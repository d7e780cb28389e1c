//! Pooling over two dimensions: the greatest or the mean of each window, and the gradients.
#![expect(unsafe_code, reason = "images reach the loops as raw memory, under guards")]

mod planes;
mod windows;

use super::matmul::ensure_same_device;
use crate::structured::{TensorSpec, with_guards};
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{Element, Result, ScalarType, ensure};
use planes::{Mean, Planes, Pooled};
use std::ops::AddAssign;
use windows::{Given, Pool, adaptive, check_input, resized};

fn spec(self_: &Tensor, output: [i64; 2]) -> TensorSpec {
    TensorSpec::like(self_, &resized(self_.sizes(), output)).with_format(self_.suggest_memory_format())
}

/// Shapes and types of [`max_pool2d_with_indices`].
pub fn max_pool2d_with_indices_meta(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(TensorSpec, TensorSpec)> {
    let given = Given { kernel_size, stride, padding, dilation, ceil_mode };
    let pool = Pool::new("max_pool2d", &given, self_.sizes())?;
    let spec = spec(self_, pool.output);
    Ok((spec.clone(), spec.with_dtype(ScalarType::I64)))
}

/// The greatest element of each window, and its place in the plane, `y * width + x`.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn max_pool2d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    out: &Tensor,
    indices: &Tensor,
) -> Result<()> {
    let given = Given { kernel_size, stride, padding, dilation, ceil_mode };
    let pool = Pool::new("max_pool2d", &given, self_.sizes())?;
    let taps = |d: usize| pool.taps(d).end - pool.taps(d).start;
    ensure!(
        taps(0).saturating_mul(taps(1)) < i64::from(u32::MAX),
        NotImplemented,
        "max_pool2d: windows of more than 2^32 - 2 elements are not implemented"
    );
    dispatch_all_types!(numbers, self_.dtype(), "max_pool2d", T => {
        with_guards("max_pool2d", &[self_], &[out, indices], || {
            // SAFETY: the guards are held; the sizes are the meta function's, and outputs share no memory with the input.
            unsafe { planes::max::<T>(&pool, &Planes::of(self_), &Planes::of(out), &Planes::of(indices)) };
            Ok(())
        })
    })
}

/// The values of [`max_pool2d_with_indices`].
pub fn max_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    ops::max_pool2d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode)
        .map(|(values, _)| values)
}

/// Shape and type of [`max_pool2d_with_indices_backward`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn max_pool2d_with_indices_backward_meta(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
    indices: &Tensor,
) -> Result<TensorSpec> {
    let given = Given { kernel_size, stride, padding, dilation, ceil_mode };
    let pool = Pool::new("max_pool2d_with_indices_backward", &given, self_.sizes())?;
    ensure!(
        indices.dtype() == ScalarType::I64 && indices.sizes() == grad_output.sizes(),
        Shape,
        "max_pool2d_with_indices_backward: expected `indices` of int64 and sizes {:?} but got {} and {:?}",
        grad_output.sizes(),
        indices.dtype(),
        indices.sizes()
    );
    gradient_spec("max_pool2d_with_indices_backward", grad_output, self_, pool.output)
}

/// Each element of `grad_output` added to the element of the input that it was.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn max_pool2d_with_indices_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    _kernel_size: &[i64],
    _stride: &[i64],
    _padding: &[i64],
    _dilation: &[i64],
    _ceil_mode: bool,
    indices: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    let plane = |t: &Tensor| [t.sizes()[t.dim() - 2], t.sizes()[t.dim() - 1]];
    let sizes = [plane(self_), plane(grad_output)];
    let name = "max_pool2d_with_indices_backward";
    into_zeros(grad_input, |gx| {
        let gy = &widened(grad_output)?;
        dispatch_all_types!(floats, gx.dtype(), name, T => with_guards(name, &[gy, indices], &[gx], || {
            // SAFETY: the guards are held, sizes were checked, and `gx` shares no memory with what is read.
            unsafe { planes::max_backward::<T>(sizes, &Planes::of(gy), &Planes::of(indices), &Planes::of(gx)) };
            Ok(())
        }))
    })
}

/// Shape and type of a gradient, once `grad_output` is what the forward operator gives.
fn gradient_spec(name: &str, grad_output: &Tensor, self_: &Tensor, output: [i64; 2]) -> Result<TensorSpec> {
    let sizes = resized(self_.sizes(), output);
    ensure!(
        grad_output.sizes() == sizes.as_slice(),
        Shape,
        "{name}: expected `grad_output` of sizes {sizes:?} but got {:?}",
        grad_output.sizes()
    );
    ensure_same_device(name, self_, &[grad_output])?;
    ensure!(
        grad_output.dtype() == self_.dtype(),
        Dtype,
        "{name}: expected `grad_output` to have the type of `self`, {}, but got {}",
        self_.dtype(),
        grad_output.dtype()
    );
    Ok(TensorSpec::like(self_, self_.sizes()).with_format(self_.suggest_memory_format()))
}

/// Half precision as f32, in which sums are kept.
fn widened(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.dtype().is_reduced_floating_point() {
        return super::view::alias(tensor);
    }
    let wide = TensorSpec::like(tensor, tensor.sizes()).with_dtype(ScalarType::F32).allocate("pooling")?;
    super::copy::copy_(&wide, tensor, false)?;
    Ok(wide)
}

/// Calls `add` with zeros to add to, which end up in `to`; for half precision they are f32.
fn into_zeros(to: &Tensor, add: impl Fn(&Tensor) -> Result<()>) -> Result<()> {
    if !to.dtype().is_reduced_floating_point() {
        super::copy::zero_(to)?;
        return add(to);
    }
    let wide = TensorSpec::like(to, to.sizes()).with_dtype(ScalarType::F32).allocate("pooling")?;
    super::copy::zero_(&wide)?;
    add(&wide)?;
    super::copy::copy_(to, &wide, false)
}

/// The sizes of [`avg_pool2d`], checked.
fn mean_pool(name: &str, given: &Given<'_>, sizes: &[i64], divisor: Option<i64>) -> Result<Pool> {
    ensure!(divisor != Some(0), InvalidArgument, "{name}: divisor must be not zero");
    Pool::new(name, given, sizes)
}

/// Its windows.
fn means(pool: &Pool, padded: bool, divisor: Option<i64>) -> Mean {
    let width = pool.input[1] as usize;
    Mean { rows: pool.windows(0, padded), columns: pool.windows(1, padded), divisor, width }
}

/// Shape and type of [`avg_pool2d`].
pub fn avg_pool2d_meta(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    _count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<TensorSpec> {
    let given = Given { kernel_size, stride, padding, dilation: &[1], ceil_mode };
    Ok(spec(self_, mean_pool("avg_pool2d", &given, self_.sizes(), divisor_override)?.output))
}

/// The mean of each window; padding counts as zeros, or not at all.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn avg_pool2d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
    out: &Tensor,
) -> Result<()> {
    let given = Given { kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let pool = mean_pool("avg_pool2d", &given, self_.sizes(), divisor_override)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mean = means(&pool, count_include_pad, divisor_override);
    match self_.dtype() {
        ScalarType::I64 => mean_of::<i64>("avg_pool2d", &mean, self_, out),
        dtype => {
            dispatch_all_types!(floats, dtype, "avg_pool2d", T => mean_of::<T>("avg_pool2d", &mean, self_, out))
        }
    }
}

fn mean_of<T: Pooled + Element>(name: &str, mean: &Mean, self_: &Tensor, out: &Tensor) -> Result<()> {
    with_guards(name, &[self_], &[out], || {
        // SAFETY: the guards are held; the windows are the input's, and `out` shares no memory with it.
        unsafe { planes::mean::<T>(mean, &Planes::of(self_), &Planes::of(out)) };
        Ok(())
    })
}

fn mean_backward_of<T>(name: &str, mean: &Mean, gy: &Tensor, gx: &Tensor) -> Result<()>
where
    T: Pooled<Sum = T> + Element + AddAssign,
{
    with_guards(name, &[gy], &[gx], || {
        // SAFETY: the guards are held; the windows are those of `gx`, which shares no memory with `gy`.
        unsafe { planes::mean_backward::<T>(mean, &Planes::of(gy), &Planes::of(gx)) };
        Ok(())
    })
}

fn mean_backward(name: &str, mean: &Mean, grad_output: &Tensor, grad_input: &Tensor) -> Result<()> {
    into_zeros(grad_input, |gx| {
        let gy = &widened(grad_output)?;
        match gx.dtype() {
            ScalarType::F64 => mean_backward_of::<f64>(name, mean, gy, gx),
            ScalarType::F32 => mean_backward_of::<f32>(name, mean, gy, gx),
            other => flambeau_core::bail!(NotImplemented, "{name} is not implemented for {other}"),
        }
    })
}

/// Shape and type of [`avg_pool2d_backward`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn avg_pool2d_backward_meta(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    _count_include_pad: bool,
    divisor_override: Option<i64>,
) -> Result<TensorSpec> {
    let given = Given { kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let name = "avg_pool2d_backward";
    let pool = mean_pool(name, &given, self_.sizes(), divisor_override)?;
    gradient_spec(name, grad_output, self_, pool.output)
}

/// Each element of `grad_output` shared among the elements of its window.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn avg_pool2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Option<i64>,
    grad_input: &Tensor,
) -> Result<()> {
    let given = Given { kernel_size, stride, padding, dilation: &[1], ceil_mode };
    let name = "avg_pool2d_backward";
    let pool = mean_pool(name, &given, self_.sizes(), divisor_override)?;
    if grad_input.numel() == 0 {
        return Ok(());
    }
    let mean = means(&pool, count_include_pad, divisor_override);
    mean_backward(name, &mean, grad_output, grad_input)
}

/// The mean of windows chosen so that the result has `output_size`.
pub fn adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    ops::_adaptive_avg_pool2d(self_, output_size)
}

fn adaptive_output(self_: &Tensor, output_size: &[i64]) -> Result<[i64; 2]> {
    ensure!(
        output_size.len() == 2,
        InvalidArgument,
        "adaptive_avg_pool2d: output_size must be 2, but got {output_size:?}"
    );
    ensure!(
        output_size.iter().all(|s| *s >= 0),
        InvalidArgument,
        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {output_size:?}"
    );
    check_input("adaptive_avg_pool2d", self_.sizes())?;
    Ok([output_size[0], output_size[1]])
}

fn adaptive_means(sizes: &[i64], output: [i64; 2]) -> Mean {
    let d = sizes.len();
    let (rows, columns) = (adaptive(sizes[d - 2], output[0]), adaptive(sizes[d - 1], output[1]));
    Mean { rows, columns, divisor: None, width: sizes[d - 1] as usize }
}

/// Shape and type of [`_adaptive_avg_pool2d`].
pub fn _adaptive_avg_pool2d_meta(self_: &Tensor, output_size: &[i64]) -> Result<TensorSpec> {
    Ok(spec(self_, adaptive_output(self_, output_size)?))
}

/// The mean of windows chosen so that the result has `output_size`.
pub fn _adaptive_avg_pool2d(self_: &Tensor, output_size: &[i64], out: &Tensor) -> Result<()> {
    let output = adaptive_output(self_, output_size)?;
    if out.numel() == 0 {
        return Ok(());
    }
    let mean = adaptive_means(self_.sizes(), output);
    let name = "adaptive_avg_pool2d";
    dispatch_all_types!(floats, self_.dtype(), name, T => mean_of::<T>(name, &mean, self_, out))
}

/// Shape and type of [`_adaptive_avg_pool2d_backward`].
pub fn _adaptive_avg_pool2d_backward_meta(grad_output: &Tensor, self_: &Tensor) -> Result<TensorSpec> {
    let name = "adaptive_avg_pool2d_backward";
    check_input(name, self_.sizes())?;
    let d = grad_output.dim();
    ensure!(
        d == self_.dim(),
        Shape,
        "{name}: expected dimensions {} for `grad_output` but got dimensions {d}",
        self_.dim()
    );
    gradient_spec(name, grad_output, self_, [grad_output.sizes()[d - 2], grad_output.sizes()[d - 1]])
}

/// Each element of `grad_output` shared among the elements of its window.
pub fn _adaptive_avg_pool2d_backward(
    grad_output: &Tensor,
    self_: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    let d = grad_output.dim();
    if grad_input.numel() == 0 {
        return Ok(());
    }
    let mean = adaptive_means(self_.sizes(), [grad_output.sizes()[d - 2], grad_output.sizes()[d - 1]]);
    mean_backward("adaptive_avg_pool2d_backward", &mean, grad_output, grad_input)
}
