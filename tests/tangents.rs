//! Forward mode: tangents along one direction against differences and against backward passes, alone, in place and through one
//! another.

use flambeau_autograd::forward::{dual_level, make_dual, unpack_dual};
use flambeau_autograd::{Autograd, grad};
use flambeau_core::{DispatchKey, ErrorKind, Result, ScalarType, ensure};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::{OPERATORS, clone};
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, is_in_place, is_random, operator, outcome, tensor};
use flambeau_tests::layout::Layout;
use flambeau_tests::leaves::{LAYOUTS, differentiable, marked, replaced, samples, split, takes_part};
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

/// Two ways of multiplying and adding the same numbers.
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

/// The results at the leaves moved by a multiple of the directions, in the memory where they are.
fn moved(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
    by: f64,
) -> Result<Vec<Array>> {
    let leaves = plain(leaves)?;
    let before: Vec<Tensor> = leaves.iter().map(|leaf| clone(leaf, None)).collect::<Result<_>>()?;
    for (leaf, direction) in leaves.iter().zip(directions) {
        leaf.add_(&direction.mul_scalar(by)?)?;
    }
    let made = results(op, args, all, &leaves).map(|made| made.iter().map(array).collect());
    leaves.iter().zip(&before).try_for_each(|(leaf, before)| leaf.copy_(before, false).map(drop))?;
    made
}

/// Results with a history, by number.
fn carrying(op: &dyn OperatorInfo, args: &[Arg], all: &[Value], leaves: &[Tensor]) -> Result<Vec<bool>> {
    let recorded = results(op, args, all, leaves)?;
    Ok(recorded.iter().map(Tensor::requires_grad).collect())
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
    let dual = |(leaf, direction): (&Tensor, &Tensor)| make_dual(&leaf.detach()?, direction);
    let duals: Vec<Tensor> = leaves.iter().zip(directions).map(dual).collect::<Result<_>>()?;
    let made = results(op, args, all, &duals)?;
    made.iter().map(|result| Ok(unpack_dual(result)?.1.map(|tangent| array(&tangent)))).collect()
}

fn far(got: f64, wanted: f64, atol: f64, rtol: f64) -> bool {
    let close = (got - wanted).abs() <= atol + rtol * wanted.abs();
    !(close || (got.is_nan() && wanted.is_nan()) || got == wanted)
}

