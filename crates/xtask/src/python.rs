//! `cargo xtask python` and `valgrind`: build the package into a virtual environment under `target/` and run pytest there.
//!
//! The module is built together with the whole workspace, so that its dependencies have the same features as for other tests and are
//! not compiled again. Built alone, as maturin does for a wheel, they would have other features.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::Args;

use crate::{Outcome, root};

/// The packages that the tests need. The version of the type checker is fixed, since each version reports other errors.
const PACKAGES: &[&str] = &["mypy==2.4.1", "numpy", "pytest"];

#[derive(Args)]
pub(crate) struct Options {
    /// Arguments of pytest: files of tests, `-k name`, ...
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let environment = build()?;
    let tests = tool(&environment, "python");
    pytest(tests, &["crates/python/tests"], &options.arguments)
}

/// Builds the package, and returns an interpreter that can import it.
pub(crate) fn interpreter() -> Result<Command, String> {
    let environment = build()?;
    let mut interpreter = tool(&environment, "python");
    interpreter.env("PYTHONPATH", root().join("crates/python/python"));
    Ok(interpreter)
}

/// The tests that run under valgrind: those of data exchange with other libraries and processes.
const EXCHANGE: &[&str] = &["exchange_lifetimes", "dlpack", "numpy", "pickle", "shared_memory"];

/// The tests that are excluded: those that measure memory, which valgrind retains after it is freed; those of processes that are killed
/// or start an interpreter, which does not run under valgrind; and those that would take minutes.
const UNWATCHED: &str = "not round_trips_take_no and not memory_is_used_again and not few_descriptors and not killed \
                         and not spawn and not another_process_reads and not many_threads and not hogwild and not long_chains";

/// Runs the tests of data exchange under valgrind, which exits with an error code if it finds an error.
pub(crate) fn valgrind(options: &Options) -> Outcome {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|found| found.status.success()) {
        println!("valgrind: skipped, since it is not installed\n  apt install valgrind");
        return Ok(ExitCode::SUCCESS);
    }
    let environment = build()?;
    let suppressions = root().join("crates/python/tests/valgrind.supp");
    let mut tests = Command::new("valgrind");
    tests.current_dir(root()).env("VIRTUAL_ENV", &environment);
    tests.args(["--quiet", "--error-exitcode=99", "--num-callers=40", "--fair-sched=yes"]);
    tests.arg(format!("--suppressions={}", suppressions.display()));
    tests.arg(environment.join("bin/python"));
    // With Python's own allocator valgrind would not see the objects.
    tests.env("PYTHONMALLOC", "malloc").env("FLAMBEAU_NUM_THREADS", "2");
    let files: Vec<String> =
        EXCHANGE.iter().map(|name| format!("crates/python/tests/test_{name}.py")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).chain(["-k", UNWATCHED]).collect();
    pytest(tests, &files, &options.arguments)
}

/// Builds the package, in an environment with the packages that the tests need.
fn build() -> Result<PathBuf, String> {
    let environment = root().join("target/python");
    prepare(&environment, &PACKAGES.join(" "), || {
        succeed(tool(&environment, "python").args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))
    })?;
    build_module()?;
    Ok(environment)
}

/// Builds the module, and copies it into the package.
pub(crate) fn build_module() -> Result<(), String> {
    // With an example among the targets, dependencies have the same features as for tests, and are not compiled a second time.
    let arguments = ["build", "--quiet", "--workspace", "--lib", "--example", "fuzz_calls"];
    succeed(Command::new("cargo").args(arguments).current_dir(root()))?;
    install_module("debug")
}

/// Builds the module with the release profile, as wheels have it.
pub(crate) fn build_for_release() -> Result<(), String> {
    let arguments = ["build", "--quiet", "--release", "--package", "flambeau-python", "--lib"];
    succeed(Command::new("cargo").args(arguments).current_dir(root()))
}

/// The same, and copies it into the package.
pub(crate) fn build_module_for_release() -> Result<(), String> {
    build_for_release()?;
    install_module("release")
}

/// The program that prints the calls of `bench --table ops`, with the workspace's features, so that nothing is compiled twice.
pub(crate) fn build_bench_calls() -> Result<(), String> {
    let arguments = ["build", "--quiet", "--workspace", "--example", "bench_calls"];
    succeed(Command::new("cargo").args(arguments).current_dir(root()))
}

/// The folder of cargo's builds with a profile: `debug` or `release`.
pub(crate) fn built(profile: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from).join(profile)
}

/// Copies the module into the package.
fn install_module(profile: &str) -> Result<(), String> {
    copy_module(profile, &root().join("crates/python/python/flambeau"))
}

/// Copies the module into a package, under the name of the stable ABI, which all supported interpreters load.
pub(crate) fn copy_module(profile: &str, package: &Path) -> Result<(), String> {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = built(profile).join(format!("{prefix}_flambeau{suffix}"));
    let name = if cfg!(windows) { "_flambeau.pyd" } else { "_flambeau.abi3.so" };
    let module = package.join(name);
    // Written as a new file, since a running interpreter may have mapped the old one.
    let fresh = module.with_extension("new");
    let copied = std::fs::copy(&built, &fresh).and_then(|_| std::fs::rename(&fresh, &module));
    copied.map_err(|error| format!("{} to {}: {error}", built.display(), module.display()))
}

fn pytest(mut interpreter: Command, what: &[&str], more: &[String]) -> Outcome {
    interpreter.args(["-m", "pytest", "-q"]).args(what).args(more);
    interpreter.env("PYTHONPATH", root().join("crates/python/python"));
    let status = interpreter.status().map_err(|error| format!("pytest: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether an environment exists with exactly these packages.
pub(crate) fn is_prepared(environment: &Path, packages: &str) -> bool {
    std::fs::read_to_string(environment.join("complete")).is_ok_and(|there| there == packages)
}

/// Creates an environment with the packages that `install` adds, unless it exists with those of this list.
pub(crate) fn prepare(
    environment: &Path,
    packages: &str,
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    if is_prepared(environment, packages) {
        return Ok(());
    }
    let complete = environment.join("complete");
    succeed(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    install()?;
    std::fs::write(&complete, packages).map_err(|error| format!("{}: {error}", complete.display()))
}

/// A program of the environment, run at the root of the repository.
pub(crate) fn tool(environment: &Path, name: &str) -> Command {
    let programs: PathBuf = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let mut command = Command::new(programs.join(name));
    command.current_dir(root()).env("VIRTUAL_ENV", environment);
    command
}

pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}
