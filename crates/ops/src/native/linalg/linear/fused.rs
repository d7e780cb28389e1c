//! `linear` in one operator, without a node for the transposition of the weight; and the gradient of the weight.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use crate::native::linalg::matmul::{Batch, ensure_same_device};
use crate::native::shape::view;
use crate::snapshot::ensure_unchanged;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Access, DimVec, Result, bail, ensure, shape, with_guards};
use std::borrow::Cow;

/// Whether [`super::linear`] can be [`_linear`]: for an input whose rows are one matrix, and operands of one type and device.
pub(super) fn can_fuse(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let alike = |t: &Tensor| t.dtype() == input.dtype() && t.device() == input.device();
    input.dim() > 1
        && !input.dtype().is_complex()
        && sizes_match(input, weight, bias)
        && alike(weight)
        && bias.is_none_or(alike)
        && (input.dim() == 2 || super::can_fold(input, weight))
}

/// Whether the sizes of the operands match.
fn sizes_match(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let ([.., features], [outputs, inner]) = (input.sizes(), weight.sizes()) else { return false };
    features == inner && bias.is_none_or(|bias| bias.sizes() == [*outputs])
}

fn check(name: &str, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    ensure!(
        sizes_match(input, weight, bias),
        Shape(name, "input"),
        "expected `input` of .. x in, `weight` of out x in and `bias` of out, but got {:?}, {:?} and {:?}",
        input.sizes(),
        weight.sizes(),
        bias.map(Tensor::sizes)
    );
    [Some(weight), bias].into_iter().flatten().try_for_each(|other| ensure_alike(name, input, other))
}

fn ensure_alike(name: &str, input: &Tensor, other: &Tensor) -> Result<()> {
    ensure_same_device(name, input, &[other])?;
    ensure!(
        other.dtype() == input.dtype(),
        Dtype(name),
        "expected operands of one type but got {} and {}",
        input.dtype(),
        other.dtype()
    );
    Ok(())
}

/// The sizes of `input`, with the last one replaced by the number of outputs.
fn output_sizes(input: &Tensor, weight: &Tensor) -> DimVec {
    let mut sizes = DimVec::from_slice(input.sizes());
    if let (Some(last), [outputs, _]) = (sizes.last_mut(), weight.sizes()) {
        *last = *outputs;
    }
    sizes
}

/// The rows of `tensor` as one matrix, which is a copy if no strides describe it.
fn rows(tensor: &Tensor) -> Result<Cow<'_, Tensor>> {
    match tensor.sizes() {
        [_, _] => Ok(Cow::Borrowed(tensor)),
        [leading @ .., last] => view::reshape(tensor, &[shape::numel(leading)?, *last]).map(Cow::Owned),
        [] => view::reshape(tensor, &[1, 1]).map(Cow::Owned),
    }
}

/// Shape and type of [`_linear`].
pub fn _linear_meta(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<TensorSpec> {
    check("_linear", input, weight, bias)?;
    Ok(TensorSpec::like(input, &output_sizes(input, weight)))
}

/// `input weight^T + bias`.
pub fn _linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: &Tensor) -> Result<()> {
    const NAME: &str = "_linear";
    let input = &*rows(input)?;
    let read = [input, weight, bias.unwrap_or(weight)].map(|t| (t.storage(), Access::Read));
    let accesses = [(out.storage(), Access::Write), read[0], read[1], read[2]];
    with_guards(&accesses[..3 + usize::from(bias.is_some())], |guarded| {
        ensure_unchanged(&[input, weight, bias.unwrap_or(weight)])?;
        dispatch_all_types!(numbers, out.dtype(), NAME, T => {
            let (x, w) = (Batch::<T>::matrices(guarded, input), Batch::matrices(guarded, weight).transposed());
            let (y, bias) = (Batch::dense_rows(guarded, out), bias.map(|bias| Batch::repeated(guarded, bias)));
            // SAFETY: the guards are held; `out` is fresh and dense, and has the product's sizes.
            y.packing(&x, || unsafe { y.take_product(&x, &w, bias.as_ref()) })
        })
    })
    .map_err(|e| e.in_operator(NAME))?
}

/// Shape and type of [`_linear_weight_backward`].
pub fn _linear_weight_backward_meta(grad_output: &Tensor, input: &Tensor) -> Result<TensorSpec> {
    const NAME: &str = "_linear_weight_backward";
    let ([leading @ .., outputs], [rows @ .., features]) = (grad_output.sizes(), input.sizes()) else {
        bail!(
            Shape(NAME, "grad_output"),
            "expected rows but got {} and {}",
            grad_output.signature(),
            input.signature()
        )
    };
    ensure!(
        leading == rows,
        Shape(NAME, "grad_output"),
        "expected as many rows in `grad_output` as in `input` but got {:?} and {:?}",
        grad_output.sizes(),
        input.sizes()
    );
    ensure_alike(NAME, input, grad_output)?;
    Ok(TensorSpec::like(input, &[*outputs, *features]))
}

/// The gradient of [`_linear`] for its weight: `grad_output^T input`.
pub fn _linear_weight_backward(grad_output: &Tensor, input: &Tensor, out: &Tensor) -> Result<()> {
    const NAME: &str = "_linear_weight_backward";
    let (grad, input) = (&*rows(grad_output)?, &*rows(input)?);
    let accesses =
        [(grad.storage(), Access::Read), (input.storage(), Access::Read), (out.storage(), Access::Write)];
    with_guards(&accesses, |guarded| {
        ensure_unchanged(&[grad, input])?;
        dispatch_all_types!(numbers, out.dtype(), NAME, T => {
            let (g, x) = (Batch::<T>::matrices(guarded, grad).transposed(), Batch::matrices(guarded, input));
            let w = Batch::dense_rows(guarded, out);
            // SAFETY: the guards are held; `out` is fresh and dense, and has the product's sizes.
            w.packing(&g, || unsafe { w.take_product(&g, &x, None) })
        })
    })
    .map_err(|e| e.in_operator(NAME))?
}
