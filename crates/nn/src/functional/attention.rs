//! Attention: Vaswani et al., "Attention is all you need", 2017.

use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

options! {
    /// Options of [`scaled_dot_product_attention`].
    Attention [
        /// Added to the scores, or of bool: which positions may be attended to.
        mask
    ] {
        /// The probability with which a weight is dropped.
        dropout_p: f64 = 0.0,
        /// Whether each position attends only to itself and those before it.
        is_causal: bool = false,
        /// What scores are multiplied by; `1 / √width` where none is given.
        scale: Option<f64> = None,
        /// Whether heads of keys and values are shared by groups of heads of queries: Ainslie et al., 2023.
        enable_gqa: bool = false,
    }
}

/// `softmax(query keyᵀ scale + mask) value`: `[.., length, width]`, `[.., source, width]` and `[.., source, values]` to
/// `[.., length, values]`.
///
/// # Errors
/// `Shape` for sizes that do not fit, `InvalidArgument` for a mask that is also causal.
///
/// ```
/// use flambeau_nn::functional::{Attention, scaled_dot_product_attention};
/// use flambeau_ops::Tensor;
/// let x = Tensor::from([[1.0f64, 0.0], [0.0, 1.0]]);
/// let y = scaled_dot_product_attention(&x, &x, &x, Attention::default().is_causal(true))?;
/// assert_eq!(y.to_vec::<f64>()?[..2], [1.0, 0.0]); // the first position attends to itself alone
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn scaled_dot_product_attention(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    options: Attention,
) -> Result<Tensor> {
    let Attention { mask, dropout_p, is_causal, scale, enable_gqa } = options;
    ops::scaled_dot_product_attention(
        query,
        key,
        value,
        mask.as_ref(),
        dropout_p,
        is_causal,
        scale,
        enable_gqa,
    )
}
