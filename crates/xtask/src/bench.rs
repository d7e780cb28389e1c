//! `cargo xtask bench`: the workloads, alone or beside PyTorch in the same sitting.

use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};

use clap::Args;
use serde::Deserialize;

use crate::{Outcome, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs only the workloads whose name holds this text.
    #[arg(long, default_value = "")]
    filter: String,
    /// Threads, on both sides.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// A Python that has torch: runs PyTorch too, before and after, and prints ratios.
    #[arg(long, value_name = "PYTHON")]
    against: Option<String>,
    /// A tenth of a second a workload instead of half a second.
    #[arg(long)]
    quick: bool,
}

/// One workload's times, as either side prints them.
#[derive(Deserialize)]
struct Measured {
    name: String,
    median_ns: f64,
    check: [Option<f64>; 2],
}

const TORCH: &str = "crates/flambeau/benches/workloads/torch_workloads.py";

pub(crate) fn run(options: &Options) -> Outcome {
    let Some(python) = &options.against else {
        for m in ours(options)? {
            println!("{:32} {:>12}", m.name, nanoseconds(m.median_ns));
        }
        return Ok(ExitCode::SUCCESS);
    };
    // Both orders, so that neither side always has the warmer or the busier machine.
    let (first, torch, again, last) =
        (ours(options)?, theirs(python, options)?, theirs(python, options)?, ours(options)?);
    compare(&by_name([first, last]), &by_name([torch, again]))
}

/// The runs of each workload.
type Runs = BTreeMap<String, Vec<Measured>>;

fn by_name(runs: [Vec<Measured>; 2]) -> Runs {
    let mut by_name = Runs::new();
    runs.into_iter().flatten().for_each(|m| by_name.entry(m.name.clone()).or_default().push(m));
    by_name
}

fn compare(ours: &Runs, torch: &Runs) -> Outcome {
    println!("{:32} {:>12} {:>12} {:>8}", "workload", "flambeau", "PyTorch", "ratio");
    let mean = |runs: &[Measured]| runs.iter().map(|m| m.median_ns).sum::<f64>() / runs.len() as f64;
    let (mut logs, mut rows, mut wrong) = (0.0, 0, 0);
    for (name, runs) in ours {
        let Some(theirs) = torch.get(name) else { continue };
        let (a, b) = (mean(runs), mean(theirs));
        let agree = same_check(runs[0].check, theirs[0].check);
        let note = if agree { "" } else { "  results differ" };
        println!("{name:32} {:>12} {:>12} {:>8.2}{note}", nanoseconds(a), nanoseconds(b), b / a);
        logs += (b / a).ln();
        rows += 1;
        wrong += usize::from(!agree);
    }
    println!("geometric mean {:.2}", (logs / f64::from(rows.max(1))).exp());
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

fn arguments(options: &Options) -> [String; 3] {
    let seconds = if options.quick { "0.1" } else { "0.5" };
    [options.filter.clone(), options.threads.to_string(), seconds.to_string()]
}

fn ours(options: &Options) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    let mut command = Command::new("cargo");
    command.args(["bench", "--quiet", "--package", "flambeau", "--bench", "workloads", "--"]);
    measured(command.args(arguments(options)))
}

fn theirs(python: &str, options: &Options) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    measured(Command::new(python).arg(TORCH).args(arguments(options)))
}

fn measured(command: &mut Command) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
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
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).map_err(|e| format!("{name}: {line}: {e}").into()))
        .collect()
}
