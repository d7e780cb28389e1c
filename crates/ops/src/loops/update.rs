//! Formulas that change several operands in place, such as the step of an optimizer: one pass over memory, where an operator for each
//! intermediate result would take one of its own.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::rows::{VectorBuf, store_first};
use super::strided::copy_strided;
use crate::dispatch_all_types;
use crate::tensor_iterator::{Pointers, TensorIterator};
use crate::vectorized::{CodegenAnchor, EveryIsa, Float, FloatLanes, Isa, Kernel, Number, Vector, dispatch};
use flambeau_core::Result;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Elements of an operand that are not dense that are gathered at a time: so few that those of all operands fit L1.
const TILE: usize = 256;

/// Rounds vectors to the type of the elements, which f16 and bf16 are narrower than.
pub trait Rounding<V> {
    /// What a store and a load leave of it.
    fn round(vector: V) -> V;
}

/// A formula of the new values of `M` operands by their old ones and by `N` operands that it only reads.
pub trait UpdateFormula<const M: usize, const N: usize>: Copy + Sync {
    /// The formula, on vectors. Mark it `#[inline(always)]`. Each result of `R::round` has the bits that an operator stores.
    fn call<V: Float, R: Rounding<V>>(self, changed: [V; M], read: [V; N]) -> [V; M];
}

/// Evaluates a formula over an iterator of outputs, which are changed, and inputs.
///
/// # Errors
/// `NotImplemented` for other types than floating point numbers, `Busy` or `Aliasing` where an operand may not be touched.
///
/// # Safety
/// - The iterator has `M` outputs and `N` inputs, all of the common type.
/// - No output shares memory with another operand.
pub unsafe fn update_kernel<F, const M: usize, const N: usize>(
    iter: &TensorIterator<'_>,
    formula: F,
) -> Result<()>
where
    F: UpdateFormula<M, N>,
{
    dispatch_all_types!(floats, iter.common_dtype(), iter.name(), T => {
        // SAFETY: this function's conditions.
        unsafe { run::<T, F, M, N>(iter, formula) }
    })
}

