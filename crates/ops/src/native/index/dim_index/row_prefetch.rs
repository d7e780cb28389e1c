//! Prefetches of the next row while elements of the current one are accessed in random order.
//!
//! The hardware's prefetchers follow no random accesses. If most of a row is going to be accessed, the whole of it is prefetched,
//! while the row before is being processed: see "Note: prefetching" in [`loops`](crate::loops).

use crate::loops::streaming;

/// Elements between two calls of [`RowPrefetch::advance`]: as many as a cache line has of four bytes each.
pub(super) const BATCH: usize = 16;
/// Rows of more elements are not prefetched: they would evict what is in use.
const MAX_ROW: usize = 1 << 15;

/// Predicts which row is accessed next: one at the same distance as the last two.
#[derive(Default)]
pub(super) struct RowPrefetcher {
    last: Option<i64>,
    expected: Option<i64>,
}

impl RowPrefetcher {
    /// To be called before `n` random accesses to the row of `size` elements that begins at offset `at` from `first`. Returns the
    /// prefetches of the row that is expected next, to be issued during the accesses. The row itself is prefetched at once if it
    /// was not the expected one.
    pub(super) fn start_row<B>(&mut self, first: *const B, at: i64, size: usize, n: usize) -> RowPrefetch {
        if n * BATCH < size || size > MAX_ROW {
            return RowPrefetch::NONE;
        }
        let (row, bytes) = (|at: i64| first.wrapping_offset(at as isize).cast::<u8>(), size * size_of::<B>());
        if self.expected != Some(at) {
            streaming::prefetch_bytes(row(at), bytes);
        }
        let next = at + self.last.map_or(size as i64, |last| at - last);
        (self.last, self.expected) = (Some(at), Some(next));
        RowPrefetch { from: row(next), left: bytes, share: (bytes * BATCH).div_ceil(n).next_multiple_of(64) }
    }
}

/// Bytes that are still to be prefetched, and how many of them for each batch of elements. They need not be valid memory.
pub(super) struct RowPrefetch {
    from: *const u8,
    left: usize,
    share: usize,
}

impl RowPrefetch {
    pub(super) const NONE: Self = RowPrefetch { from: std::ptr::null(), left: 0, share: 0 };

    /// Prefetches the next share, to be called once for every [`BATCH`] elements of the current row.
    pub(super) fn advance(&mut self) {
        let share = self.share.min(self.left);
        streaming::prefetch_bytes(self.from, share);
        (self.from, self.left) = (self.from.wrapping_add(share), self.left - share);
    }
}
