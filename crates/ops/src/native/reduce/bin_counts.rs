//! How many elements are in each of several bins.

use flambeau_core::{Result, fallible};

/// Lists in which few bins are counted one after the other: an increment waits for the one before if both are of the same element of a list.
const LISTS: usize = 4;
/// Bins of which so many lists fit into the cache.
const MAX_LISTED: usize = 512;

/// A count for each bin.
pub(super) struct BinCounts {
    bins: usize,
    /// One list or [`LISTS`] of them, one after another.
    counts: Vec<i64>,
}

impl BinCounts {
    /// Zeros for the bins of `numel` elements.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn new(bins: usize, numel: usize) -> Result<Self> {
        let lists = if bins <= MAX_LISTED && numel / LISTS >= bins { LISTS } else { 1 };
        Ok(BinCounts { bins, counts: fallible::filled(0, bins.saturating_mul(lists))? })
    }

    /// Counts the elements in the bins that `bin` says.
    #[inline]
    pub(super) fn add<T: Copy>(&mut self, elements: &[T], bin: impl Fn(T) -> usize) {
        if self.counts.len() == self.bins {
            let counts = &mut self.counts[..];
            return elements.iter().for_each(|x| counts[bin(*x)] += 1);
        }
        let (first, others) = self.counts.split_at_mut(self.bins);
        let (second, others) = others.split_at_mut(self.bins);
        let (third, fourth) = others.split_at_mut(self.bins);
        let (groups, rest) = elements.as_chunks::<LISTS>();
        for group in groups {
            let [a, b, c, d] = group.map(&bin);
            first[a] += 1;
            second[b] += 1;
            third[c] += 1;
            fourth[d] += 1;
        }
        rest.iter().for_each(|x| first[bin(*x)] += 1);
    }

    /// The counts of the bins.
    pub(super) fn into_counts(self) -> Vec<i64> {
        let BinCounts { bins, mut counts } = self;
        let (sums, others) = counts.split_at_mut(bins);
        for list in others.chunks(bins.max(1)) {
            sums.iter_mut().zip(list).for_each(|(sum, count)| *sum += count);
        }
        counts.truncate(bins);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_one_list() {
        for (bins, numel) in [(3, 1000), (3, 7), (600, 5003), (1, 4), (0, 0)] {
            let numbers: Vec<usize> = (0..numel).map(|i| i * i % bins).collect();
            let mut counts = BinCounts::new(bins, numel).unwrap();
            numbers.chunks(33).for_each(|part| counts.add(part, |n| n));
            let of = |bin| numbers.iter().filter(|n| **n == bin).count() as i64;
            assert_eq!(counts.into_counts(), (0..bins).map(of).collect::<Vec<_>>());
        }
    }
}