fn differences(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Array>> {
    let at = |by: f64| moved(op, args, all, leaves, directions, by);
    let (high, low) = (at(EPS)?, at(-EPS)?);
    let slope = |(high, low): (&Array, &Array)| high.zip(low, |h, l| (h - l) / (2.0 * EPS));
    Ok(high.iter().zip(&low).map(slope).collect())
}

/// What is wrong with the tangents of one call, in words.
fn against_differences(
    op: &dyn OperatorInfo,
    args: &[Arg],
    layout: Option<Layout>,
) -> Result<Option<String>> {
    let (leaves, all) = split(args, layout);
    let directions = directions(&leaves, 7);
    let carries = carrying(op, args, &all, &leaves)?;
    let got = tangents(op, args, &all, &leaves, &directions)?;
    let wanted = differences(op, args, &all, &leaves, &directions)?;
    let nothing = leaves.iter().all(|leaf| leaf.numel() == 0);
    for (i, carries) in carries.into_iter().enumerate() {
        match (&got[i], carries) {
            (None, false) => {}
            (None, true) => return Ok(Some(format!("result {i} has no tangent"))),
            (Some(_), false) => return Ok(Some(format!("result {i} has a tangent and no gradient"))),
            (Some(got), true) => {
                let wanted = &wanted[i];
                if got.sizes != wanted.sizes {
                    return Ok(Some(format!(
                        "result {i}: expected {:?} but got {:?}",
                        wanted.sizes, got.sizes
                    )));
                }
                // What does not depend on anything has no difference that is a number, and a tangent of zeros.
                let wrong = |k: &usize| !nothing && far(got.data[*k], wanted.data[*k], ATOL, RTOL);
                if let Some(k) = (0..got.data.len()).find(wrong) {
                    let (got, wanted) = (got.data[k], wanted.data[k]);
                    return Ok(Some(format!("result {i}, element {k}: expected {wanted:e} but got {got:e}")));
                }
            }
        }
    }
    Ok(None)
}

fn weights(outputs: &[Tensor]) -> Vec<Tensor> {
    directions(outputs, 1000)
}

fn product(a: &Array, b: &Array) -> (f64, f64) {
    let terms = a.data.iter().zip(&b.data).map(|(a, b)| a * b);
    (terms.clone().sum(), terms.map(f64::abs).sum())
}

/// `u . (J v)` by forward mode and `(J^T u) . v` by a backward pass.
fn against_backward(op: &dyn OperatorInfo, args: &[Arg]) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    if leaves.iter().all(|leaf| leaf.numel() == 0) {
        return Ok(None);
    }
    let directions = directions(&leaves, 7);
    let outputs = results(op, args, &all, &leaves)?;
    let carries: Vec<bool> = outputs.iter().map(Tensor::requires_grad).collect();
    let outputs: Vec<Tensor> = outputs.into_iter().filter(Tensor::requires_grad).collect();
    let seeds = weights(&outputs);
    let given: Vec<Option<Tensor>> = seeds.iter().cloned().map(Some).collect();
    let grads = grad(&outputs, &leaves, &given, None, false, true)?;
    let tangents = tangents(op, args, &all, &leaves, &directions)?;
    let forward = tangents.iter().zip(carries).filter(|(_, carries)| *carries).zip(&seeds);
    let (mut one, mut other, mut size) = (0.0, 0.0, 1e-3);
    for ((tangent, _), seed) in forward {
        let Some(tangent) = tangent else { continue };
        let (sum, terms) = product(tangent, &array(seed));
        one += sum;
        size += terms;
    }
    for (grad, direction) in grads.iter().zip(&directions) {
        let Some(grad) = grad else { continue };
        let (sum, terms) = product(&array(grad), &array(direction));
        other += sum;
        size += terms;
    }
    Ok(far(one, other, ROUNDING * size, 0.0).then(|| format!("forward gives {one:e}, backward {other:e}")))
}

/// The gradients of `f` weighted by `seeds`, and the tangents of those along the directions, by a backward pass in a level.
fn forward_over_reverse(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let _level = dual_level()?;
    let dual = |(leaf, direction): (&Tensor, &Tensor)| make_dual(leaf, direction);
    let duals: Vec<Tensor> = leaves.iter().zip(directions).map(dual).collect::<Result<_>>()?;
    let outputs: Vec<Tensor> =
        results(op, args, all, &duals)?.into_iter().filter(Tensor::requires_grad).collect();
    ensure!(!outputs.is_empty(), Autograd, "expected a result with a history");
    let seeds: Vec<Option<Tensor>> = weights(&outputs).into_iter().map(Some).collect();
    let grads = grad(&outputs, leaves, &seeds, None, false, true)?;
    let tangent = |grad: Option<Tensor>| match grad {
        Some(grad) => Ok(unpack_dual(&grad)?.1.map(|tangent| array(&tangent))),
        None => Ok(None),
    };
    grads.into_iter().map(tangent).collect()
}

/// The gradients of the tangents, weighted by the same seeds: a backward pass through forward mode.
fn reverse_over_forward(
    op: &dyn OperatorInfo,
    args: &[Arg],
    all: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let _level = dual_level()?;
    let dual = |(leaf, direction): (&Tensor, &Tensor)| make_dual(leaf, direction);
    let duals: Vec<Tensor> = leaves.iter().zip(directions).map(dual).collect::<Result<_>>()?;
    let outputs: Vec<Tensor> =
        results(op, args, all, &duals)?.into_iter().filter(Tensor::requires_grad).collect();
    let (mut recorded, mut seeds) = (vec![], vec![]);
    for (output, seed) in outputs.iter().zip(weights(&outputs)) {
        if let Some(tangent) = unpack_dual(output)?.1.filter(Tensor::requires_grad) {
            recorded.push(tangent);
            seeds.push(Some(seed));
        }
    }
    if recorded.is_empty() {
        return Ok(vec![None; leaves.len()]);
    }
    let seconds = grad(&recorded, leaves, &seeds, None, false, true)?;
    Ok(seconds.into_iter().map(|second| second.map(|second| array(&second))).collect())
}

