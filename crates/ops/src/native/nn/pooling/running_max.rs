//! The maxima so far of adjacent windows, and where they are: updated a chunk at a time, so that loops vectorize.
#![expect(unsafe_code, reason = "raw operands")]

use super::channel_strips::CHUNK;
use super::channels::PoolElement;
use crate::native::strided_gather::even_elements;

/// No kernel position yet.
pub(super) const UNSET: u32 = u32::MAX;

/// Replaces the maxima so far by the elements of `from`, `STEP` apart, that are greater or NaN, a chunk at a time.
///
/// # Safety
/// - All have `count` elements, rounded up to a multiple of [`CHUNK`]: elements past `count` are read, and written back
///   unchanged.
#[inline(always)]
pub(super) unsafe fn update<T: PoolElement, const STEP: usize>(
    from: *const T,
    best: *mut T::Sum,
    positions: *mut u32,
    count: usize,
    position: u32,
) {
    for start in (0..count).step_by(CHUNK) {
        // SAFETY: by this function's condition.
        unsafe {
            let values = if STEP == 1 {
                from.add(start).cast::<[T; CHUNK]>().read_unaligned()
            } else {
                even_elements::<T, CHUNK>(from.add(STEP * start))
            };
            let before = best.add(start).cast::<[T::Sum; CHUNK]>();
            let positions_before = positions.add(start).cast::<[u32; CHUNK]>();
            let (mut best, mut positions) = (before.read_unaligned(), positions_before.read_unaligned());
            for k in 0..CHUNK {
                let value = values[k].widen();
                #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
                let better = (positions[k] == UNSET) | (value > best[k]) | (value != value);
                let better = better & (k < count - start);
                best[k] = if better { value } else { best[k] };
                positions[k] = if better { position } else { positions[k] };
            }
            before.write_unaligned(best);
            positions_before.write_unaligned(positions);
        }
    }
}
