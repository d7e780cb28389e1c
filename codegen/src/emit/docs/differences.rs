//! Reads the tables of differences from PyTorch: the operators that a row names, the kind of the difference, and its reason.

use std::fmt;

use crate::source::{Fault, Source};

/// A row of a table.
pub(super) struct Difference<'a> {
    /// Patterns of names without their overload.
    names: Vec<String>,
    /// The check that fails.
    kind: &'a str,
    reason: &'a str,
}

/// The headings of the first column in tables about operators.
const HEADS: &[&str] = &["operator", "entry"];

/// The modules of Python, and the prefixes of the names of their operators.
const MODULES: &[(&str, &[&str])] =
    &[("nn.functional.", &[""]), ("special.", &["", "special_"]), ("linalg.", &["linalg_"])];

/// The rows of all tables about operators on a page.
pub(super) fn read(source: Source<'_>) -> Result<Vec<Difference<'_>>, Fault> {
    let mut rows = vec![];
    let (mut at, mut head) = (0, None);
    for line in source.text.split_inclusive('\n') {
        let cells = cells(line);
        match (cells.first(), head) {
            (None, _) => head = None,
            (Some(first), None) => head = Some(HEADS.contains(first)),
            (Some(first), Some(true)) if !first.starts_with("---") => {
                rows.push(row(&cells).map_err(|message| source.fault(at, message))?);
            }
            _ => {}
        }
        at += line.len();
    }
    Ok(rows)
}

/// The cells of a line of a table, or nothing if the line is not of a table. A bar inside a cell is escaped by a backslash.
fn cells(line: &str) -> Vec<&str> {
    let Some(inner) = line.trim().strip_prefix('|') else { return vec![] };
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut start = 0;
    let mut cells = vec![];
    for (bar, _) in inner.match_indices('|').filter(|(bar, _)| !inner[..*bar].ends_with('\\')) {
        cells.push(inner[start..bar].trim());
        start = bar + 1;
    }
    cells.push(inner[start..].trim());
    cells
}

fn row<'a>(cells: &[&'a str]) -> Result<Difference<'a>, String> {
    let [names, kind, _, reason] = cells else {
        return Err(format!(
            "expected a row of 4 cells, names, kind, words and reason, but got {}",
            cells.len()
        ));
    };
    let code = |cell: &'a str| cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
    let names = code(names).ok_or("expected the names of operators between backticks")?;
    let kind = code(kind).ok_or("expected the kind of difference between backticks")?;
    if reason.is_empty() {
        return Err("expected the reason for the difference".to_owned());
    }
    Ok(Difference { names: names.split(',').flat_map(|name| bases(name.trim())).collect(), kind, reason })
}

/// The operators that an entry of PyTorch's database calls: without its module and its variant.
fn bases(entry: &str) -> Vec<String> {
    let module = MODULES.iter().find_map(|(module, begins)| Some((entry.strip_prefix(module)?, *begins)));
    let (name, begins) = module.unwrap_or((entry, &[""]));
    let base = name.split('.').next().unwrap_or(name);
    begins.iter().map(|begin| format!("{begin}{base}")).collect()
}

impl Difference<'_> {
    /// Whether the row names an operator, by its name without overload; `*` at the end stands for any ending.
    pub(super) fn names(&self, base: &str) -> bool {
        let fits = |pattern: &String| match pattern.split_once('*') {
            None => pattern == base,
            // A row for every operator names none in particular, like one for Python's reflected operators `__r*__`.
            Some(("", _)) => false,
            Some((begin, end)) => end.is_empty() && base.starts_with(begin),
        };
        self.names.iter().any(fits)
    }
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.kind, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| other | table |
|---|---|
| x | y |

| entry | variant and kind | words | reason |
|---|---|---|---|
| `special.log_ndtr, linalg.norm*` | `* *values` | `a\\|b` | The reason. |
| `polygamma.n_*, nn.functional.elu` | `strides` | | Another. |
";

    fn read(text: &str) -> Result<Vec<Difference<'_>>, Fault> {
        super::read(Source { name: "differences.md", text })
    }

    #[test]
    fn a_row_names_the_operators_that_its_entries_call() {
        let rows = read(PAGE).unwrap();
        assert_eq!(rows.len(), 2);
        let named = |base: &str| -> Vec<bool> { rows.iter().map(|row| row.names(base)).collect() };
        for base in ["special_log_ndtr", "linalg_norm", "linalg_norms"] {
            assert_eq!(named(base), [true, false], "{base}");
        }
        for base in ["polygamma", "elu"] {
            assert_eq!(named(base), [false, true], "{base}");
        }
        for base in ["norm", "linalg_vector_norm", "elu_backward", ""] {
            assert_eq!(named(base), [false, false], "{base}");
        }
        assert_eq!(rows[0].to_string(), "`* *values`: The reason.");
    }

    #[test]
    fn a_row_that_cannot_be_read_is_named_with_its_line() {
        let faults = [
            ("| `strides` | | Another. |", "| Another. |", "of 4 cells"),
            ("| `strides` | | Another. |", "| `strides` | | |", "the reason"),
            ("`polygamma.n_*, nn.functional.elu`", "polygamma", "between backticks"),
            ("`strides`", "strides", "the kind of difference"),
        ];
        for (from, to, message) in faults {
            let text = PAGE.replace(from, to);
            let Err(fault) = read(&text) else { panic!("{to} is read") };
            assert!(
                fault.to_string().starts_with("differences.md:8:1") && fault.message.contains(message),
                "{fault}"
            );
        }
    }
}
