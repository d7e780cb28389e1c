//! `vmap`: every row of the operator table, batched, against a loop over the examples.

use flambeau_autograd::functional::{gradient, hessian, jacfwd, jacrev, jacrev_in_chunks};
use flambeau_core::{DispatchKey, ErrorKind, Result, Scalar, ScalarType, bail, manual_seed};
use flambeau_ops::dispatch::{Call, OperatorInfo, Value};
use flambeau_ops::{Tensor, ops, registry};
use flambeau_tests::call::{array, is_in_place, is_random, operator, tensor, tensors, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Row;
use flambeau_vmap::{Kind, Randomness, kind_of, rule, vmap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples of a row that are called: the first, and some of the others.
const SAMPLES: usize = 4;

/// The generator of the process serves one test at a time.
static DRAWS: Mutex<()> = Mutex::new(());

fn seeded() -> MutexGuard<'static, ()> {
    let guard = DRAWS.lock().unwrap_or_else(PoisonError::into_inner);
    manual_seed(7);
    guard
}

/// The tensors of a call, in order.
fn operands(arguments: &[Value]) -> Vec<Tensor> {
    arguments.iter().flat_map(Value::tensors).cloned().collect()
}

/// The call with other tensors.
fn with_operands(arguments: &[Value], operands: &[Tensor]) -> Vec<Value> {
    let mut next = operands.iter().cloned();
    let mut one = || next.next().expect("as many tensors as before");
    let replaced = |value: &Value| match value {
        Value::Tensor(_) => Value::Tensor(one()),
        Value::Tensors(list) => Value::Tensors(list.iter().map(|_| one()).collect()),
        Value::OptionalTensors(list) => {
            Value::OptionalTensors(list.iter().map(|item| item.as_ref().map(|_| one())).collect())
        }
        other => other.clone(),
    };
    arguments.iter().map(replaced).collect()
}

/// What an operator gives or writes.
fn outcome(op: &dyn OperatorInfo, arguments: &[Value]) -> Result<Vec<Value>> {
    let results = op.call_boxed(arguments)?;
    Ok(if is_in_place(op) { arguments[..1].to_vec() } else { results })
}

/// The same elements in reverse order: another example in the same domain.
fn reversed(tensor: &Tensor) -> Tensor {
    let dims: Vec<i64> = (0..tensor.dim() as i64).collect();
    ops::flip(tensor, &dims).unwrap()
}

/// For each tensor of a call the dimension in which it is batched, or `None` if the examples share it.
type Choice = Vec<Option<i64>>;

fn choices(op: &dyn OperatorInfo, operands: &[Tensor]) -> Vec<Choice> {
    let count = operands.len();
    let last = operands.iter().map(|tensor| Some(tensor.dim() as i64)).collect();
    let alone = |chosen: usize| (0..count).map(|index| (index == chosen).then_some(0)).collect();
    let mut all = vec![vec![Some(0); count], last];
    if count > 1 {
        let last = if is_in_place(op) { 1 } else { count };
        all.extend((0..last).map(alone));
    }
    all
}

fn clones(tensors: &[Tensor]) -> Vec<Tensor> {
    tensors.iter().map(|tensor| ops::clone(tensor, None).unwrap()).collect()
}

/// The results of a loop, by example; `None` where an example is an error.
fn looped(op: &dyn OperatorInfo, arguments: &[Value], examples: &[Vec<Tensor>]) -> Option<Vec<Vec<Value>>> {
    let call = |example: &Vec<Tensor>| outcome(op, &with_operands(arguments, &clones(example))).ok();
    examples.iter().map(call).collect()
}

/// The batched tensors of each argument, and the arguments of each example.
type Examples = (Vec<Vec<Tensor>>, Vec<Vec<Value>>);

/// The two examples of a choice: the sample, and the sample with its batched tensors reversed, if the operator takes it.
fn examples(op: &dyn OperatorInfo, arguments: &[Value], choice: &Choice) -> Option<Examples> {
    let first = operands(arguments);
    let second: Vec<Tensor> = first
        .iter()
        .zip(choice)
        .map(|(tensor, dim)| if dim.is_some() { reversed(tensor) } else { tensor.clone() })
        .collect();
    for other in [second, first.clone()] {
        let both = vec![first.clone(), other];
        let _draws = seeded();
        if let Some(expected) = looped(op, arguments, &both) {
            return Some((both, expected));
        }
    }
    None
}

/// The results of the call under `vmap`.
fn batched(
    op: &dyn OperatorInfo,
    arguments: &[Value],
    examples: &[Vec<Tensor>],
    choice: &Choice,
) -> Result<Vec<Tensor>> {
    let inputs: Vec<Tensor> = choice
        .iter()
        .enumerate()
        .map(|(index, dim)| match dim {
            Some(dim) => {
                let column: Vec<Tensor> = examples.iter().map(|example| example[index].clone()).collect();
                ops::stack(&column, *dim).unwrap()
            }
            None => ops::clone(&examples[0][index], None).unwrap(),
        })
        .collect();
    let _draws = seeded();
    let call = |given: &[Tensor]| {
        let results = outcome(op, &with_operands(arguments, given))?;
        Ok(tensors(results))
    };
    vmap(call, &inputs, choice, &[Some(0)], Randomness::Different)
}

fn fault_of(row: &Row, got: &[Tensor], expected: &[Vec<Value>]) -> Option<String> {
    let rows: Vec<Vec<Tensor>> = expected.iter().map(|values| tensors(values.clone())).collect();
    if got.len() != rows[0].len() {
        return Some(format!("{} results but expected {}", got.len(), rows[0].len()));
    }
    for (number, result) in got.iter().enumerate() {
        for (index, row_) in rows.iter().enumerate() {
            let own = ops::select_int(result, 0, index as i64).unwrap();
            if let Some(fault) = difference(&own, &row_[number], row.unset.is_some()) {
                return Some(format!("result {number} of example {index}: {fault}"));
            }
        }
    }
    None
}

/// The order in which sums are computed may differ from that of one example.
fn difference(got: &Tensor, expected: &Tensor, is_unset: bool) -> Option<String> {
    if got.sizes() != expected.sizes() || got.dtype() != expected.dtype() {
        return Some(format!(
            "{:?} of {} but expected {:?} of {}",
            got.sizes(),
            got.dtype(),
            expected.sizes(),
            expected.dtype()
        ));
    }
    if is_unset {
        return None;
    }
    let bound = match got.dtype().to_real() {
        ScalarType::F64 => 1e-9,
        ScalarType::F32 => 1e-4,
        _ => 1e-2,
    };
    let differ = |(a, b): (&f64, &f64)| {
        a != b
            && !(a.is_nan() && b.is_nan())
            && ((a - b).abs() > bound * (1.0 + b.abs()) || a.is_nan() != b.is_nan())
    };
    let (got, expected) = (array(got), array(expected));
    let at = got.data.iter().zip(&expected.data).position(|(a, b)| differ((a, b)))?;
    Some(format!("element {at} is {} but expected {}", got.data[at], expected.data[at]))
}

fn type_of(row: &Row) -> ScalarType {
    let preferred = [ScalarType::F64, ScalarType::F32];
    preferred.into_iter().find(|dtype| row.types.contains(dtype)).unwrap_or(row.types[0])
}

/// Whether the results of an operator are tensors, which alone can be batched.
fn gives_tensors(values: &[Vec<Value>]) -> bool {
    values.iter().flatten().all(|value| matches!(value, Value::Tensor(_) | Value::Tensors(_)))
}

fn check(row: &Row, faults: &mut Vec<String>) -> usize {
    let Some(op) = operator(row.name) else { return 0 };
    let mut count = 0;
    let step = (row.samples.len() / SAMPLES).max(1);
    for (number, sample) in row.samples.iter().enumerate().step_by(step).take(SAMPLES) {
        let arguments = values(sample, &mut |a| tensor(a, type_of(row)));
        let operands = operands(&arguments);
        // A generator of the call is not seeded before each.
        let has_generator = arguments.iter().any(|value| matches!(value, Value::Generator(_)));
        if operands.is_empty() || has_generator || operands.iter().any(Tensor::is_wrapped_number) {
            continue;
        }
        for choice in choices(op, &operands) {
            let Some((examples, expected)) = examples(op, &arguments, &choice) else { continue };
            let got = batched(op, &arguments, &examples, &choice);
            count += 1;
            let is_refused =
                matches!(kind_of(op), Some(Kind::Refused | Kind::Out)) || !gives_tensors(&expected);
            let fault = match got {
                Ok(_) if is_refused => Some("expected an error".to_owned()),
                Err(_) if is_refused => None,
                Err(error) if DYNAMIC.contains(&row.name) && error.kind() == ErrorKind::NotImplemented => {
                    None
                }
                Err(error) if is_known(row.name, &error.to_string()) => None,
                Err(error) => Some(error.to_string()),
                Ok(got) => fault_of(row, &got, &expected),
            };
            faults.extend(fault.map(|fault| format!("{} sample {number} {choice:?}: {fault}", row.name)));
        }
    }
    count
}

/// Composites of operators whose results have sizes that depend on elements, or which read elements.
const DYNAMIC: &[&str] = &[
    "_euclidean_dist",
    "argwhere",
    "as_strided_copy",
    "cov",
    "index.Tensor",
    "istft",
    "masked_select",
    "nanquantile",
    "narrow.Tensor",
    "nonzero_numpy",
    "quantile",
    "repeat_interleave.self_Tensor",
    "tensor_split.tensor_indices_or_sections",
    "where",
];

/// Operators that are an error for some arguments, with a part of the message that says why: they write to a tensor that all examples
/// share, address memory, are views of elements that have to be adjacent, or go by sizes of batches that each example has of its own.
const REFUSED: &[(&str, &str)] = &[
    ("as_strided_scatter", "depends on how the elements of the batch are laid out in memory"),
    ("as_strided_scatter", "because there exists a Tensor `other`"),
    ("_native_batch_norm_legit", "which will be updated in place, were not batched"),
    ("batch_norm", "which will be updated in place, were not batched"),
    ("native_batch_norm", "which will be updated in place, were not batched"),
    ("rrelu_with_noise", "different inplace randomness on an unbatched tensor"),
    ("view_as_complex", "stride"),
    ("gru.data", "We don't support vmap over calling .item()"),
    ("lstm.data", "We don't support vmap over calling .item()"),
    ("rnn_relu.data", "We don't support vmap over calling .item()"),
    ("rnn_tanh.data", "We don't support vmap over calling .item()"),
];

fn is_known(name: &str, message: &str) -> bool {
    REFUSED.iter().any(|(row, text)| *row == name && message.contains(text))
}

#[test]
fn every_row_equals_a_loop() {
    let (mut faults, mut count) = (Vec::new(), 0);
    for row in op_db::rows() {
        count += check(&row, &mut faults);
    }
    println!("{count} calls; computed example by example: {:?}", flambeau_vmap::loops());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 2000, "{count} calls");
}

