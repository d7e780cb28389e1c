//! Losses: how far an output is from what it should be.

use super::distance::{PairwiseDistance, pairwise_distance};
use crate::{Loss, Module};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};
use std::f64::consts::PI;

pub use flambeau_ops::ops::options::Reduction;

/// The losses of all elements, reduced.
fn reduced(reduction: Reduction, losses: Tensor) -> Result<Tensor> {
    match reduction {
        Reduction::None => Ok(losses),
        Reduction::Mean => losses.mean(),
        Reduction::Sum => losses.sum(),
    }
}

/// Sizes that differ would be broadcast, and the mean would be one over pairs that nobody meant.
fn check_same(name: &str, input: &Tensor, target: &Tensor) -> Result<()> {
    ensure!(
        input.sizes() == target.sizes(),
        Shape,
        "{name}: expected a target of the input's sizes {:?} but got {:?}",
        input.sizes(),
        target.sizes()
    );
    Ok(())
}

/// Losses whose only option is the reduction: module, function, operator.
macro_rules! plain_losses {
    ($($(#[$doc:meta])* $module:ident, $function:ident, |$input:ident, $target:ident, $reduction:ident| $loss:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        #[doc = "`Shape` unless both have the same sizes, and those of the operators."]
        pub fn $function($input: &Tensor, $target: &Tensor, $reduction: Reduction) -> Result<Tensor> {
            check_same(stringify!($function), $input, $target)?;
            $loss
        }

        #[doc = concat!("[`", stringify!($function), "`] as a module.")]
        #[derive(Debug, Clone, Copy, Default, Module)]
        pub struct $module(
            /// What is made of the losses of all elements.
            #[module(skip)]
            pub Reduction,
        );

        impl Loss for $module {
            fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
                $function(input, target, self.0)
            }
        }
    )*};
}

/// Losses with options that are modules: options, function.
macro_rules! losses {
    ($($options:ident: $function:ident;)*) => {$(
        impl Loss for $options {
            fn forward(&self, input: &Tensor, target: &Tensor) -> Result<Tensor> {
                $function(input, target, self.clone())
            }
        }
    )*};
}

plain_losses! {
    /// `(x - y)²`, of the same sizes.
    ///
    /// ```
    /// use flambeau_nn::functional::{Reduction, mse_loss};
    /// use flambeau_ops::Tensor;
    /// let (x, y) = (Tensor::from([1.0f64, 2.0]), Tensor::from([0.0f64, 4.0]));
    /// assert_eq!(mse_loss(&x, &y, Reduction::Mean)?.item::<f64>()?, 2.5);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    MseLoss, mse_loss, |input, target, reduction| ops::mse_loss(input, target, reduction.as_int());
    /// `|x - y|`, of the same sizes.
    L1Loss, l1_loss, |input, target, reduction| ops::l1_loss(input, target, reduction.as_int());
    /// `log(1 + exp(-x y))`, where `y` is 1 or -1.
    SoftMarginLoss, soft_margin_loss, |input, target, reduction| {
        reduced(reduction, ops::log1p(&ops::exp(&ops::neg(&(input * target)?)?)?)?)
    };
    /// Of several right classes, `[n, classes]`: by how much other classes violate the margin to them. `y` lists the right ones
    /// before its first -1.
    MultiLabelMarginLoss, multilabel_margin_loss, |input, target, reduction| {
        ops::multilabel_margin_loss(input, target, reduction.as_int())
    };
}

