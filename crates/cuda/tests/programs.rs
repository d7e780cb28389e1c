//! Every program compiles, on a machine without a GPU: those of hand-written kernels, and those of all formulas of the operator table,
//! which are recorded instead of run.
//!
//! NVRTC is what `cargo xtask cuda-tools` fetches, or an installed one; without it the compilations are skipped, and counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    unsafe_code,
    reason = "the test has a device of its own, and sets the environment before it starts threads"
)]

use flambeau_core::allocator::MemoryStats;
use flambeau_core::backend::{Backend, DeviceHooks};
use flambeau_core::{
    Allocator, DataPtr, Device, DeviceType, DispatchKey, DispatchKeySet, Result, ScalarType, ThreadKeysGuard,
};
use flambeau_cuda::testing::{self, RecordingLoops};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_ops::loops::device::LoopsOf;
use flambeau_tests::call::{operator, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Arg;
use std::collections::BTreeSet;
use std::path::PathBuf;

inventory::submit!(Backend::new(DeviceType::PrivateUse3, "recorded", || Ok(&Recorded)));
inventory::submit!(LoopsOf::new(DeviceType::PrivateUse3, &LOOPS));

static LOOPS: RecordingLoops = RecordingLoops::new();

/// A device whose loops are recorded. Its memory is the host's, which nothing accesses but copies.
struct Recorded;

impl DeviceHooks for Recorded {
    fn device_count(&self) -> usize {
        1
    }

    fn current_device(&self) -> usize {
        0
    }

    fn set_current_device(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn allocator(&self) -> &'static dyn Allocator {
        &Recorded
    }

    unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
        // SAFETY: both are memory of the host, and what the caller says.
        unsafe { std::ptr::copy_nonoverlapping(from.1, to.1, bytes) };
        Ok(())
    }
}

