//! The index of the maximum or minimum of a row: the extreme value of a block first, then the first element equal to it. NaN is taken
//! for more extreme than any number.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::any_fold::AnyFold;
use super::blocks::{OrderedNumbers, fold_dense_ordered};
use super::fold::{Epilogue, OrderedFold, RowFold, computing_type};
use super::folding::Folding;
use super::folds::{Maximum, Minimum};
use super::inner::fold_inner;
use super::outer::suits;
use super::outer_arg::{AnyExtreme, Best, ImproveColumns, Level, Outputs, arg_outer};
use super::short_arg::{ShortArg, extremes as extremes_of};
use super::source::Source;
use super::strips::{STRIP, Shared, Strip, StripResults};
use super::targets::with_targets;
use crate::loops::prefetch::Prefetch;
use crate::tensor_iterator::DimMask;
use crate::vectorized::{
    CodegenAnchor, Convert, EveryIsa, Isa, Kernel, Lanes, Mask, Vector, dispatch, load_one,
};
use crate::{Tensor, dispatch_all_types};
use flambeau_core::{Element, Result, ScalarType};
use std::marker::PhantomData;

/// The first of `n` elements that equals `value`, NaN equal to itself.
pub(super) struct Find<T> {
    from: *const T,
    n: usize,
    value: T,
}

impl<T> CodegenAnchor for Find<T> {
    type Anchor = Self;
}

impl<I: Isa, T: Lanes<I>> Kernel<I, usize> for Find<T> {
    #[inline(always)]
    unsafe fn run(self) -> usize {
        let lanes = T::Vector::LANES;
        let value = T::Vector::splat(self.value.widen());
        let nan = value.ne(value);
        // SAFETY: reads stay below `n`.
        unsafe {
            let is_equal = |x: T::Vector| x.eq(value) | (x.ne(x) & nan);
            let mut at = 0;
            while at + lanes <= self.n && !is_equal(T::load(self.from.add(at))).any() {
                at += lanes;
            }
            // Element by element within the vector: `load_partial` sets the lanes after the first to 0, and the mask leaves them out.
            let one = <T::Vector as Vector>::Mask::first(1);
            while at < self.n && !(is_equal(T::load_partial(self.from.add(at), 1)) & one).any() {
                at += 1;
            }
            at
        }
    }
}

/// The extreme of a run of elements and its index in the row.
#[derive(Clone, Copy)]
struct Extreme<T> {
    value: T,
    index: usize,
}

/// Which extreme, and how to prefetch.
#[derive(Clone, Copy)]
struct ArgFold<T> {
    largest: bool,
    prefetch: Prefetch,
    element: PhantomData<fn() -> T>,
}

impl<T: Element + PartialOrd + Convert> ArgFold<T> {
    #[inline]
    unsafe fn find<F: OrderedFold>(self, from: *const T, n: usize, first: usize, fold: F) -> Extreme<T>
    where
        Find<T>: EveryIsa<usize>,
        super::blocks::FoldKernel<T, super::blocks::OrderedNumbers<F>>: EveryIsa<T>,
    {
        // SAFETY: the callers' `from` is valid for `n` elements.
        unsafe {
            let value = fold_dense_ordered(from, n, self.prefetch, fold);
            Extreme { value, index: first + dispatch(Find { from, n, value }) }
        }
    }

    /// The more extreme of two, the first of equals.
    fn better(self, a: Extreme<T>, b: Extreme<T>) -> Extreme<T> {
        let is_nan = |x: T| x.partial_cmp(&x).is_none();
        let wins = if self.largest { b.value > a.value } else { b.value < a.value };
        if !is_nan(a.value) && (wins || is_nan(b.value)) { b } else { a }
    }
}

/// The extreme of each row of a strip, and its index.
struct ExtremesOfStrip<T> {
    strip: Strip,
    largest: bool,
    element: PhantomData<T>,
}

impl<T> CodegenAnchor for ExtremesOfStrip<T> {
    type Anchor = Self;
}

impl<I: Isa, T: Convert + PartialOrd + Default> Kernel<I, ([T; STRIP], [u32; STRIP])> for ExtremesOfStrip<T> {
    #[inline(always)]
    unsafe fn run(self) -> ([T; STRIP], [u32; STRIP]) {
        let (elements, n) = (self.strip.elements.cast::<T>(), self.strip.n);
        let step = (STRIP * size_of::<T>()) as isize;
        // SAFETY: the elements of the strip.
        unsafe {
            if self.largest {
                extremes_of::<T, true>(elements, step, n, STRIP)
            } else {
                extremes_of::<T, false>(elements, step, n, STRIP)
            }
        }
    }
}

macro_rules! arg_folds {
    ($results:literal, |$state:ident, $to:ident| $write:expr; $($type:ty)*) => {$(
        impl RowFold<$results> for ArgFold<$type> {
            type State = Extreme<$type>;

            fn empty(self) -> Self::State {
                Extreme { value: Default::default(), index: 0 }
            }
            #[inline]
            unsafe fn block(self, from: *const u8, n: usize, first: usize) -> Self::State {
                let dtype = <$type>::SCALAR_TYPE;
                // SAFETY: `from` is valid for `n` elements.
                unsafe {
                    if self.largest {
                        self.find(from.cast(), n, first, Maximum::of(dtype))
                    } else {
                        self.find(from.cast(), n, first, Minimum::of(dtype))
                    }
                }
            }
            unsafe fn strip(self, strip: Strip, results: &StripResults<$results>) {
                let work = ExtremesOfStrip::<$type> { strip, largest: self.largest, element: PhantomData };
                // SAFETY: this function's conditions.
                unsafe {
                    let (values, indices) = dispatch(work);
                    if $results > 1 {
                        results.write(0, &values);
                    }
                    results.write($results - 1, &indices.map(i64::from));
                }
            }
            fn combine(self, a: Self::State, b: Self::State) -> Self::State {
                self.better(a, b)
            }
            unsafe fn write(self, $state: Self::State, $to: [*mut u8; $results]) {
                // SAFETY: each takes one result.
                unsafe { $write }
            }
        }
    )*};
}

