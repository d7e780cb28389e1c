//! The examples of an epoch that one rank reads. PyTorch's `DistributedSampler`.

use crate::group::ProcessGroup;
use flambeau_core::{Generator, Result, ensure};
use flambeau_nn::data::{RandomSampler, Sampler, SequentialSampler};

/// Every `size`-th example, from `rank` on, in an order that all ranks agree on.
///
/// ```
/// use flambeau_distributed::DistributedSampler;
/// use flambeau_nn::data::Sampler;
/// let of_rank = |rank| DistributedSampler::sequential(rank, 2)?.indices(5);
/// assert_eq!(of_rank(0)?, [0, 2, 4]);
/// assert_eq!(of_rank(1)?, [1, 3, 0]); // the first one again, so that all ranks get as many
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct DistributedSampler {
    rank: usize,
    size: usize,
    drop_last: bool,
    random: Option<RandomSampler>,
}

impl DistributedSampler {
    /// In the order of the data set.
    ///
    /// # Errors
    /// `InvalidArgument` unless `rank < size`.
    pub fn sequential(rank: usize, size: usize) -> Result<Self> {
        ensure!(
            rank < size,
            InvalidArgument("DistributedSampler", "rank"),
            "expected a rank below {size} but got {rank}"
        );
        Ok(DistributedSampler { rank, size, drop_last: false, random: None })
    }

    /// In a random order, the same on all ranks, which give the same seed.
    ///
    /// # Errors
    /// As [`sequential`](Self::sequential).
    pub fn random(rank: usize, size: usize, seed: u64) -> Result<Self> {
        let random = Some(RandomSampler(Generator::new(seed)));
        Ok(DistributedSampler { random, ..Self::sequential(rank, size)? })
    }

    /// In a random order, for the ranks of a group.
    ///
    /// # Errors
    /// As [`sequential`](Self::sequential).
    pub fn of_group(group: &ProcessGroup, seed: u64) -> Result<Self> {
        Self::random(group.rank(), group.size(), seed)
    }

    /// Leaves the last examples out where they do not suffice for all ranks, instead of repeating the first ones.
    pub fn drop_last(mut self, drop_last: bool) -> Self {
        self.drop_last = drop_last;
        self
    }
}

impl Sampler for DistributedSampler {
    fn indices(&self, len: usize) -> Result<Vec<usize>> {
        let order = match &self.random {
            Some(random) => random.indices(len)?,
            None => SequentialSampler.indices(len)?,
        };
        let count = if self.drop_last { len / self.size } else { len.div_ceil(self.size) };
        let positions = (0..count).map(|i| i * self.size + self.rank);
        Ok(positions.map(|position| order[position % len]).collect())
    }

    fn generator(&self) -> Option<&Generator> {
        self.random.as_ref().and_then(Sampler::generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_read_every_example() {
        for (len, size) in [(0, 3), (1, 4), (10, 4), (12, 4)] {
            let ranks = (0..size).map(|rank| DistributedSampler::random(rank, size, 5).unwrap());
            let mut all: Vec<usize> = Vec::new();
            for sampler in ranks {
                let indices = sampler.indices(len).unwrap();
                assert_eq!(indices.len(), len.div_ceil(size));
                all.extend(indices);
            }
            all.sort_unstable();
            all.dedup();
            assert_eq!(all, (0..len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn dropping_the_last_repeats_none() {
        let count = |rank| {
            DistributedSampler::sequential(rank, 4).unwrap().drop_last(true).indices(10).unwrap().len()
        };
        assert_eq!((0..4).map(count).sum::<usize>(), 8);
        assert!(DistributedSampler::sequential(2, 2).is_err());
    }
}
