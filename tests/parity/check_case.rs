//! Compares the result of a call with PyTorch's.

use crate::read::{Case, Expected, Fault, Given, Outcome, flat_tensor};
use flambeau_autograd::Autograd;
use flambeau_core::{Complex, Result, ScalarType};
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::{Tensor, ops};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The kind of a disagreement, and the particulars.
pub type Disagreement = (&'static str, String);

/// Calls `op` as the case says, and names the first thing that is not as expected.
pub fn check_case(op: &dyn OperatorInfo, case: &Case) -> Option<Disagreement> {
    let outcome = catch_unwind(AssertUnwindSafe(|| match &case.expected {
        Expected::Gradients { seeds, gradients } => differentiate(op, case, seeds, gradients),
        _ => compare(op, case, op.call_boxed(&case.arguments)),
    }));
    match outcome {
        Err(payload) => Some(("panics", words_of(payload.as_ref()))),
        Ok(found) => found.unwrap_or_else(|e| Some(("refuses", e.to_string()))),
    }
}

fn words_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no words").to_string()
}

fn compare(
    op: &dyn OperatorInfo,
    case: &Case,
    result: Result<Vec<Value>>,
) -> std::result::Result<Option<Disagreement>, Fault> {
    match (&case.expected, result) {
        (Expected::Refusal(_), Err(_)) | (Expected::Gradients { .. }, _) => Ok(None),
        (Expected::Refusal(why), Ok(values)) => {
            let made = if values.is_empty() { written(op, case) } else { tensors(&values) };
            let is_empty = !made.is_empty() && made.iter().all(|t| t.numel() == 0);
            let kind = if is_empty { "accepts empty" } else { "accepts" };
            Ok(Some((kind, format!("PyTorch says: {why}"))))
        }
        (Expected::Results { .. }, Err(_)) if case.may_refuse => Ok(None),
        (Expected::Results { written, outcomes, .. }, Err(error)) => {
            let is_empty = is_without_elements(written, outcomes);
            Ok(Some((if is_empty { "refuses empty" } else { "refuses" }, format!("{error}"))))
        }
        (Expected::Results { storages, written, outcomes }, Ok(values)) => {
            if let Some(found) = compare_written(case, storages, written)? {
                return Ok(Some(found));
            }
            if op.schema().contains("!)") && values.is_empty() {
                return Ok(None);
            }
            compare_outcomes(case, outcomes, &values)
        }
    }
}

/// The arguments that the call writes.
fn written(op: &dyn OperatorInfo, case: &Case) -> Vec<Tensor> {
    let parameters = op.schema().split(", ").filter(|parameter| *parameter != "*");
    let pairs = parameters.zip(&case.arguments).filter(|(parameter, _)| parameter.contains("!)"));
    pairs.flat_map(|(_, value)| tensors(std::slice::from_ref(value))).collect()
}

/// Whether what PyTorch wrote and returned has no elements.
fn is_without_elements(written: &[(usize, Given)], outcomes: &[Outcome]) -> bool {
    let of_outcomes = outcomes.iter().flat_map(|outcome| match outcome {
        Outcome::Tensor(given) => std::slice::from_ref(given),
        Outcome::Tensors(list) => list.as_slice(),
        Outcome::None | Outcome::Number(_) => &[],
    });
    let mut all = written.iter().map(|(_, given)| given).chain(of_outcomes).peekable();
    all.peek().is_some() && all.all(|given| given.bytes.is_empty())
}

/// The tensors among values, in order.
fn tensors(values: &[Value]) -> Vec<Tensor> {
    let all = |value: &Value| match value {
        Value::Tensor(t) => vec![t.clone()],
        Value::Tensors(list) => list.clone(),
        Value::OptionalTensors(list) => list.iter().flatten().cloned().collect(),
        _ => vec![],
    };
    values.iter().flat_map(all).collect()
}

