//! The stable ascending order of keys, by a radix sort.
//!
//! A key and its position are one number, the position in the lower bits, so that a pass of the sort moves 8 bytes for each. The first pass
//! splits many keys by their highest bits; threads sort the parts, which then fit their caches.

use crate::native::guarded_slices::fill;
use crate::parallel::for_each_task;
use crate::scratch;
use crate::vectorized::with_processor_vectors;
use flambeau_core::Result;

/// Bits of a key by which each pass sorts.
const DIGIT: u32 = 11;
/// Bits by which keys are split into parts.
const FIRST_DIGIT: u32 = 8;
/// Keys that are sorted on one thread.
const SMALL: usize = 1 << 15;
/// Keys for which comparisons are faster than passes.
const TINY: usize = 128;

/// A key above a position.
trait Item: Copy + Ord + Send + Sync {
    const ZERO: Self;

    fn new(key: u64, position: usize, position_bits: u32) -> Self;

    /// Its bits from `shift` on, as far as `mask` has them.
    fn digit(self, shift: u32, mask: usize) -> usize;

    fn key(self, position_bits: u32) -> i64;
}

macro_rules! items {
    ($($int:ty),*) => {$(
        impl Item for $int {
            const ZERO: Self = 0;

            #[inline(always)]
            fn new(key: u64, position: usize, position_bits: u32) -> Self {
                ((key as $int) << position_bits) | position as $int
            }

            #[inline(always)]
            fn digit(self, shift: u32, mask: usize) -> usize {
                (self >> shift) as usize & mask
            }

            #[inline(always)]
            fn key(self, position_bits: u32) -> i64 {
                (self >> position_bits) as i64
            }
        }
    )*};
}

items!(u64, u128);

/// Calls `f` with each rank in ascending order, the key that belongs there and the position that it has in `keys`, which are not negative.
/// Equal keys keep their order.
pub(super) fn for_each_sorted(
    keys: &[i64],
    mut f: impl FnMut(usize, i64, usize) -> Result<()>,
) -> Result<()> {
    if keys.is_sorted() {
        return keys.iter().enumerate().try_for_each(|(at, key)| f(at, *key, at));
    }
    let key_bits = 64 - keys.iter().fold(0, |all, key| all | key).leading_zeros();
    let position_bits = usize::BITS - keys.len().leading_zeros();
    match key_bits + position_bits <= u64::BITS {
        true => visit(&sorted::<u64>(keys, position_bits, key_bits), position_bits, f),
        false => visit(&sorted::<u128>(keys, position_bits, key_bits), position_bits, f),
    }
}

fn visit<T: Item>(
    items: &[T],
    position_bits: u32,
    mut f: impl FnMut(usize, i64, usize) -> Result<()>,
) -> Result<()> {
    let mask = usize::MAX >> (usize::BITS - position_bits);
    items.iter().enumerate().try_for_each(|(at, item)| f(at, item.key(position_bits), item.digit(0, mask)))
}

fn sorted<T: Item>(keys: &[i64], position_bits: u32, key_bits: u32) -> Vec<T> {
    let mut items = scratch::filled(T::ZERO, keys.len());
    fill(&mut items, 1, |range, items| {
        for ((item, key), at) in items.iter_mut().zip(&keys[range.clone()]).zip(range) {
            *item = T::new(*key as u64, at, position_bits);
        }
    });
    let mut other = scratch::filled(T::ZERO, items.len());
    let bits = (position_bits, position_bits + key_bits);
    if items.len() <= SMALL || key_bits <= FIRST_DIGIT {
        let is_in_other = sort(&mut items, &mut other, bits);
        return if is_in_other { other } else { items };
    }
    let high = bits.1 - FIRST_DIGIT;
    let counts = distribute(&items, &mut other, high, FIRST_DIGIT);
    for_each_task(pairs(&mut other, &mut items, &counts), |(part, room)| {
        if sort(part, room, (bits.0, high)) {
            part.copy_from_slice(room);
        }
    });
    other
}

/// Both lists in parts of these lengths.
fn pairs<'a, T>(mut a: &'a mut [T], mut b: &'a mut [T], counts: &[usize]) -> Vec<(&'a mut [T], &'a mut [T])> {
    scratch::collect(counts.iter().filter(|count| **count > 0).map(|count| {
        let (first, rest) = std::mem::take(&mut a).split_at_mut(*count);
        let (second, other_rest) = std::mem::take(&mut b).split_at_mut(*count);
        (a, b) = (rest, other_rest);
        (first, second)
    }))
}

/// Sorts by the bits from `low` to below `high`; those above are equal. Returns whether the result is in `other`.
fn sort<T: Item>(items: &mut [T], other: &mut [T], (low, high): (u32, u32)) -> bool {
    if items.len() <= TINY {
        // Positions are distinct and in the lower bits, so that the order is a stable one.
        items.sort_unstable();
        return false;
    }
    let passes = (high - low).div_ceil(DIGIT).max(1);
    let digit = (high - low).div_ceil(passes);
    let (mut from, mut to) = (items, other);
    for pass in 0..passes {
        distribute(from, to, low + pass * digit, digit);
        std::mem::swap(&mut from, &mut to);
    }
    passes % 2 == 1
}

/// Writes the items to `to` in the order of `bits` bits from `shift` on; returns how many have each value of them.
fn distribute<T: Item>(from: &[T], to: &mut [T], shift: u32, bits: u32) -> [usize; 1 << DIGIT] {
    let mask = (1 << bits) - 1;
    let mut counts = [0usize; 1 << DIGIT];
    from.iter().for_each(|item| counts[item.digit(shift, mask)] += 1);
    let (mut next, mut start) = ([0usize; 1 << DIGIT], 0);
    for (next, count) in next.iter_mut().zip(&counts[..1 << bits]) {
        *next = start;
        start += count;
    }
    with_processor_vectors(
        #[inline(always)]
        || {
            for item in from {
                let next = &mut next[item.digit(shift, mask)];
                to[*next] = *item;
                *next += 1;
            }
        },
    );
    counts
}
