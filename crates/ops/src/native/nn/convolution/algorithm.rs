//! Which way an output and its gradients are made, by sizes and types alone, and the tensors on that way.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use super::shape::Conv;
use super::unfold::{Accumulate, Images};
use super::weights::Weights;
use super::{depthwise, direct, gradient, padded, product, shape, winograd};
use crate::gemm::{GemmElement, Scratch, Shared};
use crate::native::factory::copy;
use crate::native::shape::repeat_roll_pad;
use crate::native::shape::view;
use crate::structured::{TensorSpec, with_guards, with_scratch};
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Guarded, MemoryFormat, Result, Scalar, ScalarType};
use smallvec::SmallVec;
use std::ops::{Add, Mul};

/// Whether the rows of each channel follow one another evenly, so that its pixels are one run. Where a dimension has one
/// place its stride means nothing.
pub(super) fn has_even_rows(tensor: &Tensor) -> bool {
    let along = tensor.sizes().iter().zip(tensor.strides()).skip(2).filter(|(size, _)| **size != 1);
    let steps: SmallVec<[_; 3]> = along.collect();
    steps.windows(2).all(|pair| *pair[0].1 == pair[1].1.saturating_mul(*pair[1].0))
}

/// The same tensor, or a copy whose rows are even.
fn even(tensor: &Tensor) -> Result<Tensor> {
    if has_even_rows(tensor) { view::alias(tensor) } else { contiguous(tensor) }
}

fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() {
        return view::alias(tensor);
    }
    copy::clone(tensor, Some(MemoryFormat::Contiguous))
}

/// A tensor of three to five dimensions. In columns of one pixel the next pixel is in the next row, or in the next plane.
fn images<T>(guarded: Guarded<'_>, tensor: &Tensor) -> Images<T> {
    let view = tensor.strided_view();
    let (sizes, s, rank) = (view.sizes(), view.strides(), view.dim());
    let along = |d: usize| (d + rank).checked_sub(3).filter(|place| *place >= 2).map_or(0, |place| s[place]);
    let pixel = (2..rank).rev().find(|d| sizes[*d] != 1).map_or(s[rank - 1], |d| s[d]);
    let strides = [s[0], s[1], along(0), along(1), pixel].map(|s| s as isize);
    Images { at: guarded.ptr(view).cast(), strides }
}

/// How an output is made, by sizes and type alone.
enum Way {
    /// Rows of each channel by itself.
    Depthwise,
    /// Products that read the image itself.
    Direct,
    /// Winograd's tiles.
    Transformed,
    /// Products with columns, or with the pixels of an image where those are the columns.
    Columns,
}

fn way(conv: &Conv, dtype: ScalarType) -> Way {
    match [ScalarType::F32, ScalarType::F64].contains(&dtype) {
        true if depthwise::suits(conv) => Way::Depthwise,
        true if direct::suits(conv) => Way::Direct,
        true if winograd::suits(conv) => Way::Transformed,
        _ => Way::Columns,
    }
}

pub(super) fn forward(conv: &Conv, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, y: &Tensor) -> Result<()> {
    let w = contiguous(w)?;
    match way(conv, y.dtype()) {
        Way::Depthwise => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, depthwise::forward)
        }),
        Way::Direct => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, direct_forward)
        }),
        Way::Transformed => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, winograd_forward)
        }),
        Way::Columns => dispatch_all_types!(numbers, y.dtype(), "convolution", T => {
            forward_by::<T>(conv, x, &w, bias, y, product::forward)
        }),
    }
}

/// How the gradient of the weights is made.
fn weight_way(conv: &Conv) -> Way {
    match () {
        () if depthwise::suits(conv) => Way::Depthwise,
        () if direct::suits_weights(conv) => Way::Direct,
        () if winograd::suits(conv) => Way::Transformed,
        () => Way::Columns,
    }
}

