//! Operators without a rule: called for each example, and the results stacked.

use crate::batch::{Batch, qualified};
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// How often each operator was called for each example.
static LOOPS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());
static WARNING: OnceLock<fn(&str)> = OnceLock::new();

/// How many calls were computed example by example since the program started, by the name of the operator.
pub fn loops() -> BTreeMap<&'static str, u64> {
    LOOPS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Sets the function that is called with a text, once for each operator that is called for each example. Until then nothing warns, but
/// [`loops`] counts. The first function that is set stays.
pub fn set_warning(warn: fn(&str)) {
    let _ = WARNING.set(warn);
}

fn count(name: &'static str) {
    let mut counts = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    let calls = counts.entry(name).or_default();
    *calls += 1;
    let is_first = *calls == 1;
    drop(counts);
    if let (true, Some(warn)) = (is_first, WARNING.get()) {
        warn(&format!(
            "There is a performance drop because we have not yet implemented the batching rule for {}. It is called for each example.",
            qualified(name)
        ));
    }
}

/// Counts the call and computes it example by example.
pub(crate) fn call(batch: &Batch<'_>) -> Result<Vec<Value>> {
    batch.ensure_self_is_batched()?;
    count(batch.operator.name());
    examples(batch)
}

/// Computes a call example by example.
pub(crate) fn examples(batch: &Batch<'_>) -> Result<Vec<Value>> {
    each(batch, batch.size(), |_| Ok(()))
}

/// Computes the first `count` examples and stacks the results; `before` is called before each.
pub(crate) fn each(batch: &Batch<'_>, count: i64, before: impl Fn(i64) -> Result<()>) -> Result<Vec<Value>> {
    ensure!(
        count > 0,
        InvalidArgument(batch.operator.name()),
        "vmap: the sizes of the result are not known, since there are no examples"
    );
    let mut rows = Vec::new();
    for index in 0..count {
        before(index)?;
        let example = |tensor: &Tensor| match batch.unwrapped(tensor) {
            (value, Some(dim)) => ops::select_int(&value, dim, index),
            (value, None) => Ok(value),
        };
        rows.push(batch.call(&batch.with_tensors(example)?)?);
    }
    stacked(batch, &rows)
}

fn stacked(batch: &Batch<'_>, rows: &[Vec<Value>]) -> Result<Vec<Value>> {
    let Some(first) = rows.first() else { return Ok(vec![]) };
    let column = |number: usize| rows.iter().filter_map(move |row| row.get(number));
    let of_number = |(number, value): (usize, &Value)| match value {
        Value::Tensor(_) => {
            let column: Vec<Tensor> = column(number).flat_map(Value::tensors).cloned().collect();
            Ok(Value::Tensor(batch.wrap(&ops::stack(&column, 0)?, 0)?))
        }
        Value::Tensors(list) => (0..list.len())
            .map(|at| stacked_item(batch, column(number), at))
            .collect::<Result<_>>()
            .map(Value::Tensors),
        _ => bail!(
            NotImplemented(batch.operator.name()),
            "vmap: the results of the operator are no tensors, so that they cannot differ between examples"
        ),
    };
    first.iter().enumerate().map(of_number).collect()
}

fn stacked_item<'v>(batch: &Batch<'_>, column: impl Iterator<Item = &'v Value>, at: usize) -> Result<Tensor> {
    let items: Vec<Tensor> = column.filter_map(|value| value.tensors().nth(at)).cloned().collect();
    batch.wrap(&ops::stack(&items, 0)?, 0)
}
