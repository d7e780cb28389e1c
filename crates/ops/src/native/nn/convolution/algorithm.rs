//! The choice of an algorithm, by sizes and dtype alone, and the entry points that run it on tensors.
#![expect(unsafe_code, reason = "operands reach the product as raw memory, under guards")]

use super::by_group::{ForwardOfGroup, direct_group, forward_by_group, weight_by_group};
use super::params::Conv;
use super::unfold::{Accumulate, Images};
use super::weights::Weights;
use super::{depthwise, direct, gradient, im2col_gemm, image_lanes, padded_tile, params, winograd};
use crate::gemm::{GemmElement, Scratch, SendPtr};
use crate::native::factory::copy;
use crate::native::shape::flip_roll;
use crate::native::shape::view;
use crate::structured::{TensorSpec, with_guards, with_scratch};
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types, ops};
use flambeau_core::{DimVec, Element, Guarded, MemoryFormat, Result, Scalar, ScalarType};
use smallvec::SmallVec;
use std::ops::{Add, Mul};

/// Whether the pixels of each channel are at a constant stride, across rows and planes too. The strides of dimensions of size 1
/// are ignored.
pub(super) fn has_constant_pixel_stride(tensor: &Tensor) -> bool {
    let spatial = tensor.sizes().iter().zip(tensor.strides()).skip(2).filter(|(size, _)| **size != 1);
    let steps: SmallVec<[_; 3]> = spatial.collect();
    steps.windows(2).all(|pair| *pair[0].1 == pair[1].1.saturating_mul(*pair[1].0))
}

/// The same tensor, or a copy for which [`has_constant_pixel_stride`] holds.
fn with_constant_pixel_stride(tensor: &Tensor) -> Result<Tensor> {
    if has_constant_pixel_stride(tensor) { view::alias(tensor) } else { contiguous(tensor) }
}

fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_contiguous() {
        return view::alias(tensor);
    }
    copy::clone(tensor, Some(MemoryFormat::Contiguous))
}

/// A tensor of three to five dimensions. Where rows have one pixel, the pixel stride is that of rows, or of planes.
fn images<T>(guarded: Guarded<'_>, tensor: &Tensor) -> Images<T> {
    let view = tensor.strided_view();
    let (sizes, s, rank) = (view.sizes(), view.strides(), view.dim());
    let along = |d: usize| (d + rank).checked_sub(3).filter(|dim| *dim >= 2).map_or(0, |dim| s[dim]);
    let pixel = (2..rank).rev().find(|d| sizes[*d] != 1).map_or(s[rank - 1], |d| s[d]);
    let strides = [s[0], s[1], along(0), along(1), pixel].map(|s| s as isize);
    Images { ptr: guarded.ptr(view).cast(), strides }
}

/// What computes images that are not for [`image_lanes`].
enum ConvAlgorithm {
    /// Each channel convolved by itself.
    Depthwise,
    /// Multiply-adds that read a padded tile of the input at every kernel position.
    Direct,
    /// Winograd's F(2x2, 3x3).
    Winograd,
    /// Matrix products with columns (`im2col`), or with the input itself where its pixels are the columns.
    Im2col,
}

/// The algorithm for the output. Direct and Winograd's convolutions are of one group: several are computed one by one.
fn forward_algorithm(conv: &Conv, dtype: ScalarType) -> ConvAlgorithm {
    let group = conv.of_group();
    match [ScalarType::F32, ScalarType::F64].contains(&dtype) {
        true if depthwise::suits(conv) => ConvAlgorithm::Depthwise,
        true if direct::suits(&group) => ConvAlgorithm::Direct,
        true if winograd::suits(&group) => ConvAlgorithm::Winograd,
        _ => ConvAlgorithm::Im2col,
    }
}

pub(super) fn forward(conv: &Conv, x: &Tensor, w: &Tensor, bias: Option<&Tensor>, y: &Tensor) -> Result<()> {
    let w = contiguous(w)?;
    if image_lanes::suits(conv, y.dtype()) {
        return dispatch_all_types!(floats, y.dtype(), "convolution", T => {
            forward_with::<T>(conv, x, &w, bias, y, image_lanes::forward)
        });
    }
    match forward_algorithm(conv, y.dtype()) {
        ConvAlgorithm::Depthwise => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_with::<T>(conv, x, &w, bias, y, depthwise::forward)
        }),
        ConvAlgorithm::Direct => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_with::<T>(conv, x, &w, bias, y, direct_forward)
        }),
        ConvAlgorithm::Winograd => dispatch_all_types!(wide_floats, y.dtype(), "convolution", T => {
            forward_with::<T>(conv, x, &w, bias, y, winograd_forward)
        }),
        ConvAlgorithm::Im2col => dispatch_all_types!(numbers, y.dtype(), "convolution", T => {
            forward_with::<T>(conv, x, &w, bias, y, im2col_gemm::forward)
        }),
    }
}

