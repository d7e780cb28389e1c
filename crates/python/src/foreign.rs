//! Tensors in memory of other libraries: what every protocol of exchange comes to.

#![expect(unsafe_code, reason = "takes over memory that a protocol describes")]

use crate::errors::raise;
use flambeau_core::{Device, Geometry, ScalarType, Storage, TensorImpl};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem;

pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// Elements that another library holds on the host.
///
/// What a protocol of exchange promises, and what it cannot: the memory stays for as long as its owner is kept, and its sizes
/// and strides lie inside it. Kernels here take turns by the guards of the storage, which the other library does not know. So
/// a program that writes an array on one thread while an operator runs on the same elements on another gets elements of
/// before and after, as with PyTorch; an operator that reads *indices* then may read the wrong place. What only one thread
/// touches, or threads by turns, is as safe as any tensor.
pub(crate) struct Foreign<'a> {
    pub(crate) data: *mut u8,
    pub(crate) sizes: &'a [i64],
    /// In elements.
    pub(crate) strides: &'a [i64],
    pub(crate) dtype: ScalarType,
    pub(crate) read_only: bool,
}

impl Foreign<'_> {
    /// Sizes and strides, if a tensor can have them and the elements are where they may be.
    pub(crate) fn geometry(&self) -> PyResult<Geometry> {
        let geometry = Geometry::strided(self.sizes, self.strides, 0).map_err(raise)?;
        if geometry.numel() > 0
            && (self.data.is_null() || !self.data.addr().is_multiple_of(self.dtype.size()))
        {
            let message = format!(
                "expected memory that is aligned for elements of {} but got the address {:p}; copy the array first",
                self.dtype, self.data
            );
            return Err(PyValueError::new_err(message));
        }
        let nbytes = geometry.nbytes(self.dtype).map_err(raise)?;
        if self.data.addr().checked_add(nbytes).is_none_or(|end| end > isize::MAX as usize) {
            let message = format!(
                "expected memory that ends in the address space but got {nbytes} bytes at {:p}",
                self.data
            );
            return Err(PyValueError::new_err(message));
        }
        Ok(geometry)
    }

    /// A tensor of these elements. `release` is called once, on whichever thread, when nobody needs them any more.
    ///
    /// # Safety
    /// - (valid) Whatever `geometry`, which is this one's, reaches is initialised memory, until `release` is called.
    /// - (shared) What the type's documentation asks of the other library.
    pub(crate) unsafe fn into_tensor(self, geometry: Geometry, release: Release) -> PyResult<Tensor> {
        let nbytes = geometry.nbytes(self.dtype).map_err(raise)?;
        let release = Box::new(move || one_by_one(release));
        // SAFETY: (valid), (shared).
        let storage = unsafe {
            if self.read_only {
                Storage::from_foreign_read_only(self.data, nbytes, Device::CPU, release)
            } else {
                Storage::from_foreign(self.data, nbytes, Device::CPU, release)
            }
        };
        TensorImpl::new(storage, geometry, self.dtype).map(Tensor::from_impl).map_err(raise)
    }
}

thread_local! {
    /// What is to be released after the release that is running on this thread.
    static WAITING: RefCell<Option<Vec<Release>>> = const { RefCell::new(None) };
}

/// Runs a release after the one that brought it about: elements that went back and forth between libraries ten thousand
/// times are held by a chain as long, which would end on the stack.
fn one_by_one(release: Release) {
    let mut first = Some(release);
    let nested = WAITING.try_with(|waiting| match (&mut *waiting.borrow_mut(), first.take()) {
        (Some(waiting), Some(release)) => {
            waiting.push(release);
            true
        }
        (waiting, release) => {
            (*waiting, first) = (Some(vec![]), release);
            false
        }
    });
    let next = || WAITING.try_with(|waiting| waiting.borrow_mut().as_mut().and_then(Vec::pop)).ok().flatten();
    if nested != Ok(true) {
        if let Some(release) = first {
            release();
        }
        while let Some(release) = next() {
            release();
        }
        // An exiting thread has no list left.
        let _ = WAITING.try_with(|waiting| waiting.replace(None));
    }
}

unsafe extern "C" {
    /// Not part of the stable interface, and there and the same in every version.
    fn PyGILState_Check() -> c_int;
}

/// Calls what frees memory of another library, on whichever thread: if that has the interpreter's lock, so that objects go at
/// once, and in a state without an exception, which the caller may be in the middle of raising.
///
/// After the end of the interpreter nothing of its is freed.
pub(crate) fn release(free: impl FnOnce()) {
    // SAFETY: may be asked on any thread, at any time.
    let (is_there, has_lock) = unsafe { (ffi::Py_IsInitialized() != 0, PyGILState_Check() == 1) };
    if !is_there {
        return mem::forget(free);
    }
    let mut free = Some(free);
    let mut run = || free.take().map(|free| free());
    let attached = has_lock.then(|| {
        Python::try_attach(|py| {
            let raised = PyErr::take(py);
            run();
            if let Some(raised) = raised {
                raised.restore(py);
            }
        })
    });
    if attached.flatten().is_none() {
        run();
    }
}

/// Drops an object of Python's. Without the interpreter's lock that waits until somebody has it.
pub(crate) fn let_go(object: Py<PyAny>) -> Release {
    Box::new(move || release(move || drop(object)))
}

/// A tensor of elements that are a tensor's own, back from another library: of the same storage, so that guards and saved
/// versions hold. `None` where the storage does not reach so far.
pub(crate) fn returned(foreign: &Foreign<'_>, storage: &Storage) -> Option<Tensor> {
    let offset = foreign.data.addr().checked_sub(storage.data_ptr().addr())?;
    let size = foreign.dtype.size();
    let offset = offset.is_multiple_of(size).then_some((offset / size) as i64)?;
    let geometry = Geometry::strided(foreign.sizes, foreign.strides, offset).ok()?;
    TensorImpl::new(storage.clone(), geometry, foreign.dtype).ok().map(Tensor::from_impl)
}

/// The same elements with sizes and strides that nobody changes: while a thread waits for a storage, another may give a tensor that it
/// knows other ones.
pub(crate) fn unchanging(tensor: &Tensor) -> Tensor {
    Tensor::from_impl(tensor.impl_().shallow_copy())
}

/// A tensor's elements, to be shown to another library: from now on they stay where they are.
pub(crate) fn pinned(tensor: &Tensor) -> PyResult<*mut u8> {
    let view = tensor.strided_view();
    view.storage().pin().map_err(raise)?;
    // Where there are no elements, the offset may be any number.
    let offset = if view.numel() == 0 { 0 } else { view.byte_offset() };
    Ok(view.storage().data_ptr().wrapping_add(offset))
}
