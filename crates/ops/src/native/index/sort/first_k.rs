//! The first `k` elements of a row in sorted order, for small `k`: vectors of elements are compared with the last of the `k` found so
//! far, and only elements before it become candidates.
#![expect(unsafe_code, reason = "reads elements of a slice as vectors")]

use super::item::Item;
use crate::native::element_bits::{ElementBits, Sortable};
use crate::vectorized::{
    CodegenAnchor, EveryIsa, Isa, Kernel, Mask, Ordered, OrderedLanes, Vector, dispatch,
};

/// The minimum number of candidates that are collected before the first `k` are selected again: with fewer, the selections would
/// dominate the run time.
const MIN_CANDIDATES: usize = 16;

/// The first `k` of at least `8 * k` values, in sorted order.
pub(super) fn select_first_k<T: ElementBits<Number: Sortable>, I: Item>(
    items: &mut Vec<I>,
    values: &[T::Number],
    k: usize,
    descending: bool,
) where
    FindBefore<T>: EveryIsa<Candidates>,
{
    let capacity = k + k.max(MIN_CANDIDATES);
    let item = |index: usize| I::new(values[index].sort_key(), descending, index as u32);
    let mut next = capacity.min(values.len());
    items.extend((0..next).map(item));
    let mut bound = truncate_to_first(items, k);
    while next < values.len() {
        let found = first_before::<T>(values, next, bound.index() as usize, descending);
        next = found.first + found.count;
        let before = found.before[..found.count].iter().zip(found.first..);
        for candidate in before.filter(|(before, _)| **before).map(|(_, index)| item(index)) {
            if candidate < bound {
                items.push(candidate);
                if items.len() == capacity {
                    bound = truncate_to_first(items, k);
                }
            }
        }
    }
    truncate_to_first(items, k);
    items.sort_unstable();
}

/// Drops all but the first `k`, and returns the last of these.
fn truncate_to_first<I: Item>(items: &mut Vec<I>, k: usize) -> I {
    let last = *items.select_nth_unstable(k - 1).1;
    items.truncate(k);
    last
}

/// Consecutive values from index `first`, and which of them may come before a bound.
pub(super) struct Candidates {
    first: usize,
    count: usize,
    before: [bool; MAX_LANES],
}

/// The maximum number of lanes of a vector.
const MAX_LANES: usize = 64;

/// The first vector from index `next` on in which some value may come before that at index `bound`; without values if there is none.
fn first_before<T: ElementBits>(
    values: &[T::Number],
    next: usize,
    bound: usize,
    descending: bool,
) -> Candidates
where
    FindBefore<T>: EveryIsa<Candidates>,
{
    debug_assert!(next <= values.len() && bound < values.len());
    let from: *const T = values.as_ptr().cast();
    // SAFETY: `T::Number` has the size of `T`; all values, and the bound, are inside the slice.
    unsafe { dispatch(FindBefore { from, next, n: values.len(), bound: from.add(bound), descending }) }
}

/// [`first_before`] on vectors. It finds all values before the bound, and perhaps others: NaN is always a candidate.
pub(super) struct FindBefore<T> {
    from: *const T,
    next: usize,
    n: usize,
    bound: *const T,
    descending: bool,
}

impl<T> CodegenAnchor for FindBefore<T> {
    type Anchor = Self;
}

/// Vectors that are compared before one branch.
const UNROLL: usize = 4;

impl<I: Isa, T: OrderedLanes<I>> Kernel<I, Candidates> for FindBefore<T> {
    #[inline(always)]
    unsafe fn run(self) -> Candidates {
        // SAFETY: `first_before` ensures it.
        unsafe { if self.descending { find::<I, T, true>(self) } else { find::<I, T, false>(self) } }
    }
}

/// # Safety
/// - `from` is valid for reading `n` elements, and `bound` for one.
#[inline(always)]
unsafe fn find<I: Isa, T: OrderedLanes<I>, const DESCENDING: bool>(work: FindBefore<T>) -> Candidates {
    let FindBefore { from, next, n, bound, .. } = work;
    // SAFETY: this function's condition.
    let bound = T::Vector::splat(unsafe { T::load_one(bound) }.widen());
    if DESCENDING && bound.ne(bound).any() {
        // The bound is NaN, the first in descending order.
        return Candidates { first: n, count: 0, before: [false; MAX_LANES] };
    }
    const { assert!(T::Vector::LANES <= MAX_LANES) };
    let lanes = T::Vector::LANES;
    let mut at = next;
    // SAFETY: whole vectors end at or before `n`, and the last is read only up to it.
    unsafe {
        while at + UNROLL * lanes <= n {
            let mut none = <T::Vector as Vector>::Mask::first(lanes);
            for i in 0..UNROLL {
                none = none & after::<I, T, DESCENDING>(T::load(from.add(at + i * lanes)), bound);
            }
            if !none.all() {
                break;
            }
            at += UNROLL * lanes;
        }
        while at < n {
            let count = lanes.min(n - at);
            let none = after::<I, T, DESCENDING>(T::load_up_to(from.add(at), count), bound);
            let some = !none & <T::Vector as Vector>::Mask::first(count);
            if some.any() {
                let mut before = [false; MAX_LANES];
                some.store_bool(before.as_mut_ptr(), count);
                return Candidates { first: at, count, before };
            }
            at += count;
        }
    }
    Candidates { first: n, count: 0, before: [false; MAX_LANES] }
}

/// The lanes whose elements come after the bound, or are equal to it.
#[inline(always)]
fn after<I: Isa, T: OrderedLanes<I>, const DESCENDING: bool>(
    x: T::Vector,
    bound: T::Vector,
) -> <T::Vector as Vector>::Mask {
    if DESCENDING { x.le(bound) } else { x.ge(bound) }
}
