//! Pooling: windows become their largest element, or their mean.

use super::Size;
use flambeau_core::{Result, bail};
use flambeau_ops::{Tensor, ops};

/// How far apart windows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stride<const N: usize> {
    /// As far as they are large: side by side.
    Kernel,
    /// So far.
    Size(Size<N>),
}

impl<const N: usize> Stride<N> {
    fn with(self, kernel: Size<N>) -> Size<N> {
        match self {
            Stride::Kernel => kernel,
            Stride::Size(sizes) => sizes,
        }
    }
}

impl<const N: usize> From<i64> for Stride<N> {
    fn from(size: i64) -> Self {
        Stride::Size(size.into())
    }
}

impl<const N: usize> From<[i64; N]> for Stride<N> {
    fn from(sizes: [i64; N]) -> Self {
        Stride::Size(sizes.into())
    }
}

options! {
    /// Options of maximum pooling.
    MaxPoolOptions<const N: usize> {
        /// Distances between windows.
        stride: Stride<N> = Stride::Kernel,
        /// What is added on each side of the input, and never the largest.
        padding: Size<N> = 0.into(),
        /// Distances between the elements of a window.
        dilation: Size<N> = 1.into(),
        /// Whether a last window may reach over the edge.
        ceil_mode: bool = false,
    }
}

options! {
    /// Options of mean pooling.
    AvgPoolOptions<const N: usize> {
        /// Distances between windows.
        stride: Stride<N> = Stride::Kernel,
        /// Zeros that are added on each side of the input.
        padding: Size<N> = 0.into(),
        /// Whether a last window may reach over the edge.
        ceil_mode: bool = false,
        /// Whether the padding's zeros count as elements.
        count_include_pad: bool = true,
        /// What sums are divided by instead of the number of elements; not for one dimension.
        divisor: Option<i64> = None,
    }
}

fn unknown<T>(dims: usize) -> Result<T> {
    bail!(InvalidArgument, "expected pooling of 1 to 3 dimensions but got {dims}")
}

/// The largest elements of windows, and their positions.
pub(crate) fn max_pool_with_indices<const N: usize>(
    input: &Tensor,
    kernel: Size<N>,
    options: &MaxPoolOptions<N>,
) -> Result<(Tensor, Tensor)> {
    let MaxPoolOptions { stride, padding, dilation, ceil_mode } = options;
    let operator = match N {
        1 => ops::max_pool1d_with_indices,
        2 => ops::max_pool2d_with_indices,
        3 => ops::max_pool3d_with_indices,
        _ => return unknown(N),
    };
    operator(input, &kernel, &stride.with(kernel), padding, dilation, *ceil_mode)
}

/// The largest elements of windows.
pub(crate) fn max_pool<const N: usize>(
    input: &Tensor,
    kernel: Size<N>,
    options: &MaxPoolOptions<N>,
) -> Result<Tensor> {
    let MaxPoolOptions { stride, padding, dilation, ceil_mode } = options;
    let operator = match N {
        1 => ops::max_pool1d,
        2 => ops::max_pool2d,
        3 => ops::max_pool3d,
        _ => return unknown(N),
    };
    operator(input, &kernel, &stride.with(kernel), padding, dilation, *ceil_mode)
}

/// The means of windows.
pub(crate) fn avg_pool<const N: usize>(
    input: &Tensor,
    kernel: Size<N>,
    options: &AvgPoolOptions<N>,
) -> Result<Tensor> {
    let AvgPoolOptions { stride, padding, ceil_mode, count_include_pad, divisor } = options;
    let stride = stride.with(kernel);
    let operator = match (N, divisor) {
        (1, None) => {
            return ops::avg_pool1d(input, &kernel, &stride, padding, *ceil_mode, *count_include_pad);
        }
        (2, _) => ops::avg_pool2d,
        (3, _) => ops::avg_pool3d,
        (1, Some(_)) => bail!(InvalidArgument, "avg_pool1d: expected no divisor but got {divisor:?}"),
        _ => return unknown(N),
    };
    operator(input, &kernel, &stride, padding, *ceil_mode, *count_include_pad, *divisor)
}

