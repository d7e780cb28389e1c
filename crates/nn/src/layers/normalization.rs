//! Layers that normalise values to mean 0 and variance 1, or to norm 1.

use super::{check_positive, parameter};
use crate::{Buffer, Module, Training, fields, init};
use flambeau_autograd::no_grad;
use flambeau_core::{Result, ScalarType, default_dtype, ensure};
use flambeau_ops::{Tensor, ops};

/// Ones to scale by, and zeros to add.
fn scale_and_shift(sizes: &[i64]) -> Result<(Tensor, Tensor)> {
    let (weight, bias) = (parameter(sizes)?, parameter(sizes)?);
    init::ones_(&weight)?;
    init::zeros_(&bias)?;
    Ok((weight, bias))
}

fn check_sizes(sizes: &[i64]) -> Result<()> {
    ensure!(!sizes.is_empty(), InvalidArgument, "expected at least one dimension to normalise");
    sizes.iter().try_for_each(|size| check_positive("a size", *size))
}

/// Normalises the last dimensions of each example, then scales and shifts: Ba, Kiros and Hinton, "Layer normalization", 2016.
/// `[.., sizes]` to the same.
///
/// ```
/// use flambeau_nn::{LayerNorm, Module};
/// use flambeau_ops::Tensor;
/// let norm = LayerNorm::new(&[2])?;
/// norm.requires_grad_(false)?;
/// let y = norm.forward(&Tensor::from([[1.0f32, 3.0]]))?.to_vec::<f32>()?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[1] - 1.0).abs() < 1e-4);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct LayerNorm {
    /// `sizes`.
    pub weight: Tensor,
    /// `sizes`.
    pub bias: Option<Tensor>,
    /// The dimensions that are normalised together.
    pub sizes: Vec<i64>,
    /// Added to the variance; 1e-5 unless changed.
    pub eps: f64,
}

impl LayerNorm {
    /// For inputs that end in `sizes`.
    ///
    /// # Errors
    /// `InvalidArgument` for no sizes or sizes below 1, `OutOfMemory`.
    pub fn new(sizes: &[i64]) -> Result<Self> {
        check_sizes(sizes).map_err(|e| e.context("LayerNorm"))?;
        let (weight, bias) = scale_and_shift(sizes)?;
        Ok(LayerNorm { weight, bias: Some(bias), sizes: sizes.to_vec(), eps: 1e-5 })
    }

    /// The same without a bias.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn without_bias(sizes: &[i64]) -> Result<Self> {
        Ok(LayerNorm { bias: None, ..Self::new(sizes)? })
    }
}

impl Module for LayerNorm {
    fields!(weight, bias);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::layer_norm(input, &self.sizes, Some(&self.weight), self.bias.as_ref(), self.eps, true)
    }
}

/// Divides the last dimensions of each example by their root mean square, then scales: Zhang and Sennrich, "Root mean square
/// layer normalization", 2019. `[.., sizes]` to the same.
///
/// ```
/// use flambeau_nn::{Module, RmsNorm};
/// use flambeau_ops::Tensor;
/// let norm = RmsNorm::new(&[2])?;
/// norm.requires_grad_(false)?;
/// let y = norm.forward(&Tensor::from([[3.0f32, 4.0]]))?.to_vec::<f32>()?;
/// assert!((y[0] - 3.0 / 12.5f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RmsNorm {
    /// `sizes`.
    pub weight: Tensor,
    /// The dimensions that are normalised together.
    pub sizes: Vec<i64>,
    /// Added to the mean square; the distance from 1 to the next number of the input's type for `None`.
    pub eps: Option<f64>,
}

impl RmsNorm {
    /// For inputs that end in `sizes`.
    ///
    /// # Errors
    /// `InvalidArgument` for no sizes or sizes below 1, `OutOfMemory`.
    pub fn new(sizes: &[i64]) -> Result<Self> {
        check_sizes(sizes).map_err(|e| e.context("RmsNorm"))?;
        let (weight, _) = scale_and_shift(sizes)?;
        Ok(RmsNorm { weight, sizes: sizes.to_vec(), eps: None })
    }
}

impl Module for RmsNorm {
    fields!(weight);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::rms_norm(input, &self.sizes, Some(&self.weight), self.eps)
    }
}

/// Normalises each channel over batch, height and width, then scales and shifts: Ioffe and Szegedy, "Batch normalization",
/// 2015. `[n, channels, h, w]` to the same. In evaluation it uses the moving statistics that training left.
///
/// ```
/// use flambeau_nn::{BatchNorm2d, Module};
/// use flambeau_ops::Tensor;
/// let norm = BatchNorm2d::new(3)?;
/// norm.requires_grad_(false)?;
/// norm.forward(&Tensor::ones(&[2, 3, 4, 4], ())?)?;
/// assert_eq!(norm.num_batches_tracked.0.item::<i64>()?, 1);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchNorm2d {
    /// `[channels]`.
    pub weight: Tensor,
    /// `[channels]`.
    pub bias: Tensor,
    /// `[channels]`: the moving mean.
    pub running_mean: Buffer,
    /// `[channels]`: the moving variance.
    pub running_var: Buffer,
    /// Batches that training has seen: one i64.
    pub num_batches_tracked: Buffer,
    /// Added to the variance; 1e-5 unless changed.
    pub eps: f64,
    /// How much of a batch's statistics enters the moving ones; 0.1 unless changed.
    pub momentum: f64,
    training: Training,
}

impl BatchNorm2d {
    /// For inputs with so many channels.
    ///
    /// # Errors
    /// `InvalidArgument` for less than one, `OutOfMemory`.
    pub fn new(channels: i64) -> Result<Self> {
        check_positive("a number of channels", channels).map_err(|e| e.context("BatchNorm2d"))?;
        let (weight, bias) = scale_and_shift(&[channels])?;
        Ok(BatchNorm2d {
            weight,
            bias,
            running_mean: Buffer(Tensor::zeros(&[channels], default_dtype())?),
            running_var: Buffer(Tensor::ones(&[channels], default_dtype())?),
            num_batches_tracked: Buffer(Tensor::zeros(&[], ScalarType::I64)?),
            eps: 1e-5,
            momentum: 0.1,
            training: Training::new(),
        })
    }
}

impl Module for BatchNorm2d {
    fields!(weight, bias, running_mean, running_var, num_batches_tracked, training);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ensure!(
            input.dim() == 4,
            Shape,
            "BatchNorm2d: expected an input of 4 dimensions but got sizes {:?}",
            input.sizes()
        );
        let training = self.training.is_training();
        let output = ops::batch_norm(
            input,
            Some(&self.weight),
            Some(&self.bias),
            Some(&self.running_mean.0),
            Some(&self.running_var.0),
            training,
            self.momentum,
            self.eps,
            true,
        )?;
        if training {
            let _guard = no_grad();
            ops::add__scalar(&self.num_batches_tracked.0, 1.into(), 1.into())?;
        }
        Ok(output)
    }
}
