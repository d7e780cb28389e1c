//! The checks of a GPU on the stand-in for NVIDIA's driver: the operator table, layouts, determinism, memory, faults and a small GPT, with
//! work in several orders.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use super::fetch;
use crate::python::{built, succeed};
use crate::{Outcome, SKIPPED, root};

/// The parts that run, unless some are named. `large` needs more memory than tests have, and `speed` says nothing of a GPU.
const PARTS: &[&str] = &[
    "memory",
    "pinned",
    "faults",
    "streams",
    "graphs",
    "products",
    "steady",
    "training",
    "images",
    "rows",
    "complex",
    "layouts",
    "variants",
    "gradients",
    "portable",
    "repeats",
];
/// Those of the operator table.
const TABLE: &[&str] = &["rows", "complex", "layouts", "variants", "gradients", "portable", "repeats"];
/// The parts that run in other orders too, and print a digest of their results. There each tensor has memory of its own, so that its bounds
/// are those that are checked, and unordered accesses to shared memory are faults.
const DRAWN: &[&str] = &["streams", "graphs", "products", "training", "images", "rows", "repeats"];
/// The orders of work beside that of the calls, which has the number 0.
const SEEDS: &[u64] = &[1, 2];
/// The orders in which all that is drawn runs with `--schedules`.
const ALL_SEEDS: &[u64] = &[1, 2, 3, 4, 5, 6, 7];

/// A process: the number of its order of work, and its parts.
type Order<'a> = (u64, Vec<&'a str>);

/// What runs, and in which orders.
pub(super) struct Plan<'a> {
    /// The parts with the order of the calls.
    pub(super) parts: Vec<&'a str>,
    /// The other orders, and the parts that run in them.
    others: Vec<Order<'a>>,
    /// A text in the names of the rows of the operator table.
    pub(super) filter: &'a str,
    /// Whether rows are compared in all types.
    pub(super) all_types: bool,
}

impl<'a> Plan<'a> {
    /// The parts of these names, or all; in 8 orders or in 3.
    pub(super) fn of_parts(names: &'a [String], all_schedules: bool) -> Self {
        let parts =
            if names.is_empty() { PARTS.to_vec() } else { names.iter().map(String::as_str).collect() };
        let drawn: Vec<&str> = DRAWN.iter().copied().filter(|part| parts.contains(part)).collect();
        let seeds = if all_schedules { ALL_SEEDS } else { SEEDS };
        let others = seeds.iter().map(|seed| (*seed, drawn.clone())).filter(|(_, drawn)| !drawn.is_empty());
        Plan { others: others.collect(), parts, filter: "", all_types: false }
    }

    /// The parts with the order of the calls, in two processes: the operator table takes as long as all others.
    fn in_order_of_calls(&self) -> Vec<Order<'a>> {
        let (rows, others): (Vec<&str>, Vec<&str>) = self.parts.iter().partition(|part| **part == "rows");
        [rows, others].into_iter().filter(|parts| !parts.is_empty()).map(|parts| (0, parts)).collect()
    }

    /// The operator table in two orders, and whether its bits are always the same in 8.
    pub(super) fn of_table(filter: &'a str, all_types: bool) -> Self {
        let drawn = |seed: &u64| (*seed, if *seed == 1 { vec!["rows", "repeats"] } else { vec!["repeats"] });
        Plan { parts: TABLE.to_vec(), others: ALL_SEEDS.iter().map(drawn).collect(), filter, all_types }
    }
}

