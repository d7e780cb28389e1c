//! Sums of a few numbers each, many at a time: inner products of rows, and segments of terms. A compiler makes no vectors of sums that
//! end in one number, so these are written in vectors.
#![expect(
    unsafe_code,
    reason = "vectors are loaded from parts of slices, and gathered at indices that are checked before"
)]

use crate::vectorized::{CodegenAnchor, Float, FloatLanes, Isa, Kernel, Number, Vector, dispatch};
use std::ops::Range;

/// Partial sums of an inner product.
const OF_PRODUCTS: usize = 32;
/// Partial sums of terms.
const OF_TERMS: usize = 16;

/// The inner products of pairs of rows of two matrices with rows of one length.
pub(super) struct InnerProducts<'a, T, R> {
    pub(super) matrices: [&'a [T]; 2],
    pub(super) width: usize,
    /// The row of the first matrix and that of the second, for each product.
    pub(super) rows: R,
    pub(super) out: &'a mut [T],
}

impl<T, R> CodegenAnchor for InnerProducts<'_, T, R> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I, Vector: Number<Element = T>> + Copy, R: FnMut() -> (usize, usize)> Kernel<I>
    for InnerProducts<'_, T, R>
{
    #[inline(always)]
    unsafe fn run(mut self) {
        let InnerProducts { matrices: [a, b], width, rows, out } = &mut self;
        let each = OF_PRODUCTS / T::Vector::LANES;
        let mut sums = [T::Vector::zero(); OF_PRODUCTS];
        for out in out.chunks_mut(T::Vector::LANES) {
            for sums in sums.chunks_exact_mut(each).take(out.len()) {
                let (first, second) = rows();
                let (x, y) = (&a[first * *width..][..*width], &b[second * *width..][..*width]);
                match T::Vector::LANES {
                    16 => write_products::<I, T, 2>(x, y, sums),
                    8 => write_products::<I, T, 4>(x, y, sums),
                    4 => write_products::<I, T, 8>(x, y, sums),
                    2 => write_products::<I, T, 16>(x, y, sums),
                    _ => write_products::<I, T, 32>(x, y, sums),
                }
            }
            store::<I, T>(total(&mut sums), out);
        }
    }
}

/// Writes the sums of products in lanes: `N` vectors, which stay in registers.
#[inline(always)]
fn write_products<I: Isa, T: FloatLanes<I>, const N: usize>(x: &[T], y: &[T], to: &mut [T::Vector]) {
    let mut sums = [T::Vector::zero(); N];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<OF_PRODUCTS>(), y.as_chunks::<OF_PRODUCTS>());
    for (x, y) in x.iter().zip(y) {
        for (at, sum) in sums.iter_mut().enumerate() {
            let first = at * T::Vector::LANES;
            // SAFETY: `N` vectors are a chunk.
            let (x, y) = unsafe { (T::load(x.as_ptr().add(first)), T::load(y.as_ptr().add(first))) };
            *sum = x.mul_add(y, *sum);
        }
    }
    let rests = x_rest.chunks(T::Vector::LANES).zip(y_rest.chunks(T::Vector::LANES));
    for (sum, (x, y)) in sums.iter_mut().zip(rests) {
        *sum = load::<I, T>(x).mul_add(load::<I, T>(y), *sum);
    }
    to.copy_from_slice(&sums);
}

/// The sums of segments whose terms are next to each other.
struct SegmentSums<'a, T, P> {
    terms: &'a [T],
    /// The positions of each segment.
    positions: P,
    out: &'a mut [T],
}

impl<T, P> CodegenAnchor for SegmentSums<'_, T, P> {
    type Anchor = T;
}

impl<I: Isa, T: FloatLanes<I, Vector: Number<Element = T>> + Copy, P: FnMut() -> Range<usize>> Kernel<I>
    for SegmentSums<'_, T, P>
{
    #[inline(always)]
    unsafe fn run(mut self) {
        for out in self.out.chunks_mut(T::Vector::LANES) {
            let mut left = out.len();
            let totals = each_total(
                #[inline(always)]
                || {
                    if left == 0 {
                        return T::Vector::zero();
                    }
                    left -= 1;
                    of_segment::<I, T>(&self.terms[(self.positions)()])
                },
            );
            store::<I, T>(totals, out);
        }
    }
}

