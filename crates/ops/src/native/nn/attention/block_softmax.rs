//! Scores of a block of queries, made into weights: a lane is a query, so that sums over keys never leave their lane.
#![expect(unsafe_code, reason = "a block of scores is raw memory; vector registers")]

use crate::vectorized::{
    Float, FloatElement, FloatLanes, Isa, Kernel, Mask, Number, Ordered, CodegenAnchor, Vector, dispatch,
};
use flambeau_core::Element;

/// Keys whose weights are added up by themselves, so that a long sum does not lose its digits.
const RUN: usize = 64;

/// A row for each key, a column for each query of a block.
#[derive(Clone, Copy)]
pub(super) struct Scores<T> {
    pub(super) at: *mut T,
    /// From one row to the next.
    pub(super) pitch: usize,
    pub(super) keys: usize,
    pub(super) queries: usize,
    /// How many keys the first query sees. Each next one sees one more, as far as there are.
    pub(super) open: usize,
}

/// What is known of each query of a block: its greatest score, and the inverse of the sum of its exponentials.
#[derive(Clone, Copy)]
pub(super) struct Statistics<T> {
    pub(super) greatest: *mut T,
    pub(super) inverse: *mut T,
}

/// Adjacent columns that fill a vector, or what is left of them.
#[derive(Clone, Copy)]
struct Group<T> {
    scores: Scores<T>,
    first: usize,
    count: usize,
    /// Keys that all of these queries see, and keys that some of them sees.
    clear: usize,
    seen: usize,
}

impl<T: Copy> Group<T> {
    #[inline(always)]
    fn new(scores: Scores<T>, first: usize, lanes: usize) -> Self {
        let count = lanes.min(scores.queries - first);
        let clear = (scores.open + first).min(scores.keys);
        let seen = (scores.open + first + count - 1).min(scores.keys);
        Group { scores, first, count, clear, seen }
    }

    /// The place of these columns in the row of `key`, of a block laid out as the scores.
    #[inline(always)]
    fn place(&self, key: usize) -> usize {
        key * self.scores.pitch + self.first
    }

    /// The queries that do not see `key`, one that some query sees and not all.
    #[inline(always)]
    fn hidden<M: Mask>(&self, key: usize) -> M {
        M::first(key + 1 - self.scores.open - self.first)
    }