/// The output by products that read the image itself.
///
/// # Safety
/// - As [`product::forward`].
unsafe fn direct_forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: Shared<T>,
    bias: Option<(Shared<T>, isize)>,
    y: Images<T>,
) where
    for<'c> padded::Fill<'c, T>: EveryIsa,
    for<'c> direct::Outputs<'c, T>: EveryIsa,
{
    // SAFETY: by this function's condition.
    unsafe { direct::forward(conv, x, Weights::of(conv, w), bias, y) }
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
    for<'p> winograd::FromPixels<'p, T, { winograd::INPUT }>: EveryIsa,
    winograd::ToOutput<T>: EveryIsa<bool>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if !winograd::forward(conv, x, Weights::of(conv, w), bias, y) {
            product::forward(conv, x, w, bias, y);
        }
    }
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
    with_scratch("convolution", &[x, w, bias.unwrap_or(w)], &[y], |guarded| {
        let bias = bias.map(|b| (Shared(guarded.ptr(b.strided_view()).cast::<T>()), b.strides()[0] as isize));
        // SAFETY: the guards are held; sizes were checked; `w` is contiguous, `y` has even rows and shares no storage with what
        // is read.
        unsafe {
            run(
                conv,
                images(guarded, x),
                Shared(guarded.ptr(w.strided_view()).cast()),
                bias,
                images(guarded, y),
            )
        };
        Ok(())
    })
}

/// The gradient of the input of `conv`, of `sizes`, given that of its output. Half precision is summed in f32.
pub(super) fn input_gradient(conv: &Conv, gy: &Tensor, w: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let (gy, w) = (&even(&widened(gy)?)?, &contiguous(&widened(w)?)?);
    let spec = TensorSpec::like(gy, sizes).with_format(gy.suggest_memory_format());
    let gx = spec.allocate("convolution_backward")?;
    let back = match conv.flipped() {
        // The padding stands for outputs that are not there: a weight that is not finite must not meet its zeros.
        Some(back) if back.padding != [0; 3] && !is_finite(w)? => None,
        back => back,
    };
    match back.map(|back| (way(&back, gy.dtype()), back)) {
        Some((Way::Depthwise, back)) => {
            // There is one filter for each group, so its kernels lie in the order of the channels they give.
            let turned = repeat_roll_pad::flip(&view::view(w, &[-1, conv.places() as i64])?, &[1])?;
            forward(&back, gy, &turned, None, &gx)?;
            return Ok(gx);
        }
        Some((way @ (Way::Direct | Way::Transformed), back)) => {
            let is_direct = matches!(way, Way::Direct);
            let is_finite = dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
                turned_forward::<T>(conv, &back, gy, w, &gx, is_direct)
            })?;
            if is_finite {
                return Ok(gx);
            }
        }
        Some((Way::Columns, _)) => {}
        None => copy::zero_(&gx)?,
    }
    dispatch_all_types!(numbers, gy.dtype(), "convolution_backward", T => {
        input_gradient_of::<T>(conv, back.as_ref(), gy, w, &gx)
    })?;
    Ok(gx)
}

/// Whether no element of a contiguous tensor is infinite or NaN. Half precision is widened before.
fn is_finite(tensor: &Tensor) -> Result<bool> {
    if !tensor.is_floating_point() || tensor.numel() == 0 {
        return Ok(true);
    }
    dispatch_all_types!(wide_floats, tensor.dtype(), "convolution_backward", T => {
        with_guards("convolution_backward", &[tensor], &[], |guarded| {
            let first = guarded.ptr(tensor.strided_view()).cast::<T>();
            // SAFETY: the guard is held, and the tensor is contiguous.
            let values = unsafe { std::slice::from_raw_parts(first, tensor.numel() as usize) };
            Ok(are_finite(values, T::default()))
        })
    })
}

/// Whether products with `zero` are: sums of several elements at a time, for which compilers find vectors.
fn are_finite<T: Copy + Add<Output = T> + Mul<Output = T> + PartialEq>(values: &[T], zero: T) -> bool {
    let mut sums = [zero; 16];
    for some in values.chunks(16) {
        for (sum, value) in sums.iter_mut().zip(some) {
            *sum = *sum + *value * zero;
        }
    }
    sums.into_iter().all(|sum| sum == zero)
}

/// The gradient of the input by products that read the image itself, or by transformed tiles; whether the latter are finite.
fn turned_forward<T: GemmElement + Element>(
    conv: &Conv,
    back: &Conv,
    gy: &Tensor,
    w: &Tensor,
    gx: &Tensor,
    is_direct: bool,
) -> Result<bool>
where
    for<'c> padded::Fill<'c, T>: EveryIsa,
    for<'c> direct::Outputs<'c, T>: EveryIsa,
    winograd::FromWeights<T>: EveryIsa,
    for<'p> winograd::FromPixels<'p, T, { winograd::INPUT }>: EveryIsa,
    winograd::ToOutput<T>: EveryIsa<bool>,
{
    with_scratch("convolution_backward", &[gy, w], &[gx], |guarded| {
        let turned = Weights::turned(conv, Shared(guarded.ptr(w.strided_view()).cast::<T>()));
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh and `w` is contiguous.
        unsafe {
            if is_direct {
                direct::forward(back, images(guarded, gy), turned, None, images(guarded, gx));
                return Ok(true);
            }
            Ok(winograd::forward(back, images(guarded, gy), turned, None, images(guarded, gx)))
        }
    })
}

