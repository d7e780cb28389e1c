//! A call that fails changes nothing: sizes, strides, elements and versions of all operands are what they were.

use flambeau_core::{Device, Scalar, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops;
use flambeau_tests::call::{array, is_in_place, operator, outcome, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::operator_variants::{OUT_LIST, in_place_of, out_of, without_options};
use flambeau_tests::row::{Arg, Row};

/// What can be seen of a tensor.
#[derive(PartialEq, Debug)]
struct Seen {
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
    version: u32,
    elements: Vec<u64>,
}

fn seen(t: &Tensor) -> Seen {
    let elements = match t.device().is_meta() {
        true => vec![],
        false => array(t).data.iter().map(|x| x.to_bits()).collect(),
    };
    Seen {
        sizes: t.sizes().to_vec(),
        strides: t.strides().to_vec(),
        offset: t.storage_offset(),
        version: t.version(),
        elements,
    }
}

fn tensors(args: &[Value]) -> Vec<Tensor> {
    let flat = |value: &Value| match value {
        Value::Tensor(t) => vec![t.clone()],
        Value::Tensors(list) => list.clone(),
        _ => vec![],
    };
    args.iter().flat_map(flat).collect()
}

/// Fresh arguments of the same values.
fn copies(args: &[Value]) -> Vec<Value> {
    let copy = |t: &Tensor| ops::clone(t, None).unwrap();
    let value = |value: &Value| match value {
        Value::Tensor(t) => Value::Tensor(copy(t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(copy).collect()),
        other => other.clone(),
    };
    args.iter().map(value).collect()
}

/// Operators that look at their indices under the guard of the result, so that the version counts a write that did not happen.
const COUNT_A_WRITE: &[&str] = &["gather.out", "index_select.out"];
/// Operators that have saved their statistics before the types of their results are checked.
const LEFT_OUT: &[&str] = &["native_batch_norm.out", "_native_batch_norm_legit.out"];

/// An output that should be refused, in place of one that fits.
type Spoil = fn(&Tensor) -> Tensor;

fn zeros(sizes: &[i64], dtype: ScalarType) -> Tensor {
    ops::zeros(sizes, Some(dtype), None, None, None).unwrap()
}

const SPOILT: &[(&str, Spoil)] = &[
    ("of bool", |t| zeros(t.sizes(), ScalarType::Bool)),
    ("of u8, empty", |_| zeros(&[0], ScalarType::U8)),
    ("of i16", |t| zeros(t.sizes(), ScalarType::I16)),
    ("of f64, smaller", |_| zeros(&[1, 1], ScalarType::F64)),
    ("on Meta", |t| ops::zeros(&[2], Some(t.dtype()), None, Some(Device::META), None).unwrap()),
    ("overlapping itself", |t| ops::expand(&zeros(&[], t.dtype()), t.sizes(), false).unwrap()),
];

/// Arguments that the operator may refuse, in place of those it takes.
fn hostile(args: &[Value], index: usize) -> Vec<Vec<Value>> {
    let replaced = |value: Value| {
        let mut args = copies(args);
        args[index] = value;
        args
    };
    match &args[index] {
        Value::Tensor(t) => {
            let mut others = vec![
                zeros(&[7, 5, 3], t.dtype()),
                zeros(t.sizes(), ScalarType::Bool),
                zeros(t.sizes(), t.dtype()),
            ];
            if !t.dtype().is_floating_point() && t.dtype() != ScalarType::Bool && t.numel() > 0 {
                // In case it is an index: the last value is out of range.
                let outside = ops::clone(t, Some(flambeau_core::MemoryFormat::Contiguous)).unwrap();
                let flat = ops::view(&outside, &[-1]).unwrap();
                ops::fill__scalar(&ops::slice_tensor(&flat, 0, Some(-1), None, 1).unwrap(), Scalar::Int(100))
                    .unwrap();
                others.push(outside);
            }
            others.into_iter().map(|t| replaced(Value::Tensor(t))).collect()
        }
        Value::Int(_) => [-1, 7, 1 << 40].into_iter().map(|i| replaced(Value::Int(i))).collect(),
        Value::Ints(list) => {
            [-1, 9].into_iter().map(|i| replaced(Value::Ints(vec![i; list.len().max(1)]))).collect()
        }
        _ => vec![],
    }
}

struct Tally {
    refused: usize,
    faults: Vec<String>,
}

impl Tally {
    /// Calls, and where that fails compares all operands with what they were.
    fn call(&mut self, op: &dyn OperatorInfo, args: &[Value], what: &str) {
        if LEFT_OUT.contains(&op.name()) {
            return;
        }
        let operands = tensors(args);
        let before: Vec<Seen> = operands.iter().map(seen).collect();
        let Err(error) = outcome(op, args) else { return };
        self.refused += 1;
        for (at, (operand, before)) in operands.iter().zip(&before).enumerate() {
            let mut after = seen(operand);
            if COUNT_A_WRITE.contains(&op.name()) {
                after.version = before.version;
            }
            if after != *before {
                self.faults.push(format!(
                    "{} {what}: operand {at} was {before:?}, is {after:?}; {error:?}",
                    op.name()
                ));
            }
        }
    }

    fn out(&mut self, op: &dyn OperatorInfo, args: &[Value], results: &[Tensor]) {
        let of = |out: Vec<Tensor>| match op.schema().contains(OUT_LIST) {
            true => [copies(args), vec![Value::Tensors(out)]].concat(),
            false => [copies(args), out.iter().map(Value::from).collect()].concat(),
        };
        let fresh = |empty: bool| -> Vec<Tensor> {
            results.iter().map(|r| zeros(if empty { &[0] } else { r.sizes() }, r.dtype())).collect()
        };
        for empty in [false, true] {
            for index in 0..results.len() {
                for (what, spoil) in SPOILT {
                    let mut out = fresh(empty);
                    out[index] = spoil(&results[index]);
                    self.call(op, &of(out), &format!("with output {index} {what}"));
                }
            }
            for index in 0..args.len() {
                for (number, args) in hostile(&of(fresh(empty)), index).iter().enumerate() {
                    self.call(op, args, &format!("with hostile argument {index}, {number}"));
                }
            }
        }
    }

    fn in_place(&mut self, op: &dyn OperatorInfo, args: &[Value]) {
        for index in 0..args.len() {
            for (number, args) in hostile(args, index).iter().enumerate() {
                self.call(op, args, &format!("with hostile argument {index}, {number}"));
            }
        }
    }
}

/// The first of a row's samples that is small and not empty.
fn sample(row: &Row) -> Option<&Vec<Arg>> {
    let small = |args: &&Vec<Arg>| {
        let sizes = args.iter().filter_map(|arg| match arg {
            Arg::Tensor(a) | Arg::Constant(a) | Arg::Typed(a, _) => Some(a.data.len()),
            _ => None,
        });
        sizes.clone().all(|size| (2..200).contains(&size)) && sizes.count() > 0
    };
    row.samples.iter().find(small).or_else(|| row.samples.first())
}

#[test]
fn a_call_that_fails_changes_nothing() {
    let mut tally = Tally { refused: 0, faults: vec![] };
    for row in op_db::rows() {
        let (Some(op), Some(sample)) = (operator(row.name), sample(&row)) else { continue };
        for dtype in [ScalarType::F32, ScalarType::I64, ScalarType::Bool] {
            if !row.types.contains(&dtype) && dtype != row.types[0] {
                continue;
            }
            let args = values(sample, &mut |a| tensor(a, dtype));
            let Ok(results) = outcome(op, &copies(&args)) else { continue };
            if is_in_place(op) {
                tally.in_place(op, &args);
            }
            if let Some(out) = out_of(op) {
                tally.out(out, &without_options(op.schema(), &args), &results);
            }
            if let Some(in_place) = in_place_of(op) {
                tally.in_place(in_place, &args);
            }
        }
    }
    println!("Unchanged: {} calls refused, {} changed something", tally.refused, tally.faults.len());
    let mut last = String::new();
    for fault in &tally.faults {
        let name = fault.split(' ').next().unwrap_or_default().to_owned();
        if name != last {
            println!("  {}", fault.chars().take(500).collect::<String>());
        }
        last = name;
    }
    assert!(tally.faults.is_empty() && tally.refused > 1000, "{} changed something", tally.faults.len());
}
