//! `cargo xtask bench`: times the workloads or all operators, alone or alternating with PyTorch.

mod bounds;
mod operators;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Command, ExitCode};

use clap::{Args, ValueEnum};

use crate::busy::{self, Busy};
use crate::roofline::{Floors, Machine};
use crate::worker::{Measured, Worker, both_orders, ours, output, progress};
use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// What is timed: `main` is the table in the README; `linalg` has Fourier transforms, decompositions and complex numbers;
    /// `sparse` has sparse matrices, beside SciPy too; `ops` has all operators of the operator table, in several sizes, types and layouts,
    /// from Python; `compile` has chains of elementwise operators, as written and compiled, beside PyTorch's compiler.
    #[arg(long, value_enum, default_value_t = Table::Main)]
    table: Table,
    /// With `--table ops`: times only this number of cases, drawn by `--seed`.
    #[arg(long)]
    sample: Option<usize>,
    /// The seed of `--sample`.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// With `--table ops`: writes the ratios to this file, and names the cases that are worse by 15 % than those that it had.
    #[arg(long)]
    save: Option<String>,
    /// With `--table ops`: goes on where an interrupted run with the same options ended.
    #[arg(long)]
    resume: bool,
    /// Runs only the workloads whose name matches this regular expression, or the operators whose name contains it.
    #[arg(long, default_value = "")]
    filter: String,
    /// Threads, on both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// A Python interpreter that has torch: times PyTorch too, alternating with ours, and prints ratios.
    #[arg(long, value_name = "PYTHON")]
    against: Option<String>,
    /// Times PyTorch also with glibc set to retain freed memory, which is a fairer comparison for large results.
    #[arg(long, requires = "against")]
    keep: bool,
    /// Takes a fifth of the time for each workload, with `--table ops` a tenth.
    #[arg(long)]
    quick: bool,
    /// The number of rounds. In a round each side runs each workload twice, first in one order of the sides and then in the reverse
    /// one, in new processes. More rounds reduce the noise of other work on the machine.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// The maximum number of rounds for workloads whose ratios scatter: they are repeated until the standard error is below 2 %.
    #[arg(long, default_value_t = 0)]
    max_rounds: u8,
    /// Times the workloads also while another process is always busy, and prints how much slower they are then.
    #[arg(long, conflicts_with = "against")]
    busy: bool,
    /// Times them with criterion, which keeps a history and reports changes.
    #[arg(long, conflicts_with = "against")]
    history: bool,
}

/// A set of workloads with geometric means of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    Main,
    Linalg,
    Sparse,
    Ops,
    Compile,
}

impl Table {
    /// The name, as our program of workloads spells it.
    fn name(self) -> &'static str {
        match self {
            Table::Main => "main",
            Table::Linalg => "linalg",
            Table::Sparse => "sparse",
            Table::Ops => "ops",
            Table::Compile => "compile",
        }
    }

    /// The program with the same workloads in PyTorch.
    fn torch(self) -> &'static str {
        match self {
            Table::Main => "crates/flambeau/benches/workloads/torch_workloads.py",
            Table::Linalg => "crates/flambeau/benches/workloads/torch_linear_algebra.py",
            Table::Sparse => "crates/flambeau/benches/workloads/torch_sparse.py",
            Table::Ops => operators::WORKER,
            Table::Compile => operators::CHAINS,
        }
    }
}

/// The workload whose result is uninitialised memory.
const UNINITIALISED: &str = "dispatch.empty4";

/// The setting with which glibc does not return freed memory to the system.
const KEEP: &str = "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184";

/// The runs of each workload, by the name of the side.
type Runs = BTreeMap<&'static str, BTreeMap<String, Vec<Measured>>>;

const OURS: &str = "flambeau";
const THEIRS: &str = "PyTorch";
const KEEPING: &str = "PyTorch, keep";
const SCIPY: &str = "SciPy";
const BESIDE: &str = "beside a busy one";

