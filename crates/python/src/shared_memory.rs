//! Storages in shared memory: what `flambeau.multiprocessing` sends instead of bytes.

use crate::call::detached;
use crate::errors::raise;
use crate::storage::PyStorage;
use flambeau_core::shared_memory::{self, Handle};
use pyo3::prelude::*;

/// A handle as Python pickles it: the segment and its length, two processes with their descriptors, the chunk.
type Pickled = (u64, usize, [(u32, i32); 2], usize, usize);

#[pymethods]
impl PyStorage {
    /// Whether other processes can be given the bytes themselves.
    fn is_shared(&self) -> bool {
        shared_memory::is_shared(&self.0)
    }

    /// Moves the bytes to shared memory, for all tensors that look at them.
    fn share_memory_(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let storage = slf.get().0.clone();
        detached(slf.py(), || shared_memory::share(&storage)).map_err(raise)?;
        Ok(slf)
    }

    /// A handle for another process, good for one `_open`.
    fn _send(&self) -> PyResult<Pickled> {
        let handle = shared_memory::send(&self.0).map_err(raise)?;
        Ok((handle.segment, handle.segment_bytes, handle.holders, handle.offset, handle.nbytes))
    }

    /// The storage of a handle.
    #[staticmethod]
    fn _open(
        segment: u64,
        segment_bytes: usize,
        holders: [(u32, i32); 2],
        offset: usize,
        nbytes: usize,
    ) -> PyResult<Self> {
        let handle = Handle { segment, segment_bytes, holders, offset, nbytes };
        shared_memory::open(&handle).map(PyStorage).map_err(raise)
    }
}
