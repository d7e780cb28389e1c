//! For the tests of this crate: all programs without a device, and the compiler by itself.
#![doc(hidden)]

use crate::loops;
use crate::native;
use crate::nvrtc::nvrtc;
use crate::programs;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::loops::device::DeviceLoops;
use flambeau_ops::tensor_iterator::TensorIterator;
use flambeau_ops::vectorized::traced::Tape;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The version of NVRTC, if it is found.
///
/// # Errors
/// `Device` where it is not installed.
pub fn nvrtc_version() -> Result<(i32, i32)> {
    nvrtc().map(|nvrtc| nvrtc.version)
}

/// Compiles a program, and returns how many bytes its image has.
///
/// # Errors
/// Those of the compiler.
pub fn compile(source: &str, capability: (i32, i32)) -> Result<usize> {
    nvrtc()?.compile(source, capability).map(|images| images.first().map_or(0, Vec::len))
}

/// The registers of a thread of a program's kernel, and the bytes of its stack in local memory.
///
/// # Errors
/// Those of the compiler.
pub fn resources(source: &str, capability: (i32, i32)) -> Result<(u32, u32)> {
    nvrtc()?.resources(source, capability)
}

/// Compiles programs, and writes them to the cache on disk, from which a process on a machine with a GPU loads them; returns how many.
///
/// # Errors
/// Those of the compiler.
pub fn compile_into_cache<'a>(
    sources: impl Iterator<Item = &'a str>,
    capability: (i32, i32),
) -> Result<usize> {
    let mut count = 0;
    for source in sources {
        programs::compile_into_cache(source, capability)?;
        count += 1;
    }
    Ok(count)
}

/// The programs of all kernels that are not formulas, with their names.
pub fn programs() -> Vec<(String, String)> {
    native::all_programs()
}

/// Loops that note the programs they would run, and compute nothing.
#[derive(Default)]
pub struct RecordingLoops {
    sources: Mutex<BTreeSet<String>>,
}

impl RecordingLoops {
    /// Loops that have noted nothing.
    pub const fn new() -> Self {
        RecordingLoops { sources: Mutex::new(BTreeSet::new()) }
    }

    /// The different programs so far.
    pub fn sources(&self) -> BTreeSet<String> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, source: Result<Option<String>>) -> Result<()> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).extend(source?);
        Ok(())
    }
}

impl DeviceLoops for RecordingLoops {
    fn pointwise(
        &self,
        iter: &TensorIterator<'_>,
        formula: &Tape,
        input: ScalarType,
        output: ScalarType,
    ) -> Result<()> {
        self.note(loops::source_of_pointwise(iter, formula, input, output))
    }

    fn select(&self, iter: &TensorIterator<'_>) -> Result<()> {
        self.note(loops::source_of_select(iter))
    }

    fn copy(&self, iter: &TensorIterator<'_>) -> Result<()> {
        self.note(loops::source_of_copy(iter))
    }
}
