//! Registers and bytes of local memory of the kernels that are not formulas, for several architectures, compared with a table: what grows is a
//! fault. `registers TABLE` compares, `registers TABLE --write` writes the table anew.

use flambeau::Result;
use flambeau_cuda::testing;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The compute capabilities of the columns.
const CAPABILITIES: [(i32, i32); 4] = [(8, 0), (9, 0), (10, 0), (12, 0)];

/// Registers and local bytes for each capability.
type Resources = Vec<(u32, u32)>;

/// The programs of one type, by a name of one line.
fn programs() -> impl Iterator<Item = (String, String)> {
    let is_part = |source: &str| source.contains("typedef float T;") && !source.contains("typedef double R;");
    let all = testing::programs().into_iter().filter(move |(_, source)| is_part(source));
    all.map(|(name, source)| {
        let line = name.replace("typedef float T;", "").replace("#define ", "").replace('\n', " ");
        (line.split_whitespace().collect::<Vec<_>>().join(" "), source)
    })
}

fn measured() -> Result<BTreeMap<String, Resources>> {
    let mut table = BTreeMap::new();
    for (name, source) in programs() {
        let each = CAPABILITIES.iter().map(|capability| testing::resources(&source, *capability));
        table.insert(name, each.collect::<Result<Resources>>()?);
    }
    Ok(table)
}

/// A line of the table: the name, and `registers/bytes` for each capability.
fn line(name: &str, resources: &Resources) -> String {
    let columns: Vec<String> =
        resources.iter().map(|(registers, bytes)| format!("{registers}/{bytes}")).collect();
    format!("{name} | {}\n", columns.join(" "))
}

fn parsed(text: &str) -> BTreeMap<String, Resources> {
    let column = |text: &str| {
        let (registers, bytes) = text.split_once('/')?;
        Some((registers.parse().ok()?, bytes.parse().ok()?))
    };
    let row = |line: &str| {
        let (name, columns) = line.rsplit_once(" | ")?;
        Some((name.to_owned(), columns.split(' ').map(column).collect::<Option<Resources>>()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// Prints what needs more than the table says, and what the table does not have; returns how many there are.
fn growth(known: &BTreeMap<String, Resources>, now: &BTreeMap<String, Resources>) -> usize {
    let mut faults = 0;
    for (name, resources) in now {
        let grows = |known: &Resources| {
            known.iter().zip(resources).any(|(before, after)| after.0 > before.0 || after.1 > before.1)
        };
        match known.get(name) {
            None => println!("  FAULT {name} is not in the table"),
            Some(known) if grows(known) => println!("  FAULT {name}: {known:?} became {resources:?}"),
            Some(_) => continue,
        }
        faults += 1;
    }
    for name in known.keys().filter(|name| !now.contains_key(*name)) {
        println!("  FAULT {name} is in the table, but there is no such program");
        faults += 1;
    }
    faults
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(path) = arguments.first() else {
        println!("expected the path of the table");
        return ExitCode::FAILURE;
    };
    let now = match measured() {
        Ok(now) => now,
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if arguments.iter().any(|argument| argument == "--write") {
        let head = "# Registers of a thread / bytes of local memory, of kernels of float, for sm_80 sm_90 sm_100 sm_120.\n";
        let rows: String = now.iter().map(|(name, resources)| line(name, resources)).collect();
        return match std::fs::write(path, head.to_owned() + &rows) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{path}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let known = match std::fs::read_to_string(path) {
        Ok(text) => parsed(&text),
        Err(error) => {
            println!("{path}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let faults = growth(&known, &now);
    println!("{} programs for {CAPABILITIES:?}: {faults} faults", now.len());
    if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