pub(crate) fn run(options: &Options) -> Outcome {
    if options.table == Table::Ops {
        return operators::run(options);
    }
    if options.table == Table::Compile {
        return operators::run_chains(options);
    }
    if options.sample.is_some() || options.save.is_some() || options.resume {
        return Err("`--sample`, `--save` and `--resume` are options of `--table ops`".into());
    }
    if options.history {
        let mut command = ours();
        command.args(arguments(options)).args([
            "--table",
            options.table.name(),
            "--criterion",
            &options.filter,
        ]);
        let status = command.current_dir(root()).status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut floors = Floors::new()?;
    let runs = all(options, &mut floors)?;
    let opponents = [THEIRS, KEEPING, SCIPY, BESIDE].map(|who| runs.get(who).map(|theirs| (who, theirs)));
    let opponents: Vec<_> = opponents.into_iter().flatten().collect();
    let outcome = compare(&runs[OURS], &opponents, &floors);
    if options.table == Table::Linalg {
        opponents.iter().for_each(|opponent| means_by_operator(&runs[OURS], *opponent));
    }
    shares(&runs[OURS], &floors);
    if let Some(beside) = runs.get(BESIDE) {
        slowest(&runs[OURS], beside, options.threads);
    }
    outcome
}

/// Prints the workload that is slowed down most by a busy process.
fn slowest(
    alone: &BTreeMap<String, Vec<Measured>>,
    beside: &BTreeMap<String, Vec<Measured>>,
    threads: usize,
) {
    let ratios = alone.iter().filter_map(|(name, runs)| Some((name, ratio(beside.get(name)?, runs))));
    if let Some((name, most)) = ratios.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let share = busy::share(threads);
        println!(
            "beside a busy process {name} takes {most:.2} times as long, the most; its share is {share:.2}"
        );
    }
}

/// Measures the bandwidth and the peak arithmetic of the machine with this number of threads.
fn machine(options: &Options) -> Result<Machine, Box<dyn Error>> {
    Ok(serde_json::from_str(&output(ours().arg("--machine").args(arguments(options)))?)?)
}

/// A copy of 1.6 times 10^7 elements.
const COPY: &str = "copy.contiguous_transposed";
const PRODUCT: &str = "linalg.matmul_f32.1024";

/// Prints which share of the bandwidth large elementwise workloads and copies reach, and which share of the peak the product of 1024.
fn shares(ours: &BTreeMap<String, Vec<Measured>>, floors: &Floors) {
    let large = |name: &str| name.starts_with("elementwise.") && name.ends_with(".1e7") || name == COPY;
    let shares = ours.iter().filter(|(name, _)| large(name));
    let shares: Vec<(&String, f64)> =
        shares.filter_map(|(name, runs)| Some((name, floors.bandwidth(name, time(runs))?.1))).collect();
    if !shares.is_empty() {
        println!(
            "elementwise of 1e7: {:.0} % of memory's bandwidth (geometric mean of {}){}",
            100.0 * geometric_mean(shares.iter().map(|(_, share)| *share)),
            shares.len(),
            below(&shares, ours)
        );
    }
    if let Some(runs) = ours.get(PRODUCT)
        && let Some((rate, share)) = floors.arithmetic(PRODUCT, time(runs))
    {
        println!("{PRODUCT}: {rate:.0} GFLOP/s, {:.0} % of the peak", 100.0 * share);
    }
}

/// The workloads that reach a small share of the memory bandwidth, with their speed for operands in cache: if that is not higher, they
/// are bound by arithmetic.
fn below(shares: &[(&String, f64)], ours: &BTreeMap<String, Vec<Measured>>) -> String {
    let mut few: Vec<_> = shares.iter().filter(|(_, share)| *share < 0.85).collect();
    few.sort_by(|a, b| a.1.total_cmp(&b.1));
    let of = |(name, share): &(&String, f64)| {
        let in_cache = ours.get(&name.replace(".1e7", ".1e5")).filter(|_| name.ends_with(".1e7"));
        let pace = in_cache.zip(ours.get(*name)).map(|(small, large)| 100.0 * time(small) / time(large));
        let pace =
            pace.map(|pace| format!(", {:.0} % of its pace in cache", 100.0 * pace)).unwrap_or_default();
        format!("; {name} {:.0} %{pace}", 100.0 * share)
    };
    few.into_iter().map(of).collect()
}

