//! Tests of process groups with real processes, each with a count: collectives against loops, mistakes, kills, stops, restarts, memory,
//! overlap, the simulator, and launchers. `cargo xtask ranks` runs it; with names of parts it runs those, and with `plot FILE` it draws what
//! the simulator says of many ranks.

mod collectives;
mod efficiency;
mod job;
mod kills;
mod launchers;
mod memory;
mod mistakes;
mod model;
mod overlap;
mod restarts;
mod simulated;
mod stops;
mod values;

use flambeau_core::{Result, bail};
use job::PART;
use std::process::ExitCode;
use std::time::Instant;

/// A part: its name, what the launcher does, which returns what it has counted, and what each rank does.
type Part = (&'static str, fn(bool) -> Result<String>, fn() -> Result<()>);

const PARTS: [Part; 10] = [
    ("collectives", collectives::run, collectives::rank),
    ("large", collectives::run_large, collectives::rank),
    ("mistakes", mistakes::run, mistakes::rank),
    ("kills", kills::run, kills::rank),
    ("stops", stops::run, stops::rank),
    ("restarts", restarts::run, restarts::rank),
    ("memory", memory::run, memory::rank),
    ("overlap", overlap::run, overlap::rank),
    ("simulated", simulated::run, simulated::rank),
    ("launchers", launchers::run, launchers::rank),
];

fn part(name: &str) -> Result<&'static Part> {
    let found = PARTS.iter().find(|(known, ..)| *known == name);
    let names: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
    match found {
        Some(found) => Ok(found),
        None => bail!(InvalidArgument, "expected a part of {names:?} but got {name:?}"),
    }
}

/// Runs the parts of the command line, all without one.
fn launch() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, file] = &arguments[..]
        && command == "plot"
    {
        return efficiency::plot(file).map(|()| true);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let names: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|argument| *argument != "--quick").collect();
    let chosen: Vec<&Part> = match names.is_empty() {
        true => PARTS.iter().collect(),
        false => names.iter().map(|name| part(name)).collect::<Result<_>>()?,
    };
    let (begin, mut failed) = (Instant::now(), Vec::new());
    for (name, run, _) in &chosen {
        let begin = Instant::now();
        let outcome = run(quick);
        let seconds = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(counts) => println!("{name:12} ok {seconds:6.1} s  {counts}"),
            Err(e) => {
                println!("{name:12} FAILED {seconds:6.1} s  {e}");
                failed.push(*name);
            }
        }
    }
    let passed = chosen.len() - failed.len();
    println!(
        "ranks: {passed} parts passed, {} failed {failed:?}, {:.0} s",
        failed.len(),
        begin.elapsed().as_secs_f64()
    );
    Ok(failed.is_empty())
}

fn main() -> ExitCode {
    let outcome = match std::env::var(PART) {
        Ok(name) => part(&name).and_then(|(_, _, rank)| rank()).map(|()| true),
        Err(_) => launch(),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
