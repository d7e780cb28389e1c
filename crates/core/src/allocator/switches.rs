//! Switches for debugging: filling fresh memory, and reporting each allocation.

use parking_lot::RwLock;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// What fresh memory is filled with, for debugging reads of what was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// Nothing: it holds whatever it held.
    #[default]
    None,
    /// Zeros, so that every run sees the same.
    Zero,
    /// Bytes of 0xFF, which every floating-point type reads as NaN and every signed integer as -1.
    Junk,
}

/// An allocation or a freeing, as told to a reporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEvent {
    /// Whether the bytes were allocated; otherwise they were freed.
    pub allocated: bool,
    /// The address.
    pub address: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// A function that is called for each allocation and each freeing.
pub type MemoryReporter = Arc<dyn Fn(&MemoryEvent) + Send + Sync>;

const ZERO: u8 = 1;
const JUNK: u8 = 2;
const REPORT: u8 = 4;
/// A profiler records memory.
const RECORD: u8 = 8;

/// All switches in one byte: while none is on, an allocation reads only this.
static SWITCHES: AtomicU8 = AtomicU8::new(0);
/// The function that the profiler registers, since the allocator must not depend on the profiler.
static RECORDER: OnceLock<fn(usize, bool)> = OnceLock::new();
static REPORTER: RwLock<Option<MemoryReporter>> = RwLock::new(None);

thread_local! {
    static REPORTING: Cell<bool> = const { Cell::new(false) };
}

#[inline(always)]
pub(super) fn any_on() -> bool {
    SWITCHES.load(Relaxed) != 0
}

#[inline(always)]
pub(super) fn reporting_on() -> bool {
    SWITCHES.load(Relaxed) & (REPORT | RECORD) != 0
}

pub(super) fn fill() -> Fill {
    match SWITCHES.load(Relaxed) & (ZERO | JUNK) {
        0 => Fill::None,
        ZERO => Fill::Zero,
        _ => Fill::Junk,
    }
}

pub(super) fn set_fill(fill: Fill) {
    let bit = match fill {
        Fill::None => 0,
        Fill::Zero => ZERO,
        Fill::Junk => JUNK,
    };
    let set = |switches| Some(switches & (REPORT | RECORD) | bit);
    // The update always has a value to store, so it cannot fail.
    let _ = SWITCHES.fetch_update(Relaxed, Relaxed, set);
}

pub(super) fn set_reporter(reporter: Option<MemoryReporter>) {
    let mut current = REPORTER.write();
    match reporter {
        Some(_) => SWITCHES.fetch_or(REPORT, Relaxed),
        None => SWITCHES.fetch_and(!REPORT, Relaxed),
    };
    let former = std::mem::replace(&mut *current, reporter);
    drop(current);
    drop(former); // After unlocking, since dropping it may free tensors, which reads the reporter.
}

/// Calls `recorder` for each allocation and each freeing from now on. Only the first recorder of a process is ever used.
pub(crate) fn start_recording(recorder: fn(bytes: usize, allocated: bool)) {
    RECORDER.get_or_init(|| recorder);
    SWITCHES.fetch_or(RECORD, Relaxed);
}

pub(crate) fn stop_recording() {
    SWITCHES.fetch_and(!RECORD, Relaxed);
}

/// Calls the profiler, and the reporter, unless the reporter itself has allocated.
#[cold]
pub(super) fn report(event: &MemoryEvent) {
    if SWITCHES.load(Relaxed) & RECORD != 0
        && let Some(recorder) = RECORDER.get()
    {
        recorder(event.bytes, event.allocated);
    }
    let Some(reporter) = REPORTER.read_recursive().clone() else { return };
    if !REPORTING.replace(true) {
        let _done = Done;
        reporter(event);
    }
}

/// Ends a report, even one that unwinds.
struct Done;

impl Drop for Done {
    fn drop(&mut self) {
        REPORTING.set(false);
    }
}