/// The same by a backward pass through a backward pass.
fn reverse_over_reverse(
    op: &dyn OperatorInfo,
    given: &[Value],
    leaves: &[Tensor],
    directions: &[Tensor],
) -> Result<Vec<Option<Array>>> {
    let outputs = differentiable(op, given)?;
    let seeds: Vec<Option<Tensor>> = weights(&outputs).into_iter().map(Some).collect();
    let grads = grad(&outputs, leaves, &seeds, None, true, true)?;
    let (mut recorded, mut along) = (vec![], vec![]);
    for (grad, direction) in grads.into_iter().zip(directions) {
        if let Some(grad) = grad.filter(Tensor::requires_grad) {
            recorded.push(grad);
            along.push(Some(direction.clone()));
        }
    }
    if recorded.is_empty() {
        return Ok(vec![None; leaves.len()]);
    }
    let seconds = grad(&recorded, leaves, &along, None, false, true)?;
    Ok(seconds.into_iter().map(|second| second.map(|second| array(&second))).collect())
}

/// Derivatives of second order with a forward part, of a call with these leaves along these directions.
type Mixed = fn(&dyn OperatorInfo, &[Arg], &[Value], &[Tensor], &[Tensor]) -> Result<Vec<Option<Array>>>;

fn second_order(op: &dyn OperatorInfo, args: &[Arg], mixed: Mixed) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    let directions = directions(&leaves, 7);
    let mixed = mixed(op, args, &all, &leaves, &directions)?;
    let reverse = reverse_over_reverse(op, &all, &leaves, &directions)?;
    for (i, (mixed, reverse)) in mixed.iter().zip(&reverse).enumerate() {
        let zeros = || leaves[i].numel() as usize;
        let values = |given: &Option<Array>| given.as_ref().map_or(vec![0.0; zeros()], |a| a.data.clone());
        let (mixed, reverse) = (values(mixed), values(reverse));
        let most = reverse.iter().filter(|x| x.is_finite()).fold(1.0, |most: f64, x| most.max(x.abs()));
        let wrong = |k: &usize| far(mixed[*k], reverse[*k], 10.0 * ROUNDING * most, 0.0);
        if let Some(k) = (0..mixed.len()).find(wrong) {
            let (mixed, reverse) = (mixed[k], reverse[k]);
            return Ok(Some(format!("leaf {i}, element {k}: expected {reverse:e} but got {mixed:e}")));
        }
    }
    Ok(None)
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

#[test]
fn tangents_are_those_of_differences() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| Some(against_differences(op, args, layout)));
}

#[test]
fn tangents_and_gradients_are_transposes() {
    let rows = marked_as_gradients(Check::Gradients);
    each_sample(&rows, FIRST_ORDER, |op, args, layout| match layout {
        None => Some(against_backward(op, args)),
        Some(_) => None,
    });
}

fn both_orders(mixed: Mixed) {
    let rows = marked_as_gradients(Check::SecondGradients);
    each_sample(&rows, SECOND_ORDER, |op, args, layout| match layout {
        None => Some(second_order(op, args, mixed)),
        Some(_) => None,
    });
}

#[test]
fn forward_over_reverse_is_reverse_over_reverse() {
    both_orders(forward_over_reverse);
}

#[test]
fn reverse_over_forward_is_reverse_over_reverse() {
    both_orders(reverse_over_forward);
}

/// The rows, without those whose gradients are left out.
fn marked_as_gradients(check: Check) -> Vec<Row> {
    let mark = |row: Row| match row.skipped(check) {
        Some(reason) => row.skip(Check::Tangents, reason),
        None => row,
    };
    marked(rows(), flambeau_tests::leaves::LEFT_OUT).into_iter().map(mark).collect()
}

/// The operator that writes its first argument and is otherwise the same.
fn in_place_twin(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    let base = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let wanted = format!("{}_", base(op.name()));
    let rest = |schema: &str| schema.split_once('(').map(|(_, rest)| rest.replace("(a!)", ""));
    let fits = |twin: &&&dyn OperatorInfo| {
        twin.name().starts_with(&wanted)
            && base(twin.name()) == wanted
            && rest(twin.schema()) == rest(op.schema())
    };
    OPERATORS.iter().find(fits).copied()
}

