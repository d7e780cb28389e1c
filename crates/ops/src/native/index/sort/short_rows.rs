//! The first elements of short rows in sorted order, for many rows at a time.

use crate::native::element_bits::Sortable;
use crate::native::short_rows::{Block, MAX_SHORT_LEN, PerRow, ROWS, load_keys, stable_ranks};
use crate::parallel::parallel_for;
use crate::scratch;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use std::sync::Mutex;

/// For each row of `n` values, at most [`MAX_SHORT_LEN`], the first `k` in sorted order, and their indices.
pub(super) fn order_short_rows<N: Sortable>(
    values: &[N],
    (sorted, indices): (&mut [N], &mut [i64]),
    (n, k): (usize, usize),
    descending: bool,
) {
    let blocks = sorted.chunks_mut(ROWS * k).zip(indices.chunks_mut(ROWS * k));
    let blocks = scratch::collect(values.chunks(ROWS * n).zip(blocks).map(Mutex::new));
    // Threads take blocks dynamically: a lock gives access to the results of each, without contention.
    parallel_for(0..blocks.len(), (GRAIN / 8 / ROWS / n).max(1), |part| {
        for block in &blocks[part] {
            let mut block = block.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let (values, (sorted, indices)) = &mut *block;
            order_block(values, (sorted, indices), (n, k), descending);
        }
    });
}

/// [`order_short_rows`] of at most [`ROWS`] rows.
fn order_block<N: Sortable>(
    values: &[N],
    (sorted, indices): (&mut [N], &mut [i64]),
    (n, k): (usize, usize),
    descending: bool,
) {
    let mut keys = [[0; ROWS]; MAX_SHORT_LEN];
    load_keys(values, n, &mut keys);
    let ranks = ranks(&mut keys, n, descending);
    if k == n {
        return order_rows(values, &ranks[..n], (sorted, indices));
    }
    let targets = sorted.chunks_exact_mut(k).zip(indices.chunks_exact_mut(k));
    for (row, (values, (sorted, indices))) in values.chunks_exact(n).zip(targets).enumerate() {
        let mut order = [0; MAX_SHORT_LEN];
        for (index, ranks) in ranks[..n].iter().enumerate() {
            order[ranks[row] as usize] = index;
        }
        for ((value, index), from) in sorted.iter_mut().zip(indices).zip(order) {
            (*value, *index) = (values[from], from as i64);
        }
    }
}

/// Writes each element of the rows, and its index, to its rank.
fn order_rows<N: Sortable>(values: &[N], ranks: &[PerRow], (sorted, indices): (&mut [N], &mut [i64])) {
    let n = ranks.len();
    let targets = sorted.chunks_exact_mut(n).zip(indices.chunks_exact_mut(n));
    for (row, (values, (sorted, indices))) in values.chunks_exact(n).zip(targets).enumerate() {
        for (index, (value, ranks)) in values.iter().zip(ranks).enumerate() {
            let rank = ranks[row] as usize;
            (sorted[rank], indices[rank]) = (*value, index as i64);
        }
    }
}

/// The rank of each of the `n` elements of each row.
fn ranks(keys: &mut Block, n: usize, descending: bool) -> Block {
    let flipped = if descending { u64::MAX } else { 0 };
    with_processor_vectors(
        #[inline(always)]
        move || {
            keys[..n].as_flattened_mut().iter_mut().for_each(|key| *key ^= flipped);
            stable_ranks(&keys[..n])
        },
    )
}
