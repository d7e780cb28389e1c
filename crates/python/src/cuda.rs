//! The devices of `flambeau.cuda`. Without a driver there are none, and what needs one is an error that says so.

use crate::call::detached_owning;
use crate::errors::raise;
use flambeau_cuda as gpu;
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

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_cuda_device_count, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_current_device, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_set_device, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_synchronize, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_empty_cache, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_memory_stats, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_reset_peak, module)?)?;
    module.add_function(wrap_pyfunction!(_cuda_properties, module)?)
}
