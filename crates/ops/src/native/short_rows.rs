//! The order of the elements of short rows, for many rows at a time: each lane of a vector holds a row, and each element is compared with
//! each other one of its row. There are no branches, which would not be predictable.

use crate::native::element_bits::Sortable;
use crate::vectorized::with_processor_vectors;

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
pub(super) fn load_keys<N: Sortable>(rows: &[N], n: usize, keys: &mut Block) {
    let is_done = match n {
        2 => load_block::<N, 2>(rows, keys),
        3 => load_block::<N, 3>(rows, keys),
        4 => load_block::<N, 4>(rows, keys),
        5 => load_block::<N, 5>(rows, keys),
        6 => load_block::<N, 6>(rows, keys),
        7 => load_block::<N, 7>(rows, keys),
        8 => load_block::<N, 8>(rows, keys),
        _ => false,
    };
    if is_done {
        return;
    }
    for (number, row) in rows.chunks_exact(n).enumerate() {
        for (keys, value) in keys.iter_mut().zip(row) {
            keys[number] = value.sort_key();
        }
    }
}

/// [`load_keys`] of [`ROWS`] rows of `LEN` elements; `false` where there are fewer. The number is constant, so that the compiler makes it
/// shuffles of vectors.
fn load_block<N: Sortable, const LEN: usize>(rows: &[N], keys: &mut Block) -> bool {
    let Some(rows) = rows.as_chunks::<LEN>().0.first_chunk::<ROWS>() else { return false };
    with_processor_vectors(
        #[inline(always)]
        move || load_columns(rows, keys),
    );
    true
}

#[inline(always)]
fn load_columns<N: Sortable, const LEN: usize>(rows: &[[N; LEN]; ROWS], keys: &mut Block) {
    for (i, keys) in keys.iter_mut().take(LEN).enumerate() {
        for (key, row) in keys.iter_mut().zip(rows) {
            *key = row[i].sort_key();
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
