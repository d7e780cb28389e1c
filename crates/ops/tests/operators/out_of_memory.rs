//! Each allocation of an operator is refused once: the result is an error that names the operator, and nothing has changed.
#![expect(unsafe_code, reason = "passes a call on")]

use flambeau_core::allocator::{CpuAllocator, MemoryStats, set_allocator};
use flambeau_core::{Allocator, DataPtr, DeviceType, ErrorKind, Result, ScalarType, fallible};
use flambeau_ops::{Tensor, ops};
use std::cell::Cell;
use std::sync::Once;

thread_local! {
    /// How many more allocations this thread gets; `None` for no limit.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The usual allocator, which refuses threads that have none left.
struct Rationed;

fn take(bytes: usize) -> Result<()> {
    match LEFT.get() {
        Some(0) => Err(fallible::no_memory(bytes)),
        left => {
            LEFT.set(left.map(|left| left - 1));
            Ok(())
        }
    }
}

impl Allocator for Rationed {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        take(bytes).and_then(|()| CpuAllocator.allocate(bytes))
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        take(bytes).and_then(|()| CpuAllocator.allocate_zeroed(bytes))
    }

    fn memory_stats(&self) -> MemoryStats {
        CpuAllocator.memory_stats()
    }

    fn reset_peak(&self) {
        CpuAllocator.reset_peak();
    }

    fn empty_cache(&self) {
        CpuAllocator.empty_cache();
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the caller's condition is the same.
        unsafe { CpuAllocator.copy(from, to, bytes) }
    }
}

fn rationed<R>(allocations: usize, call: impl FnOnce() -> R) -> R {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| set_allocator(DeviceType::Cpu, &Rationed));
    LEFT.set(Some(allocations));
    let result = call();
    LEFT.set(None);
    result
}

type Call = fn(&Tensor) -> Result<Vec<Tensor>>;

const CALLS: &[(&str, Call)] = &[
    ("sort", |x| ops::sort(x, 0, true).map(|(a, b)| vec![a, b])),
    ("topk", |x| ops::topk(x, 9, 0, true, true).map(|(a, b)| vec![a, b])),
    ("unique", |x| ops::_unique2(x, true, true, true).map(|(a, b, c)| vec![a, b, c])),
    ("masked_select", |x| ops::masked_select(x, &x.gt_scalar(0)?).map(|a| vec![a])),
    ("kthvalue", |x| ops::kthvalue(x, 7, 0, false).map(|(a, b)| vec![a, b])),
    ("median", |x| x.median().map(|a| vec![a])),
    ("mode", |x| ops::mode(x, 0, false).map(|(a, b)| vec![a, b])),
    ("cumsum", |x| ops::cumsum(x, 0, None).map(|a| vec![a])),
    ("softmax", |x| ops::softmax_int(x, 0, None).map(|a| vec![a])),
    ("matmul", |x| x.reshape(&[10, 60])?.matmul(&x.reshape(&[60, 10])?).map(|a| vec![a])),
    ("cat", |x| ops::cat(&[x.clone(), x.clone()], 0).map(|a| vec![a])),
    ("histc", |x| ops::histc(x, 9, 0.into(), 0.into()).map(|a| vec![a])),
    ("index_select", |x| x.index_select(0, &ops::argsort(x, 0, false)?).map(|a| vec![a])),
    ("split", |x| ops::split_tensor(&x.add(x)?, 100, 0)),
    ("in place", |x| {
        let y = ops::clone(x, None)?;
        ops::cumsum_(&y, 0, None)?;
        Ok(vec![y])
    }),
];

#[test]
fn each_allocation_may_be_refused() -> Result<()> {
    let x = ops::sin(&Tensor::arange(600, ScalarType::F32)?)?;
    let values = |tensors: &[Tensor]| -> Result<Vec<Vec<f64>>> {
        tensors.iter().map(|t| ops::to_dtype(t, ScalarType::F64, false, false, None)?.to_vec()).collect()
    };
    let before = x.to_vec::<f32>()?;
    for (name, call) in CALLS {
        let expected = values(&call(&x)?)?;
        let mut allocations = 0;
        let made = loop {
            match rationed(allocations, || call(&x)) {
                Ok(made) => break made,
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{name}: {error}"),
            }
            assert_eq!(x.to_vec::<f32>()?, before, "{name}");
            allocations += 1;
        };
        assert!(allocations > 0, "{name} allocates nothing");
        assert_eq!(values(&made)?, expected, "{name} with {allocations} allocations");
    }
    Ok(())
}
