//! Convolutions over one, two and three dimensions, and their gradients.
//!
//! Three functions do the work, [`product::forward`], [`gradient::input`] and [`gradient::weight`]. A transposed
//! convolution is the gradient of another one's input, so it is made of the same three with their roles exchanged.

mod depthwise;
mod direct;
mod gradient;
mod named;
mod padded;
mod pairs;
mod product;
mod shape;
mod split;
mod unfold;
mod ways;
mod weights;
mod winograd;

pub use named::*;

use crate::native::linalg::matmul::ensure_same_device;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ensure};
use shape::{Conv, Given, Parameters};
use ways::{bias_gradient, converted, forward, has_even_rows, input_gradient, weight_gradient};

/// Shape, type and format of [`convolution`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn convolution_meta(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
) -> Result<TensorSpec> {
    let given = (stride, padding, dilation, transposed, output_padding, groups);
    let p = parameters(weight, given)?;
    p.check(input, weight, bias.map(Tensor::sizes))?;
    for other in [Some(weight), bias].into_iter().flatten() {
        ensure_same_device("convolution", input, &[other])?;
        ensure!(
            other.dtype() == input.dtype(),
            Dtype,
            "convolution: expected scalar type {} but found {}",
            input.dtype(),
            other.dtype()
        );
    }
    let format = match input.suggest_memory_format() {
        MemoryFormat::Contiguous => weight.suggest_memory_format(),
        format => format,
    };
    Ok(TensorSpec::like(input, &p.output_sizes(input.sizes(), weight.sizes())?).with_format(format))
}

fn parameters(weight: &Tensor, given: Given<'_>) -> Result<Parameters> {
    ensure!(weight.dim() >= 3, Shape, "weight should have at least three dimensions");
    ensure!(
        weight.dim() <= 5,
        NotImplemented,
        "convolution: more than three spatial dimensions are not implemented"
    );
    Parameters::new(given, weight.dim() - 2)
}

/// The sums over channels and kernel of `weight` times the pixels of `input` around each output pixel, and `bias`.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn convolution(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    out: &Tensor,
) -> Result<()> {
    let given = (stride, padding, dilation, transposed, output_padding, groups);
    let p = parameters(weight, given)?;
    if !has_even_rows(out) {
        let fresh = TensorSpec::like(out, out.sizes()).allocate("convolution")?;
        convolution(
            input,
            weight,
            bias,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            &fresh,
        )?;
        return crate::native::factory::copy::copy_(out, &fresh, false);
    }
    if !transposed {
        let conv = Conv::new(&p, input.sizes(), weight.sizes(), out.sizes());
        return forward(&conv, input, weight, bias, out);
    }
    let conv = Conv::new(&p, out.sizes(), weight.sizes(), input.sizes());
    let result = input_gradient(&conv, input, weight, out.sizes())?;
    match bias {
        Some(bias) => {
            let mut sizes = DimVec::from_elem(1, out.dim() - 1);
            sizes[0] = -1;
            let per_channel = crate::native::shape::view::view(bias, &sizes)?;
            crate::native::factory::copy::copy_(out, &ops::add_tensor(&result, &per_channel, Scalar::Int(1))?, false)
        }
        None => crate::native::factory::copy::copy_(out, &result, false),
    }
}

