//! Elements of bool may have any byte: every operator takes all but 0 for true, and writes no bytes other than 0 and 1.

use flambeau_core::{ScalarType, Storage};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops;
use flambeau_tests::call::{array, operator, outcome, tensor, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::layout::{Layout, lay_out};
use flambeau_tests::op_db;
use flambeau_tests::row::{Arg, Row};

const LAYOUTS: &[Option<Layout>] =
    &[None, Some(Layout::Transposed), Some(Layout::Sliced), Some(Layout::Expanded)];

/// The bytes that stand for true, used one after the other.
const CANONICAL: &[u8] = &[1];
const ODD: &[u8] = &[2, 255, 1, 128];

/// Operators whose result is uninitialised, or shows the bytes themselves.
const OF_BYTES: &[&str] = &["empty_like", "view.dtype"];

/// `t` as a bool tensor whose true elements have these bytes, in this layout.
fn bool_tensor(t: &Tensor, bytes: &[u8], layout: Option<Layout>) -> Tensor {
    let byte = |(i, x): (usize, &f64)| if *x == 0.0 { 0u8 } else { bytes[i % bytes.len()] };
    let data: Vec<u8> = array(t).data.iter().enumerate().map(byte).collect();
    let dense = Tensor::from_vec(data, t.sizes()).unwrap();
    let laid_out = layout.and_then(|layout| lay_out(&dense, layout)).unwrap_or(dense);
    ops::view_dtype(&laid_out, ScalarType::Bool).unwrap()
}

fn with_bool_bytes(args: &[Value], bytes: &[u8], layout: Option<Layout>) -> Vec<Value> {
    let made = |t: &Tensor| match t.dtype() {
        ScalarType::Bool => bool_tensor(t, bytes, layout),
        _ => t.clone(),
    };
    let value = |value: &Value| match value {
        Value::Tensor(t) => Value::Tensor(made(t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(made).collect()),
        other => other.clone(),
    };
    args.iter().map(value).collect()
}

fn tensors(args: &[Value]) -> Vec<&Tensor> {
    args.iter()
        .flat_map(|value| match value {
            Value::Tensor(t) => std::slice::from_ref(t),
            Value::Tensors(list) => list.as_slice(),
            _ => &[],
        })
        .collect()
}

/// Bytes of a result of its own that are neither 0 nor 1.
fn other_bytes(result: &Tensor, args: &[Value]) -> Option<String> {
    let shared = tensors(args).iter().any(|arg| Storage::ptr_eq(arg.storage(), result.storage()));
    if result.dtype() != ScalarType::Bool || shared {
        return None;
    }
    let bytes = ops::view_dtype(result, ScalarType::U8).unwrap().to_vec::<u8>().unwrap();
    bytes.iter().any(|byte| *byte > 1).then(|| format!("a result holds the bytes {bytes:?}"))
}

fn fault(op: &dyn OperatorInfo, args: &[Value], layout: Option<Layout>) -> Option<String> {
    let (odd, plain) = (with_bool_bytes(args, ODD, layout), with_bool_bytes(args, CANONICAL, layout));
    match (outcome(op, &odd), outcome(op, &plain)) {
        (Ok(got), Ok(expected)) => {
            let other = got.iter().find_map(|result| other_bytes(result, &odd));
            got.iter().zip(&expected).find_map(|(got, expected)| bit_difference(got, expected)).or(other)
        }
        (got, expected) => {
            (got.is_err() != expected.is_err()).then(|| format!("{:?} but {:?}", got.err(), expected.err()))
        }
    }
}

/// The arguments of a sample if some are bool.
fn with_bools(row: &Row, sample: &[Arg]) -> Option<Vec<Value>> {
    let dtype = match row.types.contains(&ScalarType::Bool) {
        true => ScalarType::Bool,
        false => *row.types.iter().find(|t| **t == ScalarType::F32).unwrap_or(&row.types[0]),
    };
    let args = values(sample, &mut |a| tensor(a, dtype));
    let some = tensors(&args).iter().any(|t| t.dtype() == ScalarType::Bool);
    some.then_some(args)
}

#[test]
fn any_byte_but_0_is_true() {
    let (mut operators, mut cases, mut faults) = (0, 0, vec![]);
    for row in op_db::rows() {
        let Some(op) = operator(row.name).filter(|_| row.unset.is_none() && !OF_BYTES.contains(&row.name))
        else {
            continue;
        };
        let before = cases;
        for (number, sample) in row.samples.iter().enumerate() {
            let Some(args) = with_bools(&row, sample) else { continue };
            for layout in LAYOUTS {
                cases += 1;
                let found = fault(op, &args, *layout);
                faults.extend(found.map(|fault| format!("{} sample {number} {layout:?}: {fault}", row.name)));
            }
        }
        operators += usize::from(cases > before);
    }
    println!("Truth values: {operators} operators, {cases} cases, {} wrong", faults.len());
    let mut last = "";
    for fault in &faults {
        let name = fault.split(' ').next().unwrap_or_default();
        if name != last {
            println!("  {}", fault.chars().take(400).collect::<String>());
        }
        last = name;
    }
    assert!(faults.is_empty() && operators > 100, "{} of {cases} cases failed", faults.len());
}