fn input_gradient_of<T: GemmElement + Element + Accumulate>(
    conv: &Conv,
    back: Option<&Conv>,
    gy: &Tensor,
    w: &Tensor,
    gx: &Tensor,
) -> Result<()> {
    with_scratch("convolution_backward", &[gy, w], &[gx], |guarded| {
        let weights = Shared(guarded.ptr(w.strided_view()).cast::<T>());
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh, `gy` has even rows and `w` is contiguous.
        unsafe {
            match back {
                Some(back) => {
                    let mut flipped = Scratch::new::<T>(w.numel() as usize);
                    let flipped = Shared(flipped.as_mut_ptr::<T>());
                    gradient::flip(conv, weights.at(), flipped.at());
                    product::forward(back, images(guarded, gy), flipped, None, images(guarded, gx));
                }
                None => gradient::input(conv, images(guarded, gy), weights, images(guarded, gx)),
            }
        }
        Ok(())
    })
}

/// The gradient of the weights of `conv`, of `sizes`. Half precision is summed in f32.
pub(super) fn weight_gradient(conv: &Conv, gy: &Tensor, x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let (gy, x) = (&even(&widened(gy)?)?, &widened(x)?);
    let room = [&[gradient::parts(conv) as i64], sizes].concat();
    let partial = TensorSpec::like(gy, &room).allocate("convolution_backward")?;
    if conv.images == 0 || conv.pixels() == 0 {
        copy::zero_(&partial)?;
        return view::select(&partial, 0, 0);
    }
    match weight_way(conv) {
        Way::Depthwise => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, depthwise::weight)
        })?,
        Way::Direct => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, direct::weight)
        })?,
        Way::Transformed => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, winograd_weight)
        })?,
        Way::Columns => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_by::<T>(conv, gy, x, &partial, gradient::weight)
        })?,
    }
    view::select(&partial, 0, 0)
}

/// The gradient of the weights by transformed tiles, or directly where that is not finite.
///
/// # Safety
/// - As [`gradient::weight`].
unsafe fn winograd_weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: Shared<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    for<'p> winograd::FromPixels<'p, T, { winograd::INPUT }>: EveryIsa,
    for<'p> winograd::FromPixels<'p, T, { winograd::GRADIENT }>: EveryIsa,
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
    with_scratch("convolution_backward", &[gy, x], &[partial], |guarded| {
        // SAFETY: the guards are held; sizes were checked; `partial` is fresh and `gy` has even rows.
        unsafe {
            run(
                conv,
                images(guarded, gy),
                images(guarded, x),
                Shared(guarded.ptr(partial.strided_view()).cast()),
            )
        };
        Ok(())
    })
}

/// The gradient of the bias: the sum of `gy` over all but channels.
pub(super) fn bias_gradient(gy: &Tensor) -> Result<Tensor> {
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
        copy::zero_(&sums)?;
        return Ok(sums);
    }
    let ones = TensorSpec::like(gy, &[conv.pixels() as i64]).allocate("convolution_backward")?;
    copy::fill_(&ones, Scalar::Int(1))?;
    dispatch_all_types!(floats, gy.dtype(), "convolution_backward", T => {
        with_scratch("convolution_backward", &[gy, &ones], &[&sums], |guarded| {
            // SAFETY: the guards are held; `sums` is fresh, `gy` has even rows, and there is a one for each pixel.
            unsafe { gradient::bias(&conv, images::<T>(guarded, gy), guarded.ptr(ones.strided_view()).cast(), guarded.ptr(sums.strided_view()).cast()) };
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

pub(super) fn converted(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return view::alias(tensor);
    }
    let format = tensor.suggest_memory_format();
    let made = TensorSpec::like(tensor, tensor.sizes())
        .with_dtype(dtype)
        .with_format(format)
        .allocate("convolution")?;
    copy::copy_(&made, tensor, false)?;
    Ok(made)
}
