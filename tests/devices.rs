//! A device whose pages the host cannot access: a call with its tensors gives a result on the device or an `Error`, never a SIGSEGV.
#![expect(unsafe_code, reason = "maps pages that nobody may touch")]

use flambeau_core::allocator::{Allocator, MemoryStats, set_allocator};
use flambeau_core::{
    DataPtr, Device, DeviceType, DispatchKey, ErrorKind, Result, Scalar, ScalarType, TensorImpl, bail, ensure,
};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_ops::ops;
use flambeau_tests::call::{operator, seeded, tensor, tensors, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Row;
use std::sync::Once;

/// Maps pages with `PROT_NONE`.
struct Untouchable;

unsafe fn unmap(data: *mut u8, bytes: usize, _: *mut ()) {
    // SAFETY: mapped by `allocate`, which made a pointer of so many bytes, and nobody else frees them.
    unsafe { libc::munmap(data.cast(), bytes.max(1)) };
}

impl Allocator for Untouchable {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        // SAFETY: new pages, of the system's choice.
        let data = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), bytes.max(1), libc::PROT_NONE, flags, -1, 0)
        };
        ensure!(data != libc::MAP_FAILED, OutOfMemory, "no {bytes} bytes of address space");
        // SAFETY: so many bytes were mapped, and `unmap` may run on any thread.
        Ok(unsafe { DataPtr::new(data.cast(), bytes, std::ptr::null_mut(), Some(unmap)) })
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        self.allocate(bytes)
    }

    unsafe fn copy(&self, _: *const u8, _: *mut u8, _: usize) -> Result<()> {
        bail!(NotImplemented, "this device has no bytes to copy")
    }

    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak(&self) {}

    fn empty_cache(&self) {}
}

/// The device, with the one kernel that any device has: memory without values.
fn device() -> Device {
    static READY: Once = Once::new();
    READY.call_once(|| {
        set_allocator(DeviceType::PrivateUse1, &Untouchable);
        fn empty(sizes: &[i64], dtype: Option<ScalarType>, device: Option<Device>) -> Result<Tensor> {
            let (dtype, device) = (dtype.unwrap_or(ScalarType::F32), device.unwrap_or(Device::CPU));
            TensorImpl::empty_contiguous(sizes, dtype, device).map(Tensor::from_impl)
        }
        let key = DispatchKey::PrivateUse1;
        ops::EMPTY_MEMORY_FORMAT
            .register(key, |_, sizes, dtype, _, device, _, _| empty(sizes, dtype, device))
            .unwrap();
        ops::EMPTY_STRIDED
            .register(key, |_, sizes, _, dtype, _, device, _| empty(sizes, dtype, device))
            .unwrap();
    });
    Device::new(DeviceType::PrivateUse1, Some(0))
}

/// A tensor there, of the sizes and type of another.
fn moved(like: &Tensor, device: Device) -> Tensor {
    Tensor::from_impl(TensorImpl::empty_contiguous(like.sizes(), like.dtype(), device).unwrap())
}

/// How many tensors the arguments hold.
fn count(arguments: &[Value]) -> usize {
    let of = |value: &Value| match value {
        Value::Tensor(_) => 1,
        Value::Tensors(list) => list.len(),
        _ => 0,
    };
    arguments.iter().map(of).sum()
}

/// Calls a row's operator with those tensors on the device that `goes` picks by number.
fn call(row: &Row, goes: impl Fn(usize) -> bool, device: Device) -> Option<Result<Vec<Tensor>>> {
    let op = operator(row.name)?;
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    let sample = row.samples.first()?;
    let mut number = 0;
    let mut to_mock = |t: Tensor| {
        number += 1;
        if goes(number - 1) { moved(&t, device) } else { t }
    };
    let arguments: Vec<Value> = values(sample, &mut |a| tensor(a, dtype))
        .into_iter()
        .map(|value| match value {
            Value::Tensor(t) => Value::Tensor(to_mock(t)),
            Value::Tensors(list) => Value::Tensors(list.into_iter().map(&mut to_mock).collect()),
            other => other,
        })
        .collect();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| seeded(op, &arguments, 1)));
    Some(result.unwrap_or_else(|_| panic!("{} panicked", row.name)))
}

#[test]
fn every_operator_on_a_device_whose_memory_the_host_may_not_touch() {
    let device = device();
    let (mut there, mut refused) = (0, 0);
    for row in op_db::rows() {
        let Some(result) = call(&row, |_| true, device) else { continue };
        match result {
            Ok(results) => {
                there += 1;
                // The host cannot read values, but it knows sizes and types.
                let is_known = |t: &Tensor| t.device() == device || t.dim() == 0 || t.numel() == 0;
                let is_new = count(&values(&row.samples[0], &mut |a| tensor(a, ScalarType::F32))) == 0;
                assert!(is_new || results.iter().all(is_known), "{}: a result on the host", row.name);
            }
            Err(error) => {
                refused += 1;
                let kinds = [ErrorKind::Device, ErrorKind::NotImplemented];
                assert!(kinds.contains(&error.kind()), "{}: {error}", row.name);
            }
        }
    }
    println!("{there} operators gave a result on the device, {refused} an error");
    assert!(there > 0 && refused > 0);
}

#[test]
fn every_operator_with_one_argument_elsewhere() {
    let device = device();
    let (mut well, mut refused) = (0, 0);
    for row in op_db::rows() {
        let Some(sample) = row.samples.first() else { continue };
        let tensors = count(&values(sample, &mut |a| tensor(a, ScalarType::F32)));
        for at in (0..tensors).filter(|_| tensors > 1) {
            match call(&row, |number| number == at, device) {
                Some(Ok(_)) => well += 1,
                Some(Err(_)) => refused += 1,
                None => {}
            }
        }
    }
    println!("{well} calls gave a result, {refused} an error");
    assert!(refused > well);
}

#[test]
fn factories_on_the_device() {
    let device = Some(device());
    let f32 = Some(ScalarType::F32);
    let made = [
        ops::arange(Scalar::Int(10), f32, None, device, None),
        ops::linspace(Scalar::Int(0), Scalar::Int(1), 5, f32, None, device, None),
        ops::randperm(10, Some(ScalarType::I64), None, device, None),
        ops::ones(&[3], f32, None, device, None),
        ops::zeros(&[3], f32, None, device, None),
        ops::eye(3, f32, None, device, None),
        ops::rand(&[3], f32, None, device, None),
    ];
    for result in made {
        let error = tensors(result.map(|t| vec![Value::Tensor(t)]).unwrap_or_default());
        assert!(error.iter().all(|t| Some(t.device()) == device));
    }
}
