//! A fold of elements of one type with its epilogue, as the type-erased fold of the loops over dimensions.
#![expect(unsafe_code, reason = "passes on elements that the callers have guards for")]

use super::accumulate::{AccumulateBlocks, AccumulateRows};
use super::accumulator::Accumulator;
use super::any_fold::AnyFold;
use super::each_row::FoldEachRow;
use super::fold::Epilogue;
use super::strips::BlockShape;
use crate::loops::prefetch::Prefetch;
use crate::vectorized::{Convert, EveryIsa, dispatch, load_one, with_processor_vectors};
use flambeau_core::{Element, Scalar, ScalarType};
use half::{bf16, f16};
use std::marker::PhantomData;

/// A fold of elements of `T` with its epilogue.
#[derive(Clone, Copy)]
pub(crate) struct Folding<T, F> {
    lanes: F,
    epilogue: Epilogue,
    identity: T,
    prefetch: Prefetch,
}

impl<T: Element, F> Folding<T, F> {
    pub(super) fn new(lanes: F, epilogue: Epilogue, identity: Scalar, prefetch: Prefetch) -> Self {
        Folding { lanes, epilogue, identity: T::from_scalar(identity), prefetch }
    }
}

impl<T, F: Copy> Folding<T, F> {
    /// The kernel for a single row of `n` elements of `S`, in memory or as accumulators.
    fn one_row<S>(&self, from: *const u8, n: usize, to: *mut u8) -> FoldEachRow<S, F> {
        FoldEachRow {
            from: from.cast(),
            n,
            row_stride: 0,
            to,
            count: 1,
            pairs: false,
            prefetch: self.prefetch,
            lanes: self.lanes,
        }
    }
}

/// Replaces each of `n` dense elements by a function of it in f64. The results go where the elements were, so that the compiler sees that
/// none is read later, and makes the loop one of vectors.
///
/// # Safety
/// - They are this thread's to write.
#[inline]
unsafe fn map_in_place<T: Element + Convert>(elements: *mut T, n: usize, f: impl Fn(f64) -> f64) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..n {
                // SAFETY: this function's condition.
                unsafe {
                    let at = elements.add(i);
                    let result = f(load_one(at).to_scalar().to_f64());
                    at.write_unaligned(T::from_scalar(Scalar::Float(result)));
                }
            }
        },
    );
}

/// Divides each of `n` dense numbers. This is [`map_in_place`] by the quotient in f64, which has more than twice as many bits: rounded twice
/// a quotient of f32 is the same (Figueroa, *When is double rounding innocuous?*, 1995).
///
/// # Safety
/// - They are this thread's to write.
unsafe fn divide_in_place(numbers: *mut f32, n: usize, by: f32) {
    with_processor_vectors(
        #[inline(always)]
        move || {
            for i in 0..n {
                // SAFETY: this function's condition.
                unsafe {
                    let at = numbers.add(i);
                    at.write_unaligned(load_one(at) / by);
                }
            }
        },
    );
}

impl<T: Element + Convert, F> Folding<T, F> {
    /// Applies the epilogue to `n` dense accumulators, in place.
    ///
    /// # Safety
    /// - They are this thread's to write.
    unsafe fn finish(&self, accumulators: *mut T, n: usize) {
        // SAFETY: this function's condition.
        unsafe {
            match self.epilogue {
                Epilogue::Identity => {}
                Epilogue::Divide(by) if T::SCALAR_TYPE == ScalarType::F32 && f64::from(by as f32) == by => {
                    divide_in_place(accumulators.cast(), n, by as f32);
                }
                Epilogue::Divide(by) => map_in_place(
                    accumulators,
                    n,
                    #[inline(always)]
                    move |x| x / by,
                ),
                Epilogue::Power(p) => map_in_place(
                    accumulators,
                    n,
                    #[inline(always)]
                    move |x| x.powf(p),
                ),
                Epilogue::Sqrt => map_in_place(accumulators, n, f64::sqrt),
            }
        }
    }
}

impl<T, F> AnyFold for Folding<T, F>
where
    T: Element + Convert,
    F: Copy + Send + Sync,
    FoldEachRow<T, F>: EveryIsa,
    FoldEachRow<f16, F>: EveryIsa,
    FoldEachRow<bf16, F>: EveryIsa,
    AccumulateRows<T, F>: EveryIsa,
    AccumulateBlocks<T, F>: EveryIsa,
{
    fn identity(&self) -> Accumulator {
        Accumulator::of(self.identity)
    }

    fn dtype(&self) -> ScalarType {
        T::SCALAR_TYPE
    }

    unsafe fn fold_rows(
        &self,
        memory: ScalarType,
        from: *const u8,
        n: usize,
        row_stride: isize,
        to: *mut u8,
        count: usize,
    ) {
        // SAFETY: the rows hold `n` elements each of the type in memory, and `to` takes an accumulator for each.
        unsafe {
            match memory {
                ScalarType::F16 => {
                    dispatch(FoldEachRow { row_stride, count, ..self.one_row::<f16>(from, n, to) });
                }
                ScalarType::BF16 => {
                    dispatch(FoldEachRow { row_stride, count, ..self.one_row::<bf16>(from, n, to) });
                }
                _ => dispatch(FoldEachRow { row_stride, count, ..self.one_row::<T>(from, n, to) }),
            }
        }
    }

    fn combine(&self, a: Accumulator, b: Accumulator) -> Accumulator {
        // SAFETY: accumulators of this fold hold elements of `T`.
        unsafe {
            let pair = [a, b].map(|acc| load_one(acc.as_ptr().cast::<T>()));
            let (from, mut result) = (pair.as_ptr().cast(), self.identity);
            let to = (&raw mut result).cast();
            dispatch(FoldEachRow { pairs: true, ..self.one_row::<T>(from, 2, to) });
            Accumulator::of(result)
        }
    }

    unsafe fn accumulate_rows(&self, rows: &[*const u8], to: *mut u8, n: usize, accumulators: bool) {
        let (rows, count, to) = (rows.as_ptr(), rows.len(), to.cast::<T>());
        // SAFETY: the rows and `to` hold `n` elements.
        unsafe {
            dispatch(AccumulateRows {
                rows,
                count,
                to,
                n,
                accumulators,
                lanes: self.lanes,
                element: PhantomData,
            })
        }
    }

    unsafe fn accumulate_blocks(
        &self,
        from: *const u8,
        shape: BlockShape,
        to: *mut u8,
        count: usize,
        steps: [isize; 2],
    ) {
        let lanes = self.lanes;
        // SAFETY: the blocks and `to` hold the shape's elements.
        unsafe {
            dispatch(AccumulateBlocks::<T, F> {
                from: from.cast(),
                shape,
                to: to.cast(),
                count,
                steps,
                lanes,
            })
        }
    }

    unsafe fn write(&self, from: *const u8, n: usize, to: *mut u8, stride: isize) {
        // SAFETY: `from` holds `n` accumulators, and each address takes a result.
        unsafe {
            if stride == size_of::<T>() as isize {
                if from != to.cast_const() {
                    from.copy_to(to, n * size_of::<T>());
                }
                return self.finish(to.cast(), n);
            }
            for i in 0..n {
                let value = load_one(from.cast::<T>().add(i));
                to.offset(i as isize * stride).cast::<T>().write_unaligned(self.epilogue.apply(value));
            }
        }
    }
}
