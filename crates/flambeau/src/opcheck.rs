//! [`opcheck`]: whether an operator does what its schema and its registrations say, for its author's tests.

use crate::autograd::gradcheck::GradCheck;
use crate::dispatch::{OperatorInfo, Value};
use crate::vmap::Randomness;
use crate::{
    Autograd, Device, MemoryFormat, Result, ScalarType, Tensor, no_grad, num_threads, ops, set_num_threads,
};
use flambeau_core::{bail, ensure};

const NAME: &str = "opcheck";
/// Examples of the batches.
const BATCH: i64 = 3;

/// What [`opcheck`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Arguments are written, and share memory with results, only where the schema says so.
    Schema,
    /// On the device Meta results have the sizes, strides and dtypes of real ones.
    Meta,
    /// Results have the same bits on 1, 2 and 4 threads.
    Threads,
    /// Gradients are those of finite differences, in f64.
    Gradients,
    /// Tangents are those of finite differences, in f64.
    Tangents,
    /// Under [`vmap`](fn@crate::vmap) results are those of the examples, for a batch of each argument and of all.
    Batches,
}

/// Checks an operator for arguments, which are in the order of its schema. Returns what was checked: gradients and tangents are where
/// floating-point arguments require gradients, and neither they nor batches are checked for operators that write to arguments.
///
/// ```
/// use flambeau::opcheck::{Check, opcheck};
/// use flambeau::prelude::*;
/// let x = Tensor::from([0.5f64, -1.0, 2.0]).with_requires_grad(true)?;
/// let op = flambeau::registry::operators().find(|op| op.name() == "tanh").expect("an operator of the library");
/// assert!(opcheck(op, &[x.into()])?.contains(&Check::Gradients));
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The operator's, and `Internal` for a check that fails, which the message names.
pub fn opcheck(op: &dyn OperatorInfo, arguments: &[Value]) -> Result<Vec<Check>> {
    let call = Call { op, arguments };
    let mut checks: Vec<(Check, Run)> =
        vec![(Check::Schema, schema), (Check::Meta, meta), (Check::Threads, threads)];
    let schema = op.parsed_schema()?;
    let writes =
        schema.arguments().any(|argument| argument.alias.as_ref().is_some_and(|alias| alias.writes()));
    if !writes && call.tensors().iter().any(|x| x.dtype().is_floating_point() && x.requires_grad()) {
        checks.extend([(Check::Gradients, gradients as Run), (Check::Tangents, tangents)]);
    }
    if !writes && !call.tensors().is_empty() {
        checks.push((Check::Batches, batches));
    }
    for (check, run) in &checks {
        run(&call).map_err(|e| e.context(format!("{NAME} of {}: {check:?}", op.name())))?;
    }
    Ok(checks.into_iter().map(|(check, _)| check).collect())
}

/// Runs a check.
type Run = fn(&Call<'_>) -> Result<()>;

struct Call<'a> {
    op: &'a dyn OperatorInfo,
    arguments: &'a [Value],
}

impl Call<'_> {
    /// The tensors among the arguments.
    fn tensors(&self) -> Vec<Tensor> {
        self.arguments.iter().flat_map(Value::tensors).cloned().collect()
    }

    /// Copies of them, with their strides, which require gradients as they do.
    fn copies(&self) -> Result<Vec<Tensor>> {
        let copy = |x: &Tensor| {
            let plain = without_history(|| ops::clone(&x.detach()?, Some(MemoryFormat::Preserve)))?;
            plain.with_requires_grad(x.requires_grad())
        };
        self.tensors().iter().map(copy).collect()
    }

    /// The arguments with other tensors.
    fn arguments_of(&self, tensors: &[Tensor]) -> Vec<Value> {
        let mut tensors = tensors.iter().cloned();
        let mut replaced = |value: &Value| match value {
            Value::Tensor(x) => Value::Tensor(tensors.next().unwrap_or_else(|| x.clone())),
            Value::Tensors(list) => Value::Tensors(tensors.by_ref().take(list.len()).collect()),
            Value::OptionalTensors(list) => {
                Value::OptionalTensors(list.iter().map(|x| x.as_ref().and_then(|_| tensors.next())).collect())
            }
            other => other.clone(),
        };
        self.arguments.iter().map(&mut replaced).collect()
    }

    /// The tensors of the results for other tensors.
    fn run(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
        let results = self.op.call_boxed(&self.arguments_of(tensors))?;
        Ok(results.iter().flat_map(Value::tensors).cloned().collect())
    }
}

