//! `cargo xtask fuzz calls` and `fuzz readers`: random inputs from a seed.

use std::process::{Command, ExitCode};

use clap::{Args, Subcommand};

use crate::{Outcome, python, root, seed};

#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Calls operators by name with hostile arguments, in separate processes.
    Calls {
        /// The seed; by default that of the commit.
        #[arg(long)]
        seed: Option<u64>,
        #[arg(long, default_value_t = 600)]
        seconds: u32,
        /// The number of calls after which it stops before that time.
        #[arg(long, default_value_t = u64::MAX)]
        calls: u64,
        /// Repeats one call of a seed, and prints its arguments.
        #[arg(long, requires = "seed")]
        only: Option<u64>,
    },
    /// Reads files, messages and capsules that were changed at random.
    Readers {
        /// The seed; by default that of the commit.
        #[arg(long)]
        seed: Option<u64>,
        /// For each reader.
        #[arg(long, default_value_t = 120)]
        seconds: u32,
        /// Further arguments of `fuzz_readers.py`: `--reader pt`, `--case 17`, `--keep FOLDER`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mut command = match &options.what {
        What::Calls { seed, seconds, calls, only } => fuzz_calls(*seed, [(*seconds).into(), *calls], *only)?,
        What::Readers { seed, seconds, arguments } => readers(*seed, *seconds, arguments)?,
    };
    Ok(if command.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the program together with the whole workspace, as the tests are built. Built alone, its dependencies would have other features
/// and be compiled again.
fn fuzz_calls(seed: Option<u64>, limits: [u64; 2], only: Option<u64>) -> Result<Command, String> {
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--workspace", "--example", "fuzz_calls"]).current_dir(root());
    python::succeed(&mut build)?;
    let mut command = Command::new(python::built("debug").join("examples/fuzz_calls"));
    command.arg(seed::given_or_of_the_commit(seed).to_string()).current_dir(root());
    match only {
        Some(number) => command.args(["only", &number.to_string()]),
        None => command.args(limits.map(|limit| limit.to_string())),
    };
    Ok(command)
}

fn readers(seed: Option<u64>, seconds: u32, arguments: &[String]) -> Result<Command, String> {
    let mut command = python::interpreter()?;
    command.arg("crates/python/tests/fuzz_readers.py");
    command.args(["--seed", &seed::given_or_of_the_commit(seed).to_string()]);
    command.args(["--seconds", &seconds.to_string()]).args(arguments);
    Ok(command)
}
