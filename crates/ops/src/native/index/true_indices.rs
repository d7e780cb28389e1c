//! The indices of the elements of a list that are true.

use crate::native::guarded_slices::{fill, fill_chunks};
use crate::tensor_iterator::GRAIN;
use flambeau_core::{Result, fallible};
use std::ops::Range;

/// Flags that are counted at once.
const BLOCK: usize = 4096;

/// Flags, each 0 or 1, of which the true ones have been counted.
pub(super) struct TrueFlags<'f> {
    flags: &'f [u8],
    /// The number of true ones before each block.
    starts: Vec<usize>,
    count: usize,
}

impl<'f> TrueFlags<'f> {
    /// # Errors
    /// `OutOfMemory`.
    pub(super) fn of(flags: &'f [u8]) -> Result<Self> {
        let mut starts = fallible::filled(0, flags.len().div_ceil(BLOCK))?;
        fill_chunks(&mut starts, 1, GRAIN / BLOCK, |blocks, counts| {
            for (block, count) in blocks.zip(counts) {
                *count = true_count(&flags[block * BLOCK..flags.len().min((block + 1) * BLOCK)]);
            }
        });
        let mut count = 0;
        for start in &mut starts {
            count += std::mem::replace(start, count);
        }
        Ok(TrueFlags { flags, starts, count })
    }

    /// How many are true.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Writes the indices of the true ones, ascending, to a slice of as many elements.
    pub(super) fn write_indices(&self, to: &mut [i64]) {
        fill(to, 1, |ranks, part| self.write_part(ranks, part));
    }

    /// Writes the indices of the true flags of these ranks.
    fn write_part(&self, ranks: Range<usize>, to: &mut [i64]) {
        let block = self.starts.partition_point(|start| *start <= ranks.start).saturating_sub(1);
        let (mut at, mut before) = (block * BLOCK, ranks.start - self.starts[block]);
        while before > 0 {
            before -= usize::from(self.flags[at]);
            at += 1;
        }
        // Each index is written, and stays if its flag is true: branches on flags would not be predictable.
        let mut next = 0;
        for (index, flag) in (at as i64..).zip(&self.flags[at..]) {
            let Some(slot) = to.get_mut(next) else { return };
            *slot = index;
            next += usize::from(*flag);
        }
    }
}

/// The indices at which `flags`, each 0 or 1, are 1, ascending.
///
/// # Errors
/// `OutOfMemory`.
pub(super) fn true_indices(flags: &[u8]) -> Result<Vec<i64>> {
    let flags = TrueFlags::of(flags)?;
    let mut indices = fallible::filled(0, flags.count())?;
    flags.write_indices(&mut indices);
    Ok(indices)
}

/// How many of `flags`, each 0 or 1, are 1.
pub(super) fn true_count(flags: &[u8]) -> usize {
    flags.chunks(255).map(count_true).sum()
}

/// The number of true ones among at most 255 flags, which a byte holds.
fn count_true(flags: &[u8]) -> usize {
    usize::from(flags.iter().sum::<u8>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_every_part_are_those_of_the_true_flags() {
        for (len, modulus) in
            [(0, 1), (1, 1), (4096, 1), (4097, 2), (20_000, 7), (20_000, 5000), (9000, 10_000)]
        {
            let flags: Vec<u8> = (0..len).map(|i| u8::from((i * 7919 + 3) % modulus == 0)).collect();
            let expected: Vec<i64> = (0..).zip(&flags).filter(|(_, f)| **f == 1).map(|(i, _)| i).collect();
            assert_eq!(true_indices(&flags).unwrap(), expected, "{len} {modulus}");
            assert_eq!(true_count(&flags), expected.len());
            let found = TrueFlags::of(&flags).unwrap();
            for range in [0..1, 1..2, 5..300, 2000..2001].into_iter().filter(|r| r.end <= expected.len()) {
                let mut part = vec![-1; range.len()];
                found.write_part(range.clone(), &mut part);
                assert_eq!(part, expected[range]);
            }
        }
    }
}
