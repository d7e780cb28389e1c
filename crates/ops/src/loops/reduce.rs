//! Reductions: a fold over the reduced dimensions of a tensor. Work is split by size alone and partial results are combined in a fixed
//! order, so that the bits do not depend on the number of threads.
//!
//! **Cascade sum.** A row of elements is split into blocks of [`BLOCK`]. Each is folded into four vectors; blocks are combined like
//! the carries of a binary counter, lanes as a tree. So the error of a sum of `n` elements grows with `log n` (pairwise
//! summation: Higham, *Accuracy and Stability of Numerical Algorithms*, 4.2).
//!
//! **Inner and outer reductions**, as PyTorch calls them. Where the reduced dimension is dense, rows are read in memory ([`inner`]).
//! Where the kept dimension is dense, or evenly spaced and the reduced rows short, rows of accumulators stay in cache while rows of the input
//! are folded into them ([`outer`]).
//! Where both lie around a kept dimension, the outer one is folded first ([`two_stages`]). Short rows are folded in lanes ([`short_rows`]). All
//! others, and elements of another type than the fold's, are gathered in tiles.

mod accumulate;
mod accumulator;
mod any_fold;
mod arg;
mod blocks;
mod cascade;
mod dim_counter;
mod each_row;
mod exclusive_or;
mod extremes;
mod fold;
mod folding;
mod folds;
mod inner;
mod log_sum_exp;
mod moments;
mod outer;
mod outer_arg;
mod row_float;
mod short_arg;
mod short_columns;
mod short_rows;
mod small;
mod source;
pub(super) mod strips;
mod targets;
mod truth;
mod two_stages;

pub(crate) use arg::{arg_extreme, extreme_with_index};
pub(crate) use blocks::fold_dense;
pub(crate) use cascade::Cascade;
pub(crate) use dim_counter::DimCounter;
pub(crate) use exclusive_or::exclusive_or_fold;
pub(crate) use fold::{BLOCK, Epilogue, FloatFold, NumberFold, OrderedFold, computing_type};
pub(crate) use folds::*;
pub(crate) use log_sum_exp::{log_sum_exp, log_sum_exp_parts};
pub(crate) use moments::{MomentElement, Moments, four, moments, moments_of, moments_with_prefetch, total};
pub(crate) use row_float::{RowFloat, SHORT_ROW};
pub(crate) use source::Source;

use crate::loops::prefetch::Prefetch;
use crate::structured::TensorSpec;
use crate::tensor_iterator::{DimMask, Reduction};
use crate::vectorized::EveryIsa;
use crate::{Tensor, dispatch_all_types, ops};
use accumulate::{AccumulateBlocks, AccumulateRows};
use any_fold::AnyFold;
use blocks::{Floats, Numbers, OrderedNumbers};
use each_row::FoldEachRow;
use extremes::Both;
use flambeau_core::{Element, Result, Scalar, ScalarType};
use folding::Folding;
use half::{bf16, f16};
use targets::with_targets;
use truth::Truth;

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
    epilogue: Epilogue,
) -> Result<()> {
    dispatch_all_types!(accumulators, kernel, "reduction", T => run::<T, _>(input, out, mask, Numbers(fold), epilogue, fold.identity()))
}

/// [`sum_fold`] of bools: whether each element differs from zero.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn bool_fold(input: &Tensor, out: &Tensor, mask: DimMask, fold: impl NumberFold) -> Result<()> {
    run::<bool, _>(input, out, mask, Numbers(fold), Epilogue::Identity, fold.identity())
}

/// Whether some element differs from zero, or all do, along the dimensions `mask`.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn truth_fold(input: &Tensor, out: &Tensor, mask: DimMask, some: bool) -> Result<()> {
    let prefetch = Prefetch::for_fold(input);
    let any = Folding::<bool, _>::new(Numbers(Sum), Epilogue::Identity, Sum.identity(), prefetch);
    let all = Folding::<bool, _>::new(Numbers(Product), Epilogue::Identity, Product.identity(), prefetch);
    let fold: &dyn AnyFold = if some { &any } else { &all };
    let Some(truth) = Truth::of(input.dtype(), some) else {
        return run_any(input, out, mask, ScalarType::Bool, fold);
    };
    if small::fold_small(input, out, mask, ScalarType::Bool, fold)? {
        return Ok(());
    }
    with_targets(input, [out], mask, [ScalarType::Bool], |guarded, reduction, targets| {
        if is_inner(reduction, ScalarType::Bool) {
            let source = Source::new(guarded, input, input.dtype())?;
            inner::fold_inner(reduction, source, targets, [1], truth);
            return Ok(());
        }
        fold_by_geometry(
            Source::new(guarded, input, ScalarType::Bool)?,
            reduction,
            targets[0],
            ScalarType::Bool,
            fold,
        )
    })
}

/// The minimum and the maximum along the dimensions `mask`, in the types of [`ordered_fold`].
///
/// # Errors
/// As [`ordered_fold`].
pub(crate) fn extremes_fold(
    input: &Tensor,
    [min_out, max_out]: [&Tensor; 2],
    mask: DimMask,
    kernel: ScalarType,
) -> Result<()> {
    let (min, max) = (Minimum::of(kernel), Maximum::of(kernel));
    let [first, second] = Prefetch::for_two_folds(input, extremes::BLOCK_BYTES);
    dispatch_all_types!(through_computing, kernel, "reduction", T => {
        let min = Folding::<T, _>::new(OrderedNumbers(min), Epilogue::Identity, min.identity(), first);
        let max = Folding::<T, _>::new(OrderedNumbers(max), Epilogue::Identity, max.identity(), second);
        run_both(input, [min_out, max_out], mask, T::SCALAR_TYPE, [&min, &max])
    })
}

