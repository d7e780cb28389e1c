//! Samplers: the order in which examples are loaded.

use flambeau_core::{Generator, Result};

/// An order of examples, for each epoch anew.
pub trait Sampler: Send + Sync + 'static {
    /// The numbers of the examples of one epoch, each below `len`.
    ///
    /// # Errors
    /// Whatever keeps it from choosing.
    fn indices(&self, len: usize) -> Result<Vec<usize>>;

    /// The source of its randomness: its state at the beginning of an epoch decides the order.
    fn generator(&self) -> Option<&Generator> {
        None
    }
}

/// From the first to the last.
#[derive(Debug, Clone, Copy, Default)]
pub struct SequentialSampler;

impl Sampler for SequentialSampler {
    fn indices(&self, len: usize) -> Result<Vec<usize>> {
        Ok((0..len).collect())
    }
}

/// Each once, in an order that the generator decides.
///
/// ```
/// use flambeau_core::Generator;
/// use flambeau_nn::data::{RandomSampler, Sampler};
/// let order = RandomSampler(Generator::new(7)).indices(100)?;
/// assert_eq!(order, RandomSampler(Generator::new(7)).indices(100)?);
/// let mut sorted = order.clone();
/// sorted.sort();
/// assert!(sorted != order && sorted.into_iter().eq(0..100));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct RandomSampler(
    /// Where the order comes from.
    pub Generator,
);

impl Sampler for RandomSampler {
    /// Durstenfeld, "Algorithm 235: random permutation", 1964. An index is chosen by the upper half of a product with 64
    /// random bits, whose bias is below `len / 2^64`.
    fn indices(&self, len: usize) -> Result<Vec<usize>> {
        let philox = self.0.reserve_words(len as i64, 2)?;
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            let word = philox.word64(i as u64);
            order.swap(i, ((u128::from(word) * (i as u128 + 1)) >> 64) as usize);
        }
        Ok(order)
    }

    fn generator(&self) -> Option<&Generator> {
        Some(&self.0)
    }
}
