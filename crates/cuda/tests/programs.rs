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
use register_table::{CAPABILITIES, Name, growth, hand_written, name_of, parsed};
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
        true => &testing::TYPES,
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
    assert!(table.values().all(|columns| columns.len() == CAPABILITIES.len()));
    // Formulas are compared by `cargo xtask cuda --registers` alone: which of them there are is known after all types are recorded.
    let programs = hand_written().unwrap();
    let missing: Vec<&Name> = programs.keys().filter(|name| !table.contains_key(*name)).collect();
    assert!(missing.is_empty(), "`cargo xtask cuda --registers --write` writes the table: {missing:?}");
    println!("{} programs are in the table, {} of them no formulas", table.len(), programs.len());
    assert!(table.len() > 3 * programs.len(), "{} programs", table.len());
}

#[test]
fn what_grows_is_new_or_is_no_more_is_found() {
    let before = parsed("kernel | float32 int64 | 10/0 12/0 14/0 16/0\nother | - | 1/0 1/0 1/0 1/0\n");
    assert_eq!(before.len(), 3);
    let others = "kernel | int64 | 10/0 12/0 14/0 16/0\nother | - | 1/0 1/0 1/0 1/0\n";
    let now = |line: &str| growth(&before, &parsed(&format!("{line}\n{others}"))).len();
    assert_eq!(now("kernel | float32 | 10/0 12/0 14/0 15/0"), 0);
    assert_eq!(now("kernel | float32 | 10/0 13/0 14/0 16/0"), 1);
    assert_eq!(now("kernel | float32 | 10/0 12/0 14/8 16/0"), 1);
    // A kernel that the table does not have, and one that is no more.
    assert_eq!(now("kernel | float64 | 10/0 12/0 14/0 16/0"), 2);
}

#[test]
fn names_in_the_table_have_types_apart() {
    let name = |program: &str| name_of(program);
    let is = |name: &str, types: &str| (name.to_owned(), types.to_owned());
    assert_eq!(name("fold typedef float T;\n#define FOLD Add\n"), is("fold FOLD Add", "float32"));
    assert_eq!(name("add float16 float16 dense 2"), is("add dense 2", "float16"));
    assert_eq!(name("copy bool complex64 dense"), is("copy dense", "bool>complex64"));
    assert_eq!(name("check_indices"), is("check_indices", "-"));
}
