//! Lengths, distances and angles of vectors.

use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`pairwise_distance`].
    PairwiseDistance {
        /// The order of the norm.
        p: f64 = 2.0,
        /// Added to differences, so that the norm has a gradient.
        eps: f64 = 1e-6,
        /// Whether the last dimension stays, of size 1.
        keepdim: bool = false,
    }
}

/// The norm of `a - b + eps` along the last dimension: `[.., width]` twice to `[..]`.
///
/// # Errors
/// `Shape` for sizes that do not fit.
pub fn pairwise_distance(a: &Tensor, b: &Tensor, options: PairwiseDistance) -> Result<Tensor> {
    ops::pairwise_distance(a, b, options.p, options.eps, options.keepdim)
}

options! {
    /// Options of [`normalize`].
    Normalize {
        /// The order of the norm.
        p: f64 = 2.0,
        /// The dimension of the vectors.
        dim: i64 = 1,
        /// What norms count as at the lowest.
        eps: f64 = 1e-12,
    }
}

/// Vectors along `dim`, divided by their norms.
///
/// # Errors
/// `Index` for a dimension that is none.
pub fn normalize(input: &Tensor, options: Normalize) -> Result<Tensor> {
    input / bounded_norm(input, options.p, options.dim, options.eps)?
}

fn bounded_norm(input: &Tensor, p: f64, dim: i64, eps: f64) -> Result<Tensor> {
    ops::clamp_min(&ops::linalg_vector_norm(input, p.into(), Some(&[dim]), true, None)?, eps.into())
}

options! {
    /// Options of [`cosine_similarity`].
    CosineSimilarity {
        /// The dimension of the vectors.
        dim: i64 = 1,
        /// What norms count as at the lowest.
        eps: f64 = 1e-8,
    }
}

/// The cosine of the angle between vectors along `dim`, broadcast.
///
/// # Errors
/// `Shape` for sizes that do not fit, `Index` for a dimension that is none.
pub fn cosine_similarity(a: &Tensor, b: &Tensor, options: CosineSimilarity) -> Result<Tensor> {
    let CosineSimilarity { dim, eps } = options;
    let unit = |x: &Tensor| x / bounded_norm(x, 2.0, dim, eps)?;
    ops::sum_dim_intlist(&(unit(a)? * unit(b)?)?, Some(&[dim]), false, None)
}
