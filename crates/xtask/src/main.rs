//! The project's own tasks: `cargo xtask codegen`, `coverage`, `new-op`, `guide`, `tidy`, `test`, `table`, `types`, `python`,
//! `compat`, `valgrind`, `bench`, `budgets`, `growth`, `fuzz`, `cuda-tools`, `cuda`, `ranks`, `extensions`, `miri`, `loom`, `asan`,
//! `tsan`.

mod bench;
mod budgets;
mod busy;
mod check_memory;
mod codegen;
mod compat;
mod coverage;
mod cuda;
mod extensions;
mod fuzz;
mod growth;
mod guide;
mod new_op;
mod python;
mod ranks;
mod roofline;
mod seed;
mod table;
mod test;
mod tidy;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's own tasks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Writes the `generated/` folders from native_functions.yaml and derivatives.yaml.
    Codegen(codegen::Options),
    /// Prints how many operators of PyTorch's core set, and how many functions that its users call, exist.
    Coverage(coverage::Options),
    /// Writes the four stubs of a new operator: schema, kernel, derivative and row.
    NewOp(new_op::Options),
    /// Applies the worked examples of docs/adding_an_operator.md to a copy of the tree, and tests them there.
    Guide(guide::Options),
    /// Checks the project's rules: files with `unsafe`, names, words, first lines, lengths, unfinished work.
    Tidy(tidy::Options),
    /// Runs every check that a change must pass, and prints how many passed.
    Test(test::Options),
    /// Runs the whole operator table on every instruction set of this machine, with one thread and with two.
    Table(table::Options),
    /// Determines the dtypes that each operator supports, and writes them into the page of operators.
    Types,
    /// Builds the Python package in a virtual environment and runs its tests.
    Python(python::Options),
    /// Runs programs of public packages that were written for PyTorch, and compares them with its answers.
    Compat(compat::Options),
    /// Runs the tests of data exchange with other libraries and processes under valgrind.
    Valgrind(python::Options),
    /// Times the workloads, alone or alternating with PyTorch.
    Bench(bench::Options),
    /// Times one operator of each family at sizes from 1 to ten million elements.
    Growth(growth::Options),
    /// Counts the instructions of the smallest calls and compares them with their budgets.
    Budgets(budgets::Options),
    /// Calls operators with hostile arguments, or reads damaged files.
    Fuzz(fuzz::Options),
    /// Fetches NVRTC, with which the tests of crates/cuda compile every kernel.
    CudaTools,
    /// Runs the checks of a GPU on the stand-in for its driver, packs them for a machine with one, or runs them there.
    Cuda(cuda::Options),
    /// Tests process groups with real processes: collectives, mistakes, kills, stops, restarts, launchers.
    Ranks(ranks::Options),
    /// Builds and tests the example extensions as crates outside the workspace: some minutes.
    Extensions(extensions::Options),
    /// Runs tests of code with pointers under Miri, with scalar kernels.
    Miri(check_memory::MiriOptions),
    /// Runs loom's models of the reference counts, the locks and the guards.
    Loom,
    /// Runs the tests of core, parallel and gemm under AddressSanitizer; with `--all` those of kernels too.
    Asan(check_memory::AsanOptions),
    /// Runs the tests of storages, pool and engine under ThreadSanitizer, and operators whose operands change meanwhile.
    Tsan,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Codegen(options) => codegen::run(&options),
        Task::Coverage(options) => coverage::run(&options),
        Task::NewOp(options) => new_op::run(&options),
        Task::Guide(options) => guide::run(&options),
        Task::Tidy(options) => tidy::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Table(options) => table::run(&options),
        Task::Types => table::types(),
        Task::Python(options) => python::run(&options),
        Task::Compat(options) => compat::run(&options),
        Task::Valgrind(options) => python::valgrind(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Growth(options) => growth::run(&options),
        Task::Budgets(options) => budgets::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::CudaTools => cuda::tools(),
        Task::Cuda(options) => cuda::run_task(&options),
        Task::Ranks(options) => ranks::run(&options),
        Task::Extensions(options) => extensions::run(&options),
        Task::Miri(options) => check_memory::miri(&options),
        Task::Loom => check_memory::loom(),
        Task::Asan(options) => check_memory::asan(&options),
        Task::Tsan => check_memory::tsan(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// The result of a task: an exit code, or the reason why it could not run.
type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

/// The exit code of a task that cannot run on this machine, which `test` counts apart from those that passed and failed.
const SKIPPED: u8 = 77;

/// The root of the repository.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_path_buf()
}
