//! The models with their optimisers and batches, each as a step of training that returns the loss.

use super::networks::{Autoencoder, GraphConvolutions, Language, Series, UNet, VisionTransformer, resnet18};
use flambeau::core::bail;
use flambeau::nn::functional::{
    BceWithLogits, CrossEntropy, Reduction, binary_cross_entropy_with_logits, cross_entropy,
};
use flambeau::nn::optim::{Adam, AdamOptions, AdamW, Sgd, SgdOptions};
use flambeau::nn::{Forward, Module};
use flambeau::prelude::Optimizer;
use flambeau::{Autograd, Result, ScalarType, Tensor};

pub(crate) type Step = Box<dyn FnMut() -> Result<Tensor>>;

#[cfg(test)]
pub(crate) const NAMES: [&str; 7] = ["resnet18", "vit_tiny", "gpt", "lstm", "unet", "vae", "gcn"];

/// The step of a model.
///
/// # Errors
/// `InvalidArgument` for a name that no model has.
pub(crate) fn of(name: &str) -> Result<Step> {
    match name {
        "resnet18" => {
            let model = resnet18()?;
            let optimizer = Sgd::new(model.parameters(), SgdOptions::default().lr(0.01).momentum(0.9))?;
            classifying(model, optimizer, images(8)?)
        }
        "vit_tiny" => with_adam_w(VisionTransformer::new()?, images(8)?),
        "gpt" => {
            let text = integers(96, &[8, 129])?;
            with_adam_w(Language::new()?, [text.narrow(1, 0, 128)?, text.narrow(1, 1, 128)?])
        }
        "lstm" => with_adam(Series::new()?, [normal(&[32, 64, 32])?, integers(10, &[32])?]),
        "unet" => with_adam(UNet::new()?, [normal(&[4, 3, 64, 64])?, integers(2, &[4, 64, 64])?]),
        "vae" => vae(),
        "gcn" => gcn(),
        _ => {
            bail!(InvalidArgument, "expected resnet18, vit_tiny, gpt, lstm, unet, vae or gcn but got {name}")
        }
    }
}

fn normal(sizes: &[i64]) -> Result<Tensor> {
    Tensor::randn(sizes, ScalarType::F32)
}

fn integers(below: i64, sizes: &[i64]) -> Result<Tensor> {
    Tensor::randint(0, below, sizes, ScalarType::I64)
}

fn images(count: i64) -> Result<[Tensor; 2]> {
    Ok([normal(&[count, 3, 64, 64])?, integers(10, &[count])?])
}

fn with_adam(model: impl Forward + 'static, batch: [Tensor; 2]) -> Result<Step> {
    let optimizer = Adam::new(model.parameters(), AdamOptions::default().lr(1e-3))?;
    classifying(model, optimizer, batch)
}

fn with_adam_w(model: impl Forward + 'static, batch: [Tensor; 2]) -> Result<Step> {
    let options = AdamOptions::default().lr(1e-3).weight_decay(0.01);
    let optimizer = AdamW::new(model.parameters(), options)?;
    classifying(model, optimizer, batch)
}

/// Classes are in the dimension of the logits that the labels do not have.
fn classifying(
    model: impl Forward + 'static,
    optimizer: impl Optimizer + 'static,
    [inputs, labels]: [Tensor; 2],
) -> Result<Step> {
    Ok(trained(optimizer, move || {
        let logits = model.forward(&inputs)?;
        if logits.dim() == 3 {
            let flat = logits.reshape(&[-1, logits.size(-1)?])?;
            return cross_entropy(&flat, &labels.reshape(&[-1])?, CrossEntropy::default());
        }
        cross_entropy(&logits, &labels, CrossEntropy::default())
    }))
}

fn trained(
    mut optimizer: impl Optimizer + 'static,
    mut loss: impl FnMut() -> Result<Tensor> + 'static,
) -> Step {
    Box::new(move || {
        optimizer.zero_grad()?;
        let loss = loss()?;
        loss.backward()?;
        optimizer.step()?;
        Ok(loss)
    })
}

fn vae() -> Result<Step> {
    let model = Autoencoder::new()?;
    let images = Tensor::rand(&[128, 784], ScalarType::F32)?;
    let optimizer = Adam::new(model.parameters(), AdamOptions::default().lr(1e-3))?;
    Ok(trained(optimizer, move || {
        let [decoded, mean, log_variance] = model.decoded(&images)?;
        let parts = log_variance.add_scalar(1)?.sub(&mean.pow(2)?)?.sub(&log_variance.exp()?)?;
        let options = BceWithLogits::default().reduction(Reduction::Sum);
        binary_cross_entropy_with_logits(&decoded, &images, options)?.add(&parts.sum()?.mul_scalar(-0.5)?)
    }))
}

fn gcn() -> Result<Step> {
    let model = GraphConvolutions::new()?;
    let (x, labels) = (normal(&[2700, 64])?, integers(7, &[2700])?);
    let (from, to) = (integers(2700, &[10800])?, integers(2700, &[10800])?);
    let ones = Tensor::ones(&[10800], ScalarType::F32)?;
    let degrees = Tensor::zeros(&[2700], ScalarType::F32)?.index_add(0, &to, &ones)?.clamp_min(1.0)?;
    let degree = |ends: &Tensor| degrees.index_select(0, ends);
    let weights = degree(&from)?.mul(&degree(&to)?)?.rsqrt()?.unsqueeze(1)?;
    let optimizer = Adam::new(model.parameters(), AdamOptions::default().lr(1e-2))?;
    Ok(trained(optimizer, move || {
        cross_entropy(&model.scores(&x, [&from, &to], &weights)?, &labels, CrossEntropy::default())
    }))
}
