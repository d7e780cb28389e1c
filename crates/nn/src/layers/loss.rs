//! Losses as modules, under PyTorch's names: each is its function's options.

use crate::functional;

pub use functional::{L1Loss, MseLoss, MultiLabelMarginLoss, SoftMarginLoss};

macro_rules! names {
    ($($module:ident = $options:ident, $function:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($function), "`](functional::", stringify!($function), ") as a module.")]
        pub type $module = functional::$options;
    )*};
}

names! {
    SmoothL1Loss = SmoothL1, smooth_l1_loss;
    HuberLoss = Huber, huber_loss;
    CrossEntropyLoss = CrossEntropy, cross_entropy;
    NllLoss = Nll, nll_loss;
    BceLoss = Bce, binary_cross_entropy;
    BceWithLogitsLoss = BceWithLogits, binary_cross_entropy_with_logits;
    KlDivLoss = KlDiv, kl_div;
    PoissonNllLoss = PoissonNll, poisson_nll_loss;
    GaussianNllLoss = GaussianNll, gaussian_nll_loss;
    HingeEmbeddingLoss = HingeEmbedding, hinge_embedding_loss;
    MarginRankingLoss = MarginRanking, margin_ranking_loss;
    CosineEmbeddingLoss = CosineEmbedding, cosine_embedding_loss;
    MultiLabelSoftMarginLoss = MultiLabelSoftMargin, multilabel_soft_margin_loss;
    MultiMarginLoss = MultiMargin, multi_margin_loss;
    TripletMarginLoss = TripletMargin, triplet_margin_loss;
}
