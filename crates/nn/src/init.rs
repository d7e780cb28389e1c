//! Initialisation of parameters: PyTorch's `torch.nn.init`. Every function writes its tensor in place, without history.

use flambeau_autograd::no_grad;
use flambeau_core::{Generator, Result, Scalar, ensure};
use flambeau_ops::native::pointwise::special_scalar::normal::{ndtr, ndtri};
use flambeau_ops::{Tensor, ops};

/// Which number of connections keeps its variance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fan {
    /// Those into a unit: the variance of activations is kept going forward.
    #[default]
    In,
    /// Those out of it: the variance of gradients is kept going backward.
    Out,
}

/// What follows a layer, for [`calculate_gain`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Nonlinearity {
    /// Nothing, or a convolution.
    Linear,
    /// The logistic function.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// `max(x, 0) + slope * min(x, 0)`.
    LeakyRelu(f64),
    /// The self-normalising exponential unit.
    Selu,
}

/// By how much weights are scaled for what follows them. PyTorch's `calculate_gain`.
///
/// ```
/// use flambeau_nn::init::{Nonlinearity, calculate_gain};
/// assert_eq!(calculate_gain(Nonlinearity::Relu), 2f64.sqrt());
/// assert_eq!(calculate_gain(Nonlinearity::LeakyRelu(5f64.sqrt())), (1.0f64 / 3.0).sqrt());
/// ```
pub fn calculate_gain(nonlinearity: Nonlinearity) -> f64 {
    match nonlinearity {
        Nonlinearity::Linear | Nonlinearity::Sigmoid => 1.0,
        Nonlinearity::Tanh => 5.0 / 3.0,
        Nonlinearity::Relu => 2f64.sqrt(),
        Nonlinearity::LeakyRelu(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
        Nonlinearity::Selu => 0.75,
    }
}

/// Connections into and out of one unit of a weight of sizes `[out, in, kernel...]`.
///
/// # Errors
/// `Shape` for less than two dimensions.
pub fn calculate_fans(tensor: &Tensor) -> Result<(i64, i64)> {
    let &[outputs, inputs, ref kernel @ ..] = tensor.sizes() else {
        flambeau_core::bail!(
            Shape,
            "expected a weight of at least 2 dimensions but got sizes {:?}",
            tensor.sizes()
        );
    };
    let field: i64 = kernel.iter().product();
    Ok((inputs * field, outputs * field))
}

/// Zeros.
///
/// # Errors
/// `Busy` where an accessor holds the elements.
pub fn zeros_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 0.0)
}

/// Ones.
///
/// # Errors
/// `Busy` where an accessor holds the elements.
pub fn ones_(tensor: &Tensor) -> Result<()> {
    constant_(tensor, 1.0)
}

/// The same value everywhere.
///
/// # Errors
/// `Busy` where an accessor holds the elements.
pub fn constant_(tensor: &Tensor, value: f64) -> Result<()> {
    let _guard = no_grad();
    ops::fill__scalar(tensor, value.into())
}

/// Draws from a generator of one's own: `init::with(&generator).normal_(&tensor, 0.0, 1.0)?`.
pub fn with(generator: &Generator) -> Draw<'_> {
    Draw(generator)
}

/// A generator to draw from, made by [`with`]; its methods are the functions of this module.
#[derive(Debug, Clone, Copy)]
pub struct Draw<'a>(&'a Generator);

