//! How many elements of a sorted row come before each of many values: by counting in short rows, else by binary searches without branches,
//! which would not be predictable.

use crate::native::element_bits::Sortable;
use crate::vectorized::with_processor_vectors;
use std::hint::select_unpredictable;

/// The maximum size of the sort keys of boundaries that are counted rather than searched.
const MAX_COUNTED_BYTES: usize = MAX_COUNTED * size_of::<u32>();
const MAX_COUNTED: usize = 64;

/// Values that are counted at a time.
const BLOCK: usize = 64;

/// Values that are searched at a time, so that the processor loads boundaries for several while it waits for one.
const SEARCHES: usize = 8;

/// For each of `values` the number of elements of the sorted row `sequence` that are less, or with `right` at most equal.
pub(super) fn ranks<N: Sortable>(sequence: &[N], values: &[N], right: bool, out: &mut [i64]) {
    let is_short = sequence.len() * size_of::<N>().max(size_of::<u32>()) <= MAX_COUNTED_BYTES;
    if is_short && values.len() >= SEARCHES {
        if size_of::<N>() <= size_of::<u32>() {
            count::<N, u32>(sequence, values, right, out);
        } else {
            count::<N, u64>(sequence, values, right, out);
        }
    } else if right {
        search::<N, true>(sequence, values, out);
    } else {
        search::<N, false>(sequence, values, out);
    }
}

/// Whether a boundary comes before a value, by their sort keys.
#[inline(always)]
fn is_before<K: Ord, const RIGHT: bool>(boundary: &K, value: &K) -> bool {
    if RIGHT { boundary <= value } else { boundary < value }
}

/// An unsigned integer that holds sort keys.
trait Key: Copy + Default + Ord {
    /// The sort key of an element of at most this size.
    fn of<N: Sortable>(value: N) -> Self;
    /// One if `condition`, else zero.
    fn one_if(condition: bool) -> Self;
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// As an index.
    fn to_index(self) -> i64;
}

macro_rules! keys {
    ($($rust:ty)*) => {$(
        impl Key for $rust {
            #[inline(always)]
            fn of<N: Sortable>(value: N) -> Self {
                value.sort_key() as $rust
            }
            #[inline(always)]
            fn one_if(condition: bool) -> Self {
                <$rust>::from(condition)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn to_index(self) -> i64 {
                self as i64
            }
        }
    )*};
}

keys! { u32 u64 }

/// [`ranks`] of at most [`MAX_COUNTED`] boundaries.
fn count<N: Sortable, K: Key>(sequence: &[N], values: &[N], right: bool, out: &mut [i64]) {
    let mut boundaries = [K::default(); MAX_COUNTED];
    for (boundary, value) in boundaries.iter_mut().zip(sequence) {
        *boundary = K::of(*value);
    }
    let boundaries = &boundaries[..sequence.len()];
    with_processor_vectors(
        #[inline(always)]
        || {
            if right {
                count_keys::<N, K, true>(boundaries, values, out);
            } else {
                count_keys::<N, K, false>(boundaries, values, out);
            }
        },
    );
}

#[inline(always)]
fn count_keys<N: Sortable, K: Key, const RIGHT: bool>(boundaries: &[K], values: &[N], out: &mut [i64]) {
    let (mut keys, mut counts) = ([K::default(); BLOCK], [K::default(); BLOCK]);
    for (values, out) in values.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        for (key, value) in keys.iter_mut().zip(values) {
            *key = K::of(*value);
        }
        counts.fill(K::default());
        for boundary in boundaries {
            for (count, key) in counts.iter_mut().zip(&keys) {
                *count = count.plus(K::one_if(is_before::<K, RIGHT>(boundary, key)));
            }
        }
        for (to, count) in out.iter_mut().zip(&counts) {
            *to = count.to_index();
        }
    }
}

/// [`ranks`] by binary searches.
fn search<N: Sortable, const RIGHT: bool>(sequence: &[N], values: &[N], out: &mut [i64]) {
    let whole = values.len() - values.len() % SEARCHES;
    let (several, single) = values.split_at(whole);
    for (values, out) in several.as_chunks::<SEARCHES>().0.iter().zip(out.as_chunks_mut::<SEARCHES>().0) {
        *out = search_together::<N, SEARCHES, RIGHT>(sequence, values);
    }
    for (value, to) in single.iter().zip(&mut out[whole..]) {
        [*to] = search_together::<N, 1, RIGHT>(sequence, &[*value]);
    }
}

/// The ranks of `COUNT` values, whose searches take the same number of steps.
#[inline(always)]
fn search_together<N: Sortable, const COUNT: usize, const RIGHT: bool>(
    sequence: &[N],
    values: &[N; COUNT],
) -> [i64; COUNT] {
    let (mut keys, mut starts) = ([0; COUNT], [0; COUNT]);
    for (key, value) in keys.iter_mut().zip(values) {
        *key = value.sort_key();
    }
    // A rank is at least `start` and at most `start + len`.
    let mut len = sequence.len();
    while len > 1 {
        let half = len / 2;
        for (start, key) in starts.iter_mut().zip(&keys) {
            let middle = *start + half;
            let is_after = is_before::<u64, RIGHT>(&sequence[middle - 1].sort_key(), key);
            *start = select_unpredictable(is_after, middle, *start);
        }
        len -= half;
    }
    let mut ranks = [0; COUNT];
    for ((rank, start), key) in ranks.iter_mut().zip(starts).zip(&keys) {
        let last = sequence.get(start).map(|last| last.sort_key());
        *rank = start as i64 + i64::from(last.is_some_and(|last| is_before::<u64, RIGHT>(&last, key)));
    }
    ranks
}
