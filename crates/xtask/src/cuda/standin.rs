//! The checks of a GPU on the stand-in for NVIDIA's driver: the operator table, layouts, determinism, memory, faults and a small GPT, with
//! work in several orders.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::fetch;
use crate::python::{built, succeed};
use crate::{Outcome, SKIPPED, root};

/// The parts that run, unless some are named, those first that take long. `large` needs more memory than tests have, and `speed` says nothing
/// of a GPU.
const PARTS: &[&str] = &[
    "rows",
    "layouts",
    "gradients",
    "training",
    "images",
    "complex",
    "variants",
    "portable",
    "repeats",
    "graphs",
    "memory",
    "products",
    "steady",
    "pinned",
    "faults",
    "streams",
];
/// Those of the operator table.
const TABLE: &[&str] = &["rows", "layouts", "gradients", "complex", "variants", "portable", "repeats"];
/// The parts that run in other orders too, and print a digest of their results. There each tensor has memory of its own, so that its bounds
/// are those that are checked, and unordered accesses to shared memory are faults.
const DRAWN: &[&str] = &["rows", "training", "images", "repeats", "graphs", "products", "streams"];
/// Those with products, which run with the stand-in for cuBLAS too.
const OF_PRODUCTS: &[&str] = &["products", "graphs"];
/// The orders of work beside that of the calls, which has the number 0.
const SEEDS: &[u64] = &[1, 2];
/// The orders in which all that is drawn runs with `--schedules`.
const ALL_SEEDS: &[u64] = &[1, 2, 3, 4, 5, 6, 7];

/// A process: a part in an order of work.
struct Job<'a> {
    part: &'a str,
    /// The number of the order.
    seed: u64,
    /// Whether products are those of the stand-in for cuBLAS.
    by_library: bool,
}

/// What runs, and in which orders.
pub(super) struct Plan<'a> {
    jobs: Vec<Job<'a>>,
    /// A text in the names of the rows of the operator table.
    filter: &'a str,
    /// Whether rows are compared in all types.
    all_types: bool,
}

impl<'a> Plan<'a> {
    /// The parts of these names, or all; in 8 orders or in 3.
    pub(super) fn of_parts(names: &'a [String], all_schedules: bool) -> Self {
        let requested = |part: &&str| names.is_empty() || names.iter().any(|name| name == part);
        let others = names.iter().map(String::as_str).filter(|name| !PARTS.contains(name));
        let parts: Vec<&str> = PARTS.iter().copied().filter(requested).chain(others).collect();
        let seeds = if all_schedules { ALL_SEEDS } else { SEEDS };
        let drawn = |part: &&str| DRAWN.contains(part);
        let with_products = parts.iter().copied().filter(|part| OF_PRODUCTS.contains(part));
        let by_library = with_products.map(|part| Job { part, seed: 0, by_library: true });
        let mut jobs = in_order_of_calls(&parts);
        for part in parts.iter().copied().filter(drawn) {
            jobs.extend(seeds.iter().map(|seed| Job { part, seed: *seed, by_library: false }));
        }
        jobs.extend(by_library);
        Plan { jobs, filter: "", all_types: false }
    }

    /// The operator table in two orders, and whether its bits are always the same in 8.
    pub(super) fn of_table(filter: &'a str, all_types: bool) -> Self {
        let mut jobs = in_order_of_calls(TABLE);
        jobs.push(Job { part: "rows", seed: 1, by_library: false });
        jobs.extend(ALL_SEEDS.iter().map(|seed| Job { part: "repeats", seed: *seed, by_library: false }));
        Plan { jobs, filter, all_types }
    }

    /// How many orders there are beside that of the calls.
    fn other_orders(&self) -> usize {
        self.jobs.iter().map(|job| job.seed).filter(|seed| *seed != 0).collect::<BTreeSet<_>>().len()
    }
}

fn in_order_of_calls<'a>(parts: &[&'a str]) -> Vec<Job<'a>> {
    parts.iter().map(|part| Job { part, seed: 0, by_library: false }).collect()
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
    let before = programs_in_cache();
    let runs = run_all(&libraries, plan)?;
    faults += compiled_twice(&runs, programs_in_cache() - before) + differing(plan, &runs);
    println!("cuda: {faults} faults in {:.1} s", start.elapsed().as_secs_f64());
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many processes failed, and how many digests are not those of the order of the calls.
fn differing(plan: &Plan<'_>, runs: &[Run]) -> usize {
    let mut faults = runs.iter().filter(|run| !run.passed).count();
    let all = || plan.jobs.iter().zip(runs);
    let is_first = |job: &Job<'_>| job.seed == 0 && !job.by_library;
    let first: Vec<&String> =
        all().filter(|(job, _)| is_first(job)).flat_map(|(_, run)| &run.digests).collect();
    let (mut same, mut of_library) = (0, 0);
    for (job, run) in all().filter(|(job, _)| !is_first(job)) {
        for digest in &run.digests {
            if first.contains(&digest) {
                (same, of_library) =
                    if job.by_library { (same, of_library + 1) } else { (same + 1, of_library) };
            } else {
                println!("  FAULT {}: {digest}, and in the order of the calls {first:?}", job.name());
                faults += 1;
            }
        }
    }
    println!(
        "cuda: {same} digests in {} other orders, and {of_library} with the stand-in for cuBLAS, are those of the order of the calls",
        plan.other_orders()
    );
    faults
}

