//! Repeats calls whose results in PyTorch are known, and counts agreements: the Rust part of `replay.py`.

mod check_case;
mod read;

use flambeau_ops::dispatch::OperatorInfo;
use flambeau_ops::ops::OPERATORS;
use read::{Case, Fault, Reader};
use std::collections::{BTreeMap, HashMap};
use std::io::{Write, stdout};
use std::sync::{Arc, mpsc::channel};
use std::time::Duration;

/// How long a call may take. All are small.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How the cases of one operator went.
#[derive(Default)]
struct Tally {
    agreed: usize,
    kept: usize,
    open: BTreeMap<&'static str, Vec<String>>,
}

/// A difference that is kept on purpose: a row of `docs/differences.md`. Each cell is a list.
struct Kept {
    operators: Vec<String>,
    kinds: Vec<String>,
    origins: Vec<String>,
    /// Of these the report of the disagreement contains one, if there are any.
    words: Vec<String>,
    /// The first cells, as they stand in the table.
    cells: String,
    /// How many cases it covered that no row above it covers.
    cases: usize,
}

impl Kept {
    fn covers(&self, case: &Case, kind: &str, report: &str) -> bool {
        let fits = |patterns: &[String], word: &str| {
            patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => word.starts_with(start),
                None => pattern == word,
            })
        };
        fits(&self.operators, &case.name)
            && [kind, kind.trim_end_matches(" empty")].into_iter().any(|kind| fits(&self.kinds, kind))
            && fits(&self.origins, &case.origin)
            && (self.words.is_empty() || self.words.iter().any(|words| report.contains(words.as_str())))
    }
}

fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["schemas"] => Ok(OPERATORS.iter().try_for_each(|op| writeln!(stdout(), "{}", op.schema()))?),
        ["replay", file, differences, shown] => replay(file, differences, shown.parse()?, false),
        ["replay", file, differences, shown, "rows"] => replay(file, differences, shown.parse()?, true),
        _ => Err("expected `schemas` or `replay CASES DIFFERENCES SHOWN [rows]`".into()),
    }
}

/// Calls every case of the file, and prints a line for each operator, and with `rows` for each row that covers no case.
fn replay(file: &str, differences: &str, shown: usize, rows: bool) -> Result<(), Fault> {
    // A panic is one of the disagreements, with its words beside it.
    std::panic::set_hook(Box::new(|_| ()));
    let operators: HashMap<&str, &'static dyn OperatorInfo> =
        OPERATORS.iter().map(|op| (op.name(), *op)).collect();
    let mut kept = kept_differences(&std::fs::read_to_string(differences)?);
    let bytes = std::fs::read(file)?;
    let mut reader = Reader::new(&bytes);
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let trace = std::env::var_os("PARITY_TRACE").is_some();
    while let Some(case) = reader.case()? {
        let Some(op) = operators.get(case.name.as_str()) else { continue };
        if trace {
            eprintln!("{} [{}] {}", case.name, case.origin, case.words);
        }
        let tally = tallies.entry(case.name.clone()).or_default();
        let case = Arc::new(case);
        match check_in_time(*op, &case) {
            None => tally.agreed += 1,
            Some((kind, words)) => {
                let line = format!("[{}] {} :: {words}", case.origin, case.words);
                match kept.iter_mut().find(|k| k.covers(&case, kind, &line)) {
                    Some(row) => (row.cases, tally.kept) = (row.cases + 1, tally.kept + 1),
                    None => tally.open.entry(kind).or_default().push(line),
                }
            }
        }
    }
    println!("{} cases left out: they have tensors of more than 64 dimensions", reader.left_out);
    let unneeded = kept.iter().filter(|row| rows && row.cases == 0);
    unneeded.for_each(|row| println!("no case is covered by the row {}", row.cells));
    print(&tallies, shown)
}

/// The disagreement in a case, if any; a case without an answer within seconds hangs, and its thread is abandoned.
fn check_in_time(op: &'static dyn OperatorInfo, case: &Arc<Case>) -> Option<check_case::Disagreement> {
    let (sender, receiver) = channel();
    let shared = Arc::clone(case);
    std::thread::spawn(move || sender.send(check_case::check_case(op, &shared)));
    receiver.recv_timeout(TIMEOUT).unwrap_or_else(|_| Some(("hangs", format!("no answer in {TIMEOUT:?}"))))
}

fn print(tallies: &BTreeMap<String, Tally>, shown: usize) -> Result<(), Fault> {
    let mut out = stdout().lock();
    let (mut cases, mut agreed, mut kept, mut wrong) = (0, 0, 0, 0);
    for (name, tally) in tallies {
        let open: usize = tally.open.values().map(Vec::len).sum();
        let all = tally.agreed + tally.kept + open;
        writeln!(out, "{name}: {all} cases, {} agree, {} kept, {open} disagree", tally.agreed, tally.kept)?;
        for (kind, lines) in &tally.open {
            writeln!(out, "    {kind}: {}", lines.len())?;
            lines.iter().take(shown).try_for_each(|line| writeln!(out, "        {line}"))?;
        }
        (cases, agreed, kept, wrong) = (cases + all, agreed + tally.agreed, kept + tally.kept, wrong + open);
    }
    let operators = tallies.len();
    writeln!(out, "{operators} operators, {cases} cases: {agreed} agree, {kept} kept, {wrong} disagree")?;
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} disagreements").into()) }
}

/// The rows of the first table in `docs/differences.md`: operators, kinds, origins and words after a colon, reason.
fn kept_differences(text: &str) -> Vec<Kept> {
    let is_row = |line: &&str| line.starts_with('|');
    let rows = text.lines().skip_while(|line| !is_row(line)).take_while(is_row);
    rows.filter(|line| line.starts_with("| `")).filter_map(row).collect()
}

/// A row, whose cells may contain bars after a backslash.
fn row(line: &str) -> Option<Kept> {
    const BAR: &str = "\u{1}";
    let line = line.replace("\\|", BAR);
    let shown = line.split('|').take(4).collect::<Vec<_>>().join("|").replace(BAR, "\\|");
    let mut cells = line.split('|').skip(1).map(|cell| cell.trim().trim_matches('`'));
    let list = |cell: &str| cell.split(',').map(|word| word.trim().to_string()).collect();
    let (operators, kinds, origins) = (cells.next()?, cells.next()?, cells.next()?);
    let (origins, words) = origins.split_once(": ").unwrap_or((origins, ""));
    let words = words.split(BAR).filter(|word| !word.is_empty()).map(str::to_string).collect();
    let (operators, kinds, origins) = (list(operators), list(kinds), list(origins));
    Some(Kept { operators, kinds, origins, words, cells: shown, cases: 0 })
}
