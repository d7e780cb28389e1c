//! In place, `out=` and narrower types; and that no operator is left out.

use super::*;
use flambeau_core::{DispatchKey, ErrorKind};
use flambeau_ops::ops::OPERATORS;
use flambeau_tests::call::{is_random, values};
use flambeau_tests::leaves::optional_under_test;

/// The operator that writes its first argument and is otherwise the same.
fn in_place_twin(op: &dyn OperatorInfo) -> Option<&'static dyn OperatorInfo> {
    let base = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let in_place_name = format!("{}_", base(op.name()));
    let rest = |schema: &str| schema.split_once('(').map(|(_, rest)| rest.replace("(a!)", ""));
    let fits = |twin: &&&dyn OperatorInfo| {
        twin.name().starts_with(&in_place_name)
            && base(twin.name()) == in_place_name
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

/// No tangent is silently lost: every operator of tensors has a kernel that computes tangents or refuses them, or is a composite of
/// operators that do.
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

/// `out=` writes to tensors of the caller, also where nothing is recorded.
#[test]
fn no_operator_writes_a_tangent_into_out() {
    let mut report = Report::new(Check::Tangents);
    for row in &rows() {
        let base = row.name.split('.').next().unwrap_or_default();
        let is_twin = |op: &&&dyn OperatorInfo| {
            op.name().strip_prefix(base).is_some_and(|rest| rest.starts_with('.'))
                && operator(row.name).is_some_and(|own| {
                    arguments(op.schema()) == [arguments(own.schema()), vec!["Tensor(a!) out"]].concat()
                })
        };
        let (Some(op), Some(args)) = (OPERATORS.iter().find(is_twin), row.samples.first()) else { continue };
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

/// The call in a narrower type with tangents for its tensors under test, or without.
fn narrow(op: &dyn OperatorInfo, args: &[Arg], dtype: ScalarType, dual: bool) -> Result<Vec<Tensor>> {
    let constant = |arg: &Arg| match arg {
        Arg::Constant(a) => Arg::Typed(a.clone(), dtype),
        other => other.clone(),
    };
    let args: Vec<Arg> = args.iter().map(constant).collect();
    let mut seed = 0;
    let mut given = values(&args, &mut |a: &Array| {
        seed += 1;
        let direction = tensor(&Array::fill(&a.sizes, -1.5..1.5, seed), dtype);
        let plain = tensor(a, dtype);
        if dual { make_dual(&plain, &direction).unwrap() } else { plain }
    });
    if let (Some(Value::Tensor(first)), true) = (given.first(), is_in_place(op)) {
        given[0] = Value::Tensor(clone(first, None)?);
    }
    outcome(op, &given)
}

/// What is wrong with the tangents in a type.
fn in_type(op: &dyn OperatorInfo, args: &[Arg], dtype: ScalarType) -> Result<Option<String>> {
    let _level = dual_level()?;
    for (i, result) in narrow(op, args, dtype, true)?.iter().enumerate() {
        let Some(tangent) = unpack_dual(result)?.1 else { continue };
        if tangent.dtype() != result.dtype() || tangent.sizes() != result.sizes() {
            return Ok(Some(format!("result {i}: {result:?} has the tangent {tangent:?}")));
        }
    }
    Ok(None)
}

#[test]
fn tangents_have_the_type_and_the_sizes_of_their_results() {
    let mut report = Report::new(Check::Tangents);
    for row in &rows() {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        let narrower = [ScalarType::F16, ScalarType::BF16, ScalarType::F32];
        for dtype in narrower.into_iter().filter(|dtype| row.types.contains(dtype)) {
            for (number, args) in samples(row, SECOND_ORDER) {
                if narrow(op, args, dtype, false).is_err() {
                    continue;
                }
                let fault = in_type(op, args, dtype).unwrap_or_else(|error| Some(error.to_string()));
                report.case(|| format!("{} {dtype} sample {number}", row.name), fault);
            }
        }
    }
    report.finish();
}

/// An optional tensor that a row gives as a constant has the tangent that differences say, or the call refuses it: a tangent that
/// is silently lost is neither.
#[test]
fn optional_tensors_lose_no_tangent_in_silence() {
    let mut report = Report::new(Check::Tangents);
    let mut refused = 0;
    for row in &marked_as_gradients(Check::Gradients) {
        let Some(op) = operator(row.name) else { continue };
        if !report.enter(row) {
            continue;
        }
        for (number, args) in samples(row, SECOND_ORDER) {
            let under_test = optional_under_test(op, args);
            if split(&under_test, None).0.is_empty() {
                continue;
            }
            let fault = match first::of_optional(op, &under_test) {
                Err(error) if error.kind() == ErrorKind::NotImplemented => {
                    refused += 1;
                    None
                }
                fault => fault.unwrap_or_else(|error| Some(error.to_string())),
            };
            report.case(|| format!("{} optional, sample {number}", row.name), fault);
        }
    }
    println!("Optional: {refused} cases refused");
    report.finish();
}
