//! Convolutions of one, two and three dimensions.

use super::Size;
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::ops::options::ConvPadding;
use flambeau_ops::{Tensor, ops};

/// How much is added around the input of a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Padding<const N: usize> {
    /// So many elements on each side of each dimension.
    Size(Size<N>),
    /// As many as let the output have the input's size; only with stride 1.
    Same,
    /// None.
    Valid,
}

impl<const N: usize> From<i64> for Padding<N> {
    fn from(size: i64) -> Self {
        Padding::Size(size.into())
    }
}

impl<const N: usize> From<[i64; N]> for Padding<N> {
    fn from(sizes: [i64; N]) -> Self {
        Padding::Size(sizes.into())
    }
}

options! {
    /// Options of a convolution.
    ConvOptions<const N: usize> {
        /// Strides of the kernel.
        stride: Size<N> = 1.into(),
        /// What is added around the input.
        padding: Padding<N> = 0.into(),
        /// Distances between the kernel's elements.
        dilation: Size<N> = 1.into(),
        /// The number of groups of channels; outputs of a group depend on its inputs only.
        groups: i64 = 1,
    }
}

options! {
    /// Options of a transposed convolution.
    ConvTransposeOptions<const N: usize> {
        /// Strides of the kernel.
        stride: Size<N> = 1.into(),
        /// What is left out on each side of the output.
        padding: Size<N> = 0.into(),
        /// What is added at one side of the output.
        output_padding: Size<N> = 0.into(),
        /// Distances between the kernel's elements.
        dilation: Size<N> = 1.into(),
        /// The number of groups of channels; outputs of a group depend on its inputs only.
        groups: i64 = 1,
    }
}

/// A convolution of as many dimensions as there are sizes.
pub(crate) fn conv<const N: usize>(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvOptions<N>,
) -> Result<Tensor> {
    let ConvOptions { stride, padding, dilation, groups } = options;
    let (with_sizes, with_name) = match N {
        1 => (ops::conv1d as ConvOfSizes, ops::conv1d_padding as ConvOfName),
        2 => (ops::conv2d as ConvOfSizes, ops::conv2d_padding as ConvOfName),
        3 => (ops::conv3d as ConvOfSizes, ops::conv3d_padding as ConvOfName),
        _ => bail!(InvalidArgument, "expected a convolution of 1 to 3 dimensions but got {N}"),
    };
    match padding {
        Padding::Size(sizes) => with_sizes(input, weight, bias, stride, sizes, dilation, *groups),
        Padding::Same => {
            with_name(input, weight, bias, stride, ConvPadding::Same.as_str(), dilation, *groups)
        }
        Padding::Valid => {
            with_name(input, weight, bias, stride, ConvPadding::Valid.as_str(), dilation, *groups)
        }
    }
}

type ConvOfSizes = fn(&Tensor, &Tensor, Option<&Tensor>, &[i64], &[i64], &[i64], i64) -> Result<Tensor>;
type ConvOfName = fn(&Tensor, &Tensor, Option<&Tensor>, &[i64], &str, &[i64], i64) -> Result<Tensor>;

/// A transposed convolution of as many dimensions as there are sizes.
pub(crate) fn conv_transpose<const N: usize>(
    input: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    options: &ConvTransposeOptions<N>,
) -> Result<Tensor> {
    let ConvTransposeOptions { stride, padding, output_padding, dilation, groups } = options;
    let operator = match N {
        1 => ops::conv_transpose1d,
        2 => ops::conv_transpose2d_input,
        3 => ops::conv_transpose3d_input,
        _ => bail!(InvalidArgument, "expected a convolution of 1 to 3 dimensions but got {N}"),
    };
    operator(input, weight, bias, stride, padding, output_padding, *groups, dilation)
}

/// Public convolutions: name, options, dimensions, shapes.
macro_rules! convolutions {
    ($($name:ident, $general:ident, $options:ident<$n:literal>, $shapes:literal;)*) => {$(
        #[doc = $shapes]
        ///
        /// # Errors
        /// `Shape` for sizes that do not fit, `InvalidArgument` for options out of range.
        pub fn $name(
            input: &Tensor,
            weight: &Tensor,
            bias: Option<&Tensor>,
            options: $options<$n>,
        ) -> Result<Tensor> {
            $general(input, weight, bias, &options)
        }
    )*};
}

convolutions! {
    conv1d, conv, ConvOptions<1>, "`[n, in, l]` with a weight `[out, in / groups, kernel]` to `[n, out, l']`.";
    conv2d, conv, ConvOptions<2>, "`[n, in, h, w]` with a weight `[out, in / groups, kernel..]` to `[n, out, h', w']`.";
    conv3d, conv, ConvOptions<3>, "`[n, in, d, h, w]` with a weight `[out, in / groups, kernel..]` to `[n, out, d', h', w']`.";
    conv_transpose1d, conv_transpose, ConvTransposeOptions<1>,
        "The derivative of [`conv1d`] by its input, as a layer: `[n, in, l]` with a weight `[in, out / groups, kernel]`.";
    conv_transpose2d, conv_transpose, ConvTransposeOptions<2>,
        "The derivative of [`conv2d`] by its input, as a layer: `[n, in, h, w]` with a weight `[in, out / groups, kernel..]`.";
    conv_transpose3d, conv_transpose, ConvTransposeOptions<3>,
        "The derivative of [`conv3d`] by its input, as a layer: `[n, in, d, h, w]` with a weight `[in, out / groups, kernel..]`.";
}

/// The padding before and after each dimension, the last dimension's first, as [`pad`](super::pad) takes it. An odd element is
/// added after.
pub(crate) fn around<const N: usize>(kernel: Size<N>, options: &ConvOptions<N>) -> Result<Vec<i64>> {
    let pair = |dim: usize| match options.padding {
        Padding::Size(sizes) => [sizes[dim], sizes[dim]],
        Padding::Valid => [0, 0],
        Padding::Same => {
            let total = options.dilation[dim] * (kernel[dim] - 1);
            [total / 2, total - total / 2]
        }
    };
    ensure!(
        options.padding != Padding::Same || options.stride.iter().all(|stride| *stride == 1),
        InvalidArgument,
        "expected stride 1 with padding that preserves the size but got {:?}",
        options.stride.0
    );
    Ok((0..N).rev().flat_map(pair).collect())
}