/// The median of the runs' medians.
fn time(runs: &[Measured]) -> f64 {
    median(runs.iter().map(|m| m.median_ns))
}

/// The ratio of the times of `theirs` to `ours`: the median over pairs of consecutive runs, for which the machine was in the same state.
fn ratio(theirs: &[Measured], ours: &[Measured]) -> f64 {
    median(theirs.iter().zip(ours).map(|(theirs, ours)| theirs.median_ns / ours.median_ns))
}

/// The median; NaN of an empty list.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}

/// The geometric mean; 1 of an empty list.
fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

/// Runs all workloads. For each, the sides run in one order and then in the reverse one, so that drift of the machine's temperature or
/// load affects them alike. Each round has new processes, since the placement of a process's memory has a constant effect on its times.
/// The machine is measured together with each workload.
fn all(options: &Options, floors: &mut Floors) -> Result<Runs, Box<dyn Error>> {
    let mut sides = vec![OURS];
    sides.extend(options.against.as_ref().map(|_| THEIRS));
    sides.extend(options.keep.then_some(KEEPING));
    sides.extend((options.table == Table::Sparse && options.against.is_some()).then_some(SCIPY));
    sides.extend(options.busy.then_some(BESIDE));
    let names = output(ours().args(["--list", "--table", options.table.name()]).arg(&options.filter))?;
    let names: Vec<&str> = names.lines().collect();
    let bar = progress(names.len() * usize::from(options.rounds))?;
    let mut runs = Runs::from([(OURS, BTreeMap::new())]);
    for names in names.chunk_by(|a, b| family(a) == family(b)) {
        let family = family(names[0]);
        let (mut machines, mut names) = (Vec::new(), names.to_vec());
        for round in 0..options.rounds.max(options.max_rounds) {
            if round >= options.rounds {
                names.retain(|name| !has_settled(&runs, name));
            }
            if names.is_empty() {
                break;
            }
            let mut workers = Worker::start_all(sides.iter().map(|who| command(who, options)))?;
            for &name in &names {
                bar.set_message(name.to_owned());
                for side in both_orders(sides.len()) {
                    let who = sides[side];
                    let _busy = (who == BESIDE).then(Busy::start);
                    if let Some(one) = workers[side].measure(name)? {
                        runs.entry(who).or_default().entry(name.to_owned()).or_default().push(one);
                    }
                }
                // The minimum work is known of the main table's workloads.
                if round == 0 && options.table == Table::Main {
                    let machine = machine(options)?;
                    floors.set_machine(name, machine);
                    machines.push(machine);
                }
                bar.inc(u64::from(round < options.rounds));
            }
        }
        if let Some(machine) = Machine::median(&machines) {
            bar.suspend(|| println!("machine at {family}: {}", machine.describe()));
        }
    }
    bar.finish_and_clear();
    Ok(runs)
}

/// Whether the standard error of a workload's ratios is small. Each round counts as one measurement of the logarithm of the ratio. The
/// number of rounds depends on the scatter only, and not on which side is faster.
fn has_settled(runs: &Runs, name: &str) -> bool {
    let of = |who: &str| runs.get(who).and_then(|all| all.get(name)).map_or(&[][..], Vec::as_slice);
    runs.keys().filter(|who| **who != OURS).all(|who| {
        let ratios =
            of(who).iter().zip(of(OURS)).map(|(theirs, ours)| (theirs.median_ns / ours.median_ns).ln());
        let ratios: Vec<f64> = ratios.collect();
        let rounds: Vec<f64> =
            ratios.chunks(2).map(|round| round.iter().sum::<f64>() / round.len() as f64).collect();
        // A side that does not have the workload has no ratios.
        rounds.is_empty() || standard_error(&rounds) < 0.02
    })
}

/// The standard error of the mean of these values.
fn standard_error(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / ((n - 1.0) * n)).sqrt()
}

/// The first part of a workload's name. The workloads of a family run in the same processes.
fn family(workload: &str) -> &str {
    workload.split('.').next().unwrap_or(workload)
}

