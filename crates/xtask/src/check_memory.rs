//! `cargo xtask miri`, `loom`, `asan` and `tsan`: what a plain test run cannot see of pointers and races.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;

use crate::{Outcome, root, seed};

mod miri;

pub(crate) use miri::{Options as MiriOptions, run as miri};

/// Whether the nightly toolchain answers to this; says how to get it if not.
///
/// # Errors
/// Where it is not there and `CI` is set: what a change must pass has no gaps.
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

/// What a sanitizer runs: the arguments of `cargo test`, the tests.
type Programs = [(&'static [&'static str], &'static [&'static str])];

/// Where pointers live: storages and their guards, the pool, packing and tiles of products. A product of thousands of elements takes as
/// long as all others, and goes the ways that those of the edges go.
const ADDRESS: &Programs = &[(
    &["-p", "flambeau-core", "-p", "flambeau-parallel", "-p", "flambeau-gemm", "--lib"],
    &["--skip", "large_products_match"],
)];

/// Loads of lanes, kernels, and a third of the table on odd strides, which `--all` adds: instrumented, they take minutes to compile.
const ADDRESS_OF_KERNELS: &Programs = &[
    (&["-p", "flambeau-vectorized", "--lib"], &[]),
    (&["-p", "flambeau-ops", "--test", "operators"], &[]),
    (&["-p", "flambeau-tests", "--test", "layouts"], &[]),
];

/// Where threads meet: storage locks and caches of blocks, the pool, the engine, operands that change while they are read.
const THREAD: &Programs = &[
    (&["-p", "flambeau-core", "--tests"], &[]),
    (&["-p", "flambeau-parallel", "--lib"], &[]),
    (&["-p", "flambeau-autograd", "--test", "contract", "--test", "grad_accumulator_cache"], &[]),
    (&["-p", "flambeau-tests", "--test", "races"], &[]),
];

#[derive(Args)]
pub(crate) struct AsanOptions {
    /// Runs the kernels too: those of lanes and operators, and a part of the table of operators.
    #[arg(long)]
    all: bool,
    /// Which part of the table; the commit's if not said.
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
        // Tests ask for more than there is, to see it refused.
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
        // What the standard library does between threads would not be seen otherwise, and be taken for races.
        command.arg("-Zbuild-std").env("RUSTFLAGS", "-Zsanitizer=thread");
        command.env(
            "TSAN_OPTIONS",
            format!("suppressions={} allocator_may_return_null=1", suppressions.display()),
        );
        command.env("FLAMBEAU_RACE_SECONDS", "20");
    })
}

/// Runs programs under a sanitizer, all of them even where one fails, and says how many tests passed.
fn sanitize(task: &str, programs: &Programs, prepare: impl Fn(&mut Command)) -> Outcome {
    let (start, mut passed, mut failed) = (Instant::now(), vec![], false);
    // Naming the target keeps the flag from build scripts and procedural macros.
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
        // A folder of its own, so that the flag does not rebuild everything else.
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
