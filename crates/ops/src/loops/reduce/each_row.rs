//! The kernel that folds each of many dense rows into an accumulator of its own; rows of few elements that follow one another in memory in
//! lanes.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::accumulate::step_rows;
use super::blocks::{LaneFold, fold_lanes, lanes_of};
use super::strips::{MAX_PACKED, PackedTile, STRIP};
use crate::loops::prefetch::Prefetch;
use crate::loops::transposed::few_columns;
use crate::vectorized::{CodegenAnchor, Isa, Kernel, Lanes, Vector};

/// Folds each of `count` rows of `n` elements, `row_stride` bytes from one to the next, into adjacent accumulators, which are elements of
/// the vectors of `T`; or, with `pairs`, combines two accumulators.
///
/// All rows are folded by one call, so that the processor loads the next row while it combines the lanes of this one.
pub(crate) struct FoldEachRow<T, F> {
    pub(super) from: *const T,
    pub(super) n: usize,
    pub(super) row_stride: isize,
    pub(super) to: *mut u8,
    pub(super) count: usize,
    pub(super) pairs: bool,
    pub(super) prefetch: Prefetch,
    pub(super) lanes: F,
}

impl<T, F: CodegenAnchor> CodegenAnchor for FoldEachRow<T, F> {
    type Anchor = F::Anchor;
}

/// An accumulator of a fold of elements of `T`.
type LaneOf<I, T> = <<T as Lanes<I>>::Vector as Vector>::Element;

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I> for FoldEachRow<T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let is_adjacent = self.row_stride == (self.n * size_of::<T>()) as isize;
        let is_packed = !self.pairs && self.count > 1 && is_adjacent && (2..=MAX_PACKED).contains(&self.n);
        // SAFETY: this kernel's conditions.
        unsafe {
            if !(is_packed && fold_packed::<I, T, F>(&self)) {
                fold_each::<I, T, F>(&self);
            }
        }
    }
}

/// Folds row after row.
///
/// # Safety
/// - Each row holds `n` elements, and `to` takes an accumulator for each.
#[inline(always)]
unsafe fn fold_each<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(work: &FoldEachRow<T, F>) {
    for row in 0..work.count {
        let from = work.from.wrapping_byte_offset(row as isize * work.row_stride);
        // SAFETY: this function's condition.
        unsafe {
            let acc = if work.pairs {
                let [a, b] = [0, 1].map(|i| T::Vector::splat(T::load_one(from.add(i)).widen()));
                work.lanes.combine(a, b)
            } else {
                fold_lanes::<I, T, F>(from, work.n, work.prefetch, work.lanes)
            };
            let result = lanes_of(acc)[0].assume_init();
            work.to.cast::<LaneOf<I, T>>().add(row).write_unaligned(result);
        }
    }
}

/// Folds rows of few elements that follow one another in memory, each in a lane of its own; `false` where their elements cannot be
/// transposed.
///
/// # Safety
/// - As for [`fold_each`].
#[inline(always)]
unsafe fn fold_packed<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(work: &FoldEachRow<T, F>) -> bool {
    let (n, lanes) = (work.n, T::Vector::LANES);
    let mut tile = PackedTile::new();
    let tile = tile.as_mut_ptr().cast::<T>();
    for first in (0..work.count).step_by(STRIP) {
        let count = STRIP.min(work.count - first);
        let from = work.from.wrapping_add(first * n).cast();
        // SAFETY: this function's condition; the tile's columns hold whole vectors of elements, or zeros.
        unsafe {
            if !few_columns(from, [count, n], size_of::<T>(), tile.cast()) {
                return false;
            }
            let whole = count.next_multiple_of(lanes);
            let to = work.to.cast::<LaneOf<I, T>>().add(first);
            if count < whole {
                for i in 0..n {
                    tile.add(i * STRIP + count).write_bytes(0, whole - count);
                }
            }
            let full = count / lanes * lanes;
            for row in (0..full).step_by(lanes) {
                fold_columns::<I, T, F>(work.lanes, tile.add(row), n).store(to.add(row));
            }
            // Not in the loop, for which the compiler would have the accumulators of integers in memory.
            if full < count {
                let last = fold_columns::<I, T, F>(work.lanes, tile.add(full), n);
                last.store_partial(to.add(full), count - full);
            }
        }
    }
    true
}

/// The folds of a vector of columns of `n` elements, at most [`MAX_PACKED`], which are [`STRIP`] elements from each other. There is no loop,
/// of which the compiler would make one that gathers elements of integers.
///
/// # Safety
/// - They are readable.
#[inline(always)]
unsafe fn fold_columns<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(f: F, from: *const T, n: usize) -> T::Vector {
    const { assert!(MAX_PACKED == 8) };
    let (mut acc, stride, mut from) = (f.identity(), (STRIP * size_of::<T>()) as isize, from);
    // SAFETY: this function's condition.
    unsafe {
        if n & 8 != 0 {
            return step_rows::<I, T, F, 8>(acc, from, stride, f);
        }
        if n & 4 != 0 {
            acc = step_rows::<I, T, F, 4>(acc, from, stride, f);
            from = from.wrapping_add(4 * STRIP);
        }
        if n & 2 != 0 {
            acc = step_rows::<I, T, F, 2>(acc, from, stride, f);
            from = from.wrapping_add(2 * STRIP);
        }
        if n & 1 != 0 {
            acc = step_rows::<I, T, F, 1>(acc, from, stride, f);
        }
    }
    acc
}
