//! Gradients of the rows of the operator table on the device, beside the host's, in f64.

use super::rows::{Report, in_threads, may_run, unlisted};
use super::{DEVICE, is_quick};
use flambeau::autograd::grad;
use flambeau::dispatch::{OperatorInfo, Value};
use flambeau::{Autograd, Device, ErrorKind, Result, ScalarType, Tensor};
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, operator, tensor};
use flambeau_tests::leaves::{differentiable, replaced, rows, samples, split, takes_part};
use flambeau_tests::row::{Arg, Row};

/// Of so many elements at most are the samples.
const MOST: usize = 40;

/// Rounding errors of f64, beside the largest element of a gradient, or the size of the terms that are summed.
const TOLERANCE: f64 = 1e-11;

/// Weights of the elements of a result.
fn weights(like: &Tensor) -> Result<Tensor> {
    let sizes: Vec<usize> = like.sizes().iter().map(|size| *size as usize).collect();
    let data = (0..sizes.iter().product()).map(|i: usize| 1.0 + 0.25 * (i % 5) as f64).collect();
    tensor(&Array::new(&sizes, data), like.dtype()).to(like.device())
}

/// The gradients of a call, on one device.
fn gradients(op: &dyn OperatorInfo, sample: &[Arg], device: Device) -> Result<Vec<Option<Tensor>>> {
    let (leaves, all) = split(sample, None);
    let moved = |leaf: &Tensor| leaf.detach()?.to(device)?.with_requires_grad(true);
    let leaves: Vec<Tensor> = leaves.iter().map(moved).collect::<Result<_>>()?;
    let to = |value: Value| -> Result<Value> {
        Ok(match value {
            Value::Tensor(t) => Value::Tensor(t.detach()?.to(device)?),
            Value::Tensors(list) => {
                Value::Tensors(list.iter().map(|t| t.detach()?.to(device)).collect::<Result<_>>()?)
            }
            Value::Device(_) => Value::Device(device),
            other => other,
        })
    };
    let given = replaced(sample, &all.into_iter().map(to).collect::<Result<Vec<_>>>()?, &leaves);
    let outputs = differentiable(op, &given)?;
    let seeds = outputs.iter().map(|output| weights(output).map(Some)).collect::<Result<Vec<_>>>()?;
    grad(&outputs, &leaves, &seeds, None, false, true)
}

/// The first gradient that differs, as text.
fn difference(row: &Row, here: &[Option<Tensor>], there: &[Option<Tensor>]) -> Option<String> {
    let differs = |(i, (a, b)): (usize, (&Option<Tensor>, &Option<Tensor>))| {
        let (a, b) = match (a, b) {
            (None, None) => return None,
            (Some(a), Some(b)) => (array(a), array(b)),
            _ => return Some(format!("gradient {i} is there on one of the two only")),
        };
        let size = a.data.iter().filter(|x| x.is_finite()).fold(row.terms, |most, x| most.max(x.abs()));
        let close =
            |(x, y): (&f64, &f64)| x == y || (x - y).abs() <= TOLERANCE * size || (x.is_nan() && y.is_nan());
        let at = a.data.iter().zip(&b.data).position(|pair| !close(pair))?;
        Some(format!(
            "element {at} of gradient {i} is {:e} on the host, {:e} on the device",
            a.data[at], b.data[at]
        ))
    };
    here.iter().zip(there).enumerate().find_map(differs)
}

fn compare(
    report: &mut Report,
    row: &Row,
    here: Result<Vec<Option<Tensor>>>,
    there: Result<Vec<Option<Tensor>>>,
) {
    match (here, there) {
        (Ok(here), Ok(there)) => match difference(row, &here, &there) {
            None => report.alike(row.name),
            Some(text) => report.fault(row.name, ScalarType::F64, text),
        },
        (Err(_), Err(_)) => report.neither += 1,
        (_, Err(error)) if error.kind() == ErrorKind::NotImplemented => {
            report.lacks(row.name, error.to_string())
        }
        (Ok(_), Err(error)) => {
            report.fault(row.name, ScalarType::F64, format!("only the device refuses: {error}"))
        }
        (Err(error), Ok(_)) => {
            report.fault(row.name, ScalarType::F64, format!("only the host refuses: {error}"))
        }
    }
}

/// The gradients of the first samples of every row that has derivatives.
pub(super) fn of_rows() -> Result<usize> {
    let count = if is_quick() { 1 } else { 4 };
    let rows: Vec<Row> = rows().into_iter().filter(|row| takes_part(row) && may_run(row)).collect();
    let report = in_threads(&rows, 1.0, |row, notes| {
        let Some(op) = operator(row.name) else { return };
        // Empty tensors have no gradients to compare.
        let full = |(_, sample): &(usize, &Vec<Arg>)| {
            !sample.iter().any(|arg| matches!(arg, Arg::Tensor(array) if array.data.is_empty()))
        };
        let mut each = samples(row, MOST).filter(full).collect::<Vec<_>>();
        // The last ones have more dimensions.
        each.reverse();
        for (_, sample) in each.into_iter().take(count) {
            let (here, there) = (gradients(op, sample, Device::CPU), gradients(op, sample, DEVICE));
            notes.with(|report| compare(report, row, here, there));
        }
    });
    report.print("gradients");
    let missing = unlisted(&report.missing, false);
    Ok(report.faults() + missing)
}
