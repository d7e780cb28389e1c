//! For the tests of this crate: all programs without a device, and the compiler by itself.
#![doc(hidden)]

pub use crate::blas::products_by_cublas;
use crate::driver::{ELAPSED_TIME, FUNCTIONS};
use crate::loops;
use crate::native;
use crate::nvrtc::nvrtc;
use crate::print;
use crate::programs;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::loops::device::DeviceLoops;
use flambeau_ops::tensor_iterator::TensorIterator;
use flambeau_ops::vectorized::traced::Tape;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The types in which the rows of the operator table are checked on devices, those first that stand for the others where not all are.
pub const TYPES: [ScalarType; 7] = [
    ScalarType::F32,
    ScalarType::I64,
    ScalarType::Bool,
    ScalarType::F16,
    ScalarType::BF16,
    ScalarType::F64,
    ScalarType::I32,
];

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

/// The registers of a thread of each kernel of a program, and the bytes of its stack in local memory, by the kernel's name.
///
/// # Errors
/// Those of the compiler.
pub fn resources(source: &str, capability: (i32, i32)) -> Result<Vec<(String, (u32, u32))>> {
    nvrtc()?.resources(source, capability)
}

/// What every program begins with.
pub fn prelude() -> String {
    print::prelude("")
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

/// The names of the driver's functions that this crate calls.
pub fn driver_functions() -> Vec<&'static str> {
    let names = FUNCTIONS.names.iter().filter_map(|name| name.to_str().ok());
    names.chain([ELAPSED_TIME]).collect()
}

/// The PTX of a program, as a text.
///
/// # Errors
/// Those of the compiler.
pub fn ptx(source: &str, capability: (i32, i32)) -> Result<String> {
    let images = nvrtc()?.compile(source, capability)?;
    let text = images.last().map(Vec::as_slice).unwrap_or_default();
    Ok(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned())
}

/// Programs by their sources, with names.
type Named = BTreeMap<String, String>;

/// Loops that note the programs they would run, and compute nothing.
#[derive(Default)]
pub struct RecordingLoops {
    names: Mutex<Named>,
}

impl RecordingLoops {
    /// Loops that have noted nothing.
    pub const fn new() -> Self {
        RecordingLoops { names: Mutex::new(BTreeMap::new()) }
    }

    /// The different programs so far, each by the first operator and types that it served; several of one name are numbered.
    pub fn programs(&self) -> Vec<(String, String)> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<(String, String)> =
            names.iter().map(|(source, name)| (name.clone(), source.clone())).collect();
        all.sort_unstable();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (name, _) in &mut all {
            let count = counts.entry(name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                *name = format!("{name} {count}");
            }
        }
        all
    }

    fn note(&self, name: String, source: Result<Option<String>>) -> Result<()> {
        let Some(source) = source? else { return Ok(()) };
        let layout = if source.contains("struct Layout") { "strided" } else { "dense" };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.entry(source).or_insert_with(|| format!("{name} {layout}"));
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
        let name = format!("{} {input} {output}", iter.name());
        self.note(name, loops::source_of_pointwise(iter, formula, input, output))
    }

    fn select(&self, iter: &TensorIterator<'_>) -> Result<()> {
        self.note(format!("{} {}", iter.name(), iter.common_dtype()), loops::source_of_select(iter))
    }

    fn copy(&self, iter: &TensorIterator<'_>) -> Result<()> {
        let types: Vec<String> = iter.operands().iter().map(|operand| operand.dtype().to_string()).collect();
        self.note(format!("copy {}", types.join(" ")), loops::source_of_copy(iter))
    }
}