impl Allocator for Recorded {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        let memory = vec![0u64; bytes.div_ceil(8)];
        let data = Box::leak(memory.into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: so many bytes, which are never freed.
        Ok(unsafe { DataPtr::new(data, bytes, std::ptr::null_mut(), None) })
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        self.allocate(bytes)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: what the caller says.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak(&self) {}

    fn empty_cache(&self) {}
}

/// The folder of `cargo xtask cuda-tools`, if it was run.
fn tools() -> Option<PathBuf> {
    let target = std::env::current_exe().ok()?.ancestors().nth(3)?.to_owned();
    Some(target.join("cuda-tools/nvidia/cu13/lib")).filter(|folder| folder.exists())
}

/// Whether there is an NVRTC; a skip is printed.
fn has_nvrtc() -> bool {
    if let Some(folder) = tools() {
        // SAFETY: the tests of this file set the same value, before the library reads it.
        unsafe { std::env::set_var("CUDA_HOME", folder) };
    }
    match testing::nvrtc_version() {
        Ok(version) => {
            println!("NVRTC {version:?}");
            true
        }
        Err(error) => {
            println!("1 check skipped: {error}");
            false
        }
    }
}

/// The compute capabilities for which programs are compiled.
const CAPABILITIES: [(i32, i32); 4] = [(8, 0), (9, 0), (10, 0), (12, 0)];

/// Compiles the programs, and returns the faults.
fn compile_all(programs: &[(String, String)], capabilities: &[(i32, i32)]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut bytes = 0;
    for (name, source) in programs {
        for &capability in capabilities {
            match testing::compile(source, capability) {
                Ok(count) => bytes += count,
                Err(error) => faults.push(format!("{name} for {capability:?}: {error}")),
            }
        }
    }
    println!("{} programs for {capabilities:?}: {bytes} bytes, {} faults", programs.len(), faults.len());
    faults
}

#[test]
fn hand_written_kernels_compile() {
    let programs = testing::programs();
    assert!(programs.len() > 150, "{}", programs.len());
    if has_nvrtc() {
        // All take minutes: one in eight stands for all here, and a few for other devices.
        let all = std::env::var_os("FLAMBEAU_CUDA_ALL_TYPES").is_some();
        let is_part =
            |source: &str| ["typedef float T;", "typedef int64 T;"].iter().any(|of| source.contains(of));
        let part = programs.into_iter().filter(|(_, source)| all || is_part(source));
        let part: Vec<_> = part.step_by(if all { 1 } else { 8 }).collect();
        let mut faults = compile_all(&part, &CAPABILITIES[1..2]);
        let few: Vec<_> = part.into_iter().step_by(if all { 1 } else { 6 }).collect();
        faults.extend(compile_all(&few, &CAPABILITIES));
        assert!(faults.is_empty(), "{faults:#?}");
    }
}

fn arguments(sample: &[Arg], dtype: ScalarType, device: Device) -> Vec<Value> {
    let moved = |t: &Tensor| {
        let storage = t.storage().copied_to(device).unwrap();
        let made = flambeau_core::TensorImpl::new(storage, t.geometry().clone(), t.dtype());
        Tensor::from_impl(made.unwrap())
    };
    let each = |value| match value {
        Value::Tensor(t) => Value::Tensor(moved(&t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(moved).collect()),
        other => other,
    };
    values(sample, &mut |array| tensor(array, dtype)).into_iter().map(each).collect()
}

/// Calls the rows that have a kernel for CUDA, so that their programs are recorded; returns how many.
fn record(types: &[ScalarType]) -> (usize, BTreeSet<String>) {
    let device: Device = "recorded:0".parse().unwrap();
    let mut rows = 0;
    let mut refused = BTreeSet::new();
    for row in op_db::rows() {
        let Some(op) = operator(row.name).filter(|op| op.has_kernel(DispatchKey::Cuda)) else { continue };
        // Kernels that are not formulas launch by themselves, on real devices only.
        if op.has_kernel(DispatchKey::PrivateUse3) || !row.pointwise {
            continue;
        }
        rows += 1;
        for &dtype in row.types.iter().filter(|dtype| types.contains(dtype)) {
            for sample in &row.samples {
                let arguments = arguments(sample, dtype, device);
                // Its kernels are those of CUDA: the thread has that key instead of the device's own.
                let _own = ThreadKeysGuard::exclude(DispatchKey::PrivateUse3.into());
                let _cuda = ThreadKeysGuard::include(DispatchKeySet::of(DispatchKey::Cuda));
                if let Err(error) = op.call_boxed(&arguments) {
                    refused.insert(format!("{}: {error:.150}", row.name));
                }
            }
        }
    }
    (rows, refused)
}

#[test]
fn formulas_compile() {
    let all = std::env::var("FLAMBEAU_CUDA_ALL_TYPES").is_ok();
    let types: &[ScalarType] = match all {
        true => &[
            ScalarType::F32,
            ScalarType::I64,
            ScalarType::Bool,
            ScalarType::F16,
            ScalarType::BF16,
            ScalarType::F64,
            ScalarType::I32,
        ],
        false => &[ScalarType::F32, ScalarType::I64],
    };
    let (rows, refused) = record(types);
    let sources: Vec<(String, String)> =
        LOOPS.sources().into_iter().enumerate().map(|(i, s)| (i.to_string(), s)).collect();
    println!("{rows} rows gave {} different programs", sources.len());
    refused.iter().for_each(|line| println!("  {line}"));
    assert!(rows > 100 && sources.len() > 300, "{rows} rows, {} programs", sources.len());
    if !has_nvrtc() {
        return;
    }
    if std::env::var_os("FLAMBEAU_CACHE").is_some() {
        let written = testing::compile_into_cache(sources.iter().map(|(_, source)| source.as_str()), (9, 0));
        println!("{} programs are in the cache", written.unwrap());
        return;
    }
    // A program takes some 50 ms; which are compiled depends on nothing but their order.
    let step = if all { 1 } else { sources.len().div_ceil(150) };
    let part: Vec<_> = sources.into_iter().step_by(step).collect();
    let faults = compile_all(&part, &CAPABILITIES[1..2]);
    assert!(faults.is_empty(), "{faults:#?}");
}
