//! NaN, infinities and signed zeros at every position of lengths around the width of a register.

use flambeau_core::ScalarType;
use flambeau_tests::call::{call, operator, rounded};
use flambeau_tests::compare::difference;
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check, Row};

const SPECIAL: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0];

fn check_row(row: &Row, report: &mut Report) {
    let (Some(op), Some(reference)) = (operator(row.name), &row.reference) else { return };
    for sample in row.samples.iter().filter(|s| is_line(s)) {
        let length = sample[0].array().data.len();
        for position in 0..length {
            for special in SPECIAL {
                let mut args = sample.clone();
                if let Arg::Tensor(a) = &mut args[0] {
                    a.data[position] = special;
                }
                let expected = reference(&rounded(&args, ScalarType::F32));
                let fault = match call(op, &args, ScalarType::F32) {
                    Ok(results) => {
                        results.iter().zip(&expected).find_map(|(r, w)| difference(r, w, row.bound()))
                    }
                    Err(e) => Some(format!("{e:?}")),
                };
                report.case(|| format!("{} with {special} at {position} of {length}", row.name), fault);
            }
        }
    }
}

/// One-dimensional, of a length around the width of a register.
fn is_line(sample: &[Arg]) -> bool {
    matches!(&sample[0], Arg::Tensor(a) if a.sizes.len() == 1 && (1..=33).contains(&a.sizes[0]))
}

#[test]
fn special_values_are_right_at_every_position() {
    let mut report = Report::new(Check::Boundaries);
    for row in op_db::rows() {
        if row.pointwise && row.types.contains(&ScalarType::F32) && report.enter(&row) {
            check_row(&row, &mut report);
        }
    }
    report.finish();
}
