//! Convolutions over narrow images, whose output rows have few pixels: computed with rows and columns exchanged, since all algorithms
//! compute along rows.

use super::params::ConvArgs;
use crate::Tensor;
use crate::native::factory::copy;
use crate::native::shape::view;
use flambeau_core::{MemoryFormat, Result};

/// Output rows shorter than this are narrow.
const NARROW: i64 = 8;
/// How many times as high as wide the output is at least.
const HEIGHT: i64 = 4;

/// Whether rows and columns are exchanged for an output of these sizes.
pub(super) fn is_narrow(output: &[i64]) -> bool {
    matches!(*output, [_, _, height, width] if width < NARROW && height >= HEIGHT * width.max(2))
}

/// The parameters of the exchanged convolution.
pub(super) struct Exchanged {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    output_padding: Vec<i64>,
    transposed: bool,
    groups: i64,
}

impl Exchanged {
    pub(super) fn new(args: &ConvArgs<'_>) -> Self {
        // A list of one value is for both dimensions.
        let reversed = |list: &[i64]| list.iter().rev().copied().collect();
        Exchanged {
            stride: reversed(args.stride),
            padding: reversed(args.padding),
            dilation: reversed(args.dilation),
            output_padding: reversed(args.output_padding),
            transposed: args.transposed,
            groups: args.groups,
        }
    }

    pub(super) fn args(&self) -> ConvArgs<'_> {
        ConvArgs {
            stride: &self.stride,
            padding: &self.padding,
            dilation: &self.dilation,
            transposed: self.transposed,
            output_padding: &self.output_padding,
            groups: self.groups,
        }
    }
}

/// Rows and columns exchanged, as a view.
pub(super) fn exchanged_view(images: &Tensor) -> Result<Tensor> {
    view::transpose(images, 2, 3)
}

/// The same, contiguous.
pub(super) fn exchanged(images: &Tensor) -> Result<Tensor> {
    let view = exchanged_view(images)?;
    if view.is_contiguous() { Ok(view) } else { copy::clone(&view, Some(MemoryFormat::Contiguous)) }
}
