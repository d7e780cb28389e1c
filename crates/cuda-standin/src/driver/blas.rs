//! Those functions of cuBLAS that `crates/cuda` calls, by the names under which `cublas_v2.h` has them, and stricter than it: sizes, leading
//! dimensions, types, the current device and the workspace are checked, and products run as late as the stream's other work.
#![expect(unsafe_code, reason = "the functions of a C interface take addresses")]

use super::{Code, Object, current, handle, object, store, with_state};
use crate::fault::{Fault, Status};
use crate::instruction::FloatType;
use crate::product::{Matrix, Product};
use crate::state::{Answer, Handle, State, Work, report};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_longlong, c_uint, c_void};
use std::sync::{Mutex, PoisonError};

/// What a handle of the library knows.
#[derive(Clone, Copy)]
struct Session {
    device: usize,
    stream: Object,
    workspace: Option<(u64, u64)>,
}

// SAFETY: the stream is a number here.
unsafe impl Send for Session {}

static SESSIONS: Mutex<BTreeMap<Handle, Session>> = Mutex::new(BTreeMap::new());

/// Statuses of cuBLAS.
pub(super) const INVALID_VALUE: Code = 7;
const NOT_SUPPORTED: Code = 15;
const EXECUTION_FAILED: Code = 13;

/// Answers a call with a status of cuBLAS.
fn answer(name: &'static str, body: impl FnOnce(&mut State) -> Answer<()>) -> Code {
    match Status(with_state(name, body)) {
        Status::SUCCESS => 0,
        Status::ERROR_INVALID_VALUE | Status::ERROR_INVALID_HANDLE => INVALID_VALUE,
        Status::ERROR_NOT_SUPPORTED => NOT_SUPPORTED,
        _ => EXECUTION_FAILED,
    }
}

fn invalid(text: impl Into<String>) -> Status {
    report(&Fault::new(Status::ERROR_INVALID_VALUE, text))
}

