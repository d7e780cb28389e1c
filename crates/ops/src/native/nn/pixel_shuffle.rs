//! `pixel_shuffle`, `pixel_unshuffle` and `channel_shuffle`, composed of `reshape` and `permute`.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, bail, ensure, shape};

/// The sizes before the last `n` dimensions.
fn leading_sizes(tensor: &Tensor, n: usize) -> DimVec {
    DimVec::from_slice(&tensor.sizes()[..tensor.dim() - n])
}

/// A contiguous copy of a permutation, of other sizes.
fn rearranged(split: &Tensor, order: &[i64], sizes: &[i64]) -> Result<Tensor> {
    ops::clone(&split.permute(order)?, Some(MemoryFormat::Contiguous))?.view(sizes)
}

/// Rearranges `upscale_factor`² channels as a square of pixels.
pub fn pixel_shuffle(self_: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    const NAME: &str = "pixel_shuffle";
    let &[.., c, h, w] = self_.sizes() else {
        bail!(
            Shape(NAME, "self"),
            "expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            self_.dim()
        );
    };
    let r = upscale_factor;
    ensure!(r > 0, InvalidArgument(NAME, "upscale_factor"), "expects a positive upscale_factor, but got {r}");
    let square = r.checked_mul(r).filter(|square| c % square == 0);
    let Some(square) = square else {
        bail!(
            InvalidArgument(NAME, "self"),
            "expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
             input.size(-3)={c} is not divisible by {r}^2"
        );
    };
    let with = |rest: &[i64]| -> DimVec { leading_sizes(self_, 3).iter().chain(rest).copied().collect() };
    let split = self_.reshape(&with(&[c / square, r, r, h, w]))?;
    let n = self_.dim() as i64 - 3;
    let order: DimVec = (0..n).chain([0, 3, 1, 4, 2].map(|d| n + d)).collect();
    let sizes = with(&[c / square, shape::numel(&[h, r])?, shape::numel(&[w, r])?]);
    rearranged(&split, &order, &sizes)
}

/// Rearranges squares of `downscale_factor`² pixels as channels.
pub fn pixel_unshuffle(self_: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    const NAME: &str = "pixel_unshuffle";
    let &[.., c, h, w] = self_.sizes() else {
        bail!(
            Shape(NAME, "self"),
            "expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            self_.dim()
        );
    };
    let r = downscale_factor;
    ensure!(
        r > 0,
        InvalidArgument(NAME, "downscale_factor"),
        "expects a positive downscale_factor, but got {r}"
    );
    ensure!(
        h % r == 0 && w % r == 0,
        InvalidArgument(NAME, "self"),
        "expects height and width to be divisible by downscale_factor, but {h} and {w} are not divisible by {r}"
    );
    let with = |rest: &[i64]| -> DimVec { leading_sizes(self_, 3).iter().chain(rest).copied().collect() };
    let split = self_.reshape(&with(&[c, h / r, r, w / r, r]))?;
    let n = self_.dim() as i64 - 3;
    let order: DimVec = (0..n).chain([0, 2, 4, 1, 3].map(|d| n + d)).collect();
    rearranged(&split, &order, &with(&[shape::numel(&[c, r, r])?, h / r, w / r]))
}

/// Interleaves the channels of the groups: the first of each group, then the second of each.
pub fn channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    const NAME: &str = "channel_shuffle";
    let [_, c, _, ..] = *self_.sizes() else {
        bail!(
            Shape(NAME, "self"),
            "expects input with > 2 dims, but got input with sizes {:?}",
            self_.sizes()
        );
    };
    ensure!(
        groups > 0,
        InvalidArgument(NAME, "groups"),
        "Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    ensure!(
        c % groups == 0,
        InvalidArgument(NAME, "groups"),
        "Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
    );
    // Counted, since a tensor without elements does not say what -1 would be.
    let inner = shape::product(&self_.sizes()[2..]);
    let split = self_.reshape(&[self_.sizes()[0], groups, c / groups, inner])?;
    rearranged(&split, &[0, 2, 1, 3], self_.sizes())
}
