//! Convolutions over one, two and three dimensions, and their gradients.
//!
//! `algorithm` chooses an algorithm by sizes and dtype: an image in each lane, depthwise, direct, Winograd, or im2col and a matrix
//! product, which suits every convolution. A transposed convolution is the gradient of another convolution with respect to its
//! input, and is computed as that.

mod algorithm;
mod by_group;
mod conv_nd;
mod deinterleave;
mod depthwise;
mod direct;
mod gradient;
mod im2col_gemm;
mod image_lanes;
mod narrow;
mod padded_tile;
mod params;
mod unfold;
mod unfold_strided;
mod weights;
mod winograd;

pub use conv_nd::*;

use crate::native::linalg::matmul::ensure_same_device;
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use algorithm::{
    bias_gradient, converted, forward, has_constant_pixel_stride, input_gradient, transposed_in_lanes,
    weight_gradient,
};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, ensure};
use narrow::{Exchanged, exchanged, exchanged_view, is_narrow};
use params::ConvArgs;

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
    let args = ConvArgs { stride, padding, dilation, transposed, output_padding, groups };
    let p = args.params(weight)?;
    p.check(input, weight, bias.map(Tensor::sizes))?;
    for other in [Some(weight), bias].into_iter().flatten() {
        ensure_same_device("convolution", input, &[other])?;
        ensure!(
            other.dtype() == input.dtype(),
            Dtype("convolution"),
            "expected scalar type {} but found {}",
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
    let args = ConvArgs { stride, padding, dilation, transposed, output_padding, groups };
    convolve_into(&args, input, weight, bias, out)
}

fn convolve_into(
    args: &ConvArgs<'_>,
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    out: &Tensor,
) -> Result<()> {
    let p = args.params(weight)?;
    let conv = p.conv(input, weight, out);
    if image_lanes::suits(&conv, out.dtype()) {
        return match args.transposed {
            false => forward(&conv, input, weight, bias, out),
            true => transposed_in_lanes(&conv, input, weight, bias, out),
        };
    }
    if is_narrow(out.sizes()) {
        let (input, weight) = (exchanged(input)?, exchanged(weight)?);
        return convolve_into(&Exchanged::new(args).args(), &input, &weight, bias, &exchanged_view(out)?);
    }
    if !has_constant_pixel_stride(out) {
        let fresh = TensorSpec::like(out, out.sizes()).allocate("convolution")?;
        convolve_into(args, input, weight, bias, &fresh)?;
        return crate::native::factory::copy::copy_(out, &fresh, false);
    }
    if !args.transposed {
        return forward(&conv, input, weight, bias, out);
    }
    let result = input_gradient(&conv, input, weight, out.sizes())?;
    match bias {
        Some(bias) => {
            let mut sizes = DimVec::from_elem(1, out.dim() - 1);
            sizes[0] = -1;
            let per_channel = crate::native::shape::view::view(bias, &sizes)?;
            crate::native::factory::copy::copy_(
                out,
                &ops::add_tensor(&result, &per_channel, Scalar::Int(1))?,
                false,
            )
        }
        None => crate::native::factory::copy::copy_(out, &result, false),
    }
}

/// The gradients of [`convolution`] with respect to input, weight and bias; those that `output_mask` leaves out have no elements.
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
    let args = ConvArgs { stride, padding, dilation, transposed, output_padding, groups };
    let p = args.params(weight)?;
    let bias_sizes = bias_sizes.filter(|_| output_mask[2]);
    p.check(input, weight, bias_sizes)?;
    ensure_same_device("convolution_backward", input, &[weight, grad_output])?;
    let sizes = p.output_sizes(input.sizes(), weight.sizes())?;
    ensure!(
        grad_output.sizes() == sizes.as_slice(),
        Shape("convolution_backward", "grad_output"),
        "expected `grad_output` of sizes {sizes:?} but got {:?}",
        grad_output.sizes()
    );
    ensure!(
        input.dtype() == weight.dtype() && input.dtype() == grad_output.dtype() && input.is_floating_point(),
        Dtype("convolution_backward"),
        "expected floating point tensors of one type but got {}, {} and {}",
        grad_output.dtype(),
        input.dtype(),
        weight.dtype()
    );
    if input.device().is_meta() {
        return meta_gradients([input, weight], sizes[1], output_mask);
    }
    let (gy, x, w) = (grad_output, input, weight);
    let conv = p.conv(x, w, gy);
    if is_narrow(gy.sizes()) && !image_lanes::suits(&conv, gy.dtype()) {
        return exchanged_gradients(&args, [gy, x, w], bias_sizes, output_mask);
    }
    let if_needed = |is_needed: bool, compute: &dyn Fn() -> Result<Tensor>| {
        if is_needed { converted(&compute()?, input.dtype()) } else { no_gradient(input) }
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
        if_needed(output_mask[0], &grad_input)?,
        if_needed(output_mask[1], &grad_weight)?,
        if_needed(output_mask[2], &|| bias_gradient(gy))?,
    ))
}