/// # Safety
/// - As for [`update_kernel`], with `T` the common type.
unsafe fn run<T, F, const M: usize, const N: usize>(iter: &TensorIterator<'_>, formula: F) -> Result<()>
where
    T: Copy,
    F: Copy + Sync,
    UpdateKernel<T, F, M, N>: EveryIsa,
{
    iter.with_pointers(|data| {
        iter.for_each(data, |p, n, rows| {
            for row in 0..rows as i64 {
                // SAFETY: a row that the iterator gives lies inside the operands, which are guarded, and (this function's conditions) of type
                // `T` and apart from one another.
                unsafe { update_row::<T, F, M, N>(&p, row, n, formula) };
            }
        });
    })
}

/// Updates row `row` of `n` elements: in memory where all operands are dense, else in pieces, of which the others are gathered.
///
/// # Safety
/// - The pointers are those of `M + N` operands of `T` that have these elements, of which those of the first `M` are this thread's.
unsafe fn update_row<T, F, const M: usize, const N: usize>(p: &Pointers<'_>, row: i64, n: usize, formula: F)
where
    T: Copy,
    F: Copy,
    UpdateKernel<T, F, M, N>: EveryIsa,
{
    let size = size_of::<T>();
    let is_dense = |i: usize| p.inner[i] == size as i64 || n == 1;
    let at = |i: usize, first: usize| {
        p.data[i].wrapping_offset((row * p.outer[i] + first as i64 * p.inner[i]) as isize)
    };
    let piece = if (0..M + N).all(is_dense) { n.max(1) } else { TILE };
    let mut tiles = ([[MaybeUninit::<T>::uninit(); TILE]; M], [[MaybeUninit::<T>::uninit(); TILE]; N]);
    for first in (0..n).step_by(piece) {
        let count = piece.min(n - first);
        // SAFETY: this function's condition; a tile takes `count` elements.
        let elements = |i: usize, tile: &mut [MaybeUninit<T>; TILE]| unsafe {
            if is_dense(i) {
                return at(i, first).cast::<T>();
            }
            let tile = tile.as_mut_ptr().cast::<T>();
            copy_strided(at(i, first), p.inner[i], tile.cast(), size as i64, count, size);
            tile
        };
        let mut kernel = UpdateKernel::<T, F, M, N> {
            changed: [std::ptr::null_mut(); M],
            read: [std::ptr::null(); N],
            n: count,
            formula,
        };
        for (i, tile) in tiles.0.iter_mut().enumerate() {
            kernel.changed[i] = elements(i, tile);
        }
        for (i, tile) in tiles.1.iter_mut().enumerate() {
            kernel.read[i] = elements(M + i, tile);
        }
        // SAFETY: `count` elements of each operand, in memory or in a tile.
        unsafe { dispatch(kernel) };
        for (i, tile) in tiles.0.iter().enumerate().filter(|(i, _)| !is_dense(*i)) {
            // SAFETY: this function's condition; the tile has `count` elements.
            unsafe { copy_strided(tile.as_ptr().cast(), size as i64, at(i, first), p.inner[i], count, size) };
        }
    }
}

/// The loop over `n` dense elements of each operand.
struct UpdateKernel<T, F, const M: usize, const N: usize> {
    changed: [*mut T; M],
    read: [*const T; N],
    n: usize,
    formula: F,
}

impl<T, F, const M: usize, const N: usize> CodegenAnchor for UpdateKernel<T, F, M, N> {
    type Anchor = F;
}

/// [`Rounding`] to elements of `T`.
struct ToElements<I, T>(PhantomData<(I, T)>);

impl<I: Isa, T: FloatLanes<I>> Rounding<T::Vector> for ToElements<I, T> {
    #[inline(always)]
    fn round(vector: T::Vector) -> T::Vector {
        if size_of::<T>() == size_of::<<T::Vector as Vector>::Element>() {
            return vector;
        }
        let mut stored = VectorBuf::<T::Vector>::EMPTY;
        let elements = (&raw mut stored).cast::<T>();
        // SAFETY: memory for a vector, whose elements are not wider than its lanes.
        unsafe {
            T::store(vector, elements);
            T::load(elements)
        }
    }
}

impl<I, T, F, const M: usize, const N: usize> Kernel<I> for UpdateKernel<T, F, M, N>
where
    I: Isa,
    T: FloatLanes<I>,
    F: UpdateFormula<M, N>,
{
    /// The formula is inlined once, for whole vectors and for the last elements, as in [`super::rows`]: these are copied to vectors on
    /// the stack, for which the loop runs once more.
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "closures are not inlined into the shim reliably; plain loops are"
    )]
    unsafe fn run(self) {
        let UpdateKernel { mut changed, mut read, n, formula } = self;
        let lanes = T::Vector::LANES;
        let (mut whole, rest, mut is_rest) = (n / lanes, n % lanes, false);
        let mut last = ([VectorBuf::<T::Vector>::EMPTY; M], [VectorBuf::<T::Vector>::EMPTY; N]);
        let mut end = changed;
        // SAFETY: `n` elements of each operand, by the caller's promise, or a vector on the stack.
        unsafe {
            loop {
                for _ in 0..whole {
                    let (mut old, mut args) = ([T::Vector::zero(); M], [T::Vector::zero(); N]);
                    for i in 0..M {
                        old[i] = T::load(changed[i]);
                    }
                    for i in 0..N {
                        args[i] = T::load(read[i]);
                        read[i] = read[i].wrapping_add(lanes);
                    }
                    let new = formula.call::<T::Vector, ToElements<I, T>>(old, args);
                    for i in 0..M {
                        T::store(new[i], changed[i]);
                        changed[i] = changed[i].wrapping_add(lanes);
                    }
                }
                if rest == 0 {
                    return;
                }
                if is_rest {
                    for i in 0..M {
                        store_first::<I, T>((&raw const last.0[i]).cast(), end[i].cast(), rest);
                    }
                    return;
                }
                for i in 0..M {
                    end[i] = changed[i];
                    changed[i] = (&raw mut last.0[i]).cast();
                    T::store(T::load_partial(end[i], rest), changed[i]);
                }
                for i in 0..N {
                    let vector = (&raw mut last.1[i]).cast::<T>();
                    T::store(T::load_partial(read[i], rest), vector);
                    read[i] = vector;
                }
                (whole, is_rest) = (1, true);
            }
        }
    }
}