/// Derivatives of the call for its f32 and f64 tensors. No gradient is as good as zeros.
fn differentiate(
    op: &dyn OperatorInfo,
    case: &Case,
    seeds: &[Given],
    gradients: &[Outcome],
) -> std::result::Result<Option<Disagreement>, Fault> {
    let wide = |t: &Tensor| matches!(t.dtype(), ScalarType::F32 | ScalarType::F64);
    let mut leaves = tensors(&case.arguments);
    leaves.retain(|t| wide(t) && !t.is_wrapped_number());
    leaves.iter().try_for_each(|leaf| leaf.requires_grad_(true).map(|_| ()))?;
    let mut outputs = tensors(&op.call_boxed(&case.arguments)?);
    outputs.retain(Tensor::requires_grad);
    if outputs.len() != seeds.len() {
        let words = format!("expected {} results with a history but got {}", seeds.len(), outputs.len());
        return Ok(Some(("history", words)));
    }
    let seed = |given: &Given| -> std::result::Result<Option<Tensor>, Fault> {
        let flat = flat_tensor(given.dtype, &given.bytes)?;
        Ok(Some(ops::view(&flat, &given.sizes)?))
    };
    let seeds: Vec<Option<Tensor>> = seeds.iter().map(seed).collect::<std::result::Result<_, _>>()?;
    let got = flambeau_autograd::grad(&outputs, &leaves, &seeds, None, false, true)?;
    for (at, (expected, got)) in gradients.iter().zip(&got).enumerate() {
        let words = match (expected, got) {
            (Outcome::Tensor(given), Some(got)) => error_of(given, &numbers(got)?)?,
            (Outcome::Tensor(given), None) => {
                let zeros = vec![Number::Real(0.0); elements(given)?.len()];
                error_of(given, &zeros)?.map(|words| format!("no gradient: {words}"))
            }
            _ => None,
        };
        if let Some(words) = words {
            return Ok(Some(("gradients", format!("of tensor {at}: {words}"))));
        }
    }
    Ok(None)
}

/// What the call wrote to its arguments, and what it left alone.
fn compare_written(
    case: &Case,
    storages: &[Option<Vec<u8>>],
    written: &[(usize, Given)],
) -> std::result::Result<Option<Disagreement>, Fault> {
    for (position, given) in written {
        let Some(Value::Tensor(tensor)) = case.arguments.get(*position) else { continue };
        if let Some((kind, words)) = compare_tensor(case, given, tensor)? {
            return Ok(Some((kind, format!("argument {position}: {words}"))));
        }
        // What differs in rounding alone is no difference in memory either.
        if case.has_values {
            let expected = flat_tensor(given.dtype, &given.bytes)?;
            ops::copy_(tensor, &ops::view(&expected, &given.sizes)?, false)?;
        }
    }
    for (at, (bytes, tensor)) in storages.iter().zip(&case.storages).enumerate() {
        let Some(bytes) = bytes else { continue };
        let expected = flat_tensor(tensor.dtype(), bytes)?;
        if let Some(words) = difference(&numbers(&expected)?, &numbers(tensor)?, tensor.dtype()) {
            let mutates = !written.is_empty();
            if case.has_values || !mutates {
                return Ok(Some(("writes", format!("memory of argument {at}: {words}"))));
            }
        }
    }
    Ok(None)
}

fn compare_outcomes(
    case: &Case,
    outcomes: &[Outcome],
    values: &[Value],
) -> std::result::Result<Option<Disagreement>, Fault> {
    if outcomes.len() != values.len() {
        return Ok(Some(("count", format!("expected {} results but got {}", outcomes.len(), values.len()))));
    }
    for (at, pair) in outcomes.iter().zip(values).enumerate() {
        let found = match pair {
            (Outcome::None, Value::Tensor(tensor)) if tensor.numel() == 0 => None,
            (Outcome::None, Value::None) => None,
            (Outcome::Tensor(given), Value::Tensor(tensor)) => compare_tensor(case, given, tensor)?,
            (Outcome::Tensors(given), Value::Tensors(list)) => compare_list(case, given, list)?,
            (Outcome::Number(expected), value) => compare_number(*expected, value),
            (_, value) => Some(("count", format!("got {value:?}"))),
        };
        if let Some((kind, words)) = found {
            return Ok(Some((kind, format!("result {at}: {words}"))));
        }
    }
    Ok(None)
}

