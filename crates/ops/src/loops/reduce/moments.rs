//! Mean and variance: two passes over a block that stays in L1, blocks combined by the formula of Chan, Golub and LeVeque,
//! *Updating Formulae and a Pairwise Algorithm for Computing Sample Variances* (1979), in f64.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::blocks::{Numbers, fold_block};
use super::cascade::Cascade;
use super::fold::{BLOCK, RowFold, computing_type};
use super::folds::Sum;
use super::row_float::prefetch_for_row;
use super::strips::{SHORT, STRIP, Strip, StripResults};
use super::targets::row_fold;
use crate::loops::prefetch::Prefetch;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{
    CodegenAnchor, Convert, Float, FloatElement, FloatLanes, Isa, Kernel, Mask, Number, Ordered, Vector,
    dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, Scalar};
use std::marker::PhantomData;

/// The count, mean and sum of squares of a run of numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moments {
    /// How many numbers.
    pub(crate) count: f64,
    /// Their mean.
    pub(crate) mean: f64,
    /// The sum of the squares of their distances from it.
    pub(crate) squares: f64,
}

impl Moments {
    /// Those of two runs together.
    pub(crate) fn combine(self, other: Moments) -> Moments {
        if self.count == 0.0 || other.count == 0.0 {
            return if self.count == 0.0 { other } else { self };
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        let fraction = other.count / count;
        let squares = self.squares + other.squares + delta * delta * self.count * fraction;
        // Means that are not finite, or whose difference overflows, are weighted without it.
        let weighted = || self.mean * (self.count / count) + other.mean * fraction;
        let mean = if delta.is_finite() { self.mean + delta * fraction } else { weighted() };
        Moments { count, mean, squares }
    }

    /// The sum of squares over `count - correction`, which counts as 0 where it is negative.
    pub(crate) fn variance(self, correction: f64) -> f64 {
        if self.count == 0.0 { f64::NAN } else { self.squares / (self.count - correction).max(0.0) }
    }
}

/// Of 1 to [`BLOCK`] dense elements: a centre, which is their mean rounded to the element type; the sum of the deviations from it,
/// which corrects the rounding; and the sum of the squared deviations.
struct Deviations<T> {
    from: *const T,
    n: usize,
    /// How the first pass prefetches.
    prefetch: Prefetch,
}

impl<T> CodegenAnchor for Deviations<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I, [f64; 3]> for Deviations<T> {
    #[inline(always)]
    unsafe fn run(self) -> [f64; 3] {
        let (lanes, zero) = (T::Vector::LANES, T::Vector::zero());
        // SAFETY: the fold reads `n` elements; below, whole vectors end at or before `n`, and the last is read only up to it.
        unsafe {
            let sum = fold_block::<I, T, _>(self.from, self.n, self.prefetch, Numbers(Sum));
            let centre = T::Vector::constant(total(sum) / self.n as f64);
            let (mut deviations, mut squares) = ([zero; 4], [zero; 4]);
            let mut at = 0;
            while at + 4 * lanes <= self.n {
                for i in 0..4 {
                    let d = T::load(self.from.add(at + i * lanes)) - centre;
                    deviations[i] = deviations[i] + d;
                    squares[i] = d.mul_add(d, squares[i]);
                }
                at += 4 * lanes;
            }
            while at < self.n {
                let count = lanes.min(self.n - at);
                let d = T::load_up_to(self.from.add(at), count) - centre;
                let d = T::Vector::select(<T::Vector as Vector>::Mask::first(count), d, zero);
                deviations[0] = deviations[0] + d;
                squares[0] = d.mul_add(d, squares[0]);
                at += lanes;
            }
            [lanes_of(centre)[0], total(four(deviations)), total(four(squares))]
        }
    }
}

/// The sum of four vectors.
#[inline(always)]
pub(crate) fn four<V: Float>([a, b, c, d]: [V; 4]) -> V {
    (a + b) + (c + d)
}

/// The lanes of a vector, and zeros up to 16.
#[inline(always)]
fn lanes_of<V: Float>(v: V) -> [f64; 16] {
    let mut lanes = [V::Element::from_scalar(Scalar::Int(0)); 16];
    v.spill(&mut lanes);
    let mut wide = [0.0; 16];
    for i in 0..16 {
        wide[i] = lanes[i].to_scalar().to_f64();
    }
    wide
}

/// The sum of all lanes, as a tree in f64.
#[inline(always)]
pub(crate) fn total<V: Float>(v: V) -> f64 {
    let lanes = lanes_of(v);
    let (mut eight, mut quarter) = ([0.0; 8], [0.0; 4]);
    for i in 0..8 {
        eight[i] = lanes[i] + lanes[i + 8];
    }
    for i in 0..4 {
        quarter[i] = eight[i] + eight[i + 4];
    }
    (quarter[0] + quarter[2]) + (quarter[1] + quarter[3])
}

/// f32 and f64, which have kernels for moments.
pub(crate) trait MomentElement: Element + Convert + FloatElement {
    /// The moments of at most [`BLOCK`] dense elements.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements.
    unsafe fn block(from: *const Self, n: usize, prefetch: Prefetch) -> Moments;
    /// The variances, by a division by `divisor`, or their roots, and the means of a strip of short rows.
    ///
    /// # Safety
    /// - The strip is valid for reading.
    unsafe fn of_strip(strip: Strip, divisor: f64, root: bool) -> StripMoments<Self>;
}

/// The results for a strip, and whether they are finite: the others are found by [`of_any`].
pub(crate) struct StripMoments<T> {
    results: [[T; STRIP]; 2],
    is_finite: [bool; STRIP],
}

/// [`Deviations`] of each row of a strip, and what follows from them.
struct DeviationsOfStrip<T> {
    strip: Strip,
    divisor: f64,
    root: bool,
    element: PhantomData<T>,
}

impl<T> CodegenAnchor for DeviationsOfStrip<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I> + Default> Kernel<I, StripMoments<T>> for DeviationsOfStrip<T> {
    #[inline(always)]
    unsafe fn run(self) -> StripMoments<T> {
        let (elements, n) = (self.strip.elements.cast::<T>(), self.strip.n);
        let mut found = StripMoments { results: [[T::default(); STRIP]; 2], is_finite: [false; STRIP] };
        let (zero, count) = (T::Vector::zero(), T::Vector::constant(n as f64));
        let divisor = T::Vector::constant(self.divisor);
        for first in (0..STRIP).step_by(T::Vector::LANES) {
            // SAFETY: whole vectors of the strip, which is a multiple of any number of lanes long.
            unsafe {
                let (mut sum, mut deviation, mut squares) = (zero, zero, zero);
                for i in 0..n {
                    sum = sum + T::load(elements.add(i * STRIP + first));
                }
                let centre = sum / count;
                for i in 0..n {
                    let d = T::load(elements.add(i * STRIP + first)) - centre;
                    deviation = deviation + d;
                    squares = d.mul_add(d, squares);
                }
                let correction = deviation / count;
                let squares = squares - deviation * correction;
                let squares = T::Vector::select(squares.lt(zero), zero, squares);
                let infinity = T::Vector::constant(f64::INFINITY);
                let is_finite = centre.abs().lt(infinity) & squares.abs().lt(infinity);
                is_finite.store_bool(found.is_finite.as_mut_ptr().add(first), T::Vector::LANES);
                let variance = squares / divisor;
                let spread = if self.root { variance.sqrt() } else { variance };
                T::store(spread, found.results[0].as_mut_ptr().add(first));
                T::store(centre + correction, found.results[1].as_mut_ptr().add(first));
            }
        }
        found
    }
}

/// The moments of numbers of which some are not finite, or so large that their sum or squares are not: in f64, one by one, by the
/// algorithm of Welford, *Note on a Method for Calculating Corrected Sums of Squares and Products* (1962), whose intermediate results
/// do not overflow.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[cold]
unsafe fn of_any<T: MomentElement>(from: *const T, n: usize) -> Moments {
    // SAFETY: this function's condition.
    let numbers = || (0..n).map(|i| unsafe { load_one(from.add(i)) }.to_scalar().to_f64());
    let mut found = Moments::default();
    for x in numbers() {
        found.count += 1.0;
        let deviation = x - found.mean;
        found.mean += deviation / found.count;
        found.squares += deviation * (x - found.mean);
    }
    if !found.mean.is_finite() {
        // An infinity; or NaN where an element is NaN, or there are both infinities.
        found.mean = numbers().map(|x| x / n as f64).sum();
    }
    found
}

/// [`of_any`] of a row of a strip.
///
/// # Safety
/// - The strip is valid for reading.
#[cold]
unsafe fn of_any_in_strip<T: MomentElement>(strip: Strip, row: usize) -> Moments {
    let mut elements = [T::from_scalar(Scalar::Int(0)); SHORT];
    for (element, from) in elements[..strip.n].iter_mut().zip(strip.addresses(size_of::<T>())) {
        // SAFETY: an element of the row.
        *element = unsafe { load_one(from.cast::<T>().add(row)) };
    }
    // SAFETY: the array holds them.
    unsafe { of_any(elements.as_ptr(), strip.n) }
}

macro_rules! moment_element {
    ($($float:ident)*) => {$(
        impl MomentElement for $float {
            #[inline]
            unsafe fn block(from: *const Self, n: usize, prefetch: Prefetch) -> Moments {
                if n == 0 {
                    return Moments::default();
                }
                let count = n as f64;
                // SAFETY: this function's condition.
                let [centre, deviation, squares] = unsafe { dispatch(Deviations { from, n, prefetch }) };
                let squares = squares - deviation * deviation / count;
                if !(centre.is_finite() && squares.is_finite()) {
                    // SAFETY: this function's condition.
                    return unsafe { of_any(from, n) };
                }
                // Not `max`, which would replace a NaN by 0.
                Moments { count, mean: centre + deviation / count, squares: if squares < 0.0 { 0.0 } else { squares } }
            }
            #[inline]
            unsafe fn of_strip(strip: Strip, divisor: f64, root: bool) -> StripMoments<Self> {
                // SAFETY: this function's condition.
                unsafe { dispatch(DeviationsOfStrip { strip, divisor, root, element: PhantomData }) }
            }
        }
    )*};
}

moment_element!(f32 f64);

/// The moments of the `n` dense elements of a row that is read again.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn moments_of<T: MomentElement>(from: *const T, n: usize) -> Moments {
    // SAFETY: this function's condition.
    unsafe { moments_with_prefetch(from, n, prefetch_for_row::<T>(n)) }
}

