//! Anomaly mode: nodes remember the backtrace of the call that recorded them, and a backward pass that fails, or makes a
//! NaN, names the node and shows it. Here is the mode; the engine looks at what a pass makes.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Off,
    On { check_nan: bool },
}

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::Off) };
}

/// What was before holds again when it is dropped.
#[must_use = "the mode lasts as long as the guard"]
pub struct AnomalyGuard {
    before: Mode,
    not_send: PhantomData<*const ()>,
}

/// Turns anomaly mode on for this thread, for recording and for running backwards; slow. With `check_nan`, a backward
/// pass in which a node makes a NaN is an error.
pub fn detect_anomaly(check_nan: bool) -> AnomalyGuard {
    AnomalyGuard { before: MODE.replace(Mode::On { check_nan }), not_send: PhantomData }
}

impl Drop for AnomalyGuard {
    fn drop(&mut self) {
        MODE.set(self.before);
    }
}

/// The backtrace for a node that is being recorded, if the mode is on.
#[inline]
pub(crate) fn trace() -> Option<Box<str>> {
    if MODE.get() == Mode::Off { None } else { Some(capture()) }
}

#[cold]
fn capture() -> Box<str> {
    let told = TRACER.get().and_then(|tracer| tracer());
    told.unwrap_or_else(|| Backtrace::force_capture().to_string()).into_boxed_str()
}

/// Tells where the program is, in the terms of a language above Rust; `None` where it has nothing to say.
pub type Tracer = fn() -> Option<String>;

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Has nodes remember what `tracer` tells, from now on. The first one stays.
pub fn set_tracer(tracer: Tracer) {
    let _ = TRACER.set(tracer);
}

/// Whether the mode is on for this thread, and whether NaN is looked for.
pub fn is_anomaly_enabled() -> (bool, bool) {
    match MODE.get() {
        Mode::Off => (false, false),
        Mode::On { check_nan } => (true, check_nan),
    }
}

/// Turns the mode on or off for this thread, until an [`AnomalyGuard`] that was there before ends.
pub fn set_detect_anomaly(on: bool, check_nan: bool) {
    MODE.set(if on { Mode::On { check_nan } } else { Mode::Off });
}

/// Whether a backward pass is to refuse NaN.
#[inline]
pub(crate) fn looks_for_nan() -> bool {
    MODE.get() == (Mode::On { check_nan: true })
}
