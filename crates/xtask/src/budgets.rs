//! `cargo xtask budgets`: counts the instructions of the smallest calls and compares them with their budgets.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// `--renew` rewrites the budgets, `--callgrind` counts with callgrind.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds with the release profile, since the instruction counts of other profiles are meaningless.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--package", "flambeau-budgets", "--"]);
    let status = command.args(&options.arguments).current_dir(root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
