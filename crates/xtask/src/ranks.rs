//! `cargo xtask ranks`: the tests of process groups with real processes, with the launcher and the library of MPI from PyPI.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::python::{built, prepare, succeed, tool};
use crate::{Outcome, root};

/// The package with a library that has the standard ABI of MPI 5, and its launcher.
const MPI: &str = "mpich==5.0.2";

#[derive(Args)]
pub(crate) struct Options {
    /// Fewer sizes, kills and restarts: a minute instead of some.
    #[arg(long)]
    quick: bool,
    /// The parts to run: collectives, large, mistakes, kills, stops, restarts, memory, overlap, simulated, launchers; or `plot FILE`, which
    /// draws what the simulator says of many ranks.
    parts: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let mpi = fetch()?;
    // Together with the whole workspace, as the tests are built: alone, its dependencies would be compiled again.
    let build = ["build", "--quiet", "--workspace", "--example", "ranks"];
    succeed(Command::new("cargo").args(build).current_dir(root()))?;
    let mut program = Command::new(built("debug").join("examples/ranks"));
    program.args(&options.parts).current_dir(root());
    if options.quick {
        program.arg("--quick");
    }
    if let Some(mpi) = mpi {
        program.env("FLAMBEAU_MPIEXEC", mpi.join("bin/mpiexec"));
        program.env("FLAMBEAU_MPI_LIBRARY", mpi.join("lib/libmpi_abi.so.1"));
    }
    Ok(if program.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The folder of MPI, which is fetched if it is not there; none where PyPI has none for the system.
fn fetch() -> Result<Option<PathBuf>, String> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let folder = root().join("target/mpi");
    prepare(&folder, MPI, || {
        succeed(tool(&folder, "python").args(["-m", "pip", "install", "--quiet", "--no-deps", MPI]))
    })?;
    Ok(Some(folder))
}
