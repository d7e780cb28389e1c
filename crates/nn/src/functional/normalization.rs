//! Normalisation: mean 0 and variance 1 over one set of elements or another.

use super::{AvgPoolOptions, Mode, PadMode, avg_pool3d, pad};
use flambeau_autograd::no_grad;
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`layer_norm`] and [`group_norm`].
    Norm [
        /// What results are multiplied by.
        weight,
        /// What is added to results.
        bias
    ] {
        /// Added to variances.
        eps: f64 = 1e-5,
    }
}

/// Over the last dimensions, whose sizes are `sizes`: Ba et al., 2016.
///
/// # Errors
/// `Shape` for an input that ends in other sizes.
pub fn layer_norm(input: &Tensor, sizes: &[i64], options: Norm) -> Result<Tensor> {
    ops::layer_norm(input, sizes, options.weight.as_ref(), options.bias.as_ref(), options.eps, true)
}

/// Over `groups` of the channels of each example, `[n, c, ..]`: Wu and He, 2018.
///
/// # Errors
/// `Shape` unless `groups` divide the channels.
pub fn group_norm(input: &Tensor, groups: i64, options: Norm) -> Result<Tensor> {
    ops::group_norm(input, groups, options.weight.as_ref(), options.bias.as_ref(), options.eps, true)
}

options! {
    /// Options of [`rms_norm`].
    RmsNormOptions [
        /// What results are multiplied by.
        weight
    ] {
        /// Added to mean squares; where none is given, the distance from 1 to the next number of the input's type.
        eps: Option<f64> = None,
    }
}

/// Divides by the root of the mean square over the last dimensions, whose sizes are `sizes`: Zhang and Sennrich, 2019.
///
/// # Errors
/// `Shape` for an input that ends in other sizes.
pub fn rms_norm(input: &Tensor, sizes: &[i64], options: RmsNormOptions) -> Result<Tensor> {
    ops::rms_norm(input, sizes, options.weight.as_ref(), options.eps)
}

options! {
    /// Options of [`batch_norm`] and [`instance_norm`].
    RunningNorm [
        /// `[channels]`: the moving mean, which training changes.
        running_mean,
        /// `[channels]`: the moving variance, which training changes.
        running_var,
        /// What results are multiplied by.
        weight,
        /// What is added to results.
        bias
    ] {
        /// How much of a batch's statistics enters the moving ones.
        momentum: f64 = 0.1,
        /// Added to variances.
        eps: f64 = 1e-5,
    }
}

/// Over each channel of the batch, `[n, c, ..]`; in evaluation, by the moving statistics: Ioffe and Szegedy, 2015.
///
/// # Errors
/// `Shape` for a batch of one value a channel in training, `InvalidArgument` for no statistics in evaluation.
pub fn batch_norm(input: &Tensor, mode: Mode, options: RunningNorm) -> Result<Tensor> {
    let training = mode == Mode::Training;
    ensure!(
        !training || input.dim() < 2 || input.numel() != input.size(1)?,
        Shape,
        "batch_norm: expected more than one value a channel in training but got sizes {:?}",
        input.sizes()
    );
    normalized(input, training, &options)
}

fn normalized(input: &Tensor, training: bool, options: &RunningNorm) -> Result<Tensor> {
    let RunningNorm { running_mean, running_var, weight, bias, momentum, eps } = options;
    ops::batch_norm(
        input,
        weight.as_ref(),
        bias.as_ref(),
        running_mean.as_ref(),
        running_var.as_ref(),
        training,
        *momentum,
        *eps,
        true,
    )
}

/// Over each channel of each example, `[n, c, ..]`: a batch norm of one example with `n c` channels. Ulyanov et al., 2016. In
/// evaluation it uses the moving statistics where there are some.
///
/// # Errors
/// `Shape` for one value a channel.
pub fn instance_norm(input: &Tensor, mode: Mode, options: RunningNorm) -> Result<Tensor> {
    let (batch, channels) = (input.size(0)?, input.size(1)?);
    let own = mode == Mode::Training || options.running_mean.is_none();
    ensure!(
        !own || input.numel() != batch * channels,
        Shape,
        "instance_norm: expected more than one value a channel but got sizes {:?}",
        input.sizes()
    );
    let repeated = |tensor: &Option<Tensor>| tensor.as_ref().map(|t| ops::repeat(t, &[batch])).transpose();
    let each = RunningNorm {
        running_mean: repeated(&options.running_mean)?,
        running_var: repeated(&options.running_var)?,
        weight: repeated(&options.weight)?,
        bias: repeated(&options.bias)?,
        ..options
    };
    let sizes = [&[1, batch * channels], &input.sizes()[2..]].concat();
    let output = normalized(&ops::reshape(input, &sizes)?, own, &each)?;
    if own {
        let _guard = no_grad();
        let pairs = [(&options.running_mean, &each.running_mean), (&options.running_var, &each.running_var)];
        for (running, seen) in pairs {
            let (Some(running), Some(seen)) = (running, seen) else { continue };
            let seen = ops::view(seen, &[batch, channels])?;
            ops::copy_(running, &ops::mean_dim(&seen, Some(&[0]), false, None)?, false)?;
        }
    }
    ops::view(&output, input.sizes())
}

options! {
    /// Options of [`local_response_norm`].
    LocalResponse {
        /// The factor of the mean square.
        alpha: f64 = 1e-4,
        /// The power that divides.
        beta: f64 = 0.75,
        /// Added to the mean square.
        k: f64 = 1.0,
    }
}

/// Divides each channel of `[n, c, l, ..]` by a power of the mean square of `size` channels around it: Krizhevsky et al., 2012.
///
/// # Errors
/// `Shape` for less than 3 dimensions.
pub fn local_response_norm(input: &Tensor, size: i64, options: LocalResponse) -> Result<Tensor> {
    let &[batch, channels, length, ..] = input.sizes() else {
        flambeau_core::bail!(
            Shape,
            "local_response_norm: expected at least 3 dimensions but got sizes {:?}",
            input.sizes()
        );
    };
    let LocalResponse { alpha, beta, k } = options;
    let squares = ops::reshape(&ops::square(input)?, &[batch, 1, channels, length, -1])?;
    let around = pad(&squares, &[0, 0, 0, 0, size / 2, (size - 1) / 2], PadMode::Constant(0.0))?;
    let means = avg_pool3d(&around, [size, 1, 1], AvgPoolOptions::default().stride(1))?;
    let divisor = ((ops::view(&means, input.sizes())? * alpha)? + k)?;
    input / ops::pow_tensor_scalar(&divisor, beta.into())?
}
