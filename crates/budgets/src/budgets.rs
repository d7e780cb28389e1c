//! The table of budgets: reads it, compares it with what is counted, and writes it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use crate::calls::CALLS;
use crate::counting::{Counter, Failure, be_counted, count};

/// Counts the instructions of the smallest calls and compares them with their budgets.
#[derive(Parser)]
struct Options {
    /// Writes the budgets anew from what is counted.
    #[arg(long)]
    renew: bool,
    /// Counts with callgrind, to verify the counting.
    #[arg(long, conflicts_with = "renew")]
    callgrind: bool,
    /// The call that this process runs, while another process counts.
    #[arg(long, hide = true, requires = "calls")]
    run: Option<String>,
    /// How often it runs the call.
    #[arg(long, hide = true)]
    calls: Option<usize>,
    /// Whether it stops before and after the calls.
    #[arg(long, hide = true)]
    stop: bool,
}

/// The ratio of a budget to the measured count: another version of the compiler changes counts by some percent.
const HEADROOM: f64 = 1.08;

const HEADER: &str = "# Instructions of one call: what was measured, and what is allowed. `cargo xtask budgets --renew` writes \
                      it; `crates/budgets` counts.\n";

pub(crate) fn main() -> ExitCode {
    let outcome = run(&Options::parse());
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    if let (Some(name), Some(calls)) = (&options.run, options.calls) {
        let (_, make) = CALLS.iter().find(|(found, _)| found == name).ok_or("no such call")?;
        be_counted(make()?, calls, options.stop)?;
        return Ok(ExitCode::SUCCESS);
    }
    let counter = if options.callgrind { Counter::Callgrind } else { Counter::Steps };
    let mut counted = Vec::new();
    for (name, _) in CALLS {
        let instructions = count(name, counter).map_err(|error| format!("{name}: {error}"))?;
        counted.push((*name, instructions));
    }
    if options.renew {
        std::fs::write(file(), written(&counted))?;
    }
    compare(&counted, &read(&std::fs::read_to_string(file())?)?)
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("budgets.tsv")
}

fn written(counted: &[(&str, f64)]) -> String {
    let line =
        |(name, measured): &(&str, f64)| format!("{name}\t{measured:.1}\t{}\n", (measured * HEADROOM).ceil());
    format!("{HEADER}call\tmeasured\tbudget\n{}", counted.iter().map(line).collect::<String>())
}

/// The measured count and the budget, by the name of the call.
fn read(text: &str) -> Result<BTreeMap<String, (f64, f64)>, Failure> {
    let rows = text.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, measured, budget] = fields[..] else {
            return Err(format!("three fields in `{line}`").into());
        };
        Ok((name.to_owned(), (measured.parse()?, budget.parse()?)))
    };
    rows.map(row).collect()
}

/// Prints the table; fails if a call takes more than its budget, or has none.
fn compare(counted: &[(&str, f64)], budgets: &BTreeMap<String, (f64, f64)>) -> Result<ExitCode, Failure> {
    println!("{:16} {:>12} {:>12} {:>8}", "instructions", "counted", "when set", "budget");
    let mut over = Vec::new();
    for (name, instructions) in counted {
        let Some((measured, budget)) = budgets.get(*name) else {
            return Err(format!("{name} has no budget; cargo xtask budgets --renew").into());
        };
        println!("{name:16} {instructions:>12.1} {measured:>12.1} {budget:>8}");
        if instructions > budget {
            over.push(*name);
        }
    }
    if over.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "over budget: {}. Find what has been added to these calls; if it is worth its price, renew the budgets with `cargo xtask \
         budgets --renew` and say in the commit what they buy.",
        over.join(", ")
    );
    Ok(ExitCode::FAILURE)
}
