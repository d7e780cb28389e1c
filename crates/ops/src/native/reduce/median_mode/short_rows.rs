//! Order statistics of short rows, many rows at a time.

use super::Selected;
use crate::native::element_bits::Sortable;
use crate::native::short_rows::{Block, MAX_SHORT_LEN, PerRow, ROWS, load_keys, stable_ranks};
use crate::vectorized::with_processor_vectors;
use std::ops::Range;

/// The sort keys of a block of rows.
struct Keys {
    keys: Block,
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
    let mut block = Keys { keys: [[0; ROWS]; MAX_SHORT_LEN], n, nan };
    for (rows, found) in values.chunks(ROWS * n).zip(found.chunks_mut(ROWS)) {
        load_keys(rows, n, &mut block.keys);
        let indices = block.find(selected);
        for (to, index) in found.iter_mut().zip(indices) {
            *to = index as i64;
        }
    }
}

/// [`find_in_short_rows`] for the columns, counted over all blocks, of dense blocks of `n` by `width` elements.
pub(super) fn find_in_short_columns<N: Sortable>(
    elements: &[N],
    (n, width, nan): (usize, usize, Option<u64>),
    columns: Range<usize>,
    selected: Selected,
    mut found: &mut [i64],
) {
    let mut block = Keys { keys: [[0; ROWS]; MAX_SHORT_LEN], n, nan };
    let mut at = columns.start;
    while at < columns.end {
        let (number, column) = (at / width, at % width);
        let count = ROWS.min(width - column).min(columns.end - at);
        let first = number * n * width + column;
        for (i, keys) in block.keys[..n].iter_mut().enumerate() {
            let values = &elements[first + i * width..][..count];
            keys.iter_mut().zip(values).for_each(|(key, value)| *key = value.sort_key());
        }
        let (targets, others) = std::mem::take(&mut found).split_at_mut(count);
        for (to, index) in targets.iter_mut().zip(block.find(selected)) {
            *to = index as i64;
        }
        (found, at) = (others, at + count);
    }
}

impl Keys {
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
        let ranks = stable_ranks(&self.keys[..self.n]);
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
