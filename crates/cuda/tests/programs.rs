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

mod recorded;
mod register_table;

use flambeau_core::ScalarType;
use flambeau_cuda::testing;
use recorded::{LOOPS, record};
use register_table::{CAPABILITIES, growth, parsed};
use std::collections::BTreeSet;
use std::path::PathBuf;

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
    let sources = LOOPS.programs();
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

#[test]
fn the_table_of_registers_has_every_program_and_what_grows_is_found() {
    let table = parsed(include_str!("../registers.txt"));
    let programs = register_table::hand_written();
    let names: BTreeSet<&str> = programs.iter().map(|(name, _)| name.as_str()).collect();
    let known: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    assert_eq!(names, known, "`cargo xtask cuda --registers --write` writes the table");
    println!("{} kernels are in the table", known.len());
    assert!(table.values().all(|columns| columns.len() == CAPABILITIES.len()));
    let before = parsed("kernel | 10/0 12/0 14/0 16/0\nother | 1/0 1/0 1/0 1/0\n");
    let now = |text| growth(&before, &parsed(text)).len();
    assert_eq!(now("kernel | 10/0 12/0 14/0 15/0\nother | 1/0 1/0 1/0 1/0\n"), 0);
    assert_eq!(now("kernel | 10/0 13/0 14/0 16/0\nother | 1/0 1/0 1/0 1/0\n"), 1);
    assert_eq!(now("kernel | 10/0 12/0 14/8 16/0\nother | 1/0 1/0 1/0 1/0\n"), 1);
    // A kernel that the table does not have, and one that is no more.
    assert_eq!(now("kernel | 10/0 12/0 14/0 16/0\nnew | 1/0 1/0 1/0 1/0\n"), 2);
}
