//! A device whose elementwise loops are written down instead of run, so that the programs of all formulas are known without a GPU.

use flambeau_core::allocator::MemoryStats;
use flambeau_core::backend::{Backend, DeviceHooks};
use flambeau_core::{
    Allocator, DataPtr, Device, DeviceType, DispatchKey, DispatchKeySet, Result, ScalarType, ThreadKeysGuard,
};
use flambeau_cuda::testing::RecordingLoops;
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_ops::loops::device::LoopsOf;
use flambeau_tests::call::{operator, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Arg;
use std::collections::BTreeSet;

inventory::submit!(Backend::new(DeviceType::PrivateUse3, "recorded", || Ok(&Recorded)));
inventory::submit!(LoopsOf::new(DeviceType::PrivateUse3, &LOOPS));

pub(crate) static LOOPS: RecordingLoops = RecordingLoops::new();

/// A device whose loops are recorded. Its memory is the host's, which nothing accesses but copies.
struct Recorded;

impl DeviceHooks for Recorded {
    fn device_count(&self) -> usize {
        1
    }

    fn current_device(&self) -> usize {
        0
    }

    fn set_current_device(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn allocator(&self) -> &'static dyn Allocator {
        &Recorded
    }

    unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
        // SAFETY: both are memory of the host, and what the caller says.
        unsafe { std::ptr::copy_nonoverlapping(from.1, to.1, bytes) };
        Ok(())
    }
}

impl Allocator for Recorded {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        let memory = vec![0u64; bytes.div_ceil(8)];
        let data = Box::leak(memory.into_boxed_slice()).as_mut_ptr().cast();
        // SAFETY: so many bytes, which are never freed.
        Ok(unsafe { DataPtr::new(data, bytes, std::ptr::null_mut(), None) })
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        self.allocate(bytes)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: what the caller says.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak(&self) {}

    fn empty_cache(&self) {}
}

fn arguments(sample: &[Arg], dtype: ScalarType, device: Device) -> Vec<Value> {
    let moved = |t: &Tensor| {
        let storage = t.storage().copied_to(device).unwrap();
        let made = flambeau_core::TensorImpl::new(storage, t.geometry().clone(), t.dtype());
        Tensor::from_impl(made.unwrap())
    };
    let each = |value| match value {
        Value::Tensor(t) => Value::Tensor(moved(&t)),
        Value::Tensors(list) => Value::Tensors(list.iter().map(moved).collect()),
        other => other,
    };
    values(sample, &mut |array| tensor(array, dtype)).into_iter().map(each).collect()
}

/// Calls the rows that have a kernel for CUDA, so that their programs are recorded; returns how many.
pub(crate) fn record(types: &[ScalarType]) -> (usize, BTreeSet<String>) {
    let device: Device = "recorded:0".parse().unwrap();
    let mut rows = 0;
    let mut refused = BTreeSet::new();
    for row in op_db::rows() {
        let Some(op) = operator(row.name).filter(|op| op.has_kernel(DispatchKey::Cuda)) else { continue };
        // Kernels that are not formulas launch by themselves, on real devices only: their calls fail.
        if op.has_kernel(DispatchKey::PrivateUse3) {
            continue;
        }
        rows += 1;
        for &dtype in row.types.iter().filter(|dtype| types.contains(dtype)) {
            for sample in &row.samples {
                let arguments = arguments(sample, dtype, device);
                // Its kernels are those of CUDA: the thread has that key instead of the device's own.
                let _own = ThreadKeysGuard::exclude(DispatchKey::PrivateUse3.into());
                let _cuda = ThreadKeysGuard::include(DispatchKeySet::of(DispatchKey::Cuda));
                if let Err(error) = op.call_boxed(&arguments) {
                    refused.insert(format!("{}: {error:.150}", row.name));
                }
            }
        }
    }
    (rows, refused)
}
