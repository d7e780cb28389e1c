//! A table of vectors, looked up by number.

use super::parameter;
use crate::{Module, fields, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::{Tensor, ops};

/// Numbers of any shape to their vectors: `[..]` of i64 to `[.., width]`. PyTorch's `Embedding`; entries begin as normal numbers.
///
/// ```
/// use flambeau_nn::{Embedding, Module};
/// use flambeau_ops::Tensor;
/// let table = Embedding::new(10, 4)?;
/// let numbers = Tensor::from_vec(vec![1i64, 5, 1], &[3])?;
/// assert_eq!(table.forward(&numbers)?.sizes(), &[3, 4]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Tensor,
}

impl Embedding {
    /// So many vectors of `width`.
    ///
    /// # Errors
    /// `InvalidArgument` for a count or width below 1.
    pub fn new(count: i64, width: i64) -> Result<Self> {
        ensure!(
            count > 0 && width > 0,
            InvalidArgument,
            "Embedding: expected a count and a width of at least 1 but got {count} and {width}"
        );
        let weight = parameter(&[count, width])?;
        init::normal_(&weight, 0.0, 1.0, None)?;
        Ok(Embedding { weight })
    }
}

impl Module for Embedding {
    fields!(weight);

    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        ops::embedding(&self.weight, input, -1, false, false)
    }
}
