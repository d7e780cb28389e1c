//! A load on the machine while workloads are timed: a thread that is always busy, and the slowdown that it may cause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// A thread of this process that is busy until the value is dropped. The workloads run in other processes.
pub(crate) struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Busy { stop, thread: Some(thread) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread only spins, and cannot fail.
        self.thread.take().map(JoinHandle::join);
    }
}

/// The slowdown of `threads` threads that share the processors evenly with one more.
pub(crate) fn share(threads: usize) -> f64 {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    ((threads + 1) as f64 / processors as f64).max(1.0)
}