    /// # Safety
    /// - `block` is laid out as the scores.
    #[inline(always)]
    unsafe fn load<I: Isa>(&self, block: *const T, key: usize) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the block has these elements.
        unsafe { T::load_up_to(block.add(self.place(key)), self.count) }
    }

    /// # Safety
    /// - `block` is laid out as the scores, and writable.
    #[inline(always)]
    unsafe fn store<I: Isa>(&self, block: *mut T, key: usize, value: T::Vector)
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the block has these elements.
        unsafe { T::store_up_to(value, block.add(self.place(key)), self.count) }
    }

    /// Zeros for the keys that none of these queries sees.
    ///
    /// # Safety
    /// - As [`Self::store`].
    #[inline(always)]
    unsafe fn hide<I: Isa>(&self, block: *mut T)
    where
        T: FloatLanes<I>,
    {
        for key in self.seen..self.scores.keys {
            // SAFETY: the caller's condition.
            unsafe { self.store::<I>(block, key, T::Vector::zero()) }
        }
    }

    /// The greatest score of each query, or 0 where it sees no key with a chance. NaNs are left to the exponentials.
    ///
    /// # Safety
    /// - The scores are readable.
    #[inline(always)]
    unsafe fn greatest<I: Isa>(&self) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let lowest = T::Vector::constant(f64::NEG_INFINITY);
        // Four at a time, so that one comparison need not wait for the other.
        let (mut four, whole) = ([lowest; 4], self.clear - self.clear % 4);
        // SAFETY: rows below `seen`.
        unsafe {
            for key in (0..whole).step_by(4) {
                for (i, greatest) in four.iter_mut().enumerate() {
                    *greatest = self.load::<I>(self.scores.at, key + i).max(*greatest);
                }
            }
            for key in whole..self.clear {
                four[0] = self.load::<I>(self.scores.at, key).max(four[0]);
            }
            for key in self.clear..self.seen {
                let score = self.load::<I>(self.scores.at, key);
                four[1] = T::Vector::select(self.hidden(key), lowest, score).max(four[1]);
            }
        }
        let greatest = four[0].max(four[1]).max(four[2].max(four[3]));
        T::Vector::select(greatest.eq(lowest), T::Vector::zero(), greatest)
    }

    /// `e^(score - shift)` in place of every score, and their sums.
    ///
    /// # Safety
    /// - The scores are readable and writable.
    #[inline(always)]
    unsafe fn exponentials<I: Isa>(&self, shift: T::Vector) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let (at, zero) = (self.scores.at, T::Vector::zero());
        let mut total = zero;
        // SAFETY: rows below `keys`.
        unsafe {
            for start in (0..self.seen).step_by(RUN) {
                let (end, mut sum) = ((start + RUN).min(self.seen), zero);
                for key in start..end.min(self.clear) {
                    let weight = (self.load::<I>(at, key) - shift).exp();
                    self.store::<I>(at, key, weight);
                    sum = sum + weight;
                }
                for key in start.max(self.clear)..end {
                    let weight = (self.load::<I>(at, key) - shift).exp();
                    let weight = T::Vector::select(self.hidden(key), zero, weight);
                    self.store::<I>(at, key, weight);
                    sum = sum + weight;
                }
                total = total + sum;
            }
            self.hide::<I>(at);
        }
        total
    }

    /// Weights in place of scores, and the sums of weight times slope.
    ///
    /// # Safety
    /// - Both blocks are laid out as the scores, and these are writable.
    #[inline(always)]
    unsafe fn weights<I: Isa>(&self, slopes: *const T, shift: T::Vector, inverse: T::Vector) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let (at, zero) = (self.scores.at, T::Vector::zero());
        let mut total = zero;
        // SAFETY: rows below `keys`.
        unsafe {
            for start in (0..self.seen).step_by(RUN) {
                let (end, mut sum) = ((start + RUN).min(self.seen), zero);
                for key in start..end.min(self.clear) {
                    let weight = (self.load::<I>(at, key) - shift).exp() * inverse;
                    self.store::<I>(at, key, weight);
                    sum = weight.mul_add(self.load::<I>(slopes, key), sum);
                }
                for key in start.max(self.clear)..end {
                    let hidden = self.hidden(key);
                    let weight = (self.load::<I>(at, key) - shift).exp() * inverse;
                    let weight = T::Vector::select(hidden, zero, weight);
                    self.store::<I>(at, key, weight);
                    let slope = T::Vector::select(hidden, zero, self.load::<I>(slopes, key));
                    sum = weight.mul_add(slope, sum);
                }
                total = total + sum;
            }
            self.hide::<I>(at);
        }
        total
    }

    /// `weight * (slope - mean)` in place of every slope.
    ///
    /// # Safety
    /// - Both blocks are laid out as the scores, and the slopes are writable.
    #[inline(always)]
    unsafe fn through_softmax<I: Isa>(&self, slopes: *mut T, mean: T::Vector)
    where
        T: FloatLanes<I>,
    {
        // SAFETY: rows below `keys`.
        unsafe {
            for key in 0..self.clear {
                let slope = self.load::<I>(slopes, key) - mean;
                self.store::<I>(slopes, key, self.load::<I>(self.scores.at, key) * slope);
            }
            for key in self.clear..self.seen {
                let slope = self.load::<I>(self.scores.at, key) * (self.load::<I>(slopes, key) - mean);
                let slope = T::Vector::select(self.hidden(key), T::Vector::zero(), slope);
                self.store::<I>(slopes, key, slope);
            }
            self.hide::<I>(slopes);
        }
    }
}

struct Weigh<T>(Scores<T>, Statistics<T>);

