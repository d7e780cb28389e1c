//! Prints a line of JSON for each row of the operator table: calls that can be enlarged to any size, for benchmarks in other languages.

use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_tests::array::Array;
use flambeau_tests::call::{call, is_in_place, operator};
use flambeau_tests::enlarge::{Enlargement, Extent, elements, enlarged, enlargements, has_no_elements, rank};
use flambeau_tests::op_db;
use flambeau_tests::row::{Arg, Row};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Write, stdout};

/// The calls of a row that differ in more than their tensors.
const CALLS: usize = 3;

fn main() -> std::io::Result<()> {
    let rows = op_db::rows();
    rows.iter().filter_map(line).try_for_each(|line| writeln!(stdout(), "{line}"))
}

/// A row; `None` for what writes into an argument, and where no call can be enlarged.
fn line(row: &Row) -> Option<String> {
    let op = operator(row.name)?;
    if is_in_place(op) || op.schema().contains('!') {
        return None;
    }
    let calls = calls(row, op);
    let types: Vec<String> = row.types.iter().map(|dtype| format!("\"{}\"", dtype.name())).collect();
    (!calls.is_empty()).then(|| {
        format!(
            "{{\"name\": {:?}, \"schema\": {:?}, \"types\": [{}], \"differentiable\": {}, \"exact\": {}, \"calls\": [{}]}}",
            row.name,
            op.schema(),
            types.join(", "),
            row.differentiable,
            row.reference.is_some(),
            calls.join(", ")
        )
    })
}

/// The enlargeable samples of a row with most dimensions, one for each choice of the arguments that are no tensors.
fn calls(row: &Row, op: &dyn OperatorInfo) -> Vec<String> {
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    let mut samples: Vec<_> = row.samples.iter().filter(|sample| !has_no_elements(sample)).collect();
    samples.sort_by_key(|sample| std::cmp::Reverse(rank(sample)));
    let mut known = BTreeSet::new();
    let mut found = vec![];
    for sample in samples {
        let plain: Vec<_> = sample.iter().filter(|arg| matches!(arg, Arg::Value(_))).collect();
        let plain = format!("{plain:?}");
        if known.contains(&plain) || found.len() == CALLS {
            continue;
        }
        if let Some(growth) = growth(op, sample, dtype) {
            known.insert(plain);
            found.push(described(sample, &growth));
        }
    }
    found
}

/// How a sample grows: what is multiplied, and the elements of its largest tensor as it is and for a factor of 2.
struct Growth {
    enlargement: Enlargement,
    elements: [usize; 2],
}

/// The first enlargement by which the results grow about as the operands do, or else the operands alone.
fn growth(op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Option<Growth> {
    let largest = |sample: &[Arg]| -> Result<usize> {
        let results = call(op, sample, dtype)?;
        Ok(results.iter().map(|t| t.numel() as usize).max().unwrap_or(0))
    };
    let once = largest(sample).ok()?;
    let mut operands = None;
    for enlargement in enlargements(sample) {
        let Some(double) = enlarged(sample, &enlargement, 2) else { continue };
        let Ok(twice) = largest(&double) else { continue };
        if once > 0 && 2 * twice >= 3 * once && elements(&double) > elements(sample) {
            return Some(Growth { enlargement, elements: [once, twice] });
        }
        let grown = [elements(sample), elements(&double)];
        if operands.is_none() && grown[1] > grown[0] {
            operands = Some(Growth { enlargement, elements: grown });
        }
    }
    operands
}

fn described(sample: &[Arg], growth: &Growth) -> String {
    let arguments: Vec<String> = sample.iter().map(argument).collect();
    let extents: Vec<String> = growth.enlargement.extents().iter().map(extent).collect();
    let [once, twice] = growth.elements;
    format!(
        "{{\"arguments\": [{}], \"extents\": [{}], \"elements\": [{once}, {twice}]}}",
        arguments.join(", "),
        extents.join(", ")
    )
}

fn extent(extent: &Extent) -> String {
    match extent {
        Extent::Dimension(argument, item, dimension) => {
            format!("[\"dimension\", {argument}, {item}, {dimension}]")
        }
        Extent::Entry(argument, entry) => format!("[\"entry\", {argument}, {entry}]"),
        Extent::Number(argument) => format!("[\"number\", {argument}]"),
    }
}

fn argument(arg: &Arg) -> String {
    match arg {
        Arg::Tensor(array) => tensor(array, "own", true),
        Arg::Constant(array) => tensor(array, "own", false),
        Arg::Typed(array, dtype) => tensor(array, dtype.name(), false),
        Arg::Tensors(list) => {
            let list: Vec<String> = list.iter().map(|array| tensor(array, "own", true)).collect();
            format!("{{\"tensors\": [{}]}}", list.join(", "))
        }
        Arg::OwnType => "{\"dtype\": \"own\"}".to_owned(),
        Arg::Value(value) => plain(value),
    }
}

fn tensor(array: &Array, dtype: &str, differentiable: bool) -> String {
    format!(
        "{{\"sizes\": {:?}, \"data\": {}, \"dtype\": \"{dtype}\", \"differentiable\": {differentiable}}}",
        array.sizes,
        floats(&array.data)
    )
}

fn floats(values: &[f64]) -> String {
    let mut text = "[".to_owned();
    for (index, value) in values.iter().enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{}", float(*value));
    }
    text + "]"
}

/// A number; JSON has none for NaN and the infinities, which are objects with the name.
fn float(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { format!("{{\"number\": \"{value}\"}}") }
}

/// What is no tensor. A value that JSON has no form for is named, and the reader leaves the call out.
fn plain(value: &Value) -> String {
    match value {
        Value::None => "null".to_owned(),
        Value::Scalar(value) => scalar(*value),
        Value::Scalars(list) => {
            format!("[{}]", list.iter().map(|v| scalar(*v)).collect::<Vec<_>>().join(", "))
        }
        Value::Int(value) => value.to_string(),
        Value::Float(value) => float(*value),
        Value::Bool(value) => value.to_string(),
        Value::Ints(list) => format!("{list:?}"),
        Value::Floats(list) => floats(list),
        Value::Bools(list) => format!("{list:?}"),
        Value::Str(text) => format!("{text:?}"),
        Value::ScalarType(dtype) => format!("{{\"dtype\": \"{}\"}}", dtype.name()),
        other => format!("{{\"unsupported\": {:?}}}", format!("{other:?}")),
    }
}

fn scalar(value: Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Bool(value) => value.to_string(),
        Scalar::Float(value) => float(value),
        other => format!("{{\"unsupported\": \"{other:?}\"}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_has_none_for_are_named() {
        let lines: Vec<String> = op_db::rows().iter().filter_map(line).collect();
        assert!(lines.len() > 500, "{} rows", lines.len());
        let bare = |line: &&String| {
            line.split('"').step_by(2).any(|part| ["NaN", "inf"].iter().any(|word| part.contains(word)))
        };
        let wrong: Vec<&String> = lines.iter().filter(bare).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert!(lines.iter().any(|line| line.contains("{\"number\": \"NaN\"}")));
    }
}