arg_folds!(1, |state, to| to[0].cast::<i64>().write_unaligned(state.index as i64); bool u8 i8 i16 i32 i64 f32 f64);
arg_folds!(2, |state, to| {
    write(to[0], state.value);
    to[1].cast::<i64>().write_unaligned(state.index as i64);
}; bool u8 i8 i16 i32 i64 f32 f64);

/// # Safety
/// - `to` is valid for writing a `T`.
#[inline]
unsafe fn write<T>(to: *mut u8, value: T) {
    // SAFETY: this function's condition.
    unsafe { to.cast::<T>().write_unaligned(value) }
}

impl<T> AnyExtreme for ArgFold<T>
where
    T: Element + PartialOrd + Convert,
    ImproveColumns<T>: EveryIsa,
{
    unsafe fn improve(&self, level: &Level<'_>, best: Best) {
        let work = ImproveColumns::<T> {
            rows: level.rows.as_ptr(),
            count: level.rows.len(),
            extremes: level.extremes.cast(),
            values: best.values.cast(),
            indices: best.indices,
            n: best.n,
            first: level.first,
            is_first: level.is_first,
            largest: self.largest,
        };
        // SAFETY: this function's conditions.
        unsafe { dispatch(work) }
    }

    unsafe fn merge(&self, best: Best, later: Best) {
        let at = |of: Best, i: usize| (of.values.cast::<T>().wrapping_add(i), of.indices.wrapping_add(i));
        for i in 0..best.n {
            // SAFETY: this function's conditions.
            unsafe {
                let ((value, index), (later_value, later_index)) = (at(best, i), at(later, i));
                let earlier = Extreme { value: load_one(value), index: *index as usize };
                let later = Extreme { value: load_one(later_value), index: *later_index as usize };
                let better = self.better(earlier, later);
                value.write(better.value);
                index.write(better.index as i64);
            }
        }
    }
}

/// Finds the extremes by the loop that suits the geometry; the last of `outs` gets the indices, and the first of two the values.
fn extremes<T, const M: usize>(
    input: &Tensor,
    outs: [&Tensor; M],
    mask: DimMask,
    results: [ScalarType; M],
    largest: bool,
) -> Result<()>
where
    T: Element + PartialOrd + Convert + Default,
    ArgFold<T>: RowFold<M> + AnyExtreme,
    Folding<T, OrderedNumbers<Maximum>>: AnyFold,
    Folding<T, OrderedNumbers<Minimum>>: AnyFold,
{
    let (dtype, prefetch) = (T::SCALAR_TYPE, Prefetch::for_fold(input));
    let fold = ArgFold::<T> { largest, prefetch, element: PhantomData };
    with_targets(input, outs, mask, results, |guarded, reduction, targets| {
        let source = Source::new(guarded, input, dtype)?;
        let values = (M > 1).then_some(Shared(targets[0]));
        let outputs = Outputs { values, indices: Shared(targets[M - 1]), size: results[0].size() };
        if let Some(rows) = ShortArg::of(reduction, source) {
            rows.find::<T>(outputs, largest);
            return Ok(());
        }
        if !suits(reduction) {
            fold_inner(reduction, source, targets, results.map(ScalarType::size), fold);
            return Ok(());
        }
        let (max, min) = (Maximum::of(dtype), Minimum::of(dtype));
        let max_fold =
            Folding::<T, _>::new(OrderedNumbers(max), Epilogue::Identity, max.identity(), prefetch);
        let min_fold =
            Folding::<T, _>::new(OrderedNumbers(min), Epilogue::Identity, min.identity(), prefetch);
        let folding: &dyn AnyFold = if largest { &max_fold } else { &min_fold };
        arg_outer(reduction, source, outputs, folding, &fold);
        Ok(())
    })
}

/// The index of the extreme along one dimension, the first of equals or of NaNs.
///
/// # Errors
/// `Busy` or `Aliasing` where memory may not be touched.
pub(crate) fn arg_extreme(input: &Tensor, out: &Tensor, mask: DimMask, largest: bool) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(through_computing, kernel, "argmax", T => {
        extremes::<T, 1>(input, [out], mask, [ScalarType::I64], largest)
    })
}

/// The extreme along one dimension, and its index.
///
/// # Errors
/// As [`arg_extreme`].
pub(crate) fn extreme_with_index(
    input: &Tensor,
    values: &Tensor,
    indices: &Tensor,
    mask: DimMask,
    largest: bool,
) -> Result<()> {
    let kernel = computing_type(input.dtype());
    dispatch_all_types!(through_computing, kernel, "max", T => {
        extremes::<T, 2>(input, [values, indices], mask, [T::SCALAR_TYPE, ScalarType::I64], largest)
    })
}
