//! Registers and bytes of local memory of all kernels, for several architectures, compared with a table: what grows is a fault.
//!
//! `registers TABLE RESULTS` compares, with `--sample N` every N-th program, and `--write` writes the table anew. What was compiled is in the
//! file `RESULTS`, so that a later run compiles only what has changed.

mod results;
mod workers;

#[path = "../../tests/recorded/mod.rs"]
#[expect(clippy::unwrap_used, reason = "the samples of the operator table are tensors")]
#[allow(unsafe_code, reason = "it is a device, which hands out memory")]
mod recorded;
#[path = "../../tests/register_table/mod.rs"]
mod register_table;

use flambeau_core::Result;
use flambeau_cuda::testing;
use recorded::{LOOPS, record};
use register_table::{CAPABILITIES, Name, Resources, Table, growth, hand_written, named, parsed};
use results::Results;
use std::collections::BTreeMap;
use std::process::ExitCode;
use workers::Job;

type AnyError = Box<dyn std::error::Error>;

/// All programs: hand-written kernels, and the formulas of the operator table.
fn all_programs() -> Result<BTreeMap<Name, String>> {
    let _ = record(&testing::TYPES);
    let mut all = hand_written()?;
    for (name, source) in named(LOOPS.programs())? {
        if all.insert(name.clone(), source).is_some() {
            return Err(flambeau_core::error!(
                Internal,
                "cuda: expected names of kernels and formulas to differ but got {name:?}"
            ));
        }
    }
    Ok(all)
}

/// The version of the compiler, of which the table is.
fn compiler() -> Result<String> {
    let text = testing::ptx("extern \"C\" __global__ void kernel() {}", CAPABILITIES[0])?;
    let line = text.lines().find(|line| line.contains("compilation tools")).unwrap_or_default();
    Ok(line.rsplit(", ").next().unwrap_or_default().trim().to_owned())
}

/// The compilations of a program.
fn jobs_of<'a>((name, source): (&'a Name, &'a String)) -> [Job<'a>; CAPABILITIES.len()] {
    CAPABILITIES.map(|capability| Job { name, source, capability })
}

/// What the programs need, and what could not be compiled.
fn measured(
    programs: &BTreeMap<Name, String>,
    compiler: &str,
    results: &mut Results,
) -> Result<(Table, Vec<String>), AnyError> {
    let jobs = programs.iter().flat_map(jobs_of);
    let mut missing: Vec<Job<'_>> = jobs.filter(|job| results.get(&job.key(compiler)).is_none()).collect();
    // Programs of one architecture are compiled together.
    missing.sort_by_key(|job| job.capability);
    let faults = workers::compile(&missing, |job, need| results.add(&job.key(compiler), need))?;
    let mut table = Table::new();
    for program in programs {
        let found = jobs_of(program).map(|job| results.get(&job.key(compiler)));
        if let Some(columns) = found.into_iter().collect::<Option<Resources>>() {
            table.insert(program.0.clone(), columns);
        }
    }
    println!("{} programs for {CAPABILITIES:?}, {} kernels compiled", programs.len(), missing.len());
    Ok((table, faults))
}

/// The table as a text: a line for each kernel and the types that need the same.
fn text_of(table: &Table, compiler: &str) -> String {
    let mut lines: BTreeMap<(&str, &Resources), Vec<&str>> = BTreeMap::new();
    for ((name, types), resources) in table {
        lines.entry((name, resources)).or_default().push(types);
    }
    let line = |((name, resources), types): (&(&str, &Resources), &Vec<&str>)| {
        let columns = resources.iter().map(|(registers, bytes)| format!("{registers}/{bytes}"));
        format!("{name} | {} | {}\n", types.join(" "), columns.collect::<Vec<_>>().join(" "))
    };
    head(compiler) + &lines.iter().map(line).collect::<String>()
}

fn head(compiler: &str) -> String {
    format!(
        "# Registers of a thread / bytes of local memory of each kernel, for sm_80 sm_90 sm_100 sm_120, compiled by NVRTC {compiler}.\n"
    )
}

fn run(arguments: &[String]) -> Result<usize, AnyError> {
    let [path, results, options @ ..] = arguments else {
        return Err("expected the paths of the table and of results".into());
    };
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let step = match options[..] {
        [] | ["--write"] => 1,
        ["--sample", step] => step.parse::<usize>()?.max(1),
        _ => return Err(format!("expected --write or --sample N but got {options:?}").into()),
    };
    let (all, compiler) = (all_programs()?, compiler()?);
    let programs: BTreeMap<Name, String> = all.into_iter().step_by(step).collect();
    let (now, mut faults) = measured(&programs, &compiler, &mut Results::open(results.as_ref())?)?;
    if options == ["--write"] && faults.is_empty() {
        std::fs::write(path, text_of(&now, &compiler))?;
        println!("{} programs are in the table", now.len());
        return Ok(0);
    }
    let text = std::fs::read_to_string(path)?;
    if !text.starts_with(&head(&compiler)) {
        faults.push(format!("the table is not of the compiler at hand, which is NVRTC {compiler}"));
    }
    let mut known = parsed(&text);
    if step > 1 {
        known.retain(|name, _| now.contains_key(name));
    }
    faults.extend(growth(&known, &now));
    faults.iter().for_each(|fault| println!("  FAULT {fault}"));
    println!("{} programs compared: {} faults", now.len(), faults.len());
    Ok(faults.len())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some(workers::ARGUMENT) => workers::serve().map(|()| 0),
        _ => run(&arguments),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}
