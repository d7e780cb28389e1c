//! The first few of many: whole vectors are compared with the last of those found so far, and only what comes before it is kept.
#![expect(unsafe_code, reason = "reads elements of a slice as vectors")]

use super::item::Item;
use crate::native::element_bits::{Sortable, Stored};
use crate::vectorized::{EveryIsa, Isa, Kernel, Mask, Ordered, OrderedLanes, CodegenAnchor, Vector, dispatch};

/// Items between two looks for the first `k` among them: as many as there are to find, but not so few that most of the time goes
/// into looking.
const ROOM: usize = 16;

/// The first `k` of at least `8 * k` values, in order.
pub(super) fn select_few<T: Stored<Number: Sortable>, I: Item>(
    items: &mut Vec<I>,
    values: &[T::Number],
    k: usize,
    descending: bool,
) where
    First<T>: EveryIsa<Found>,
{
    let most = k + k.max(ROOM);
    let item = |index: usize| I::new(values[index].order(), descending, index as u32);
    let mut next = most.min(values.len());
    items.extend((0..next).map(item));
    let mut bound = keep_first(items, k);
    while next < values.len() {
        let found = first_before::<T>(values, next, bound.index() as usize, descending);
        next = found.first + found.count;
        let before = found.before[..found.count].iter().zip(found.first..);
        for candidate in before.filter(|(before, _)| **before).map(|(_, index)| item(index)) {
            if candidate < bound {
                items.push(candidate);
                if items.len() == most {
                    bound = keep_first(items, k);
                }
            }
        }
    }
    keep_first(items, k);
    items.sort_unstable();
}

/// Drops all but the first `k`, and returns the last of these.
fn keep_first<I: Item>(items: &mut Vec<I>, k: usize) -> I {
    let last = *items.select_nth_unstable(k - 1).1;
    items.truncate(k);
    last
}

/// Neighbouring values, and which of them may come before a bound.
pub(super) struct Found {
    first: usize,
    count: usize,
    before: [bool; MOST],
}

/// Lanes of a vector at most.
const MOST: usize = 64;

/// The first values from number `next` on of which some may come before value number `bound`; at the end none.
fn first_before<T: Stored>(values: &[T::Number], next: usize, bound: usize, descending: bool) -> Found
where
    First<T>: EveryIsa<Found>,
{
    debug_assert!(next <= values.len() && bound < values.len());
    let from: *const T = values.as_ptr().cast();
    // SAFETY: numbers are as large as the elements they stand for; all of them, and the bound, are inside the slice.
    unsafe { dispatch(First { from, next, n: values.len(), bound: from.add(bound), descending }) }
}

/// [`first_before`] on lanes. What it says is only a guess that misses none: NaN is among what may come before.
pub(super) struct First<T> {
    from: *const T,
    next: usize,
    n: usize,
    bound: *const T,
    descending: bool,
}

impl<T> CodegenAnchor for First<T> {
    type Anchor = Self;
}

/// Vectors looked at together.
const TOGETHER: usize = 4;

impl<I: Isa, T: OrderedLanes<I>> Kernel<I, Found> for First<T> {
    #[inline(always)]
    unsafe fn run(self) -> Found {
        // SAFETY: what it asks for holds of every `First`.
        unsafe { if self.descending { find::<I, T, true>(self) } else { find::<I, T, false>(self) } }
    }
}

/// # Safety
/// - `from` is valid for reading `n` elements, and `bound` for one.
#[inline(always)]
unsafe fn find<I: Isa, T: OrderedLanes<I>, const DESCENDING: bool>(work: First<T>) -> Found {
    let First { from, next, n, bound, .. } = work;
    // SAFETY: this function's condition.
    let bound = T::Vector::splat(unsafe { T::load_one(bound) }.widen());
    if DESCENDING && bound.ne(bound).any() {
        return Found { first: n, count: 0, before: [false; MOST] }; // Nothing comes before NaN.
    }
    const { assert!(T::Vector::LANES <= MOST) };
    let lanes = T::Vector::LANES;
    let mut at = next;
    // SAFETY: whole vectors end at or before `n`, and the last is read only up to it.
    unsafe {
        while at + TOGETHER * lanes <= n {
            let mut none = <T::Vector as Vector>::Mask::first(lanes);
            for i in 0..TOGETHER {
                none = none & after::<I, T, DESCENDING>(T::load(from.add(at + i * lanes)), bound);
            }
            if !none.all() {
                break;
            }
            at += TOGETHER * lanes;
        }
        while at < n {
            let count = lanes.min(n - at);
            let none = after::<I, T, DESCENDING>(T::load_up_to(from.add(at), count), bound);
            let some = !none & <T::Vector as Vector>::Mask::first(count);
            if some.any() {
                let mut before = [false; MOST];
                some.store_bool(before.as_mut_ptr(), count);
                return Found { first: at, count, before };
            }
            at += count;
        }
    }
    Found { first: n, count: 0, before: [false; MOST] }
}

/// Where elements come after the bound, or are equal to it.
#[inline(always)]
fn after<I: Isa, T: OrderedLanes<I>, const DESCENDING: bool>(
    x: T::Vector,
    bound: T::Vector,
) -> <T::Vector as Vector>::Mask {
    if DESCENDING { x.le(bound) } else { x.ge(bound) }
}
