//! The number of nodes that exist. Each thread has its own counter, so that threads do not contend for one; readers add them up.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

static COUNTERS: Mutex<Vec<Arc<AtomicI64>>> = Mutex::new(Vec::new());
/// The sum of the counters of threads that have exited.
static EXITED: AtomicI64 = AtomicI64::new(0);

struct Counter(Arc<AtomicI64>);

thread_local! {
    static COUNTER: Counter = {
        let counter = Arc::new(AtomicI64::new(0));
        COUNTERS.lock().push(counter.clone());
        Counter(counter)
    };
}

impl Drop for Counter {
    fn drop(&mut self) {
        let mut counters = COUNTERS.lock();
        counters.retain(|counter| !Arc::ptr_eq(counter, &self.0));
        EXITED.fetch_add(self.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[inline]
pub(super) fn add(change: i64) {
    // Only its own thread writes a counter, so a load and a store are enough; no atomic read-modify-write is needed.
    let counted = COUNTER.try_with(|counter| {
        counter.0.store(counter.0.load(Ordering::Relaxed) + change, Ordering::Relaxed);
    });
    if counted.is_err() {
        EXITED.fetch_add(change, Ordering::Relaxed);
    }
}

/// How many nodes of operators exist, in all threads. It is 0 for a program that holds no history, unless nodes leak.
///
/// ```
/// use flambeau_autograd::{Autograd, live_nodes};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from_vec(vec![1.0f32], &[1])?;
/// x.requires_grad_(true)?;
/// let before = live_nodes();
/// let y = ops::exp(&x)?;
/// assert_eq!(live_nodes(), before + 1); // exp's
/// drop(y);
/// assert_eq!(live_nodes(), before);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn live_nodes() -> i64 {
    let counters = COUNTERS.lock();
    EXITED.load(Ordering::Relaxed) + counters.iter().map(|c| c.load(Ordering::Relaxed)).sum::<i64>()
}
