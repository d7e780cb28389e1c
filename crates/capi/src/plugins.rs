//! Libraries that register operators, kernels and derivatives through the table when they are loaded.

use crate::entry::taken;
use crate::table::TABLE;
use flambeau_core::{Error, ErrorKind, Result};
use flambeau_ops::registry;
use flambeau_plugin::abi::FbPluginInit;
use libloading::Library;
use parking_lot::ReentrantMutex;
use std::cell::RefCell;
use std::error::Error as _;
use std::path::{Path, PathBuf};

/// The libraries whose start function has run or is running. The lock is held while it runs, so that another thread that loads the same
/// library waits until it is usable; a plug-in may load others.
static LIBRARIES: ReentrantMutex<RefCell<Vec<PathBuf>>> = ReentrantMutex::new(RefCell::new(Vec::new()));

thread_local! {
    /// The libraries whose start functions are running on this thread, the innermost last.
    static STARTING: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Where what is registered now comes from, for errors.
pub(crate) fn origin() -> String {
    let innermost = STARTING.with_borrow(|starting| starting.last().cloned());
    innermost.unwrap_or_else(|| "a plug-in that has started".to_owned())
}

/// Loads the plug-in at `path`, and runs its `flambeau_plugin_init` once. It stays loaded until the process ends. Loading it a second time
/// does nothing.
///
/// A plug-in is code that runs with all rights of the program, and that must keep what `flambeau.h` demands: load only those that you
/// trust.
///
/// # Errors
/// `Io` where there is no file at `path`, where the system does not load it, or where it is no plug-in; else what the plug-in reports. Each
/// names the path and the cause.
pub fn load_library(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let failed = |cause: Error| cause.context(format!("load_library: {}", path.display()));
    let real = path.canonicalize().map_err(|cause| failed(cause.into()))?;
    let libraries = LIBRARIES.lock();
    if libraries.borrow().contains(&real) {
        return Ok(());
    }
    let start = start_function(&real).map_err(failed)?;
    libraries.borrow_mut().push(real.clone());
    STARTING.with_borrow_mut(|starting| starting.push(real.display().to_string()));
    // SAFETY: the caller trusts the library to have such a function, and its error is one of ours.
    let started = unsafe { taken(start(&raw const TABLE)) };
    STARTING.with_borrow_mut(Vec::pop);
    if started.is_err() {
        // Otherwise they would make a second attempt fail, with some of their kernels missing.
        registry::undefine_from(&real.display().to_string());
        libraries.borrow_mut().retain(|other| *other != real);
    }
    started.map_err(failed)
}

/// The files that [`load_library`] has loaded. PyTorch's `torch.ops.loaded_libraries`.
pub fn loaded_libraries() -> Vec<PathBuf> {
    LIBRARIES.lock().borrow().clone()
}

/// The start function of a library, which is never unloaded: kernels stay registered.
fn start_function(path: &Path) -> Result<FbPluginInit> {
    // SAFETY: the caller trusts the library's initialisers.
    let library = unsafe { Library::new(path) }.map_err(|error| io(&error))?;
    // SAFETY: a function of this name has this type, as `flambeau.h` demands.
    let start =
        *unsafe { library.get::<FbPluginInit>(c"flambeau_plugin_init") }.map_err(|error| io(&error))?;
    std::mem::forget(library);
    Ok(start)
}

/// An error of the system's loader, with what caused it.
fn io(error: &libloading::Error) -> Error {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text += &format!(": {source}");
    }
    Error::new(ErrorKind::Io, text)
}