/// The algorithm for the weight gradient.
fn weight_gradient_algorithm(conv: &Conv) -> ConvAlgorithm {
    let group = conv.of_group();
    match () {
        () if depthwise::suits(conv) => ConvAlgorithm::Depthwise,
        () if direct::suits_weights(&group) => ConvAlgorithm::Direct,
        () if winograd::suits(&group) => ConvAlgorithm::Winograd,
        () => ConvAlgorithm::Im2col,
    }
}

/// The output by [`direct`].
///
/// # Safety
/// - As [`im2col_gemm::forward`].
unsafe fn direct_forward<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) where
    for<'c> padded_tile::Fill<'c, T>: EveryIsa,
    for<'c> direct::ForwardBlock<'c, T>: EveryIsa,
{
    // SAFETY: by this function's condition.
    unsafe {
        forward_by_group(conv, x, (conv, Weights::new(conv, w)), bias, y, direct_group);
    }
}

/// The output by Winograd's algorithm, or by a matrix product if that result is not finite: its sums may overflow where a
/// convolution's do not.
///
/// # Safety
/// - As [`im2col_gemm::forward`].
unsafe fn winograd_forward<T: GemmElement + Element>(
    conv: &Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) where
    winograd::WeightTransform<T>: EveryIsa,
    for<'p> winograd::TileTransform<'p, T, { winograd::INPUT_TILE }>: EveryIsa,
    winograd::OutputTransform<T>: EveryIsa<bool>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if !forward_by_group(conv, x, (conv, Weights::new(conv, w)), bias, y, winograd::forward) {
            im2col_gemm::forward(conv, x, w, bias, y);
        }
    }
}

/// Computes an output: input, weights, bias with its stride, output.
type ForwardFn<T> = unsafe fn(&Conv, Images<T>, SendPtr<T>, Option<(SendPtr<T>, isize)>, Images<T>);

fn forward_with<T>(
    conv: &Conv,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    y: &Tensor,
    run: ForwardFn<T>,
) -> Result<()> {
    with_scratch("convolution", &[x, w, bias.unwrap_or(w)], &[y], |guarded| {
        let bias =
            bias.map(|b| (SendPtr(guarded.ptr(b.strided_view()).cast::<T>()), b.strides()[0] as isize));
        // SAFETY: the guards are held; sizes were checked; `w` is contiguous, `y` has a constant pixel stride and shares no
        // storage with what is read.
        unsafe {
            run(
                conv,
                images(guarded, x),
                SendPtr(guarded.ptr(w.strided_view()).cast()),
                bias,
                images(guarded, y),
            )
        };
        Ok(())
    })
}

/// The input gradient of a convolution that suits [`image_lanes`], and `bias`: a transposed convolution.
pub(super) fn transposed_in_lanes(
    conv: &Conv,
    gy: &Tensor,
    w: &Tensor,
    bias: Option<&Tensor>,
    gx: &Tensor,
) -> Result<()> {
    dispatch_all_types!(floats, gx.dtype(), "convolution", T => {
        forward_with::<T>(conv, gy, &contiguous(w)?, bias, gx, image_lanes::input_gradient)
    })
}

/// The gradient of the input of `conv`, which has `sizes`, given that of its output. Half precision is summed in f32.
pub(super) fn input_gradient(conv: &Conv, gy: &Tensor, w: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if image_lanes::suits(conv, gy.dtype()) {
        let spec = TensorSpec::like(gy, sizes).with_format(gy.suggest_memory_format());
        let gx = spec.allocate("convolution_backward")?;
        transposed_in_lanes(conv, gy, w, None, &gx)?;
        return Ok(gx);
    }
    let (gy, w) = (&with_constant_pixel_stride(&upcast_half(gy)?)?, &contiguous(&upcast_half(w)?)?);
    let spec = TensorSpec::like(gy, sizes).with_format(gy.suggest_memory_format());
    let gx = spec.allocate("convolution_backward")?;
    let back = match conv.flipped() {
        // The flipped convolution multiplies its zero padding by weights where the true gradient has no term: with a weight that
        // is not finite the product would be NaN.
        Some(back) if back.padding != [0; 3] && !is_finite(w)? => None,
        back => back,
    };
    match back.map(|back| (forward_algorithm(&back, gy.dtype()), back)) {
        Some((ConvAlgorithm::Depthwise, back)) => {
            // There is one filter for each group, so kernels are already in the order of the channels that they compute.
            let flipped = flip_roll::flip(&view::view(w, &[-1, conv.kernel_numel() as i64])?, &[1])?;
            forward(&back, gy, &flipped, None, &gx)?;
            return Ok(gx);
        }
        Some((algorithm @ (ConvAlgorithm::Direct | ConvAlgorithm::Winograd), back)) => {
            let is_direct = matches!(algorithm, ConvAlgorithm::Direct);
            let is_finite = dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
                flipped_forward::<T>(conv, &back, gy, w, &gx, is_direct)
            })?;
            if is_finite {
                return Ok(gx);
            }
        }
        Some((ConvAlgorithm::Im2col, _)) | None => {}
    }
    // Flipping the weights takes longer than adding up the columns of few pixels.
    let back = back.filter(|_| conv.images.saturating_mul(conv.pixels()) >= 2 * conv.filters);
    if back.is_none() {
        copy::zero_(&gx)?;
    }
    dispatch_all_types!(numbers, gy.dtype(), "convolution_backward", T => {
        input_gradient_of::<T>(conv, back.as_ref(), gy, w, &gx)
    })?;
    Ok(gx)
}

