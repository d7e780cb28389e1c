//! Plug-ins: libraries that register operators through the C interface when they are loaded, and the interface itself as a capsule.

#![expect(unsafe_code, reason = "a capsule is made by the interpreter's C functions")]

use crate::call::detached_owning;
use crate::errors::raise;
use flambeau_capi::{TABLE, load_library, loaded_libraries};
use pyo3::ffi;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Loads the plug-in at a path, and runs its start function once.
#[pyfunction]
fn _load_library(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    detached_owning(py, || load_library(&path)).map_err(raise)
}

/// The paths of the plug-ins that were loaded.
#[pyfunction]
fn _loaded_libraries(py: Python<'_>) -> PyResult<Vec<PathBuf>> {
    detached_owning(py, || Ok(loaded_libraries())).map_err(raise)
}

/// The table of functions of `flambeau.h`, for extension modules: `PyCapsule_Import("flambeau._flambeau._C_API", 0)`.
fn capsule(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let table = (&raw const TABLE).cast_mut().cast();
    // SAFETY: the interpreter's lock is held; the table and the name are statics.
    unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyCapsule_New(table, c"flambeau._flambeau._C_API".as_ptr(), None),
        )
    }
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_C_API", capsule(module.py())?)?;
    module.add_function(wrap_pyfunction!(_load_library, module)?)?;
    module.add_function(wrap_pyfunction!(_loaded_libraries, module)?)
}
