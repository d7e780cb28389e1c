//! The thread pool and messages, for plug-ins.

use crate::entry::{fallible, infallible};
use flambeau_core::ensure;
use flambeau_ops::parallel;
use flambeau_plugin::abi::{FbError, FbLoopBody};
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

/// What the body of a loop gets on every thread.
#[derive(Clone, Copy)]
struct Shared(*mut c_void);

// SAFETY: `flambeau.h` says that functions of a plug-in may be called on any thread, and several at once.
unsafe impl Sync for Shared {}

impl Shared {
    fn data(&self) -> *mut c_void {
        self.0
    }
}

pub(crate) unsafe extern "C" fn parallel_for(
    begin: i64,
    end: i64,
    grain: i64,
    body: FbLoopBody,
    context: *mut c_void,
) -> *mut FbError {
    fallible("parallel_for", || {
        ensure!(grain > 0, InvalidArgument("parallel_for", "grain"), "expected at least 1 but got {grain}");
        if end <= begin {
            return Ok(());
        }
        let length = end.abs_diff(begin);
        let (length, grain) = (usize::try_from(length), usize::try_from(grain));
        let (Ok(length), Ok(grain)) = (length, grain) else {
            flambeau_core::bail!(Overflow("parallel_for"), "a range from {begin} to {end} is too long")
        };
        let shared = Shared(context);
        parallel::parallel_for(0..length, grain, |part| {
            let at = |offset: usize| begin.wrapping_add_unsigned(offset as u64);
            // SAFETY: the plug-in promised such a function.
            unsafe { body(shared.data(), at(part.start), at(part.end)) };
        });
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn num_threads() -> i32 {
    infallible(1, || i32::try_from(parallel::num_threads()).unwrap_or(i32::MAX))
}

const LEVELS: [&str; 4] = ["error", "warning", "info", "debug"];

/// The highest level that is written: what `FLAMBEAU_LOG` says, or that of warnings.
fn threshold() -> u32 {
    static THRESHOLD: OnceLock<u32> = OnceLock::new();
    *THRESHOLD.get_or_init(|| {
        let requested = std::env::var("FLAMBEAU_LOG").unwrap_or_default();
        let found = LEVELS.iter().position(|level| level.eq_ignore_ascii_case(&requested));
        found.map_or(2, |at| at as u32 + 1)
    })
}

pub(crate) unsafe extern "C" fn log(level: u32, message: *const c_char) {
    infallible((), || {
        let name = level.checked_sub(1).and_then(|at| LEVELS.get(at as usize));
        if let (Some(name), false) = (name, message.is_null())
            && level <= threshold()
        {
            // SAFETY: a string, as `flambeau.h` demands it.
            eprintln!("flambeau {name}: {}", unsafe { CStr::from_ptr(message) }.to_string_lossy());
        }
    });
}
