//! Anomaly mode: nodes keep the backtrace of the call that recorded them, and the error of a backward pass that fails, or computes a
//! NaN, names the node and shows the backtrace. This module has the mode; the engine checks the gradients.

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

/// Restores the former mode when it is dropped.
#[must_use = "the mode lasts as long as the guard"]
pub struct AnomalyGuard {
    before: Mode,
    not_send: PhantomData<*const ()>,
}

/// Enables anomaly mode for this thread, for recording and for backward passes; slow. With `check_nan`, a backward pass in which a
/// node returns a NaN is an error.
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
    let trace = TRACER.get().and_then(|tracer| tracer());
    trace.unwrap_or_else(|| Backtrace::force_capture().to_string()).into_boxed_str()
}

/// Returns the stack trace of a language above Rust; `None` outside that language.
pub type Tracer = fn() -> Option<String>;

static TRACER: OnceLock<Tracer> = OnceLock::new();

/// From now on nodes keep the trace that `tracer` returns, instead of Rust's backtrace. Only the first call has an effect.
pub fn set_tracer(tracer: Tracer) {
    let _ = TRACER.set(tracer);
}

/// Whether the mode is on for this thread, and whether it checks for NaN.
pub fn is_anomaly_enabled() -> (bool, bool) {
    match MODE.get() {
        Mode::Off => (false, false),
        Mode::On { check_nan } => (true, check_nan),
    }
}

/// Enables or disables the mode for this thread. An [`AnomalyGuard`] that exists already restores its former mode all the same.
pub fn set_detect_anomaly(on: bool, check_nan: bool) {
    MODE.set(if on { Mode::On { check_nan } } else { Mode::Off });
}

/// Whether a backward pass fails on NaN.
#[inline]
pub(crate) fn looks_for_nan() -> bool {
    MODE.get() == (Mode::On { check_nan: true })
}
