//! Images in another arrangement: channels into pixels and back, patches into columns and back, borders mirrored or drawn
//! out, and pooling along one dimension. All of it is other operators, put together.

use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, Scalar, bail, ensure, fallible, shape};

/// `sizes` before the last `n` dimensions.
fn front(tensor: &Tensor, n: usize) -> DimVec {
    DimVec::from_slice(&tensor.sizes()[..tensor.dim() - n])
}

/// A rectangle of `upscale_factor` squared channels becomes that many pixels.
pub fn pixel_shuffle(self_: &Tensor, upscale_factor: i64) -> Result<Tensor> {
    const NAME: &str = "pixel_shuffle";
    let &[.., c, h, w] = self_.sizes() else {
        bail!(
            Shape,
            "{NAME}: expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            self_.dim()
        );
    };
    let r = upscale_factor;
    ensure!(r > 0, InvalidArgument, "{NAME}: expects a positive upscale_factor, but got {r}");
    let square = r.checked_mul(r).filter(|square| c % square == 0);
    let Some(square) = square else {
        bail!(
            InvalidArgument,
            "{NAME}: expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but \
             input.size(-3)={c} is not divisible by {r}^2"
        );
    };
    let with = |rest: &[i64]| -> DimVec { front(self_, 3).iter().chain(rest).copied().collect() };
    let cut = self_.reshape(&with(&[c / square, r, r, h, w]))?;
    let n = self_.dim() as i64 - 3;
    let order: DimVec = (0..n).chain([0, 3, 1, 4, 2].map(|d| n + d)).collect();
    let moved =
        cut.permute(&order)?.reshape(&with(&[c / square, shape::numel(&[h, r])?, shape::numel(&[w, r])?]))?;
    ops::clone(&moved, Some(MemoryFormat::Contiguous))
}

/// Squares of `downscale_factor` pixels a side become channels.
pub fn pixel_unshuffle(self_: &Tensor, downscale_factor: i64) -> Result<Tensor> {
    const NAME: &str = "pixel_unshuffle";
    let &[.., c, h, w] = self_.sizes() else {
        bail!(
            Shape,
            "{NAME}: expects input to have at least 3 dimensions, but got input with {} dimension(s)",
            self_.dim()
        );
    };
    let r = downscale_factor;
    ensure!(r > 0, InvalidArgument, "{NAME}: expects a positive downscale_factor, but got {r}");
    ensure!(
        h % r == 0 && w % r == 0,
        InvalidArgument,
        "{NAME}: expects height and width to be divisible by downscale_factor, but {h} and {w} are not divisible by {r}"
    );
    let with = |rest: &[i64]| -> DimVec { front(self_, 3).iter().chain(rest).copied().collect() };
    let cut = self_.reshape(&with(&[c, h / r, r, w / r, r]))?;
    let n = self_.dim() as i64 - 3;
    let order: DimVec = (0..n).chain([0, 2, 4, 1, 3].map(|d| n + d)).collect();
    let moved = cut.permute(&order)?.reshape(&with(&[shape::numel(&[c, r, r])?, h / r, w / r]))?;
    ops::clone(&moved, Some(MemoryFormat::Contiguous))
}

/// The channels of each group dealt out in turn.
pub fn channel_shuffle(self_: &Tensor, groups: i64) -> Result<Tensor> {
    const NAME: &str = "channel_shuffle";
    let [_, c, _, ..] = *self_.sizes() else {
        bail!(Shape, "{NAME}: expects input with > 2 dims, but got input with sizes {:?}", self_.sizes());
    };
    ensure!(
        groups > 0,
        InvalidArgument,
        "{NAME}: Number of groups to divide channels in must be positive. Value of groups:{groups}"
    );
    ensure!(
        c % groups == 0,
        InvalidArgument,
        "{NAME}: Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
    );
    let cut = self_.reshape(&[self_.sizes()[0], groups, c / groups, -1])?;
    let dealt = cut.permute(&[0, 2, 1, 3])?.reshape(self_.sizes())?;
    ops::clone(&dealt, Some(MemoryFormat::Contiguous))
}

fn two(name: &str, what: &str, values: &[i64], least: i64) -> Result<[i64; 2]> {
    let pair = match *values {
        [both] => [both, both],
        [first, second] => [first, second],
        _ => {
            bail!(InvalidArgument, "{name}: It is expected {what} equals to 2, but got size {}", values.len())
        }
    };
    let small = pair.iter().all(|v| (least..1 << 31).contains(v));
    ensure!(small, InvalidArgument, "{name}: {what} should be at least {least}, but got {pair:?}");
    Ok(pair)
}

