//! The linear layer in one operator: rows of features times a matrix that is read transposed; and the gradient of that matrix.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use super::super::matmul::{Batch, ensure_same_device, spread_row};
use super::super::{copy, view};
use crate::structured::{TensorSpec, with_guards};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{DimVec, Result, bail, ensure, shape};

/// Whether [`super::linear`] is [`_linear`]: of features whose rows count as one matrix, and operands of one type.
pub(super) fn fits(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let alike = |t: &Tensor| t.dtype() == input.dtype() && t.device() == input.device();
    input.dim() > 1
        && takes(input, weight, bias)
        && alike(weight)
        && bias.is_none_or(alike)
        && (input.dim() == 2 || super::folds(input, weight))
}

/// Whether the sizes are those of a layer.
fn takes(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let ([.., features], [outputs, inner]) = (input.sizes(), weight.sizes()) else { return false };
    features == inner && bias.is_none_or(|bias| bias.sizes() == [*outputs])
}

fn check(name: &str, input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    ensure!(
        takes(input, weight, bias),
        Shape,
        "{name}: expected `input` of .. x in, `weight` of out x in and `bias` of out, but got {:?}, {:?} and {:?}",
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
        Dtype,
        "{name}: expected operands of one type but got {} and {}",
        input.dtype(),
        other.dtype()
    );
    Ok(())
}

/// Those of `input`, with `weight`'s number of outputs in the place of the features.
fn output_sizes(input: &Tensor, weight: &Tensor) -> DimVec {
    let mut sizes = DimVec::from_slice(input.sizes());
    if let (Some(last), [outputs, _]) = (sizes.last_mut(), weight.sizes()) {
        *last = *outputs;
    }
    sizes
}

/// The rows of `tensor` as one matrix, which is a copy where no strides say so.
fn rows(tensor: &Tensor) -> Result<Tensor> {
    let [leading @ .., last] = tensor.sizes() else { return view::reshape(tensor, &[1, 1]) };
    if leading.len() == 1 {
        Ok(tensor.clone())
    } else {
        view::reshape(tensor, &[shape::numel(leading)?, *last])
    }
}

/// Shape and type of [`_linear`].
pub fn _linear_meta(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<TensorSpec> {
    check("_linear", input, weight, bias)?;
    Ok(TensorSpec::like(input, &output_sizes(input, weight)))
}

/// `input weight^T + bias`; the bias is written first, and the product added to it.
pub fn _linear(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, out: &Tensor) -> Result<()> {
    const NAME: &str = "_linear";
    if let Some(bias) = bias
        && !spread_row(NAME, bias, out)?
    {
        copy::copy_(out, &view::expand(bias, out.sizes(), false)?, false)?;
    }
    let input = rows(input)?;
    dispatch_all_types!(numbers, out.dtype(), NAME, T => with_guards(NAME, &[&input, weight], &[out], || {
        let (x, w, y) = (Batch::<T>::matrices(&input), Batch::matrices(weight).turned(), Batch::dense_rows(out));
        // SAFETY: the guards are held; `out` is fresh and dense, and has the product's sizes.
        unsafe { y.take_product(&x, &w, bias.is_some()) };
        Ok(())
    }))
}

/// Shape and type of [`_linear_weight_backward`].
pub fn _linear_weight_backward_meta(grad_output: &Tensor, input: &Tensor) -> Result<TensorSpec> {
    const NAME: &str = "_linear_weight_backward";
    let ([leading @ .., outputs], [rows @ .., features]) = (grad_output.sizes(), input.sizes()) else {
        bail!(Shape, "{NAME}: expected rows but got {grad_output:?} and {input:?}")
    };
    ensure!(
        leading == rows,
        Shape,
        "{NAME}: expected as many rows in `grad_output` as in `input` but got {:?} and {:?}",
        grad_output.sizes(),
        input.sizes()
    );
    ensure_alike(NAME, input, grad_output)?;
    Ok(TensorSpec::like(input, &[*outputs, *features]))
}

/// The gradient of [`_linear`] for its weight: `grad_output^T input`.
pub fn _linear_weight_backward(grad_output: &Tensor, input: &Tensor, out: &Tensor) -> Result<()> {
    const NAME: &str = "_linear_weight_backward";
    let (grad, input) = (rows(grad_output)?, rows(input)?);
    dispatch_all_types!(numbers, out.dtype(), NAME, T => with_guards(NAME, &[&grad, &input], &[out], || {
        let (g, x, w) = (Batch::<T>::matrices(&grad).turned(), Batch::matrices(&input), Batch::dense_rows(out));
        // SAFETY: the guards are held; `out` is fresh and dense, and has the product's sizes.
        unsafe { w.take_product(&g, &x, false) };
        Ok(())
    }))
}
