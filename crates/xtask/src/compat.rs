//! `cargo xtask compat`: installs public packages into an environment without PyTorch, and runs the cases of `tests/compat` there.

mod imports;
mod install;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::python::{build_module, tool};
use crate::{Outcome, SKIPPED, root};
use install::Packages;

#[derive(Args)]
pub(crate) struct Options {
    /// Runs some cases of small packages only, in an environment of their own: a few minutes with its installation.
    #[arg(long, conflicts_with_all = ["trainings", "import"])]
    quick: bool,
    /// Runs trainings by the packages' own trainers instead of the cases of each package.
    #[arg(long, conflicts_with = "import")]
    trainings: bool,
    /// Measures the time and memory that `import torch, torchvision` takes, beside PyTorch's with the interpreter `FLAMBEAU_TORCH`.
    #[arg(long)]
    import: bool,
    /// Lists the packages and their cases, with the reason of those that are known to fail.
    #[arg(long)]
    list: bool,
    /// Runs the cases of this package only; may be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Runs cases again whose result is known and whose files have not changed.
    #[arg(long)]
    again: bool,
}

/// The script that runs the cases.
const RUN: &str = "tests/compat/run.py";

pub(crate) fn run(options: &Options) -> Outcome {
    if options.list {
        return finish(Command::new("python3").current_dir(root()).arg(RUN).args(arguments(options)));
    }
    let packages = Packages::read(options.quick)?;
    let environment = environment(options.quick, &packages);
    if !packages.install(&environment)? {
        return Ok(ExitCode::from(SKIPPED));
    }
    if options.import {
        return imports::run(&environment);
    }
    build_module()?;
    let mut cases = tool(&environment, "python");
    cases.env("PYTHONPATH", root().join("crates/python/python"));
    cases.arg(RUN).args(arguments(options)).arg("--results").arg(environment.join("results.jsonl"));
    finish(&mut cases)
}

/// Where the packages are: the quick ones in a small environment of their own, unless there is one with all packages.
fn environment(quick: bool, packages: &Packages) -> PathBuf {
    let all = root().join("target/compat");
    if quick && !packages.are_in(&all) { root().join("target/compat-quick") } else { all }
}

/// The options, as the script takes them.
fn arguments(options: &Options) -> Vec<&str> {
    let flags = [
        ("--quick", options.quick),
        ("--trainings", options.trainings),
        ("--list", options.list),
        ("--again", options.again),
    ];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag);
    flags.chain(options.only.iter().flat_map(|name| ["--only", name.as_str()])).collect()
}

fn finish(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
