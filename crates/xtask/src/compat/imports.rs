//! `cargo xtask compat --import`: the time and memory that an import takes, with Flambeau and with PyTorch.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use crate::python::{build_module_for_release, succeed, tool};
use crate::{Outcome, root};

/// The script that starts the interpreters.
const IMPORTS: &str = "tests/compat/imports.py";
/// The variable that names an interpreter with PyTorch and torchvision.
const THEIRS: &str = "FLAMBEAU_TORCH";

pub(super) fn run(environment: &Path) -> Outcome {
    build_module_for_release()?;
    let mut script = tool(environment, "python");
    script.env("PYTHONPATH", root().join("crates/python/python")).arg(IMPORTS);
    if let Some(interpreter) = env::var_os(THEIRS) {
        script.arg("--against").arg(interpreter);
    } else {
        println!("compat: {THEIRS} names no interpreter with PyTorch, so that only Flambeau is measured");
    }
    succeed(&mut script)?;
    Ok(ExitCode::SUCCESS)
}
