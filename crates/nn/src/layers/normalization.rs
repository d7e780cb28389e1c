//! Layers that normalise values to mean 0 and variance 1, or to norm 1.

use super::{check_positive, parameter, parameter_if};
use crate::functional::{self, LocalResponse, Mode, Norm, RmsNormOptions, RunningNorm};
use crate::{Forward, Module, Training, init};
use flambeau_autograd::no_grad;
use flambeau_core::{Result, ScalarType, default_dtype, ensure};
use flambeau_ops::{Tensor, ops};

/// Ones to scale by, and zeros to add, each if there are to be some.
fn scale_and_shift(sizes: &[i64], affine: bool, bias: bool) -> Result<(Option<Tensor>, Option<Tensor>)> {
    let (weight, bias) = (parameter_if(affine, sizes)?, parameter_if(affine && bias, sizes)?);
    weight.as_ref().map_or(Ok(()), init::ones_)?;
    bias.as_ref().map_or(Ok(()), init::zeros_)?;
    Ok((weight, bias))
}

fn check_sizes(sizes: &[i64]) -> Result<()> {
    ensure!(!sizes.is_empty(), InvalidArgument, "expected at least one dimension to normalise");
    sizes.iter().try_for_each(|size| check_positive("a size", *size))
}

options! {
    /// Options of [`LayerNorm`] and [`GroupNorm`].
    NormOptions {
        /// Added to variances.
        eps: f64 = 1e-5,
        /// Whether results are scaled and shifted.
        affine: bool = true,
        /// Whether results that are scaled are shifted too.
        bias: bool = true,
    }
}

/// Normalises the last dimensions of each example, then scales and shifts: Ba, Kiros and Hinton, "Layer normalization", 2016.
/// `[.., sizes]` to the same.
///
/// ```
/// use flambeau_nn::{Forward, LayerNorm, Module};
/// use flambeau_ops::Tensor;
/// let norm = LayerNorm::new(&[2])?;
/// norm.requires_grad_(false)?;
/// let y = norm.forward(&Tensor::from([[1.0f32, 3.0]]))?.to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct LayerNorm {
    /// `sizes`.
    pub weight: Option<Tensor>,
    /// `sizes`.
    pub bias: Option<Tensor>,
    /// The dimensions that are normalised together.
    #[module(skip)]
    pub sizes: Vec<i64>,
    /// Added to the variance.
    #[module(skip)]
    pub eps: f64,
}

impl LayerNorm {
    /// For inputs that end in `sizes`.
    ///
    /// # Errors
    /// `InvalidArgument` for no sizes or sizes below 1, `OutOfMemory`.
    pub fn new(sizes: &[i64]) -> Result<Self> {
        Self::with_options(sizes, NormOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_options(sizes: &[i64], options: NormOptions) -> Result<Self> {
        check_sizes(sizes).map_err(|e| e.context("LayerNorm"))?;
        let (weight, bias) = scale_and_shift(sizes, options.affine, options.bias)?;
        Ok(LayerNorm { weight, bias, sizes: sizes.to_vec(), eps: options.eps })
    }
}

impl Forward for LayerNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        functional::layer_norm(input, &self.sizes, Norm { weight, bias, eps: self.eps })
    }
}

/// Normalises groups of channels of each example, then scales and shifts each channel: Wu and He, "Group normalization", 2018.
/// `[n, channels, ..]` to the same.
#[derive(Debug, Module)]
pub struct GroupNorm {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    #[module(skip)]
    groups: i64,
    /// Added to the variance.
    #[module(skip)]
    pub eps: f64,
}

impl GroupNorm {
    /// For inputs with so many channels.
    ///
    /// # Errors
    /// `InvalidArgument` for less than one group, and unless groups divide the channels.
    pub fn new(groups: i64, channels: i64) -> Result<Self> {
        Self::with_options(groups, channels, NormOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn with_options(groups: i64, channels: i64, options: NormOptions) -> Result<Self> {
        ensure!(
            groups > 0 && channels > 0 && channels % groups == 0,
            InvalidArgument,
            "GroupNorm: expected channels that {groups} groups divide but got {channels}"
        );
        let (weight, bias) = scale_and_shift(&[channels], options.affine, options.bias)?;
        Ok(GroupNorm { weight, bias, groups, eps: options.eps })
    }
}

impl Forward for GroupNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let (weight, bias) = (self.weight.clone(), self.bias.clone());
        functional::group_norm(input, self.groups, Norm { weight, bias, eps: self.eps })
    }
}

