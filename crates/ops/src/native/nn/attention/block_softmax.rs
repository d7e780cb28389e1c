//! The softmax of a block of scores. A lane is a query, so that sums over keys need no horizontal reduction.
#![expect(unsafe_code, reason = "a block of scores is raw memory; vector registers")]

use crate::vectorized::{
    CodegenAnchor, Float, FloatElement, FloatLanes, Isa, Kernel, Mask, Number, Ordered, Vector, dispatch,
};
use flambeau_core::Element;

/// Keys whose weights are summed before they are added to the total: partial sums keep rounding errors small.
const RUN: usize = 64;

/// The scores of a block: a row for each key, a column for each query.
#[derive(Clone, Copy)]
pub(super) struct Scores<T> {
    pub(super) ptr: *mut T,
    /// From one row to the next.
    pub(super) pitch: usize,
    pub(super) keys: usize,
    pub(super) queries: usize,
    /// The number of keys visible to the first query. To each following query one more key is visible, up to `keys`.
    pub(super) visible_to_first: usize,
}

/// For each query of a block the maximum of its scores, and the inverse of the sum of their exponentials.
#[derive(Clone, Copy)]
pub(super) struct Statistics<T> {
    pub(super) max_score: *mut T,
    pub(super) inverse: *mut T,
}

/// Adjacent columns that fill a vector, or the last columns.
#[derive(Clone, Copy)]
struct Group<T> {
    scores: Scores<T>,
    first: usize,
    count: usize,
    /// The number of keys visible to all of these queries, and to any of them.
    all_visible: usize,
    any_visible: usize,
}

impl<T: Copy> Group<T> {
    #[inline(always)]
    fn new(scores: Scores<T>, first: usize, lanes: usize) -> Self {
        let count = lanes.min(scores.queries - first);
        let all_visible = (scores.visible_to_first + first).min(scores.keys);
        let any_visible = (scores.visible_to_first + first + count - 1).min(scores.keys);
        Group { scores, first, count, all_visible, any_visible }
    }

    /// The offset of these columns in the row of `key`, of a block laid out as the scores.
    #[inline(always)]
    fn offset(&self, key: usize) -> usize {
        key * self.scores.pitch + self.first
    }

    /// The queries to which `key` is not visible. It is visible to some but not to all of them.
    #[inline(always)]
    fn hidden<M: Mask>(&self, key: usize) -> M {
        M::first(key + 1 - self.scores.visible_to_first - self.first)
    }

