//! In-place, `out=` and Meta agree with the functional form; and every operator has a row.

use flambeau_core::{Device, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{_to_copy, OPERATORS, empty_memory_format};
use flambeau_tests::call::{operator, tensor, tensors, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Check, Row};
use std::collections::HashSet;

/// The arguments of a schema up to `out=`, without annotations: what siblings have in common.
fn arguments(schema: &str) -> String {
    let open = schema.find('(').unwrap_or(0);
    let close = schema.rfind(") ->").unwrap_or(schema.len());
    let list = schema[open + 1..close].replace("(a!)", "");
    let list = list.split(", Tensor out").next().unwrap_or_default();
    list.trim_end_matches(", *").to_string()
}

/// The operator's name without its overload.
fn base(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Views whose in-place form changes the shape: they have tests of their own.
const RESHAPED_IN_PLACE: &[&str] = &["squeeze", "unsqueeze", "t", "transpose", "as_strided"];

fn in_place_of(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    let name = op.name().replacen(base(op.name()), &format!("{}_", base(op.name())), 1);
    operator(&name)
}

fn out_of(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    OPERATORS.iter().copied().find(|o| {
        base(o.name()) == base(op.name())
            && o.schema().contains("Tensor(a!) out")
            && arguments(o.schema()) == arguments(op.schema())
    })
}

fn meta(value: &Value) -> Value {
    let to_meta = |t: &Tensor| _to_copy(t, None, None, Some(Device::META), None, false, None).unwrap();
    match value {
        Value::Tensor(t) => Value::Tensor(to_meta(t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(to_meta).collect()),
        other => other.clone(),
    }
}

fn check_meta(op: &dyn OperatorInfo, args: &[Value], results: &[Tensor]) -> Option<String> {
    let args: Vec<Value> = args.iter().map(meta).collect();
    let described = match op.call_boxed(&args) {
        Ok(values) => tensors(values),
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

fn check_out(op: &dyn OperatorInfo, args: &[Value], result: &Tensor) -> Option<String> {
    let wrong_size = empty_memory_format(&[0], Some(result.dtype()), None, None, None, None).unwrap();
    let mut with_out = args.to_vec();
    with_out.push(Value::Tensor(wrong_size.clone()));
    match op.call_boxed(&with_out) {
        Ok(_) => bit_difference(&wrong_size, result).map(|d| format!("{}: {d}", op.name())),
        Err(e) => Some(format!("{}: {e:?}", op.name())),
    }
}

fn check_in_place(op: &dyn OperatorInfo, args: &[Value], result: &Tensor) -> Option<String> {
    let Some(Value::Tensor(self_)) = args.first() else { return None };
    let target = flambeau_ops::ops::clone(self_, None).unwrap();
    let mut changed = args.to_vec();
    changed[0] = Value::Tensor(target.clone());
    let fits = self_.sizes() == result.sizes() && result.dtype().can_cast(self_.dtype());
    match op.call_boxed(&changed) {
        Ok(_) if !fits => {
            Some(format!("{}: expected a refusal for {self_:?} and result {result:?}", op.name()))
        }
        Ok(_) if target.dtype() == result.dtype() => {
            bit_difference(&target, result).map(|d| format!("{}: {d}", op.name()))
        }
        Ok(_) => None,
        Err(e) => fits.then(|| format!("{}: {e:?}", op.name())),
    }
}

fn check_row(row: &Row, report: &mut Report) {
    let Some(op) = operator(row.name) else { return };
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    for (number, sample) in row.samples.iter().enumerate() {
        let args = values(sample, &mut |a| tensor(a, dtype));
        let Ok(results) = op.call_boxed(&args).map(tensors) else { continue };
        let mut fault = check_meta(op, &args, &results);
        if let [result] = results.as_slice() {
            fault = fault.or_else(|| out_of(op).and_then(|o| check_out(o, &args, result)));
            if !RESHAPED_IN_PLACE.contains(&base(op.name())) {
                fault = fault.or_else(|| in_place_of(op).and_then(|o| check_in_place(o, &args, result)));
            }
        }
        report.case(|| format!("{} sample {number}", row.name), fault);
    }
}

#[test]
fn siblings_agree() {
    let mut report = Report::new(Check::Variants);
    for row in op_db::rows() {
        if report.enter(&row) {
            check_row(&row, &mut report);
        }
    }
    report.finish();
}

/// Operators that have no row yet. It may fall and never rise; at 0 this constant goes.
const STILL_WITHOUT_A_ROW: usize = 560;

#[test]
fn every_operator_has_a_row() {
    let rows: HashSet<&str> = op_db::rows().iter().map(|r| r.name).collect();
    let siblings: HashSet<&str> = rows
        .iter()
        .filter_map(|name| operator(name))
        .flat_map(|op| [in_place_of(op), out_of(op)])
        .flatten()
        .map(|op| op.name())
        .collect();
    let missing: Vec<&str> =
        OPERATORS.iter().map(|op| op.name()).filter(|n| !rows.contains(n) && !siblings.contains(n)).collect();
    println!(
        "Rows: {} of {} operators, {} without",
        OPERATORS.len() - missing.len(),
        OPERATORS.len(),
        missing.len()
    );
    assert!(missing.len() <= STILL_WITHOUT_A_ROW, "operators without a row: {missing:?}");
}
