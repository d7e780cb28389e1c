//! The devices of `flambeau.cuda`. Without a driver there are none, and what needs one is an error that says so.

use crate::call::detached_owning;
use crate::errors::raise;
use crate::tensor::{PyTensor, wrap};
use flambeau_cuda as gpu;
use flambeau_cuda::{Event, Graph, GraphPool, Stream};
use pyo3::prelude::*;

/// How many devices there are: 0 without a driver.
#[pyfunction]
fn _cuda_device_count() -> usize {
    gpu::device_count().unwrap_or(0)
}

#[pyfunction]
fn _cuda_current_device() -> PyResult<usize> {
    gpu::current_device().map_err(raise)
}

#[pyfunction]
fn _cuda_set_device(index: usize) -> PyResult<()> {
    gpu::set_current_device(index).map_err(raise)
}

#[pyfunction]
fn _cuda_synchronize(py: Python<'_>, index: usize) -> PyResult<()> {
    detached_owning(py, || gpu::synchronize(index)).map_err(raise)
}

#[pyfunction]
fn _cuda_empty_cache(py: Python<'_>) -> PyResult<()> {
    let empty = || {
        gpu::empty_cache();
        Ok(())
    };
    detached_owning(py, empty).map_err(raise)
}

/// Bytes in use, their peak, bytes that are cached, allocations and frees so far.
#[pyfunction]
fn _cuda_memory_stats(index: usize) -> PyResult<[usize; 5]> {
    let stats = gpu::memory_stats(index).map_err(raise)?;
    Ok([
        stats.live_bytes,
        stats.peak_bytes,
        stats.cached_bytes,
        stats.allocations as usize,
        stats.frees as usize,
    ])
}

#[pyfunction]
fn _cuda_reset_peak(index: usize) -> PyResult<()> {
    gpu::reset_peak_memory_stats(index).map_err(raise)
}

/// The name, the compute capability, bytes that are free, all bytes, multiprocessors.
type Properties = (String, (i32, i32), usize, usize, usize);

#[pyfunction]
fn _cuda_properties(index: usize) -> PyResult<Properties> {
    let of = gpu::properties(index).map_err(raise)?;
    Ok((of.name, of.capability, of.free_bytes, of.total_bytes, of.multiprocessors))
}

/// The number of a new stream of a device.
#[pyfunction]
fn _cuda_stream_new(device: usize) -> PyResult<usize> {
    Stream::new(device).map(|stream| stream.id()).map_err(raise)
}

/// The number of the stream that this thread uses on a device.
#[pyfunction]
fn _cuda_stream_current(device: usize) -> usize {
    Stream::current(device).id()
}

fn stream_of(device: usize, id: usize) -> PyResult<Stream> {
    Stream::from_id(device, id).map_err(raise)
}

#[pyfunction]
fn _cuda_stream_set(device: usize, id: usize) -> PyResult<()> {
    stream_of(device, id)?.set_current().map_err(raise)
}

#[pyfunction]
fn _cuda_stream_address(device: usize, id: usize) -> PyResult<usize> {
    stream_of(device, id)?.address().map_err(raise)
}

#[pyfunction]
fn _cuda_stream_query(device: usize, id: usize) -> PyResult<bool> {
    stream_of(device, id)?.query().map_err(raise)
}

#[pyfunction]
fn _cuda_stream_synchronize(py: Python<'_>, device: usize, id: usize) -> PyResult<()> {
    let stream = stream_of(device, id)?;
    detached_owning(py, || stream.synchronize()).map_err(raise)
}

#[pyfunction]
fn _cuda_record_stream(tensor: &Bound<'_, PyTensor>, device: usize, id: usize) -> PyResult<()> {
    gpu::record_stream(tensor.get().tensor(), &stream_of(device, id)?).map_err(raise)
}

#[pyfunction]
fn _cuda_pin_memory<'py>(py: Python<'py>, tensor: &Bound<'py, PyTensor>) -> PyResult<Bound<'py, PyAny>> {
    let tensor = tensor.get().tensor().clone();
    wrap(py, detached_owning(py, || gpu::pin_memory(&tensor)).map_err(raise)?)
}

#[pyfunction]
fn _cuda_is_pinned(tensor: &Bound<'_, PyTensor>) -> bool {
    gpu::is_pinned(tensor.get().tensor())
}

/// The event of `flambeau.cuda.Event`.
#[pyclass(name = "_CudaEvent", module = "flambeau", frozen)]
struct PyEvent(Event);

#[pymethods]
impl PyEvent {
    #[new]
    fn new(has_time: bool) -> Self {
        PyEvent(Event::new(has_time))
    }

    fn record(&self, device: usize, id: usize) -> PyResult<()> {
        self.0.record(&stream_of(device, id)?).map_err(raise)
    }

    /// Has a stream wait for it.
    fn hold(&self, device: usize, id: usize) -> PyResult<()> {
        stream_of(device, id)?.wait_event(&self.0).map_err(raise)
    }

    fn query(&self) -> PyResult<bool> {
        self.0.query().map_err(raise)
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        detached_owning(py, || self.0.synchronize()).map_err(raise)
    }

    fn elapsed_time(&self, end: &Bound<'_, PyEvent>) -> PyResult<f32> {
        self.0.elapsed_time(&end.get().0).map_err(raise)
    }
}

/// The memory of graphs, which several may share.
#[pyclass(name = "_CudaGraphPool", module = "flambeau", frozen)]
struct PyGraphPool(GraphPool);

#[pymethods]
impl PyGraphPool {
    #[new]
    fn new(device: usize) -> PyResult<Self> {
        GraphPool::new(device).map(PyGraphPool).map_err(raise)
    }
}

/// The graph of `flambeau.cuda.CUDAGraph`.
#[pyclass(name = "_CudaGraph", module = "flambeau", frozen)]
struct PyGraph(Graph);

#[pymethods]
impl PyGraph {
    #[new]
    fn new() -> Self {
        PyGraph(Graph::new())
    }

    fn capture_begin(&self, device: usize, pool: Option<&Bound<'_, PyGraphPool>>) -> PyResult<()> {
        self.0.capture_begin(device, pool.map(|pool| &pool.get().0)).map_err(raise)
    }

    fn capture_end(&self, py: Python<'_>) -> PyResult<()> {
        detached_owning(py, || self.0.capture_end()).map_err(raise)
    }

    fn replay(&self, py: Python<'_>) -> PyResult<()> {
        detached_owning(py, || self.0.replay()).map_err(raise)
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        detached_owning(py, || self.0.reset()).map_err(raise)
    }

    fn pool(&self) -> Option<PyGraphPool> {
        self.0.pool().map(PyGraphPool)
    }
}

/// Whether this thread captures a graph on its current device.
#[pyfunction]
fn _cuda_is_capturing() -> bool {
    gpu::is_current_stream_capturing()
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyEvent>()?;
    module.add_class::<PyGraphPool>()?;
    module.add_class::<PyGraph>()?;
    module.add_function(wrap_pyfunction!(_cuda_is_capturing, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_pin_memory, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_is_pinned, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_new, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_current, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_set, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_address, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_query, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_stream_synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_record_stream, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_current_device, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_set_device, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_empty_cache, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_reset_peak, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_properties, module)?)
}
