//! Traits of folds: on vectors, or of dense elements with a state of their own; and the type that they are computed in.
#![expect(unsafe_code, reason = "declares folds of raw elements")]

use super::cascade::Cascade;
use super::strips::{Strip, StripResults};
use crate::vectorized::{Float, Number, Ordered};
use flambeau_core::{Element, Scalar, ScalarType};

/// Elements folded by one call of a vector kernel: 16 KiB of f32, which stay in L1.
pub(crate) const BLOCK: usize = 4096;
/// Elements that one thread folds of a row that is split among threads: a number of blocks that is a power of two, so that the tree is
/// the same as on one thread.
pub(crate) const CHUNK: usize = 16 * BLOCK;

/// A fold of elements of any one type, on vectors.
pub(crate) trait NumberFold: Copy + Send + Sync {
    /// The identity element.
    fn identity(self) -> Scalar;
    /// Folds one more element. Mark it `#[inline(always)]`.
    fn step<V: Number>(self, acc: V, x: V) -> V;
    /// Combines two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Number>(self, a: V, b: V) -> V;
}

/// A fold of elements of any one type that has an order, on vectors.
pub(crate) trait OrderedFold: Copy + Send + Sync {
    /// The identity element.
    fn identity(self) -> Scalar;
    /// Folds one more element. Mark it `#[inline(always)]`.
    fn step<V: Ordered>(self, acc: V, x: V) -> V;
    /// Combines two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Ordered>(self, a: V, b: V) -> V;
}

/// A fold of floating point numbers, on vectors.
pub(crate) trait FloatFold: Copy + Send + Sync {
    /// The identity element.
    fn identity(self) -> Scalar;
    /// Folds one more element. Mark it `#[inline(always)]`.
    fn step<V: Float>(self, acc: V, x: V) -> V;
    /// Combines two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Float>(self, a: V, b: V) -> V;
}

/// What is applied to an accumulator before it is stored, computed in f64.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Epilogue {
    /// Nothing.
    Identity,
    /// Divided by a number.
    Divide(f64),
    /// Raised to a power.
    Power(f64),
    /// The square root.
    Sqrt,
}

impl Epilogue {
    #[inline]
    pub(in crate::loops) fn apply<T: Element>(self, value: T) -> T {
        let through = |f: &dyn Fn(f64) -> f64| T::from_scalar(Scalar::Float(f(value.to_scalar().to_f64())));
        match self {
            Epilogue::Identity => value,
            Epilogue::Divide(by) => through(&|x| x / by),
            Epilogue::Power(p) => through(&|x| x.powf(p)),
            Epilogue::Sqrt => through(&f64::sqrt),
        }
    }
}