/// Divides the last dimensions of each example by their root mean square, then scales: Zhang and Sennrich, "Root mean square
/// layer normalization", 2019. `[.., sizes]` to the same.
///
/// ```
/// use flambeau_nn::{Forward, Module, RmsNorm};
/// use flambeau_ops::Tensor;
/// let norm = RmsNorm::new(&[2])?;
/// norm.requires_grad_(false)?;
/// let y = norm.forward(&Tensor::from([[3.0f32, 4.0]]))?.to_vec::<f32>()?;
/// assert!((y[0] - 3.0 / 12.5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct RmsNorm {
    /// `sizes`.
    pub weight: Tensor,
    /// The dimensions that are normalised together.
    #[module(skip)]
    pub sizes: Vec<i64>,
    /// Added to the mean square; the distance from 1 to the next number of the input's type for `None`.
    #[module(skip)]
    pub eps: Option<f64>,
}

impl RmsNorm {
    /// For inputs that end in `sizes`.
    ///
    /// # Errors
    /// `InvalidArgument` for no sizes or sizes below 1, `OutOfMemory`.
    pub fn new(sizes: &[i64]) -> Result<Self> {
        check_sizes(sizes).map_err(|e| e.context("RmsNorm"))?;
        let weight = parameter(sizes)?;
        init::ones_(&weight)?;
        Ok(RmsNorm { weight, sizes: sizes.to_vec(), eps: None })
    }
}

impl Forward for RmsNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let options = RmsNormOptions { weight: Some(self.weight.clone()), eps: self.eps };
        functional::rms_norm(input, &self.sizes, options)
    }
}

options! {
    /// Options of norms of channels, which may remember what they have seen.
    ChannelNormOptions {
        /// Added to variances.
        eps: f64 = 1e-5,
        /// How much of a batch's statistics enters the moving ones; the mean of all batches where none is given.
        momentum: Option<f64> = Some(0.1),
        /// Whether results are scaled and shifted.
        affine: bool = true,
        /// Whether there are moving statistics, for evaluation.
        track_running_stats: bool = true,
    }
}

