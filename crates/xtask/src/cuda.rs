//! `cuda-tools` fetches NVRTC, with which tests compile every kernel on a machine without a GPU. `cuda` packs the checks that need a GPU,
//! for a machine that has one and nothing else; `cuda --device` runs them there.

use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Args;

use super::{Outcome, root};
use crate::python::{built, succeed};

/// The version of NVRTC that tests compile with.
const NVRTC: &str = "nvidia-cuda-nvrtc==13.0.88";

#[derive(Args)]
pub(crate) struct Options {
    /// Runs the packed checks on this machine's GPU, instead of packing them.
    #[arg(long)]
    device: bool,
    /// The parts to run: memory, large, faults, training, speed, rows, layouts, repeats.
    parts: Vec<String>,
}

/// Fetches NVRTC into `target/cuda-tools`.
pub(crate) fn tools() -> Outcome {
    let folder = root().join("target/cuda-tools");
    std::fs::create_dir_all(&folder)?;
    let install = ["-m", "pip", "install", "--no-deps", "--upgrade", "--target"];
    succeed(Command::new("python3").args(install).arg(&folder).arg(NVRTC))?;
    println!("{}", folder.join("nvidia/cu13/lib").display());
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn run_task(options: &Options) -> Outcome {
    let folder = root().join("target/cuda-device");
    if options.device {
        let mut script = Command::new("bash");
        let status = script.arg(folder.join("run.sh")).args(&options.parts).status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    pack(&folder)
}

/// What a machine with a GPU needs: the program without symbols, compressed; compiled kernels; a script.
fn pack(folder: &Path) -> Outcome {
    let root = root();
    std::fs::create_dir_all(folder.join("cache"))?;
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    succeed(cargo().current_dir(&root).args(["build", "--workspace", "--example", "device_check"]))?;
    let mut record = cargo();
    let test = ["test", "--workspace", "--test", "programs", "formulas_compile", "--", "--nocapture"];
    record
        .current_dir(&root)
        .args(test)
        .env("FLAMBEAU_CACHE", folder.join("cache"))
        .env("FLAMBEAU_CUDA_ALL_TYPES", "1");
    succeed(&mut record)?;
    let program = folder.join("device_check");
    succeed(Command::new("strip").arg("-o").arg(&program).arg(built().join("examples/device_check")))?;
    succeed(Command::new("xz").args(["-T2", "-3", "-f"]).arg(&program))?;
    let cache = folder.join("cache.tar.xz");
    succeed(Command::new("tar").arg("-C").arg(folder.join("cache")).args(["-cJf"]).arg(&cache).arg("cuda"))?;
    std::fs::remove_dir_all(folder.join("cache"))?;
    for (from, to) in [("run.sh", "run.sh"), ("torch_speed.py", "torch_speed.py")] {
        std::fs::copy(root.join("crates/cuda/examples/device_check").join(from), folder.join(to))?;
    }
    for file in std::fs::read_dir(folder)? {
        let file = file?;
        println!("{:>12} {}", file.metadata()?.len(), file.path().display());
    }
    Ok(ExitCode::SUCCESS)
}
