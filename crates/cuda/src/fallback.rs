//! Operators without a kernel: forms that write into a tensor are composed of the form that makes a new one, if that has a kernel. Others
//! are an error that names them, or run on the host where the environment says so.

use flambeau_core::{DispatchKey, Result, bail};
use flambeau_ops::cpu_fallback::CpuFallback;
use flambeau_ops::dispatch::{
    Argument, BoxedKernel, BoxedRegistration, Call, IntoValues, OperatorInfo, Value,
};
use flambeau_ops::structured::{convert_to_out, copy_to_self};
use flambeau_ops::{Tensor, registry};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

inventory::submit!(BoxedRegistration::fallback(DispatchKey::Cuda, &ComposedOrOnHost));

/// The variable that has operators without a kernel run on the host.
const VARIABLE: &str = "FLAMBEAU_CUDA_FALLBACK";

struct ComposedOrOnHost;

impl BoxedKernel for ComposedOrOnHost {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        static REQUESTED: LazyLock<bool> =
            LazyLock::new(|| std::env::var(VARIABLE).is_ok_and(|value| value == "1"));
        if let Some(functional) = functional_of(call.operator) {
            return composed(call, functional);
        }
        if !*REQUESTED {
            let name = call.operator.name();
            bail!(
                NotImplemented(name),
                "there is no kernel for cuda; {VARIABLE}=1 in the environment runs it on the host"
            );
        }
        CpuFallback.call(call)
    }
}

/// An operator that makes new tensors of what another writes into its arguments.
type Functional = Option<&'static dyn OperatorInfo>;

/// The operator with a kernel for CUDA that makes new tensors of what `operator` writes.
fn functional_of(operator: &'static dyn OperatorInfo) -> Functional {
    static KNOWN: LazyLock<Mutex<HashMap<&'static str, Functional>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(operator.name()).or_insert_with(|| find_functional(operator))
}

fn find_functional(operator: &dyn OperatorInfo) -> Functional {
    let arguments = operator.arguments().ok()?;
    if !arguments.iter().any(|argument| argument.is_written()) {
        return None;
    }
    let base = base_name(operator.name());
    let (base, in_place) = match base.strip_suffix('_') {
        Some(functional) => (functional, true),
        None => (base, false),
    };
    let read: Vec<&Argument> =
        arguments.into_iter().filter(|argument| in_place || !argument.is_written()).collect();
    registry::operators().find(|other| {
        let Ok(candidates) = other.arguments() else { return false };
        base_name(other.name()) == base
            && other.has_kernel(DispatchKey::Cuda)
            && candidates.len() == read.len()
            && candidates.iter().zip(&read).all(|(a, b)| a.name == b.name && a.ty == b.ty && !a.is_written())
    })
}

/// `max` of `max.dim_max`.
fn base_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(base, _)| base)
}

/// Calls the functional form, and copies its results to where they are requested.
fn composed(call: &Call<'_>, functional: &'static dyn OperatorInfo) -> Result<Vec<Value>> {
    let name = call.operator.name();
    let in_place = base_name(name).ends_with('_');
    let arguments = call.operator.arguments()?;
    let pairs = || arguments.iter().zip(call.arguments);
    let read = pairs().filter(|(argument, _)| in_place || !argument.is_written());
    let results = functional.call_boxed(&read.map(|(_, value)| value.clone()).collect::<Vec<_>>())?;
    let made: Vec<&Tensor> = results.iter().flat_map(Value::tensors).collect();
    let written: Vec<&Tensor> = pairs()
        .filter(|(argument, _)| argument.is_written())
        .flat_map(|(_, value)| value.tensors())
        .collect();
    for (result, target) in made.iter().zip(&written) {
        let done = if in_place { copy_to_self(name, result, target) } else { convert_to_out(result, target) };
        done.map_err(|error| error.in_operator(name))?;
    }
    Ok(().into_values())
}
