//! `cargo xtask bench`: the workloads, alone or beside PyTorch in the same sitting.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde::Deserialize;

use crate::busy::{self, Busy};
use crate::floor::{Floors, Machine};
use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs only the workloads whose name matches this regular expression.
    #[arg(long, default_value = "")]
    filter: String,
    /// Threads, on both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// A Python that has torch: runs PyTorch too, before and after, and prints ratios.
    #[arg(long, value_name = "PYTHON")]
    against: Option<String>,
    /// Runs PyTorch also with a glibc that keeps freed memory, the fair opponent for large results.
    #[arg(long, requires = "against")]
    keep: bool,
    /// A tenth of a second a workload instead of half a second.
    #[arg(long)]
    quick: bool,
    /// How often the sides run each workload in turn, there and back: medians of more runs are steadier where other work shares the machine.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Times the workloads also beside a process that is always busy, and prints how much slower they are then.
    #[arg(long, conflicts_with = "against")]
    busy: bool,
    /// Lets criterion time them: it keeps a history, and says what has changed.
    #[arg(long, conflicts_with = "against")]
    history: bool,
}

/// One workload's times, as either side prints them.
#[derive(Deserialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    median_ns: f64,
    pub(crate) min_ns: f64,
    check: [Option<f64>; 2],
}

const TORCH: &str = "crates/flambeau/benches/workloads/torch_workloads.py";

/// Workloads that are run together, so that both sides meet the machine as it is at that minute.
const FAMILIES: [&str; 8] =
    ["dispatch", "elementwise", "fused|copy", "reduce", "index", "linalg", "nn", "e2e"];

/// The workload whose result is memory with any content.
const UNINITIALISED: &str = "dispatch.empty4";

/// What makes glibc keep what it has got from the system.
const KEEP: &str = "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184";

/// The runs of each workload, by the name of who ran it.
type Runs = BTreeMap<&'static str, BTreeMap<String, Vec<Measured>>>;

const OURS: &str = "flambeau";
const THEIRS: &str = "PyTorch";
const KEEPING: &str = "PyTorch, keep";
const BESIDE: &str = "beside a busy one";

pub(crate) fn run(options: &Options) -> Outcome {
    if options.history {
        let mut command = cargo_bench();
        command.args(arguments(options)).args(["--criterion", &options.filter]);
        let status = command.current_dir(root()).status()?;
        return Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let mut floors = Floors::new()?;
    let runs = all(options, &mut floors)?;
    let opponents = [THEIRS, KEEPING, BESIDE].map(|who| runs.get(who).map(|theirs| (who, theirs)));
    let outcome = compare(&runs[OURS], &opponents.into_iter().flatten().collect::<Vec<_>>(), &floors);
    shares(&runs[OURS], &floors);
    if let Some(beside) = runs.get(BESIDE) {
        slowest(&runs[OURS], beside, options.threads);
    }
    outcome
}

/// Prints which workload a busy process slows most.
fn slowest(
    alone: &BTreeMap<String, Vec<Measured>>,
    beside: &BTreeMap<String, Vec<Measured>>,
    threads: usize,
) {
    let ratios = alone.iter().filter_map(|(name, runs)| Some((name, time(beside.get(name)?) / time(runs))));
    if let Some((name, most)) = ratios.max_by(|a, b| a.1.total_cmp(&b.1)) {
        let share = busy::share(threads);
        println!(
            "beside a busy process {name} takes {most:.2} times as long, the most; its share is {share:.2}"
        );
    }
}

/// What the machine can do at this moment, at these threads.
fn machine(options: &Options) -> Result<Machine, Box<dyn std::error::Error>> {
    let mut command = cargo_bench();
    let [line] = &lines(command.arg("--machine").args(arguments(options)))?[..] else {
        return Err("expected one line about the machine".into());
    };
    Ok(serde_json::from_str(line)?)
}

/// Prints how much of the machine the large elementwise workloads and the product of 1024 use.
fn shares(ours: &BTreeMap<String, Vec<Measured>>, floors: &Floors) {
    let all: Vec<(&String, f64)> = ours
        .iter()
        .filter(|(name, _)| name.starts_with("elementwise.") && name.ends_with(".1e7"))
        .filter_map(|(name, runs)| Some((name, floors.bandwidth(name, time(runs))?.1)))
        .collect();
    if let Some((least, share)) = all.iter().min_by(|a, b| a.1.total_cmp(&b.1)) {
        let mean = all.iter().map(|(_, share)| share.ln()).sum::<f64>() / all.len() as f64;
        println!(
            "elementwise of 1e7: {:.0} % of memory's bandwidth (geometric mean of {}), least {:.0} % ({least})",
            100.0 * mean.exp(),
            all.len(),
            100.0 * share
        );
    }
    const PRODUCT: &str = "linalg.matmul_f32.1024";
    if let Some(runs) = ours.get(PRODUCT)
        && let Some((rate, share)) = floors.arithmetic(PRODUCT, time(runs))
    {
        println!("{PRODUCT}: {rate:.0} GFLOP/s, {:.0} % of the peak", 100.0 * share);
    }
}

/// The median of the runs' medians.
fn time(runs: &[Measured]) -> f64 {
    median(runs.iter().map(|m| m.median_ns))
}

/// The value in the middle, or the mean of the two that are; NaN of none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}

/// Runs all, family by family, in both orders, so that neither side always has the warmer or the busier machine, which is measured
/// beside us.
fn all(options: &Options, floors: &mut Floors) -> Result<Runs, Box<dyn std::error::Error>> {
    let mut sides = vec![OURS];
    sides.extend(options.against.as_ref().map(|_| THEIRS));
    sides.extend(options.keep.then_some(KEEPING));
    sides.extend(options.busy.then_some(BESIDE));
    let round = match sides.len() {
        1 => sides,
        _ => sides.iter().chain(sides.iter().rev()).copied().collect(),
    };
    let turns = round.repeat(options.rounds.into());
    let bar = indicatif::ProgressBar::new((FAMILIES.len() * turns.len()) as u64).with_style(
        indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}, {eta} left")?,
    );
    let mut runs = Runs::from([(OURS, BTreeMap::new())]);
    for family in FAMILIES {
        let mut machines = Vec::new();
        for who in &turns {
            bar.set_message(format!("{family}: {who}"));
            let _busy = (*who == BESIDE).then(Busy::start);
            let measured = measured(&mut command(who, options, family))?;
            if *who == OURS && !measured.is_empty() {
                machines.push(machine(options)?);
            }
            for one in measured {
                runs.entry(who).or_default().entry(one.name.clone()).or_default().push(one);
            }
            bar.inc(1);
        }
        if let Some(machine) = Machine::median(&machines) {
            bar.suspend(|| println!("machine at {family}: {}", machine.describe()));
            family.split('|').for_each(|name| floors.set_machine(name, machine));
        }
    }
    bar.finish_and_clear();
    Ok(runs)
}

