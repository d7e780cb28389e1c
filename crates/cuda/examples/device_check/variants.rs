//! The forms of operators that write in place and into given results, on the device: the bits of the form that makes a new tensor.

use super::DEVICE;
use super::rows::{Memory, Report, arguments, in_threads, may_run, other_bits, unlisted};
use flambeau::dispatch::{OperatorInfo, Value};
use flambeau::{ErrorKind, Result, ScalarType, Tensor, ops};
use flambeau_tests::call::{operator, seeded};
use flambeau_tests::op_db;
use flambeau_tests::operator_variants::{
    OUT_LIST, RESHAPED_IN_PLACE, base, in_place_of, out_of, without_options,
};
use flambeau_tests::row::Row;

/// Samples of each row.
const SAMPLES: usize = 6;

/// How what was written differs, as text.
fn difference(expected: &[Tensor], written: &[Tensor]) -> Option<String> {
    expected.iter().zip(written).find_map(|(a, b)| {
        if (a.sizes(), a.dtype()) != (b.sizes(), b.dtype()) {
            return Some(format!("{} instead of {}", b.signature(), a.signature()));
        }
        other_bits(a, b)
    })
}

/// What the form with `out=` writes into empty tensors.
fn into_out(op: &dyn OperatorInfo, args: &[Value], results: &[Tensor]) -> Result<Vec<Tensor>> {
    let empty = |like: &Tensor| Tensor::empty(&[0], (like.dtype(), DEVICE));
    let out = results.iter().map(empty).collect::<Result<Vec<_>>>()?;
    let given = match op.schema().contains(OUT_LIST) {
        true => vec![Value::Tensors(out.clone())],
        false => out.iter().map(Value::from).collect(),
    };
    seeded(op, &[args.to_vec(), given].concat(), 1)?;
    Ok(out)
}

/// What the form that writes into its first argument leaves there.
fn in_place(op: &dyn OperatorInfo, args: &[Value], target: &Tensor) -> Result<Vec<Tensor>> {
    let target = ops::clone(target, None)?;
    let mut changed = args.to_vec();
    changed[0] = Value::Tensor(target.clone());
    seeded(op, &changed, 1)?;
    Ok(vec![target])
}

fn compare(report: &mut Report, row: &Row, name: &str, expected: &[Tensor], written: Result<Vec<Tensor>>) {
    match written {
        Ok(written) => match difference(expected, &written).filter(|_| row.unset.is_none()) {
            None => report.alike(row.name),
            Some(text) => report.fault(row.name, ScalarType::F32, format!("{name}: {text}")),
        },
        Err(error) if error.kind() == ErrorKind::NotImplemented => report.lacks(row.name, error.to_string()),
        Err(error) => report.fault(row.name, ScalarType::F32, format!("{name}: {error}")),
    }
}

/// Every row that has such forms.
pub(super) fn of_rows() -> Result<usize> {
    let rows: Vec<Row> = op_db::rows().into_iter().filter(may_run).collect();
    let report = in_threads(&rows, 0.5, |row, notes| {
        let Some(op) = operator(row.name) else { return };
        let (out, changed) =
            (out_of(op), in_place_of(op).filter(|_| !RESHAPED_IN_PLACE.contains(&base(op.name()))));
        if out.is_none() && changed.is_none() {
            return;
        }
        let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
        for sample in row.samples.iter().take(SAMPLES) {
            let fresh = || arguments(sample, dtype, DEVICE, Memory::Dense);
            let Ok(results) = fresh().and_then(|args| seeded(op, &args, 1)) else { continue };
            if let Some(out) = out {
                let written =
                    fresh().and_then(|args| into_out(out, &without_options(op.schema(), &args), &results));
                notes.with(|report| compare(report, row, out.name(), &results, written));
            }
            let (Some(changed), [result], Ok(args)) = (changed, results.as_slice(), fresh()) else {
                continue;
            };
            let Some(Value::Tensor(target)) = args.first() else { continue };
            if target.sizes() == result.sizes() && target.dtype() == result.dtype() {
                let written = in_place(changed, &args, target);
                notes.with(|report| compare(report, row, changed.name(), &results, written));
            }
        }
    });
    report.print("variants");
    Ok(report.faults() + unlisted(&report.missing, false))
}