fn command(who: &str, options: &Options) -> Command {
    let mut command = match who {
        OURS | BESIDE => ours(),
        _ => Command::new(options.against.as_deref().unwrap_or("python3")),
    };
    if who == KEEPING {
        command.env("GLIBC_TUNABLES", KEEP);
    }
    if [THEIRS, KEEPING, SCIPY].contains(&who) {
        command.arg(options.table.torch());
        command.args((who == SCIPY).then_some("--scipy"));
    } else {
        command.args(["--table", options.table.name()]);
    }
    command.args(arguments(options));
    command
}

fn arguments(options: &Options) -> [String; 4] {
    let seconds = if options.quick { "0.1" } else { "0.5" };
    ["--threads", &options.threads.to_string(), "--seconds", seconds].map(str::to_owned)
}

/// Prints each workload's time, and those of the other sides with their ratio to ours.
fn compare(
    ours: &BTreeMap<String, Vec<Measured>>,
    opponents: &[(&str, &BTreeMap<String, Vec<Measured>>)],
    floors: &Floors,
) -> Outcome {
    print!("{:32} {OURS:>12} {:>12} {:>8}", "workload", "floor", "to floor");
    opponents.iter().for_each(|(who, _)| print!(" {who:>14} {:>8}", "ratio"));
    println!();
    let mut ratios = vec![vec![]; opponents.len()];
    let mut wrong = 0;
    for (name, runs) in ours {
        print!("{name:32} {:>12}", nanoseconds(time(runs)));
        match floors.of(name) {
            Some(floor) => print!(" {:>12} {:>8.2}", nanoseconds(floor), time(runs) / floor),
            None => print!(" {:>12} {:>8}", "", ""),
        }
        for ((_, theirs), ratios) in opponents.iter().zip(&mut ratios) {
            let Some(theirs) = theirs.get(name) else {
                print!(" {:>14} {:>8}", "", "");
                continue;
            };
            let ratio = ratio(theirs, runs);
            let agree = name == UNINITIALISED || same_check(runs[0].check, theirs[0].check);
            print!(
                " {:>14} {ratio:>8.2}{}",
                nanoseconds(time(theirs)),
                if agree { "" } else { " results differ" }
            );
            ratios.push(ratio);
            wrong += usize::from(!agree);
        }
        println!();
    }
    for ((who, _), ratios) in opponents.iter().zip(ratios) {
        let rows = ratios.len();
        println!("geometric mean {:.2} ({who}, {rows} workloads)", geometric_mean(ratios.into_iter()));
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The family and the operator of a workload: its name up to the type.
fn operator(workload: &str) -> &str {
    workload.split('_').next().unwrap_or(workload)
}

/// Prints the geometric mean of the ratios of each operator, the smallest ratio, and whose it is.
fn means_by_operator(
    ours: &BTreeMap<String, Vec<Measured>>,
    (who, theirs): (&str, &BTreeMap<String, Vec<Measured>>),
) {
    println!("by operator ({who})");
    let ratios = ours.iter().filter_map(|(name, runs)| Some((name.as_str(), ratio(theirs.get(name)?, runs))));
    for group in ratios.collect::<Vec<_>>().chunk_by(|a, b| operator(a.0) == operator(b.0)) {
        let mean = geometric_mean(group.iter().map(|(_, ratio)| *ratio));
        if let Some((name, smallest)) = group.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
            println!("{:32} {:>8.2}, smallest {smallest:.2} ({name})", operator(name), mean);
        }
    }
}

/// Whether both computed the same up to the rounding of f32 sums in different orders. A result without check values is not compared.
fn same_check(a: [Option<f64>; 2], b: [Option<f64>; 2]) -> bool {
    let scale = |x: [Option<f64>; 2]| x[1].unwrap_or(0.0).abs();
    let limit = 1e-3 * scale(a).max(scale(b)).max(1e-6);
    a.iter().zip(b).all(|(x, y)| match (x, y) {
        (Some(x), Some(y)) => (x - y).abs() <= limit || scale(a) == 0.0 || scale(b) == 0.0,
        _ => true,
    })
}

fn nanoseconds(ns: f64) -> String {
    match ns {
        n if n < 1e3 => format!("{n:.1} ns"),
        n if n < 1e6 => format!("{:.2} us", n / 1e3),
        n => format!("{:.2} ms", n / 1e6),
    }
}