/// [`moments_of`] with another prefetch.
///
/// # Safety
/// - As [`moments_of`].
#[inline]
pub(crate) unsafe fn moments_with_prefetch<T: MomentElement>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
) -> Moments {
    // SAFETY: this function's condition.
    let block = |start: usize| unsafe { T::block(from.add(start), BLOCK.min(n - start), prefetch) };
    if n <= BLOCK {
        return block(0);
    }
    Cascade::of((0..n).step_by(BLOCK).map(block), Moments::combine).unwrap_or_default()
}

/// Writes the variance, or its root, and the mean.
#[derive(Clone, Copy)]
struct MomentFold<T> {
    correction: f64,
    root: bool,
    prefetch: Prefetch,
    element: PhantomData<fn() -> T>,
}

impl<T: MomentElement> MomentFold<T> {
    fn variance_or_root(self, state: Moments) -> T {
        let variance = state.variance(self.correction);
        T::from_scalar(Scalar::Float(if self.root { variance.sqrt() } else { variance }))
    }
}

impl<T: MomentElement> RowFold<2> for MomentFold<T> {
    type State = Moments;

    fn empty(self) -> Moments {
        Moments { mean: f64::NAN, ..Moments::default() }
    }
    #[inline]
    unsafe fn block(self, from: *const u8, n: usize, _: usize) -> Moments {
        // SAFETY: `from` is valid for `n` elements.
        unsafe { T::block(from.cast(), n, self.prefetch) }
    }
    unsafe fn strip(self, strip: Strip, results: &StripResults<2>) {
        let divisor = (strip.n as f64 - self.correction).max(0.0);
        // SAFETY: this function's conditions.
        unsafe {
            let found = T::of_strip(strip, divisor, self.root);
            (0..2).for_each(|m| results.write(m, &found.results[m]));
            for row in (0..strip.count).filter(|row| !found.is_finite[*row]) {
                self.write(of_any_in_strip::<T>(strip, row), results.of_row(row));
            }
        }
    }
    fn combine(self, a: Moments, b: Moments) -> Moments {
        a.combine(b)
    }
    unsafe fn write(self, state: Moments, to: [*mut u8; 2]) {
        // SAFETY: each takes one element.
        unsafe {
            to[0].cast::<T>().write_unaligned(self.variance_or_root(state));
            to[1].cast::<T>().write_unaligned(T::from_scalar(Scalar::Float(state.mean)));
        }
    }
}

/// The variance over `count - correction` (or its root) and the mean of floating point numbers.
///
/// # Errors
/// As [`row_fold`].
pub(crate) fn moments(
    input: &Tensor,
    variance: &Tensor,
    mean: &Tensor,
    mask: DimMask,
    correction: f64,
    root: bool,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(wide_floats, kernel, "var", T => {
        let fold = MomentFold::<T> { correction, root, prefetch: Prefetch::for_fold(input), element: PhantomData };
        row_fold(input, [variance, mean], mask, kernel, [kernel; 2], fold)
    })
}
