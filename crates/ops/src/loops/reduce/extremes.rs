//! The minimum and the maximum of rows at once: two folds of each block, or of a few rows, while they are in L1.
#![expect(unsafe_code, reason = "passes on the addresses of dense elements that the callers have guards for")]

use super::accumulator::Accumulator;
use super::any_fold::{AnyFold, fold_strip};
use super::fold::{DenseRows, RowFold};
use super::strips::{Strip, StripResults};
use flambeau_core::ScalarType;

/// Bytes of a block that stays in L1 from one fold to the other.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// Two folds of the same elements.
#[derive(Clone, Copy)]
pub(super) struct Both<'f>(pub(super) [&'f dyn AnyFold; 2]);

impl RowFold<2> for Both<'_> {
    type State = [Accumulator; 2];

    fn empty(self) -> Self::State {
        self.0.map(|fold| fold.identity())
    }

    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Self::State {
        // SAFETY: this function's condition.
        self.0.map(|fold| unsafe { fold.block(fold.dtype(), from, n) })
    }

    fn reads(self, memory: ScalarType, _: ScalarType) -> bool {
        self.0.iter().all(|fold| fold.reads(memory))
    }

    fn folds_packed(self, n: usize) -> bool {
        self.0.iter().all(|fold| RowFold::<1>::folds_packed(*fold, n))
    }

    unsafe fn in_memory(
        self,
        memory: ScalarType,
        from: *const u8,
        n: usize,
        _: usize,
        size: usize,
    ) -> Self::State {
        let at_once = BLOCK_BYTES / size;
        self.cascade((0..n).step_by(at_once).map(|start| {
            let count = at_once.min(n - start);
            // SAFETY: the elements from `start` on, as many as are left, or a block.
            self.0.map(|fold| unsafe { fold.block(memory, from.add(start * size), count) })
        }))
    }

    unsafe fn rows(self, rows: DenseRows<2>) {
        let size = self.0[0].dtype().size() as isize;
        let DenseRows { memory, from, n, row_stride, to, strides, count, .. } = rows;
        let row_bytes = n * rows.size;
        if row_bytes > BLOCK_BYTES || strides != [size; 2] {
            // SAFETY: this function's conditions.
            return unsafe { rows.each(self) };
        }
        let at_once = (BLOCK_BYTES / row_bytes.max(1)).max(1);
        for first in (0..count).step_by(at_once) {
            let count = at_once.min(count - first);
            let from = from.wrapping_offset(first as isize * row_stride);
            for (fold, to) in self.0.into_iter().zip(to) {
                let to = to.wrapping_offset(first as isize * size);
                // SAFETY: by this function's conditions: some of the rows.
                unsafe {
                    fold.fold_rows(memory, from, n, row_stride, to, count);
                    fold.write(to, count, to, size);
                }
            }
        }
    }

    unsafe fn strip(self, strip: Strip, results: &StripResults<2>) {
        for (m, fold) in self.0.into_iter().enumerate() {
            let (results, size) = (results.only(m), results.sizes[m]);
            // SAFETY: this function's conditions.
            unsafe { fold_strip(fold, strip, &results, size, false) }
        }
    }

    fn combine(self, a: Self::State, b: Self::State) -> Self::State {
        std::array::from_fn(|m| self.0[m].combine(a[m], b[m]))
    }

    unsafe fn write(self, state: Self::State, to: [*mut u8; 2]) {
        for ((fold, state), to) in self.0.into_iter().zip(state).zip(to) {
            // SAFETY: `to` takes one result.
            unsafe { fold.write(state.as_ptr(), 1, to, 0) }
        }
    }
}