/// [`convolution_backward`] with rows and columns exchanged.
fn exchanged_gradients(
    args: &ConvArgs<'_>,
    [grad_output, input, weight]: [&Tensor; 3],
    bias_sizes: Option<&[i64]>,
    output_mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let (exchanged_args, gy) = (Exchanged::new(args), exchanged(grad_output)?);
    let (x, w) = (exchanged(input)?, exchanged(weight)?);
    let ConvArgs { stride, padding, dilation, transposed, output_padding, groups } = exchanged_args.args();
    let (grad_input, grad_weight, grad_bias) = convolution_backward(
        &gy,
        &x,
        &w,
        bias_sizes,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
        output_mask,
    )?;
    let back =
        |is_needed: bool, gradient: Tensor| if is_needed { exchanged(&gradient) } else { Ok(gradient) };
    Ok((back(output_mask[0], grad_input)?, back(output_mask[1], grad_weight)?, grad_bias))
}

fn no_gradient(like: &Tensor) -> Result<Tensor> {
    TensorSpec::like(like, &[0]).allocate("convolution_backward")
}

fn meta_gradients(
    [input, weight]: [&Tensor; 2],
    channels: i64,
    mask: [bool; 3],
) -> Result<(Tensor, Tensor, Tensor)> {
    let of = |is_needed, sizes: &[i64]| {
        TensorSpec::like(input, if is_needed { sizes } else { &[0] }).allocate("convolution_backward")
    };
    Ok((of(mask[0], input.sizes())?, of(mask[1], weight.sizes())?, of(mask[2], &[channels])?))
}

/// The gradients of the results of [`convolution_backward`] with respect to `grad_output`, `input` and `weight`. A convolution is
/// linear in its input and in its weight, so these are convolutions, too.
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
    let args = ConvArgs { stride, padding, dilation, transposed, output_padding, groups };
    let backward = |x: &Tensor, w: &Tensor, mask| args.convolve_backward(grad_output, x, w, mask);
    let bias_shape: DimVec = (0..grad_output.dim()).map(|d| if d == 1 { -1 } else { 1 }).collect();
    let terms = [
        gg_input.map(|gg| args.convolve(gg, weight, None)).transpose()?,
        gg_weight.map(|gg| args.convolve(self_, gg, None)).transpose()?,
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
    let or_zeros = |gradient: Option<Tensor>, like: &Tensor| match gradient {
        Some(gradient) => Ok(gradient),
        None => ops::zeros(like.sizes(), Some(like.dtype()), None, Some(like.device()), None),
    };
    let for_input = gg_weight.map(|gg| backward(self_, gg, [true, false, false])).transpose()?.map(|g| g.0);
    let for_weight = gg_input.map(|gg| backward(gg, weight, [false, true, false])).transpose()?.map(|g| g.1);
    Ok((or_zeros(sum, grad_output)?, or_zeros(for_input, self_)?, or_zeros(for_weight, weight)?))
}
