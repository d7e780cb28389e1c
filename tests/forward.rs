//! Values against the float64 reference, in every scalar type and on every instruction set of the machine.

use flambeau_core::ScalarType;
use flambeau_ops::Tensor;
use flambeau_ops::vectorized::{CpuCapability, override_cpu_capability};
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, call, operator, rounded};
use flambeau_tests::compare::difference;
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check, Row};
use std::collections::BTreeMap;

fn check_row(row: &Row, set: CpuCapability, report: &mut Report) {
    let Some(op) = operator(row.name) else {
        return report.case(|| row.name.to_string(), Some("there is no such operator".to_string()));
    };
    for dtype in row.types {
        for (number, sample) in row.samples.iter().enumerate() {
            let fault = match call(op, sample, *dtype) {
                Err(e) => Some(format!("{e:?}")),
                Ok(results) => fault(row, &rounded(sample, *dtype), *dtype, &results),
            };
            report.case(|| format!("{} {dtype} on {} sample {number}", row.name, set.name()), fault);
        }
    }
}

/// What is wrong with the results of a sample.
fn fault(row: &Row, sample: &[Arg], dtype: ScalarType, results: &[Tensor]) -> Option<String> {
    let expected = (row.result_type)(dtype);
    if let Some(first) = results.first().filter(|first| first.dtype() != expected) {
        return Some(format!("expected {expected} but got {}", first.dtype()));
    }
    if let Some(property) = &row.property {
        let arrays: Vec<Array> = results.iter().map(array).collect();
        if let Err(broken) = property(sample, &arrays) {
            return Some(broken);
        }
    }
    let references = row.reference.as_ref()?(sample);
    let differs = results.iter().zip(&references).find_map(|(r, w)| difference(r, w, row.bound()));
    let missing =
        results.len() < references.len() || results.len() > references.len() && row.beyond.is_none();
    let count = || format!("{} results, and the reference gives {}", results.len(), references.len());
    differs.or_else(|| missing.then(count))
}

/// How the results of a row are checked.
fn judge(row: &Row) -> Option<&'static str> {
    let judges = [
        (row.unset.is_some(), "unset"),
        (row.reference.is_some(), "reference"),
        (row.property.is_some(), "property"),
    ];
    judges.iter().find(|(has, _)| *has).map(|(_, judge)| *judge)
}

#[test]
fn every_row_has_a_judge() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut without = vec![];
    for row in op_db::rows() {
        match judge(&row) {
            Some(judge) => *counts.entry(judge).or_default() += 1,
            None => without.push(row.name),
        }
    }
    println!("Rows by what judges their results: {counts:?}");
    assert!(without.is_empty(), "neither reference nor property nor reason: {without:?}");
}

#[test]
fn every_operator_gives_what_its_reference_gives() {
    let mut report = Report::new(Check::Forward);
    for row in op_db::rows() {
        if report.enter(&row) {
            for set in CpuCapability::available() {
                let _guard = override_cpu_capability(set);
                check_row(&row, set, &mut report);
            }
        }
    }
    report.finish();
}
