//! `cargo xtask compat`: installs public packages into an environment without PyTorch, and runs the cases of `tests/compat/packages` there.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::python::{build_module, prepare, succeed, tool};
use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs one case or two of each package only.
    #[arg(long)]
    quick: bool,
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

/// The packages with their versions, one a line. All dependencies are among them, so that pip resolves nothing.
const REQUIREMENTS: &str = "tests/compat/requirements.txt";
/// The script that runs the cases.
const RUN: &str = "tests/compat/run.py";
/// Packages that require PyTorch find the metadata of this version, and no module.
const STAND_IN: &str = "2.15.0";

pub(crate) fn run(options: &Options) -> Outcome {
    if options.list {
        return finish(Command::new("python3").current_dir(root()).arg(RUN).args(arguments(options)));
    }
    build_module()?;
    let environment = root().join("target/compat");
    install(&environment)?;
    let mut cases = tool(&environment, "python");
    cases.env("PYTHONPATH", root().join("crates/python/python"));
    cases.arg(RUN).args(arguments(options)).arg("--results").arg(environment.join("results.jsonl"));
    finish(&mut cases)
}

/// The options, as the script takes them.
fn arguments(options: &Options) -> Vec<&str> {
    let flags = [("--quick", options.quick), ("--list", options.list), ("--again", options.again)];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag);
    flags.chain(options.only.iter().flat_map(|name| ["--only", name.as_str()])).collect()
}

fn finish(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{RUN}: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Creates the environment with the packages that the cases need.
fn install(environment: &Path) -> Result<(), String> {
    let requirements = root().join(REQUIREMENTS);
    let packages = fs::read_to_string(&requirements).map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
    prepare(environment, &packages, || {
        stand_in(environment)?;
        let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--requirement"];
        succeed(tool(environment, "python").args(install).arg(&requirements))
    })
}

/// Writes the metadata of PyTorch's package, which `importlib.metadata` reads, without the package.
fn stand_in(environment: &Path) -> Result<(), String> {
    let mut python = tool(environment, "python");
    python.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
    let output = python.output().map_err(|error| format!("python: {error}"))?;
    let packages = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = Path::new(&packages).join(format!("torch-{STAND_IN}.dist-info"));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let metadata = format!("Metadata-Version: 2.1\nName: torch\nVersion: {STAND_IN}\n");
    for (name, text) in [("METADATA", metadata.as_str()), ("INSTALLER", "pip\n"), ("RECORD", "")] {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}
