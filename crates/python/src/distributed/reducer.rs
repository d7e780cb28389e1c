//! The reducer of data parallel training, and communication hooks written in Python.

use super::{PyProcessGroup, TensorObject, Wrapped, of_group, tensors};
use crate::arguments::dtype_of;
use crate::call::detached_owning;
use crate::errors::{error_from_python, raise};
use crate::tensor::PyTensor;
use flambeau_distributed::data_parallel::{GradBucket, Pending};
use flambeau_distributed::{CommHook, DataParallelOptions, Reducer};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Averages gradients over ranks while a backward pass runs.
#[pyclass(name = "_Reducer", module = "flambeau", frozen)]
struct PyReducer(Reducer);

/// A bucket of gradients that a hook averages.
#[pyclass(name = "GradBucket", module = "flambeau.distributed", frozen)]
struct PyGradBucket(GradBucket);

#[pymethods]
impl PyGradBucket {
    /// The number of the bucket in the order in which buckets are sent.
    fn index(&self) -> usize {
        self.0.index
    }

    /// Whether it is the last one.
    fn is_last(&self) -> bool {
        self.0.is_last
    }

    /// All gradients one after another.
    fn buffer(&self) -> Wrapped {
        Wrapped(self.0.buffer.clone())
    }

    /// Replaces all gradients.
    fn set_buffer(&self, buffer: &TensorObject<'_>) -> PyResult<()> {
        self.0.buffer.copy_(buffer.get().tensor()).map(drop).map_err(raise)
    }

    /// The same bucket with gradients as numbers of another dtype.
    fn _converted(&self, dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dtype = dtype_of(dtype)?;
        let convert = |tensor: &Tensor| tensor.to_dtype(dtype).map_err(raise);
        let gradients = self.0.gradients.iter().map(convert).collect::<PyResult<_>>()?;
        Ok(PyGradBucket(GradBucket { buffer: convert(&self.0.buffer)?, gradients, ..self.0.clone() }))
    }

    /// The gradient of each parameter.
    fn gradients(&self) -> Vec<Wrapped> {
        self.0.gradients.iter().cloned().map(Wrapped).collect()
    }

    /// The parameters.
    fn parameters(&self) -> Vec<Wrapped> {
        self.0.parameters.iter().cloned().map(Wrapped).collect()
    }
}

/// The tensor of a future that a hook returned: a tensor, or a list of one.
fn result_of(future: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let value = match future.hasattr("wait")? {
        true => future.call_method0("wait")?,
        false => future.clone(),
    };
    let single = match value.cast::<PyList>() {
        Ok(list) if list.len() == 1 => list.get_item(0)?,
        _ => value.clone(),
    };
    match single.cast::<PyTensor>() {
        Ok(tensor) => Ok(tensor.get().tensor().clone()),
        Err(_) => {
            let name = value.get_type().name()?;
            Err(PyTypeError::new_err(format!(
                "expected a future of one tensor from a communication hook but got {name}"
            )))
        }
    }
}

/// A hook written in Python: it gets the bucket, and returns a future of the averages.
fn comm_hook(hook: Py<PyAny>) -> CommHook {
    CommHook::new(move |_, bucket| {
        Python::attach(|py| {
            let future = hook.bind(py).call1((PyGradBucket(bucket.clone()),))?.unbind();
            let wait = move || Python::attach(|py| result_of(future.bind(py))).map_err(error_from_python);
            Ok(Box::new(wait) as Pending)
        })
        .map_err(error_from_python)
    })
}

#[pymethods]
impl PyReducer {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "called by one function in Python, which names them")]
    fn new(
        params: Vec<TensorObject<'_>>,
        group: &Bound<'_, PyProcessGroup>,
        bucket_bytes: usize,
        first_bucket_bytes: usize,
        deterministic: bool,
        as_view: bool,
        find_unused: bool,
        compression: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let options = DataParallelOptions {
            bucket_bytes,
            first_bucket_bytes,
            deterministic_micro_batches: deterministic,
            gradient_as_bucket_view: as_view,
            find_unused_parameters: find_unused,
            hook: compression.map(dtype_of).transpose()?.map(CommHook::compressed),
        };
        let reducer = Reducer::new(&tensors(&params), group.get().0.clone(), options);
        reducer.map(PyReducer).map_err(raise)
    }

    // A hook in Python may run on another thread, which has the reducer then and waits for the interpreter's lock.
    fn set_hook(&self, py: Python<'_>, hook: Py<PyAny>) -> PyResult<()> {
        detached_owning(py, || self.0.set_hook(Some(comm_hook(hook)))).map_err(raise)
    }

    fn set_sync(&self, py: Python<'_>, sync: bool) -> PyResult<()> {
        let set = || {
            self.0.set_sync(sync);
            Ok(())
        };
        detached_owning(py, set).map_err(raise)
    }

    fn prepare(&self, py: Python<'_>) -> PyResult<()> {
        detached_owning(py, || self.0.prepare()).map_err(raise)
    }

    fn find_unused(&self, py: Python<'_>, outputs: Vec<TensorObject<'_>>) -> PyResult<()> {
        let outputs = tensors(&outputs);
        detached_owning(py, || self.0.find_unused(&outputs)).map_err(of_group)
    }

    fn bucket_bytes(&self) -> Vec<usize> {
        self.0.bucket_bytes()
    }
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyGradBucket>()?;
    module.add_class::<PyReducer>()
}
