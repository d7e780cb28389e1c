//! Coarse work: tasks of some hundred microseconds or more, of sizes that differ. rayon's threads steal them from each other;
//! entering its pool takes some ten microseconds, which [`parallel_for`](crate::parallel_for) is made to avoid.
//!
//! As everywhere in this crate, the number of threads decides only who runs a task. The pool belongs to one process: a child made by
//! `fork` does not use its parent's, whose threads it does not have, and makes its own.

use crate::{in_parallel_region, num_threads, pool::THREAD_BYTES};
use parking_lot::Mutex;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::process;
use std::sync::Arc;

struct Pool {
    process: u32,
    threads: usize,
    pool: Arc<ThreadPool>,
}

static POOL: Mutex<Option<Pool>> = Mutex::new(None);

/// Runs `f` on every task, possibly on several threads, and returns when all are done.
///
/// A panic in `f` resumes on the caller.
///
/// # Example
///
/// ```
/// let mut rows = vec![vec![3, 1, 2], vec![9, 7]];
/// flambeau_parallel::for_each_task(rows.iter_mut().collect(), |row| row.sort());
/// assert_eq!(rows, [vec![1, 2, 3], vec![7, 9]]);
/// ```
pub fn for_each_task<T: Send>(tasks: Vec<T>, f: impl Fn(T) + Sync) {
    let threads = num_threads().min(tasks.len());
    match pool(threads) {
        Some(pool) => pool.install(|| tasks.into_par_iter().for_each(&f)),
        None => tasks.into_iter().for_each(f),
    }
}

/// The pool of this process, made now if there is none. `None` if one thread suffices, or no other can be started.
fn pool(threads: usize) -> Option<Arc<ThreadPool>> {
    if threads <= 1 || in_parallel_region() {
        return None;
    }
    // Another thread holds the lock while it makes the pool; if a fork copied it then, it is held for ever in the child.
    let mut current = POOL.try_lock()?;
    let (process, threads) = (process::id(), num_threads());
    if let Some(found) = current.as_ref()
        && (found.process, found.threads) == (process, threads)
    {
        return Some(found.pool.clone());
    }
    if Vec::<u8>::new().try_reserve_exact(threads.saturating_mul(THREAD_BYTES)).is_err() {
        return None;
    }
    let name = |number| format!("flambeau-task-{number}");
    let made = ThreadPoolBuilder::new().num_threads(threads).thread_name(name).build().ok()?;
    let pool = Arc::new(made);
    let before = current.replace(Pool { process, threads, pool: pool.clone() });
    if let Some(parents) = before.filter(|before| before.process != process) {
        std::mem::forget(parents); // Dropping it would join threads that this process does not have.
    }
    Some(pool)
}
