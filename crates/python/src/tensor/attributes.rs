//! Properties of a tensor, such as its sizes and dtype, as attributes and methods of the class.

use super::PyTensor;
use crate::call::{IntoPython, call};
use crate::errors::raise;
use crate::types::{PyDevice, PyDtype, PyLayout, PyMemoryFormat, dtype_object};
use flambeau_core::{MemoryFormat, shape};
use flambeau_ops::ops;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

/// The class `flambeau.Size`, which is written in Python.
static SIZE: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// Sizes as a `Size`.
pub(crate) fn size_object<'py>(py: Python<'py>, sizes: &[i64]) -> PyResult<Bound<'py, PyAny>> {
    let class = SIZE.import(py, "flambeau._size", "Size")?;
    call(class.as_any(), (PyTuple::new(py, sizes)?,))
}

#[pymethods]
impl PyTensor {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        size_object(py, self.tensor.sizes())
    }

    /// The sizes, or that of one dimension.
    #[pyo3(signature = (dim = None))]
    fn size<'py>(&self, py: Python<'py>, dim: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        match dim {
            None => self.shape(py),
            Some(dim) => Ok(self.tensor.size(dim).map_err(raise)?.into_pyobject(py)?.into_any()),
        }
    }

    /// The strides in elements, or that of one dimension.
    #[pyo3(signature = (dim = None))]
    fn stride<'py>(&self, py: Python<'py>, dim: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        let strides = self.tensor.strides();
        match dim {
            None => Ok(PyTuple::new(py, strides)?.into_any()),
            Some(dim) => {
                let at = shape::wrap_dim(dim, strides.len()).map_err(raise)?;
                let none = || format!("stride: dimension specified as {dim} but tensor has no dimensions");
                let stride = strides.get(at).ok_or_else(|| PyIndexError::new_err(none()))?;
                Ok(stride.into_pyobject(py)?.into_any())
            }
        }
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDtype>> {
        dtype_object(py, self.tensor.dtype())
    }

    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.tensor.device())
    }

    #[getter]
    fn layout(&self) -> PyLayout {
        PyLayout(self.tensor.layout())
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.tensor.dim()
    }

    /// How many dimensions.
    fn dim(&self) -> usize {
        self.tensor.dim()
    }

    /// How many dimensions.
    fn ndimension(&self) -> usize {
        self.tensor.dim()
    }

    /// How many elements.
    fn numel(&self) -> i64 {
        self.tensor.numel()
    }

    /// How many elements.
    fn nelement(&self) -> i64 {
        self.tensor.numel()
    }

    /// Bytes of one element.
    fn element_size(&self) -> usize {
        self.tensor.element_size()
    }

    #[getter]
    fn itemsize(&self) -> usize {
        self.tensor.element_size()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.nbytes()
    }

    /// Where the first element lies in the storage, in elements.
    fn storage_offset(&self) -> i64 {
        self.tensor.storage_offset()
    }

    /// The address of the first element.
    fn data_ptr(&self) -> usize {
        if self.tensor.numel() == 0 { 0 } else { self.tensor.data_ptr().addr() }
    }

    /// Whether the elements lie in the order of a memory format without gaps.
    #[pyo3(signature = (memory_format = None))]
    fn is_contiguous(&self, memory_format: Option<&Bound<'_, PyMemoryFormat>>) -> bool {
        let format = memory_format.map_or(MemoryFormat::Contiguous, |format| format.get().0);
        self.tensor.is_contiguous_as(format)
    }

    fn is_floating_point(&self) -> bool {
        self.tensor.is_floating_point()
    }

    fn is_complex(&self) -> bool {
        self.tensor.dtype().is_complex()
    }

    fn is_signed(&self) -> bool {
        self.tensor.dtype().is_signed()
    }

    #[getter]
    fn is_cpu(&self) -> bool {
        self.tensor.device().is_cpu()
    }

    #[getter]
    fn is_meta(&self) -> bool {
        self.tensor.device().is_meta()
    }

    #[getter]
    fn is_cuda(&self) -> bool {
        self.tensor.device().device_type() == flambeau_core::DeviceType::Cuda
    }

    #[getter]
    fn is_sparse(&self) -> bool {
        self.tensor.layout() == flambeau_core::Layout::SparseCoo
    }

    fn is_same_size(&self, other: &Bound<'_, PyTensor>) -> bool {
        self.tensor.sizes() == other.get().tensor.sizes()
    }

    /// How often the storage was written in place.
    #[getter]
    fn _version(&self) -> u32 {
        self.tensor.version()
    }

    #[getter(T)]
    fn all_transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ops::numpy_T(&self.tensor).map_err(raise)?.into_python(py)
    }

    #[getter(mT)]
    fn matrices_transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        ops::mT(&self.tensor).map_err(raise)?.into_python(py)
    }
}