    /// # Safety
    /// - `block` is laid out as the scores.
    #[inline(always)]
    unsafe fn load<I: Isa>(&self, block: *const T, key: usize) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the block has these elements.
        unsafe { T::load_up_to(block.add(self.offset(key)), self.count) }
    }

    /// # Safety
    /// - `block` is laid out as the scores, and writable.
    #[inline(always)]
    unsafe fn store<I: Isa>(&self, block: *mut T, key: usize, value: T::Vector)
    where
        T: FloatLanes<I>,
    {
        // SAFETY: the block has these elements.
        unsafe { T::store_up_to(value, block.add(self.offset(key)), self.count) }
    }

    /// Writes zeros for the keys that are visible to none of these queries.
    ///
    /// # Safety
    /// - As [`Self::store`].
    #[inline(always)]
    unsafe fn zero_hidden<I: Isa>(&self, block: *mut T)
    where
        T: FloatLanes<I>,
    {
        for key in self.any_visible..self.scores.keys {
            // SAFETY: the caller's condition.
            unsafe { self.store::<I>(block, key, T::Vector::zero()) }
        }
    }

    /// The maximum score of each query, or 0 where all scores are minus infinity. NaNs are ignored here; the exponentials
    /// propagate them.
    ///
    /// # Safety
    /// - The scores are readable.
    #[inline(always)]
    unsafe fn max_score<I: Isa>(&self) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let lowest = T::Vector::constant(f64::NEG_INFINITY);
        // Four independent maxima, so that their latencies overlap.
        let (mut four, whole) = ([lowest; 4], self.all_visible - self.all_visible % 4);
        // SAFETY: rows below `any_visible`.
        unsafe {
            for key in (0..whole).step_by(4) {
                for (i, max_score) in four.iter_mut().enumerate() {
                    *max_score = self.load::<I>(self.scores.ptr, key + i).max(*max_score);
                }
            }
            for key in whole..self.all_visible {
                four[0] = self.load::<I>(self.scores.ptr, key).max(four[0]);
            }
            for key in self.all_visible..self.any_visible {
                let score = self.load::<I>(self.scores.ptr, key);
                four[1] = T::Vector::select(self.hidden(key), lowest, score).max(four[1]);
            }
        }
        let max_score = four[0].max(four[1]).max(four[2].max(four[3]));
        T::Vector::select(max_score.eq(lowest), T::Vector::zero(), max_score)
    }

    /// Replaces each score by `e^(score - shift)` and returns their sums.
    ///
    /// # Safety
    /// - The scores are readable and writable.
    #[inline(always)]
    unsafe fn exponentials<I: Isa>(&self, shift: T::Vector) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let (ptr, zero) = (self.scores.ptr, T::Vector::zero());
        let mut total = zero;
        // SAFETY: rows below `keys`.
        unsafe {
            for start in (0..self.any_visible).step_by(RUN) {
                let (end, mut sum) = ((start + RUN).min(self.any_visible), zero);
                for key in start..end.min(self.all_visible) {
                    let weight = (self.load::<I>(ptr, key) - shift).exp();
                    self.store::<I>(ptr, key, weight);
                    sum = sum + weight;
                }
                for key in start.max(self.all_visible)..end {
                    let weight = (self.load::<I>(ptr, key) - shift).exp();
                    let weight = T::Vector::select(self.hidden(key), zero, weight);
                    self.store::<I>(ptr, key, weight);
                    sum = sum + weight;
                }
                total = total + sum;
            }
            self.zero_hidden::<I>(ptr);
        }
        total
    }

    /// Replaces scores by weights and returns the sums of weight times gradient of the weight.
    ///
    /// # Safety
    /// - Both blocks are laid out as the scores, and these are writable.
    #[inline(always)]
    unsafe fn weights<I: Isa>(&self, score_grads: *const T, shift: T::Vector, inverse: T::Vector) -> T::Vector
    where
        T: FloatLanes<I>,
    {
        let (ptr, zero) = (self.scores.ptr, T::Vector::zero());
        let mut total = zero;
        // SAFETY: rows below `keys`.
        unsafe {
            for start in (0..self.any_visible).step_by(RUN) {
                let (end, mut sum) = ((start + RUN).min(self.any_visible), zero);
                for key in start..end.min(self.all_visible) {
                    let weight = (self.load::<I>(ptr, key) - shift).exp() * inverse;
                    self.store::<I>(ptr, key, weight);
                    sum = weight.mul_add(self.load::<I>(score_grads, key), sum);
                }
                for key in start.max(self.all_visible)..end {
                    let hidden = self.hidden(key);
                    let weight = (self.load::<I>(ptr, key) - shift).exp() * inverse;
                    let weight = T::Vector::select(hidden, zero, weight);
                    self.store::<I>(ptr, key, weight);
                    let score_grad = T::Vector::select(hidden, zero, self.load::<I>(score_grads, key));
                    sum = weight.mul_add(score_grad, sum);
                }
                total = total + sum;
            }
            self.zero_hidden::<I>(ptr);
        }
        total
    }

    /// Replaces each gradient of a weight by that of its score, `weight * (gradient - mean)`.
    ///
    /// # Safety
    /// - Both blocks are laid out as the scores, and the score_grads are writable.
    #[inline(always)]
    unsafe fn through_softmax<I: Isa>(&self, score_grads: *mut T, mean: T::Vector)
    where
        T: FloatLanes<I>,
    {
        // SAFETY: rows below `keys`.
        unsafe {
            for key in 0..self.all_visible {
                let score_grad = self.load::<I>(score_grads, key) - mean;
                self.store::<I>(score_grads, key, self.load::<I>(self.scores.ptr, key) * score_grad);
            }
            for key in self.all_visible..self.any_visible {
                let score_grad =
                    self.load::<I>(self.scores.ptr, key) * (self.load::<I>(score_grads, key) - mean);
                let score_grad = T::Vector::select(self.hidden(key), T::Vector::zero(), score_grad);
                self.store::<I>(score_grads, key, score_grad);
            }
            self.zero_hidden::<I>(score_grads);
        }
    }
}