module_options! {
    /// Options of [`smooth_l1_loss`].
    SmoothL1 {
        /// Where the parabola ends.
        beta: f64 = 1.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `(x - y)² / (2 beta)` up to `beta`, `|x - y| - beta / 2` beyond.
///
/// # Errors
/// `Shape` unless both have the same sizes, `InvalidArgument` for a `beta` below 0.
pub fn smooth_l1_loss(input: &Tensor, target: &Tensor, options: SmoothL1) -> Result<Tensor> {
    check_same("smooth_l1_loss", input, target)?;
    match options.beta == 0.0 {
        true => ops::l1_loss(input, target, options.reduction.as_int()),
        false => ops::smooth_l1_loss(input, target, options.reduction.as_int(), options.beta),
    }
}

module_options! {
    /// Options of [`huber_loss`].
    Huber {
        /// Where the parabola ends.
        delta: f64 = 1.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `(x - y)² / 2` up to `delta`, `delta (|x - y| - delta / 2)` beyond: Huber, 1964.
///
/// # Errors
/// `Shape` unless both have the same sizes, `InvalidArgument` unless `delta > 0`.
pub fn huber_loss(input: &Tensor, target: &Tensor, options: Huber) -> Result<Tensor> {
    check_same("huber_loss", input, target)?;
    ops::huber_loss(input, target, options.reduction.as_int(), options.delta)
}

module_options! {
    /// Options of [`cross_entropy`].
    CrossEntropy [
        /// A weight for each class.
        weight
    ] {
        /// The class that is left out.
        ignore_index: i64 = -100,
        /// How much of each target is spread over all classes.
        label_smoothing: f64 = 0.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// The negative log likelihood of the right class by the softmax of the input: `[n, classes, ..]` with targets `[n, ..]` of i64, or
/// likelihoods for each class of the input's sizes.
///
/// # Errors
/// `Shape` for sizes that do not fit, `Index` for a class that is none, `InvalidArgument` for a smoothing outside 0 to 1.
///
/// ```
/// use flambeau_nn::functional::{CrossEntropy, cross_entropy};
/// use flambeau_ops::Tensor;
/// let (logits, classes) = (Tensor::from([[0.0f64, 0.0]]), Tensor::from([1i64]));
/// let loss = cross_entropy(&logits, &classes, CrossEntropy::default())?;
/// assert!((loss.item::<f64>()? - 2f64.ln()).abs() < 1e-15);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn cross_entropy(input: &Tensor, target: &Tensor, options: CrossEntropy) -> Result<Tensor> {
    let CrossEntropy { weight, ignore_index, label_smoothing, reduction } = options;
    ops::cross_entropy_loss(input, target, weight.as_ref(), reduction.as_int(), ignore_index, label_smoothing)
}

module_options! {
    /// Options of [`nll_loss`].
    Nll [
        /// A weight for each class.
        weight
    ] {
        /// The class that is left out.
        ignore_index: i64 = -100,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// The negative of the input at the right class, which is a log likelihood: `[n, classes, ..]` with targets `[n, ..]` of i64.
///
/// # Errors
/// `Shape` for sizes that do not fit, `Index` for a class that is none.
pub fn nll_loss(input: &Tensor, target: &Tensor, options: Nll) -> Result<Tensor> {
    let Nll { weight, ignore_index, reduction } = options;
    ops::nll_loss_nd(input, target, weight.as_ref(), reduction.as_int(), ignore_index)
}

module_options! {
    /// Options of [`binary_cross_entropy`].
    Bce [
        /// A weight for each element, broadcast.
        weight
    ] {
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `-(y log x + (1 - y) log(1 - x))` of likelihoods `x`.
///
/// # Errors
/// `Shape` unless both have the same sizes, `InvalidArgument` for inputs outside 0 to 1.
pub fn binary_cross_entropy(input: &Tensor, target: &Tensor, options: Bce) -> Result<Tensor> {
    check_same("binary_cross_entropy", input, target)?;
    let weight = options.weight.map(|weight| ops::expand(&weight, target.sizes(), false)).transpose()?;
    ops::binary_cross_entropy(input, target, weight.as_ref(), options.reduction.as_int())
}

module_options! {
    /// Options of [`binary_cross_entropy_with_logits`].
    BceWithLogits [
        /// A weight for each element, broadcast.
        weight,
        /// A weight for the positive part of each class, broadcast.
        pos_weight
    ] {
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// [`binary_cross_entropy`] of the sigmoid of the input, but exact for large ones.
///
/// # Errors
/// `Shape` unless both have the same sizes.
pub fn binary_cross_entropy_with_logits(
    input: &Tensor,
    target: &Tensor,
    options: BceWithLogits,
) -> Result<Tensor> {
    check_same("binary_cross_entropy_with_logits", input, target)?;
    let BceWithLogits { weight, pos_weight, reduction } = options;
    let number = reduction.as_int();
    ops::binary_cross_entropy_with_logits(input, target, weight.as_ref(), pos_weight.as_ref(), number)
}

module_options! {
    /// Options of [`kl_div`].
    KlDiv {
        /// Whether targets are logarithms too.
        log_target: bool = false,
        /// Whether the sum is divided by the size of the batch, whatever `reduction` says: the divergence itself.
        batch_mean: bool = false,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `y (log y - x)`, where `x` is a log likelihood: Kullback and Leibler, 1951.
///
/// # Errors
/// `Shape` unless both have the same sizes, or for a batch mean of no dimensions.
pub fn kl_div(input: &Tensor, target: &Tensor, options: KlDiv) -> Result<Tensor> {
    check_same("kl_div", input, target)?;
    let KlDiv { log_target, batch_mean, reduction } = options;
    if batch_mean {
        let sum = ops::kl_div(input, target, Reduction::Sum.as_int(), log_target)?;
        return sum / input.size(0)? as f64;
    }
    ops::kl_div(input, target, reduction.as_int(), log_target)
}

module_options! {
    /// Options of [`poisson_nll_loss`].
    PoissonNll {
        /// Whether the input is the logarithm of the rate.
        log_input: bool = true,
        /// Whether Stirling's estimate of `log y!` is added where `y` is above 1.
        full: bool = false,
        /// Added to the rate before its logarithm.
        eps: f64 = 1e-8,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// The negative log likelihood of counts `y`: `exp(x) - y x`, or `x - y log(x + eps)` of a rate `x`.
///
/// # Errors
/// `Shape` unless both have the same sizes.
pub fn poisson_nll_loss(input: &Tensor, target: &Tensor, options: PoissonNll) -> Result<Tensor> {
    check_same("poisson_nll_loss", input, target)?;
    let mut loss = match options.log_input {
        true => ops::exp(input)? - target * input,
        false => input - target * &ops::log(&(input + options.eps)?)?,
    }?;
    if options.full {
        loss = (loss + stirling(target))?;
    }
    reduced(options.reduction, loss)
}

/// `log y!` of counts above 1, and 0 of others.
fn stirling(counts: &Tensor) -> Result<Tensor> {
    let root = (0.5 * &ops::log(&(counts * (2.0 * PI))?)?)?;
    let estimate = ((counts * &ops::log(counts)?)? - counts)?;
    ops::masked_fill_scalar(&(estimate + root)?, &ops::le_scalar(counts, 1.into())?, 0.into())
}

module_options! {
    /// Options of [`gaussian_nll_loss`].
    GaussianNll {
        /// Whether the constant `log(2 π) / 2` is added.
        full: bool = false,
        /// What variances count as at the lowest.
        eps: f64 = 1e-6,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// The negative log likelihood of normal numbers with mean `input` and variance `var`, all of the same sizes.
///
/// # Errors
/// `Shape` unless all have the same sizes.
pub fn gaussian_nll_loss(
    input: &Tensor,
    target: &Tensor,
    var: &Tensor,
    options: GaussianNll,
) -> Result<Tensor> {
    check_same("gaussian_nll_loss", input, target)?;
    check_same("gaussian_nll_loss", input, var)?;
    // As in PyTorch no gradient sees the lower bound.
    let seen = ops::detach(var)?;
    let var = (var + (ops::clamp_min(&seen, options.eps.into())? - &seen))?;
    let squares = ops::square(&(input - target)?)?;
    let mut loss = (0.5 * (ops::log(&var)? + squares / &var)?)?;
    if options.full {
        loss = (loss + 0.5 * (2.0 * PI).ln())?;
    }
    reduced(options.reduction, loss)
}

impl GaussianNll {
    /// [`gaussian_nll_loss`].
    ///
    /// # Errors
    /// Those of the function.
    pub fn forward(&self, input: &Tensor, target: &Tensor, var: &Tensor) -> Result<Tensor> {
        gaussian_nll_loss(input, target, var, self.clone())
    }
}

module_options! {
    /// Options of [`hinge_embedding_loss`].
    HingeEmbedding {
        /// How far apart unlike pairs should be.
        margin: f64 = 1.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `x` where `y` is 1, and by how much it is below the margin where `y` is -1.
///
/// # Errors
/// `Shape` unless both have the same sizes.
pub fn hinge_embedding_loss(input: &Tensor, target: &Tensor, options: HingeEmbedding) -> Result<Tensor> {
    check_same("hinge_embedding_loss", input, target)?;
    let below = ops::clamp_min(&(options.margin - input)?, 0.into())?;
    let far = where_not(target, 1, &below)?;
    reduced(options.reduction, (far + where_not(target, -1, input)?)?)
}

/// `value` where `target` is not `side`, 0 elsewhere.
fn where_not(target: &Tensor, side: i64, value: &Tensor) -> Result<Tensor> {
    ops::masked_fill_scalar(value, &ops::eq_scalar(target, side.into())?, 0.into())
}

module_options! {
    /// Options of [`margin_ranking_loss`].
    MarginRanking {
        /// By how much the right one should be ahead.
        margin: f64 = 0.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// By how much `x1 - x2` (where `y` is 1) or `x2 - x1` (where `y` is -1) is below the margin.
///
/// # Errors
/// `Shape` unless all have the same sizes.
pub fn margin_ranking_loss(
    first: &Tensor,
    second: &Tensor,
    target: &Tensor,
    options: MarginRanking,
) -> Result<Tensor> {
    check_same("margin_ranking_loss", first, second)?;
    check_same("margin_ranking_loss", first, target)?;
    let ahead = (target * (first - second))?;
    reduced(options.reduction, ops::clamp_min(&(options.margin - ahead)?, 0.into())?)
}

impl MarginRanking {
    /// [`margin_ranking_loss`].
    ///
    /// # Errors
    /// Those of the function.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        margin_ranking_loss(first, second, target, self.clone())
    }
}

module_options! {
    /// Options of [`cosine_embedding_loss`].
    CosineEmbedding {
        /// How large the cosine of unlike pairs may be.
        margin: f64 = 0.0,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// `1 - cos` where `y` is 1, and by how much the cosine is above the margin where `y` is -1: `[.., width]` twice, and `[..]`.
///
/// # Errors
/// `Shape` for sizes that do not fit.
pub fn cosine_embedding_loss(
    first: &Tensor,
    second: &Tensor,
    target: &Tensor,
    options: CosineEmbedding,
) -> Result<Tensor> {
    check_same("cosine_embedding_loss", first, second)?;
    // The bound is PyTorch's: added to each square.
    const BOUND: f64 = 1e-12;
    let dot = |a: &Tensor, b: &Tensor| ops::sum_dim_intlist(&(a * b)?, Some(&[-1]), false, None);
    let squares = ((dot(first, first)? + BOUND)? * (dot(second, second)? + BOUND)?)?;
    let cosine = (dot(first, second)? / ops::sqrt(&squares)?)?;
    check_same("cosine_embedding_loss", &cosine, target)?;
    let above = ops::clamp_min(&(&cosine - options.margin)?, 0.into())?;
    let near = where_not(target, -1, &(1.0 - &cosine)?)?;
    reduced(options.reduction, (near + where_not(target, 1, &above)?)?)
}

impl CosineEmbedding {
    /// [`cosine_embedding_loss`].
    ///
    /// # Errors
    /// Those of the function.
    pub fn forward(&self, first: &Tensor, second: &Tensor, target: &Tensor) -> Result<Tensor> {
        cosine_embedding_loss(first, second, target, self.clone())
    }
}

module_options! {
    /// Options of [`multilabel_soft_margin_loss`].
    MultiLabelSoftMargin [
        /// A weight for each class.
        weight
    ] {
        /// What is made of the losses of all examples.
        reduction: Reduction = Reduction::Mean,
    }
}

/// [`binary_cross_entropy_with_logits`], a mean over classes: `[.., classes]` twice.
///
/// # Errors
/// `Shape` unless both have the same sizes, with a dimension of classes.
pub fn multilabel_soft_margin_loss(
    input: &Tensor,
    target: &Tensor,
    options: MultiLabelSoftMargin,
) -> Result<Tensor> {
    check_same("multilabel_soft_margin_loss", input, target)?;
    let right = (target * &ops::log_sigmoid(input)?)?;
    let wrong = ((1.0 - target)? * ops::log_sigmoid(&ops::neg(input)?)?)?;
    let mut loss = ops::neg(&(right + wrong)?)?;
    if let Some(weight) = &options.weight {
        loss = (loss * weight)?;
    }
    reduced(options.reduction, ops::mean_dim(&loss, Some(&[-1]), false, None)?)
}

module_options! {
    /// Options of [`multi_margin_loss`].
    MultiMargin [
        /// A weight for each class.
        weight
    ] {
        /// By how much the right class should be ahead.
        margin: f64 = 1.0,
        /// Whether violations are squared.
        squared: bool = false,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// By how much the scores of other classes violate the margin to the right one: `[n, classes]` with targets `[n]` of i64.
///
/// # Errors
/// `Shape` for sizes that do not fit, `Index` for a class that is none.
pub fn multi_margin_loss(input: &Tensor, target: &Tensor, options: MultiMargin) -> Result<Tensor> {
    let MultiMargin { weight, margin, squared, reduction } = options;
    let power = if squared { 2 } else { 1 };
    ops::multi_margin_loss(input, target, power.into(), margin.into(), weight.as_ref(), reduction.as_int())
}

module_options! {
    /// Options of [`triplet_margin_loss`].
    TripletMargin {
        /// By how much farther the negative should be.
        margin: f64 = 1.0,
        /// The order of the norm that measures distances.
        p: f64 = 2.0,
        /// Added to differences, so that the norm has a gradient.
        eps: f64 = 1e-6,
        /// Whether the negative is measured from the positive where that is nearer: Balntas et al., 2016.
        swap: bool = false,
        /// What is made of the losses of all elements.
        reduction: Reduction = Reduction::Mean,
    }
}

/// By how much the negative is not farther from the anchor than the positive and the margin: `[.., width]` thrice.
///
/// # Errors
/// `Shape` unless all have the same sizes, `InvalidArgument` unless `margin > 0`.
pub fn triplet_margin_loss(
    anchor: &Tensor,
    positive: &Tensor,
    negative: &Tensor,
    options: TripletMargin,
) -> Result<Tensor> {
    let TripletMargin { margin, p, eps, swap, reduction } = options;
    ensure!(margin > 0.0, InvalidArgument, "triplet_margin_loss: expected margin > 0 but got {margin}");
    check_same("triplet_margin_loss", anchor, positive)?;
    check_same("triplet_margin_loss", anchor, negative)?;
    let distance =
        |a: &Tensor, b: &Tensor| pairwise_distance(a, b, PairwiseDistance::default().p(p).eps(eps));
    let (near, mut far) = (distance(anchor, positive)?, distance(anchor, negative)?);
    if swap {
        far = ops::minimum(&far, &distance(positive, negative)?)?;
    }
    reduced(reduction, ops::clamp_min(&((near - far)? + margin)?, 0.into())?)
}

impl TripletMargin {
    /// [`triplet_margin_loss`].
    ///
    /// # Errors
    /// Those of the function.
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Result<Tensor> {
        triplet_margin_loss(anchor, positive, negative, self.clone())
    }
}

losses! {
    SmoothL1: smooth_l1_loss;
    Huber: huber_loss;
    CrossEntropy: cross_entropy;
    Nll: nll_loss;
    Bce: binary_cross_entropy;
    BceWithLogits: binary_cross_entropy_with_logits;
    KlDiv: kl_div;
    PoissonNll: poisson_nll_loss;
    HingeEmbedding: hinge_embedding_loss;
    MultiLabelSoftMargin: multilabel_soft_margin_loss;
    MultiMargin: multi_margin_loss;
}
