//! Convolution of images.

use super::{check_positive, parameter};
use crate::{Module, fields, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// Options of [`Conv2d`], heights before widths.
///
/// ```
/// use flambeau_nn::{Conv2d, Conv2dOptions, Module};
/// use flambeau_ops::Tensor;
/// let options = Conv2dOptions { stride: [2, 2], padding: [1, 1], ..Default::default() };
/// let layer = Conv2d::with_options(3, 8, [3, 3], options)?;
/// layer.requires_grad_(false)?;
/// assert_eq!(layer.forward(&Tensor::ones(&[1, 3, 16, 16], ())?)?.sizes(), &[1, 8, 8, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2dOptions {
    /// Strides of the kernel.
    pub stride: [i64; 2],
    /// Zeros on each side.
    pub padding: [i64; 2],
    /// Distances between the kernel's elements.
    pub dilation: [i64; 2],
    /// The number of groups of channels; outputs of a group depend on its inputs only.
    pub groups: i64,
    /// Whether to add a bias.
    pub bias: bool,
}

impl Default for Conv2dOptions {
    fn default() -> Self {
        Conv2dOptions { stride: [1, 1], padding: [0, 0], dilation: [1, 1], groups: 1, bias: true }
    }
}

/// Slides a kernel over images: `[n, in, h, w]` to `[n, out, h', w']`, where
/// `h' = (h + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down.
///
/// ```
/// use flambeau_nn::{Conv2d, Module};
/// use flambeau_ops::Tensor;
/// let layer = Conv2d::new(3, 8, [3, 3])?;
/// layer.requires_grad_(false)?;
/// assert_eq!(layer.weight.sizes(), &[8, 3, 3, 3]);
/// assert_eq!(layer.forward(&Tensor::ones(&[2, 3, 16, 16], ())?)?.sizes(), &[2, 8, 14, 14]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Conv2d {
    /// `[out, in / groups, kernel height, kernel width]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    options: Conv2dOptions,
}

impl Conv2d {
    /// A kernel moved one at a time, with a bias and no padding; uniform as in [`Linear`](crate::Linear).
    ///
    /// # Errors
    /// `InvalidArgument` for channels and kernels below 1.
    pub fn new(in_channels: i64, out_channels: i64, kernel: [i64; 2]) -> Result<Self> {
        Self::with_options(in_channels, out_channels, kernel, Conv2dOptions::default())
    }

    /// The same with options.
    ///
    /// # Errors
    /// `InvalidArgument` for numbers below 1, padding below 0 and channels that `groups` does not divide.
    pub fn with_options(
        in_channels: i64,
        out_channels: i64,
        kernel: [i64; 2],
        options: Conv2dOptions,
    ) -> Result<Self> {
        check(in_channels, out_channels, kernel, options).map_err(|e| e.context("Conv2d"))?;
        let weight = parameter(&[out_channels, in_channels / options.groups, kernel[0], kernel[1]])?;
        let bias = options.bias.then(|| parameter(&[out_channels])).transpose()?;
        init::like_linear(&weight, bias.as_ref())?;
        Ok(Conv2d { weight, bias, options })
    }

    /// Its options.
    pub fn options(&self) -> Conv2dOptions {
        self.options
    }
}

fn check(inputs: i64, outputs: i64, kernel: [i64; 2], options: Conv2dOptions) -> Result<()> {
    check_positive("in_channels", inputs)?;
    check_positive("out_channels", outputs)?;
    check_positive("groups", options.groups)?;
    ensure!(
        inputs % options.groups == 0 && outputs % options.groups == 0,
        InvalidArgument,
        "expected channels that {} groups divide but got {inputs} and {outputs}",
        options.groups
    );
    for (what, values) in
        [("a kernel", kernel), ("a stride", options.stride), ("a dilation", options.dilation)]
    {
        values.iter().try_for_each(|value| check_positive(what, *value))?;
    }
    ensure!(
        options.padding.iter().all(|value| *value >= 0),
        InvalidArgument,
        "expected padding of at least 0 but got {:?}",
        options.padding
    );
    Ok(())
}

impl Module for Conv2d {
    fields!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let Conv2dOptions { stride, padding, dilation, groups, .. } = self.options;
        ops::conv2d(input, &self.weight, self.bias.as_ref(), &stride, &padding, &dilation, groups)
    }
}
