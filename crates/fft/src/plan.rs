//! Transforms of complex rows, which are those of `rustfft`: the only module that names it.
#![expect(unsafe_code, reason = "pairs of parts are handed over as complex numbers of another crate")]

use crate::cache;
use crate::error::{OutOfMemory, ensure_room};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};
use std::cell::RefCell;
use std::sync::Arc;

/// The sign of the exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `sum(x[j] exp(-2 pi i j k / n))`.
    Forward,
    /// `sum(x[j] exp(2 pi i j k / n))`.
    Backward,
}

/// The transform of complex rows of one length in one direction.
pub struct Plan<T> {
    fft: Arc<dyn Fft<T>>,
}

/// A type whose rows `rustfft` transforms.
pub trait Planned: Sized {
    /// The plan of a length, which is not 0, from the cache if it is there.
    #[doc(hidden)]
    fn plan(length: usize, direction: Direction) -> Result<Arc<Plan<Self>>, OutOfMemory>;
    /// The length of the scratch of [`transform`](Self::transform).
    #[doc(hidden)]
    fn scratch_length(plan: &Plan<Self>) -> usize;
    /// Calls `f` with the thread's free buffers; not at the end of a thread.
    #[doc(hidden)]
    fn free_list<R>(f: impl FnOnce(&mut Vec<Vec<[Self; 2]>>) -> R) -> Option<R>;
    /// Transforms a row in place, which has the plan's length; a longer scratch is allowed.
    #[doc(hidden)]
    fn transform(plan: &Plan<Self>, row: &mut [[Self; 2]], scratch: &mut [[Self; 2]]);
}

macro_rules! planned {
    ($($t:ty),*) => {$(
        impl Planned for $t {
            fn plan(length: usize, direction: Direction) -> Result<Arc<Plan<Self>>, OutOfMemory> {
                cache::find_or_make(length, direction, || make::<$t>(length, direction))
            }

            fn scratch_length(plan: &Plan<Self>) -> usize {
                plan.fft.get_inplace_scratch_len()
            }

            fn free_list<R>(f: impl FnOnce(&mut Vec<Vec<[Self; 2]>>) -> R) -> Option<R> {
                thread_local! {
                    static FREE: RefCell<Vec<Vec<[$t; 2]>>> = const { RefCell::new(Vec::new()) };
                }
                FREE.try_with(|free| f(&mut free.borrow_mut())).ok()
            }

            fn transform(plan: &Plan<Self>, row: &mut [[Self; 2]], scratch: &mut [[Self; 2]]) {
                plan.fft.process_with_scratch(complex(row), complex(scratch));
            }
        }
    )*};
}
planned!(f32, f64);

/// Pairs of parts as complex numbers.
fn complex<T>(pairs: &mut [[T; 2]]) -> &mut [Complex<T>] {
    // SAFETY: `Complex` is `repr(C)` with the real part first, so it has the size, the alignment and the parts of a pair.
    unsafe { std::slice::from_raw_parts_mut(pairs.as_mut_ptr().cast(), pairs.len()) }
}

/// Makes a plan, and says how many bytes its tables have at most, as far as lengths tell.
fn make<T: FftNum>(length: usize, direction: Direction) -> Result<(Plan<T>, usize), OutOfMemory> {
    // The planner allocates infallibly, so that memory for the tables is requested first. A length with a large prime factor is
    // computed by a convolution of up to four times the length.
    ensure_room(length.saturating_mul(8 * size_of::<Complex<T>>()))?;
    let sign = match direction {
        Direction::Forward => FftDirection::Forward,
        Direction::Backward => FftDirection::Inverse,
    };
    // A planner retains the parts of every plan that it has made, so each plan has a new one.
    let fft = FftPlanner::new().plan_fft(length, sign);
    let entries = 2 * length + fft.get_inplace_scratch_len();
    Ok((Plan { fft }, entries.saturating_mul(size_of::<Complex<T>>())))
}
