//! `cargo xtask bench --table ops`: times the rows of the operator table, enlarged, beside PyTorch, both from Python.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use flambeau_codegen::{NativeFunctions, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::bounds::{self, Bounds};
use super::{KEEP, KEEPING, OURS, Options, THEIRS, geometric_mean, median, nanoseconds, same_check};
use crate::codegen::{FUNCTIONS, read};
use crate::python;
use crate::root;
use crate::seed::SplitMix;
use crate::worker::{Worker, both_orders, output, progress};

pub(super) const WORKER: &str = "tests/bench/worker.py";
pub(super) const CHAINS: &str = "tests/bench/chains.py";

/// The elements of the largest tensor of a call: 16 KiB, half a MiB and 32 MiB of f32.
const SIZES: [(&str, usize); 3] = [("L1", 1 << 12), ("L2", 1 << 17), ("memory", 1 << 23)];
/// The types that are timed of those that a row takes.
const TYPES: [&str; 5] = ["float32", "float64", "bfloat16", "int64", "complex64"];
const LAYOUTS: [&str; 3] = ["transposed", "sliced", "channels last"];

/// A row that `bench_calls` printed.
#[derive(Deserialize)]
struct Row {
    name: String,
    types: Vec<String>,
    differentiable: bool,
    calls: Vec<Value>,
}

/// A call of a row.
struct Case {
    row: usize,
    name: String,
    request: String,
}

/// The answer of a side.
#[derive(Deserialize)]
struct Answer {
    median_ns: Option<f64>,
    check: Option<[Option<f64>; 2]>,
    left_out: Option<String>,
}

/// A case that all sides have run.
struct Timed {
    row: usize,
    name: String,
    times: Times,
}

#[derive(Serialize, Deserialize)]
struct Times {
    ours: f64,
    /// The ratios of the other sides' times to ours.
    ratios: Vec<f64>,
    agrees: bool,
}

/// What became of a case: its times, or the reason why a side does not run it.
#[derive(Serialize, Deserialize)]
enum Outcome {
    Timed(Times),
    LeftOut(String),
}

/// What an interrupted run has found, a line for each case, which [`Options::resume`] reads.
struct Journal {
    path: PathBuf,
    file: fs::File,
    known: BTreeMap<String, Outcome>,
}

impl Journal {
    /// The journal of runs with these options, which begins anew unless the run is resumed.
    fn open(options: &Options) -> Result<Self, Box<dyn Error>> {
        let [keep, quick] = [(options.keep, "_keep"), (options.quick, "_quick")]
            .map(|(given, name)| if given { name } else { "" });
        let path = root().join(format!("target/bench_ops_{}{keep}{quick}.jsonl", options.threads));
        let read = if options.resume { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
        // The last line of a run that was killed may be cut.
        let known = read.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let file = match options.resume {
            true => fs::File::options().create(true).append(true).open(&path),
            false => fs::File::create(&path),
        };
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path, file, known })
    }

    fn write(&mut self, name: &str, outcome: Outcome) -> Result<Outcome, Box<dyn Error>> {
        writeln!(self.file, "{}", serde_json::to_string(&(name, &outcome))?)?;
        Ok(outcome)
    }

    /// A run that has ended is not resumed.
    fn remove(self) -> std::io::Result<()> {
        fs::remove_file(self.path)
    }
}

