//! Values against the float64 reference, in every scalar type and on every instruction set of the machine.

use flambeau_ops::vectorized::{CpuCapability, override_cpu_capability};
use flambeau_tests::call::{call, operator, rounded};
use flambeau_tests::compare::difference;
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Check, Row};

fn check_row(row: &Row, set: CpuCapability, report: &mut Report) {
    let Some(op) = operator(row.name) else {
        return report.case(|| row.name.to_string(), Some("there is no such operator".to_string()));
    };
    let Some(reference) = &row.reference else { return };
    for dtype in row.types {
        for (number, sample) in row.samples.iter().enumerate() {
            let fault = match call(op, sample, *dtype) {
                Err(e) => Some(format!("{e:?}")),
                Ok(results) => {
                    let wanted = reference(&rounded(sample, *dtype));
                    let type_fault = results
                        .first()
                        .filter(|r| r.dtype() != (row.result_type)(*dtype))
                        .map(|r| format!("expected {} but got {}", (row.result_type)(*dtype), r.dtype()));
                    type_fault
                        .or_else(|| results.iter().zip(&wanted).find_map(|(r, w)| difference(r, w, row.ulps)))
                        .or_else(|| (results.len() < wanted.len()).then(|| "results are missing".to_string()))
                }
            };
            report.case(|| format!("{} {dtype} on {} sample {number}", row.name, set.name()), fault);
        }
    }
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
