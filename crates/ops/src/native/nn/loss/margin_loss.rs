//! Margin losses of classes: by how much the score of another class exceeds that of the target class, less a margin.

use super::reduction::reduced_losses;
use crate::Tensor;
use flambeau_core::{Result, Scalar, bail, ensure};

/// Samples by classes: a vector is one sample, a scalar one sample of one class.
pub(super) fn rows(name: &str, self_: &Tensor) -> Result<Tensor> {
    ensure!(
        self_.dim() <= 2 && self_.sizes().last() != Some(&0),
        Shape(name, "self"),
        "Expected non-empty vector or matrix with optional 0-dim batch size, but got: {:?}",
        self_.sizes()
    );
    ensure!(
        self_.is_floating_point(),
        NotImplemented,
        operator = name,
        argument = "self",
        "\"{name}\" not implemented for '{}'",
        self_.dtype()
    );
    if self_.dim() == 2 { Ok(self_.clone()) } else { self_.reshape(&[1, -1]) }
}

/// The mean over classes of `max(0, margin - right + other)^p`, where `right` is the score of the target class, times the weight
/// of that class.
pub fn multi_margin_loss(
    self_: &Tensor,
    target: &Tensor,
    p: Scalar,
    margin: Scalar,
    weight: Option<&Tensor>,
    reduction: i64,
) -> Result<Tensor> {
    const NAME: &str = "multi_margin_loss";
    let x = rows(NAME, self_)?;
    let (samples, classes) = (x.size(0)?, x.size(1)?);
    ensure!(
        target.dim() <= 1 && target.numel() == samples && (target.dim() == 1 || self_.dim() <= 1),
        Shape(NAME, "target"),
        "inconsistent target size, expected {samples} but got {:?}",
        target.sizes()
    );
    ensure!(
        weight.is_none_or(|weight| weight.sizes() == [classes]),
        Shape(NAME, "weight"),
        "inconsistent weight size, expected {classes} but got {:?}",
        weight.map(Tensor::sizes)
    );
    let indices = target.reshape(&[samples, 1])?;
    let behind = x.sub(&x.gather(1, &indices)?)?.add_scalar(margin)?.relu()?;
    let behind = match p.to_f64() {
        1.0 => behind,
        2.0 => behind.square()?,
        _ => bail!(InvalidArgument(NAME, "p"), "only p == 1 and p == 2 supported"),
    };
    let mut losses = behind.scatter_value(1, &indices, 0)?.sum_dim(1)?;
    if let Some(weight) = weight {
        losses = losses.mul(&weight.index_select(0, &indices.squeeze_dim(1)?)?)?;
    }
    let losses = losses.div_scalar(classes)?;
    let alone = self_.dim() <= 1 && target.dim() == 0;
    reduced_losses(&if alone { losses.squeeze_dim(0)? } else { losses }, reduction)
}