/// Functions that draw from the default generator, and methods of the same names that draw from another.
macro_rules! draws {
    ($($(#[$doc:meta])* $name:ident($tensor:ident $(, $arg:ident: $type:ty)*) |$draw:ident| $body:block)*) => {
        $(
            $(#[$doc])*
            pub fn $name($tensor: &Tensor $(, $arg: $type)*) -> Result<()> {
                with(Generator::default_cpu()).$name($tensor $(, $arg)*)
            }
        )*

        impl Draw<'_> {
            $(
                #[doc = concat!("[`", stringify!($name), "`] from this generator.")]
                ///
                /// # Errors
                /// Those of the function.
                pub fn $name(&self, $tensor: &Tensor $(, $arg: $type)*) -> Result<()> {
                    let $draw = self;
                    $body
                }
            )*
        }
    };
}

draws! {
    /// Uniform between `low` and `high`.
    ///
    /// # Errors
    /// `InvalidArgument` unless `low <= high`, `Dtype` unless of floating point.
    ///
    /// ```
    /// use flambeau_core::Generator;
    /// use flambeau_nn::init;
    /// use flambeau_ops::Tensor;
    /// let t = Tensor::empty(&[100], ())?;
    /// init::with(&Generator::new(7)).uniform_(&t, -1.0, 2.0)?;
    /// assert!(t.to_vec::<f32>()?.iter().all(|x| (-1.0..=2.0).contains(x)));
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    uniform_(tensor, low: f64, high: f64) |draw| {
        ensure!(low <= high, InvalidArgument, "uniform_: expected low <= high but got {low} and {high}");
        draw.fill(tensor, |u, v| [low + u * (high - low), low + v * (high - low)])
    }

    /// Normal with this mean and standard deviation.
    ///
    /// # Errors
    /// `InvalidArgument` unless `std >= 0`, `Dtype` unless of floating point.
    normal_(tensor, mean: f64, std: f64) |draw| {
        ensure!(std >= 0.0, InvalidArgument, "normal_: expected std >= 0 but got {std}");
        draw.fill(tensor, |u, v| {
            // Box and Muller, "A note on the generation of random normal deviates", 1958; 1 - u is never 0.
            let radius = std * (-2.0 * (1.0 - u).ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * v).sin_cos();
            [mean + radius * cos, mean + radius * sin]
        })
    }

    /// Normal, but only values between `low` and `high`, by inversion of the distribution function.
    ///
    /// # Errors
    /// `InvalidArgument` unless `std > 0` and `low <= high`, `Dtype` unless of floating point.
    trunc_normal_(tensor, mean: f64, std: f64, range: (f64, f64)) |draw| {
        let (low, high) = range;
        ensure!(std > 0.0, InvalidArgument, "trunc_normal_: expected std > 0 but got {std}");
        ensure!(low <= high, InvalidArgument, "trunc_normal_: expected low <= high but got {low} and {high}");
        let (a, b) = (ndtr((low - mean) / std), ndtr((high - mean) / std));
        let sample = |u: f64| (mean + std * ndtri(a + u * (b - a))).clamp(low, high);
        draw.fill(tensor, |u, v| [sample(u), sample(v)])
    }

    /// A random matrix with orthonormal rows or columns, whichever are fewer, times `gain`; dimensions but the first are one: Saxe et
    /// al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", 2014.
    ///
    /// # Errors
    /// `Shape` for less than two dimensions, `Dtype` unless of f32 or f64.
    orthogonal_(tensor, gain: f64) |draw| {
        ensure!(
            tensor.dim() >= 2,
            Shape,
            "orthogonal_: expected a tensor of at least two dimensions but got {}",
            tensor.dim()
        );
        if tensor.numel() == 0 {
            return Ok(());
        }
        let _guard = no_grad();
        let rows = tensor.sizes()[0];
        let columns = tensor.numel() / rows;
        let tall = [rows.max(columns), rows.min(columns)];
        let drawn = ops::empty_memory_format(&tall, Some(tensor.dtype()), None, Some(tensor.device()), None, None)?;
        draw.normal_(&drawn, 0.0, 1.0)?;
        let (q, r) = ops::linalg_qr(&drawn, "reduced")?;
        // With the signs of R's diagonal, all orthogonal matrices are equally likely: Mezzadri, "How to generate random matrices from
        // the classical compact groups", 2007.
        let signs = ops::sign(&ops::diagonal(&r, 0, -2, -1)?)?;
        let signed = ops::mul_scalar(&(&q * &signs)?, Scalar::Float(gain))?;
        let oriented = if rows < columns { ops::transpose_int(&signed, 0, 1)? } else { signed };
        ops::copy_(tensor, &ops::reshape(&oriented, tensor.sizes())?, false)
    }

    /// Uniform with a variance of `gain² / fan`: He et al., "Delving deep into rectifiers", 2015.
    ///
    /// # Errors
    /// `Shape` for less than two dimensions, and those of [`uniform_`].
    kaiming_uniform_(tensor, nonlinearity: Nonlinearity, fan: Fan) |draw| {
        let bound = 3f64.sqrt() * kaiming_std(tensor, nonlinearity, fan)?;
        draw.uniform_(tensor, -bound, bound)
    }

    /// Normal with a variance of `gain² / fan`.
    ///
    /// # Errors
    /// `Shape` for less than two dimensions, and those of [`normal_`].
    kaiming_normal_(tensor, nonlinearity: Nonlinearity, fan: Fan) |draw| {
        draw.normal_(tensor, 0.0, kaiming_std(tensor, nonlinearity, fan)?)
    }

    /// Uniform with a variance of `gain² · 2 / (fan in + fan out)`: Glorot and Bengio, "Understanding the difficulty of training
    /// deep feedforward neural networks", 2010.
    ///
    /// # Errors
    /// `Shape` for less than two dimensions, and those of [`uniform_`].
    xavier_uniform_(tensor, gain: f64) |draw| {
        let bound = 3f64.sqrt() * xavier_std(tensor, gain)?;
        draw.uniform_(tensor, -bound, bound)
    }

    /// Normal with a variance of `gain² · 2 / (fan in + fan out)`.
    ///
    /// # Errors
    /// `Shape` for less than two dimensions, and those of [`normal_`].
    xavier_normal_(tensor, gain: f64) |draw| {
        draw.normal_(tensor, 0.0, xavier_std(tensor, gain)?)
    }
}

fn kaiming_std(tensor: &Tensor, nonlinearity: Nonlinearity, fan: Fan) -> Result<f64> {
    let (inputs, outputs) = calculate_fans(tensor)?;
    let fan = if fan == Fan::In { inputs } else { outputs };
    // A weight without elements has no connections, and nothing is drawn for it.
    Ok(calculate_gain(nonlinearity) / (fan.max(1) as f64).sqrt())
}

fn xavier_std(tensor: &Tensor, gain: f64) -> Result<f64> {
    let (inputs, outputs) = calculate_fans(tensor)?;
    Ok(gain * (2.0 / (inputs + outputs).max(1) as f64).sqrt())
}

/// What a new linear layer or convolution has: PyTorch draws the weight with a gain for a leaky slope of √5, which makes the
/// bound `1 / √fan`, and the bias with that bound.
pub(crate) fn like_linear(weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let slope = Nonlinearity::LeakyRelu(5f64.sqrt());
    kaiming_uniform_(weight, slope, Fan::In)?;
    let bound = 1.0 / (calculate_fans(weight)?.0.max(1) as f64).sqrt();
    bias.map_or(Ok(()), |bias| uniform_(bias, -bound, bound))
}

impl Draw<'_> {
    /// Writes two values made of two uniform numbers in `[0, 1)` at a time, one block of the generator.
    fn fill(&self, tensor: &Tensor, pair: impl Fn(f64, f64) -> [f64; 2]) -> Result<()> {
        ensure!(
            tensor.is_floating_point(),
            Dtype,
            "expected a tensor of floating point to initialise but got one of {}",
            tensor.dtype()
        );
        let count = tensor.numel() as u64;
        let philox = self.0.reserve(count.div_ceil(2));
        let mut values: Vec<f64> = (0..count.div_ceil(2))
            .flat_map(|i| {
                let [a, b, c, d] = philox.block(i);
                pair(unit(a, b), unit(c, d))
            })
            .collect();
        values.truncate(count as usize);
        let _guard = no_grad();
        ops::copy_(tensor, &Tensor::from_vec(values, tensor.sizes())?, false)
    }
}

/// 53 random bits as a number in `[0, 1)`.
fn unit(low: u32, high: u32) -> f64 {
    ((u64::from(low) | u64::from(high) << 32) >> 11) as f64 * (-53f64).exp2()
}
