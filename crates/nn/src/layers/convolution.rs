//! Convolutions as modules, of one, two and three dimensions.

use super::{check_positive, parameter, parameter_if};
use crate::functional::{self, ConvOptions, ConvTransposeOptions, PadMode, Padding, Size};
use crate::{Forward, Module, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// Slides a kernel over `[n, in, ..]`, to `[n, out, ..]`, where
/// `size' = (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1`, rounded down.
///
/// ```
/// use flambeau_nn::functional::ConvOptions;
/// use flambeau_nn::{Conv2d, Forward, Module};
/// use flambeau_ops::Tensor;
/// let layer = Conv2d::new(3, 8, 3)?;
/// layer.requires_grad_(false)?;
/// assert_eq!(layer.weight.sizes(), &[8, 3, 3, 3]);
/// assert_eq!(layer.forward(&Tensor::ones(&[2, 3, 16, 16], ())?)?.sizes(), &[2, 8, 14, 14]);
/// let halved = Conv2d::with_options(3, 8, 3, ConvOptions::default().stride(2).padding(1))?;
/// assert_eq!(halved.forward(&Tensor::ones(&[1, 3, 16, 16], ())?)?.sizes(), &[1, 8, 8, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Conv<const N: usize> {
    /// `[out, in / groups, kernel..]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    #[module(skip)]
    options: ConvOptions<N>,
    #[module(skip)]
    padding_mode: PadMode,
}

/// [`Conv`] of `[n, in, length]`.
pub type Conv1d = Conv<1>;
/// [`Conv`] of `[n, in, height, width]`.
pub type Conv2d = Conv<2>;
/// [`Conv`] of `[n, in, depth, height, width]`.
pub type Conv3d = Conv<3>;

impl<const N: usize> Conv<N> {
    /// A kernel moved one at a time, with a bias and no padding; uniform as in [`Linear`](crate::Linear).
    ///
    /// # Errors
    /// `InvalidArgument` for channels and kernels below 1.
    pub fn new(in_channels: i64, out_channels: i64, kernel: impl Into<Size<N>>) -> Result<Self> {
        Self::with_options(in_channels, out_channels, kernel, ConvOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// `InvalidArgument` for numbers below 1, padding below 0 and channels that `groups` does not divide.
    pub fn with_options(
        in_channels: i64,
        out_channels: i64,
        kernel: impl Into<Size<N>>,
        options: ConvOptions<N>,
    ) -> Result<Self> {
        Self::made((in_channels, out_channels), kernel.into(), options, true)
    }

    /// The same without a bias.
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options).
    pub fn without_bias(
        in_channels: i64,
        out_channels: i64,
        kernel: impl Into<Size<N>>,
        options: ConvOptions<N>,
    ) -> Result<Self> {
        Self::made((in_channels, out_channels), kernel.into(), options, false)
    }

    fn made(channels: (i64, i64), kernel: Size<N>, options: ConvOptions<N>, bias: bool) -> Result<Self> {
        check_conv(channels, kernel, &options).map_err(|e| e.context(format!("Conv{N}d")))?;
        let (inputs, outputs) = channels;
        let weight = parameter(&[&[outputs, inputs / options.groups], &kernel[..]].concat())?;
        let bias = parameter_if(bias, &[outputs])?;
        init::like_linear(&weight, bias.as_ref())?;
        Ok(Conv { weight, bias, options, padding_mode: PadMode::Constant(0.0) })
    }

    /// What is added around the input; zeros unless changed.
    #[must_use]
    pub fn padding_mode(self, padding_mode: PadMode) -> Self {
        Conv { padding_mode, ..self }
    }

    /// Its options.
    pub fn options(&self) -> &ConvOptions<N> {
        &self.options
    }

    fn kernel(&self) -> Size<N> {
        Size(std::array::from_fn(|dim| self.weight.sizes()[dim + 2]))
    }
}

impl<const N: usize> Forward for Conv<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref();
        if self.padding_mode == PadMode::Constant(0.0) {
            return functional::conv(input, &self.weight, bias, &self.options);
        }
        let around = functional::around(self.kernel(), &self.options)?;
        let input = functional::pad(input, &around, self.padding_mode)?;
        functional::conv(&input, &self.weight, bias, &self.options.clone().padding(Padding::Valid))
    }
}