fn without_history<R>(f: impl FnOnce() -> R) -> R {
    let _guard = no_grad();
    f()
}

fn shares_memory(a: &Tensor, b: &Tensor) -> bool {
    std::ptr::eq(&raw const **a.storage(), &raw const **b.storage())
}

fn has_same_bits(a: &Tensor, b: &Tensor) -> Result<bool> {
    let bits = |x: &Tensor| {
        let x = x.detach()?;
        let parts = if x.dtype().is_complex() { ops::view_as_real(&ops::resolve_conj(&x)?)? } else { x };
        let whole = ops::contiguous(&parts, MemoryFormat::Contiguous)?;
        match whole.dtype().size() {
            1 => ops::view_dtype(&whole, ScalarType::U8),
            2 => ops::view_dtype(&whole, ScalarType::I16),
            4 => ops::view_dtype(&whole, ScalarType::I32),
            _ => ops::view_dtype(&whole, ScalarType::I64),
        }
    };
    Ok(a.sizes() == b.sizes() && a.dtype() == b.dtype() && ops::equal(&bits(a)?, &bits(b)?)?)
}

fn schema(call: &Call<'_>) -> Result<()> {
    let tensors = call.copies()?;
    let before = call.copies()?;
    let results = without_history(|| call.op.call_boxed(&call.arguments_of(&tensors)))?;
    let parsed = call.op.parsed_schema()?;
    let mut all = tensors.iter().zip(&before);
    for (argument, value) in parsed.arguments().zip(call.arguments) {
        let letters = argument.alias.as_ref();
        for (x, before) in all.by_ref().take(value.tensors().count()) {
            let is_written = !has_same_bits(x, before)?;
            ensure!(
                !is_written || letters.is_some_and(|alias| alias.writes()),
                Internal(NAME, &argument.name),
                "expected an argument that is not written, as the schema says"
            );
            for (at, (result, declared)) in results.iter().zip(&parsed.returns).enumerate() {
                let may = declared.alias.as_ref().zip(letters).is_some_and(|(of_result, alias)| {
                    of_result.before.iter().any(|set| alias.before.iter().any(|other| other.name == set.name))
                });
                ensure!(
                    may || !result.tensors().any(|result| shares_memory(result, x)),
                    Internal(NAME, &argument.name),
                    "expected result {at} to have memory of its own, as the schema says"
                );
            }
        }
    }
    Ok(())
}

fn meta(call: &Call<'_>) -> Result<()> {
    let there = |x: &Tensor| ops::to_device(&x.detach()?, Device::META, x.dtype(), false, true, None);
    let real = without_history(|| call.run(&call.copies()?))?;
    let fakes = call.tensors().iter().map(there).collect::<Result<Vec<_>>>()?;
    let devices = |value: &Value| match value {
        Value::Device(_) => Value::Device(Device::META),
        other => other.clone(),
    };
    let arguments: Vec<Value> = call.arguments_of(&fakes).iter().map(devices).collect();
    let results = without_history(|| call.op.call_boxed(&arguments))?;
    let fake: Vec<&Tensor> = results.iter().flat_map(Value::tensors).collect();
    ensure!(
        real.len() == fake.len(),
        Internal,
        "expected {} tensors on Meta but got {}",
        real.len(),
        fake.len()
    );
    for (at, (a, b)) in real.iter().zip(fake).enumerate() {
        let is_alike =
            a.sizes() == b.sizes() && a.dtype() == b.dtype() && (a.numel() < 2 || a.strides() == b.strides());
        ensure!(
            is_alike,
            Internal,
            "expected result {at} on Meta as {} but got {}",
            a.signature(),
            b.signature()
        );
    }
    Ok(())
}

fn threads(call: &Call<'_>) -> Result<()> {
    let before = num_threads();
    let found = [1, 2, 4].map(|count| {
        set_num_threads(count);
        without_history(|| call.run(&call.copies()?))
    });
    set_num_threads(before);
    let [first, second, third] = found;
    let first = first?;
    for (count, other) in [(2, second?), (4, third?)] {
        for (at, (a, b)) in first.iter().zip(&other).enumerate() {
            ensure!(
                has_same_bits(a, b)?,
                Internal,
                "result {at} has other bits on {count} threads than on 1"
            );
        }
    }
    Ok(())
}

