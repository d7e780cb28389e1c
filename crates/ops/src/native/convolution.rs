//! Convolutions over one, two and three dimensions, and their gradients.
//!
//! Three functions do the work, [`product::forward`], [`gradient::input`] and [`gradient::weight`]. A transposed
//! convolution is the gradient of another one's input, so it is made of the same three with their roles exchanged.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

mod depthwise;
mod gradient;
mod named;
mod product;
mod shape;
mod split;
mod unfold;
mod winograd;

pub use named::*;

use super::matmul::ensure_same_device;
use crate::gemm::{GemmElement, Scratch, Shared};
use crate::structured::{TensorSpec, with_guards};
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, Element, MemoryFormat, Result, Scalar, ScalarType, ensure};
use shape::{Conv, Given, Parameters};
use smallvec::SmallVec;
use std::ops::Add;
use unfold::{Accumulate, Images};

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
        return super::copy::copy_(out, &fresh, false);
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
            let per_channel = super::view::view(bias, &sizes)?;
            super::copy::copy_(out, &ops::add_tensor(&result, &per_channel, Scalar::Int(1))?, false)
        }
        None => super::copy::copy_(out, &result, false),
    }
}

/// Whether the rows of each channel follow one another evenly, so that its pixels are one run. Where a dimension has one
/// place its stride means nothing.
fn has_even_rows(tensor: &Tensor) -> bool {
    let along = tensor.sizes().iter().zip(tensor.strides()).skip(2).filter(|(size, _)| **size != 1);
    let steps: SmallVec<[_; 3]> = along.collect();
    steps.windows(2).all(|pair| *pair[0].1 == pair[1].1.saturating_mul(*pair[1].0))
}

/// The same tensor, or a copy whose rows are even.
fn even(tensor: &Tensor) -> Result<Tensor> {
    if has_even_rows(tensor) { super::view::alias(tensor) } else { contiguous(tensor) }
}

fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() {
        return super::view::alias(tensor);
    }
    super::copy::clone(tensor, Some(MemoryFormat::Contiguous))
}

/// A tensor of three to five dimensions. In columns of one pixel the next pixel is in the next row, or in the next plane.
fn images<T>(tensor: &Tensor) -> Images<T> {
    let (sizes, s, rank) = (tensor.sizes(), tensor.strides(), tensor.dim());
    let along = |d: usize| (d + rank).checked_sub(3).filter(|place| *place >= 2).map_or(0, |place| s[place]);
    let pixel = (2..rank).rev().find(|d| sizes[*d] != 1).map_or(s[rank - 1], |d| s[d]);
    let strides = [s[0], s[1], along(0), along(1), pixel].map(|s| s as isize);
    Images { at: tensor.data_ptr().cast(), strides }
}

fn forward(conv: &Conv, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, y: &Tensor) -> Result<()> {
    let w = contiguous(w)?;
    if depthwise::suits(conv) && has_wide_floats(y) {
        return dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, depthwise::forward)
        });
    }
    if winograd::suits(conv) && has_wide_floats(y) {
        return dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, winograd_forward)
        });
    }
    dispatch_all_types!(numbers, y.dtype(), "convolution", T => {
        forward_by::<T>(conv, x, &w, bias, y, product::forward)
    })
}

/// The output by transformed tiles, or directly where that is not finite.
///
/// # Safety
/// - As [`product::forward`].
unsafe fn winograd_forward<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: Shared<T>,
    bias: Option<(Shared<T>, isize)>,
    y: Images<T>,
) where
    winograd::FromWeights<T>: EveryIsa,
    winograd::FromInput<T>: EveryIsa,
    winograd::ToOutput<T>: EveryIsa<bool>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if !winograd::forward(conv, x, winograd::Weights::of(conv, w), bias, y) {
            product::forward(conv, x, w, bias, y);
        }
    }
}

fn has_wide_floats(tensor: &Tensor) -> bool {
    [ScalarType::F32, ScalarType::F64].contains(&tensor.dtype())
}

