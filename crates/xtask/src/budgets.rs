//! `cargo xtask budgets`: counts the instructions of the smallest calls and holds them against what they may take.

use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// `--renew` writes the budgets anew, `--callgrind` has callgrind count.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds with the optimisation that users have: what a call costs in another profile says nothing.
pub(crate) fn run(options: &Options) -> Outcome {
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "--release", "--package", "flambeau-budgets", "--"]);
    let status = command.args(&options.arguments).current_dir(root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
