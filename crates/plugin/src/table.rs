//! The table that this plug-in was given, and those of its functions that belong to nothing else.

use crate::abi::{FbApi, FbError, VERSION};
use crate::error::{Error, ErrorKind, Result, c_string, outcome, taken};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

static TABLE: AtomicPtr<FbApi> = AtomicPtr::new(std::ptr::null_mut());

/// The table and how many bytes of it exist.
///
/// # Errors
/// `Internal` where no library has loaded this plug-in.
pub(crate) fn table() -> Result<(*const FbApi, usize)> {
    let table = TABLE.load(Ordering::Acquire).cast_const();
    if table.is_null() {
        return Err(Error::new(ErrorKind::Internal, "no library has loaded this plug-in"));
    }
    // SAFETY: `start` got a table, which lives as long as the process; every table begins with its size.
    Ok((table, unsafe { (&raw const (*table).size).read() }))
}

#[cold]
pub(crate) fn missing(name: &str) -> Error {
    Error::new(
        ErrorKind::NotImplemented,
        format!("the library has no `{name}`: it is older than this plug-in"),
    )
}

/// A function of the table; returns early with an error where the library does not have it.
macro_rules! member {
    ($name:ident) => {{
        let (table, size) = $crate::table::table()?;
        if size < std::mem::offset_of!($crate::abi::FbApi, $name) + size_of::<usize>() {
            return Err($crate::table::missing(stringify!($name)));
        }
        // SAFETY: the table has this member.
        unsafe { (&raw const (*table).$name).read() }
    }};
}
pub(crate) use member;

/// Keeps the table, and starts the plug-in.
pub fn start(table: *const FbApi, start: fn() -> Result<()>) -> *mut FbError {
    TABLE.store(table.cast_mut(), Ordering::Release);
    outcome(|| {
        let (table, _) = self::table()?;
        // SAFETY: every table has this member.
        let version = unsafe { (&raw const (*table).version).read() };
        if version != VERSION {
            let message =
                format!("expected version {VERSION} of the interface but the library has {version}");
            return Err(Error::new(ErrorKind::NotImplemented, message));
        }
        start()
    })
}

/// Calls `body` on parts of `begin..end` on the threads of the library's pool, and waits. Parts begin at multiples of `grain` from
/// `begin`, so that results do not depend on the number of threads.
///
/// # Errors
/// `InvalidArgument` for a grain below 1; `Internal` where `body` has panicked.
pub fn parallel_for(begin: i64, end: i64, grain: i64, body: impl Fn(i64, i64) + Sync) -> Result<()> {
    struct Shared<F> {
        body: F,
        panicked: AtomicBool,
    }
    /// # Safety
    /// - `context` is a `Shared<F>`.
    unsafe extern "C" fn part<F: Fn(i64, i64) + Sync>(context: *mut c_void, begin: i64, end: i64) {
        // SAFETY: as above.
        let shared = unsafe { &*context.cast::<Shared<F>>() };
        if catch_unwind(AssertUnwindSafe(|| (shared.body)(begin, end))).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
    }
    fn instance<F: Fn(i64, i64) + Sync>(_: &F) -> unsafe extern "C" fn(*mut c_void, i64, i64) {
        part::<F>
    }
    let run = member!(parallel_for);
    let function = instance(&body);
    let shared = Shared { body, panicked: AtomicBool::new(false) };
    let context = std::ptr::from_ref(&shared).cast_mut().cast();
    // SAFETY: `shared` lives until the loop has ended.
    unsafe { taken(run(begin, end, grain, function, context)) }?;
    if shared.panicked.into_inner() {
        return Err(Error::new(ErrorKind::Internal, "a panic in the body of a parallel loop"));
    }
    Ok(())
}

/// How many threads a loop may use.
///
/// # Errors
/// `Internal` where no library has loaded this plug-in.
pub fn num_threads() -> Result<i32> {
    let number = member!(num_threads);
    // SAFETY: it needs nothing.
    Ok(unsafe { number() })
}

/// Writes a line to stderr, if `FLAMBEAU_LOG` requests its level: 1 errors, 2 warnings, 3 information, 4 details.
///
/// # Errors
/// `Internal` where no library has loaded this plug-in.
pub fn log(level: u32, message: &str) -> Result<()> {
    let log = member!(log);
    // SAFETY: a string.
    unsafe { log(level, c_string(message).as_ptr()) };
    Ok(())
}