/// Norms of channels: documentation, name, function, defaults, whether they are of the whole batch, aliases. A norm of the batch
/// counts batches, and needs no spatial dimension.
macro_rules! channel_norms {
    ($($(#[$doc:meta])* $name:ident = $function:ident, $defaults:expr, $of_batch:literal, [$($alias:ident = $n:literal),*];)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Module)]
        pub struct $name<const N: usize> {
            /// `[channels]`.
            pub weight: Option<Tensor>,
            /// `[channels]`.
            pub bias: Option<Tensor>,
            /// `[channels]`: the moving mean.
            #[module(buffer)]
            pub running_mean: Option<Tensor>,
            /// `[channels]`: the moving variance.
            #[module(buffer)]
            pub running_var: Option<Tensor>,
            /// Batches that training has seen: one i64.
            #[module(buffer)]
            pub num_batches_tracked: Option<Tensor>,
            #[module(skip)]
            options: ChannelNormOptions,
            training: Training,
        }

        $(
            #[doc = concat!("[`", stringify!($name), "`] of so many spatial dimensions.")]
            pub type $alias = $name<$n>;
        )*

        impl<const N: usize> $name<N> {
            /// For inputs with so many channels.
            ///
            /// # Errors
            /// `InvalidArgument` for less than one, `OutOfMemory`.
            pub fn new(channels: i64) -> Result<Self> {
                Self::with_options(channels, $defaults)
            }

            /// As [`new`](Self::new), with the settings of `options`.
            ///
            /// # Errors
            /// Those of [`new`](Self::new).
            pub fn with_options(channels: i64, options: ChannelNormOptions) -> Result<Self> {
                check_positive("a number of channels", channels).map_err(|e| e.context(stringify!($name)))?;
                let (weight, bias) = scale_and_shift(&[channels], options.affine, true)?;
                let tracked = options.track_running_stats;
                let made = |make: fn(&[i64], ScalarType) -> Result<Tensor>, sizes: &[i64], dtype| {
                    tracked.then(|| make(sizes, dtype)).transpose()
                };
                Ok(Self {
                    weight,
                    bias,
                    running_mean: made(Tensor::zeros, &[channels], default_dtype())?,
                    running_var: made(Tensor::ones, &[channels], default_dtype())?,
                    num_batches_tracked: made(Tensor::zeros, &[], ScalarType::I64)?,
                    options,
                    training: Training::new(),
                })
            }

            /// Whether the statistics are the input's own, and not the moving ones.
            fn mode(&self) -> Mode {
                if self.running_mean.is_none() { Mode::Training } else { Mode::from(&self.training) }
            }
        }

        impl<const N: usize> Forward for $name<N> {
            fn forward(&self, input: &Tensor) -> Result<Tensor> {
                check_dims(stringify!($name), N, $of_batch && N == 1, input)?;
                let momentum = match (&self.num_batches_tracked, $of_batch && self.training.is_training()) {
                    (Some(count), true) => counted(count, self.options.momentum)?,
                    _ => self.options.momentum.unwrap_or(0.0),
                };
                let options = RunningNorm {
                    running_mean: self.running_mean.clone(),
                    running_var: self.running_var.clone(),
                    weight: self.weight.clone(),
                    bias: self.bias.clone(),
                    momentum,
                    eps: self.options.eps,
                };
                functional::$function(input, self.mode(), options)
            }
        }
    )*};
}

channel_norms! {
    /// Normalises each channel over the batch and all positions, then scales and shifts: Ioffe and Szegedy, "Batch normalization",
    /// 2015. `[n, channels, ..]` to the same. In evaluation it uses the moving statistics that training left.
    ///
    /// ```
    /// use flambeau_nn::{BatchNorm2d, Forward, Module};
    /// use flambeau_ops::Tensor;
    /// let norm = BatchNorm2d::new(3)?;
    /// norm.forward(&Tensor::ones(&[2, 3, 4, 4], ())?)?;
    /// let names: Vec<String> = norm.named_buffers().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["running_mean", "running_var", "num_batches_tracked"]);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    BatchNorm = batch_norm, ChannelNormOptions::default(), true,
        [BatchNorm1d = 1, BatchNorm2d = 2, BatchNorm3d = 3];
    /// Normalises each channel of each example over all positions: Ulyanov et al., "Instance normalization", 2016.
    /// `[n, channels, ..]` to the same. Without options it has neither parameters nor moving statistics.
    InstanceNorm = instance_norm, ChannelNormOptions::default().affine(false).track_running_stats(false), false,
        [InstanceNorm1d = 1, InstanceNorm2d = 2, InstanceNorm3d = 3];
}

/// An input of `dims` spatial dimensions, or of none where `flat`.
fn check_dims(name: &str, dims: usize, flat: bool, input: &Tensor) -> Result<()> {
    ensure!(
        input.dim() == dims + 2 || (flat && input.dim() == 2),
        Shape,
        "{name}{dims}d: expected an input of {} dimensions but got sizes {:?}",
        dims + 2,
        input.sizes()
    );
    Ok(())
}

/// Counts a batch, and says how much of its statistics enters the moving ones.
fn counted(count: &Tensor, momentum: Option<f64>) -> Result<f64> {
    let _guard = no_grad();
    ops::add__scalar(count, 1.into(), 1.into())?;
    momentum.map_or_else(|| Ok(1.0 / count.item::<i64>()? as f64), Ok)
}

/// [`local_response_norm`](functional::local_response_norm) as a module.
#[derive(Debug, Clone, Module)]
pub struct LocalResponseNorm {
    /// How many channels around each.
    #[module(skip)]
    pub size: i64,
    /// The other numbers.
    #[module(skip)]
    pub options: LocalResponse,
}

impl Forward for LocalResponseNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::local_response_norm(input, self.size, self.options.clone())
    }
}