/// How patches of an image are cut.
struct Patches {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Patches {
    fn new(name: &str, kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Patches> {
        Ok(Patches {
            kernel: two(name, "kernel_size", kernel, 1)?,
            dilation: two(name, "dilation", dilation, 1)?,
            padding: two(name, "padding", padding, 0)?,
            stride: two(name, "stride", stride, 1)?,
        })
    }

    /// How far a patch reaches along a dimension.
    fn reach(&self, d: usize) -> i64 {
        self.dilation[d] * (self.kernel[d] - 1) + 1
    }

    /// How many patches a padded dimension has.
    fn blocks(&self, name: &str, d: usize, size: i64) -> Result<i64> {
        let room = size + 2 * self.padding[d] - self.reach(d);
        ensure!(
            room >= 0,
            Shape,
            "{name}: Given an image of size {size}, kernel {}, dilation {} and padding {}, the number of sliding blocks must be \
             at least one",
            self.kernel[d],
            self.dilation[d],
            self.padding[d]
        );
        Ok(room / self.stride[d] + 1)
    }

    fn pads(&self, sign: i64) -> [i64; 4] {
        let [h, w] = self.padding;
        [w, w, h, h].map(|p| sign * p)
    }
}

/// An image with a batch, and whether one was put in.
fn batched(name: &str, self_: &Tensor, rank: usize) -> Result<(Tensor, bool)> {
    match self_.dim() {
        dim if dim == rank => Ok((self_.clone(), false)),
        dim if dim + 1 == rank => Ok((self_.unsqueeze(0)?, true)),
        dim => bail!(
            Shape,
            "{name}: Expected {}D or {rank}D tensor but got {dim}D, of sizes {:?}",
            rank - 1,
            self_.sizes()
        ),
    }
}

fn unbatched(made: Tensor, alone: bool) -> Result<Tensor> {
    if alone { made.squeeze_dim(0) } else { Ok(made) }
}

/// The patches of an image as columns.
pub fn im2col(
    self_: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    const NAME: &str = "im2col";
    let p = Patches::new(NAME, kernel_size, dilation, padding, stride)?;
    let (x, alone) = batched(NAME, self_, 4)?;
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    let blocks = [p.blocks(NAME, 0, x.sizes()[2])?, p.blocks(NAME, 1, x.sizes()[3])?];
    let padded = ops::constant_pad_nd(&x, &p.pads(1), Scalar::Int(0))?;
    let mut cut = padded;
    for d in 0..2 {
        let whole = cut.unfold(2 + d as i64, p.reach(d), p.stride[d])?;
        cut = whole.slice(-1, None, None, p.dilation[d])?;
    }
    let rows = shape::numel(&[c, p.kernel[0], p.kernel[1]])?;
    let columns = cut.permute(&[0, 1, 4, 5, 2, 3])?.reshape(&[n, rows, shape::numel(&blocks)?])?;
    unbatched(columns, alone)
}

/// An image of `output_size` whose every pixel is the sum of what the columns hold of it.
pub fn col2im(
    self_: &Tensor,
    output_size: &[i64],
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    const NAME: &str = "col2im";
    let p = Patches::new(NAME, kernel_size, dilation, padding, stride)?;
    let size = two(NAME, "output_size", output_size, 1)?;
    let (x, alone) = batched(NAME, self_, 3)?;
    let [n, rows, columns] = [0, 1, 2].map(|d| x.sizes()[d]);
    let blocks = [p.blocks(NAME, 0, size[0])?, p.blocks(NAME, 1, size[1])?];
    let area = shape::numel(&p.kernel)?;
    ensure!(
        rows % area == 0 && columns == shape::numel(&blocks)?,
        Shape,
        "{NAME}: Expected size of input's dimension 1 to be divisible by the product of kernel_size, and dimension 2 to match the \
         calculated number of sliding blocks {} * {}, but got input of sizes {:?}",
        blocks[0],
        blocks[1],
        self_.sizes()
    );
    let c = rows / area;
    let cut = x.reshape(&[n, c, p.kernel[0], p.kernel[1], blocks[0], blocks[1]])?;
    let mut image = cut.permute(&[0, 1, 4, 5, 2, 3])?;
    let padded = [size[0] + 2 * p.padding[0], size[1] + 2 * p.padding[1]];
    for d in (0..2).rev() {
        let mut sizes = DimVec::from_slice(image.sizes());
        if let Some(last) = sizes.last_mut() {
            *last = p.reach(d);
        }
        let end = p.reach(d);
        let spread = ops::slice_backward(&image, &sizes, sizes.len() as i64 - 1, 0, end, p.dilation[d])?;
        sizes.pop();
        sizes[2 + d] = padded[d];
        image = ops::unfold_backward(&spread, &sizes, 2 + d as i64, p.reach(d), p.stride[d])?;
    }
    unbatched(ops::constant_pad_nd(&image, &p.pads(-1), Scalar::Int(0))?, alone)
}

/// Where the elements of a padded dimension come from: `place` says it of those outside.
fn padded(
    name: &str,
    self_: &Tensor,
    padding: &[i64],
    n: usize,
    (mirror, place): (bool, fn(i64, i64) -> i64),
) -> Result<Tensor> {
    ensure!(padding.len() == 2 * n, InvalidArgument, "{name}: padding size is expected to be {}", 2 * n);
    let rank = self_.dim();
    ensure!(
        rank == n + 1 || rank == n + 2,
        Shape,
        "{name}: Expected {}D or {}D (batch mode) tensor for input, but got: {:?}",
        n + 1,
        n + 2,
        self_.sizes()
    );
    let mut made = self_.clone();
    for (pair, d) in padding.chunks(2).zip((0..rank).rev()) {
        let size = self_.sizes()[d];
        ensure!(
            size > 0 && (!mirror || (pair[0] < size && pair[1] < size)),
            InvalidArgument,
            "{name}: Padding size should be less than the corresponding input dimension, but got: padding ({}, {}) at dimension \
             {d} of input {:?}",
            pair[0],
            pair[1],
            self_.sizes()
        );
        let small = pair.iter().all(|p| p.unsigned_abs() < 1 << 31) && size + pair[0] + pair[1] > 0;
        ensure!(small, InvalidArgument, "{name}: input of size {size} with padding {pair:?} has no output");
        let places = fallible::collect((-pair[0]..size + pair[1]).map(|at| place(at, size)))
            .map_err(|e| e.context(name))?;
        let count = places.len() as i64;
        made = made.index_select(d as i64, &Tensor::from_vec(places, &[count])?.to(self_.device())?)?;
    }
    if padding.iter().all(|p| *p == 0) { ops::clone(&made, None) } else { Ok(made) }
}

/// Backwards from the border, which is not repeated.
fn mirrored(at: i64, size: i64) -> i64 {
    let at = at.abs();
    if at < size { at } else { 2 * (size - 1) - at }
}

fn nearest(at: i64, size: i64) -> i64 {
    at.clamp(0, size - 1)
}

macro_rules! pads {
    ($($name:ident $n:literal $mirror:literal $place:ident;)*) => {$(
        #[doc = concat!("Borders along the last ", $n, " dimensions, ", stringify!($place), ".")]
        pub fn $name(self_: &Tensor, padding: &[i64]) -> Result<Tensor> {
            padded(stringify!($name), self_, padding, $n, ($mirror, $place))
        }
    )*};
}

pads! {
    reflection_pad1d 1 true mirrored;
    reflection_pad2d 2 true mirrored;
    reflection_pad3d 3 true mirrored;
    replication_pad1d 1 false nearest;
    replication_pad2d 2 false nearest;
    replication_pad3d 3 false nearest;
}

/// The one number of an `int[1]`.
fn one(name: &str, values: &[i64]) -> Result<i64> {
    match *values {
        [value] => Ok(value),
        _ => bail!(InvalidArgument, "{name}: expected one number but got {values:?}"),
    }
}

/// A line as an image one pixel high.
fn line(name: &str, self_: &Tensor) -> Result<Tensor> {
    ensure!(
        matches!(self_.dim(), 2 | 3),
        Shape,
        "{name}: Expected 2D or 3D (batch mode) tensor but got input of sizes {:?}",
        self_.sizes()
    );
    self_.unsqueeze(-2)
}

fn stride_of(name: &str, stride: &[i64], kernel: i64) -> Result<i64> {
    if stride.is_empty() { Ok(kernel) } else { one(name, stride) }
}

/// The greatest of each window of a line, and where it stands.
pub fn max_pool1d_with_indices(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "max_pool1d";
    let (k, pad, step) = (one(NAME, kernel_size)?, one(NAME, padding)?, one(NAME, dilation)?);
    let stride = stride_of(NAME, stride, k)?;
    let (values, places) = ops::max_pool2d_with_indices(
        &line(NAME, self_)?,
        &[1, k],
        &[1, stride],
        &[0, pad],
        &[1, step],
        ceil_mode,
    )?;
    Ok((values.squeeze_dim(-2)?, places.squeeze_dim(-2)?))
}

/// The greatest of each window of a line.
pub fn max_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<Tensor> {
    Ok(ops::max_pool1d_with_indices(self_, kernel_size, stride, padding, dilation, ceil_mode)?.0)
}

/// The mean of each window of a line.
pub fn avg_pool1d(
    self_: &Tensor,
    kernel_size: &[i64],
    stride: &[i64],
    padding: &[i64],
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Tensor> {
    const NAME: &str = "avg_pool1d";
    let (k, pad) = (one(NAME, kernel_size)?, one(NAME, padding)?);
    let stride = stride_of(NAME, stride, k)?;
    let image = line(NAME, self_)?;
    ops::avg_pool2d(&image, &[1, k], &[1, stride], &[0, pad], ceil_mode, count_include_pad, None)?
        .squeeze_dim(-2)
}

/// The means of `output_size` parts of a line.
pub fn adaptive_avg_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<Tensor> {
    const NAME: &str = "adaptive_avg_pool1d";
    let size = one(NAME, output_size)?;
    ops::adaptive_avg_pool2d(&line(NAME, self_)?, &[1, size])?.squeeze_dim(-2)
}

/// The greatest of `output_size` parts of a line, and where they stand.
pub fn adaptive_max_pool1d(self_: &Tensor, output_size: &[i64]) -> Result<(Tensor, Tensor)> {
    const NAME: &str = "adaptive_max_pool1d";
    let size = one(NAME, output_size)?;
    let (values, places) = ops::adaptive_max_pool2d(&line(NAME, self_)?, &[1, size])?;
    Ok((values.squeeze_dim(-2)?, places.squeeze_dim(-2)?))
}
