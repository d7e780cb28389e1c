//! Tensors of the bytes of objects with the buffer protocol: `bytes`, `bytearray`, `mmap`, `array.array`.

#![expect(unsafe_code, reason = "reads the C struct of the buffer protocol")]

use crate::arguments::dtype_of;
use crate::errors::raise;
use crate::foreign::{Foreign, release_object};
use crate::tensor::wrap;
use flambeau_autograd::Autograd;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// `Py_buffer`. It and the functions below are part of the stable interface since Python 3.11, and are the same in 3.10.
#[repr(C)]
struct Buffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// `PyBUF_SIMPLE`: contiguous bytes.
const SIMPLE: c_int = 0;

unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut Buffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut Buffer);
}

/// Where the bytes are, how many, and whether they are read-only. A `memoryview` keeps them there for as long as it lives.
fn bytes_of(view: &Bound<'_, PyAny>) -> PyResult<(*mut u8, usize, bool)> {
    let null = ptr::null_mut();
    let mut buffer = Buffer {
        buf: null,
        obj: ptr::null_mut(),
        len: 0,
        itemsize: 0,
        readonly: 0,
        ndim: 0,
        format: ptr::null_mut(),
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        suboffsets: ptr::null_mut(),
        internal: null,
    };
    // SAFETY: the interpreter fills the struct, which is released once; the lock is held.
    unsafe {
        if PyObject_GetBuffer(view.as_ptr(), &raw mut buffer, SIMPLE) != 0 {
            return Err(PyErr::fetch(view.py()));
        }
        let found = (buffer.buf.cast(), buffer.len as usize, buffer.readonly != 0);
        PyBuffer_Release(&raw mut buffer);
        Ok(found)
    }
}

/// A tensor of one dimension that shares the bytes of an object; read-only if they are.
#[pyfunction]
#[pyo3(signature = (buffer, *, dtype, count = -1, offset = 0, requires_grad = false))]
fn frombuffer<'py>(
    buffer: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    count: i64,
    offset: i64,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, dtype) = (buffer.py(), dtype_of(dtype)?);
    // SAFETY: the lock is held.
    let view = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyMemoryView_FromObject(buffer.as_ptr()))? };
    let (data, nbytes, read_only) = bytes_of(&view)?;
    let count = checked_count(nbytes as i64, dtype.size() as i64, count, offset)?;
    let foreign = Foreign {
        data: data.wrapping_add(offset as usize),
        sizes: &[count],
        strides: &[1],
        dtype,
        read_only,
    };
    let geometry = foreign.geometry()?;
    // SAFETY: (valid) the elements were checked to lie in the bytes, which the view retains; (shared) is the caller's responsibility.
    let tensor = unsafe { foreign.into_tensor(geometry, release_object(view.unbind()))? };
    if requires_grad {
        tensor.requires_grad_(true).map_err(raise)?;
    }
    wrap(py, tensor)
}

/// The number of elements, or PyTorch's error where the buffer does not have them.
fn checked_count(nbytes: i64, size: i64, count: i64, offset: i64) -> PyResult<i64> {
    let left = nbytes.saturating_sub(offset);
    let problem = if nbytes <= 0 || count == 0 {
        Some(format!("both buffer length ({nbytes}) and count ({count}) must not be 0"))
    } else if offset < 0 || left <= 0 {
        let last = nbytes - 1;
        Some(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length ({last} bytes)"
        ))
    } else if count > 0 && count.checked_mul(size).is_none_or(|requested| requested > left) {
        Some(format!(
            "requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than \
                      actual buffer length ({nbytes} bytes)"
        ))
    } else if count < 0 && left % size != 0 {
        Some(format!(
            "buffer length ({left} bytes) after offset ({offset} bytes) must be a multiple of element size ({size})"
        ))
    } else {
        None
    };
    match problem {
        Some(message) => Err(PyValueError::new_err(message)),
        None => Ok(if count < 0 { left / size } else { count }),
    }
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(frombuffer, module)?)
}
