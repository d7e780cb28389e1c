//! The order of the elements of short rows, for many rows at a time: each lane of a vector holds a row, and each element is compared with
//! each other one of its row. There are no branches, which would not be predictable.

use crate::native::element_bits::Sortable;

/// The maximum length of a short row.
pub(super) const MAX_SHORT_LEN: usize = 16;

/// Rows of a block.
pub(super) const ROWS: usize = 32;

/// A number for each row of a block.
pub(super) type PerRow = [u64; ROWS];

/// A number for each element of a block: those of one element of all rows after those of another. Those of elements that the rows do not
/// have, or of rows that the block does not have, are of no meaning.
pub(super) type Block = [PerRow; MAX_SHORT_LEN];

/// Stores the sort keys of at most [`ROWS`] rows of `n` elements.
#[inline(always)]
pub(super) fn load_keys<N: Sortable>(rows: &[N], n: usize, keys: &mut Block) {
    for (number, row) in rows.chunks_exact(n).enumerate() {
        for (keys, value) in keys.iter_mut().zip(row) {
            keys[number] = value.sort_key();
        }
    }
}

/// For each element its index in the sorted row; equal elements keep their order.
#[inline(always)]
pub(super) fn stable_ranks(keys: &[PerRow]) -> Block {
    // The rank of an element is the number of those before it.
    let mut ranks = [[0; ROWS]; MAX_SHORT_LEN];
    for (i, own) in keys.iter().enumerate() {
        let mut before = [0; ROWS];
        for (earlier, ranks) in keys[..i].iter().zip(&mut ranks) {
            for row in 0..ROWS {
                let in_order = u64::from(earlier[row] <= own[row]);
                before[row] += in_order;
                ranks[row] += 1 - in_order;
            }
        }
        ranks[i] = before;
    }
    ranks
}
