//! Forward mode: tangents along one direction against differences and against backward passes, alone, in place and through one
//! another; and batches of tangents and gradients.

mod batches;
mod first;
mod second;
mod variants;

use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
use flambeau_core::{Result, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::clone;
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, is_in_place, operator, outcome, tensor};
use flambeau_tests::layout::Layout;
use flambeau_tests::leaves::{LAYOUTS, marked, replaced, samples, split, takes_part};
use flambeau_tests::op_db;
use flambeau_tests::report::Report;
use flambeau_tests::row::{Arg, Check, Row};

/// One direction takes three calls, whatever the sizes.
const FIRST_ORDER: usize = 100;
const SECOND_ORDER: usize = 36;

/// Half the distance of the two points of a difference, and how close is close: those of `gradcheck`.
const EPS: f64 = 1e-6;
const ATOL: f64 = 1e-5;
const RTOL: f64 = 1e-3;

/// Two orders of multiplying and adding the same numbers.
const ROUNDING: f64 = 1e-9;

/// Rows left out here, with the reason.
const LEFT_OUT: &[(&str, &str)] = &[("bernoulli", "differences lead out of the range of a probability")];

fn rows() -> Vec<Row> {
    let reason = |name: &str| LEFT_OUT.iter().find(|(row, _)| *row == name).map(|(_, reason)| *reason);
    let mark = |row: Row| match reason(row.name) {
        Some(reason) => row.skip(Check::Tangents, reason),
        None => row,
    };
    op_db::rows().into_iter().map(mark).filter(takes_part).collect()
}

/// A direction for each leaf.
fn directions(leaves: &[Tensor], seed: u64) -> Vec<Tensor> {
    let direction = |(i, leaf): (usize, &Tensor)| {
        let sizes: Vec<usize> = leaf.sizes().iter().map(|size| *size as usize).collect();
        tensor(&Array::fill(&sizes, -1.5..1.5, seed + i as u64), ScalarType::F64)
    };
    leaves.iter().enumerate().map(direction).collect()
}

/// The call with these inputs; an operator that writes gets a copy to write.
fn results(op: &dyn OperatorInfo, args: &[Arg], all: &[Value], inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut given = replaced(args, all, inputs);
    if let (Some(Value::Tensor(first)), true) = (given.first(), is_in_place(op)) {
        given[0] = Value::Tensor(clone(first, None)?);
    }
    outcome(op, &given)
}

fn plain(leaves: &[Tensor]) -> Result<Vec<Tensor>> {
    leaves.iter().map(Tensor::detach).collect()
}

/// The leaves with the directions as tangents.
fn duals(leaves: &[Tensor], directions: &[Tensor]) -> Result<Vec<Tensor>> {
    leaves.iter().zip(directions).map(|(leaf, direction)| make_dual(leaf, direction)).collect()
}

/// The tangents of all results, `None` where a result has none.
fn tangents(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let _level = dual_level()?;
    let duals = duals(&plain(leaves)?, directions)?;
    let made = results(op, args, all, &duals)?;
    made.iter().map(|result| Ok(unpack_dual(result)?.1.map(|tangent| array(&tangent)))).collect()
}

fn far(got: f64, expected: f64, atol: f64, rtol: f64) -> bool {
    let close = (got - expected).abs() <= atol + rtol * expected.abs();
    !(close || (got.is_nan() && expected.is_nan()) || got == expected)
}

fn weights(outputs: &[Tensor]) -> Vec<Tensor> {
    directions(outputs, 1000)
}

/// Calls `judge` on every sample of every row.
fn each_sample(
    rows: &[Row],
    most: usize,
    judge: impl Fn(&'static dyn OperatorInfo, &[Arg], Option<Layout>) -> Option<Result<Option<String>>>,
) {
    let mut report = Report::new(Check::Tangents);
    for row in rows {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, most) {
            for layout in LAYOUTS {
                let (leaves, _) = split(args, *layout);
                if leaves.is_empty() || (layout.is_some() && leaves.iter().all(Tensor::is_contiguous)) {
                    continue;
                }
                let Some(fault) = judge(op, args, *layout) else { continue };
                let fault = fault.unwrap_or_else(|error| Some(error.to_string()));
                report.case(|| format!("{} {layout:?} sample {number}", row.name), fault);
            }
        }
    }
    report.finish();
}

/// The rows, without those whose gradients are left out.
fn marked_as_gradients(check: Check) -> Vec<Row> {
    let mark = |row: Row| match row.skipped(check) {
        Some(reason) => row.skip(Check::Tangents, reason),
        None => row,
    };
    marked(rows(), flambeau_tests::leaves::LEFT_OUT).into_iter().map(mark).collect()
}