/// The means of so many windows as `sizes` says.
pub(crate) fn adaptive_avg_pool<const N: usize>(input: &Tensor, sizes: Size<N>) -> Result<Tensor> {
    let operator = match N {
        1 => ops::adaptive_avg_pool1d,
        2 => ops::adaptive_avg_pool2d,
        3 => ops::adaptive_avg_pool3d,
        _ => return unknown(N),
    };
    operator(input, &sizes)
}

/// The largest elements of so many windows as `sizes` says, and their positions.
pub(crate) fn adaptive_max_pool<const N: usize>(input: &Tensor, sizes: Size<N>) -> Result<(Tensor, Tensor)> {
    let operator = match N {
        1 => ops::adaptive_max_pool1d,
        2 => ops::adaptive_max_pool2d,
        3 => ops::adaptive_max_pool3d,
        _ => return unknown(N),
    };
    operator(input, &sizes)
}

/// Pooling with a kernel and options.
macro_rules! poolings {
    ($($(#[$doc:meta])* $name:ident = $general:ident, $options:ident<$n:literal> -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Shape` for an input of other dimensions or smaller than the kernel, `InvalidArgument` for options out of range.
        pub fn $name(
            input: &Tensor,
            kernel: impl Into<Size<$n>>,
            options: $options<$n>,
        ) -> Result<$output> {
            $general(input, kernel.into(), &options)
        }
    )*};
}

poolings! {
    /// The largest element of each window of `[n, c, l]`.
    max_pool1d = max_pool, MaxPoolOptions<1> -> Tensor;
    /// The largest element of each window of `[n, c, h, w]`.
    ///
    /// ```
    /// use flambeau_nn::functional::{MaxPoolOptions, max_pool2d};
    /// use flambeau_ops::Tensor;
    /// let image = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// assert_eq!(max_pool2d(&image, 2, MaxPoolOptions::default())?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    max_pool2d = max_pool, MaxPoolOptions<2> -> Tensor;
    /// The largest element of each window of `[n, c, d, h, w]`.
    max_pool3d = max_pool, MaxPoolOptions<3> -> Tensor;
    /// [`max_pool1d`], and where in its row each element lies.
    max_pool1d_with_indices = max_pool_with_indices, MaxPoolOptions<1> -> (Tensor, Tensor);
    /// [`max_pool2d`], and where in its image each element lies.
    max_pool2d_with_indices = max_pool_with_indices, MaxPoolOptions<2> -> (Tensor, Tensor);
    /// [`max_pool3d`], and where in its volume each element lies.
    max_pool3d_with_indices = max_pool_with_indices, MaxPoolOptions<3> -> (Tensor, Tensor);
    /// The mean of each window of `[n, c, l]`.
    avg_pool1d = avg_pool, AvgPoolOptions<1> -> Tensor;
    /// The mean of each window of `[n, c, h, w]`.
    avg_pool2d = avg_pool, AvgPoolOptions<2> -> Tensor;
    /// The mean of each window of `[n, c, d, h, w]`.
    avg_pool3d = avg_pool, AvgPoolOptions<3> -> Tensor;
}

/// Pooling to given sizes.
macro_rules! adaptive_poolings {
    ($($(#[$doc:meta])* $name:ident = $general:ident, $n:literal -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// `Shape` for an input of other dimensions, `InvalidArgument` for sizes below 0.
        pub fn $name(input: &Tensor, sizes: impl Into<Size<$n>>) -> Result<$output> {
            $general(input, sizes.into())
        }
    )*};
}

adaptive_poolings! {
    /// The means of so many windows of `[n, c, l]`.
    adaptive_avg_pool1d = adaptive_avg_pool, 1 -> Tensor;
    /// The means of so many windows of `[n, c, h, w]`.
    adaptive_avg_pool2d = adaptive_avg_pool, 2 -> Tensor;
    /// The means of so many windows of `[n, c, d, h, w]`.
    adaptive_avg_pool3d = adaptive_avg_pool, 3 -> Tensor;
    /// The largest elements of so many windows of `[n, c, l]`, and their positions.
    adaptive_max_pool1d = adaptive_max_pool, 1 -> (Tensor, Tensor);
    /// The largest elements of so many windows of `[n, c, h, w]`, and their positions.
    adaptive_max_pool2d = adaptive_max_pool, 2 -> (Tensor, Tensor);
    /// The largest elements of so many windows of `[n, c, d, h, w]`, and their positions.
    adaptive_max_pool3d = adaptive_max_pool, 3 -> (Tensor, Tensor);
}