fn compare_list(
    case: &Case,
    given: &[Given],
    list: &[Tensor],
) -> std::result::Result<Option<Disagreement>, Fault> {
    if given.len() != list.len() {
        return Ok(Some(("count", format!("expected {} tensors but got {}", given.len(), list.len()))));
    }
    for (given, tensor) in given.iter().zip(list) {
        if let Some(found) = compare_tensor(case, given, tensor)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn compare_number(expected: f64, value: &Value) -> Option<Disagreement> {
    let got = match value {
        Value::Scalar(s) => s.to_f64(),
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        Value::Bool(b) => f64::from(u8::from(*b)),
        other => return Some(("count", format!("expected a number but got {other:?}"))),
    };
    (!close(expected, got, ScalarType::F32))
        .then(|| ("values", format!("expected {expected:e} but got {got:e}")))
}

fn compare_tensor(
    case: &Case,
    given: &Given,
    tensor: &Tensor,
) -> std::result::Result<Option<Disagreement>, Fault> {
    if given.dtype != tensor.dtype() {
        return Ok(Some(("type", format!("expected {} but got {}", given.dtype, tensor.dtype()))));
    }
    if given.sizes != tensor.sizes() {
        return Ok(Some(("sizes", format!("expected {:?} but got {:?}", given.sizes, tensor.sizes()))));
    }
    let bases = &case.storages;
    let alias = bases.iter().position(|base| base.storage().data_ptr() == tensor.storage().data_ptr());
    if tensor.numel() > 0 && given.alias.is_some() != alias.is_some() {
        let words = |a: bool| if a { "a view of an argument" } else { "memory of its own" };
        let message = format!("expected {} but got {}", words(given.alias.is_some()), words(alias.is_some()));
        return Ok(Some(("aliases", message)));
    }
    if case.has_values
        && let Some(words) = error_of(given, &numbers(tensor)?)?
    {
        return Ok(Some(("values", words)));
    }
    let matters = |d: &usize| given.sizes[*d] > 1 && tensor.numel() > 0;
    let differs = |d: usize| given.strides[d] != tensor.strides()[d];
    if (0..given.sizes.len()).filter(matters).any(differs) {
        let (expected, got) = (&given.strides, tensor.strides());
        return Ok(Some((
            "strides",
            format!("sizes {:?}: expected {expected:?} but got {got:?}", given.sizes),
        )));
    }
    if given.alias.is_some() && tensor.numel() > 0 && given.offset != tensor.storage_offset() {
        let words = format!("expected the offset {} but got {}", given.offset, tensor.storage_offset());
        return Ok(Some(("strides", words)));
    }
    Ok(None)
}

/// An element, wide enough for any type.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
    Complex([f64; 2]),
}

/// The elements in logical order.
fn numbers(tensor: &Tensor) -> Result<Vec<Number>> {
    fn all<T: flambeau_core::Element>(tensor: &Tensor, to: fn(T) -> Number) -> Result<Vec<Number>> {
        Ok(tensor.to_vec::<T>()?.into_iter().map(to).collect())
    }
    match tensor.dtype() {
        ScalarType::Bool => all(tensor, |x: bool| Number::Whole(x.into())),
        ScalarType::U8 => all(tensor, |x: u8| Number::Whole(x.into())),
        ScalarType::I8 => all(tensor, |x: i8| Number::Whole(x.into())),
        ScalarType::I16 => all(tensor, |x: i16| Number::Whole(x.into())),
        ScalarType::I32 => all(tensor, |x: i32| Number::Whole(x.into())),
        ScalarType::I64 => all(tensor, |x: i64| Number::Whole(x.into())),
        ScalarType::U16 => all(tensor, |x: u16| Number::Whole(x.into())),
        ScalarType::U32 => all(tensor, |x: u32| Number::Whole(x.into())),
        ScalarType::U64 => all(tensor, |x: u64| Number::Whole(x.into())),
        ScalarType::F16 => all(tensor, |x: half::f16| Number::Real(x.into())),
        ScalarType::BF16 => all(tensor, |x: half::bf16| Number::Real(x.into())),
        ScalarType::F32 => all(tensor, |x: f32| Number::Real(x.into())),
        ScalarType::Complex64 => all(tensor, |x: Complex<f32>| Number::Complex([x.re.into(), x.im.into()])),
        ScalarType::Complex128 => all(tensor, |x: Complex<f64>| Number::Complex([x.re, x.im])),
        _ => all(tensor, Number::Real),
    }
}

/// The elements of a tensor that PyTorch gave, in logical order.
fn elements(given: &Given) -> std::result::Result<Vec<Number>, Fault> {
    Ok(numbers(&flat_tensor(given.dtype, &given.bytes)?)?)
}

/// Describes in what the elements differ from those that PyTorch gave. Those that are right by what PyTorch gives in 64 bits do not.
fn error_of(given: &Given, got: &[Number]) -> std::result::Result<Option<String>, Fault> {
    let expected = elements(given)?;
    let found = difference(&expected, got, given.computed);
    if found.is_none() {
        return Ok(found);
    }
    let wide = match given.dtype {
        dtype if dtype.is_complex() => ScalarType::Complex128,
        dtype if dtype.is_floating_point() => ScalarType::F64,
        dtype => dtype,
    };
    let exact = match given.exact.as_slice() {
        [] => expected.clone(),
        bytes => numbers(&flat_tensor(wide, bytes)?)?,
    };
    let spread = flat_tensor(ScalarType::F64, &given.spread)?.to_vec::<f64>()?;
    let is_right = is_right(&exact, &expected, got, given.computed)
        || is_of_rounded_arguments(&exact, &spread, got, given.computed);
    Ok(found.filter(|_| !is_right))
}

/// Whether each element is within the tolerances, or within the relative one of the terms that it is made of: no farther away than it moves
/// when the arguments do.
fn is_of_rounded_arguments(exact: &[Number], spread: &[f64], got: &[Number], dtype: ScalarType) -> bool {
    /// The arguments were moved by up to this part of the relative tolerance.
    const SHARE: f64 = 8.0;
    let is_near = |((a, b), step): ((&Number, &Number), &f64)| {
        a.distance(*b) <= SHARE * step || difference(&[a.rounded(dtype)], &[*b], dtype).is_none()
    };
    spread.len() == exact.len() && exact.iter().zip(got).zip(spread).all(is_near)
}

/// Whether elements are within the tolerances of what 64 bits give, or as near to it as PyTorch's.
fn is_right(exact: &[Number], expected: &[Number], got: &[Number], dtype: ScalarType) -> bool {
    let rounded: Vec<Number> = exact.iter().map(|number| number.rounded(dtype)).collect();
    if difference(&rounded, got, dtype).is_none() {
        return true;
    }
    let all = || exact.iter().zip(expected.iter().zip(got));
    let is_finite = |number: &&Number| number.parts().iter().all(|part| part.is_finite());
    let away = |of: &[Number]| {
        let pairs = exact.iter().zip(of).filter(|(exact, _)| is_finite(exact));
        // NaN is farther away than anything.
        pairs
            .map(|(a, b)| a.distance(*b))
            .fold(0.0, |most: f64, next| if next > most || next.is_nan() { next } else { most })
    };
    let others: Vec<_> = all().filter(|(exact, _)| !is_finite(exact)).map(|(_, pair)| pair).collect();
    let (theirs, ours): (Vec<Number>, Vec<Number>) = others.into_iter().map(|(a, b)| (*a, *b)).unzip();
    away(got) <= away(expected) && difference(&theirs, &ours, dtype).is_none()
}

impl Number {
    /// Its real and its imaginary part.
    fn parts(self) -> [f64; 2] {
        match self {
            Number::Whole(i) => [i as f64, 0.0],
            Number::Real(x) => [x, 0.0],
            Number::Complex(z) => z,
        }
    }

    fn distance(self, other: Number) -> f64 {
        let ([a, b], [c, d]) = (self.parts(), other.parts());
        (a - c).hypot(b - d)
    }

    /// The nearest number of a type.
    fn rounded(self, dtype: ScalarType) -> Number {
        let part = |x: f64| match dtype.to_real() {
            ScalarType::F16 => half::f16::from_f64(x).to_f64(),
            ScalarType::BF16 => half::bf16::from_f64(x).to_f64(),
            ScalarType::F32 => f64::from(x as f32),
            _ => x,
        };
        match self {
            Number::Whole(i) => Number::Whole(i),
            Number::Real(x) => Number::Real(part(x)),
            Number::Complex([re, im]) => Number::Complex([part(re), part(im)]),
        }
    }
}

/// Describes the first element that differs, and counts those that do.
fn difference(expected: &[Number], got: &[Number], dtype: ScalarType) -> Option<String> {
    let wrong: Vec<usize> = (0..expected.len().min(got.len()))
        .filter(|&i| match (expected[i], got[i]) {
            (Number::Whole(a), Number::Whole(b)) => a != b,
            (Number::Real(a), Number::Real(b)) => !close(a, b, dtype),
            (Number::Complex(a), Number::Complex(b)) => !close_complex(a, b, dtype),
            _ => true,
        })
        .collect();
    let words = |n: Number| match n {
        Number::Whole(i) => format!("{i}"),
        Number::Real(f) => format!("{f:e}"),
        Number::Complex([re, im]) => format!("{re:e}{im:+e}j"),
    };
    let first = *wrong.first()?;
    let (a, b) = (words(expected[first]), words(got[first]));
    Some(format!("element {first}: expected {a} but got {b} ({} of {} differ)", wrong.len(), expected.len()))
}

/// The relative and the absolute tolerance of `torch.testing.assert_close`.
fn tolerances(dtype: ScalarType) -> (f64, f64) {
    match dtype.to_real() {
        ScalarType::F16 => (1e-3, 1e-5),
        ScalarType::BF16 => (1.6e-2, 1e-5),
        ScalarType::F32 => (1.3e-6, 1e-5),
        _ => (1e-7, 1e-7),
    }
}

/// Closeness by these tolerances.
fn close(expected: f64, got: f64, dtype: ScalarType) -> bool {
    let (relative, absolute) = tolerances(dtype);
    if expected.is_nan() || got.is_nan() || expected.is_infinite() || got.is_infinite() {
        return (expected.is_nan() && got.is_nan()) || expected == got;
    }
    (expected - got).abs() <= absolute + relative * expected.abs()
}

/// The same for complex numbers, by the magnitude of their difference. A number with a NaN equals any other with one, and all infinite
/// numbers are equal, as in annex G of the C standard.
fn close_complex(expected: [f64; 2], got: [f64; 2], dtype: ScalarType) -> bool {
    let is_infinite = |z: [f64; 2]| z.iter().any(|part| part.is_infinite());
    let is_nan = |z: [f64; 2]| z.iter().any(|part| part.is_nan()) && !is_infinite(z);
    if [expected, got].iter().any(|z| z.iter().any(|part| !part.is_finite())) {
        return (is_infinite(expected) && is_infinite(got)) || (is_nan(expected) && is_nan(got));
    }
    let (relative, absolute) = tolerances(dtype);
    let error = (expected[0] - got[0]).hypot(expected[1] - got[1]);
    error <= absolute + relative * expected[0].hypot(expected[1])
}
