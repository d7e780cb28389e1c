//! The same values in other memory layouts give the same result.

use flambeau_core::{ErrorKind, MemoryFormat, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_tests::call::{array, operator, outcome, tensor, values};
use flambeau_tests::compare::{Bound, bit_difference, difference};
use flambeau_tests::layout::{LAYOUTS, Layout, lay_out};
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Check, Row};

fn check_row(row: &Row, report: &mut Report) {
    let Some(op) = operator(row.name) else { return };
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    for (number, sample) in row.samples.iter().enumerate() {
        for layout in LAYOUTS {
            let mut changed = 0;
            let laid_out = values(sample, &mut |a| {
                let plain = tensor(a, dtype);
                match lay_out(&plain, *layout) {
                    Some(t) => {
                        changed += 1;
                        t
                    }
                    None => plain,
                }
            });
            if changed == 0 {
                continue;
            }
            let dense: Vec<Value> = laid_out.iter().map(contiguous).collect();
            let fault = match (outcome(op, &laid_out), outcome(op, &dense)) {
                (Ok(a), Ok(b)) => a.iter().zip(&b).find_map(|(a, b)| disagreement(row, a, b)),
                // One element that stands for many cannot be written to.
                (Err(e), Ok(_)) if *layout == Layout::Expanded && e.kind() == ErrorKind::Aliasing => None,
                (a, b) => {
                    (a.is_err() != b.is_err()).then(|| format!("{:?} but dense {:?}", a.err(), b.err()))
                }
            };
            report.case(|| format!("{} {layout:?} sample {number}", row.name), fault);
        }
    }
}

/// Bits for pointwise formulas; reductions may add in another order.
fn disagreement(row: &Row, a: &Tensor, b: &Tensor) -> Option<String> {
    let twice = Bound { ulps: 2.0 * row.ulps, terms: row.terms };
    if row.pointwise { bit_difference(a, b) } else { difference(a, &array(b), twice) }
}

fn contiguous(value: &Value) -> Value {
    let dense = |t: &Tensor| flambeau_ops::ops::clone(t, Some(MemoryFormat::Contiguous)).unwrap();
    match value {
        Value::Tensor(t) => Value::Tensor(dense(t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(dense).collect()),
        other => other.clone(),
    }
}

#[test]
fn strides_do_not_change_values() {
    let mut report = Report::new(Check::Layouts);
    for row in op_db::part() {
        if report.enter(&row) {
            check_row(&row, &mut report);
        }
    }
    report.finish();
}
