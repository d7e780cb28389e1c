//! Runs the loops over images under the guards of their operands, and gradients of half precision in f32.
#![expect(unsafe_code, reason = "images reach the loops as raw memory, under guards")]

use super::channels::{Channels, PoolElement};
use super::mean::Mean;
use super::mean_window;
use super::{max_window, windows::Kind};
use crate::native::factory::copy;
use crate::native::shape::view;
use crate::structured::{TensorSpec, with_scratch};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, ScalarType, bail};

/// Half precision converted to f32, in which sums are kept; other types unchanged.
fn upcast_half(tensor: &Tensor) -> Result<Tensor> {
    if !tensor.dtype().is_reduced_floating_point() {
        return view::alias(tensor);
    }
    let wide = TensorSpec::like(tensor, tensor.sizes()).with_dtype(ScalarType::F32).allocate("pooling")?;
    copy::copy_(&wide, tensor, false)?;
    Ok(wide)
}

/// Calls `fill` on `to`, or on an f32 tensor that is converted to `to` if that is of half precision.
fn summed_in_f32(to: &Tensor, fill: impl Fn(&Tensor) -> Result<()>) -> Result<()> {
    if !to.dtype().is_reduced_floating_point() {
        return fill(to);
    }
    let wide = TensorSpec::like(to, to.sizes()).with_dtype(ScalarType::F32).allocate("pooling")?;
    fill(&wide)?;
    copy::copy_(to, &wide, false)
}

/// Each element of `grad_output` added to the element of the input that `indices` names.
pub(super) fn max_backward(
    kind: Kind,
    grad_output: &Tensor,
    indices: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    let sizes = [kind.spatial(grad_input.sizes()), kind.spatial(grad_output.sizes())];
    summed_in_f32(grad_input, |gx| {
        let gy = &upcast_half(grad_output)?;
        dispatch_all_types!(wide_floats, gx.dtype(), kind.name, T => with_scratch(kind.name, &[gy, indices], &[gx], |guarded| {
            if gx.numel() == 0 {
                return Ok(());
            }
            let of = |tensor: &Tensor| Channels::<T>::of(guarded, kind, tensor);
            let indices = Channels::of(guarded, kind, indices);
            // SAFETY: the guards are held, sizes were checked, and `gx` shares no memory with what is read.
            unsafe { max_window::max_backward::<T>(sizes, &of(gy), &indices, &of(gx)) };
            Ok(())
        }))
    })
}

pub(super) fn mean_of<T: PoolElement + Element>(
    kind: Kind,
    mean: &Mean,
    self_: &Tensor,
    out: &Tensor,
) -> Result<()> {
    with_scratch(kind.name, &[self_], &[out], |guarded| {
        // SAFETY: the guards are held; the windows are the input's, and `out` shares no memory with it.
        unsafe {
            mean_window::mean::<T>(
                mean,
                &Channels::of(guarded, kind, self_),
                &Channels::of(guarded, kind, out),
            )
        };
        Ok(())
    })
}

fn mean_backward_of<T>(kind: Kind, mean: &Mean, gy: &Tensor, gx: &Tensor) -> Result<()>
where
    T: PoolElement<Sum = T> + Element,
{
    with_scratch(kind.name, &[gy], &[gx], |guarded| {
        let input = kind.spatial(gx.sizes());
        // SAFETY: the guards are held; the windows are those of `gx`, which shares no memory with `gy`.
        unsafe {
            mean_window::mean_backward::<T>(
                mean,
                input,
                &Channels::of(guarded, kind, gy),
                &Channels::of(guarded, kind, gx),
            )
        };
        Ok(())
    })
}

/// Each element of `grad_output` divided evenly among the elements of its window.
pub(super) fn mean_backward(
    kind: Kind,
    mean: &Mean,
    grad_output: &Tensor,
    grad_input: &Tensor,
) -> Result<()> {
    summed_in_f32(grad_input, |gx| {
        let gy = &upcast_half(grad_output)?;
        match gx.dtype() {
            ScalarType::F64 => mean_backward_of::<f64>(kind, mean, gy, gx),
            ScalarType::F32 => mean_backward_of::<f32>(kind, mean, gy, gx),
            other => bail!(
                NotImplemented,
                operator = kind.name,
                argument = "self",
                "{} is not implemented for {other}",
                kind.name
            ),
        }
    })
}
