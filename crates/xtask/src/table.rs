//! `cargo xtask table`: the whole operator table on every instruction set of this machine, with one thread and with two. With
//! `--device cuda`, on the stand-in for NVIDIA's driver: rows in two orders of work, and whether their bits are the same in eight.
//! `cargo xtask types`: the dtypes that its operators support.

use std::fs;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde::Deserialize;

use crate::{Outcome, codegen, cuda, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs only the tests whose name contains this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// The device: cpu or cuda.
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "cuda"])]
    device: String,
    /// On cuda, compares the rows in all types.
    #[arg(long)]
    all_types: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    if options.device == "cuda" {
        return cuda::table(&options.filter, options.all_types);
    }
    let logs = root().join("target/table");
    fs::create_dir_all(&logs)?;
    let programs = programs()?;
    let mut failed = 0;
    for set in sets() {
        for threads in ["1", "2"] {
            println!("== {set}, {threads} threads");
            let output = Command::new("cargo")
                .args(["test", "--quiet", "--workspace", "--no-fail-fast"])
                .args(programs.iter().flat_map(|program| ["--test", program]))
                .args(["--", "--nocapture", &options.filter])
                .env("FLAMBEAU_CPU_CAPABILITY", set)
                .env("FLAMBEAU_NUM_THREADS", threads)
                .current_dir(root())
                .stderr(Stdio::inherit())
                .output()?;
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines().filter(|line| is_count(line)).for_each(|line| println!("{line}"));
            let log = logs.join(format!("{set}-{threads}.log"));
            fs::write(&log, text.as_bytes())?;
            println!("skips with their reasons: {}", log.display());
            failed += usize::from(!output.status.success());
        }
    }
    println!("{failed} of the runs failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the test that writes the table of dtypes, then the generator, which writes the page of operators.
pub(crate) fn types() -> Outcome {
    let mut test = Command::new("cargo");
    test.args(["test", "--quiet", "--workspace", "--test", "types", "the_table"]);
    if !test.env("UPDATE_TYPES", "1").current_dir(root()).status()?.success() {
        return Ok(ExitCode::FAILURE);
    }
    codegen::run(&codegen::Options::default())
}

/// The test programs of the table, by name: with `--package`, the operators would be compiled again, with other features.
fn programs() -> Result<Vec<String>, String> {
    let listed = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let metadata: Metadata =
        serde_json::from_slice(&listed.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let table = metadata.packages.into_iter().filter(|package| package.name == "flambeau-tests");
    let targets = table.flat_map(|package| package.targets);
    Ok(targets
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .map(|target| target.name)
        .collect())
}

/// What `cargo metadata` says of the workspace, as far as it is read.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// `Forward: 1480 rows, 129369 cases, 12 rows skipped`, or the end of a test program.
fn is_count(line: &str) -> bool {
    line.contains(" rows, ") || line.starts_with("test result")
}

/// The instruction sets, by the values of `FLAMBEAU_CPU_CAPABILITY`.
fn sets() -> Vec<&'static str> {
    let mut sets = vec!["default"];
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") && has!("f16c") {
            sets.push("avx2");
        }
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            sets.push("avx512");
        }
    }
    #[cfg(target_arch = "aarch64")]
    sets.push("neon");
    sets
}
