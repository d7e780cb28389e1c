//! A profiler: which operators, backward nodes and named ranges took how long, on which thread, and what memory they took.
//!
//! It records every thread of the program. While none runs it costs nothing: calls reach their kernels by the same
//! instructions (see the dispatch key `Profiler`), and a backward pass asks once.
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

    /// Ends it, and hands over what it saw. What is still running ends now, as far as the profile knows.
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

/// Runs `body` under a profiler. However it ends, the profiler ends with it.
///
/// # Errors
/// `Busy` while another profiler runs, and those of `body`.
pub fn profile<R>(options: Options, body: impl FnOnce() -> Result<R>) -> Result<(R, Profile)> {
    let profiler = Profiler::start(options)?;
    let result = body()?;
    Ok((result, profiler.stop()))
}

/// Gives a part of the program a name, until what is returned is dropped; where no profiler runs nothing happens.
pub fn record_function(name: impl Into<Cow<'static, str>>) -> Option<Open> {
    profiler::begin(Kind::Range, name, None)
}

/// Whether a profiler runs.
pub fn is_running() -> bool {
    profiler::is_running()
}

/// What a profiler saw.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    recording: Recording,
}

impl Profile {
    /// What each thread did, in the order in which it began.
    pub fn threads(&self) -> &[ThreadLog] {
        &self.recording.threads
    }

    /// How long the profiler ran, in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.recording.end - self.recording.start
    }

    /// When the profiler began, on the clock of the events.
    pub fn start(&self) -> u64 {
        self.recording.start
    }

    /// The most bytes that were in tensors at one moment; what is known at the beginning, unless memory was recorded.
    pub fn peak_bytes(&self) -> u64 {
        self.live_bytes().iter().map(|(_, live)| *live).fold(self.recording.live_bytes, u64::max)
    }

    /// Bytes in tensors after each allocation and each freeing, with its time, of all threads together.
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

    /// The events by name, and by the sizes and types of their inputs if so wished.
    pub fn key_averages(&self, by_inputs: bool) -> Averages {
        Averages::of(self.threads(), by_inputs)
    }
}
