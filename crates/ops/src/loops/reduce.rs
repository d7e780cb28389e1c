//! Reductions: a fold meets a geometry. Work is cut by size alone and partial results meet in a fixed order, so that the bits
//! do not depend on the number of threads.
//!
//! **The tree.** A run of elements is cut into blocks of [`BLOCK`]; each is folded by four vectors of lanes, the blocks as the
//! carries of a binary counter, the lanes as a tree. The error of a sum of `n` elements so grows with `log n` (pairwise
//! summation: Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2).
//!
//! **Three walks.** Where the reduced dimension is dense, blocks are read where they are ([`lines`]). Where the kept dimension
//! is dense, rows of accumulators stay in cache while rows of the input pass by ([`columns`]). Everything else, and elements
//! of another type than the fold's, go through tiles.
#![expect(unsafe_code, reason = "declares what folds of raw elements promise")]

mod accumulator;
mod any_fold;
mod arg;
mod blocks;
mod cascade;
mod columns;
mod exponentials;
mod few;
mod floats;
mod folds;
mod lines;
mod moments;
mod source;
mod steps;

pub(crate) use arg::{arg_extreme, extreme_with_index};
pub(crate) use blocks::{fold_dense, fold_dense_floats, fold_dense_ordered};
pub(crate) use cascade::Cascade;
pub(crate) use exponentials::{log_sum_exp, log_sum_exp_parts};
pub(crate) use floats::{LineFloat, SHORT_LINE};
pub(crate) use folds::*;
pub(crate) use moments::{MomentElement, Moments, four, moments, moments_asking, moments_of, total};
pub(crate) use source::Source;
pub(crate) use steps::Steps;

use crate::loops::ahead::Asking;
use crate::structured::{TensorSpec, with_scratch};
use crate::tensor_iterator::{DimMask, Reduction};
use crate::vectorized::{EveryIsa, Float, Number, Ordered};
use crate::{Tensor, dispatch_all_types, ops};
use any_fold::AnyFold;
use blocks::{Floats, FoldLines, FoldRows, Folding, Numbers, OrderedNumbers};
use flambeau_core::{Element, Guarded, Result, Scalar, ScalarType};
use smallvec::SmallVec;

/// Elements folded by one call of a vector kernel: a quarter of a first-level cache for f32.
pub(crate) const BLOCK: usize = 4096;
/// Elements that one thread takes of a line that several share; a power of two of blocks, so that the tree stays the same.
pub(crate) const CHUNK: usize = 16 * BLOCK;

/// A fold of elements of any one type, on lanes.
pub(crate) trait NumberFold: Copy + Send + Sync {
    /// What changes nothing.
    fn identity(self) -> Scalar;
    /// One more element. Mark it `#[inline(always)]`.
    fn step<V: Number>(self, acc: V, x: V) -> V;
    /// Two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Number>(self, a: V, b: V) -> V;
}

/// A fold of elements of any one type that has an order, on lanes.
pub(crate) trait OrderedFold: Copy + Send + Sync {
    /// What changes nothing.
    fn identity(self) -> Scalar;
    /// One more element. Mark it `#[inline(always)]`.
    fn step<V: Ordered>(self, acc: V, x: V) -> V;
    /// Two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Ordered>(self, a: V, b: V) -> V;
}

/// A fold of floating point numbers, on lanes.
pub(crate) trait FloatFold: Copy + Send + Sync {
    /// What changes nothing.
    fn identity(self) -> Scalar;
    /// One more element. Mark it `#[inline(always)]`.
    fn step<V: Float>(self, acc: V, x: V) -> V;
    /// Two accumulators, the first for earlier elements. Mark it `#[inline(always)]`.
    fn combine<V: Float>(self, a: V, b: V) -> V;
}

/// What becomes of an accumulator at the end, computed in f64.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Finish {
    /// Nothing.
    Keep,
    /// Divided by a number.
    Divide(f64),
    /// Raised to a power.
    Power(f64),
    /// The square root.
    Sqrt,
}

