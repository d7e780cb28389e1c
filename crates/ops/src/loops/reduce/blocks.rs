//! Folds of dense elements in blocks: on vectors of an instruction set, whose lanes are combined at the end.
#![expect(unsafe_code, reason = "reads dense elements that the callers have guards for")]

use super::fold::{BLOCK, CHUNK, FloatFold, NumberFold, OrderedFold};
use crate::loops::prefetch::Prefetch;
use crate::loops::rows::touch_second_half;
use crate::vectorized::{
    CodegenAnchor, Convert, EveryIsa, FloatLanes, Isa, Kernel, Lanes, Mask, Number, OrderedLanes, Vector,
    dispatch,
};
use flambeau_core::Element;
use std::mem::MaybeUninit;

/// A fold on vectors of an instruction set.
pub(crate) trait LaneFold<I: Isa, T: Lanes<I>>: Copy + CodegenAnchor {
    fn identity(self) -> T::Vector;
    fn step(self, acc: T::Vector, x: T::Vector) -> T::Vector;
    fn combine(self, a: T::Vector, b: T::Vector) -> T::Vector;
}

macro_rules! lane_fold {
    ($wrapper:ident, $fold:ident, $lanes:ident) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $wrapper<F>(pub(crate) F);

        impl<F> CodegenAnchor for $wrapper<F> {
            type Anchor = F;
        }

        impl<I: Isa, T: $lanes<I>, F: $fold> LaneFold<I, T> for $wrapper<F> {
            #[inline(always)]
            fn identity(self) -> T::Vector {
                T::Vector::scalar(self.0.identity())
            }
            #[inline(always)]
            fn step(self, acc: T::Vector, x: T::Vector) -> T::Vector {
                self.0.step(acc, x)
            }
            #[inline(always)]
            fn combine(self, a: T::Vector, b: T::Vector) -> T::Vector {
                self.0.combine(a, b)
            }
        }
    };
}

lane_fold!(Numbers, NumberFold, Lanes);
lane_fold!(OrderedNumbers, OrderedFold, OrderedLanes);
lane_fold!(Floats, FloatFold, FloatLanes);

/// Folds `n` dense elements with a [`NumberFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense<T: Element + Convert, F: NumberFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, Numbers<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: Numbers(fold) }) }
}

/// Folds `n` dense elements with an [`OrderedFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense_ordered<T: Element + Convert, F: OrderedFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, OrderedNumbers<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: OrderedNumbers(fold) }) }
}

/// Folds `n` dense elements with a [`FloatFold`].
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline]
pub(crate) unsafe fn fold_dense_floats<T: Element + Convert, F: FloatFold>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    fold: F,
) -> T
where
    FoldKernel<T, Floats<F>>: EveryIsa<T>,
{
    // SAFETY: this function's condition.
    unsafe { dispatch(FoldKernel { from, n, prefetch, lanes: Floats(fold) }) }
}

/// Folds `n` elements.
pub(crate) struct FoldKernel<T, F> {
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    lanes: F,
}

impl<T, F: CodegenAnchor> CodegenAnchor for FoldKernel<T, F> {
    type Anchor = F::Anchor;
}

impl<I: Isa, T: Lanes<I>, F: LaneFold<I, T>> Kernel<I, T> for FoldKernel<T, F> {
    #[inline(always)]
    unsafe fn run(self) -> T {
        // SAFETY: `from` holds `n` elements.
        first_lane::<I, T>(unsafe { fold_lanes::<I, T, F>(self.from, self.n, self.prefetch, self.lanes) })
    }
}

/// Levels of the tree of blocks in one call: a [`CHUNK`] holds 16 blocks.
const LEVELS: usize = 5;

