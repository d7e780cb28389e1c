//! The layout `nChw16c`: images of N x C x H x W whose elements lie as N x C/16 x H x W x 16, so that 16 channels of one pixel are
//! adjacent in memory. Where C is no multiple of 16, the last block has zeros.
//!
//! It uses the public API only, and nothing in the library knows of it. The elements are one ordinary tensor of five dimensions. Rules
//! compute convolution, `relu`, `add`, pooling and batch normalization on it by operators that are recorded, so that gradients need no
//! code here. Without a copy, a block of channels is also an image of 16 channels in the memory format `ChannelsLast`, for which the
//! library has kernels.

mod rules;

use flambeau::core::Layout;
use flambeau::layouts::{LayoutHooks, from_parts, parts_of, register_layout};
use flambeau::{Error, ErrorKind, Result, Scalar, Tensor, ops};
use std::sync::OnceLock;

/// The channels of a block.
pub const BLOCK: i64 = 16;

/// The elements of a tensor of this layout: N x C/16 x H x W x 16.
pub(crate) struct Blocks(pub(crate) Tensor);

struct Hooks;

impl LayoutHooks for Hooks {
    fn to_dense(&self, tensor: &Tensor) -> Result<Tensor> {
        let [n, c, h, w] = image_sizes(tensor)?;
        let channels = ops::permute(blocks_of(tensor)?, &[0, 1, 4, 2, 3])?;
        let all = ops::reshape(&channels, &[n, padded(c), h, w])?;
        all.narrow(1, 0, c)
    }
}

/// The layout, which the first call registers with its rules.
///
/// # Errors
/// Those of the registration.
pub fn blocked16() -> Result<Layout> {
    static LAYOUT: OnceLock<Result<Layout, (ErrorKind, String)>> = OnceLock::new();
    let made = LAYOUT.get_or_init(|| {
        let register = || {
            let layout = register_layout("blocked16", &Hooks)?;
            rules::register(layout).map(|()| layout)
        };
        register().map_err(|error| (error.kind(), error.message().to_owned()))
    });
    made.clone().map_err(|(kind, message)| Error::new(kind, message))
}

/// The channels of whole blocks.
pub(crate) fn padded(channels: i64) -> i64 {
    (channels + BLOCK - 1) / BLOCK * BLOCK
}

/// The four sizes of images.
pub(crate) fn image_sizes(tensor: &Tensor) -> Result<[i64; 4]> {
    tensor.sizes().try_into().map_err(|_| {
        let message =
            format!("blocked16: expected images of n x c x h x w but got sizes {:?}", tensor.sizes());
        Error::new(ErrorKind::Shape, message)
    })
}

/// The blocks of a tensor of this layout.
pub(crate) fn blocks_of(tensor: &Tensor) -> Result<&Tensor> {
    parts_of::<Blocks>(tensor).map(|blocks| &blocks.0).ok_or_else(|| {
        let message = format!("blocked16: expected a tensor of this layout but got {}", tensor.layout());
        Error::new(ErrorKind::NotImplemented, message)
    })
}

/// A tensor of this layout with so many channels.
pub(crate) fn wrap(blocks: Tensor, channels: i64) -> Result<Tensor> {
    let sizes = [blocks.size(0)?, channels, blocks.size(2)?, blocks.size(3)?];
    let of = (blocks.dtype(), blocks.device());
    from_parts(blocked16()?, &sizes, of, Blocks(blocks))
}

/// Zeros behind `dim`, up to `length`.
pub(crate) fn pad_to(tensor: &Tensor, dim: usize, length: i64) -> Result<Tensor> {
    let missing = length - tensor.sizes()[dim];
    if missing == 0 {
        return Ok(tensor.clone());
    }
    // Pairs of numbers, those of the last dimension first.
    let mut pad = vec![0; 2 * (tensor.dim() - dim)];
    pad[2 * (tensor.dim() - dim) - 1] = missing;
    ops::constant_pad_nd(tensor, &pad, Scalar::Int(0))
}

/// Strided images in blocks; the history goes through.
///
/// # Errors
/// `Shape` for tensors that are no images.
pub fn to_blocked(images: &Tensor) -> Result<Tensor> {
    let [n, c, h, w] = image_sizes(images)?;
    let all = pad_to(images, 1, padded(c))?;
    let blocks = ops::reshape(&all, &[n, padded(c) / BLOCK, BLOCK, h, w])?;
    wrap(ops::permute(&blocks, &[0, 1, 3, 4, 2])?.contiguous()?, c)
}

/// A tensor of this layout as a strided one; the history goes through.
///
/// # Errors
/// Those of the operators that it calls.
pub fn to_dense(tensor: &Tensor) -> Result<Tensor> {
    flambeau::layouts::to_dense(tensor)
}