impl Finish {
    #[inline]
    pub(super) fn apply<T: Element>(self, value: T) -> T {
        let through = |f: &dyn Fn(f64) -> f64| T::from_scalar(Scalar::Float(f(value.to_scalar().to_f64())));
        match self {
            Finish::Keep => value,
            Finish::Divide(by) => through(&|x| x / by),
            Finish::Power(p) => through(&|x| x.powf(p)),
            Finish::Sqrt => through(&f64::sqrt),
        }
    }
}

/// A reduction of dense elements that is more than a fold of lanes: it has a state of its own and `M` results.
pub(crate) trait LineFold<const M: usize>: Copy + Sync {
    /// What is known of a run of elements.
    type State: Copy + Send;
    /// Of no elements.
    fn empty(self) -> Self::State;
    /// Of `n` elements, at most [`BLOCK`], of which the first is number `first` of its line.
    ///
    /// # Safety
    /// - `from` is valid for reading `n` elements of the fold's type.
    unsafe fn block(self, from: *const u8, n: usize, first: usize) -> Self::State;
    /// The same for up to [`CHUNK`] elements of `size` bytes: blocks, and what they have in common.
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
    /// The same for elements that are few or many.
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
    /// Folds lines and writes their results.
    ///
    /// # Safety
    /// - The lines are valid for reading elements of the fold's type, and the places of their results for writing.
    #[inline]
    unsafe fn lines(self, lines: DenseLines<M>) {
        // SAFETY: this function's conditions.
        unsafe { lines.each(self) }
    }
    /// Of all `parts`, in order.
    #[inline]
    fn cascade(self, parts: impl Iterator<Item = Self::State>) -> Self::State {
        Cascade::of(parts, |a, b| self.combine(a, b)).unwrap_or_else(|| self.empty())
    }
    /// Of two runs, the first before the second.
    fn combine(self, a: Self::State, b: Self::State) -> Self::State;
    /// Writes the results for a line.
    ///
    /// # Safety
    /// - Each of `to` is valid for writing one result.
    unsafe fn write(self, state: Self::State, to: [*mut u8; M]);
}

/// Lines of dense elements, one or more and at most a [`CHUNK`], and places for their `M` results each.
#[derive(Clone, Copy)]
pub(crate) struct DenseLines<const M: usize> {
    from: *const u8,
    /// Elements of a line, and the bytes of one.
    n: usize,
    size: usize,
    /// Bytes from one line to the next.
    apart: isize,
    to: [*mut u8; M],
    /// Bytes from one result to the next.
    strides: [isize; M],
    count: usize,
}

impl<const M: usize> DenseLines<M> {
    /// Folds one after another.
    ///
    /// # Safety
    /// - As for [`LineFold::lines`].
    #[inline]
    unsafe fn each(self, fold: impl LineFold<M>) {
        for line in 0..self.count as isize {
            let from = self.from.wrapping_offset(line * self.apart);
            let to = std::array::from_fn(|m| self.to[m].wrapping_offset(line * self.strides[m]));
            // SAFETY: by this function's conditions.
            unsafe { fold.write(fold.dense(from, self.n, 0, self.size), to) };
        }
    }
}

/// Folds the dimensions `mask` of `input` into `out` in accumulators of type `kernel`: i64, f32 or f64.
///
/// # Errors
/// `NotImplemented` for other types, `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn sum_fold(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: impl NumberFold,
    finish: Finish,
) -> Result<()> {
    dispatch_all_types!(accumulators, kernel, "reduction", T => run::<T, _>(input, out, mask, Numbers(fold), finish, fold.identity()))
}

/// The same of truth values: whether each element differs from zero.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn truth_fold(input: &Tensor, out: &Tensor, mask: DimMask, fold: impl NumberFold) -> Result<()> {
    run::<bool, _>(input, out, mask, Numbers(fold), Finish::Keep, fold.identity())
}

/// The same for any type that has an order but f16 and bf16, whose elements are folded as f32.
///
/// # Errors
/// As [`sum_fold`].
pub(crate) fn ordered_fold(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: impl OrderedFold,
) -> Result<()> {
    dispatch_all_types!(ordered_computing, kernel, "reduction", T => run::<T, _>(input, out, mask, OrderedNumbers(fold), Finish::Keep, fold.identity()))
}