/// The fold of `n` elements, at most a [`CHUNK`], in lane 0.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn fold_lanes<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    f: F,
) -> T::Vector {
    debug_assert!(n <= CHUNK);
    // SAFETY: each block lies within the `n` elements.
    unsafe {
        let mut all = fold_block::<I, T, F>(from, n.min(BLOCK), prefetch, f);
        if n > BLOCK {
            // Whole vectors are combined as the carries of a binary counter: `partials[level]` of 2^level blocks.
            let mut partials = [all; LEVELS];
            let blocks = n.div_ceil(BLOCK);
            for number in 1..blocks {
                let start = number * BLOCK;
                let mut part = fold_block::<I, T, F>(from.add(start), BLOCK.min(n - start), prefetch, f);
                let mut level = 0;
                while number >> level & 1 == 1 {
                    part = f.combine(partials[level], part);
                    level += 1;
                }
                partials[level.min(LEVELS - 1)] = part;
            }
            let last = (blocks.trailing_zeros() as usize).min(LEVELS - 1);
            all = partials[last];
            for (level, partial) in partials.iter().enumerate().skip(last + 1) {
                if blocks >> level & 1 == 1 {
                    all = f.combine(*partial, all);
                }
            }
        }
        let mut width = T::Vector::LANES;
        while width > 1 {
            width /= 2;
            all = f.combine(all, upper(all, width));
        }
        all
    }
}

/// The fold of a block, as a vector whose lanes are to be combined.
///
/// # Safety
/// - `from` is valid for reading `n` elements.
#[inline(always)]
pub(super) unsafe fn fold_block<I: Isa, T: Lanes<I>, F: LaneFold<I, T>>(
    from: *const T,
    n: usize,
    prefetch: Prefetch,
    f: F,
) -> T::Vector {
    let lanes = T::Vector::LANES;
    let identity = f.identity();
    let mut acc = [identity; 4];
    let mut at = 0;
    // SAFETY: whole vectors end at or before `n`, and the last one is read only up to it.
    unsafe {
        while at + 4 * lanes <= n {
            for (i, acc) in acc.iter_mut().enumerate() {
                let from = from.add(at + i * lanes);
                let later = from.cast::<u8>().wrapping_add(prefetch.distance);
                if prefetch.by_halves {
                    if prefetch.distance != 0 {
                        I::prefetch_l2(later);
                    }
                    touch_second_half::<I, T>(from.cast());
                } else if prefetch.distance != 0 {
                    I::prefetch(later);
                }
                *acc = f.step(*acc, T::load(from));
            }
            at += 4 * lanes;
        }
        let mut next = 0;
        while at + lanes <= n {
            acc[next] = f.step(acc[next], T::load(from.add(at)));
            next += 1;
            at += lanes;
        }
        if at < n {
            let x = T::load_partial(from.add(at), n - at);
            let inside = <T::Vector as Vector>::Mask::first(n - at);
            acc[3] = T::Vector::select(inside, f.step(acc[3], x), acc[3]);
        }
    }
    f.combine(f.combine(acc[0], acc[1]), f.combine(acc[2], acc[3]))
}

/// Lanes of the largest vector.
const MOST_LANES: usize = 64;

/// The lanes of a vector, in the first elements of an array. Read one by one they compile to shuffles, where a masked load of what was
/// just stored would stall (Note: store forwarding, in `flambeau_core`).
#[inline(always)]
pub(super) fn lanes_of<V: Number>(vector: V) -> [MaybeUninit<V::Element>; MOST_LANES] {
    const { assert!(V::LANES <= MOST_LANES) };
    let mut lanes = [const { MaybeUninit::uninit() }; MOST_LANES];
    // SAFETY: the array takes a vector.
    unsafe { vector.store(lanes.as_mut_ptr().cast()) };
    lanes
}

/// Lanes `width..2 * width` moved to the front, the others zero.
#[inline(always)]
fn upper<V: Number>(vector: V, width: usize) -> V {
    let (lanes, mut moved) = (lanes_of(vector), lanes_of(V::zero()));
    moved[..width].copy_from_slice(&lanes[width..2 * width]);
    // SAFETY: they hold a vector.
    unsafe { V::load(moved.as_ptr().cast()) }
}

/// Lane 0 as an element.
#[inline(always)]
pub(super) fn first_lane<I: Isa, T: Lanes<I>>(vector: T::Vector) -> T {
    // SAFETY: a vector has at least one lane.
    T::narrow(unsafe { lanes_of(vector)[0].assume_init() })
}