/// Few operators are called for each example.
#[test]
fn few_operators_loop() {
    let all: Vec<_> = ops::OPERATORS.iter().filter(|op| kind_of(**op) != Some(Kind::Out)).collect();
    let loops: Vec<_> =
        all.iter().filter(|op| kind_of(***op) == Some(Kind::Loop)).map(|op| op.name()).collect();
    println!("{} of {} operators loop: {loops:?}", loops.len(), all.len());
    assert!(10 * loops.len() < all.len(), "{} of {}", loops.len(), all.len());
}

fn vmap_one(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor, randomness: Randomness) -> Result<Tensor> {
    let results =
        vmap(|args| Ok(vec![f(&args[0])?]), std::slice::from_ref(x), &[Some(0)], &[Some(0)], randomness)?;
    Ok(results[0].clone())
}

#[test]
fn levels_nest() -> Result<()> {
    let (x, y) = (Tensor::from([1.0f64, 2.0, 3.0]), Tensor::from([10.0f64, 20.0]));
    let outer = vmap_one(
        |x| vmap_one(|y| ops::add_tensor(&ops::mul_tensor(x, y)?, x, Scalar::Int(1)), &y, Randomness::Error),
        &x,
        Randomness::Error,
    )?;
    assert_eq!(outer.to_vec::<f64>()?, [11.0, 21.0, 22.0, 42.0, 33.0, 63.0]);
    Ok(())
}

