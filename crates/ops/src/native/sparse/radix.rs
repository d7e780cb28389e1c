//! The stable ascending order of keys, by a radix sort.
//!
//! A key and its position are one number, the position in the lower bits, so that a pass of the sort moves 8 bytes for each. The first pass
//! splits keys by their highest bits into parts that fit L1; threads sort the parts.

use super::arguments::parts as in_parts;
use crate::parallel::for_each_task;
use crate::scratch;
use crate::vectorized::with_processor_vectors;
use bytemuck::Pod;
use flambeau_core::Result;
use std::ops::Range;

/// Bits of a key by which each pass in a part sorts, at most.
const DIGIT: u32 = 9;
/// Bits by which keys are split into parts, at most. Each part has a cache line to which it is written.
const FIRST_DIGIT: u32 = 10;
/// Keys of a part, about.
const PART: usize = 1 << 11;
/// Keys for which comparisons are faster than passes.
const TINY: usize = 128;
/// Keys that are computed at a time.
const TILE: usize = 1024;

/// What is sorted.
pub(super) trait Keys: Sync {
    fn len(&self) -> usize;

    /// All keys are below 2 to this power.
    fn bits(&self) -> u32;

    /// Writes the keys at these positions; `None` if one is not in bounds.
    fn write(&self, positions: Range<usize>, to: &mut [i64]) -> Option<()>;
}

/// Keys that are not negative.
impl Keys for &[i64] {
    fn len(&self) -> usize {
        <[i64]>::len(self)
    }

    fn bits(&self) -> u32 {
        64 - self.iter().fold(0, |all, key| all | key).leading_zeros()
    }

    fn write(&self, positions: Range<usize>, to: &mut [i64]) -> Option<()> {
        to.copy_from_slice(&self[positions]);
        Some(())
    }
}

/// A key above a position.
pub(super) trait Item: Pod + Ord + Send + Sync {
    const ZERO: Self;

    fn new(key: i64, position: usize, position_bits: u32) -> Self;

    /// Its bits from `shift` on, as far as `mask` has them.
    fn digit(self, shift: u32, mask: usize) -> usize;

    fn key(self, position_bits: u32) -> i64;
}

