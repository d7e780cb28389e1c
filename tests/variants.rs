//! In-place, `out=` and Meta agree with the functional form; and every operator has a row.

use flambeau_core::{Device, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{_to_copy, OPERATORS, empty_memory_format};
use flambeau_tests::call::{operator, outcome, tensor, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::op_db;
use flambeau_tests::operator_variants::{
    OUT_LIST, RESHAPED_IN_PLACE, base, in_place_of, index_of_options, out_of, without_options,
};
use flambeau_tests::report::Report;
use flambeau_tests::row::{Check, Row};
use std::collections::HashSet;

fn meta(value: &Value) -> Value {
    let to_meta = |t: &Tensor| _to_copy(t, None, None, Some(Device::META), None, false, None).unwrap();
    match value {
        Value::Tensor(t) => Value::Tensor(to_meta(t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(to_meta).collect()),
        other => other.clone(),
    }
}

fn check_meta(op: &dyn OperatorInfo, args: &[Value], results: &[Tensor]) -> Option<String> {
    let mut args: Vec<Value> = args.iter().map(meta).collect();
    if let Some(index) = index_of_options(op.schema()) {
        args[index + 2] = Value::Device(Device::META);
    }
    let described = match outcome(op, &args) {
        Ok(described) => described,
        Err(e) => return Some(format!("on Meta: {e:?}")),
    };
    let differs = |(m, r): (&Tensor, &Tensor)| {
        let same = m.sizes() == r.sizes()
            && m.dtype() == r.dtype()
            && m.strides() == r.strides()
            && m.device().is_meta();
        (!same).then(|| format!("Meta gives {m:?} {:?}, not {r:?} {:?}", m.strides(), r.strides()))
    };
    described.iter().zip(results).find_map(differs)
}

fn check_out(row: &Row, op: &dyn OperatorInfo, args: &[Value], results: &[Tensor]) -> Option<String> {
    let wrong_size = |like: &Tensor| empty_memory_format(&[0], Some(like.dtype()), None, None, None, None);
    let out: Vec<Tensor> = results.iter().map(|r| wrong_size(r).unwrap()).collect();
    let given = match op.schema().contains(OUT_LIST) {
        true => vec![Value::Tensors(out.clone())],
        false => out.iter().map(Value::from).collect(),
    };
    let with_out = [args.to_vec(), given].concat();
    if let Err(e) = outcome(op, &with_out) {
        return Some(format!("{}: {e:?}", op.name()));
    }
    let differs = |(out, result): (&Tensor, &Tensor)| {
        if row.unset.is_some() {
            return (out.sizes() != result.sizes()).then(|| format!("{out:?} is not {result:?}"));
        }
        bit_difference(out, result)
    };
    out.iter().zip(results).find_map(differs).map(|d| format!("{}: {d}", op.name()))
}

fn check_in_place(op: &dyn OperatorInfo, args: &[Value], result: &Tensor) -> Option<String> {
    let Some(Value::Tensor(self_)) = args.first() else { return None };
    let target = flambeau_ops::ops::clone(self_, None).unwrap();
    let mut changed = args.to_vec();
    changed[0] = Value::Tensor(target.clone());
    let fits = self_.sizes() == result.sizes() && result.dtype().can_cast(self_.dtype());
    match outcome(op, &changed) {
        Ok(_) if !fits => {
            Some(format!("{}: expected a refusal for {self_:?} and result {result:?}", op.name()))
        }
        Ok(_) => {
            let result = _to_copy(result, Some(target.dtype()), None, None, None, false, None).unwrap();
            bit_difference(&target, &result).map(|d| format!("{}: {d}", op.name()))
        }
        Err(e) => fits.then(|| format!("{}: {e:?}", op.name())),
    }
}

fn check_row(row: &Row, report: &mut Report) {
    let Some(op) = operator(row.name) else { return };
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    for (number, sample) in row.samples.iter().enumerate() {
        let fresh = || values(sample, &mut |a| tensor(a, dtype));
        let Ok(results) = outcome(op, &fresh()) else { continue };
        let mut fault = check_meta(op, &fresh(), &results);
        if let Some(out) = out_of(op) {
            let args = without_options(op.schema(), &fresh());
            fault = fault.or_else(|| check_out(row, out, &args, &results));
        }
        if let ([result], Some(in_place)) = (results.as_slice(), in_place_of(op))
            && !RESHAPED_IN_PLACE.contains(&base(op.name()))
        {
            fault = fault.or_else(|| check_in_place(in_place, &fresh(), result));
        }
        report.case(|| format!("{} sample {number}", row.name), fault);
    }
}

#[test]
fn variants_agree() {
    let mut report = Report::new(Check::Variants);
    for row in op_db::rows() {
        if report.enter(&row) {
            check_row(&row, &mut report);
        }
    }
    report.finish();
}

#[test]
fn every_operator_has_a_row() {
    let rows: HashSet<&str> = op_db::rows().iter().map(|r| r.name).collect();
    let operator_variants: HashSet<&str> = rows
        .iter()
        .filter_map(|name| operator(name))
        .flat_map(|op| [in_place_of(op), out_of(op)])
        .flatten()
        .map(|op| op.name())
        .collect();
    let missing: Vec<&str> = OPERATORS
        .iter()
        .map(|op| op.name())
        .filter(|n| !rows.contains(n) && !operator_variants.contains(n))
        .collect();
    println!(
        "Rows: {} of {} operators, {} without",
        OPERATORS.len() - missing.len(),
        OPERATORS.len(),
        missing.len()
    );
    assert!(missing.is_empty(), "operators without a row: {missing:?}");
}
