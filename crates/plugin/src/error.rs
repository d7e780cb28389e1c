//! Errors, as values and as handles.

use crate::abi::FbError;
use crate::table::member;
use std::any::Any;
use std::ffi::{CStr, CString};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        /// What went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $name = $number,)* }

        impl ErrorKind {
            const ALL: &[ErrorKind] = &[$(ErrorKind::$name,)*];
        }
    };
}

kinds! {
    /// Shapes that do not fit together.
    Shape = 1,
    /// A type of elements that an operator does not take.
    Dtype = 2,
    /// Devices that do not go together.
    Device = 3,
    /// An index out of range.
    Index = 4,
    /// An argument outside its domain.
    InvalidArgument = 5,
    /// Sizes past 2^63.
    Overflow = 6,
    /// No memory.
    OutOfMemory = 7,
    /// Elements that another accessor holds.
    Busy = 8,
    /// Memory that may not be written.
    Aliasing = 9,
    /// A rule of automatic differentiation.
    Autograd = 10,
    /// No kernel.
    NotImplemented = 11,
    /// A matrix without the decomposition.
    LinAlg = 12,
    /// A file.
    Io = 13,
    /// The caller requested to stop.
    Interrupted = 14,
    /// A fault of the library or of the plug-in.
    Internal = 15,
}

/// An error: a kind and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// The result of what may fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What it says.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A string for C; zeros inside it are left out.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// The error of a handle, which is freed.
///
/// # Safety
/// - It is null, or an error that this plug-in owns.
pub(crate) unsafe fn taken(error: *mut FbError) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    let (kind, message, free) = (member!(error_kind), member!(error_message), member!(error_free));
    // SAFETY: as above; the message lives until the error is freed.
    unsafe {
        let number = kind(error);
        let text = message(error);
        let text =
            if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() };
        free(error);
        let kind = ErrorKind::ALL.iter().find(|kind| **kind as u32 == number);
        Err(Error::new(kind.copied().unwrap_or(ErrorKind::Internal), text))
    }
}

/// A handle of an error, for the library.
fn given(error: &Error) -> *mut FbError {
    let make = || -> Result<*mut FbError> {
        let new = member!(error_new);
        // SAFETY: a string, which is copied.
        Ok(unsafe { new(error.kind as u32, c_string(&error.message).as_ptr()) })
    };
    make().unwrap_or(ptr::null_mut())
}

/// Runs what the library calls: a panic does not go through C, and becomes an error.
pub(crate) fn outcome(body: impl FnOnce() -> Result<()>) -> *mut FbError {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    outcome.map_or_else(|error| given(&error), |()| ptr::null_mut())
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    Error::new(ErrorKind::Internal, format!("a panic in a plug-in: {text}"))
}