macro_rules! items {
    ($($int:ty),*) => {$(
        impl Item for $int {
            const ZERO: Self = 0;

            #[inline(always)]
            fn new(key: i64, position: usize, position_bits: u32) -> Self {
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

/// Bits of the positions of `count` keys.
pub(super) fn position_bits(count: usize) -> u32 {
    usize::BITS - count.leading_zeros()
}

/// Whether an item of `count` such keys fits in 64 bits.
pub(super) fn is_narrow(count: usize, key_bits: u32) -> bool {
    key_bits + position_bits(count) <= u64::BITS
}

/// Calls `f` with each rank in ascending order, the key that belongs there and the position that it has in `keys`. Equal keys keep their
/// order. `None` if a key is not in bounds.
pub(super) fn for_each_sorted(
    keys: &impl Keys,
    f: impl FnMut(usize, i64, usize) -> Result<()>,
) -> Option<Result<()>> {
    match is_narrow(keys.len(), keys.bits()) {
        true => visit::<u64>(keys, f),
        false => visit::<u128>(keys, f),
    }
}

fn visit<T: Item>(
    keys: &impl Keys,
    mut f: impl FnMut(usize, i64, usize) -> Result<()>,
) -> Option<Result<()>> {
    let mut items = scratch::filled(T::ZERO, keys.len());
    sort(keys, &mut items)?;
    let bits = position_bits(keys.len());
    Some(items.iter().enumerate().try_for_each(|(at, item)| f(at, item.key(bits), position(*item, bits))))
}

/// The position of an item's key.
#[inline(always)]
pub(super) fn position<T: Item>(item: T, position_bits: u32) -> usize {
    item.digit(0, usize::MAX >> (usize::BITS - position_bits.max(1)))
}

/// Writes the items of all keys in ascending order. Returns parts of them, which follow each other and have no key in common; `None` if a
/// key is not in bounds.
pub(super) fn sort<T: Item>(keys: &impl Keys, items: &mut [T]) -> Option<Vec<Range<usize>>> {
    let (low, key_bits) = (position_bits(keys.len()), keys.bits());
    let first_digit = FIRST_DIGIT.min(position_bits(keys.len() / PART)).min(key_bits);
    let shift = key_bits - first_digit;
    let mut starts = scratch::filled(0, (1 << first_digit) + 1);
    let (mut last, mut ascends) = (-1, true);
    for_each_tile(keys, |_, tile| {
        for key in tile {
            starts[(*key >> shift) as usize + 1] += 1;
            ascends &= last <= *key;
            last = *key;
        }
    })?;
    if ascends {
        for_each_tile(keys, |first, tile| {
            for ((item, key), at) in items[first..].iter_mut().zip(tile).zip(first..) {
                *item = T::new(*key, at, low);
            }
        })?;
        return Some(whole_groups(items, low));
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut next = scratch::to_vec(&starts);
    for_each_tile(keys, |first, tile| {
        for (key, at) in tile.iter().zip(first..) {
            let next = &mut next[(*key >> shift) as usize];
            items[*next] = T::new(*key, at, low);
            *next += 1;
        }
    })?;
    let parts =
        scratch::collect(starts.windows(2).map(|part| part[0]..part[1]).filter(|part| !part.is_empty()));
    let tasks = in_parts(items, parts.clone(), Range::len);
    for_each_task(tasks, |(_, part)| sort_part(part, (low, low + shift)));
    Some(parts)
}

/// Calls `f` with keys in their order, and the position of the first of them.
fn for_each_tile(keys: &impl Keys, mut f: impl FnMut(usize, &[i64])) -> Option<()> {
    let mut tile = [0; TILE];
    for first in (0..keys.len()).step_by(TILE) {
        let tile = &mut tile[..(keys.len() - first).min(TILE)];
        keys.write(first..first + tile.len(), tile)?;
        f(first, tile);
    }
    Some(())
}

/// Parts of ascending items between which the key changes.
fn whole_groups<T: Item>(items: &[T], position_bits: u32) -> Vec<Range<usize>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < items.len() {
        let mut end = (start + PART).min(items.len());
        while end < items.len() && items[end].key(position_bits) == items[end - 1].key(position_bits) {
            end += 1;
        }
        scratch::push(&mut parts, start..end);
        start = end;
    }
    parts
}

/// Sorts by the bits from `low` to below `high`; those above are equal.
fn sort_part<T: Item>(items: &mut [T], (low, high): (u32, u32)) {
    if items.len() <= TINY {
        // Positions are distinct and in the lower bits, so that the order is a stable one.
        return items.sort_unstable();
    }
    let passes = (high - low).div_ceil(DIGIT);
    let digit = (high - low).div_ceil(passes.max(1));
    let mut other = scratch::filled(T::ZERO, items.len());
    let (mut from, mut to) = (&mut *items, &mut *other);
    for pass in 0..passes {
        distribute(from, to, low + pass * digit, digit);
        std::mem::swap(&mut from, &mut to);
    }
    if passes % 2 == 1 {
        items.copy_from_slice(&other);
    }
}

/// Writes the items to `to` in the order of `bits` bits from `shift` on.
fn distribute<T: Item>(from: &[T], to: &mut [T], shift: u32, bits: u32) {
    let mask = (1 << bits) - 1;
    let mut next = [0usize; 1 << DIGIT];
    from.iter().for_each(|item| next[item.digit(shift, mask)] += 1);
    let mut start = 0;
    for next in &mut next[..1 << bits] {
        (*next, start) = (start, start + *next);
    }
    let next = &mut next;
    with_processor_vectors(
        #[inline(always)]
        move || {
            for item in from {
                let next = &mut next[item.digit(shift, mask)];
                to[*next] = *item;
                *next += 1;
            }
        },
    );
}
