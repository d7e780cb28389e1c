//! The network: two convolutions, each followed by pooling, and a linear layer.

use flambeau::nn::functional::{ConvOptions, Padding};
use flambeau::nn::{Conv2d, Forward, Linear, MaxPool2d, Module, Relu, Sequential};
use flambeau::{Result, Tensor};

/// Pictures in, ten numbers out, the largest at the digit.
#[derive(Module)]
pub(crate) struct Network {
    features: Sequential,
    digits: Linear,
}

/// Channels of the two convolutions.
const CHANNELS: [i64; 2] = [8, 16];

/// A network for pictures of this size.
///
/// # Errors
/// `InvalidArgument` for pictures smaller than 4 by 4.
pub(crate) fn network(height: usize, width: usize) -> Result<Network> {
    flambeau::core::ensure!(
        height >= 4 && width >= 4,
        InvalidArgument,
        "expected pictures of at least 4 by 4 but got {height} by {width}"
    );
    let same_size = ConvOptions::default().padding(Padding::Same);
    let convolution = |from, to| Conv2d::with_options(from, to, 3, same_size.clone());
    let [first, second] = CHANNELS;
    let features = Sequential::new()
        .then(convolution(1, first)?)
        .then(Relu)
        .then(MaxPool2d::new(2)?)
        .then(convolution(first, second)?)
        .then(Relu)
        .then(MaxPool2d::new(2)?);
    let left = (height / 4 * (width / 4)) as i64;
    Ok(Network { features, digits: Linear::new(second * left, 10)? })
}

impl Forward for Network {
    /// `[n, 1, height, width]` to `[n, 10]`.
    fn forward(&self, pictures: &Tensor) -> Result<Tensor> {
        let features = self.features.forward(pictures)?;
        self.digits.forward(&features.reshape(&[pictures.size(0)?, -1])?)
    }
}