/// Runs the checks. Without NVRTC, which cannot be fetched without a network, they are skipped, which is printed.
pub(super) fn run(plan: &Plan<'_>) -> Outcome {
    let libraries = match fetch() {
        Ok(libraries) => libraries,
        Err(error) => {
            println!("cuda: SKIPPED, since NVRTC cannot be fetched: {error}");
            return Ok(ExitCode::from(SKIPPED));
        }
    };
    let start = Instant::now();
    build()?;
    println!("cuda: built in {:.1} s", start.elapsed().as_secs_f64());
    let mut faults = what_is_missing(&libraries)? + warm_start(&libraries)?;
    let first = merged(check_all(&libraries, &plan.in_order_of_calls(), plan)?);
    faults += usize::from(!first.passed);
    if plan.parts.contains(&"products") {
        faults += by_library(&libraries, &first)?;
    }
    let mut same = 0;
    let others = check_all(&libraries, &plan.others, plan)?;
    for ((seed, _), other) in plan.others.iter().zip(&others) {
        faults += usize::from(!other.passed);
        for digest in &other.digests {
            if first.digests.contains(digest) {
                same += 1;
            } else {
                println!("  FAULT with seed {seed}: {digest}, and with seed 0 {:?}", first.digests);
                faults += 1;
            }
        }
    }
    println!(
        "cuda: {same} digests in {} other orders are those of the order of the calls",
        plan.others.len()
    );
    println!("cuda: {faults} faults in {:.1} s", start.elapsed().as_secs_f64());
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the products, and graphs with products, with the stand-in for cuBLAS, which is the same library under another name; returns how often they differ.
fn by_library(libraries: &Path, first: &Run) -> Result<usize, Box<dyn std::error::Error>> {
    let folder = root().join("target/cuda-standin/cublas");
    std::fs::create_dir_all(&folder)?;
    let link = folder.join("libcublas.so");
    let _ = std::fs::remove_file(&link);
    #[cfg(unix)]
    std::os::unix::fs::symlink(built("debug").join("libflambeau_cuda_standin.so"), &link)?;
    println!("cuda: products and graphs, with the stand-in for cuBLAS");
    let mut command = program(libraries);
    command.args(["products", "graphs"]).env("LD_LIBRARY_PATH", &folder);
    command.env("FLAMBEAU_CUDA_BLAS", "library").env("FLAMBEAU_CHECK_BLAS", "library");
    let run = finished(command)?;
    let differs = run.digests.iter().any(|digest| !first.digests.contains(digest));
    if differs {
        println!("  FAULT the products of the two have other bits");
    }
    Ok(usize::from(!run.passed) + usize::from(differs))
}

/// Builds the stand-in and the checks with the workspace, so that its crates have the same features as for other tests.
fn build() -> Result<(), String> {
    let arguments = ["build", "--workspace", "--lib", "--example", "device_check"];
    succeed(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(arguments)
            .current_dir(root()),
    )
}

/// What a run of the checks gave.
struct Run {
    passed: bool,
    /// The lines that have to be the same in every order.
    digests: Vec<String>,
}

/// The program of the checks, where it finds the stand-in as its driver.
fn program(libraries: &Path) -> Command {
    let mut command = Command::new(built("debug").join("examples/device_check"));
    command
        .env("FLAMBEAU_CUDA_DRIVER", built("debug").join("libflambeau_cuda_standin.so"))
        .env("FLAMBEAU_CUDA_PATH", libraries)
        .env("CUDA_FORCE_PTX_JIT", "1")
        .env("FLAMBEAU_CUDA_BLAS", "own")
        .env("FLAMBEAU_CHECK_TIER", "quick")
        .env("FLAMBEAU_CHECK_SECONDS", "600")
        .env("FLAMBEAU_CACHE", root().join("target/cuda-standin"))
        .env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// Runs processes, as many at a time as there are processors, since each has one thread.
fn check_all(libraries: &Path, orders: &[Order<'_>], plan: &Plan<'_>) -> Result<Vec<Run>, String> {
    let width = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut runs = Vec::new();
    for together in orders.chunks(width) {
        let finished: Vec<Result<Run, String>> = std::thread::scope(|scope| {
            let start = |order| scope.spawn(move || check(libraries, order, plan).map_err(|e| e.to_string()));
            let started: Vec<_> = together.iter().map(start).collect();
            let end = "a thread that waits for a process ended";
            started.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(end.into()))).collect()
        });
        for run in finished {
            runs.push(run?);
        }
    }
    Ok(runs)
}

/// Several runs as one.
fn merged(runs: Vec<Run>) -> Run {
    let passed = runs.iter().all(|run| run.passed);
    Run { passed, digests: runs.into_iter().flat_map(|run| run.digests).collect() }
}

fn check(
    libraries: &Path,
    (seed, parts): &Order<'_>,
    plan: &Plan<'_>,
) -> Result<Run, Box<dyn std::error::Error>> {
    println!("cuda: {} with seed {seed}", parts.join(", "));
    let mut command = program(libraries);
    command.args(parts).env("FLAMBEAU_STANDIN_SEED", seed.to_string());
    if !plan.filter.is_empty() {
        command.env("FLAMBEAU_CHECK_ROWS", plan.filter);
    }
    if plan.all_types {
        command.env("FLAMBEAU_CHECK_TYPES", "all");
    }
    if *seed != 0 {
        command.env("FLAMBEAU_STANDIN_RACES", "1").env("FLAMBEAU_NO_CUDA_MEMORY_CACHING", "1");
        command.env("FLAMBEAU_CHECK_DIGESTS", "1");
    }
    finished(command)
}

/// Runs the checks to their end, and prints what they print.
fn finished(mut command: Command) -> Result<Run, Box<dyn std::error::Error>> {
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let digests = text.lines().filter(|line| line.starts_with("digest of")).map(str::to_owned).collect();
    Ok(Run { passed: output.status.success(), digests })
}

/// A process whose programs are in the cache on disk compiles none; returns whether it does.
fn warm_start(libraries: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let mut text = String::new();
    for _ in 0..2 {
        text = String::from_utf8(program(libraries).arg("faults").output()?.stdout)?;
    }
    if text.lines().any(|line| line == "0 programs compiled") {
        println!("cuda: the second process compiles no program");
        return Ok(0);
    }
    println!("  FAULT the second process compiles programs: {text}");
    Ok(1)
}

/// What is missing, the environment in which it is, and what the error says.
type Missing<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

/// What a process is told that sees no driver, no device or no NVRTC; returns how often it is not.
fn what_is_missing(libraries: &Path) -> Result<usize, Box<dyn std::error::Error>> {
    let cases: [Missing<'_>; 3] = [
        ("driver", &[("FLAMBEAU_CUDA_DRIVER", "libmissing.so.1")], "no driver is installed"),
        ("device", &[("CUDA_VISIBLE_DEVICES", "")], "the driver sees none"),
        (
            "NVRTC",
            &[
                ("FLAMBEAU_CUDA_PATH", "/missing"),
                ("CUDA_HOME", ""),
                ("CUDA_PATH", ""),
                ("VIRTUAL_ENV", ""),
                ("CONDA_PREFIX", ""),
            ],
            "pip install nvidia-cuda-nvrtc",
        ),
    ];
    let mut faults = 0;
    for (name, variables, expected) in cases {
        let output = program(libraries).envs(variables.iter().copied()).arg("faults").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let is_said = !output.status.success() && text.contains(expected);
        // The system may have an NVRTC of its own.
        if is_said || (name == "NVRTC" && output.status.success()) {
            println!(
                "cuda: without {name}: {}",
                if is_said { "an error that says so" } else { "1 check skipped" }
            );
        } else {
            println!("  FAULT without {name}: {text}");
            faults += 1;
        }
    }
    Ok(faults)
}