#[test]
fn random_operators_follow_the_randomness() -> Result<()> {
    let x = ops::zeros(&[3, 4], Some(ScalarType::F64), None, None, None)?;
    let draw = |x: &Tensor| {
        let noise = ops::randn(&[4], Some(ScalarType::F64), None, None, None)?;
        ops::add_tensor(x, &noise, Scalar::Int(1))
    };
    let _draws = seeded();
    let error =
        vmap_one(draw, &x, Randomness::Error).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("called random operation while in randomness error mode"), "{error}");

    manual_seed(3);
    let looped: Vec<Tensor> = (0..3).map(|i| draw(&ops::select_int(&x, 0, i)?)).collect::<Result<_>>()?;
    manual_seed(3);
    let different = vmap_one(draw, &x, Randomness::Different)?;
    assert_eq!(different.to_vec::<f64>()?, ops::stack(&looped, 0)?.to_vec::<f64>()?);

    manual_seed(3);
    let same = vmap_one(draw, &x, Randomness::Same)?;
    for index in 0..3 {
        assert_eq!(ops::select_int(&same, 0, index)?.to_vec::<f64>()?, looped[0].to_vec::<f64>()?);
    }
    let dropped = vmap_one(
        |x| ops::dropout(&ops::add_scalar(x, Scalar::Int(1), Scalar::Int(1))?, 0.5, true),
        &x,
        Randomness::Same,
    )?;
    assert_eq!(
        ops::select_int(&dropped, 0, 0)?.to_vec::<f64>()?,
        ops::select_int(&dropped, 0, 2)?.to_vec::<f64>()?
    );
    Ok(())
}