/// Whether no element of a contiguous tensor, which is not of half precision, is infinite or NaN.
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

/// Whether all `values` are finite: their products with zero are zero then, and NaN otherwise. Sixteen sums, so that it
/// vectorizes.
fn are_finite<T: Copy + Add<Output = T> + Mul<Output = T> + PartialEq>(values: &[T], zero: T) -> bool {
    let mut sums = [zero; 16];
    for chunk in values.chunks(16) {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum = *sum + *value * zero;
        }
    }
    sums.into_iter().all(|sum| sum == zero)
}

/// The input gradient as a convolution with flipped weights, direct or by Winograd's algorithm; `false` if the latter is not
/// finite.
fn flipped_forward<T: GemmElement + Element>(
    conv: &Conv,
    back: &Conv,
    gy: &Tensor,
    w: &Tensor,
    gx: &Tensor,
    is_direct: bool,
) -> Result<bool>
where
    for<'c> padded_tile::Fill<'c, T>: EveryIsa,
    for<'c> direct::ForwardBlock<'c, T>: EveryIsa,
    winograd::WeightTransform<T>: EveryIsa,
    for<'p> winograd::TileTransform<'p, T, { winograd::INPUT_TILE }>: EveryIsa,
    winograd::OutputTransform<T>: EveryIsa<bool>,
{
    with_scratch("convolution_backward", &[gy, w], &[gx], |guarded| {
        let weights = Weights::flipped(conv, SendPtr(guarded.ptr(w.strided_view()).cast::<T>()));
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh and `w` is contiguous.
        unsafe {
            let run: ForwardOfGroup<T> = if is_direct { direct_group } else { winograd::forward };
            Ok(forward_by_group(back, images(guarded, gy), (conv, weights), None, images(guarded, gx), run))
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
        let weights = SendPtr(guarded.ptr(w.strided_view()).cast::<T>());
        // SAFETY: the guards are held; sizes were checked; `gx` is fresh, `gy` has a constant pixel stride and `w` is contiguous.
        unsafe {
            match back {
                Some(back) => {
                    let mut flipped = Scratch::new::<T>(w.numel() as usize);
                    let flipped = SendPtr(flipped.as_mut_ptr::<T>());
                    gradient::flip(conv, weights.at(), flipped.at());
                    im2col_gemm::forward(back, images(guarded, gy), flipped, None, images(guarded, gx));
                }
                None => gradient::input(conv, images(guarded, gy), weights, images(guarded, gx)),
            }
        }
        Ok(())
    })
}

/// The gradient of the weights of `conv`, which have `sizes`. Half precision is summed in f32.
pub(super) fn weight_gradient(conv: &Conv, gy: &Tensor, x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if image_lanes::suits(conv, gy.dtype()) {
        let gw = TensorSpec::like(gy, sizes).allocate("convolution_backward")?;
        dispatch_all_types!(floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_with::<T>(conv, gy, x, &gw, image_lanes::weight_gradient)
        })?;
        return Ok(gw);
    }
    let (gy, x) = (&with_constant_pixel_stride(&upcast_half(gy)?)?, &upcast_half(x)?);
    let partial_sizes = [&[gradient::parts(conv) as i64], sizes].concat();
    let partial = TensorSpec::like(gy, &partial_sizes).allocate("convolution_backward")?;
    if conv.images == 0 || conv.pixels() == 0 {
        copy::zero_(&partial)?;
        return view::select(&partial, 0, 0);
    }
    match weight_gradient_algorithm(conv) {
        ConvAlgorithm::Depthwise => {
            dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
                weight_gradient_with::<T>(conv, gy, x, &partial, depthwise::weight)
            })?
        }
        ConvAlgorithm::Direct => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_with::<T>(conv, gy, x, &partial, direct_weight)
        })?,
        ConvAlgorithm::Winograd => {
            dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
                weight_gradient_with::<T>(conv, gy, x, &partial, winograd_weight)
            })?
        }
        ConvAlgorithm::Im2col => dispatch_all_types!(wide_floats, gy.dtype(), "convolution_backward", T => {
            weight_gradient_with::<T>(conv, gy, x, &partial, gradient::weight)
        })?,
    }
    view::select(&partial, 0, 0)
}

