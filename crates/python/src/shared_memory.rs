//! Storages in shared memory: what `flambeau.multiprocessing` sends instead of bytes.

use crate::call::detached;
use crate::errors::raise;
use crate::storage::PyStorage;
use flambeau_core::shared_memory::{self, Handle};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

#[pymethods]
impl PyStorage {
    /// Whether the bytes are in shared memory.
    fn is_shared(&self) -> bool {
        shared_memory::is_shared(&self.0)
    }

    /// Moves the bytes to shared memory, for all tensors that share them.
    fn share_memory_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let storage = slf.get().0.clone();
        detached(slf.py(), || shared_memory::share(&storage)).map_err(raise)?;
        Ok(slf)
    }

    /// A message for another process, for one `_open`. It holds the memory until then.
    fn _send<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let handle = shared_memory::send(&self.0).map_err(raise)?;
        Ok(PyBytes::new(py, &handle.into_bytes()))
    }

    /// The storage of a message.
    #[staticmethod]
    fn _open(message: &[u8]) -> PyResult<Self> {
        Handle::from_bytes(message).and_then(Handle::open).map(PyStorage).map_err(raise)
    }
}
