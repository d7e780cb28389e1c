//! Convolutions of many small images, with an image in each lane: a loop over the pixels of each would take longer to start than to
//! run.
//!
//! The elements of strips of images are transposed to rows of a tile, and a table says which rows each result sums, so that all
//! dimensions, strides, paddings and dilations are one loop. The input gradient is the same with another table, and the weight
//! gradient sums products of rows.
#![expect(unsafe_code, reason = "raw operands")]

mod kernels;
mod rows;
mod terms;

pub(super) use kernels::ImageElement;

use super::im2col_gemm::WORTH_A_THREAD;
use super::params::Conv;
use super::unfold::Images;
use crate::gemm::SendPtr;
use crate::parallel::parallel_for;
use crate::scratch;
use crate::vectorized::{Convert, convert_slice};
use flambeau_core::{Scalar, ScalarType};
use kernels::{Products, Sum, Sums};
use rows::{ImageRows, Tile};
use terms::{Pairs, Terms};

/// Images of a strip: four cache lines of f32, and a multiple of any number of vectors that are summed together.
const LANES: usize = 64;
/// The largest number of elements of an image, of which a tile stays in L2.
const MAX_NUMEL: usize = 512;
/// Multiply-adds of an image from which on other algorithms have less to do for each of them.
const MAX_WORK: usize = 1 << 14;
/// Multiply-adds that take as long as to transpose an element.
const WORK_OF_ELEMENT: usize = 16;
/// The most partial sums of a weight gradient.
const MAX_PARTS: usize = 16;
/// The most elements of the partial sums of all lanes.
const MAX_SUMS: usize = 1 << 20;

/// Elements of an image of input and output.
fn numels(conv: &Conv) -> [usize; 2] {
    let of = |channels: usize, sizes: [usize; 3]| {
        sizes.into_iter().fold(conv.groups.saturating_mul(channels), usize::saturating_mul)
    };
    [of(conv.channels, conv.input), of(conv.filters, conv.output)]
}

fn weights(conv: &Conv) -> usize {
    conv.groups.saturating_mul(conv.filters).saturating_mul(conv.depth())
}

/// Multiply-adds of an image. An element of the input has no more of them for each weight than one of the output.
fn work(conv: &Conv) -> usize {
    let pixels = |sizes: [usize; 3]| sizes.into_iter().fold(1, usize::saturating_mul);
    weights(conv).saturating_mul(pixels(conv.input).min(pixels(conv.output)))
}

/// Whether the images of a convolution, and of its gradients, are so small and so many.
pub(super) fn suits(conv: &Conv, dtype: ScalarType) -> bool {
    let is_float = [ScalarType::F32, ScalarType::F64, ScalarType::F16, ScalarType::BF16].contains(&dtype);
    let are_small = || numels(conv).into_iter().all(|numel| (1..=MAX_NUMEL).contains(&numel));
    is_float && conv.images >= LANES && are_small() && (1..=MAX_WORK).contains(&work(conv))
}

fn input_rows<T>(conv: &Conv, images: Images<T>) -> ImageRows<T> {
    ImageRows::new(images, conv.groups * conv.channels, conv.input)
}

fn output_rows<T>(conv: &Conv, images: Images<T>) -> ImageRows<T> {
    ImageRows::new(images, conv.groups * conv.filters, conv.output)
}

/// How many strips a thread computes at least.
fn grain(conv: &Conv) -> usize {
    let [input, output] = numels(conv);
    (WORTH_A_THREAD / (LANES * (work(conv) + WORK_OF_ELEMENT * (input + output)))).max(1)
}

/// The output of a convolution.
///
/// # Safety
/// - `x`, `w` (contiguous) and `bias` are readable as `conv` says, `y` writable, and no other thread writes them during the call.
/// - The convolution [`suits`].
pub(super) unsafe fn forward<T: ImageElement>(
    conv: &Conv,
    x: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) {
    let (source, result) = (input_rows(conv, x), output_rows(conv, y));
    let terms = Terms::of_output(conv, source.steps, result.steps);
    // SAFETY: by this function's condition.
    unsafe { sum(conv, &terms, [&source, &result], w, bias) }
}

