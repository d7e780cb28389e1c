//! The recording of a profiler: operators, backward nodes, named ranges and memory. Each thread has a log of its own.
//!
//! `flambeau_autograd::profiler` starts it, and makes tables and traces of what was recorded. Each thread writes to its own log, under a
//! lock that no other thread takes before the end. The number of a session separates late events from those of the next session.
//!
//! # Why a dispatch key
//!
//! Every call has the key `DispatchKey::Profiler`, and every operator has it among the keys that it skips. Both words are read in each
//! call anyway, so a profiler that is off adds no instruction. A profiler that starts removes the key from what each operator skips, with
//! one atomic store for each operator, which all threads see. These alternatives were rejected: a flag that `select` reads (two
//! instructions and a branch in the shortest path), a key in the thread's inclusions (other threads are not recorded), and a guard in
//! the function of the operator (its call of the kernel is no longer a tail call).
//!
//! A call that continues to the same operator behind a lower key, as recording does, is one event. Allocations are recorded through the
//! byte of switches that each allocation reads anyway.

mod log;

pub use log::{Event, Input, Kind, Memory, Recording, ThreadLog};

use crate::allocator::{CpuAllocator, start_recording, stop_recording};
use crate::{Allocator, Result, ensure};
use log::{Log, NONE};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Instant;

/// What is recorded in addition to names and times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Sizes and types of the tensor arguments of operators.
    pub shapes: bool,
    /// Each allocation and each freeing.
    pub memory: bool,
}

/// The number of the session that records, in the upper bits, and its options; 0 while none records. Reading it is one load.
static STATE: AtomicU32 = AtomicU32::new(0);
const SHAPES: u32 = 1;
const MEMORY: u32 = 2;
const ONE_SESSION: u32 = 4;

/// A session that records: its number, when it began, and the bytes that were live then.
struct Session {
    number: u32,
    start: u64,
    live: u64,
}

/// The last session's number, and the session that records.
static SESSION: Mutex<(u32, Option<Session>)> = Mutex::new((0, None));

type SharedLog = Arc<Mutex<Log>>;

/// The logs of all threads that have recorded something.
static LOGS: Mutex<Vec<SharedLog>> = Mutex::new(Vec::new());

thread_local! {
    static LOG: OnceCell<SharedLog> = const { OnceCell::new() };
}

/// The time in nanoseconds since the first call.
fn now() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

/// Returns the number that the next node of this thread will have, which links an operator to its node.
static NEXT_NODE: OnceLock<fn() -> u64> = OnceLock::new();

/// Sets the function that returns how many nodes a thread has recorded. Only the first call has an effect.
pub fn set_node_counter(counter: fn() -> u64) {
    let _ = NEXT_NODE.set(counter);
}

fn next_node() -> u64 {
    NEXT_NODE.get().map_or(NONE, |counter| counter())
}

/// Begins a session, in which all threads record.
///
/// # Errors
/// `Busy` if there is one already.
pub fn start(options: Options) -> Result<()> {
    let mut session = SESSION.lock();
    ensure!(session.1.is_none(), Busy, "profiler: another profiler is running; profilers do not nest");
    // Numbers are never 0, and begin again after 2^30 sessions.
    session.0 = (session.0 + 1) % (u32::MAX / ONE_SESSION);
    let number = session.0 + 1;
    LOGS.lock().retain(|log| Arc::strong_count(log) > 1);
    let live = CpuAllocator.memory_stats().live_bytes as u64;
    session.1 = Some(Session { number, start: now(), live });
    let flags = (u32::from(options.shapes) * SHAPES) | (u32::from(options.memory) * MEMORY);
    STATE.store((number * ONE_SESSION) | flags, Relaxed);
    if options.memory {
        start_recording(record_memory);
    }
    Ok(())
}

