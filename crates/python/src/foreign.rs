//! Tensors in memory of other libraries: what all exchange protocols (DLPack, NumPy's, the buffer protocol) have in common.

#![expect(unsafe_code, reason = "takes over memory that a protocol describes")]

use crate::errors::raise;
use flambeau_core::{Device, Geometry, Layout, ScalarType, Storage, TensorImpl};
use flambeau_ops::Tensor;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::ffi::c_int;
use std::mem;

pub(crate) type Release = Box<dyn FnOnce() + Send>;

/// Elements in host memory of a foreign owner.
///
/// A protocol promises that the memory lives for as long as its owner is retained, and that the sizes and strides lie inside it.
/// It cannot promise exclusion: kernels here synchronise by the guards of the storage, which the other library does not know. So
/// a program that writes an array on one thread while an operator runs on the same elements on another gets a mixture of old and
/// new elements, as with PyTorch; an operator that reads *indices* then may access memory outside the tensor. Elements that
/// threads access one after the other are as safe as those of any tensor.
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

    /// A tensor of these elements on the host. `release` is called once, on whichever thread, when nobody needs them any more.
    ///
    /// # Safety
    /// - (valid) Whatever `geometry`, which is this one's, reaches is initialised memory, until `release` is called.
    /// - (shared) The foreign owner fulfils what the type's documentation says.
    pub(crate) unsafe fn into_tensor(self, geometry: Geometry, release: Release) -> PyResult<Tensor> {
        // SAFETY: (valid), (shared).
        unsafe { self.into_tensor_on(Device::CPU, geometry, release) }
    }

    /// The same for elements on a device.
    ///
    /// # Safety
    /// As for [`into_tensor`](Self::into_tensor), of memory of that device.
    pub(crate) unsafe fn into_tensor_on(
        self,
        device: Device,
        geometry: Geometry,
        release: Release,
    ) -> PyResult<Tensor> {
        let nbytes = geometry.nbytes(self.dtype).map_err(raise)?;
        let release = Box::new(move || release_iteratively(release));
        // SAFETY: (valid), (shared).
        let storage = unsafe {
            if self.read_only {
                Storage::from_foreign_read_only(self.data, nbytes, device, release)
            } else {
                Storage::from_foreign(self.data, nbytes, device, release)
            }
        };
        TensorImpl::new(storage, geometry, self.dtype).map(Tensor::from_impl).map_err(raise)
    }
}

thread_local! {
    /// Releases that wait for the one running on this thread.
    static WAITING: RefCell<Option<Vec<Release>>> = const { RefCell::new(None) };
}

/// Runs a release after the one that caused it, by a list instead of recursion: elements that were exchanged back and forth between
/// libraries ten thousand times have a chain of as many owners, whose recursive release would overflow the stack.
fn release_iteratively(release: Release) {
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
    /// Not part of the stable ABI, but the same in every version.
    fn PyGILState_Check() -> c_int;
}

/// Calls a function that frees memory of another library, on any thread: attached to the interpreter if the thread has its lock, so
/// that objects are deallocated at once, and with the pending exception saved, since the caller may be raising one.
///
/// After the interpreter has ended, memory that it owns is leaked.
pub(crate) fn call_release(free: impl FnOnce()) {
    // SAFETY: both may be called on any thread, at any time.
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

/// Drops a Python object; without the interpreter's lock PyO3 defers that until some thread has it.
pub(crate) fn release_object(object: Py<PyAny>) -> Release {
    Box::new(move || call_release(move || drop(object)))
}

/// A tensor for elements that were exported by this library and are imported again: a view of the same storage, so that guards and
/// version counters hold. `None` where the elements lie outside the storage.
pub(crate) fn view_of_storage(foreign: &Foreign<'_>, storage: &Storage) -> Option<Tensor> {
    let offset = foreign.data.addr().checked_sub(storage.data_ptr().addr())?;
    let size = foreign.dtype.size();
    let offset = offset.is_multiple_of(size).then_some((offset / size) as i64)?;
    let geometry = Geometry::strided(foreign.sizes, foreign.strides, offset).ok()?;
    TensorImpl::new(storage.clone(), geometry, foreign.dtype).ok().map(Tensor::from_impl)
}

/// A shallow copy, whose geometry nobody changes: while this thread waits for a guard, another may resize a tensor that both have.
pub(crate) fn snapshot_geometry(tensor: &Tensor) -> Tensor {
    Tensor::from_impl(tensor.impl_().shallow_copy())
}

/// Refuses tensors of other layouts, which have no memory that another library could read.
pub(crate) fn ensure_strided(tensor: &Tensor) -> PyResult<()> {
    if tensor.layout() == Layout::Strided {
        return Ok(());
    }
    let message = format!(
        "can't convert a tensor of layout {} to memory of another library: call `to_dense()` first",
        tensor.layout()
    );
    Err(PyTypeError::new_err(message))
}

/// The address of a tensor's elements for another library; the storage is pinned, so that it never moves its bytes.
pub(crate) fn pinned_data_ptr(tensor: &Tensor) -> PyResult<*mut u8> {
    ensure_strided(tensor)?;
    let view = tensor.strided_view();
    view.storage().pin().map_err(raise)?;
    // Where there are no elements, the offset may be any number.
    let offset = if view.numel() == 0 { 0 } else { view.byte_offset() };
    Ok(view.storage().data_ptr().wrapping_add(offset))
}