/// The input gradient of a convolution, and `bias`: the output of a transposed convolution.
///
/// # Safety
/// - As [`forward`], with `gy` as what is read, and `gx` as what is written.
pub(super) unsafe fn input_gradient<T: ImageElement>(
    conv: &Conv,
    gy: Images<T>,
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
    gx: Images<T>,
) {
    let (source, result) = (output_rows(conv, gy), input_rows(conv, gx));
    let terms = Terms::of_input_gradient(conv, source.steps, result.steps);
    // SAFETY: by this function's condition.
    unsafe { sum(conv, &terms, [&source, &result], w, bias) }
}

/// # Safety
/// - As [`forward`]; the terms are those of `source` and `result`.
unsafe fn sum<T: ImageElement>(
    conv: &Conv,
    terms: &Terms,
    [source, result]: [&ImageRows<T>; 2],
    w: SendPtr<T>,
    bias: Option<(SendPtr<T>, isize)>,
) {
    let zero = T::from_scalar(Scalar::Int(0));
    let start = |channel: usize| match bias {
        // SAFETY: by this function's condition.
        Some((bias, step)) => unsafe { *bias.at().offset(channel as isize * step) },
        None => zero,
    };
    let starts = scratch::collect((0..terms.groups * terms.channels).map(|channel| start(channel).convert()));
    let mut weights: Vec<T::Sum> = scratch::filled(zero.convert(), weights(conv));
    // SAFETY: as many weights, which are contiguous.
    unsafe { convert_slice(w.at(), weights.as_mut_ptr(), weights.len()) };
    parallel_for(0..conv.images.div_ceil(LANES), grain(conv), |strips| {
        let (mut from, mut to) = (Tile::new(source), Tile::new(result));
        for strip in strips {
            let images = strip * LANES..conv.images.min((strip + 1) * LANES);
            // SAFETY: by this function's condition; strips write different images, and the tiles take one.
            unsafe {
                from.gather(&images);
                T::Sum::sums(Sums {
                    terms,
                    count: images.len(),
                    source: from.lanes(),
                    weights: &weights,
                    starts: &starts,
                    to: to.lanes(),
                });
                to.scatter(&images);
            }
        }
    });
}

/// The weight gradient, contiguous: sums of each lane over the strips of a part, whose number depends on sizes alone, are added in f64.
///
/// # Safety
/// - `gy` and `x` are readable as `conv` says, `to` takes the weights, and no other thread writes them during the call.
/// - The convolution [`suits`].
pub(super) unsafe fn weight_gradient<T: ImageElement>(
    conv: &Conv,
    gy: Images<T>,
    x: Images<T>,
    to: SendPtr<T>,
) {
    let (gradients, inputs) = (output_rows(conv, gy), input_rows(conv, x));
    let pairs = Pairs::new(conv, gradients.steps, inputs.steps);
    let (strips, count) = (conv.images.div_ceil(LANES), weights(conv));
    let size = count * LANES;
    let parts = strips.min(MAX_PARTS).min((MAX_SUMS / size).max(1));
    let mut sums: Vec<T::Sum> = scratch::filled(T::from_scalar(Scalar::Int(0)).convert(), parts * size);
    let first = SendPtr(sums.as_mut_ptr());
    parallel_for(0..parts, (grain(conv) / strips.div_ceil(parts)).max(1), |some| {
        let (mut gy, mut x) = (Tile::new(&gradients), Tile::new(&inputs));
        for part in some {
            for strip in part * strips / parts..(part + 1) * strips / parts {
                let images = strip * LANES..conv.images.min((strip + 1) * LANES);
                // SAFETY: by this function's condition; each part has sums of its own, and the tiles take a strip.
                unsafe {
                    gy.gather(&images);
                    x.gather(&images);
                    let (gradients, inputs, sums) = (gy.lanes(), x.lanes(), first.at().add(part * size));
                    let count = images.len();
                    T::Sum::products(Products { pairs: &pairs, count, gradients, inputs, sums });
                }
            }
        }
    });
    for weight in 0..count {
        let total: f64 =
            (0..parts).map(|part| total_of_lanes(&sums[part * size + weight * LANES..][..LANES])).sum();
        // SAFETY: by this function's condition.
        unsafe { to.at().add(weight).write(total.convert()) };
    }
}

/// The sum of the lanes in f64, by eight sums, so that it vectorizes.
fn total_of_lanes<S: Convert>(lanes: &[S]) -> f64 {
    let mut sums = [0.0; 8];
    for chunk in lanes.chunks_exact(8) {
        for (sum, lane) in sums.iter_mut().zip(chunk) {
            *sum += lane.to_f64();
        }
    }
    sums.into_iter().sum()
}