/// The folder of compiled programs, which all processes share.
fn cache() -> PathBuf {
    root().join("target/cuda-standin")
}

fn programs_in_cache() -> usize {
    let is_program = |path: &Path| path.extension().is_some_and(|extension| extension == "bin");
    std::fs::read_dir(cache().join("cuda"))
        .map_or(0, |files| files.flatten().filter(|file| is_program(&file.path())).count())
}

/// Each program is compiled by one thread of one process, while the others wait; returns whether one was compiled again.
fn compiled_twice(runs: &[Run], new: usize) -> usize {
    let compiled: usize = runs.iter().map(|run| run.compiled).sum();
    let is_fault = compiled != new;
    let word = if is_fault { "  FAULT " } else { "cuda: " };
    println!("{word}{compiled} programs compiled, and {new} are new in the cache");
    usize::from(is_fault)
}

/// A folder that has the stand-in under the name of cuBLAS, whose functions are in the same library.
fn cublas() -> Result<PathBuf, std::io::Error> {
    let folder = cache().join("cublas");
    std::fs::create_dir_all(&folder)?;
    let link = folder.join("libcublas.so");
    let _ = std::fs::remove_file(&link);
    #[cfg(unix)]
    std::os::unix::fs::symlink(built("debug").join("libflambeau_cuda_standin.so"), &link)?;
    Ok(folder)
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
    /// How many programs it compiled.
    compiled: usize,
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
        .env("FLAMBEAU_CACHE", cache())
        .env_remove("CUDA_VISIBLE_DEVICES");
    command
}

/// Runs all processes, as many at a time as there are processors, since most of what each does is done by one thread at a time.
fn run_all(libraries: &Path, plan: &Plan<'_>) -> Result<Vec<Run>, String> {
    let cublas = cublas().map_err(|error| format!("the link of cuBLAS: {error}"))?;
    let width = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Run)>, String> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = plan.jobs.get(at) else { return Ok(done) };
            let run = finished(job, command(libraries, &cublas, job, plan));
            done.push((at, run.map_err(|error| format!("{}: {error}", job.name()))?));
        }
    };
    let mut runs = std::thread::scope(|scope| -> Result<Vec<(usize, Run)>, String> {
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::new();
        for worker in workers {
            let ended =
                worker.join().unwrap_or_else(|_| Err("a thread that waits for a process ended".into()));
            all.extend(ended?);
        }
        Ok(all)
    })?;
    runs.sort_unstable_by_key(|(at, _)| *at);
    Ok(runs.into_iter().map(|(_, run)| run).collect())
}

impl Job<'_> {
    fn name(&self) -> String {
        let Job { part, seed, by_library } = self;
        format!("{part} with seed {seed}{}", if *by_library { ", and the stand-in for cuBLAS" } else { "" })
    }
}

/// The process of a job.
fn command(libraries: &Path, cublas: &Path, job: &Job<'_>, plan: &Plan<'_>) -> Command {
    let mut command = program(libraries);
    command.arg(job.part).env("FLAMBEAU_STANDIN_SEED", job.seed.to_string());
    if !plan.filter.is_empty() {
        command.env("FLAMBEAU_CHECK_ROWS", plan.filter);
    }
    if plan.all_types {
        command.env("FLAMBEAU_CHECK_TYPES", "all");
    }
    if job.by_library {
        command.env("LD_LIBRARY_PATH", cublas);
        command.env("FLAMBEAU_CUDA_BLAS", "library").env("FLAMBEAU_CHECK_BLAS", "library");
    }
    if job.seed != 0 {
        command.env("FLAMBEAU_STANDIN_RACES", "1").env("FLAMBEAU_NO_CUDA_MEMORY_CACHING", "1");
        command.env("FLAMBEAU_CHECK_DIGESTS", "1");
    }
    command
}

/// Runs the checks to their end, and prints what they print.
fn finished(job: &Job<'_>, mut command: Command) -> Result<Run, std::io::Error> {
    let output = command.stderr(std::process::Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("cuda: {}\n{text}", job.name());
    let digests = text.lines().filter(|line| line.starts_with("digest of")).map(str::to_owned).collect();
    let count = |line: &str| line.strip_suffix(" programs compiled")?.parse().ok();
    Ok(Run {
        passed: output.status.success(),
        digests,
        compiled: text.lines().find_map(count).unwrap_or_default(),
    })
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
