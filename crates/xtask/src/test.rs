//! `cargo xtask test`: runs all checks that a change must pass, and prints one line for each.
//!
//! The checks up to the tests run one after another. Those after them mostly keep one core busy, and so run in two lanes at once.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use clap::Args;

use crate::{Outcome, SKIPPED, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Skips the tests: checks only formatting, lints, generated files and the project's rules.
    #[arg(long)]
    quick: bool,
}

/// A check: its name, and the arguments of `cargo`.
type Step = (&'static str, &'static [&'static str]);

/// What `--quick` runs.
const RULES: &[Step] = &[
    ("format", &["fmt", "--all", "--check"]),
    ("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("codegen", &["xtask", "codegen", "--check"]),
    ("tidy", &["xtask", "tidy", "--quiet"]),
];

const TESTS: &[Step] = &[
    ("features off", &["check", "--quiet", "--package", "flambeau", "--no-default-features"]),
    ("tests", &["test", "--workspace", "--no-fail-fast", "--tests", "--examples"]),
];

/// These use what `tests` has compiled.
const PROGRAMS: &[Step] = &[
    (
        "fuzz calls",
        &["xtask", "fuzz", "calls", "--seed", "961362318", "--seconds", "300", "--calls", "300000"],
    ),
    ("cuda", &["xtask", "cuda"]),
    ("ranks", &["xtask", "ranks", "--quick"]),
    ("python", &["xtask", "python"]),
    ("compat", &["xtask", "compat", "--quick"]),
    ("fuzz readers", &["xtask", "fuzz", "readers", "--seed", "1", "--seconds", "6"]),
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
    ),
    ("doc tests", &["test", "--workspace", "--doc"]),
];

/// These compile into folders of their own, so that cargo does not make them wait for [`PROGRAMS`].
const OTHER_BUILDS: &[Step] = &[
    ("budgets", &["xtask", "budgets"]),
    ("loom", &["xtask", "loom"]),
    ("miri", &["xtask", "miri", "--seed", "1"]),
    ("asan", &["xtask", "asan", "--seed", "1"]),
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
    fn of(code: Option<i32>) -> Self {
        match code {
            Some(0) => End::Passed,
            Some(code) if code == i32::from(SKIPPED) => End::Skipped,
            _ => End::Failed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            End::Passed => "passed",
            End::Failed => "FAILED",
            End::Skipped => "skipped",
        }
    }
}

type Ends = Result<Vec<(&'static str, End)>, String>;

pub(crate) fn run(options: &Options) -> Outcome {
    let xtask = std::env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
    let mut ends = in_order(&xtask, RULES)?;
    if !options.quick {
        ends.extend(in_order(&xtask, TESTS)?);
        ends.extend(in_two_lanes(&xtask)?);
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

/// Runs the steps one after another; their output is shown as it comes.
fn in_order(xtask: &Path, steps: &[Step]) -> Ends {
    let run = |&(name, arguments): &Step| {
        println!("{}", first_line(name, arguments));
        let start = Instant::now();
        let status = command(xtask, arguments).status().map_err(|error| format!("{name}: {error}"))?;
        let end = End::of(status.code());
        println!("{}", last_line(name, end, start));
        Ok((name, end))
    };
    steps.iter().map(run).collect()
}

fn first_line(name: &str, arguments: &[&str]) -> String {
    format!("== {name}: cargo {}", arguments.join(" "))
}

fn last_line(name: &str, end: End, start: Instant) -> String {
    format!("== {name}: {} in {:.1} s", end.word(), start.elapsed().as_secs_f64())
}

/// Runs [`PROGRAMS`], and [`OTHER_BUILDS`] beside them, whose output is shown as each ends.
fn in_two_lanes(xtask: &Path) -> Ends {
    thread::scope(|scope| {
        let beside =
            scope.spawn(|| OTHER_BUILDS.iter().map(|step| with_output(xtask, step)).collect::<Ends>());
        let mut ends = in_order(xtask, PROGRAMS)?;
        ends.extend(beside.join().map_err(|_| "the checks in the second lane panicked".to_owned())??);
        Ok(ends)
    })
}

/// Runs a step, and shows its output in one piece when it has ended.
fn with_output(xtask: &Path, &(name, arguments): &Step) -> Result<(&'static str, End), String> {
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let start = Instant::now();
    let (mut output, writer) = std::io::pipe().map_err(failed)?;
    let mut started = {
        let mut command = command(xtask, arguments);
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        command.spawn().map_err(failed)?
    };
    let mut text = format!("{} (beside others)\n", first_line(name, arguments)).into_bytes();
    output.read_to_end(&mut text).map_err(failed)?;
    let end = End::of(started.wait().map_err(failed)?.code());
    writeln!(text, "{}", last_line(name, end, start)).map_err(failed)?;
    std::io::stdout().lock().write_all(&text).map_err(failed)?;
    Ok((name, end))
}

/// `cargo` with the arguments, at the root of the repository. A task of xtask is run by this program itself, as cargo would first wait
/// for every build in its folder.
fn command(xtask: &Path, arguments: &[&str]) -> Command {
    let (program, arguments) = match arguments {
        ["xtask", task @ ..] => (xtask, task),
        _ => (Path::new("cargo"), arguments),
    };
    let mut command = Command::new(program);
    command.args(arguments);
    command.current_dir(root()).stdin(Stdio::null());
    command
}