/// A reduction of rows of dense elements that is more than a fold on vectors: it has a state of its own and `M` results.
pub(crate) trait RowFold<const M: usize>: Copy + Sync {
    /// What is carried from one run of elements to the next.
    type State: Copy + Send;
    /// The state of no elements.
    fn empty(self) -> Self::State;
    /// The state of `n` elements, at most [`BLOCK`], of which the first has index `first` in its row.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements of the fold's type.
    unsafe fn block(self, from: *const u8, n: usize, first: usize) -> Self::State;
    /// The state of up to [`CHUNK`] elements of `size` bytes: of blocks, combined.
    ///
    /// # Safety
    /// - As for [`block`](Self::block).
    #[inline]
    unsafe fn run(self, from: *const u8, n: usize, first: usize, size: usize) -> Self::State {
        self.cascade((0..n).step_by(BLOCK).map(|start| {
            // SAFETY: the elements from `start` on, as many as are left, or a block.
            unsafe { self.block(from.add(start * size), BLOCK.min(n - start), first + start) }
        }))
    }
    /// Whether elements of type `memory` can be folded as they are, which are of type `kernel` in blocks and strips.
    fn reads(self, memory: ScalarType, kernel: ScalarType) -> bool {
        memory == kernel
    }
    /// Whether [`rows`](Self::rows) folds rows of `n` elements that follow one another faster than [`strip`](Self::strip).
    fn folds_packed(self, _: usize) -> bool {
        false
    }
    /// The state of up to [`CHUNK`] elements of type `memory`, of `size` bytes.
    ///
    /// # Safety
    /// - As for [`block`](Self::block), with elements of a type that the fold [reads](Self::reads).
    #[inline]
    unsafe fn in_memory(
        self,
        _memory: ScalarType,
        from: *const u8,
        n: usize,
        first: usize,
        size: usize,
    ) -> Self::State {
        // SAFETY: this function's condition: they are of the fold's type.
        unsafe { self.dense(from, n, first, size) }
    }
    /// [`block`](Self::block) or [`run`](Self::run), by the number of elements.
    ///
    /// # Safety
    /// - As for [`block`](Self::block).
    #[inline]
    unsafe fn dense(self, from: *const u8, n: usize, first: usize, size: usize) -> Self::State {
        // SAFETY: this function's condition.
        unsafe {
            match n {
                ..=BLOCK => self.block(from, n, first),
                _ => self.run(from, n, first, size),
            }
        }
    }
    /// Folds rows and writes their results.
    ///
    /// # Safety
    /// - The rows are valid for reading elements of a type that the fold [reads](Self::reads), and the addresses of their results for writing.
    #[inline]
    unsafe fn rows(self, rows: DenseRows<M>) {
        // SAFETY: this function's conditions.
        unsafe { rows.each(self) }
    }
    /// Folds the rows of a strip and writes their results.
    ///
    /// # Safety
    /// - The strip is valid for reading elements of the fold's type, and the addresses of its results for writing.
    unsafe fn strip(self, strip: Strip, results: &StripResults<M>);
    /// The state of all `parts`, combined in order.
    #[inline]
    fn cascade(self, parts: impl Iterator<Item = Self::State>) -> Self::State {
        Cascade::of(parts, |a, b| self.combine(a, b)).unwrap_or_else(|| self.empty())
    }
    /// The state of two runs of elements, the first before the second.
    fn combine(self, a: Self::State, b: Self::State) -> Self::State;
    /// Writes the results for a row.
    ///
    /// # Safety
    /// - Each of `to` is valid for writing one result.
    unsafe fn write(self, state: Self::State, to: [*mut u8; M]);
}

/// Rows of dense elements, one or more and at most a [`CHUNK`], and the addresses of their `M` results.
#[derive(Clone, Copy)]
pub(crate) struct DenseRows<const M: usize> {
    /// The type of the elements in memory.
    pub(super) memory: ScalarType,
    pub(super) from: *const u8,
    /// Elements of a row, and the bytes of one.
    pub(super) n: usize,
    pub(super) size: usize,
    /// Bytes from one row to the next.
    pub(super) row_stride: isize,
    pub(super) to: [*mut u8; M],
    /// Bytes from one result to the next.
    pub(super) strides: [isize; M],
    pub(super) count: usize,
}

impl<const M: usize> DenseRows<M> {
    /// Folds one row after another.
    ///
    /// # Safety
    /// - As for [`RowFold::rows`].
    #[inline]
    pub(super) unsafe fn each(self, fold: impl RowFold<M>) {
        for row in 0..self.count as isize {
            let from = self.from.wrapping_offset(row * self.row_stride);
            let to = std::array::from_fn(|m| self.to[m].wrapping_offset(row * self.strides[m]));
            // SAFETY: by this function's conditions.
            unsafe { fold.write(fold.in_memory(self.memory, from, self.n, 0, self.size), to) };
        }
    }
}

/// The type in which elements of `dtype` are computed with: f32 for f16 and bf16.
pub(crate) fn computing_type(dtype: ScalarType) -> ScalarType {
    if dtype.is_reduced_floating_point() { ScalarType::F32 } else { dtype }
}