/// The gradients of [`convolution`] for input, weight and bias; one that `output_mask` does not ask for has no elements.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn convolution_backward(
    grad_output: &Tensor,
    input: &Tensor,
    weight: &Tensor,
    bias_sizes: Option<&[i64]>,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let given = (stride, padding, dilation, transposed, output_padding, groups);
    let p = parameters(weight, given)?;
    let bias_sizes = bias_sizes.filter(|_| output_mask[2]);
    p.check(input, weight, bias_sizes)?;
    ensure_same_device("convolution_backward", input, &[weight, grad_output])?;
    let sizes = p.output_sizes(input.sizes(), weight.sizes())?;
    ensure!(
        grad_output.sizes() == sizes.as_slice(),
        Shape,
        "convolution_backward: expected `grad_output` of sizes {sizes:?} but got {:?}",
        grad_output.sizes()
    );
    ensure!(
        input.dtype() == weight.dtype() && input.dtype() == grad_output.dtype() && input.is_floating_point(),
        Dtype,
        "convolution_backward: expected floating point tensors of one type but got {}, {} and {}",
        grad_output.dtype(),
        input.dtype(),
        weight.dtype()
    );
    if input.device().is_meta() {
        return without_values([input, weight], sizes[1], output_mask);
    }
    let (gy, x, w) = (grad_output, input, weight);
    let conv = if transposed {
        Conv::new(&p, gy.sizes(), w.sizes(), x.sizes())
    } else {
        Conv::new(&p, x.sizes(), w.sizes(), gy.sizes())
    };
    let asked = |asked: bool, make: &dyn Fn() -> Result<Tensor>| {
        if asked { converted(&make()?, input.dtype()) } else { nothing(input) }
    };
    let grad_input = || match transposed {
        false => input_gradient(&conv, gy, w, x.sizes()),
        true => {
            let format = gy.suggest_memory_format();
            let gx = TensorSpec::like(x, x.sizes()).with_format(format).allocate("convolution_backward")?;
            forward(&conv, gy, w, None, &gx)?;
            Ok(gx)
        }
    };
    let grad_weight = || {
        let (gy, x) = if transposed { (x, gy) } else { (gy, x) };
        weight_gradient(&conv, gy, x, w.sizes())
    };
    Ok((
        asked(output_mask[0], &grad_input)?,
        asked(output_mask[1], &grad_weight)?,
        asked(output_mask[2], &|| bias_gradient(gy))?,
    ))
}

fn nothing(like: &Tensor) -> Result<Tensor> {
    TensorSpec::like(like, &[0]).allocate("convolution_backward")
}

fn without_values(
    [input, weight]: [&Tensor; 2],
    channels: i64,
    mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let of = |asked, sizes: &[i64]| {
        TensorSpec::like(input, if asked { sizes } else { &[0] }).allocate("convolution_backward")
    };
    Ok((of(mask[0], input.sizes())?, of(mask[1], weight.sizes())?, of(mask[2], &[channels])?))
}

/// The gradients of [`convolution_backward`]'s results for its arguments `grad_output`, `input` and `weight`: all are
/// linear in each of the others, so they are convolutions again.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _convolution_double_backward(
    gg_input: Option<&Tensor>,
    gg_weight: Option<&Tensor>,
    gg_bias: Option<&Tensor>,
    grad_output: &Tensor,
    weight: &Tensor,
    self_: &Tensor,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    transposed: bool,
    output_padding: &[i64],
    groups: i64,
    _output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let convolve = |x: &Tensor, w: &Tensor| {
        ops::convolution(x, w, None, stride, padding, dilation, transposed, output_padding, groups)
    };
    let backward = |x: &Tensor, w: &Tensor, mask| {
        ops::convolution_backward(
            grad_output,
            x,
            w,
            None,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
            mask,
        )
    };
    let bias_shape: DimVec = (0..grad_output.dim()).map(|d| if d == 1 { -1 } else { 1 }).collect();
    let terms = [
        gg_input.map(|gg| convolve(gg, weight)).transpose()?,
        gg_weight.map(|gg| convolve(self_, gg)).transpose()?,
        gg_bias
            .map(|gg| ops::expand(&ops::view(gg, &bias_shape)?, grad_output.sizes(), false))
            .transpose()?,
    ];
    let mut sum: Option<Tensor> = None;
    for term in terms.into_iter().flatten() {
        sum = Some(match sum {
            Some(sum) => ops::add_tensor(&sum, &term, Scalar::Int(1))?,
            None => term,
        });
    }
    let or_zeros = |made: Option<Tensor>, like: &Tensor| match made {
        Some(made) => Ok(made),
        None => ops::zeros(like.sizes(), Some(like.dtype()), None, Some(like.device()), None),
    };
    let for_input = gg_weight.map(|gg| backward(self_, gg, [true, false, false])).transpose()?.map(|g| g.0);
    let for_weight = gg_input.map(|gg| backward(gg, weight, [false, true, false])).transpose()?.map(|g| g.1);
    Ok((or_zeros(sum, grad_output)?, or_zeros(for_input, self_)?, or_zeros(for_weight, weight)?))
}
