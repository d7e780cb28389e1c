//! A table of vectors, looked up by number.

use super::parameter;
use crate::functional::{self, EmbeddingOptions};
use crate::{Forward, Module, init};
use flambeau_autograd::no_grad;
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;

/// Numbers of any shape to their vectors: `[..]` of i64 to `[.., width]`. PyTorch's `Embedding`; entries begin as normal numbers.
///
/// ```
/// use flambeau_nn::{Embedding, Forward, Module};
/// use flambeau_ops::Tensor;
/// let table = Embedding::new(10, 4)?;
/// let numbers = Tensor::from_vec(vec![1i64, 5, 1], &[3])?;
/// assert_eq!(table.forward(&numbers)?.sizes(), &[3, 4]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Module)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Tensor,
    #[module(skip)]
    options: EmbeddingOptions,
}

impl Embedding {
    /// So many vectors of `width`.
    ///
    /// # Errors
    /// `InvalidArgument` for a count or width below 1.
    pub fn new(count: i64, width: i64) -> Result<Self> {
        Self::with_options(count, width, EmbeddingOptions::default())
    }

    /// The same with options; the vector of the padding is 0 at first, and stays.
    ///
    /// # Errors
    /// `InvalidArgument` for a count or width below 1, and for a padding that is no row.
    pub fn with_options(count: i64, width: i64, options: EmbeddingOptions) -> Result<Self> {
        ensure!(
            count > 0 && width > 0,
            InvalidArgument,
            "Embedding: expected a count and a width of at least 1 but got {count} and {width}"
        );
        let padding = functional::padding_row(count, options.padding_idx)?;
        let weight = parameter(&[count, width])?;
        init::normal_(&weight, 0.0, 1.0)?;
        if padding >= 0 {
            let _guard = no_grad();
            init::zeros_(&weight.select(0, padding)?)?;
        }
        Ok(Embedding { weight, options })
    }
}

impl Forward for Embedding {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        functional::embedding(&self.weight, input, self.options.clone())
    }
}