struct SoftmaxScores<T>(Scores<T>, Statistics<T>);

impl<T> CodegenAnchor for SoftmaxScores<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for SoftmaxScores<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let (SoftmaxScores(scores, to), zero) = (self, T::Vector::zero());
        for first in (0..scores.queries).step_by(T::Vector::LANES) {
            let group = Group::new(scores, first, T::Vector::LANES);
            // SAFETY: the block has these sizes, and the statistics take an element for each query.
            unsafe {
                let max_score = group.max_score::<I>();
                let sum = group.exponentials::<I>(max_score);
                let inverse = T::Vector::select(sum.eq(zero), zero, sum.recip());
                T::store_up_to(max_score, to.max_score.add(first), group.count);
                T::store_up_to(inverse, to.inverse.add(first), group.count);
            }
        }
    }
}

struct SoftmaxScoresBackward<T>(Scores<T>, Statistics<T>, *mut T);

impl<T> CodegenAnchor for SoftmaxScoresBackward<T> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> Kernel<I> for SoftmaxScoresBackward<T> {
    #[inline(always)]
    unsafe fn run(self) {
        let SoftmaxScoresBackward(scores, known, score_grads) = self;
        for first in (0..scores.queries).step_by(T::Vector::LANES) {
            let group = Group::new(scores, first, T::Vector::LANES);
            // SAFETY: the blocks have these sizes, and there are statistics of each query.
            unsafe {
                let max_score = T::load_up_to(known.max_score.add(first), group.count);
                let inverse = T::load_up_to(known.inverse.add(first), group.count);
                let mean = group.weights::<I>(score_grads, max_score, inverse);
                group.through_softmax::<I>(score_grads, mean);
            }
        }
    }
}

/// Rows of a matrix, each with adjacent elements.
#[derive(Clone, Copy)]
pub(super) struct Rows<T> {
    pub(super) ptr: *mut T,
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
                let (row, factor) = (rows.ptr.offset(i as isize * rows.pitch), factors.add(i).read());
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

/// The element types of blocks of scores. The functions are not generic, so that they are compiled once.
pub(super) trait AttentionElement: Element + FloatElement {
    /// Replaces scores by their exponentials, or by zeros where a key is not visible, and writes the statistics of each query.
    /// These are zero for queries to which no key is visible, or whose scores are all minus infinity.
    ///
    /// # Safety
    /// - The block has the sizes that `scores` says, and `to` takes the statistics of each query.
    unsafe fn softmax_scores(scores: Scores<Self>, to: Statistics<Self>);

    /// Replaces scores by weights, from the statistics of each query, and gradients of weights by gradients of scores.
    ///
    /// # Safety
    /// - The block has the sizes that `scores` says, `score_grads` is another one like it, and there are statistics of each
    ///   query.
    unsafe fn softmax_scores_backward(scores: Scores<Self>, known: Statistics<Self>, score_grads: *mut Self);

    /// Multiplies each row by its factor.
    ///
    /// # Safety
    /// - The rows have the sizes that `rows` says, and there is a factor for each.
    unsafe fn scale(rows: Rows<Self>, factors: *const Self);
}

macro_rules! attention_element {
    ($($t:ty)*) => {$(
        impl AttentionElement for $t {
            unsafe fn softmax_scores(scores: Scores<Self>, to: Statistics<Self>) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(SoftmaxScores(scores, to)) }
            }

            unsafe fn softmax_scores_backward(scores: Scores<Self>, known: Statistics<Self>, score_grads: *mut Self) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(SoftmaxScoresBackward(scores, known, score_grads)) }
            }

            unsafe fn scale(rows: Rows<Self>, factors: *const Self) {
                // SAFETY: the caller's conditions.
                unsafe { dispatch(Scale(rows, factors)) }
            }
        }
    )*};
}
attention_element!(f32 f64);