/// The differentiable tensors in f64, and the operator as a function of them.
fn in_double(call: &Call<'_>, check: GradCheck) -> Result<()> {
    let wide = |x: &Tensor| {
        if !x.dtype().is_floating_point() {
            return Ok(x.clone());
        }
        ops::to_dtype(&x.detach()?, ScalarType::F64, false, true, None)?.with_requires_grad(x.requires_grad())
    };
    let all = call.tensors().iter().map(wide).collect::<Result<Vec<_>>>()?;
    let inputs: Vec<Tensor> = all.iter().filter(|x| x.requires_grad()).cloned().collect();
    let function = |inputs: &[Tensor]| {
        let mut inputs = inputs.iter();
        let tensors: Vec<Tensor> = all
            .iter()
            .map(|x| if x.requires_grad() { inputs.next().unwrap_or(x) } else { x })
            .cloned()
            .collect();
        let results = call.run(&tensors)?;
        Ok(results.into_iter().filter(|result| result.dtype().is_floating_point()).collect())
    };
    check.check(function, &inputs)
}

fn gradients(call: &Call<'_>) -> Result<()> {
    in_double(call, GradCheck::default())
}

fn tangents(call: &Call<'_>) -> Result<()> {
    in_double(call, GradCheck { check_forward_ad: true, check_backward_ad: false, ..GradCheck::default() })
}

fn batches(call: &Call<'_>) -> Result<()> {
    let tensors = call.tensors();
    let all = (0..tensors.len()).collect::<Vec<_>>();
    let alone = all.iter().map(|at| vec![*at]);
    for batched in alone.chain((tensors.len() > 1).then_some(all.clone())) {
        compare_batch(call, &tensors, &batched)
            .map_err(|e| e.context(format!("tensors {batched:?} are batched")))?;
    }
    Ok(())
}

/// The examples of a batch: an argument with its elements at other positions, so that all are what the operator takes.
fn examples(x: &Tensor) -> Result<Vec<Tensor>> {
    let flat = ops::reshape(&x.detach()?, &[-1])?;
    (0..BATCH).map(|shift| ops::reshape(&ops::roll(&flat, &[shift], &[0])?, x.sizes())).collect()
}

fn compare_batch(call: &Call<'_>, tensors: &[Tensor], batched: &[usize]) -> Result<()> {
    let _guard = no_grad();
    let lists = batched.iter().map(|at| examples(&tensors[*at])).collect::<Result<Vec<_>>>()?;
    let with = |replaced: &dyn Fn(usize) -> Result<Tensor>| -> Result<Vec<Tensor>> {
        let mut changed = tensors.iter().map(Tensor::detach).collect::<Result<Vec<_>>>()?;
        for (position, at) in batched.iter().enumerate() {
            changed[*at] = replaced(position)?;
        }
        Ok(changed)
    };
    let inputs = with(&|position| ops::stack(&lists[position], 0))?;
    let in_dims: Vec<Option<i64>> = (0..tensors.len()).map(|at| batched.contains(&at).then_some(0)).collect();
    let got = crate::vmap(|inputs| call.run(inputs), &inputs, &in_dims, &[Some(0)], Randomness::Error)?;
    let each = (0..BATCH as usize)
        .map(|example| call.run(&with(&|position| Ok(lists[position][example].clone()))?))
        .collect::<Result<Vec<_>>>()?;
    for (at, got) in got.iter().enumerate() {
        let expected = ops::stack(&each.iter().map(|results| results[at].clone()).collect::<Vec<_>>(), 0)?;
        let (rtol, atol) = tolerances(expected.dtype());
        let is_alike = got.sizes() == expected.sizes()
            && got.dtype() == expected.dtype()
            && ops::allclose(got, &expected, rtol, atol, true)?;
        if !is_alike {
            bail!(Internal, "result {at} is not that of the examples: expected\n{expected}\nbut got\n{got}");
        }
    }
    Ok(())
}

/// A batch may sum in another order than an example.
fn tolerances(dtype: ScalarType) -> (f64, f64) {
    match dtype {
        ScalarType::F16 | ScalarType::BF16 => (1.6e-2, 1e-2),
        ScalarType::F32 | ScalarType::Complex64 => (1.3e-6, 1e-5),
        _ => (1e-7, 1e-7),
    }
}
