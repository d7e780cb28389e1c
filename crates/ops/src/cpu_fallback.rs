//! Operators that a device has no kernel for run on the host: arguments are copied there, results copied back, and each call is counted.
//! A profiler shows each as a range `cpu_fallback` inside the operator.

use crate::Tensor;
use crate::append_list::AppendList;
use crate::dispatch::{Argument, BaseType, BoxedKernel, Call, DispatchKey, Type, Value, register_fallback};
use crate::host_copies::HostCopies;
use flambeau_core::profiler::{self, Kind};
use flambeau_core::{Device, Generator, Result, backend, ensure};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Has operators that the device of a dispatch key has no kernel for run on the host. Results have the host's bits.
///
/// The device needs [hooks](flambeau_core::backend::DeviceHooks), by which bytes come and go.
pub fn enable(key: DispatchKey) {
    register_fallback(key, &CpuFallback);
}

/// The kernel that [`enable`] registers, for those who register it
/// [at link time](crate::dispatch::BoxedRegistration::fallback) or for single operators.
pub struct CpuFallback;

/// How often each operator that ever did has run on the host; two entries for one where two threads came first.
static CALLS: AppendList<(&str, AtomicU64)> = AppendList::new();

fn count(name: &'static str) {
    let counter = CALLS.iter().find(|(of, _)| *of == name);
    let (_, counter) = counter.unwrap_or_else(|| CALLS.push((name, AtomicU64::new(0))));
    counter.fetch_add(1, Ordering::Relaxed);
}

/// How often each operator has run on the host instead of another device, by name, since the last [`reset_counts`].
pub fn counts() -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (name, counter) in CALLS.iter() {
        let calls = counter.load(Ordering::Relaxed);
        if calls > 0 {
            *counts.entry(*name).or_default() += calls;
        }
    }
    counts
}

/// Counts from nothing again.
pub fn reset_counts() {
    CALLS.iter().for_each(|(_, counter)| counter.store(0, Ordering::Relaxed));
}

impl BoxedKernel for CpuFallback {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let name = call.operator.name();
        let arguments = call.operator.arguments()?;
        let device = device_of(call)?;
        let _range = profiler::begin(Kind::Range, "cpu_fallback", None);
        ensure_one_device(name, device, call.arguments)?;
        let mut copies = HostCopies::default();
        let here: Vec<Value> = arguments
            .iter()
            .zip(call.arguments)
            .map(|(argument, value)| to_host(argument, value, device, &mut copies))
            .collect::<Result<_>>()
            .map_err(|error| error.context(format!("{name} on {device}, through the host")))?;
        count(name);
        let results =
            call.below(&here).map_err(|error| error.context(format!("on {device}, through the host")))?;
        copies.write_back()?;
        let pairs = here.iter().flat_map(Value::tensors).zip(call.arguments.iter().flat_map(Value::tensors));
        for (here, there) in pairs.filter(|(_, there)| !there.device().is_cpu()) {
            HostCopies::reshape_back(here, there)?;
        }
        results.into_iter().map(|result| to_device(result, device, &mut copies)).collect()
    }
}

/// The device that a call is for: that of an argument which says so, or of its tensors.
fn device_of(call: &Call<'_>) -> Result<Device> {
    let is_ours = |device: &Device| DispatchKey::dense(device.device_type()) == call.key;
    let said = call.arguments.iter().find_map(|value| match value {
        Value::Device(device) => Some(*device).filter(is_ours),
        _ => None,
    });
    let of_tensors = || call.arguments.iter().flat_map(Value::tensors).map(Tensor::device).find(is_ours);
    match said.or_else(of_tensors) {
        Some(device) => backend::resolve(device),
        None => flambeau_core::bail!(
            Device(call.operator.name()),
            "expected a tensor or a device of {}",
            call.key
        ),
    }
}

/// Refuses tensors of several devices, except zero-dimensional tensors and indices on the host.
fn ensure_one_device(name: &str, device: Device, arguments: &[Value]) -> Result<()> {
    for value in arguments {
        let are_indices = matches!(value, Value::OptionalTensors(_));
        for tensor in value.tensors() {
            let joins = tensor.device().is_cpu() && (tensor.dim() == 0 || are_indices);
            ensure!(
                tensor.device() == device || joins,
                Device(name),
                "expected all tensors on {device} but got one on {}",
                tensor.device()
            );
        }
    }
    Ok(())
}

fn to_host(argument: &Argument, value: &Value, device: Device, copies: &mut HostCopies) -> Result<Value> {
    Ok(match value {
        Value::Tensor(tensor) => Value::Tensor(copies.on_host(tensor)?),
        Value::Tensors(list) => {
            Value::Tensors(list.iter().map(|tensor| copies.on_host(tensor)).collect::<Result<_>>()?)
        }
        Value::OptionalTensors(list) => {
            let to_host = |tensor: &Option<Tensor>| tensor.as_ref().map(|t| copies.on_host(t)).transpose();
            Value::OptionalTensors(list.iter().map(to_host).collect::<Result<_>>()?)
        }
        Value::Device(_) => Value::Device(Device::CPU),
        Value::None if *argument.ty.innermost() == Type::Base(BaseType::Generator) => {
            Value::Generator(Generator::default_of(device)?.clone())
        }
        other => other.clone(),
    })
}

fn to_device(result: Value, device: Device, copies: &mut HostCopies) -> Result<Value> {
    Ok(match result {
        Value::Tensor(tensor) => Value::Tensor(copies.on_device(&tensor, device)?),
        Value::Tensors(list) => {
            Value::Tensors(list.iter().map(|tensor| copies.on_device(tensor, device)).collect::<Result<_>>()?)
        }
        other => other,
    })
}
