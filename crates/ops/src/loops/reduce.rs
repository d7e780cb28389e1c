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

mod accumulator;
mod any_fold;
mod arg;
mod blocks;
mod cascade;
mod outer;
mod log_sum_exp;
mod small;
mod row_float;
mod fold;
mod folds;
mod inner;
mod moments;
mod source;
mod dim_counter;
mod targets;

pub(crate) use arg::{arg_extreme, extreme_with_index};
pub(crate) use blocks::fold_dense;
pub(crate) use cascade::Cascade;
pub(crate) use log_sum_exp::{log_sum_exp, log_sum_exp_parts};
pub(crate) use row_float::{RowFloat, SHORT_ROW};
pub(crate) use fold::{BLOCK, Epilogue, FloatFold, NumberFold, OrderedFold, computing_type};
pub(crate) use folds::*;
pub(crate) use moments::{MomentElement, Moments, four, moments, moments_with_prefetch, moments_of, total};
pub(crate) use source::Source;
pub(crate) use dim_counter::DimCounter;

use crate::loops::prefetch::Prefetch;
use crate::tensor_iterator::DimMask;
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types};
use any_fold::AnyFold;
use blocks::{Floats, FoldEachRow, AccumulateRows, Folding, Numbers, OrderedNumbers};
use flambeau_core::{Element, Result, Scalar, ScalarType};
use targets::with_targets;

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
    finish: Epilogue,
) -> Result<()> {
    dispatch_all_types!(accumulators, kernel, "reduction", T => run::<T, _>(input, out, mask, Numbers(fold), finish, fold.identity()))
}

/// The same of truth values: whether each element differs from zero.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn truth_fold(input: &Tensor, out: &Tensor, mask: DimMask, fold: impl NumberFold) -> Result<()> {
    run::<bool, _>(input, out, mask, Numbers(fold), Epilogue::Identity, fold.identity())
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
    dispatch_all_types!(ordered_computing, kernel, "reduction", T => run::<T, _>(input, out, mask, OrderedNumbers(fold), Epilogue::Identity, fold.identity()))
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
    finish: Epilogue,
) -> Result<()> {
    dispatch_all_types!(wide_floats, kernel, "reduction", T => run::<T, _>(input, out, mask, Floats(fold), finish, fold.identity()))
}

fn run<T, F>(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    lanes: F,
    finish: Epilogue,
    identity: Scalar,
) -> Result<()>
where
    T: Element + crate::vectorized::Convert,
    F: Copy + Send + Sync,
    FoldEachRow<T, F>: EveryIsa,
    AccumulateRows<T, F>: EveryIsa,
{
    run_any(
        input,
        out,
        mask,
        T::SCALAR_TYPE,
        &Folding::<T, F>::new(lanes, finish, identity, Prefetch::for_fold(input)),
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
    if small::fold_small(input, out, mask, kernel, fold)? {
        return Ok(());
    }
    with_targets(input, [out], mask, [kernel], |guarded, reduction, targets| {
        let source = Source::new(guarded, input, kernel)?;
        if outer::suits(reduction) {
            outer::fold_outer(reduction, source, targets[0], fold);
        } else {
            inner::fold_inner(reduction, source, targets, [kernel.size()], fold);
        }
        Ok(())
    })
}