/// The same for f32 and f64.
///
/// # Errors
/// As [`sum_fold`].
pub(crate) fn float_fold(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: impl FloatFold,
    finish: Finish,
) -> Result<()> {
    dispatch_all_types!(wide_floats, kernel, "reduction", T => run::<T, _>(input, out, mask, Floats(fold), finish, fold.identity()))
}

/// The type in which elements of `dtype` are computed with: f32 for f16 and bf16.
pub(crate) fn computing_type(dtype: ScalarType) -> ScalarType {
    if dtype.is_reduced_floating_point() { ScalarType::F32 } else { dtype }
}

fn run<T, F>(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    lanes: F,
    finish: Finish,
    identity: Scalar,
) -> Result<()>
where
    T: Element + crate::vectorized::Convert,
    F: Copy + Send + Sync,
    FoldLines<T, F>: EveryIsa,
    FoldRows<T, F>: EveryIsa,
{
    run_any(
        input,
        out,
        mask,
        T::SCALAR_TYPE,
        &Folding::<T, F>::new(lanes, finish, identity, Asking::of_fold(input)),
    )
}

/// Folds elements of type `kernel`, over whichever walk suits the geometry.
fn run_any(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: &dyn AnyFold,
) -> Result<()> {
    if few::fold_few(input, out, mask, kernel, fold)? {
        return Ok(());
    }
    with_targets(input, [out], mask, [kernel], |guarded, reduction, targets| {
        let source = Source::new(guarded, input, kernel)?;
        if columns::suits(reduction) {
            columns::fold_columns(reduction, source, targets[0], fold);
        } else {
            lines::fold_lines(reduction, source, targets, [kernel.size()], fold);
        }
        Ok(())
    })
}

/// Folds lines of elements of type `kernel` into `M` outputs, whose values have the types `results`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn line_fold<const M: usize>(
    input: &Tensor,
    outs: [&Tensor; M],
    mask: DimMask,
    kernel: ScalarType,
    results: [ScalarType; M],
    fold: impl LineFold<M>,
) -> Result<()> {
    with_targets(input, outs, mask, results, |guarded, reduction, targets| {
        let source = Source::new(guarded, input, kernel)?;
        lines::fold_lines(reduction, source, targets, results.map(ScalarType::size), fold);
        Ok(())
    })
}

/// Calls `body` with the geometry and the addresses of contiguous outputs of the types `results`, under the guards; an output
/// that is not so gets its values by a copy.
fn with_targets<const M: usize>(
    input: &Tensor,
    outs: [&Tensor; M],
    mask: DimMask,
    results: [ScalarType; M],
    body: impl FnOnce(Guarded<'_>, &Reduction, [*mut u8; M]) -> Result<()>,
) -> Result<()> {
    let targets = targets(&outs, &results)?;
    let reduction = Reduction::new(input, &targets[0], mask)?;
    let mut addresses = [std::ptr::null_mut(); M];
    with_scratch("reduction", &[input], &targets.iter().collect::<SmallVec<[&Tensor; 3]>>(), |guarded| {
        for (address, target) in addresses.iter_mut().zip(&targets) {
            *address = guarded.ptr(target.strided_view());
        }
        body(guarded, &reduction, addresses)
    })?;
    finish(&outs, &targets)
}

/// The outputs themselves, or stand-ins that are contiguous and of the types `results`.
fn targets(outs: &[&Tensor], results: &[ScalarType]) -> Result<SmallVec<[Tensor; 3]>> {
    let target = |(out, result): (&&Tensor, &ScalarType)| {
        if out.dtype() == *result && out.is_contiguous() {
            return Ok((*out).clone());
        }
        TensorSpec::like(out, out.sizes()).with_dtype(*result).allocate("reduction")
    };
    outs.iter().zip(results).map(target).collect()
}

/// Copies what stand-ins hold to the outputs they stand for.
fn finish(outs: &[&Tensor], targets: &[Tensor]) -> Result<()> {
    for (out, target) in outs.iter().zip(targets) {
        if !out.is_same(target) {
            ops::copy_(out, target, false)?;
        }
    }
    Ok(())
}