pub(super) fn run(options: &Options) -> crate::Outcome {
    let Some(interpreter) = &options.against else {
        return Err("the table of operators is timed beside PyTorch: --against PYTHON".into());
    };
    let module = release_module()?;
    let (rows, cases) = cases(options)?;
    let sides: &[&str] = if options.keep { &[OURS, THEIRS, KEEPING] } else { &[OURS, THEIRS] };
    let commands = || sides.iter().map(|side| command(side, interpreter, &module, options)).collect();
    let mut processes = Processes::start(&commands)?;
    let (mut timed, mut left_out) = (vec![], BTreeMap::<String, BTreeSet<&str>>::new());
    let mut journal = Journal::open(options)?;
    let bar = progress(cases.len())?;
    for case in &cases {
        bar.set_message(case.name.clone());
        let outcome = match journal.known.remove(&case.name) {
            Some(known) => known,
            None => {
                let outcome = processes.time(case)?;
                journal.write(&case.name, outcome)?
            }
        };
        match outcome {
            Outcome::Timed(times) => timed.push(Timed { row: case.row, name: case.name.clone(), times }),
            Outcome::LeftOut(reason) => {
                left_out.entry(reason).or_default().insert(&rows[case.row].name);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    report(&rows, &timed, sides, &families()?);
    explain(&timed, &Bounds::read()?);
    println!("left out: {} cases", cases.len() - timed.len());
    for (reason, names) in &left_out {
        let shown: Vec<&str> = names.iter().copied().take(8).collect();
        println!("  {reason}: {} operators, such as {}", names.len(), shown.join(", "));
    }
    if let Some(file) = &options.save {
        let path = root().join(file);
        name_worse(&read_ratios(&path), &timed, &cases, &mut Processes::start(&commands)?)?;
        save(&path, &timed)?;
    }
    journal.remove()?;
    Ok(ExitCode::SUCCESS)
}

/// `--table compile`: the program of [`CHAINS`].
pub(super) fn run_chains(options: &Options) -> crate::Outcome {
    let Some(interpreter) = &options.against else {
        return Err("compiled chains are timed beside PyTorch: --against PYTHON".into());
    };
    let mut command = Command::new(interpreter);
    command.args([CHAINS, "--threads", &options.threads.to_string()]);
    command.args(["--seconds", if options.quick { "0.05" } else { "0.3" }]);
    let status = command.env("PYTHONPATH", release_module()?).current_dir(root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The extension with optimisations, in a copy of the package.
fn release_module() -> Result<PathBuf, Box<dyn Error>> {
    python::build_for_release()?;
    let folder = root().join("target/bench-python");
    let package = root().join("crates/python/python/flambeau");
    copy_folder(&package, &folder.join("flambeau"))?;
    python::copy_module("release", &folder.join("flambeau"))?;
    Ok(folder)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => drop(fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}

/// The process of a side.
fn command(side: &str, interpreter: &str, module: &Path, options: &Options) -> Command {
    let mut command = Command::new(interpreter);
    let library = if side == OURS { "flambeau" } else { "torch" };
    command.args([WORKER, "--library", library, "--threads", &options.threads.to_string()]);
    command.args(["--seconds", if options.quick { "0.01" } else { "0.1" }]);
    command.env("PYTHONPATH", module);
    if side == KEEPING {
        command.env("GLIBC_TUNABLES", KEEP);
    }
    command
}

/// The rows of the table, and the cases of those that the options choose.
fn cases(options: &Options) -> Result<(Vec<Row>, Vec<Case>), Box<dyn Error>> {
    python::build_bench_calls()?;
    let lines = output(&mut Command::new(python::built("debug").join("examples/bench_calls")))?;
    let requested = |name: &str| options.filter.is_empty() || name.contains(&options.filter);
    let (mut rows, mut cases): (Vec<Row>, Vec<Case>) = (vec![], vec![]);
    let mut numbers = BTreeMap::<String, usize>::new();
    for line in lines.lines() {
        let whole: Value = serde_json::from_str(line)?;
        let row = Row::deserialize(&whole)?;
        let number = numbers.entry(row.name.clone()).or_default();
        *number += 1;
        if requested(&row.name) {
            for (name, case) in choices(&row, *number) {
                let request = json!({"row": whole, "case": case}).to_string();
                cases.push(Case { row: rows.len(), name, request });
            }
        }
        rows.push(row);
    }
    if let Some(count) = options.sample {
        cases = sampled(cases, count, options.seed);
    }
    Ok((rows, cases))
}

/// So many of the cases, chosen by a seed.
fn sampled(mut cases: Vec<Case>, count: usize, seed: u64) -> Vec<Case> {
    let mut draw = SplitMix::new(seed);
    let mut chosen = vec![];
    while chosen.len() < count && !cases.is_empty() {
        chosen.push(cases.swap_remove(draw.below(cases.len())));
    }
    chosen
}

/// The cases of a row: each call in three sizes, and one size in other types and layouts, and with gradients. The names of the second
/// and later rows of an operator have the number of the row.
fn choices(row: &Row, number: usize) -> Vec<(String, Value)> {
    let types: Vec<&str> = TYPES.into_iter().filter(|dtype| row.types.iter().any(|t| t == dtype)).collect();
    let Some(first) = types.first().copied().or(row.types.first().map(String::as_str)) else { return vec![] };
    let mut all = vec![];
    let operator = if number == 1 { row.name.clone() } else { format!("{} [{number}]", row.name) };
    for call in 0..row.calls.len() {
        let mut add = |(size, elements): (&str, usize), dtype: &str, layout: &str, gradient: bool| {
            let suffix = if gradient { " with gradient" } else { "" };
            let name = format!("{operator}#{call} {dtype} {size} {layout}{suffix}");
            let case = json!({"call": call, "elements": elements, "dtype": dtype, "layout": layout, "gradient": gradient});
            all.push((name, case));
        };
        SIZES.into_iter().for_each(|size| add(size, first, "dense", false));
        types.iter().skip(1).for_each(|dtype| add(SIZES[1], dtype, "dense", false));
        LAYOUTS.into_iter().for_each(|layout| add(SIZES[1], first, layout, false));
        if row.differentiable && first.starts_with("float") {
            SIZES[..2].iter().for_each(|size| add(*size, first, "dense", true));
        }
    }
    all
}

/// What a side does with a case that it has prepared.
const TIME: &str = "{}";

/// A side whose times differ by more than this factor was disturbed, or the other sides while it was not.
const SCATTER: f64 = 1.2;
/// The rounds of a case whose times scatter. Their number depends on the scatter only, and not on which side is faster.
const ROUNDS: usize = 3;

/// The processes of all sides, which are started again when one of them has ended.
struct Processes<'c> {
    commands: &'c dyn Fn() -> Vec<Command>,
    workers: Vec<Worker>,
}

impl<'c> Processes<'c> {
    fn start(commands: &'c dyn Fn() -> Vec<Command>) -> Result<Self, Box<dyn Error>> {
        Ok(Processes { commands, workers: Worker::start_all(commands().into_iter())? })
    }

    /// The times of a case; it is left out where a process ends, such as for want of memory.
    fn time(&mut self, case: &Case) -> Result<Outcome, Box<dyn Error>> {
        time(case, &mut self.workers).or_else(|_| {
            self.workers = Worker::start_all((self.commands)().into_iter())?;
            Ok(Outcome::LeftOut("a process ended".to_owned()))
        })
    }
}

/// Prepares a case on all sides at once, and times it in one order and then in the reverse one; again where times scatter.
fn time(case: &Case, workers: &mut [Worker]) -> Result<Outcome, Box<dyn Error>> {
    let (mut times, mut checks) = (vec![vec![]; workers.len()], vec![]);
    workers.iter_mut().for_each(|worker| worker.send(&case.request));
    let answers = workers.iter_mut().map(|worker| worker.receive::<Answer>(&case.name));
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    for answer in answers.into_iter().flatten() {
        match answer.left_out {
            Some(reason) => return Ok(Outcome::LeftOut(reason)),
            None => checks.push(answer.check.unwrap_or_default()),
        }
    }
    for _ in 0..ROUNDS {
        for side in both_orders(workers.len()) {
            let Some(answer) = workers[side].ask::<Answer>(TIME)? else { continue };
            let Some(median) = answer.median_ns else {
                return Ok(Outcome::LeftOut(answer.left_out.unwrap_or_default()));
            };
            times[side].push(median);
        }
        if !times.iter().any(|times| scatter(times)) {
            break;
        }
    }
    let ours = median(times[0].iter().copied());
    let ratios = times[1..].iter().map(|theirs| median(theirs.iter().copied()) / ours).collect();
    Ok(Outcome::Timed(Times { ours, ratios, agrees: same_check(checks[0], checks[1]) }))
}

/// Whether the times of a side differ by more than [`SCATTER`].
fn scatter(times: &[f64]) -> bool {
    let smallest = times.iter().copied().fold(f64::INFINITY, f64::min);
    times.iter().any(|t| *t > SCATTER * smallest)
}

/// The files of kernels by the base names of operators.
fn families() -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let text = read(&root().join(FUNCTIONS))?;
    let functions = NativeFunctions::parse(Source { name: FUNCTIONS, text: &text })?;
    let family = |function: &flambeau_codegen::NativeFunction| {
        let kernel = function.dispatch.as_ref()?.first()?;
        let (_, folders) = kernel.path.0.split_last()?;
        Some((function.schema.name.base.clone(), folders.join("::")))
    };
    Ok(functions.entries.iter().filter_map(family).collect())
}

fn report(rows: &[Row], timed: &[Timed], sides: &[&str], families: &BTreeMap<String, String>) {
    let base = |one: &Timed| rows[one.row].name.split('.').next().unwrap_or_default().to_owned();
    let family = |one: &Timed| families.get(&base(one)).cloned().unwrap_or_else(|| "other".to_owned());
    for (title, key) in [("operator", &base as &dyn Fn(&Timed) -> String), ("family", &family)] {
        let mut groups: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        timed.iter().for_each(|one| groups.entry(key(one)).or_default().push(one.times.ratios[0]));
        println!("{title:40} cases  {THEIRS} / {OURS}");
        for (name, ratios) in &groups {
            println!("{name:40} {:5}  {:.2}", ratios.len(), geometric_mean(ratios.iter().copied()));
        }
    }
    let mut slow: Vec<&Timed> = timed.iter().filter(|one| one.times.ratios[0] < 1.0).collect();
    slow.sort_by(|a, b| a.times.ratios[0].total_cmp(&b.times.ratios[0]));
    println!("cases below 1.0:");
    slow.iter().for_each(|one| {
        println!("  {:.2} {} {}", one.times.ratios[0], nanoseconds(one.times.ours), one.name)
    });
    timed.iter().filter(|one| !one.times.agrees).for_each(|one| println!("results differ: {}", one.name));
    for (at, side) in sides[1..].iter().enumerate() {
        let ratios = || timed.iter().map(|one| one.times.ratios[at]);
        let below =
            |bound: f64| 100.0 * ratios().filter(|r| *r < bound).count() as f64 / timed.len().max(1) as f64;
        println!(
            "geometric mean {:.2} ({side}, {} cases); {:.1} % below 1.0, {:.1} % below 0.7",
            geometric_mean(ratios()),
            timed.len(),
            below(1.0),
            below(0.7)
        );
    }
}

/// Below this ratio to PyTorch's speed, a case needs a reason.
const SLOW: f64 = 0.7;

/// Prints how many slow cases have which reason, and those that have none.
fn explain(timed: &[Timed], bounds: &Bounds) {
    let (mut reasons, mut unexplained) = (BTreeMap::<&str, usize>::new(), vec![]);
    for one in timed.iter().filter(|one| one.times.ratios[0] < SLOW) {
        match bounds.reason(&one.name) {
            Some(reason) => *reasons.entry(reason).or_default() += 1,
            None => unexplained.push(one),
        }
    }
    println!("cases below {SLOW}, by the reasons of {}:", bounds::FILE);
    reasons.iter().for_each(|(reason, cases)| println!("{cases:5} {reason}"));
    println!("{:5} without a reason", unexplained.len());
    unexplained.iter().for_each(|one| println!("      {:.2} {}", one.times.ratios[0], one.name));
}

/// Writes the ratios to a file.
fn save(path: &Path, timed: &[Timed]) -> Result<(), Box<dyn Error>> {
    let mut text = String::new();
    for one in timed {
        writeln!(text, "{}\t{:.3}", one.name, one.times.ratios[0])?;
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The ratios that [`save`] wrote, by the names of cases; none if there is no file.
fn read_ratios(path: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let ratio = |line: &str| {
        let (name, ratio) = line.split_once('\t')?;
        Some((name.to_owned(), ratio.parse().ok()?))
    };
    text.lines().filter_map(ratio).collect()
}

/// A case that became slower than this, relative to PyTorch, in two runs is named.
const WORSE: f64 = 1.15;

/// Times the cases that are worse than before once more, in new processes, and names those that are worse again.
fn name_worse(
    before: &BTreeMap<String, f64>,
    timed: &[Timed],
    cases: &[Case],
    processes: &mut Processes<'_>,
) -> Result<(), Box<dyn Error>> {
    let is_worse = |name: &str, ratio: f64| before.get(name).is_some_and(|old| old / ratio > WORSE);
    let worse = timed.iter().filter(|one| is_worse(&one.name, one.times.ratios[0]));
    let worse: BTreeMap<&str, f64> = worse.map(|one| (one.name.as_str(), one.times.ratios[0])).collect();
    let bar = progress(worse.len())?;
    for case in cases {
        let Some(first) = worse.get(case.name.as_str()) else { continue };
        bar.set_message(case.name.clone());
        if let Outcome::Timed(again) = processes.time(case)?
            && is_worse(&case.name, again.ratios[0])
        {
            let old = before[&case.name];
            bar.suspend(|| {
                println!("worse than before: {} {old:.2} -> {first:.2}, {:.2}", case.name, again.ratios[0])
            });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_side_scatter_when_one_is_far_above_the_shortest() {
        assert!(!scatter(&[]));
        assert!(!scatter(&[100.0, 119.0, 105.0]));
        assert!(scatter(&[100.0, 121.0]));
        assert!(scatter(&[121.0, 110.0, 100.0]));
    }

    #[test]
    fn ratios_are_read_as_they_were_saved() {
        let times = |ratio| Times { ours: 1.0, ratios: vec![ratio, 9.0], agrees: true };
        let timed =
            [("a b", 0.5), ("c", 2.25)].map(|(name, r)| Timed { row: 0, name: name.into(), times: times(r) });
        let path = std::env::temp_dir().join(format!("flambeau-ratios-{}.tsv", std::process::id()));
        save(&path, &timed).unwrap();
        let read = read_ratios(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(read, BTreeMap::from([("a b".to_owned(), 0.5), ("c".to_owned(), 2.25)]));
        assert!(read_ratios(&path).is_empty());
    }
}