/// A way to the output: input, weights, bias with its stride, output.
type Forward<T> = unsafe fn(&Conv, Images<T>, Shared<T>, Option<(Shared<T>, isize)>, Images<T>);

fn forward_by<T>(
    conv: &Conv,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    y: &Tensor,
    run: Forward<T>,
) -> Result<()> {
    with_guards("convolution", &[x, w, bias.unwrap_or(w)], &[y], || {
        let bias = bias.map(|b| (Shared(b.data_ptr().cast::<T>()), b.strides()[0] as isize));
        // SAFETY: the guards are held; sizes were checked; `w` is contiguous, `y` has even rows and shares no storage with what
        // is read.
        unsafe { run(conv, images(x), Shared(w.data_ptr().cast()), bias, images(y)) };
        Ok(())
    })
}

/// The gradient of the input of `conv`, of `sizes`, given that of its output. Half precision is summed in f32.
fn input_gradient(conv: &Conv, gy: &Tensor, w: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let (gy, w) = (&even(&widened(gy)?)?, &contiguous(&widened(w)?)?);
    let spec = TensorSpec::like(gy, sizes).with_format(gy.suggest_memory_format());
    let gx = spec.allocate("convolution_backward")?;
    match conv.flipped() {
        Some(back) if depthwise::suits(&back) && has_wide_floats(gy) => {
            // One channel's weights turned around are its weights from back to front.
            let turned = super::repeat::flip(&super::view::view(w, &[w.sizes()[0], -1])?, &[1])?;
            forward(&back, gy, &turned, None, &gx)?;
            return Ok(gx);
        }
        Some(back) if winograd::suits(&back) && has_wide_floats(gy) => {
            let is_finite = dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
                turned_forward::<T>(conv, &back, gy, w, &gx)
            })?;
            if is_finite {
                return Ok(gx);
            }
        }
        Some(_) => {}
        None => super::copy::zero_(&gx)?,
    }
    dispatch_all_types!(numbers, gy.dtype(), "convolution_backward", T => input_gradient_of::<T>(conv, gy, w, &gx))?;
    Ok(gx)
}

/// The gradient of the input by transformed tiles; whether it is finite.
fn turned_forward<T: GemmElement + Element>(
    conv: &Conv,
    back: &Conv,
    gy: &Tensor,
    w: &Tensor,
    gx: &Tensor,
) -> Result<bool>
where
    winograd::FromWeights<T>: EveryIsa,
    winograd::FromInput<T>: EveryIsa,
    winograd::ToOutput<T>: EveryIsa<bool>,
{
    with_guards("convolution_backward", &[gy, w], &[gx], || {
        let turned = winograd::Weights::turned(conv, Shared(w.data_ptr().cast::<T>()));
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh and `w` is contiguous.
        Ok(unsafe { winograd::forward(back, images(gy), turned, None, images(gx)) })
    })
}

fn input_gradient_of<T: GemmElement + Element + Accumulate>(
    conv: &Conv,
    gy: &Tensor,
    w: &Tensor,
    gx: &Tensor,
) -> Result<()> {
    with_guards("convolution_backward", &[gy, w], &[gx], || {
        let weights = Shared(w.data_ptr().cast::<T>());
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh, `gy` has even rows and `w` is contiguous.
        unsafe {
            match conv.flipped() {
                Some(back) => {
                    let mut flipped = Scratch::new::<T>(w.numel() as usize);
                    let flipped = Shared(flipped.as_mut_ptr::<T>());
                    gradient::flip(conv, weights.at(), flipped.at());
                    product::forward(&back, images(gy), flipped, None, images(gx));
                }
                None => gradient::input(conv, images(gy), weights, images(gx)),
            }
        }
        Ok(())
    })
}

