//! The boxed kernel for the key `Batched`, which serves all operators that have no kernel of their own for it.

use crate::batch::Batch;
use crate::kinds;
use crate::plan::{Kind, plan_of};
use crate::rules;
use flambeau_core::{DispatchKey, Result};
use flambeau_ops::batched::parts;
use flambeau_ops::batched::{Below, current_level, open_level};
use flambeau_ops::dispatch::{BoxedRegistration, Call, Value, inventory};

inventory::submit! { BoxedRegistration::fallback(DispatchKey::Batched, &batched) }

/// Registers the same kernel for an implicit composite, which is taken apart for all keys that have none for it.
macro_rules! composite {
    ($($operator:ident)::+) => {
        flambeau_ops::dispatch::inventory::submit! {
            flambeau_ops::dispatch::BoxedRegistration::new(
                &$($operator)::+,
                flambeau_core::DispatchKey::Batched,
                &crate::fallback::batched,
            )
        }
    };
}
pub(crate) use composite;

pub(crate) fn batched(call: &Call<'_>) -> Result<Vec<Value>> {
    rule(call, by_kind)
}

/// Runs `rule`, the rule of an operator, for the highest level at which an argument of `call` is batched. Where none is batched, as can be
/// while a level is open, the operator itself runs.
///
/// A crate that defines an operator registers a boxed kernel that calls this function:
///
/// ```
/// use flambeau_core::{DispatchKey, Result, bail};
/// use flambeau_ops::dispatch::{Call, OperatorInfo, Value};
/// use flambeau_ops::{Tensor, ops, registry};
/// use flambeau_vmap::{Randomness, rule, vmap};
///
/// let cube = registry::define("mine::cube(Tensor self) -> Tensor")?;
/// let kernel = |call: &Call<'_>| {
///     let [Value::Tensor(x)] = call.arguments else { bail!(InvalidArgument, "expected a tensor") };
///     Ok(vec![Value::Tensor(ops::mul_tensor(&ops::mul_tensor(x, x)?, x)?)])
/// };
/// cube.register_boxed(DispatchKey::CompositeExplicitAutograd, Box::leak(Box::new(kernel)))?;
///
/// // All examples at once: the tensor with the batch in front, and the result with the batch in front.
/// let batched = |call: &Call<'_>| {
///     rule(call, |batch| {
///         let (x, _) = batch.front(batch.tensor(0)?)?;
///         batch.wrap_all(batch.call(&[x.into()])?)
///     })
/// };
/// cube.register_boxed(DispatchKey::Batched, Box::leak(Box::new(batched)))?;
///
/// let cubes = |args: &[Tensor]| -> Result<Vec<Tensor>> {
///     let results = cube.call_boxed(&[(&args[0]).into()])?;
///     Ok(results.iter().flat_map(Value::tensors).cloned().collect())
/// };
/// let x = Tensor::from([1.0f64, 2.0]);
/// let cubed = vmap(cubes, &[x], &[Some(0)], &[Some(0)], Randomness::Error)?;
/// assert_eq!(cubed[0].to_vec::<f64>()?, [1.0, 8.0]);
/// assert!(flambeau_vmap::loops().is_empty());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// # Errors
/// Those of the rule or the operator, and `InvalidArgument` where a batched tensor is used outside of its level.
pub fn rule(call: &Call<'_>, rule: impl Fn(&Batch<'_>) -> Result<Vec<Value>>) -> Result<Vec<Value>> {
    let tensors = call.arguments.iter().flat_map(Value::tensors);
    match tensors.filter_map(|tensor| parts(tensor).map(|found| found.level)).max() {
        Some(id) => rule(&Batch::new(call.operator, call.arguments, open_level(id)?)?),
        None => unbatched(call),
    }
}

/// A call without batched arguments, while a level is open.
fn unbatched(call: &Call<'_>) -> Result<Vec<Value>> {
    let plan = plan_of(call.operator)?;
    if let (Kind::Random, Some(level)) = (plan.kind, current_level()) {
        return kinds::random::call(&Batch::new(call.operator, call.arguments, level)?);
    }
    let _below = Below::all();
    call.operator.call_boxed(call.arguments)
}

fn by_kind(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let plan = batch.plan;
    if let Some(rule) = rules::find(batch) {
        return rule(batch);
    }
    if !matches!(plan.kind, Kind::Out | Kind::Refused) {
        batch.ensure_self_is_batched()?;
    }
    match plan.kind {
        Kind::Pointwise => kinds::pointwise::call(batch),
        Kind::Reduction => kinds::reduction::call(batch),
        Kind::Dims => kinds::dims::call(batch),
        Kind::Views => kinds::dims::views(batch),
        Kind::Front => kinds::front::call(batch),
        Kind::Matrices => kinds::front::matrices(batch),
        Kind::Fold => kinds::fold::call(batch),
        Kind::Random => kinds::random::call(batch),
        Kind::Refused => kinds::refused::call(batch),
        Kind::Out => kinds::refused::out(batch),
        Kind::Factory | Kind::Special | Kind::Loop => kinds::loops::call(batch),
    }
}