impl<T> CodegenAnchor for Weigh<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for Weigh<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let (Weigh(scores, to), zero) = (self, T::Vector::zero());
        for first in (0..scores.queries).step_by(T::Vector::LANES) {
            let group = Group::new(scores, first, T::Vector::LANES);
            // SAFETY: the block is as it says, and the statistics take a number for each query.
            unsafe {
                let greatest = group.greatest::<I>();
                let sum = group.exponentials::<I>(greatest);
                let inverse = T::Vector::select(sum.eq(zero), zero, sum.recip());
                T::store_up_to(greatest, to.greatest.add(first), group.count);
                T::store_up_to(inverse, to.inverse.add(first), group.count);
            }
        }
    }
}

struct WeighAgain<T>(Scores<T>, Statistics<T>, *mut T);

impl<T> CodegenAnchor for WeighAgain<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for WeighAgain<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let WeighAgain(scores, known, slopes) = self;
        for first in (0..scores.queries).step_by(T::Vector::LANES) {
            let group = Group::new(scores, first, T::Vector::LANES);
            // SAFETY: the blocks are as they say, and there are statistics of each query.
            unsafe {
                let greatest = T::load_up_to(known.greatest.add(first), group.count);
                let inverse = T::load_up_to(known.inverse.add(first), group.count);
                let mean = group.weights::<I>(slopes, greatest, inverse);
                group.through_softmax::<I>(slopes, mean);
            }
        }
    }
}

/// Rows of a matrix, each with adjacent elements.
#[derive(Clone, Copy)]
pub(super) struct Rows<T> {
    pub(super) at: *mut T,
    /// From one row to the next.
    pub(super) pitch: isize,
    pub(super) count: usize,
    pub(super) width: usize,
}

struct Scale<T>(Rows<T>, *const T);

impl<T> CodegenAnchor for Scale<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for Scale<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let Scale(rows, factors) = self;
        for i in 0..rows.count {
            // SAFETY: row `i`, and its factor.
            unsafe {
                let (row, factor) = (rows.at.offset(i as isize * rows.pitch), factors.add(i).read());
                let factor = T::Vector::splat(factor.widen());
                for first in (0..rows.width).step_by(T::Vector::LANES) {
                    let count = T::Vector::LANES.min(rows.width - first);
                    let value = T::load_up_to(row.add(first), count) * factor;
                    T::store_up_to(value, row.add(first), count);
                }
            }
        }
    }
}

/// The types that blocks of scores exist for. Its functions are not generic, so that they are compiled once.
pub(super) trait Weighed: Element + FloatElement {
    /// Exponentials in place of scores, zeros where a key is hidden, and the statistics of each query. A query that sees no key,
    /// or none with a chance, has zeros for both.
    ///
    /// # Safety
    /// - The block is as it says and there is room for the statistics of each query.
    unsafe fn weigh(scores: Scores<Self>, to: Statistics<Self>);

    /// Weights in place of scores, from what is known of each query; and in place of slopes by weights, slopes by scores.
    ///
    /// # Safety
    /// - The block is as it says, `slopes` is another one like it, and there are statistics of each query.
    unsafe fn weigh_again(scores: Scores<Self>, known: Statistics<Self>, slopes: *mut Self);

    /// Multiplies each row by its factor.
    ///
    /// # Safety
    /// - The rows are as they say, and there is a factor for each.
    unsafe fn scale(rows: Rows<Self>, factors: *const Self);
}

macro_rules! weighed {
    ($($t:ty)*) => {$(
        impl Weighed for $t {
            unsafe fn weigh(scores: Scores<Self>, to: Statistics<Self>) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(Weigh(scores, to)) }
            }

            unsafe fn weigh_again(scores: Scores<Self>, known: Statistics<Self>, slopes: *mut Self) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(WeighAgain(scores, known, slopes)) }
            }

            unsafe fn scale(rows: Rows<Self>, factors: *const Self) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(Scale(rows, factors)) }
            }
        }
    )*};
}
weighed!(f32 f64);
