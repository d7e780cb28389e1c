//! Transposes blocks of short rows in registers: from the elements of one row after another, as they are in memory, to one element of all
//! rows after another, and back.
//!
//! In a block of 2^k rows, the position of an element is `row * length + index`. To interleave the first half of all positions with the second
//! moves the highest bit of the row to the lowest of the position. After k such steps it is `index * 2^k + row`.

use crate::small::LONGEST;
use flambeau_vectorized::Float;

/// The most vectors of a block.
pub(crate) const VECTORS: usize = 2 * LONGEST;

/// The elements of a block of rows.
pub(crate) type Block<V> = [V; VECTORS];

/// How many vectors of rows a block has whose rows consist of `length` floats: as many as make the halves whole vectors.
#[inline(always)]
pub(crate) fn vectors_of_rows(length: usize) -> usize {
    1 + length % 2
}

/// Calls a function for a block of so many vectors: a constant for small ones, which remain in registers.
macro_rules! with_constant {
    ($vectors:expr, $constant:ident or $any:ident($($argument:expr),*)) => {
        match $vectors {
            2 => $constant::<V, 2>($($argument),*),
            4 => $constant::<V, 4>($($argument),*),
            6 => $constant::<V, 6>($($argument),*),
            8 => $constant::<V, 8>($($argument),*),
            10 => $constant::<V, 10>($($argument),*),
            12 => $constant::<V, 12>($($argument),*),
            14 => $constant::<V, 14>($($argument),*),
            16 => $constant::<V, 16>($($argument),*),
            vectors => $any(vectors, $($argument),*),
        }
    };
}

/// From one row after another to one element after another, by functions that give the vectors of a block and take the result: as many as
/// `length` for each vector of rows.
#[inline(always)]
pub(crate) fn to_elements<V: Float>(
    length: usize,
    blocks: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    store: impl FnMut(usize, V),
) {
    let vectors = vectors_of_rows(length);
    let steps = (vectors * V::LANES).ilog2();
    with_constant!(length * vectors, interleave or interleave_any(steps, blocks, load, store));
}

/// The inverse of [`to_elements`].
#[inline(always)]
pub(crate) fn to_rows<V: Float>(
    length: usize,
    blocks: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    store: impl FnMut(usize, V),
) {
    let vectors = vectors_of_rows(length);
    let steps = (vectors * V::LANES).ilog2();
    with_constant!(length * vectors, deinterleave or deinterleave_any(steps, blocks, load, store));
}

#[inline(always)]
fn interleave<V: Float, const VECTORS: usize>(
    steps: u32,
    _: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    mut store: impl FnMut(usize, V),
) {
    let mut from = [V::zero(); VECTORS];
    for (i, vector) in from.iter_mut().enumerate() {
        *vector = load(i);
    }
    for _ in 0..steps {
        let mut to = from;
        for i in 0..VECTORS / 2 {
            (to[2 * i], to[2 * i + 1]) = from[i].interleave(from[i + VECTORS / 2]);
        }
        from = to;
    }
    for (i, vector) in from.iter().enumerate() {
        store(i, *vector);
    }
}

#[inline(always)]
fn deinterleave<V: Float, const VECTORS: usize>(
    steps: u32,
    _: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    mut store: impl FnMut(usize, V),
) {
    let mut from = [V::zero(); VECTORS];
    for (i, vector) in from.iter_mut().enumerate() {
        *vector = load(i);
    }
    for _ in 0..steps {
        let mut to = from;
        for i in 0..VECTORS / 2 {
            (to[i], to[i + VECTORS / 2]) = from[2 * i].deinterleave(from[2 * i + 1]);
        }
        from = to;
    }
    for (i, vector) in from.iter().enumerate() {
        store(i, *vector);
    }
}

#[inline(always)]
fn interleave_any<V: Float>(
    vectors: usize,
    steps: u32,
    blocks: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    mut store: impl FnMut(usize, V),
) {
    let ([mut from, mut to], half, quarter) = (blocks.each_mut(), vectors / 2, vectors / 4);
    for i in 0..vectors {
        from[i % VECTORS] = load(i);
    }
    let mut left = steps;
    while left > 0 {
        if left > 1 && vectors.is_multiple_of(4) {
            // Two steps at once.
            for i in 0..quarter {
                let (a, b) = from[i % VECTORS].interleave(from[(i + half) % VECTORS]);
                let (c, d) = from[(i + quarter) % VECTORS].interleave(from[(i + quarter + half) % VECTORS]);
                (to[4 * i % VECTORS], to[(4 * i + 1) % VECTORS]) = a.interleave(c);
                (to[(4 * i + 2) % VECTORS], to[(4 * i + 3) % VECTORS]) = b.interleave(d);
            }
            left -= 2;
        } else {
            for i in 0..half {
                let (low, high) = from[i % VECTORS].interleave(from[(i + half) % VECTORS]);
                (to[2 * i % VECTORS], to[(2 * i + 1) % VECTORS]) = (low, high);
            }
            left -= 1;
        }
        (from, to) = (to, from);
    }
    for i in 0..vectors {
        store(i, from[i % VECTORS]);
    }
}

#[inline(always)]
fn deinterleave_any<V: Float>(
    vectors: usize,
    steps: u32,
    blocks: &mut [Block<V>; 2],
    load: impl Fn(usize) -> V,
    mut store: impl FnMut(usize, V),
) {
    let ([mut from, mut to], half, quarter) = (blocks.each_mut(), vectors / 2, vectors / 4);
    for i in 0..vectors {
        from[i % VECTORS] = load(i);
    }
    let mut left = steps;
    while left > 0 {
        if left > 1 && vectors.is_multiple_of(4) {
            // Two steps at once.
            for i in 0..quarter {
                let (a, c) = from[4 * i % VECTORS].deinterleave(from[(4 * i + 1) % VECTORS]);
                let (b, d) = from[(4 * i + 2) % VECTORS].deinterleave(from[(4 * i + 3) % VECTORS]);
                (to[i % VECTORS], to[(i + half) % VECTORS]) = a.deinterleave(b);
                (to[(i + quarter) % VECTORS], to[(i + quarter + half) % VECTORS]) = c.deinterleave(d);
            }
            left -= 2;
        } else {
            for i in 0..half {
                let (even, odd) = from[2 * i % VECTORS].deinterleave(from[(2 * i + 1) % VECTORS]);
                (to[i % VECTORS], to[(i + half) % VECTORS]) = (even, odd);
            }
            left -= 1;
        }
        (from, to) = (to, from);
    }
    for i in 0..vectors {
        store(i, from[i % VECTORS]);
    }
}