fn command(who: &str, options: &Options, family: &str) -> Command {
    let mut command = match who {
        OURS | BESIDE => cargo_bench(),
        _ => Command::new(options.against.as_deref().unwrap_or("python3")),
    };
    if who == KEEPING {
        command.env("GLIBC_TUNABLES", KEEP);
    }
    if [THEIRS, KEEPING].contains(&who) {
        command.arg(TORCH);
    }
    command.args(arguments(options)).args([&options.filter, &format!("^({family})[.]")]);
    command
}

pub(crate) fn cargo_bench() -> Command {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--package", "flambeau", "--bench", "workloads", "--"]);
    command
}

fn arguments(options: &Options) -> [String; 4] {
    let seconds = if options.quick { "0.1" } else { "0.5" };
    ["--threads", &options.threads.to_string(), "--seconds", seconds].map(str::to_owned)
}

/// Prints each workload's time, and those of the opponents with their ratio to ours.
fn compare(
    ours: &BTreeMap<String, Vec<Measured>>,
    opponents: &[(&str, &BTreeMap<String, Vec<Measured>>)],
    floors: &Floors,
) -> Outcome {
    print!("{:32} {OURS:>12} {:>12} {:>8}", "workload", "floor", "to floor");
    opponents.iter().for_each(|(who, _)| print!(" {who:>14} {:>8}", "ratio"));
    println!();
    let mut logs = vec![(0.0, 0u32); opponents.len()];
    let mut wrong = 0;
    for (name, runs) in ours {
        print!("{name:32} {:>12}", nanoseconds(time(runs)));
        match floors.of(name) {
            Some(floor) => print!(" {:>12} {:>8.2}", nanoseconds(floor), time(runs) / floor),
            None => print!(" {:>12} {:>8}", "", ""),
        }
        for ((_, theirs), logs) in opponents.iter().zip(&mut logs) {
            let Some(theirs) = theirs.get(name) else {
                print!(" {:>14} {:>8}", "", "");
                continue;
            };
            let ratio = time(theirs) / time(runs);
            let agree = name == UNINITIALISED || same_check(runs[0].check, theirs[0].check);
            print!(
                " {:>14} {ratio:>8.2}{}",
                nanoseconds(time(theirs)),
                if agree { "" } else { " results differ" }
            );
            *logs = (logs.0 + ratio.ln(), logs.1 + 1);
            wrong += usize::from(!agree);
        }
        println!();
    }
    for ((who, _), (sum, rows)) in opponents.iter().zip(logs) {
        println!("geometric mean {:.2} ({who}, {rows} workloads)", (sum / f64::from(rows.max(1))).exp());
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether both computed the same, as far as f32 sums in different orders can; a result without values is not compared.
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

pub(crate) fn measured(command: &mut Command) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    let read = |line: String| serde_json::from_str(&line).map_err(|e| format!("{line}: {e}").into());
    lines(command)?.into_iter().map(read).collect()
}

/// The lines of JSON that a program prints.
fn lines(command: &mut Command) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let name = format!("{command:?}");
    let output = command
        .current_dir(root())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect())
}
