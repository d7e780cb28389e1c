//! What surrounds every function that C calls: a panic is caught, and an error becomes a handle.

use flambeau_core::{Error, ErrorKind, Result, error};
use flambeau_plugin::abi::FbError;
use std::any::Any;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Runs the body of a function that can fail.
pub(crate) fn fallible(name: &str, body: impl FnOnce() -> Result<()>) -> *mut FbError {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(name, &*panic)));
    outcome.map_or_else(to_handle, |()| ptr::null_mut())
}

/// Runs the body of a function that cannot fail; its result is `otherwise` where it panics.
pub(crate) fn infallible<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

pub(crate) fn panicked(name: &str, panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    error!(Internal, "{name}: a panic: {text}")
}

/// An error as C has it.
struct Handle {
    kind: u32,
    message: CString,
}

/// The numbers of `flambeau.h`.
const KINDS: [(ErrorKind, u32); 15] = [
    (ErrorKind::Shape, 1),
    (ErrorKind::Dtype, 2),
    (ErrorKind::Device, 3),
    (ErrorKind::Index, 4),
    (ErrorKind::InvalidArgument, 5),
    (ErrorKind::Overflow, 6),
    (ErrorKind::OutOfMemory, 7),
    (ErrorKind::Busy, 8),
    (ErrorKind::Aliasing, 9),
    (ErrorKind::Autograd, 10),
    (ErrorKind::NotImplemented, 11),
    (ErrorKind::LinAlg, 12),
    (ErrorKind::Io, 13),
    (ErrorKind::Interrupted, 14),
    (INTERNAL, 15),
];

const INTERNAL: ErrorKind = ErrorKind::Internal;

/// A string of C; zeros inside it are left out.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

fn to_handle(error: Error) -> *mut FbError {
    let kind = KINDS.iter().find(|(kind, _)| *kind == error.kind()).map_or(15, |(_, number)| *number);
    Box::into_raw(Box::new(Handle { kind, message: c_string(error.message()) })).cast()
}

/// The error that a function of a plug-in returned, which is freed.
///
/// # Safety
/// - (error) It is null, or a handle that was made by [`to_handle`] and not freed.
pub(crate) unsafe fn taken(error: *mut FbError) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: (error).
    let handle = unsafe { Box::from_raw(error.cast::<Handle>()) };
    let kind = KINDS.iter().find(|(_, number)| *number == handle.kind).map_or(INTERNAL, |(kind, _)| *kind);
    Err(Error::new(kind, handle.message.to_string_lossy()))
}

/// A string that C gave.
///
/// # Safety
/// - (string) It is null, or ends with a zero and does not change while the result lives.
pub(crate) unsafe fn text<'a>(string: *const c_char, name: &str) -> Result<&'a str> {
    if string.is_null() {
        return Err(error!(InvalidArgument, "expected a string for `{name}` but got NULL"));
    }
    // SAFETY: (string).
    let bytes = unsafe { CStr::from_ptr(string) };
    bytes.to_str().map_err(|_| error!(InvalidArgument, "expected UTF-8 for `{name}` but got {bytes:?}"))
}

/// A list that C gave: null for none.
///
/// # Safety
/// - (list) There are `count` values at `first`, which do not change while the result lives; or it is null.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    match count {
        0 => Ok(&[]),
        _ if first.is_null() => {
            Err(error!(InvalidArgument, "expected {count} values for `{name}` but got NULL"))
        }
        // SAFETY: (list).
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// Writes a result to where C wants it.
///
/// # Safety
/// - (result) `out` is null or can be written.
pub(crate) unsafe fn write<T>(out: *mut T, value: impl FnOnce() -> Result<T>) -> Result<()> {
    if out.is_null() {
        return Err(error!(InvalidArgument, "expected memory for the result but got NULL"));
    }
    let value = value()?;
    // SAFETY: (result).
    unsafe { out.write(value) };
    Ok(())
}

pub(crate) unsafe extern "C" fn error_new(kind: u32, message: *const c_char) -> *mut FbError {
    let message = if message.is_null() {
        CString::default()
    } else {
        // SAFETY: `flambeau.h` demands a string.
        unsafe { CStr::from_ptr(message) }.to_owned()
    };
    // Messages are read as UTF-8.
    Box::into_raw(Box::new(Handle { kind, message: c_string(&message.to_string_lossy()) })).cast()
}

pub(crate) unsafe extern "C" fn error_kind(error: *const FbError) -> u32 {
    // SAFETY: null or a handle that is not freed.
    unsafe { error.cast::<Handle>().as_ref() }.map_or(0, |handle| handle.kind)
}

pub(crate) unsafe extern "C" fn error_message(error: *const FbError) -> *const c_char {
    // SAFETY: as above.
    unsafe { error.cast::<Handle>().as_ref() }.map_or(ptr::null(), |handle| handle.message.as_ptr())
}

pub(crate) unsafe extern "C" fn error_free(error: *mut FbError) {
    if !error.is_null() {
        // SAFETY: a handle, which is freed once.
        drop(unsafe { Box::from_raw(error.cast::<Handle>()) });
    }
}