/// Calls `body` with the session of a handle, whose device has to be current.
fn with_session<R>(library: Object, body: impl FnOnce(&mut Session) -> Answer<R>) -> Answer<R> {
    let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let session = sessions.get_mut(&handle(library)).ok_or(Status::ERROR_INVALID_HANDLE)?;
    if current()? != session.device {
        return Err(invalid("cuBLAS: another device is current than that of the handle"));
    }
    body(session)
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::missing_safety_doc, reason = "the library's function, and its conditions")]
pub(super) unsafe extern "C" fn cublasCreate_v2(to: *mut Object) -> Code {
    answer("cublasCreate_v2", |_| {
        let device = current()?;
        let mut sessions = SESSIONS.lock().unwrap_or_else(PoisonError::into_inner);
        let last = sessions.last_key_value().map_or(0x100, |(number, _)| *number);
        let number = last + 16;
        // SAFETY: the condition of the function.
        unsafe { store(to, object(number)) }?;
        sessions.insert(number, Session { device, stream: std::ptr::null_mut(), workspace: None });
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::missing_safety_doc, reason = "the library's function, and its conditions")]
pub(super) unsafe extern "C" fn cublasDestroy_v2(library: Object) -> Code {
    answer("cublasDestroy_v2", |_| {
        with_session(library, |_| Ok(()))?;
        SESSIONS.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle(library));
        Ok(())
    })
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::missing_safety_doc, reason = "the library's function, and its conditions")]
pub(super) unsafe extern "C" fn cublasSetStream_v2(library: Object, stream: Object) -> Code {
    answer("cublasSetStream_v2", |state| {
        let device = state.stream_device(state.stream(stream)?)?;
        with_session(library, |session| {
            if device != session.device {
                return Err(invalid("cuBLAS: the stream is one of another device"));
            }
            // The library takes its own workspace again.
            (session.stream, session.workspace) = (stream, None);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, clippy::missing_safety_doc, reason = "the library's function, and its conditions")]
pub(super) unsafe extern "C" fn cublasSetWorkspace_v2(
    library: Object,
    workspace: *mut c_void,
    bytes: usize,
) -> Code {
    answer("cublasSetWorkspace_v2", |state| {
        let (address, bytes) = (workspace.addr() as u64, bytes as u64);
        with_session(library, |session| {
            if !address.is_multiple_of(256) {
                return Err(invalid(format!(
                    "cuBLAS: the workspace at {address:#x} is at no multiple of 256"
                )));
            }
            state.check(session.device, address, bytes)?;
            session.workspace = Some((address, bytes));
            Ok(())
        })
    })
}

/// The type of elements, whose sums have to be of a type of computation.
fn element(number: c_uint, computing: c_uint) -> Answer<FloatType> {
    match (number, computing) {
        (0, 68) => Ok(FloatType::F32),
        (1, 70) => Ok(FloatType::F64),
        (2, 68) => Ok(FloatType::F16),
        (14, 68) => Ok(FloatType::BF16),
        _ => Err(Status::ERROR_NOT_SUPPORTED),
    }
}

/// A size, which is not negative.
fn size(name: &str, value: c_int) -> Answer<u64> {
    u64::try_from(value).map_err(|_| invalid(format!("cuBLAS: {name} is {value}")))
}

/// A matrix, whose columns in memory have so many elements.
fn matrix(
    name: &str,
    (address, leading, stride): (*const c_void, c_int, c_longlong),
    is_transposed: bool,
    length: u64,
) -> Answer<Matrix> {
    let leading = size(name, leading)?;
    if leading < length.max(1) {
        return Err(invalid(format!(
            "cuBLAS: columns of {name} have {length} elements, and begin after {leading}"
        )));
    }
    Ok(Matrix { address: address.addr() as u64, is_transposed, leading, stride })
}

/// Whether a matrix is transposed; conjugates of real numbers are the numbers.
fn transposed(operation: c_uint) -> Answer<bool> {
    match operation {
        0 => Ok(false),
        1 | 2 => Ok(true),
        _ => Err(invalid(format!("cuBLAS: there is no operation {operation}"))),
    }
}

/// A factor, which the caller has in the type of computation.
///
/// # Safety
/// - The address is null, or one of a number of that type.
unsafe fn factor(address: *const c_void, element: FloatType) -> Answer<f64> {
    if address.is_null() {
        return Err(invalid("cuBLAS: a factor is null"));
    }
    // SAFETY: the condition above.
    Ok(unsafe {
        if element == FloatType::F64 {
            address.cast::<f64>().read()
        } else {
            address.cast::<f32>().read().into()
        }
    })
}

#[unsafe(no_mangle)]
#[allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the library's function, and its conditions"
)]
pub(super) unsafe extern "C" fn cublasGemmStridedBatchedEx(
    library: Object,
    operation_a: c_uint,
    operation_b: c_uint,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const c_void,
    a: *const c_void,
    type_a: c_uint,
    leading_a: c_int,
    stride_a: c_longlong,
    b: *const c_void,
    type_b: c_uint,
    leading_b: c_int,
    stride_b: c_longlong,
    beta: *const c_void,
    c: *mut c_void,
    type_c: c_uint,
    leading_c: c_int,
    stride_c: c_longlong,
    batches: c_int,
    computing: c_uint,
    _algorithm: c_uint,
) -> Code {
    answer("cublasGemmStridedBatchedEx", |state| {
        let session = with_session(library, |session| Ok(*session))?;
        let element = element(type_a, computing)?;
        if (type_b, type_c) != (type_a, type_a) {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        let (rows, columns, terms) = (size("m", m)?, size("n", n)?, size("k", k)?);
        let (a_is_transposed, b_is_transposed) = (transposed(operation_a)?, transposed(operation_b)?);
        let product = Product {
            element,
            sizes: [rows, columns, terms],
            batches: size("the batch", batches)?,
            // SAFETY: the conditions of the function.
            alpha: unsafe { factor(alpha, element) }?,
            // SAFETY: as above.
            beta: unsafe { factor(beta, element) }?,
            a: matrix(
                "a",
                (a, leading_a, stride_a),
                a_is_transposed,
                if a_is_transposed { terms } else { rows },
            )?,
            b: matrix(
                "b",
                (b, leading_b, stride_b),
                b_is_transposed,
                if b_is_transposed { columns } else { terms },
            )?,
            c: matrix("c", (c, leading_c, stride_c), false, rows)?,
            workspace: session.workspace,
        };
        let stream = state.stream(session.stream)?;
        state.submit(stream, Work::Product(Box::new(product)))
    })
}