#[test]
fn what_cannot_be_batched_is_an_error() -> Result<()> {
    let x = Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]);
    let shared = Tensor::from([0.0f64, 0.0]);
    type Case<'c> = (&'c dyn Fn(&Tensor) -> Result<Tensor>, &'c str);
    let rows = Tensor::from([0i64]);
    let step = |x: &Tensor| {
        let grad = ops::slice_tensor(x, 0, None, Some(1), 1)?;
        let states = [&ops::clone(x, None)?, &ops::clone(x, None)?];
        ops::_sparse_adam_(x, states[0], states[1], &rows, &grad, 0.1, 0.9, 0.99, 1e-8, 0.0, 1.0)?;
        Ok(x.clone())
    };
    let cases: [Case<'_>; 8] = [
        (
            &|x| ops::add__tensor(&shared, x, Scalar::Int(1)).map(|()| shared.clone()),
            "is not possible because there exists a Tensor",
        ),
        (&ops::nonzero, "dynamic shape"),
        // A composite with a rule of its own: it is not taken apart into `nonzero`.
        (&|x| Ok(ops::where_(x)?.remove(0)), "over aten::where"),
        (&step, "aten::_sparse_adam_ is not supported"),
        (&|x| ops::masked_select(x, &ops::gt_scalar(x, Scalar::Int(1))?), "differently shaped Tensor"),
        (
            &|x| ops::select_int(x, 0, 0)?.item::<f64>().map(|number| Tensor::from([number])),
            "calling .item() on a Tensor",
        ),
        (&|x| ops::as_strided(x, &[1], &[1], None), "as_strided is not supported"),
        (&|x| ops::add_out(x, x, Scalar::Int(1), &shared).map(|()| shared.clone()), "out="),
    ];
    for (call, message) in cases {
        let error = vmap_one(call, &x, Randomness::Error).err().map(|error| error.to_string());
        assert!(error.as_ref().is_some_and(|error| error.contains(message)), "{message}: {error:?}");
    }
    assert_eq!(shared.to_vec::<f64>()?, [0.0, 0.0]);
    // A batched tensor that outlives its level.
    let mut escaped = None;
    vmap(
        |args| {
            escaped = Some(args[0].clone());
            Ok(vec![args[0].clone()])
        },
        &[x],
        &[Some(0)],
        &[Some(0)],
        Randomness::Error,
    )?;
    let escaped = escaped.unwrap();
    assert!(ops::sin(&escaped).is_err() && escaped.to_vec::<f64>().is_err());
    Ok(())
}

