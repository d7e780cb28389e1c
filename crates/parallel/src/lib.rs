//! The parallel-for of all kernels: work is split by size, never by the number of threads.
//!
//! A range is cut into chunks whose boundaries follow from its length and the grain alone. Threads decide only
//! *who* runs a chunk, so a kernel that writes what its chunk owns, or that combines per-chunk partials in chunk
//! order ([`parallel_reduce`]), gives the same bits for every thread count.
//!
//! The calling thread claims chunks like the helper threads, and never waits for a helper that has not begun: on a busy machine it does
//! all the work itself. A call that is made from inside a chunk, or while another thread uses the helpers, runs serially on its own
//! thread over the same chunks.
//!
//! Helpers are their own threads: **thread-locals of the caller are not seen inside a chunk** (gradient mode,
//! dispatch keys, the current generator). Read them before the call and let the closure capture their values.
//!
//! The helpers belong to one process. A child made by `fork` starts its own on its first call.

/// The example of the crate's README, which runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

mod affinity;
mod chunks;
mod job_slots;
mod pool;
mod tasks;
#[cfg(test)]
mod tests;

pub use tasks::for_each_task;

use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use chunks::Chunks;

/// Runs `f` over every part of `range`, possibly on several threads, and returns when all parts are done.
///
/// Chunk `i` is `start + i * grain ..` of length `grain`; the last one takes what is left, between half a grain and
/// one and a half. A range shorter than that is a single call of `f` on this thread. A grain of 0 counts as 1.
///
/// A panic in `f` stops the handing out of further chunks and resumes on the caller.
///
/// # Example
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// let sum = AtomicUsize::new(0);
/// flambeau_parallel::parallel_for(0..1000, 100, |part| {
///     sum.fetch_add(part.sum::<usize>(), Ordering::Relaxed);
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
#[inline]
pub fn parallel_for(range: Range<usize>, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    for_each_chunk(Chunks::new(range, grain), &f);
}

/// Not generic over the body, so that it is compiled once.
#[inline(never)]
fn for_each_chunk(chunks: Chunks, f: &(dyn Fn(Range<usize>) + Sync)) {
    if !chunks.is_single() {
        pool::run(chunks, &|index| f(chunks.get(index)));
    } else if !chunks.range().is_empty() {
        f(chunks.range());
    }
}

/// Maps every chunk of `range` to a partial result, then combines the partials from the first chunk to the last.
///
/// Chunks are those of [`parallel_for`]. `None` for an empty range. The order of combination is fixed, so the result
/// has the same bits for every thread count even where `combine` is not associative.
///
/// # Example
///
/// ```
/// let values: Vec<f32> = (0..1000).map(|i| i as f32).collect();
/// let sum = flambeau_parallel::parallel_reduce(
///     0..values.len(),
///     128,
///     |part| values[part].iter().sum::<f32>(),
///     |a, b| a + b,
/// );
/// assert_eq!(sum, Some(499_500.0));
/// ```
#[inline]
pub fn parallel_reduce<R: Send>(
    range: Range<usize>,
    grain: usize,
    map: impl Fn(Range<usize>) -> R + Sync,
    combine: impl FnMut(R, R) -> R,
) -> Option<R> {
    let chunks = Chunks::new(range, grain);
    if chunks.is_single() {
        return (!chunks.range().is_empty()).then(|| map(chunks.range()));
    }
    // A lock per slot is never contended: each index is handed out once.
    let slots: Vec<Mutex<Option<R>>> = (0..chunks.count()).map(|_| Mutex::new(None)).collect();
    pool::run(chunks, &|index| {
        let partial = map(chunks.get(index));
        *slots[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(partial);
    });
    let partials = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    partials.flatten().reduce(combine)
}

/// How many chunks [`parallel_for`] cuts a range of `len` into, for callers that keep a slot per chunk.
///
/// The chunk that starts at `first` has the slot `(first - range.start) / grain`.
#[must_use]
pub fn chunk_count(len: usize, grain: usize) -> usize {
    if len == 0 { 0 } else { Chunks::new(0..len, grain).count() }
}

/// 0 until it is first read or set.
static NUM_THREADS: AtomicUsize = AtomicUsize::new(0);

/// The largest number of threads a call may use, the calling one included.
///
/// At first what `FLAMBEAU_NUM_THREADS` says, or else what the system offers this process.
#[must_use]
pub fn num_threads() -> usize {
    match NUM_THREADS.load(Ordering::Relaxed) {
        0 => {
            let found = from_environment().unwrap_or_else(available);
            // A thread count that another thread has set meanwhile stays.
            match NUM_THREADS.compare_exchange(0, found, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => found,
                Err(set) => set,
            }
        }
        set => set,
    }
}

/// Sets the largest number of threads for all later calls, from any thread, at any time. 0 counts as 1.
///
/// It changes how long results take and never what they are.
pub fn set_num_threads(n: usize) {
    NUM_THREADS.store(n.max(1), Ordering::Relaxed);
}

/// Whether the calling thread is inside a chunk, where further calls run serially.
#[must_use]
pub fn in_parallel_region() -> bool {
    pool::in_region()
}

fn from_environment() -> Option<usize> {
    let text = std::env::var("FLAMBEAU_NUM_THREADS").ok()?;
    text.trim().parse().ok().filter(|&n| n > 0)
}

fn available() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
