//! `cargo xtask test`: runs all checks that a change must pass, and prints one line for each.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;

use crate::{Outcome, SKIPPED, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Skips the tests: checks only formatting, lints, generated files and the project's rules.
    #[arg(long)]
    quick: bool,
}

/// A check: its name, the arguments of `cargo`, and whether `--quick` runs it too.
type Step = (&'static str, &'static [&'static str], bool);

const STEPS: &[Step] = &[
    ("format", &["fmt", "--all", "--check"], true),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], true),
    ("codegen", &["xtask", "codegen", "--check"], true),
    ("tidy", &["xtask", "tidy", "--quiet"], true),
    ("features off", &["check", "--quiet", "--package", "flambeau", "--no-default-features"], false),
    ("tests", &["test", "--workspace", "--no-fail-fast", "--tests", "--examples"], false),
    (
        "fuzz calls",
        &["xtask", "fuzz", "calls", "--seed", "961362318", "--seconds", "300", "--calls", "300000"],
        false,
    ),
    ("cuda", &["xtask", "cuda"], false),
    ("ranks", &["xtask", "ranks", "--quick"], false),
    ("python", &["xtask", "python"], false),
    ("compat", &["xtask", "compat", "--quick"], false),
    ("fuzz readers", &["xtask", "fuzz", "readers", "--seed", "1", "--seconds", "6"], false),
    ("budgets", &["xtask", "budgets"], false),
    ("loom", &["xtask", "loom"], false),
    ("miri", &["xtask", "miri", "--seed", "1"], false),
    ("asan", &["xtask", "asan", "--seed", "1"], false),
    (
        "docs",
        &[
            "--config",
            "build.rustdocflags=[\"-D\", \"warnings\"]",
            "doc",
            "--quiet",
            "--workspace",
            "--no-deps",
        ],
        false,
    ),
    ("doc tests", &["test", "--workspace", "--doc"], false),
];

/// How a check ended.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Passed,
    Failed,
    /// It needs what this machine does not have; its output says what.
    Skipped,
}

impl End {
    const fn word(self) -> &'static str {
        match self {
            End::Passed => "passed",
            End::Failed => "FAILED",
            End::Skipped => "skipped",
        }
    }
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mut ends = vec![];
    for (name, arguments, quick) in STEPS {
        if options.quick && !quick {
            continue;
        }
        println!("== {name}: cargo {}", arguments.join(" "));
        let start = Instant::now();
        let end = cargo(arguments)?;
        println!("== {name}: {} in {:.1} s", end.word(), start.elapsed().as_secs_f64());
        ends.push((*name, end));
    }
    let with = |requested: End| -> Vec<&str> {
        ends.iter().filter(|(_, end)| *end == requested).map(|(name, _)| *name).collect()
    };
    let (failed, skipped) = (with(End::Failed), with(End::Skipped));
    for (what, names) in [("failed", &failed), ("skipped", &skipped)] {
        if !names.is_empty() {
            println!("{what}: {}", names.join(", "));
        }
    }
    println!("{} passed, {} failed, {} skipped", with(End::Passed).len(), failed.len(), skipped.len());
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs cargo at the root of the repository; its output is shown as it comes.
fn cargo(arguments: &[&str]) -> Result<End, String> {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    Ok(match status.code() {
        Some(0) => End::Passed,
        Some(code) if code == i32::from(SKIPPED) => End::Skipped,
        _ => End::Failed,
    })
}