/// What is random and in place needs a target for each example.
#[test]
fn the_random_rows_are_known() {
    let random = |op: &&&dyn OperatorInfo| kind_of(**op) == Some(Kind::Random);
    assert!(ops::OPERATORS.iter().filter(random).all(|op| is_random(*op)));
}

fn close(got: &Tensor, expected: &Tensor) {
    let (got, expected) = (array(got), array(expected));
    assert_eq!(got.sizes, expected.sizes);
    let far = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-12 * (1.0 + b.abs());
    assert!(!got.data.iter().zip(&expected.data).any(far), "{got:?} but expected {expected:?}");
}

/// tanh(x xᵀ), and the sum of x times a factor that depends on an element.
fn products(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let square = ops::matmul(&x[0], &ops::transpose_int(&x[0], 0, 1)?)?;
    let first = ops::select_int(&ops::select_int(&square, 0, 0)?, 0, 0)?;
    let factor = if first.item::<f64>()? > 0.0 { 2 } else { 3 };
    Ok(vec![ops::tanh(&square)?, ops::mul_scalar(&ops::sum(&x[0], None)?, Scalar::Int(factor))?])
}

/// The results of a function of a batch of gradients and tangents are those of one at a time; what is differentiated is no batch, so that
/// the function may read elements.
#[test]
fn jacobians_are_computed_at_once() -> Result<()> {
    let x = [Tensor::from([[1.0f64, -2.0, 0.5], [0.75, 0.25, -1.0]])];
    let expected = jacrev_in_chunks(&products, &x, 1)?;
    for jacobian in [jacrev(&products, &x)?, jacrev_in_chunks(&products, &x, 3)?, jacfwd(&products, &x)?] {
        for (own, expected) in jacobian.iter().zip(&expected) {
            close(&own[0], &expected[0]);
        }
    }
    assert!(jacrev_in_chunks(&products, &x, 0).is_err());
    let total = |x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![ops::sum(&products(x)?[0], None)?]) };
    let hessian = &hessian(&total, &x)?[0][0];
    let step = |at: i64, by: f64| -> Result<Tensor> {
        let moved = ops::clone(&x[0], None)?;
        ops::add__scalar(&ops::select_int(&ops::reshape(&moved, &[6])?, 0, at)?, by.into(), Scalar::Int(1))?;
        Ok(gradient(&total, &[moved])?.remove(0))
    };
    for at in 0..6 {
        let (high, low) = (step(at, 1e-6)?, step(at, -1e-6)?);
        let slope = ops::mul_scalar(&ops::sub_tensor(&high, &low, Scalar::Int(1))?, 5e5.into())?;
        let row = ops::select_int(&ops::reshape(hessian, &[6, 2, 3])?, 0, at)?;
        let (row, slope) = (array(&row), array(&slope));
        assert!(row.data.iter().zip(&slope.data).all(|(a, b)| (a - b).abs() < 1e-7), "{row:?} {slope:?}");
    }
    Ok(())
}