/// Ends the session and returns what was recorded, which is empty if there was no session. Events that are still open end now.
pub fn stop() -> Recording {
    let Some(session) = SESSION.lock().1.take() else { return Recording::default() };
    STATE.store(0, Relaxed);
    stop_recording();
    let logs = LOGS.lock();
    // The clock is read for each log by itself: until then its thread may have been writing.
    let threads = logs.iter().filter_map(|log| log.lock().take(session.number, now)).collect();
    Recording { start: session.start, end: now(), live_bytes: session.live, threads }
}

/// Whether a session records.
#[inline]
pub fn is_running() -> bool {
    STATE.load(Relaxed) != 0
}

fn with_log<R>(number: u32, body: impl FnOnce(&mut Log) -> R) -> Option<R> {
    let body = |log: &OnceCell<SharedLog>| {
        let mut log = log.get_or_init(new_log).lock();
        log.belong_to(number);
        body(&mut log)
    };
    // A thread that is ending has no log any more.
    LOG.try_with(body).ok()
}

#[cold]
fn new_log() -> SharedLog {
    let log = Arc::new(Mutex::new(Log::new()));
    LOGS.lock().push(log.clone());
    log
}

/// An event that is being recorded, until this is dropped.
#[must_use = "it is recorded until this is dropped"]
pub struct Open {
    number: u32,
    at: u32,
    not_send: std::marker::PhantomData<*const ()>,
}

impl Open {
    fn new(number: u32, at: u32) -> Self {
        Open { number, at, not_send: std::marker::PhantomData }
    }
}

impl Open {
    /// Ends the events that are open inside this one, and begins another event inside, which ends with this one or at the next call.
    pub fn next_inside(&self, kind: Kind, name: impl Into<Cow<'static, str>>, sequence: u64) {
        if STATE.load(Relaxed) / ONE_SESSION != self.number {
            return;
        }
        let event = Event::new(kind, name.into(), sequence);
        let (end, nodes) = (now(), next_node());
        with_log(self.number, |log| {
            log.close(self.at + 1, end, nodes);
            log.open(event, 0, now)
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let (end, nodes) = (now(), next_node());
        if STATE.load(Relaxed) / ONE_SESSION == self.number {
            with_log(self.number, |log| log.close(self.at, end, nodes));
        }
    }
}

/// Begins a range or a backward node. `sequence` is the node's number, if it is one.
#[inline]
pub fn begin(kind: Kind, name: impl Into<Cow<'static, str>>, sequence: Option<u64>) -> Option<Open> {
    let state = STATE.load(Relaxed);
    if state == 0 {
        return None;
    }
    let event = Event::new(kind, name.into(), sequence.unwrap_or(NONE));
    let at = with_log(state / ONE_SESSION, |log| log.open(event, 0, now))?;
    Some(Open::new(state / ONE_SESSION, at))
}

/// Begins an operator whose kernel is registered for the key of number `key`. A kernel that redispatches to the same operator below its
/// key is part of the same call, which is recorded once.
pub fn begin_operator(name: &'static str, key: usize, inputs: impl FnOnce() -> Vec<Input>) -> Option<Open> {
    let state = STATE.load(Relaxed);
    if state == 0 {
        return None;
    }
    let mut event = Event::new(Kind::Operator, Cow::Borrowed(name), next_node());
    if state & SHAPES != 0 {
        event.inputs = Some(inputs().into_boxed_slice());
    }
    let key = key as u8;
    let open = |log: &mut Log| (!log.is_inside(name, key)).then(|| log.open(event, key, now));
    let at = with_log(state / ONE_SESSION, open)??;
    Some(Open::new(state / ONE_SESSION, at))
}

/// Records that so many bytes were allocated or freed.
fn record_memory(bytes: usize, allocated: bool) {
    let state = STATE.load(Relaxed);
    if state & MEMORY != 0 {
        let bytes = if allocated { bytes as i64 } else { -(bytes as i64) };
        with_log(state / ONE_SESSION, |log| log.remember(bytes, now()));
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
