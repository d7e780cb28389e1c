//! The index of the element of a given rank in a row: by selection among the sort keys, in long rows by counting their digits.

use crate::native::element_bits::Sortable;
use crate::scratch;

/// The sort key of an element, and its index. Their order is that of a stable sort.
pub(super) type Keyed = (u64, usize);

/// In rows of at least as many elements digits are counted. In shorter ones it takes longer to clear the counts.
const RADIX_MIN_LEN: usize = 4096;

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Elements are collected as soon as at most one of so many is left.
const COLLECTED_SHARE: usize = 8;

/// Replaces `items` by those of a row, in the order of their indices.
#[inline(always)]
pub(super) fn collect_items<N: Sortable>(row: &[N], items: &mut Vec<Keyed>) {
    items.clear();
    for (index, value) in row.iter().enumerate() {
        scratch::push(items, (value.sort_key(), index));
    }
}

/// Scratch memory of [`index_of_rank`].
#[derive(Default)]
pub(super) struct Memory {
    pub(super) items: Vec<Keyed>,
    keys: Vec<u64>,
    short_keys: Vec<u32>,
}

/// The index of the element of rank `k`, which is less than the length; equal elements are ranked by index.
#[inline(always)]
pub(super) fn index_of_rank<N: Sortable>(row: &[N], k: usize, memory: &mut Memory) -> usize {
    if row.len() >= RADIX_MIN_LEN {
        index_in_long_row(row, k, &mut memory.items)
    } else if size_of::<N>() <= size_of::<u32>() {
        index_by_key(row, k, &mut memory.short_keys, |value| value.sort_key() as u32)
    } else {
        index_by_key(row, k, &mut memory.keys, |value| value.sort_key())
    }
}

/// [`index_of_rank`] by selection of a sort key, which is the only one that moves: the index is sought afterwards.
#[inline(never)]
fn index_by_key<N: Sortable, K: Copy + Ord>(
    row: &[N],
    k: usize,
    keys: &mut Vec<K>,
    key_of: impl Fn(N) -> K,
) -> usize {
    if keys.capacity() < row.len() {
        *keys = scratch::with_capacity(row.len());
    }
    keys.clear();
    keys.extend(row.iter().map(|value| key_of(*value)));
    let (before, key, _) = keys.select_nth_unstable(k);
    let key = *key;
    let rank_among_equal = before.iter().filter(|other| **other == key).count();
    let equal = row.iter().enumerate().filter(|(_, value)| key_of(**value) == key);
    equal.map(|(index, _)| index).nth(rank_among_equal).unwrap_or(0)
}

/// [`index_of_rank`] by most significant digits first, after the bits that all have: each pass over the row counts the elements for each
/// value of the next digit, among those whose upper digits are the ones of the element sought. No pass moves elements.
#[inline(never)]
fn index_in_long_row<N: Sortable>(row: &[N], k: usize, items: &mut Vec<Keyed>) -> usize {
    let (common, differing_bits) = common_bits(row);
    let (mut rank, mut upper, mut shift) = (k, common, differing_bits);
    while shift > 0 {
        let width = DIGIT_BITS.min(shift);
        shift -= width;
        let counts = count_digits(row, upper, (shift, width));
        let mut digit = 0;
        while rank >= counts[digit] {
            rank -= counts[digit];
            digit += 1;
        }
        upper = upper << width | digit as u64;
        if counts[digit] <= row.len() / COLLECTED_SHARE {
            break;
        }
    }
    items.clear();
    for (index, value) in row.iter().enumerate() {
        let key = value.sort_key();
        if key >> shift == upper {
            if shift == 0 && rank == 0 {
                return index; // All others that match are equal to it.
            }
            if shift == 0 {
                rank -= 1;
            } else {
                scratch::push(items, (key, index));
            }
        }
    }
    items.select_nth_unstable(rank).1.1
}

/// The upper bits that the keys of a row have in common, and the number of bits below them.
#[inline(always)]
fn common_bits<N: Sortable>(row: &[N]) -> (u64, u32) {
    let of_all = |all: (u64, u64), value: &N| (all.0 & value.sort_key(), all.1 | value.sort_key());
    let (in_all, in_any) = row.iter().fold((u64::MAX, 0), of_all);
    let differing_bits = u64::BITS - (in_all ^ in_any).leading_zeros();
    (in_all.checked_shr(differing_bits).unwrap_or(0), differing_bits)
}

/// For each value of the digit of `width` bits from bit `shift` on, the number of elements that have it below the bits `upper`.
#[inline(always)]
fn count_digits<N: Sortable>(row: &[N], upper: u64, (shift, width): (u32, u32)) -> [usize; 1 << DIGIT_BITS] {
    let mut counts = [0; 1 << DIGIT_BITS];
    for value in row {
        let digits = value.sort_key() >> shift;
        let has_upper = digits >> width == upper;
        counts[digits as usize & ((1 << width) - 1)] += usize::from(has_upper);
    }
    counts
}
