//! Order statistics of short rows, many rows at a time: each lane of a vector holds a row, and each element is compared with each other one
//! of its row. There are no branches, which would not be predictable.

use super::Selected;
use crate::native::element_bits::Sortable;
use crate::vectorized::with_processor_vectors;

/// The maximum length of a short row.
pub(super) const MAX_SHORT_LEN: usize = 16;

/// Rows of a block.
const ROWS: usize = 32;

/// A number for each row of a block.
type PerRow = [u64; ROWS];

/// The sort keys of a block: one element of all rows after another.
struct Block {
    keys: [PerRow; MAX_SHORT_LEN],
    /// The length of a row.
    n: usize,
    /// The key of NaN, if the type has it.
    nan: Option<u64>,
}

/// The index of the selected element of each row of `n` elements, at most [`MAX_SHORT_LEN`] and at least one.
pub(super) fn find_in_short_rows<N: Sortable>(
    values: &[N],
    (n, nan): (usize, Option<u64>),
    selected: Selected,
    found: &mut [i64],
) {
    let mut block = Block { keys: [[0; ROWS]; MAX_SHORT_LEN], n, nan };
    for (rows, found) in values.chunks(ROWS * n).zip(found.chunks_mut(ROWS)) {
        for (number, row) in rows.chunks_exact(n).enumerate() {
            for (keys, value) in block.keys.iter_mut().zip(row) {
                keys[number] = value.sort_key();
            }
        }
        let indices = block.find(selected);
        for (to, index) in found.iter_mut().zip(indices) {
            *to = index as i64;
        }
    }
}

impl Block {
    /// The index of the selected element of each row.
    fn find(&self, selected: Selected) -> PerRow {
        with_processor_vectors(
            #[inline(always)]
            || match selected {
                Selected::Mode => self.modes(),
                _ => self.at_ranks(&self.ranks_of(selected)),
            },
        )
    }

    /// The rank of the selected element of each row.
    #[inline(always)]
    fn ranks_of(&self, selected: Selected) -> PerRow {
        let n = self.n as u64;
        let mut ranks = self.count_numbers();
        for rank in &mut ranks {
            *rank = match selected {
                Selected::Rank(k) => k as u64,
                // The first NaN follows all numbers.
                Selected::Median if *rank < n => *rank,
                Selected::Median | Selected::Mode => (n - 1) / 2,
                Selected::MedianOfNumbers => rank.saturating_sub(1) / 2,
            };
        }
        ranks
    }

    /// The number of elements of each row that are not NaN.
    #[inline(always)]
    fn count_numbers(&self) -> PerRow {
        let mut counts = [self.n as u64; ROWS];
        if let Some(nan) = self.nan {
            for keys in &self.keys[..self.n] {
                for (count, key) in counts.iter_mut().zip(keys) {
                    *count -= u64::from(*key == nan);
                }
            }
        }
        counts
    }

    /// The index of the element of rank `sought` of each row; equal elements are ranked by index.
    #[inline(always)]
    fn at_ranks(&self, sought: &PerRow) -> PerRow {
        // The rank of an element is the number of those before it.
        let mut ranks = [[0u64; ROWS]; MAX_SHORT_LEN];
        for (i, keys) in self.keys[..self.n].iter().enumerate() {
            let mut before = [0; ROWS];
            for (earlier, ranks) in self.keys[..i].iter().zip(&mut ranks) {
                for row in 0..ROWS {
                    let in_order = u64::from(earlier[row] <= keys[row]);
                    before[row] += in_order;
                    ranks[row] += 1 - in_order;
                }
            }
            ranks[i] = before;
        }
        let mut found = [0; ROWS];
        for (index, ranks) in ranks[..self.n].iter().enumerate() {
            for row in 0..ROWS {
                found[row] = if ranks[row] == sought[row] { index as u64 } else { found[row] };
            }
        }
        found
    }

    /// The index of the most frequent element of each row, the smallest if there are several, and of equal ones the last. Each NaN is a
    /// value of its own.
    #[inline(always)]
    fn modes(&self) -> PerRow {
        let (mut best, mut best_key, mut best_count) = ([0; ROWS], self.keys[0], [0; ROWS]);
        for (i, keys) in self.keys[..self.n].iter().enumerate().skip(1) {
            // The last of equal elements has the others before it.
            let mut equal_before = [0; ROWS];
            for earlier in &self.keys[..i] {
                for row in 0..ROWS {
                    equal_before[row] += u64::from(earlier[row] == keys[row]);
                }
            }
            for row in 0..ROWS {
                let key = keys[row];
                let count = if Some(key) == self.nan { 0 } else { equal_before[row] };
                let is_smaller = (count == best_count[row]) & (key < best_key[row]);
                let is_better = (count > best_count[row]) | is_smaller;
                best[row] = if is_better { i as u64 } else { best[row] };
                best_key[row] = if is_better { key } else { best_key[row] };
                best_count[row] = if is_better { count } else { best_count[row] };
            }
        }
        best
    }
}