/// `vmap` of a Hessian, and a Hessian of a function that calls `vmap`.
#[test]
fn jacobians_nest_with_vmap() -> Result<()> {
    let x = Tensor::from([[1.0f64, -2.0, 0.5], [0.75, 0.25, -1.0]]);
    let cubes = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        let weights = Tensor::from([1.0f64, 2.0, 3.0]);
        Ok(vec![ops::sum(
            &ops::mul_tensor(&ops::pow_tensor_scalar(&x[0], Scalar::Int(3))?, &weights)?,
            None,
        )?])
    };
    let of_each = vmap_one(
        |x| Ok(hessian(&cubes, std::slice::from_ref(x))?.remove(0).remove(0)),
        &x,
        Randomness::Error,
    )?;
    let diagonals = ops::diagonal(&of_each, 0, 1, 2)?;
    close(&diagonals, &Tensor::from([[6.0f64, -24.0, 9.0], [4.5, 3.0, -18.0]]));
    let through = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        let sums = vmap_one(|row| Ok(cubes(std::slice::from_ref(row))?.remove(0)), &x[0], Randomness::Error)?;
        Ok(vec![ops::sum(&sums, None)?])
    };
    let whole = ops::reshape(&hessian(&through, std::slice::from_ref(&x))?[0][0], &[6, 6])?;
    close(&ops::diagonal(&whole, 0, 0, 1)?, &ops::reshape(&diagonals, &[6])?);
    Ok(())
}

/// An operator of another crate with a rule, under two levels, batched at one of them or at both.
#[test]
fn rules_of_other_operators_nest() -> Result<()> {
    let cube = registry::define("batched_tests::cube(Tensor self) -> Tensor")?;
    let kernel = |call: &Call<'_>| {
        let [Value::Tensor(x)] = call.arguments else { bail!(InvalidArgument, "expected a tensor") };
        Ok(vec![ops::pow_tensor_scalar(x, Scalar::Int(3))?.into()])
    };
    cube.register_boxed(DispatchKey::CompositeExplicitAutograd, Box::leak(Box::new(kernel)))?;
    let batched = |call: &Call<'_>| {
        rule(call, |batch| {
            let (x, _) = batch.front(batch.tensor(0)?)?;
            batch.wrap_all(batch.call(&[x.into()])?)
        })
    };
    cube.register_boxed(DispatchKey::Batched, Box::leak(Box::new(batched)))?;
    let cubed = |x: &Tensor| -> Result<Tensor> { Ok(tensors(cube.call_boxed(&[x.into()])?).remove(0)) };
    let (x, y) = (Tensor::from([1.0f64, 2.0, 3.0]), Tensor::from([10.0f64, 20.0]));
    let sums = |of_outer: bool, of_inner: bool| -> Result<Vec<f64>> {
        vmap_one(
            |x| {
                let inner = |y: &Tensor| match (of_outer, of_inner) {
                    (true, true) => cubed(&ops::add_tensor(x, y, Scalar::Int(1))?),
                    (true, false) => ops::add_tensor(&cubed(x)?, y, Scalar::Int(1)),
                    _ => ops::add_tensor(x, &cubed(y)?, Scalar::Int(1)),
                };
                vmap_one(inner, &y, Randomness::Error)
            },
            &x,
            Randomness::Error,
        )?
        .to_vec::<f64>()
    };
    let expected = |f: fn(f64, f64) -> f64| -> Vec<f64> {
        [1.0, 2.0, 3.0].iter().flat_map(|x| [10.0, 20.0].map(|y| f(*x, y))).collect()
    };
    assert_eq!(sums(true, true)?, expected(|x, y| (x + y).powi(3)));
    assert_eq!(sums(true, false)?, expected(|x, y| x.powi(3) + y));
    assert_eq!(sums(false, true)?, expected(|x, y| x + y.powi(3)));
    assert_eq!(flambeau_vmap::loops().get("batched_tests::cube"), None);
    Ok(())
}
