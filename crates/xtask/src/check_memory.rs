//! `cargo xtask miri`, `loom`, `asan` and `tsan`: find invalid pointers and data races, which ordinary test runs do not detect.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;

use crate::{Outcome, root, seed};

mod miri;

pub(crate) use miri::{Options as MiriOptions, run as miri};

/// Whether the nightly toolchain has a component; prints how to install it if not.
///
/// # Errors
/// If it is missing and `CI` is set: CI does not skip checks.
fn has(task: &str, probe: &[&str], install: &str) -> Result<bool, String> {
    let answer = cargo(probe).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answer.is_ok_and(|status| status.success()) {
        return Ok(true);
    }
    let missing = format!("{task}: there is no nightly toolchain for it\n  {install}");
    if std::env::var_os("CI").is_some() {
        return Err(missing);
    }
    println!("!! SKIPPED, AND NOTHING CHECKED: {missing}");
    Ok(false)
}

/// The test programs that run under a sanitizer: the arguments of `cargo test`, and those of the test program.
type Programs = [(&'static [&'static str], &'static [&'static str])];

/// Tests of code with pointers: storages and their guards, the pool, packing and tiles of matrix products. The test of large products
/// is skipped: it takes as long as all others together, and covers the same code.
const ADDRESS: &Programs = &[(
    &["-p", "flambeau-core", "-p", "flambeau-parallel", "-p", "flambeau-gemm", "--lib"],
    &["--skip", "large_products_match"],
)];

/// Tests that `--all` adds, since they take minutes to compile with instrumentation: vector loads, kernels, and a third of the operator
/// table with unusual strides.
const ADDRESS_OF_KERNELS: &Programs = &[
    (&["-p", "flambeau-vectorized", "--lib"], &[]),
    (&["-p", "flambeau-ops", "--test", "operators"], &[]),
    (&["-p", "flambeau-tests", "--test", "layouts"], &[]),
];

/// Tests of concurrent code: storage locks, allocator caches, the pool, the engine, and operands that change while they are read.
const THREAD: &Programs = &[
    (&["-p", "flambeau-core", "--tests"], &[]),
    (&["-p", "flambeau-parallel", "--lib"], &[]),
    (&["-p", "flambeau-autograd", "--test", "contract", "--test", "grad_accumulator_cache"], &[]),
    (&["-p", "flambeau-tests", "--test", "races"], &[]),
];

#[derive(Args)]
pub(crate) struct AsanOptions {
    /// Runs the tests of vector loads and kernels too, and a part of the operator table.
    #[arg(long)]
    all: bool,
    /// The seed that selects the part of the table; by default that of the commit.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn asan(options: &AsanOptions) -> Outcome {
    if !has("asan", &["+nightly", "--version"], "rustup toolchain install nightly")? {
        return Ok(ExitCode::SUCCESS);
    }
    let seed = seed::given_or_of_the_commit(options.seed);
    let programs = if options.all { [ADDRESS, ADDRESS_OF_KERNELS].concat() } else { ADDRESS.to_vec() };
    sanitize("asan", &programs, |command| {
        command.env("RUSTFLAGS", "-Zsanitizer=address").env("FLAMBEAU_TABLE_PART", format!("{seed}/3"));
        // Tests request more memory than there is, and expect an error.
        command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
    })
}

pub(crate) fn tsan() -> Outcome {
    let install = "rustup toolchain install nightly --component rust-src";
    if !has("tsan", &["+nightly", "--version"], install)? {
        return Ok(ExitCode::SUCCESS);
    }
    let suppressions = root().join("crates/xtask/src/check_memory/tsan.supp");
    sanitize("tsan", THREAD, |command| {
        // Without instrumentation of the standard library its synchronisation is invisible, and false races are reported.
        command.arg("-Zbuild-std").env("RUSTFLAGS", "-Zsanitizer=thread");
        command.env(
            "TSAN_OPTIONS",
            // A test forks while threads run, and its child starts some.
            format!("suppressions={} allocator_may_return_null=1 die_after_fork=0", suppressions.display()),
        );
        command.env("FLAMBEAU_RACE_SECONDS", "20");
    })
}

/// Runs all programs under a sanitizer, even if one fails, and prints how many tests passed.
fn sanitize(task: &str, programs: &Programs, prepare: impl Fn(&mut Command)) -> Outcome {
    let (start, mut passed, mut failed) = (Instant::now(), vec![], false);
    // With an explicit target the flag does not apply to build scripts and procedural macros.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    for (arguments, tests) in programs {
        let mut command = cargo(&["+nightly", "test", "--no-fail-fast", "--target", &target]);
        command.arg("--target-dir").arg(root().join("target").join(task)).args(*arguments);
        prepare(&mut command);
        let output = command.arg("--").args(*tests).stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        passed.push(format!("{} of {}", count_passed(&text), arguments.join(" ")));
        if !output.status.success() {
            print!("{text}");
            failed = true;
        }
    }
    println!("{task}: passed {}, in {:.0} s", passed.join(", "), start.elapsed().as_secs_f64());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The numbers in `test result: ok. 45 passed; ...`.
fn count_passed(text: &str) -> usize {
    let counts = text.lines().filter_map(|line| line.strip_prefix("test result: ")?.split_once(" passed"));
    counts.filter_map(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

pub(crate) fn loom() -> Outcome {
    for tests in [["flambeau-core", "--test", "loom"], ["flambeau-parallel", "--lib", "job_slots"]] {
        let mut command = cargo(&["test", "--release", "--package"]);
        command.args(tests);
        // A separate target folder, so that the flag does not cause a rebuild of everything else.
        command.env("RUSTFLAGS", "--cfg loom").arg("--target-dir").arg(root().join("target/loom"));
        if !command.status()?.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    command
}
