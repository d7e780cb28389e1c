//! A profiler: how long operators, backward nodes and named ranges took, on which thread, and how much memory they allocated.
//!
//! It records every thread of the program. While no profiler runs, it costs nothing: calls reach their kernels by the same
//! instructions (see the dispatch key `Profiler`), and a backward pass checks once whether one runs.
//!
//! ```
//! use flambeau_autograd::profiler::{self, Options};
//! use flambeau_ops::{Tensor, ops};
//! let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! let (product, profile) = profiler::profile(Options { shapes: true, ..Default::default() }, || {
//!     let _named = profiler::record_function("twice");
//!     ops::mm(&ops::mm(&x, &x)?, &x)
//! })?;
//! let averages = profile.key_averages(false);
//! assert_eq!(averages.iter().find(|of| of.name == "mm").map(|of| of.count), Some(2));
//! assert_eq!(averages.iter().find(|of| of.name == "twice").map(|of| of.count), Some(1));
//! println!("{}", averages.table(profiler::SortBy::SelfTime, 10));
//! # assert_eq!(product.sizes(), [2, 2]);
//! # Ok::<(), flambeau_core::Error>(())
//! ```

mod averages;
mod table;
mod trace;

pub use averages::{Average, Averages};
pub use flambeau_core::profiler::{Event, Input, Kind, Memory, Open, Options, ThreadLog};
pub use table::SortBy;

use crate::graph::node;
use flambeau_core::Result;
use flambeau_core::profiler::{self, Recording};
use flambeau_ops::registry::operators;
use std::borrow::Cow;

/// A profiler that runs, until it is stopped or dropped.
#[must_use = "it records until it is dropped"]
pub struct Profiler {
    running: bool,
}

impl Profiler {
    /// Begins to record what all threads do.
    ///
    /// # Errors
    /// `Busy` while another profiler runs.
    pub fn start(options: Options) -> Result<Self> {
        profiler::set_node_counter(node::recorded_on_this_thread);
        profiler::start(options)?;
        operators().for_each(|operator| operator.set_observed(true));
        Ok(Profiler { running: true })
    }

    /// Stops it and returns the profile. Events that have not ended get the present time as their end.
    pub fn stop(mut self) -> Profile {
        self.end()
    }

    fn end(&mut self) -> Profile {
        self.running = false;
        // Before the session ends, after which another profiler may switch them on.
        operators().for_each(|operator| operator.set_observed(false));
        Profile { recording: profiler::stop() }
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        if self.running {
            self.end();
        }
    }
}

/// Runs `body` under a profiler, which is stopped even if `body` panics.
///
/// # Errors
/// `Busy` while another profiler runs, and those of `body`.
pub fn profile<R>(options: Options, body: impl FnOnce() -> Result<R>) -> Result<(R, Profile)> {
    let profiler = Profiler::start(options)?;
    let result = body()?;
    Ok((result, profiler.stop()))
}

/// Records a named range, which ends when the guard is dropped. Without a profiler nothing happens.
pub fn record_function(name: impl Into<Cow<'static, str>>) -> Option<Open> {
    profiler::begin(Kind::Range, name, None)
}

/// Whether a profiler runs.
pub fn is_running() -> bool {
    profiler::is_running()
}

/// What a profiler recorded.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    recording: Recording,
}

impl Profile {
    /// The events of each thread, in the order in which they began.
    pub fn threads(&self) -> &[ThreadLog] {
        &self.recording.threads
    }

    /// How long the profiler ran, in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.recording.end - self.recording.start
    }

    /// When the profiler started, by the clock of the events.
    pub fn start(&self) -> u64 {
        self.recording.start
    }

    /// The maximum number of bytes in tensors at any time; without recording of memory, the number when the profiler started.
    pub fn peak_bytes(&self) -> u64 {
        self.live_bytes().iter().map(|(_, live)| *live).fold(self.recording.live_bytes, u64::max)
    }

    /// The bytes in tensors after each allocation and each deallocation, with its time, for all threads together.
    pub fn live_bytes(&self) -> Vec<(u64, u64)> {
        let mut changes: Vec<Memory> =
            self.threads().iter().flat_map(|thread| &thread.memory).copied().collect();
        changes.sort_by_key(|change| change.time);
        let mut live = self.recording.live_bytes as i64;
        let after = |change: &Memory| {
            live += change.bytes;
            (change.time, live.max(0) as u64)
        };
        changes.iter().map(after).collect()
    }

    /// The events summed by name, and optionally by the sizes and dtypes of their inputs.
    pub fn key_averages(&self, by_inputs: bool) -> Averages {
        Averages::of(self.threads(), by_inputs)
    }
}