/// The weight gradient by [`direct`].
///
/// # Safety
/// - As [`gradient::weight`].
unsafe fn direct_weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: SendPtr<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    for<'c> padded_tile::Fill<'c, T>: EveryIsa,
    for<'c> direct::WeightGradient<'c, T>: EveryIsa,
{
    // SAFETY: by this function's condition; groups write different weights.
    unsafe {
        weight_by_group(conv, gy, x, partial, |group, gy, x, to| {
            direct::weight(group, gy, x, to);
            true
        });
    }
}

/// The weight gradient by Winograd's algorithm, or by a matrix product if that result is not finite.
///
/// # Safety
/// - As [`gradient::weight`].
unsafe fn winograd_weight<T>(conv: &Conv, gy: Images<T>, x: Images<T>, partial: SendPtr<T>)
where
    T: GemmElement + Element + Add<Output = T>,
    for<'p> winograd::TileTransform<'p, T, { winograd::INPUT_TILE }>: EveryIsa,
    for<'p> winograd::TileTransform<'p, T, { winograd::GRADIENT_TILE }>: EveryIsa,
    winograd::WeightGradientTransform<T>: EveryIsa<bool>,
{
    // SAFETY: by this function's condition.
    unsafe {
        if !weight_by_group(conv, gy, x, partial, |group, gy, x, to| winograd::weight(group, gy, x, to)) {
            gradient::weight(conv, gy, x, partial);
        }
    }
}

/// Computes a weight gradient: output gradient, input, partial sums whose first part becomes the result.
type WeightGradientFn<T> = unsafe fn(&Conv, Images<T>, Images<T>, SendPtr<T>);

fn weight_gradient_with<T>(
    conv: &Conv,
    gy: &Tensor,
    x: &Tensor,
    partial: &Tensor,
    run: WeightGradientFn<T>,
) -> Result<()> {
    with_scratch("convolution_backward", &[gy, x], &[partial], |guarded| {
        // SAFETY: the guards are held; sizes were checked; `partial` is fresh and `gy` has a constant pixel stride.
        unsafe {
            run(
                conv,
                images(guarded, gy),
                images(guarded, x),
                SendPtr(guarded.ptr(partial.strided_view()).cast()),
            )
        };
        Ok(())
    })
}

/// Pixels of images below which a product for each takes longer than to sum all of them.
const PIXELS_FOR_PRODUCTS: usize = 64;

/// The gradient of the bias: the sum of `gy` over all dimensions except channels.
pub(super) fn bias_gradient(gy: &Tensor) -> Result<Tensor> {
    let pixels = params::spatial(&gy.sizes()[2..], 1).into_iter().fold(1, usize::saturating_mul);
    if pixels < PIXELS_FOR_PRODUCTS {
        let dims: DimVec = (0..gy.dim() as i64).filter(|d| *d != 1).collect();
        let dtype = if gy.dtype() == ScalarType::F64 { ScalarType::F64 } else { ScalarType::F32 };
        return ops::sum_dim_intlist(gy, Some(&dims), false, Some(dtype));
    }
    let gy = &with_constant_pixel_stride(&upcast_half(gy)?)?;
    let (sizes, channels) = (gy.sizes(), gy.sizes()[1]);
    let conv = Conv {
        images: sizes[0] as usize,
        groups: 1,
        channels: 0,
        filters: channels as usize,
        input: [1; 3],
        output: params::spatial(&sizes[2..], 1),
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
            // SAFETY: the guards are held; `sums` is fresh, `gy` has a constant pixel stride, and there is a one for each pixel.
            unsafe { gradient::bias(&conv, images::<T>(guarded, gy), guarded.ptr(ones.strided_view()).cast(), guarded.ptr(sums.strided_view()).cast()) };
            Ok(())
        })
    })?;
    Ok(sums)
}

/// Half precision converted to f32; other types unchanged.
fn upcast_half(tensor: &Tensor) -> Result<Tensor> {
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
    let output = TensorSpec::like(tensor, tensor.sizes())
        .with_dtype(dtype)
        .with_format(format)
        .allocate("convolution")?;
    copy::copy_(&output, tensor, false)?;
    Ok(output)
}