fn check_conv<const N: usize>(channels: (i64, i64), kernel: Size<N>, options: &ConvOptions<N>) -> Result<()> {
    let sizes = if let Padding::Size(sizes) = options.padding { sizes } else { 0.into() };
    check(channels, options.groups, [kernel, options.stride, options.dilation], sizes)
}

fn check<const N: usize>(
    (inputs, outputs): (i64, i64),
    groups: i64,
    sizes: [Size<N>; 3],
    padding: Size<N>,
) -> Result<()> {
    check_positive("in_channels", inputs)?;
    check_positive("out_channels", outputs)?;
    check_positive("groups", groups)?;
    ensure!(
        inputs % groups == 0 && outputs % groups == 0,
        InvalidArgument,
        "expected channels that {groups} groups divide but got {inputs} and {outputs}"
    );
    for (what, values) in ["a kernel", "a stride", "a dilation"].into_iter().zip(sizes) {
        values.iter().try_for_each(|value| check_positive(what, *value))?;
    }
    ensure!(
        padding.iter().all(|value| *value >= 0),
        InvalidArgument,
        "expected padding of at least 0 but got {:?}",
        padding.0
    );
    Ok(())
}

/// The transpose of a convolution, which makes `[n, in, ..]` larger: to `[n, out, ..]`, where
/// `size' = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1`.
///
/// ```
/// use flambeau_nn::functional::ConvTransposeOptions;
/// use flambeau_nn::{ConvTranspose2d, Forward, Module};
/// use flambeau_ops::Tensor;
/// let doubled = ConvTranspose2d::with_options(8, 3, 2, ConvTransposeOptions::default().stride(2))?;
/// doubled.requires_grad_(false)?;
/// assert_eq!(doubled.forward(&Tensor::ones(&[1, 8, 4, 4], ())?)?.sizes(), &[1, 3, 8, 8]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct ConvTranspose<const N: usize> {
    /// `[in, out / groups, kernel..]`.
    pub weight: Tensor,
    /// `[out]`.
    pub bias: Option<Tensor>,
    #[module(skip)]
    options: ConvTransposeOptions<N>,
}

/// [`ConvTranspose`] of `[n, in, length]`.
pub type ConvTranspose1d = ConvTranspose<1>;
/// [`ConvTranspose`] of `[n, in, height, width]`.
pub type ConvTranspose2d = ConvTranspose<2>;
/// [`ConvTranspose`] of `[n, in, depth, height, width]`.
pub type ConvTranspose3d = ConvTranspose<3>;

impl<const N: usize> ConvTranspose<N> {
    /// A kernel moved one at a time, with a bias and no padding; uniform as in PyTorch.
    ///
    /// # Errors
    /// `InvalidArgument` for channels and kernels below 1.
    pub fn new(in_channels: i64, out_channels: i64, kernel: impl Into<Size<N>>) -> Result<Self> {
        Self::with_options(in_channels, out_channels, kernel, ConvTransposeOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// `InvalidArgument` for numbers below 1, padding below 0 and channels that `groups` does not divide.
    pub fn with_options(
        in_channels: i64,
        out_channels: i64,
        kernel: impl Into<Size<N>>,
        options: ConvTransposeOptions<N>,
    ) -> Result<Self> {
        Self::made((in_channels, out_channels), kernel.into(), options, true)
    }

    /// The same without a bias.
    ///
    /// # Errors
    /// Those of [`with_options`](Self::with_options).
    pub fn without_bias(
        in_channels: i64,
        out_channels: i64,
        kernel: impl Into<Size<N>>,
        options: ConvTransposeOptions<N>,
    ) -> Result<Self> {
        Self::made((in_channels, out_channels), kernel.into(), options, false)
    }

    fn made(
        (inputs, outputs): (i64, i64),
        kernel: Size<N>,
        options: ConvTransposeOptions<N>,
        bias: bool,
    ) -> Result<Self> {
        let sizes = [kernel, options.stride, options.dilation];
        check((inputs, outputs), options.groups, sizes, options.padding)
            .map_err(|e| e.context(format!("ConvTranspose{N}d")))?;
        let weight = parameter(&[&[inputs, outputs / options.groups], &kernel[..]].concat())?;
        let bias = parameter_if(bias, &[outputs])?;
        init::like_linear(&weight, bias.as_ref())?;
        Ok(ConvTranspose { weight, bias, options })
    }
}

impl<const N: usize> Forward for ConvTranspose<N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::conv_transpose(input, &self.weight, self.bias.as_ref(), &self.options)
    }
}