fn in_place(op: &dyn OperatorInfo, twin: &dyn OperatorInfo, args: &[Arg]) -> Result<Option<String>> {
    let (leaves, all) = split(args, None);
    let directions = directions(&leaves, 7);
    let functional = tangents(op, args, &all, &leaves, &directions)?;
    let written = tangents(twin, args, &all, &leaves, &directions)?;
    Ok((functional != written).then(|| format!("expected {functional:?} but got {written:?}")))
}

/// Operators that write give what is written the tangent of the functional operator's result, bit by bit.
#[test]
fn tangents_are_written_in_place() {
    let rows: Vec<Row> = rows()
        .into_iter()
        .filter(|row| operator(row.name).is_some_and(|op| !is_random(op) && in_place_twin(op).is_some()))
        .collect();
    each_sample(&rows, SECOND_ORDER, |op, args, layout| {
        let twin = in_place_twin(op).filter(|_| layout.is_none())?;
        let (leaves, all) = split(args, None);
        let plain = plain(&leaves).and_then(|leaves| results(op, args, &all, &leaves)).ok()?;
        let fits = matches!((all.first(), plain.first()), (Some(Value::Tensor(first)), Some(result))
            if first.sizes() == result.sizes() && result.dtype() == first.dtype());
        fits.then(|| in_place(op, twin, args))
    });
}

/// A tangent never goes missing in silence: whoever takes a tensor has a kernel that carries it along or refuses it, or is made
/// of operators that do.
#[test]
fn every_operator_on_tensors_carries_tangents() {
    let takes_tensors = |op: &&&dyn OperatorInfo| {
        let inputs = op.schema().split(" -> ").next().unwrap_or_default();
        inputs.contains("Tensor")
    };
    let is_silent = |op: &&&dyn OperatorInfo| {
        !op.has_kernel(DispatchKey::ForwardGrad) && !op.has_kernel(DispatchKey::CompositeImplicitAutograd)
    };
    let silent: Vec<&str> =
        OPERATORS.iter().filter(takes_tensors).filter(is_silent).map(|op| op.name()).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// `out=` writes what comes from outside, also where nothing is recorded.
#[test]
fn no_operator_writes_a_tangent_into_out() {
    let mut report = Report::new(Check::Tangents);
    for row in &rows() {
        let base = row.name.split('.').next().unwrap_or_default();
        let wanted = |op: &&&dyn OperatorInfo| {
            op.name().strip_prefix(base).is_some_and(|rest| rest.starts_with('.'))
                && operator(row.name).is_some_and(|own| {
                    arguments(op.schema()) == [arguments(own.schema()), vec!["Tensor(a!) out"]].concat()
                })
        };
        let (Some(op), Some(args)) = (OPERATORS.iter().find(wanted), row.samples.first()) else { continue };
        let (leaves, all) = split(args, None);
        let (Some(plain), true) = (plain_result(row, &all), report.enter(row)) else { continue };
        let refused = || {
            let _level = dual_level()?;
            let duals: Vec<Tensor> =
                leaves.iter().map(|leaf| make_dual(&leaf.detach()?, leaf)).collect::<Result<_>>()?;
            let mut given = replaced(args, &all, &duals);
            given.push(Value::Tensor(plain));
            Ok(match op.call_boxed(&given) {
                Err(error) if error.kind() == ErrorKind::NotImplemented => None,
                other => Some(format!("expected a refusal but got {other:?}")),
            })
        };
        let fault = refused().unwrap_or_else(|error: flambeau_core::Error| Some(error.to_string()));
        report.case(|| op.name().to_owned(), fault);
    }
    report.finish();
}

/// The arguments of a schema, each with its type.
fn arguments(schema: &str) -> Vec<&str> {
    let list = schema.split_once('(').and_then(|(_, rest)| rest.split_once(") ->"));
    list.map_or("", |(list, _)| list).split(", ").filter(|argument| *argument != "*").collect()
}

/// The only result of the call, to be written.
fn plain_result(row: &Row, all: &[Value]) -> Option<Tensor> {
    let results = operator(row.name)?.call_boxed(all).ok()?;
    match results.as_slice() {
        [Value::Tensor(result)] => result.detach().ok(),
        _ => None,
    }
}
