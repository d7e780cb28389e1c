//! `cuda-tools` fetches NVRTC, with which tests compile every kernel on a machine without a GPU. `cuda` runs the checks of a GPU on the
//! stand-in for NVIDIA's driver, which needs none. `cuda --registers` compares the registers of all kernels with a table. `cuda --pack` packs
//! the checks for a machine that has a GPU and nothing else, and `cuda --device` runs them there.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use super::{Outcome, root};
use crate::python::{built, succeed};

mod standin;

/// The version of NVRTC that tests compile with.
const NVRTC: &str = "13.0.88";

#[derive(Args)]
pub(crate) struct Options {
    /// Packs the checks for a machine with a GPU.
    #[arg(long)]
    pack: bool,
    /// Runs the packed checks on this machine's GPU.
    #[arg(long, conflicts_with = "pack")]
    device: bool,
    /// Compares the registers and the local memory of all kernels with `crates/cuda/registers.txt`.
    #[arg(long, conflicts_with_all = ["pack", "device"])]
    registers: bool,
    /// Writes that table anew.
    #[arg(long, requires = "registers")]
    write: bool,
    /// Compares every N-th kernel alone.
    #[arg(long, value_name = "N", requires = "registers", conflicts_with = "write")]
    sample: Option<usize>,
    /// Runs the parts of determinism in 8 orders of work instead of 3.
    #[arg(long)]
    schedules: bool,
    /// The parts to run.
    #[arg(value_parser = ["memory", "pinned", "large", "faults", "streams", "graphs", "products", "steady", "training", "images", "speed",
        "rows", "complex", "layouts", "variants", "gradients", "portable", "repeats"])]
    parts: Vec<String>,
}

/// Fetches NVRTC into `target/cuda-tools`.
pub(crate) fn tools() -> Outcome {
    println!("{}", fetch()?.display());
    Ok(ExitCode::SUCCESS)
}

/// The folder of NVRTC, which is fetched if it is not there.
fn fetch() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let folder = root().join("target/cuda-tools");
    let libraries = folder.join("nvidia/cu13/lib");
    if folder.join(format!("nvidia_cuda_nvrtc-{NVRTC}.dist-info")).exists() {
        return Ok(libraries);
    }
    std::fs::create_dir_all(&folder)?;
    let install = ["-m", "pip", "install", "--no-deps", "--upgrade", "--target"];
    succeed(Command::new("python3").args(install).arg(&folder).arg(format!("nvidia-cuda-nvrtc=={NVRTC}")))?;
    Ok(libraries)
}

pub(crate) fn run_task(options: &Options) -> Outcome {
    let folder = root().join("target/cuda-device");
    if options.device {
        let mut script = Command::new("bash");
        let status = script.arg(folder.join("run.sh")).args(&options.parts).status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if options.registers {
        return registers(options);
    }
    if options.pack {
        return pack(&folder);
    }
    standin::run(&standin::Plan::of_parts(&options.parts, options.schedules))
}

/// The rows of the operator table whose names contain a text, on the stand-in.
pub(crate) fn table(filter: &str, all_types: bool) -> Outcome {
    standin::run(&standin::Plan::of_table(filter, all_types))
}

/// Compares what kernels need with the table, or writes it. What was compiled before is in `target/cuda-registers.txt`.
fn registers(options: &Options) -> Outcome {
    let (root, libraries) = (root(), fetch()?);
    let cargo = || Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    succeed(cargo().current_dir(&root).args(["build", "--workspace", "--example", "registers"]))?;
    let mut program = Command::new(built("debug").join("examples/registers"));
    program.args([root.join("crates/cuda/registers.txt"), root.join("target/cuda-registers.txt")]);
    program.env("FLAMBEAU_CUDA_PATH", libraries);
    if options.write {
        program.arg("--write");
    }
    if let Some(step) = options.sample {
        program.arg("--sample").arg(step.to_string());
    }
    Ok(if program.status()?.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    succeed(Command::new("strip").arg("-o").arg(&program).arg(built("debug").join("examples/device_check")))?;
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
