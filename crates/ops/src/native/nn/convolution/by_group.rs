//! Convolutions of several groups by algorithms that have one group, such as those that `vmap` makes of a weight for each example.
#![expect(unsafe_code, reason = "raw operands")]

use super::im2col_gemm::WORTH_A_THREAD;
use super::params::Conv;
use super::unfold::Images;
use super::weights::Weights;
use super::{direct, padded_tile};
use crate::gemm::SendPtr;
use crate::parallel::parallel_for;
use crate::vectorized::EveryIsa;
use flambeau_core::Element;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Multiply-adds of a group that threads share.
const LARGE: usize = 16 * WORTH_A_THREAD;

/// Calls `run` with each group; whether it gave `true` for all of them.
fn each_group(conv: &Conv, run: impl Fn(usize) -> bool + Sync) -> bool {
    let (all, work) = (AtomicBool::new(true), conv.work_of_group());
    let each = |groups: Range<usize>| {
        for group in groups {
            if !run(group) {
                all.store(false, Ordering::Relaxed);
            }
        }
    };
    // Threads share the work of large groups, of which there may be fewer than threads.
    match work >= LARGE {
        true => each(0..conv.groups),
        false => parallel_for(0..conv.groups, (WORTH_A_THREAD / work.max(1)).max(1), each),
    }
    all.into_inner()
}

/// The output by an algorithm that has one group, of which the convolution that is computed may have several; `weights` are those of the
/// convolution `of`. Whether `run` gave `true` for all groups.
///
/// # Safety
/// - As [`im2col_gemm::forward`].
pub(super) unsafe fn forward_by_group<T: Element>(
    conv: &Conv,
    x: Images<T>,
    (of, weights): (&Conv, Weights<T>),
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
    run: ForwardOfGroup<T>,
) -> bool {
    let group = conv.of_group();
    each_group(conv, |at| {
        let bias = bias.map(|(bias, step)| {
            (SendPtr(bias.at().wrapping_offset((at * conv.filters) as isize * step)), step)
        });
        let (x, y) = (x.channels_from(at * conv.channels), y.channels_from(at * conv.filters));
        // SAFETY: by this function's condition; groups write different channels.
        unsafe { run(&group, x, weights.of_group(of, at), bias, y) }
    })
}

/// Computes the output of a convolution of one group; `false` if that is not finite.
pub(super) type ForwardOfGroup<T> =
    unsafe fn(&Conv, Images<T>, Weights<T>, Option<(SendPtr<T>, isize)>, Images<T>) -> bool;

/// [`direct::forward`], whose result is what it is.
///
/// # Safety
/// - As [`direct::forward`].
pub(super) unsafe fn direct_group<T: Element>(
    conv: &Conv,
    x: Images<T>,
    w: Weights<T>,
    bias: Option<(SendPtr<T>, isize)>,
    y: Images<T>,
) -> bool
where
    for<'c> padded_tile::Fill<'c, T>: EveryIsa,
    for<'c> direct::ForwardBlock<'c, T>: EveryIsa,
{
    // SAFETY: by this function's condition.
    unsafe { direct::forward(conv, x, w, bias, y) };
    true
}

/// The weight gradient by an algorithm that has one group: that of each group is where its weights are. Whether `run` gave `true` for all.
///
/// # Safety
/// - As [`gradient::weight`].
pub(super) unsafe fn weight_by_group<T: Element>(
    conv: &Conv,
    gy: Images<T>,
    x: Images<T>,
    to: SendPtr<T>,
    run: impl Fn(&Conv, Images<T>, Images<T>, SendPtr<T>) -> bool + Sync,
) -> bool {
    let group = conv.of_group();
    each_group(conv, |at| {
        let first = at * conv.filters * conv.depth();
        let (gy, x) = (gy.channels_from(at * conv.filters), x.channels_from(at * conv.channels));
        run(&group, gy, x, SendPtr(to.at().wrapping_add(first)))
    })
}
