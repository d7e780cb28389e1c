//! Pooling over two and three dimensions: the greatest or the mean of each window, and the gradients.
#![expect(unsafe_code, reason = "images reach the loops as raw memory, under guards")]

mod adaptive;
mod average;
mod greatest;
mod max;
mod mean;
mod planes;
mod squares;
mod unpool;
mod windows;

pub use adaptive::*;
pub use average::*;
pub use max::*;
pub use unpool::*;

use super::matmul::ensure_same_device;
use crate::structured::{TensorSpec, with_scratch};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, ScalarType, bail, ensure};
use mean::Mean;
use planes::Channels;
pub(super) use planes::Pooled;
use std::ops::AddAssign;
use windows::Kind;

/// The output of pooling that gives the spatial sizes `output`.
fn spec(kind: Kind, self_: &Tensor, output: [i64; 3]) -> TensorSpec {
    let format = self_.suggest_memory_format();
    TensorSpec::like(self_, &kind.resized(self_.sizes(), output)).with_format(format)
}

/// Shape and type of a gradient, once `grad_output` is what the forward operator gives.
fn gradient_spec(kind: Kind, grad_output: &Tensor, self_: &Tensor, output: [i64; 3]) -> Result<TensorSpec> {
    let (name, sizes) = (kind.name, kind.resized(self_.sizes(), output));
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

fn ensure_places(name: &str, indices: &Tensor, sizes: &[i64]) -> Result<()> {
    ensure!(
        indices.dtype() == ScalarType::I64 && indices.sizes() == sizes,
        Shape,
        "{name}: expected `indices` of int64 and sizes {sizes:?} but got {} and {:?}",
        indices.dtype(),
        indices.sizes()
    );
    Ok(())
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

/// Has `fill` write sums, which end up in `to`; for half precision they are f32.
fn summed(to: &Tensor, fill: impl Fn(&Tensor) -> Result<()>) -> Result<()> {
    if !to.dtype().is_reduced_floating_point() {
        return fill(to);
    }
    let wide = TensorSpec::like(to, to.sizes()).with_dtype(ScalarType::F32).allocate("pooling")?;
    fill(&wide)?;
    super::copy::copy_(to, &wide, false)
}

/// Each element of `grad_output` added to the element of the input whose place `indices` has.
fn max_backward(kind: Kind, grad_output: &Tensor, indices: &Tensor, grad_input: &Tensor) -> Result<()> {
    let sizes = [kind.spatial(grad_input.sizes()), kind.spatial(grad_output.sizes())];
    summed(grad_input, |gx| {
        let gy = &widened(grad_output)?;
        dispatch_all_types!(wide_floats, gx.dtype(), kind.name, T => with_scratch(kind.name, &[gy, indices], &[gx], |guarded| {
            if gx.numel() == 0 {
                return Ok(());
            }
            let of = |tensor: &Tensor| Channels::<T>::of(guarded, kind, tensor);
            let at = Channels::of(guarded, kind, indices);
            // SAFETY: the guards are held, sizes were checked, and `gx` shares no memory with what is read.
            unsafe { greatest::max_backward::<T>(sizes, &of(gy), &at, &of(gx)) };
            Ok(())
        }))
    })
}

fn mean_of<T: Pooled + Element>(kind: Kind, mean: &Mean, self_: &Tensor, out: &Tensor) -> Result<()> {
    with_scratch(kind.name, &[self_], &[out], |guarded| {
        // SAFETY: the guards are held; the windows are the input's, and `out` shares no memory with it.
        unsafe {
            mean::mean::<T>(mean, &Channels::of(guarded, kind, self_), &Channels::of(guarded, kind, out))
        };
        Ok(())
    })
}

fn mean_backward_of<T>(kind: Kind, mean: &Mean, gy: &Tensor, gx: &Tensor) -> Result<()>
where
    T: Pooled<Sum = T> + Element + AddAssign,
{
    with_scratch(kind.name, &[gy], &[gx], |guarded| {
        let input = kind.spatial(gx.sizes());
        // SAFETY: the guards are held; the windows are those of `gx`, which shares no memory with `gy`.
        unsafe {
            mean::mean_backward::<T>(
                mean,
                input,
                &Channels::of(guarded, kind, gy),
                &Channels::of(guarded, kind, gx),
            )
        };
        Ok(())
    })
}

/// Each element of `grad_output` shared among the elements of its window.
fn mean_backward(kind: Kind, mean: &Mean, grad_output: &Tensor, grad_input: &Tensor) -> Result<()> {
    summed(grad_input, |gx| {
        let gy = &widened(grad_output)?;
        match gx.dtype() {
            ScalarType::F64 => mean_backward_of::<f64>(kind, mean, gy, gx),
            ScalarType::F32 => mean_backward_of::<f32>(kind, mean, gy, gx),
            other => bail!(NotImplemented, "{} is not implemented for {other}", kind.name),
        }
    })
}
