//! `cargo xtask python`: builds the package into a virtual environment under `target/` and runs pytest.
//!
//! The build is maturin's, of the same profile and folder as the other tests', so that only the binding crate is compiled anew.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Outcome, root};

/// What the tests need beside the package. A type checker finds something else to say in each version.
const PACKAGES: &[&str] = &["maturin>=1.9,<2", "mypy==2.4.1", "numpy", "pytest"];

#[derive(Args)]
pub(crate) struct Options {
    /// What to pass on to pytest: files of tests, `-k name`, ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let environment = root().join("target/python");
    prepare(&environment)?;
    succeed(tool(&environment, "maturin").args(["develop", "--quiet", "--skip-install"]))?;
    let source = root().join("crates/python/python");
    let mut tests = tool(&environment, "python");
    tests
        .args(["-m", "pytest", "-q", "crates/python/tests"])
        .args(&options.arguments)
        .env("PYTHONPATH", source);
    let status = tests.status().map_err(|error| format!("pytest: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes the environment, unless it is there and complete.
fn prepare(environment: &Path) -> Result<(), String> {
    let complete = environment.join("complete");
    let packages = PACKAGES.join(" ");
    if std::fs::read_to_string(&complete).is_ok_and(|there| there == packages) {
        return Ok(());
    }
    succeed(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    succeed(tool(environment, "python").args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    std::fs::write(&complete, packages).map_err(|error| format!("{}: {error}", complete.display()))
}

/// A program of the environment, run at the root of the repository.
fn tool(environment: &Path, name: &str) -> Command {
    let programs: PathBuf = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let mut command = Command::new(programs.join(name));
    command.current_dir(root()).env("VIRTUAL_ENV", environment);
    command
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
