//! `im2col` and `col2im`, composed of padding, unfolding and their gradients.

use crate::ops::options::SliceOptions;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, bail, ensure, shape};

/// Beyond these, sizes of windows in 64 bits could overflow.
const SIZES: i64 = (1 << 31) - 1;

fn pair(name: &str, what: &str, values: &[i64], min: i64, max: i64) -> Result<[i64; 2]> {
    let pair = match *values {
        [both] => [both, both],
        [first, second] => [first, second],
        _ => {
            bail!(
                InvalidArgument(name, what),
                "It is expected {what} equals to 2, but got size {}",
                values.len()
            )
        }
    };
    let in_range = pair.iter().all(|v| (min..=max).contains(v));
    ensure!(
        in_range,
        InvalidArgument(name, what),
        "{what} should be at least {min} and at most {max}, but got {pair:?}"
    );
    Ok(pair)
}

/// The sliding windows of an image.
struct Patches {
    kernel: [i64; 2],
    dilation: [i64; 2],
    padding: [i64; 2],
    stride: [i64; 2],
}

impl Patches {
    fn new(name: &str, kernel: &[i64], dilation: &[i64], padding: &[i64], stride: &[i64]) -> Result<Patches> {
        Ok(Patches {
            kernel: pair(name, "kernel_size", kernel, 1, SIZES)?,
            dilation: pair(name, "dilation", dilation, 1, SIZES)?,
            padding: pair(name, "padding", padding, 0, SIZES)?,
            stride: pair(name, "stride", stride, 1, i64::MAX)?,
        })
    }

    /// The extent of a dilated window along a dimension.
    fn extent(&self, d: usize) -> i64 {
        self.dilation[d] * (self.kernel[d] - 1) + 1
    }

    /// The number of windows along a padded dimension.
    fn blocks(&self, name: &str, d: usize, size: i64) -> Result<i64> {
        let room = size + 2 * self.padding[d] - self.extent(d);
        ensure!(
            room >= 0,
            Shape(name, "self"),
            "Given an image of size {size}, kernel {}, dilation {} and padding {}, the number of sliding blocks must be \
             at least one",
            self.kernel[d],
            self.dilation[d],
            self.padding[d]
        );
        Ok(room / self.stride[d] + 1)
    }

    /// The step from window to window along a padded dimension: a stride beyond its `size` has one window too.
    fn step(&self, d: usize, size: i64) -> i64 {
        self.stride[d].min(size.max(1))
    }

    fn pads(&self, sign: i64) -> [i64; 4] {
        let [h, w] = self.padding;
        [w, w, h, h].map(|p| sign * p)
    }
}

/// The image with a batch dimension, and whether that was added.
fn batched(name: &str, self_: &Tensor, rank: usize) -> Result<(Tensor, bool)> {
    match self_.dim() {
        dim if dim == rank => Ok((self_.clone(), false)),
        dim if dim + 1 == rank => Ok((self_.unsqueeze(0)?, true)),
        dim => bail!(
            Shape(name, "self"),
            "Expected {}D or {rank}D tensor but got {dim}D, of sizes {:?}",
            rank - 1,
            self_.sizes()
        ),
    }
}

/// The inverse of [`batched`].
fn unbatched(output: Tensor, is_unbatched: bool) -> Result<Tensor> {
    if is_unbatched { output.squeeze_dim(0) } else { Ok(output) }
}

/// The windows of an image as columns.
pub fn im2col(
    self_: &Tensor,
    kernel_size: &[i64],
    dilation: &[i64],
    padding: &[i64],
    stride: &[i64],
) -> Result<Tensor> {
    const NAME: &str = "im2col";
    let p = Patches::new(NAME, kernel_size, dilation, padding, stride)?;
    let (x, is_unbatched) = batched(NAME, self_, 4)?;
    let (n, c) = (x.sizes()[0], x.sizes()[1]);
    ensure!(
        !x.sizes()[1..].contains(&0),
        Shape(NAME, "self"),
        "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {:?}",
        self_.sizes()
    );
    let blocks = [p.blocks(NAME, 0, x.sizes()[2])?, p.blocks(NAME, 1, x.sizes()[3])?];
    let padded = ops::constant_pad_nd(&x, &p.pads(1), Scalar::Int(0))?;
    let mut cut = padded;
    for d in 0..2 {
        let step = p.step(d, cut.sizes()[2 + d]);
        let whole = cut.unfold(2 + d as i64, p.extent(d), step)?;
        cut = whole.slice_with(-1, None, None, SliceOptions::new().step(p.dilation[d]))?;
    }
    let rows = shape::numel(&[c, p.kernel[0], p.kernel[1]])?;
    let columns = cut.permute(&[0, 1, 4, 5, 2, 3])?.reshape(&[n, rows, shape::numel(&blocks)?])?;
    unbatched(columns, is_unbatched)
}

/// An image of `output_size`, each pixel of which is the sum of its elements in all columns.
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
    let size = pair(NAME, "output_size", output_size, 1, SIZES)?;
    let (x, is_unbatched) = batched(NAME, self_, 3)?;
    let [n, rows, columns] = [0, 1, 2].map(|d| x.sizes()[d]);
    let blocks = [p.blocks(NAME, 0, size[0])?, p.blocks(NAME, 1, size[1])?];
    let area = shape::numel(&p.kernel)?;
    ensure!(
        rows % area == 0 && columns == shape::numel(&blocks)?,
        Shape(NAME, "self"),
        "Expected size of input's dimension 1 to be divisible by the product of kernel_size, and dimension 2 to match the \
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
            *last = p.extent(d);
        }
        let end = p.extent(d);
        let dilated = ops::slice_backward(&image, &sizes, sizes.len() as i64 - 1, 0, end, p.dilation[d])?;
        sizes.pop();
        sizes[2 + d] = padded[d];
        image = ops::unfold_backward(&dilated, &sizes, 2 + d as i64, p.extent(d), p.step(d, padded[d]))?;
    }
    unbatched(ops::constant_pad_nd(&image, &p.pads(-1), Scalar::Int(0))?, is_unbatched)
}