/// Sums of the terms of a segment that add up to its sum, in one vector: term `k` counts in partial sum `k % OF_TERMS`, and adjacent ones
/// are added until they are as many as lanes.
#[inline(always)]
fn of_segment<I: Isa, T: FloatLanes<I, Vector: Number<Element = T>>>(terms: &[T]) -> T::Vector {
    let lanes = T::Vector::LANES;
    let mut sums = [T::Vector::zero(); OF_TERMS];
    let sums = &mut sums[..OF_TERMS / lanes];
    let (chunks, rest) = terms.as_chunks::<OF_TERMS>();
    for terms in chunks {
        for (sum, terms) in sums.iter_mut().zip(terms.chunks_exact(lanes)) {
            // SAFETY: a part has as many terms as a vector.
            *sum = *sum + unsafe { T::load(terms.as_ptr()) };
        }
    }
    // All vectors of the rest, empty ones too: how many it fills is what a processor cannot foresee.
    for (sum, first) in sums.iter_mut().zip((0..OF_TERMS).step_by(lanes)) {
        let count = rest.len().saturating_sub(first).min(lanes);
        // SAFETY: `count` terms are left, and no more than a vector has.
        *sum = *sum + unsafe { T::load_partial(rest.as_ptr().wrapping_add(first), count) };
    }
    total(sums)
}

/// The totals of as many vectors as a vector has lanes, each in its lane. Vectors are added as soon as two are there, so that they stay in
/// registers.
#[inline(always)]
fn each_total<V: Float>(mut next: impl FnMut() -> V) -> V {
    let next = &mut next;
    match V::LANES {
        16 => adjacent(of_eight(next), of_eight(next)),
        8 => of_eight(next),
        4 => of_four(next),
        2 => of_two(next),
        _ => next(),
    }
}

#[inline(always)]
fn of_eight<V: Float>(next: &mut impl FnMut() -> V) -> V {
    adjacent(of_four(next), of_four(next))
}

#[inline(always)]
fn of_four<V: Float>(next: &mut impl FnMut() -> V) -> V {
    adjacent(of_two(next), of_two(next))
}

#[inline(always)]
fn of_two<V: Float>(next: &mut impl FnMut() -> V) -> V {
    adjacent(next(), next())
}

/// The sums of adjacent lanes of two vectors.
#[inline(always)]
fn adjacent<V: Float>(first: V, second: V) -> V {
    let (even, odd) = first.deinterleave(second);
    even + odd
}

/// The first elements of a vector; zeros follow them.
#[inline(always)]
fn load<I: Isa, T: FloatLanes<I>>(from: &[T]) -> T::Vector {
    // SAFETY: no part is longer than a vector.
    unsafe { T::load_up_to(from.as_ptr(), from.len().min(T::Vector::LANES)) }
}

#[inline(always)]
fn store<I: Isa, T: FloatLanes<I>>(vector: T::Vector, to: &mut [T]) {
    // SAFETY: no part is longer than a vector.
    unsafe { T::store_up_to(vector, to.as_mut_ptr(), to.len().min(T::Vector::LANES)) }
}

/// The sums of adjacent lanes, of adjacent sums of these, and so on, until there is one vector, with a number for each group.
#[inline(always)]
fn total<V: Float>(sums: &mut [V]) -> V {
    let mut count = sums.len() / 2;
    while count > 0 {
        for at in 0..count {
            sums[at] = adjacent(sums[2 * at], sums[2 * at + 1]);
        }
        count /= 2;
    }
    sums[0]
}

/// Numbers whose sums are computed many at a time.
pub(super) trait LaneSums: Sized {
    /// The inner products of the rows that `rows` gives, one pair after another.
    fn inner_products(
        rows: impl FnMut() -> (usize, usize),
        matrices: [&[Self]; 2],
        width: usize,
        out: &mut [Self],
    );

    /// The sums of the terms at the positions that `positions` gives, one range after another.
    fn segment_sums(positions: impl FnMut() -> Range<usize>, terms: &[Self], out: &mut [Self]);
}

macro_rules! lane_sums {
    ($($float:ty),*) => {$(
        impl LaneSums for $float {
            #[inline]
            fn inner_products(
                rows: impl FnMut() -> (usize, usize),
                matrices: [&[Self]; 2],
                width: usize,
                out: &mut [Self],
            ) {
                // SAFETY: the kernel has no conditions of its own.
                unsafe { dispatch(InnerProducts { matrices, width, rows, out }) }
            }

            #[inline]
            fn segment_sums(positions: impl FnMut() -> Range<usize>, terms: &[Self], out: &mut [Self]) {
                // SAFETY: the kernel has no conditions of its own.
                unsafe { dispatch(SegmentSums { terms, positions, out }) }
            }
        }
    )*};
}

lane_sums!(f32, f64);

/// Whole numbers, whose sums wrap around: they are the same in any order.
impl LaneSums for i64 {
    fn inner_products(
        mut rows: impl FnMut() -> (usize, usize),
        [a, b]: [&[Self]; 2],
        width: usize,
        out: &mut [Self],
    ) {
        for out in out {
            let (first, second) = rows();
            let pairs = a[first * width..][..width].iter().zip(&b[second * width..][..width]);
            *out = pairs.fold(0, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)));
        }
    }

    fn segment_sums(mut positions: impl FnMut() -> Range<usize>, terms: &[Self], out: &mut [Self]) {
        for out in out {
            *out = terms[positions()].iter().fold(0, |sum, x| sum.wrapping_add(*x));
        }
    }
}