/// Folds by two folds at once, or by one after the other where there are two stages.
fn run_both(
    input: &Tensor,
    outs: [&Tensor; 2],
    mask: DimMask,
    kernel: ScalarType,
    folds: [&dyn AnyFold; 2],
) -> Result<()> {
    if small::fold_small(input, outs[0], mask, kernel, folds[0])? {
        return run_any(input, outs[1], mask, kernel, folds[1]);
    }
    with_targets(input, outs, mask, [kernel; 2], |guarded, reduction, targets| {
        let source = Source::new(guarded, input, kernel)?;
        if is_inner(reduction, kernel) {
            inner::fold_inner(reduction, source, targets, [kernel.size(); 2], Both(folds));
            return Ok(());
        }
        if is_outer(reduction) {
            outer::fold_outer(reduction, source, &targets, &folds);
            return Ok(());
        }
        folds
            .into_iter()
            .zip(targets)
            .try_for_each(|(fold, to)| fold_by_geometry(source, reduction, to, kernel, fold))
    })
}

/// [`sum_fold`] in any type that has an order except f16 and bf16, whose elements are folded as f32.
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
    dispatch_all_types!(through_computing, kernel, "reduction", T => run::<T, _>(input, out, mask, OrderedNumbers(fold), Epilogue::Identity, fold.identity()))
}

/// [`sum_fold`] in f32 and f64.
///
/// # Errors
/// As [`sum_fold`].
pub(crate) fn float_fold(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    kernel: ScalarType,
    fold: impl FloatFold,
    epilogue: Epilogue,
) -> Result<()> {
    dispatch_all_types!(wide_floats, kernel, "reduction", T => run::<T, _>(input, out, mask, Floats(fold), epilogue, fold.identity()))
}

/// The number of elements along the dimensions `mask` that differ from zero, into `out` of i64: counted in the type of the elements where it
/// holds the number, so that few are converted.
///
/// # Errors
/// `NotImplemented` for types without vectors, `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn count_fold(input: &Tensor, out: &Tensor, mask: DimMask) -> Result<()> {
    let kernel = counter(input.dtype(), mask.count(input.sizes()));
    if kernel == ScalarType::I64 {
        return sum_fold(input, out, mask, kernel, Nonzeros, Epilogue::Identity);
    }
    let counts = TensorSpec::like(out, out.sizes()).with_dtype(kernel).allocate("count_nonzero")?;
    let (lanes, identity) = (Numbers(Nonzeros), Nonzeros.identity());
    match kernel {
        ScalarType::U8 => run::<u8, _>(input, &counts, mask, lanes, Epilogue::Identity, identity)?,
        ScalarType::I32 => run::<i32, _>(input, &counts, mask, lanes, Epilogue::Identity, identity)?,
        _ => sum_fold(input, &counts, mask, kernel, Nonzeros, Epilogue::Identity)?,
    }
    ops::copy_(out, &counts, false)
}

/// The type in which up to `count` elements of `dtype` are counted: it tells every element of `dtype` from zero, and is exact.
fn counter(dtype: ScalarType, count: i64) -> ScalarType {
    use ScalarType::{Bool, F32, F64, I8, I16, I32, I64, U8};
    match computing_type(dtype) {
        F32 if count <= 1 << f32::MANTISSA_DIGITS => F32,
        F32 | F64 => F64,
        Bool | U8 if count <= u8::MAX.into() => U8,
        Bool | U8 | I8 | I16 | I32 if count <= i32::MAX.into() => I32,
        _ => I64,
    }
}

fn run<T, F>(
    input: &Tensor,
    out: &Tensor,
    mask: DimMask,
    lanes: F,
    epilogue: Epilogue,
    identity: Scalar,
) -> Result<()>
where
    T: Element + crate::vectorized::Convert,
    F: Copy + Send + Sync,
    FoldEachRow<T, F>: EveryIsa,
    FoldEachRow<f16, F>: EveryIsa,
    FoldEachRow<bf16, F>: EveryIsa,
    AccumulateRows<T, F>: EveryIsa,
    AccumulateBlocks<T, F>: EveryIsa,
{
    run_any(
        input,
        out,
        mask,
        T::SCALAR_TYPE,
        &Folding::<T, F>::new(lanes, epilogue, identity, Prefetch::for_fold(input)),
    )
}

/// Folds elements of type `kernel` by the loop that suits the geometry.
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
        fold_by_geometry(Source::new(guarded, input, kernel)?, reduction, targets[0], kernel, fold)
    })
}

/// Whether rows are folded into rows of accumulators.
fn is_outer(reduction: &Reduction) -> bool {
    outer::suits_fold(reduction) || outer::suits_spaced(reduction)
}

/// Whether rows are folded one by one, or gathered.
fn is_inner(reduction: &Reduction, kernel: ScalarType) -> bool {
    !is_outer(reduction) && two_stages::split(reduction, kernel).is_none()
}

/// Folds the elements of `source` into `to` by the loop that suits the geometry.
fn fold_by_geometry(
    source: Source,
    reduction: &Reduction,
    to: *mut u8,
    kernel: ScalarType,
    fold: &dyn AnyFold,
) -> Result<()> {
    if is_outer(reduction) {
        outer::fold_outer(reduction, source, &[to], &[fold]);
    } else if let Some(stages) = two_stages::split(reduction, kernel) {
        two_stages::fold(&stages, source, to, kernel, fold)?;
    } else {
        inner::fold_inner(reduction, source, [to], [kernel.size()], fold);
    }
    Ok(())
}
