//! Storages in Python: the bytes of tensors, for pickling, copying and sharing.

#![expect(unsafe_code, reason = "reads and writes bytes under guards")]

use crate::arguments::dtype_of;
use crate::errors::raise;
use crate::foreign::ensure_strided;
use crate::objects;
use crate::tensor::{PyTensor, wrap};
use crate::types::PyDevice;
use flambeau_core::{Device, Geometry, ReadGuard, Storage, TensorImpl};
use flambeau_ops::Tensor;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::slice;

/// Bytes that tensors share. `x.untyped_storage()` gives the same object for as long as one is alive.
#[pyclass(name = "UntypedStorage", module = "flambeau", weakref, frozen)]
pub(crate) struct PyStorage(pub(crate) Storage);

#[pymethods]
impl PyStorage {
    fn nbytes(&self) -> usize {
        self.0.nbytes()
    }

    /// How many bytes, as `nbytes` says.
    fn size(&self) -> usize {
        self.0.nbytes()
    }

    fn __len__(&self) -> usize {
        self.0.nbytes()
    }

    /// The address of the first byte.
    fn data_ptr(&self) -> usize {
        if self.0.nbytes() == 0 { 0 } else { self.0.data_ptr().addr() }
    }

    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.0.device())
    }

    /// Whether the storage can be resized.
    fn resizable(&self) -> bool {
        self.0.is_resizable()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStorage>().is_ok_and(|other| Storage::ptr_eq(&self.0, &other.get().0))
    }

    fn __hash__(&self) -> isize {
        self.identity() as isize
    }

    fn __repr__(&self) -> String {
        format!("<flambeau.UntypedStorage of {} bytes on {}>", self.0.nbytes(), self.0.device())
    }

    /// A copy of the bytes.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.ensure_host()?;
        let guard = ReadGuard::acquire(&self.0).map_err(raise)?;
        objects::bytes(py, bytes_under(&guard, self.0.nbytes()))
    }

    /// A storage with a copy of `data`.
    #[staticmethod]
    fn frombytes(data: &[u8]) -> PyResult<Self> {
        Storage::from_bytes(data).map(PyStorage).map_err(raise)
    }

    /// A storage with a copy of these bytes.
    fn clone(&self) -> PyResult<Self> {
        self.ensure_host()?;
        let guard = ReadGuard::acquire(&self.0).map_err(raise)?;
        Storage::from_bytes(bytes_under(&guard, self.0.nbytes())).map(PyStorage).map_err(raise)
    }

    /// A tensor that shares the bytes.
    fn _tensor<'py>(
        &self,
        py: Python<'py>,
        dtype: &Bound<'py, PyAny>,
        sizes: Vec<i64>,
        strides: Vec<i64>,
        offset: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = dtype_of(dtype)?;
        // Without elements, or for dimensions with one, the storage's size does not bound these.
        if strides.iter().chain([&offset]).any(|steps| steps.checked_mul(dtype.size() as i64).is_none()) {
            let message =
                format!("expected strides and an offset in a storage but got {strides:?} and {offset}");
            return Err(PyRuntimeError::new_err(message));
        }
        let geometry = Geometry::strided(&sizes, &strides, offset).map_err(raise)?;
        let made = TensorImpl::new(self.0.clone(), geometry, dtype).map_err(raise)?;
        wrap(py, Tensor::from_impl(made))
    }

    /// A number that no other living storage has.
    #[getter]
    fn _cdata(&self) -> usize {
        self.identity()
    }
}

/// The first `count` bytes of a guarded storage; an empty storage may have a null address.
fn bytes_under(guard: &ReadGuard, count: usize) -> &[u8] {
    // SAFETY: guarded, and that long.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(guard.data_ptr(), count) } }
}

impl PyStorage {
    fn identity(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }

    fn ensure_host(&self) -> PyResult<()> {
        let device = self.0.device();
        if device == Device::CPU {
            return Ok(());
        }
        Err(PyTypeError::new_err(format!("a storage on {device} has no bytes on the host")))
    }
}

#[pymethods]
impl PyTensor {
    /// A new object for the storage; `untyped_storage` finds the one there is.
    fn _storage(&self) -> PyResult<PyStorage> {
        ensure_strided(self.tensor())?;
        Ok(PyStorage(self.tensor().impl_().storage().clone()))
    }

    /// A number that no other living storage has.
    fn _storage_identity(&self) -> PyResult<usize> {
        Ok(self._storage()?.identity())
    }
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStorage>()
}
