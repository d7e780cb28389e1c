//! Dropout: elements set to zero at random, and the others scaled up.

use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

fn check(name: &str, p: f64) -> Result<()> {
    ensure!(
        (0.0..=1.0).contains(&p),
        InvalidArgument(name, "p"),
        "dropout probability has to be between 0 and 1, but got {p}"
    );
    Ok(())
}

/// The factor of the elements that are not dropped, which preserves the mean; 0 if all are dropped.
fn scale(p: f64) -> f64 {
    if p == 1.0 { 0.0 } else { 1.0 / (1.0 - p) }
}

/// `input` with each element zero with probability `p` and scaled otherwise, and the mask of those not dropped. Without training,
/// a copy and a mask of ones.
pub fn native_dropout(input: &Tensor, p: f64, train: Option<bool>) -> Result<(Tensor, Tensor)> {
    check("native_dropout", p)?;
    let mask = ops::empty_like(input, Some(ScalarType::Bool), None, None, None, None)?;
    if input.numel() == 0 || !train.unwrap_or(true) {
        ops::fill__scalar(&mask, Scalar::Int(1))?;
        return Ok((ops::clone(input, None)?, mask));
    }
    ops::bernoulli__float(&mask, 1.0 - p, None)?;
    let output = ops::mul_tensor(input, &mask)?;
    ops::mul__scalar(&output, Scalar::Float(scale(p)))?;
    Ok((output, mask))
}

/// The gradient of [`native_dropout`].
pub fn native_dropout_backward(grad_output: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    ops::mul_scalar(&ops::mul_tensor(grad_output, mask)?, Scalar::Float(scale))
}

/// `input` itself without training, else the output of [`native_dropout`].
pub fn dropout(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
    check("dropout", p)?;
    if p == 0.0 || !train || input.numel() == 0 {
        return Ok(input.clone());
    }
    Ok(ops::native_dropout(input, p, Some(true))?.0)
}

/// Dropout in place.
pub fn dropout_(self_: &Tensor, p: f64, train: bool) -> Result<()> {
    check("dropout_", p)?;
    if p == 0.0 || !train || self_.numel() == 0 {
        return Ok(());
    }
    let noise = ops::empty_like(self_, None, None, None, None, None)?;
    ops::bernoulli__float(&noise, 1.0 - p, None)?;
    ops::mul__scalar(&noise, Scalar::Float(scale(p)))?;
    ops::mul__tensor(self_, &noise)
}

/// Which dropout: of whole channels or of elements; to zero, or (`alpha`) to the minimum of SELU, which preserves mean and
/// variance.
#[derive(Clone, Copy)]
struct DropoutKind {
    name: &'static str,
    channels: bool,
    alpha: bool,
}

impl DropoutKind {
    /// The factors of elements, and the terms that are added to the products.
    fn noise(self, input: &Tensor, p: f64) -> Result<(Tensor, Option<Tensor>)> {
        // The negated minimum of SELU: its scale times its alpha.
        const SELU_MIN: f64 = 1.758_099_340_847_376_6;
        let like = if self.channels { channels(self.name, input)? } else { input.clone() };
        let mask = ops::empty_like(&like, None, None, None, None, None)?;
        ops::bernoulli__float(&mask, 1.0 - p, None)?;
        if !self.alpha {
            ops::mul__scalar(&mask, Scalar::Float(scale(p)))?;
            return Ok((mask, None));
        }
        let a = 1.0 / ((SELU_MIN * SELU_MIN * p + 1.0) * (1.0 - p)).sqrt();
        let shift = mask.sub_scalar(1)?.mul_scalar(SELU_MIN * a)?.add_scalar(SELU_MIN * a * p)?;
        ops::mul__scalar(&mask, Scalar::Float(a))?;
        Ok((mask, Some(shift)))
    }

    fn is_identity(self, input: &Tensor, p: f64, train: bool) -> Result<bool> {
        check(self.name, p)?;
        Ok(p == 0.0 || !train || input.numel() == 0)
    }

    fn apply(self, input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
        if self.is_identity(input, p, train)? {
            return Ok(input.clone());
        }
        if p == 1.0 {
            return input.mul(&ops::zeros(&[], Some(input.dtype()), None, Some(input.device()), None)?);
        }
        match self.noise(input, p)? {
            (factor, None) => input.mul(&factor),
            (factor, Some(shift)) => input.mul(&factor)?.add(&shift),
        }
    }

    fn in_place(self, self_: &Tensor, p: f64, train: bool) -> Result<()> {
        if self.is_identity(self_, p, train)? {
            return Ok(());
        }
        if p == 1.0 {
            return ops::mul__scalar(self_, Scalar::Int(0));
        }
        let (factor, shift) = self.noise(self_, p)?;
        ops::mul__tensor(self_, &factor)?;
        shift.map_or(Ok(()), |shift| ops::add__tensor(self_, &shift, Scalar::Int(1)))
    }
}

/// One element for each channel of each sample.
fn channels(name: &str, input: &Tensor) -> Result<Tensor> {
    ensure!(
        input.dim() >= 2,
        Shape(name, "input"),
        "Feature dropout requires at least 2 dimensions in the input"
    );
    let mut sizes = vec![1; input.dim()];
    sizes[..2].copy_from_slice(&input.sizes()[..2]);
    // Under `vmap` a new tensor of each example.
    ops::new_empty(input, &sizes, None, None, None, None)
}

macro_rules! dropouts {
    ($($name:ident $in_place:ident $channels:literal $alpha:literal $doc:literal;)*) => {$(
        #[doc = $doc]
        pub fn $name(input: &Tensor, p: f64, train: bool) -> Result<Tensor> {
            DropoutKind { name: stringify!($name), channels: $channels, alpha: $alpha }.apply(input, p, train)
        }

        #[doc = $doc]
        pub fn $in_place(self_: &Tensor, p: f64, train: bool) -> Result<()> {
            DropoutKind { name: stringify!($in_place), channels: $channels, alpha: $alpha }.in_place(self_, p, train)
        }
    )*};
}

dropouts! {
    feature_dropout feature_dropout_ true false "Whole channels set to zero at random, and the others scaled up.";
    alpha_dropout alpha_dropout_ false true "Elements set to the minimum of SELU at random; mean and variance are preserved.";
    feature_alpha_dropout feature_alpha_dropout_ true true "[`alpha_dropout`] of whole channels.";
}
