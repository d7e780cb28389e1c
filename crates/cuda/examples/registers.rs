//! Registers and bytes of local memory of hand-written kernels, for several architectures, compared with a table: what grows is a fault.
//!
//! `registers TABLE` compares, `registers TABLE N` every N-th kernel, and `registers TABLE --write` writes the table anew.

#[path = "../tests/register_table/mod.rs"]
mod register_table;

use flambeau::Result;
use flambeau_cuda::testing;
use register_table::{CAPABILITIES, Resources, growth, hand_written, parsed};
use std::collections::BTreeMap;
use std::process::ExitCode;

fn measured(step: usize) -> Result<BTreeMap<String, Resources>> {
    let mut table = BTreeMap::new();
    for (name, source) in hand_written().into_iter().step_by(step) {
        let each = CAPABILITIES.iter().map(|capability| testing::resources(&source, *capability));
        table.insert(name, each.collect::<Result<Resources>>()?);
    }
    Ok(table)
}

fn line(name: &str, resources: &Resources) -> String {
    let columns: Vec<String> =
        resources.iter().map(|(registers, bytes)| format!("{registers}/{bytes}")).collect();
    format!("{name} | {}\n", columns.join(" "))
}

const HEAD: &str =
    "# Registers of a thread / bytes of local memory, of kernels of float, for sm_80 sm_90 sm_100 sm_120.\n";

fn run(path: &str, argument: Option<&str>) -> Result<usize, Box<dyn std::error::Error>> {
    let step = argument.and_then(|text| text.parse().ok()).unwrap_or(1).max(1);
    let now = measured(step)?;
    if argument == Some("--write") {
        let rows: String = now.iter().map(|(name, resources)| line(name, resources)).collect();
        std::fs::write(path, HEAD.to_owned() + &rows)?;
        println!("{} programs for {CAPABILITIES:?} are in the table", now.len());
        return Ok(0);
    }
    let mut known = parsed(&std::fs::read_to_string(path)?);
    if step > 1 {
        known.retain(|name, _| now.contains_key(name));
    }
    let faults = growth(&known, &now);
    faults.iter().for_each(|fault| println!("  FAULT {fault}"));
    println!("{} programs for {CAPABILITIES:?}: {} faults", now.len(), faults.len());
    Ok(faults.len())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        println!("expected the path of the table");
        return ExitCode::FAILURE;
    };
    match run(path, arguments.get(1).map(String::as_str)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
