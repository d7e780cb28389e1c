//! Counts what was checked and what was left out, and fails once at the end with all faults.

use crate::row::{Check, Row};
use std::collections::HashMap;

/// The tally of one test.
pub struct Report {
    check: Check,
    rows: usize,
    cases: usize,
    skips: Vec<(&'static str, &'static str)>,
    faults: Vec<String>,
}

impl Report {
    /// An empty one.
    pub fn new(check: Check) -> Self {
        Report { check, rows: 0, cases: 0, skips: Vec::new(), faults: Vec::new() }
    }

    /// Counts a row; false if it leaves this check out.
    pub fn enter(&mut self, row: &Row) -> bool {
        match row.skipped(self.check) {
            Some(reason) => {
                self.skips.push((row.name, reason));
                false
            }
            None => {
                self.rows += 1;
                true
            }
        }
    }

    /// Counts a case, and what is wrong with it.
    pub fn case(&mut self, what: impl FnOnce() -> String, fault: Option<String>) {
        self.cases += 1;
        if let Some(fault) = fault {
            self.faults.push(format!("{}: {fault}", what()));
        }
    }

    /// Prints the counts and fails if anything was wrong.
    pub fn finish(self) {
        println!(
            "{:?}: {} rows, {} cases, {} rows skipped",
            self.check,
            self.rows,
            self.cases,
            self.skips.len()
        );
        for (row, reason) in &self.skips {
            println!("  skipped {row}: {reason}");
        }
        for fault in few_of_each(&self.faults) {
            println!("  {fault}");
        }
        assert!(self.faults.is_empty(), "{} of {} cases failed", self.faults.len(), self.cases);
        assert!(self.cases > 0, "nothing was checked");
    }
}

/// The first faults of every operator, which begin with its name.
fn few_of_each(faults: &[String]) -> impl Iterator<Item = &String> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    faults.iter().filter(move |fault| {
        let count = seen.entry(fault.split(' ').next().unwrap_or_default()).or_default();
        *count += 1;
        *count <= 4
    })
}