/// The gradient of the weights of `conv`, of `sizes`. Half precision is summed in f32.
fn weight_gradient(conv: &Conv, gy: &Tensor, x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let (gy, x) = (&even(&widened(gy)?)?, &widened(x)?);
    let room = [&[gradient::parts(conv) as i64], sizes].concat();
    let partial = TensorSpec::like(gy, &room).allocate("convolution_backward")?;
    if conv.images == 0 || conv.pixels() == 0 {
        super::copy::zero_(&partial)?;
    } else if depthwise::suits(conv) && has_wide_floats(gy) {
        dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, depthwise::weight)
        })?;
    } else if winograd::suits(conv) && has_wide_floats(gy) {
        dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, winograd_weight)
        })?;
    } else {
        dispatch_all_types!(floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, gradient::weight)
        })?;
    }
    super::view::select(&partial, 0, 0)
}

/// The gradient of the weights by transformed tiles, or directly where that is not finite.
///
/// # Safety
/// - As [`gradient::weight`].
unsafe fn winograd_weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: Shared<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    winograd::FromInput<T>: EveryIsa,
    winograd::FromGradient<T>: EveryIsa,
    winograd::ToWeights<T>: EveryIsa<bool>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if !winograd::weight(conv, gy, x, partial) {
            gradient::weight(conv, gy, x, partial);
        }
    }
}

/// A way to the gradient of the weights: gradient of the output, input, weights.
type Weight<T> = unsafe fn(&Conv, Images<T>, Images<T>, Shared<T>);

fn weight_gradient_by<T>(
    conv: &Conv,
    gy: &Tensor,
    x: &Tensor,
    partial: &Tensor,
    run: Weight<T>,
) -> Result<()> {
    with_guards("convolution_backward", &[gy, x], &[partial], || {
        // SAFETY: the guards are held; sizes were checked; `partial` is fresh and `gy` has even rows.
        unsafe { run(conv, images(gy), images(x), Shared(partial.data_ptr().cast())) };
        Ok(())
    })
}

/// The gradient of the bias: the sum of `gy` over all but channels.
fn bias_gradient(gy: &Tensor) -> Result<Tensor> {
    let gy = &even(&widened(gy)?)?;
    let (sizes, channels) = (gy.sizes(), gy.sizes()[1]);
    let conv = Conv {
        images: sizes[0] as usize,
        groups: 1,
        channels: 0,
        filters: channels as usize,
        input: [1; 3],
        output: shape::spatial(&sizes[2..], 1),
        kernel: [1; 3],
        stride: [1; 3],
        padding: [0; 3],
        dilation: [1; 3],
    };
    let sums = TensorSpec::like(gy, &[channels]).allocate("convolution_backward")?;
    if conv.images == 0 {
        super::copy::zero_(&sums)?;
        return Ok(sums);
    }
    let ones = TensorSpec::like(gy, &[conv.pixels() as i64]).allocate("convolution_backward")?;
    super::copy::fill_(&ones, Scalar::Int(1))?;
    dispatch_all_types!(floats, gy.dtype(), "convolution_backward", T => {
        with_guards("convolution_backward", &[gy, &ones], &[&sums], || {
            // SAFETY: the guards are held; `sums` is fresh, `gy` has even rows, and there is a one for each pixel.
            unsafe { gradient::bias(&conv, images::<T>(gy), ones.data_ptr().cast(), sums.data_ptr().cast()) };
            Ok(())
        })
    })?;
    Ok(sums)
}

/// Half precision as f32; other types as they are.
fn widened(tensor: &Tensor) -> Result<Tensor> {
    converted(
        tensor,
        if tensor.dtype().is_reduced_floating_point() { ScalarType::F32 } else { tensor.dtype() },
    )
}

fn converted(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return super::view::alias(tensor);
    }
    let format = tensor.suggest_memory_format();
    let made = TensorSpec::like(tensor, tensor.sizes())
        .with_dtype(dtype)
        .with_format(format)
        .allocate("convolution")?;
    super::copy::copy_(&made, tensor, false)?;
    Ok(made)
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
