//! Every operator of the table on the mock devices: the host's bits, or an error that names operator and device; never a signal.
#![cfg(target_os = "linux")]

use flambeau::core::{Geometry, Storage, TensorImpl};
use flambeau::dispatch::{OperatorInfo, Value};
use flambeau::{Device, ErrorKind, Result, ScalarType, Tensor, cpu_fallback};
use flambeau_mock_device as _;
use flambeau_tests::call::{operator, seeded, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Arg;
use std::collections::BTreeMap;

fn mock(index: usize) -> Device {
    format!("mock:{index}").parse().unwrap()
}

/// The same elements in the same order of memory on another device.
fn moved(t: &Tensor, device: Device) -> Tensor {
    let storage: Storage = t.storage().copied_to(device).unwrap();
    let geometry: Geometry = t.geometry().clone();
    Tensor::from_impl(TensorImpl::new(storage, geometry, t.dtype()).unwrap())
}

/// Sizes, type and bytes in logical order.
fn bits(t: &Tensor) -> (Vec<i64>, ScalarType, Vec<u8>) {
    let t = moved(t, Device::CPU).contiguous().unwrap();
    let bytes = t.view_dtype(ScalarType::U8).ok().and_then(|bytes| bytes.to_vec::<u8>().ok());
    (t.sizes().to_vec(), t.dtype(), bytes.unwrap_or_default())
}

/// The arguments of a sample, each tensor on the device to which `to_device` moves it by its number.
fn arguments(sample: &[Arg], dtype: ScalarType, to_device: &dyn Fn(usize, Tensor) -> Tensor) -> Vec<Value> {
    let mut number = 0;
    let mut put = |t: Tensor| {
        number += 1;
        to_device(number - 1, t)
    };
    let all = values(sample, &mut |array| tensor(array, dtype));
    let each = |value| match value {
        Value::Tensor(t) => Value::Tensor(put(t)),
        Value::Tensors(list) => Value::Tensors(list.into_iter().map(&mut put).collect()),
        other => other,
    };
    all.into_iter().map(each).collect()
}

fn tensors(arguments: &[Value]) -> Vec<&Tensor> {
    arguments.iter().flat_map(Value::tensors).collect()
}

/// A call, and its arguments after it.
type Called = (Result<Vec<Tensor>>, Vec<Value>);

fn call(op: &dyn OperatorInfo, arguments: Vec<Value>) -> Called {
    (seeded(op, &arguments, 1), arguments)
}

/// Rows whose results have sizes and no values.
const WITHOUT_VALUES: [&str; 6] = [
    "empty.memory_format",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
];

/// What came of one call on the device beside the same on the host.
enum Outcome {
    Alike,
    /// Neither takes the arguments.
    NoCall,
    Refused(String),
    Fault(String),
}

fn compare(name: &str, here: &Called, there: &Called) -> Outcome {
    let has_values = !WITHOUT_VALUES.contains(&name);
    let bits = |t: &Tensor| {
        let (sizes, dtype, bytes) = bits(t);
        (sizes, dtype, if has_values { bytes } else { vec![] })
    };
    let differ = |what: &str| Outcome::Fault(format!("{what} differs"));
    match (&here.0, &there.0) {
        (Ok(a), Ok(b)) if a.len() != b.len() => differ("the number of results"),
        (Ok(a), Ok(b)) if a.iter().zip(b).any(|(a, b)| bits(a) != bits(b)) => differ("a result"),
        (Ok(_), Ok(_)) => {
            let mut pairs = tensors(&here.1).into_iter().zip(tensors(&there.1));
            if pairs.any(|(a, b)| bits(a) != bits(b)) { differ("an argument") } else { Outcome::Alike }
        }
        (Ok(_), Err(error)) => {
            let kinds = [ErrorKind::Device, ErrorKind::NotImplemented];
            let message = error.to_string();
            match kinds.contains(&error.kind()) && message.contains("mock") {
                true => Outcome::Refused(message),
                false => Outcome::Fault(format!("an error that does not name the device: {message}")),
            }
        }
        (Err(a), Err(b)) if a.kind() == b.kind() => Outcome::NoCall,
        (Err(a), Err(b)) => Outcome::Fault(format!("another error: {a} and {b}")),
        (Err(error), Ok(_)) => Outcome::Fault(format!("the host alone refuses: {error}")),
    }
}

#[test]
fn every_row_has_the_bits_of_the_host() {
    let device = mock(1);
    let (mut rows, mut cases, mut neither) = (0, 0, 0);
    let (mut refused, mut faults) = (BTreeMap::new(), BTreeMap::new());
    for row in op_db::rows() {
        let Some(op) = operator(row.name) else { continue };
        rows += 1;
        for &dtype in row.types {
            for sample in &row.samples {
                let here = call(op, arguments(sample, dtype, &|_, t| t));
                let there = call(op, arguments(sample, dtype, &|_, t| moved(&t, device)));
                match compare(row.name, &here, &there) {
                    Outcome::Alike => cases += 1,
                    Outcome::NoCall => neither += 1,
                    Outcome::Refused(message) => _ = refused.insert(row.name, message),
                    Outcome::Fault(message) => _ = faults.insert(row.name, format!("{dtype}: {message}")),
                }
            }
        }
    }
    println!(
        "{rows} rows, {cases} cases with the host's bits, {neither} that neither takes, {} rows refused",
        refused.len()
    );
    refused.iter().for_each(|(name, message)| println!("  {name}: {message}"));
    let fell_back = cpu_fallback::counts();
    let calls: u64 = fell_back.values().sum();
    println!("{} operators ran on the host in {calls} calls", fell_back.len());
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(rows > 1000 && cases > 40_000, "{rows} rows, {cases} cases");
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn a_tensor_elsewhere_is_an_error_or_joins() {
    let (mut well, mut refused) = (0, 0);
    for row in op_db::rows() {
        let (Some(op), Some(sample)) = (operator(row.name), row.samples.first()) else { continue };
        let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
        let count = tensors(&arguments(sample, dtype, &|_, t| t)).len();
        for other in [Device::CPU, mock(1)] {
            for at in (0..count).filter(|_| count > 1) {
                let to_device = |number, t: Tensor| moved(&t, if number == at { other } else { mock(0) });
                match call(op, arguments(sample, dtype, &to_device)).0 {
                    Ok(_) => well += 1,
                    Err(_) => refused += 1,
                }
            }
        }
    }
    println!("{well} calls gave a result, {refused} an error");
    assert!(refused > well);
}
