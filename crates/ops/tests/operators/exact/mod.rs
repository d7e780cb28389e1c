//! Small integers as tensors of every type and layout: sums of their products are exact, so references are met to the bit.
#![allow(dead_code, reason = "each test file uses its part")]
#![expect(unsafe_code, reason = "elements are read behind a guard")]

use flambeau_core::{Device, ReadGuard, ScalarType};
use flambeau_ops::native::shape::view::as_strided;
use flambeau_ops::{Tensor, ops};

/// Types of numbers that products exist for.
pub(crate) const NUMBERS: [ScalarType; 9] = [
    ScalarType::U8,
    ScalarType::I8,
    ScalarType::I16,
    ScalarType::I32,
    ScalarType::I64,
    ScalarType::F16,
    ScalarType::BF16,
    ScalarType::F32,
    ScalarType::F64,
];
pub(crate) const FLOATS: [ScalarType; 4] =
    [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64];

/// `count` integers from -2 to 2 (0 to 2 for unsigned types), by a generator of Lehmer's.
pub(crate) fn small(count: usize, seed: u64, dtype: ScalarType) -> Vec<f64> {
    let mut state = seed * 2_654_435_761 % 2_147_483_647 + 1;
    let mut next = || {
        state = state * 48271 % 2_147_483_647;
        (state >> 8) % 5
    };
    (0..count)
        .map(|_| if dtype == ScalarType::U8 { (next() % 3) as f64 } else { next() as f64 - 2.0 })
        .collect()
}

pub(crate) fn numel(sizes: &[i64]) -> usize {
    sizes.iter().product::<i64>() as usize
}

pub(crate) fn empty(sizes: &[i64], dtype: ScalarType) -> Tensor {
    ops::empty_memory_format(sizes, Some(dtype), None, Some(Device::CPU), None, None).unwrap()
}

pub(crate) fn tensor(values: &[f64], sizes: &[i64], dtype: ScalarType) -> Tensor {
    let made = empty(sizes, dtype);
    ops::copy_(&made, &Tensor::from_vec(values.to_vec(), sizes).unwrap(), false).unwrap();
    made
}

/// The values in row-major order.
pub(crate) fn values(tensor: &Tensor) -> Vec<f64> {
    let copy = empty(tensor.sizes(), ScalarType::F64);
    ops::copy_(&copy, tensor, false).unwrap();
    let _guard = ReadGuard::acquire(copy.storage()).unwrap();
    if copy.numel() == 0 {
        return vec![];
    }
    // SAFETY: a fresh contiguous tensor of as many f64, under a guard.
    unsafe { std::slice::from_raw_parts(copy.data_ptr().cast::<f64>(), copy.numel() as usize).to_vec() }
}

/// The same values in other memory: row-major, dimensions reversed, with gaps and an offset.
pub(crate) fn layouts(tensor: &Tensor) -> Vec<Tensor> {
    let sizes = tensor.sizes();
    let strides = |order: &mut dyn Iterator<Item = usize>, first: i64| {
        let (mut strides, mut next) = (vec![0; sizes.len()], first);
        for d in order {
            strides[d] = next;
            next *= sizes[d].max(1) + (first - 1);
        }
        (strides, next)
    };
    let reversed = strides(&mut (0..sizes.len()), 1);
    let gaps = strides(&mut (0..sizes.len()).rev(), 2);
    let mut all = vec![tensor.clone()];
    for ((strides, room), offset) in [(reversed, 0), (gaps, 3)] {
        let memory = empty(&[room + 8], tensor.dtype());
        let other = as_strided(&memory, sizes, &strides, Some(offset)).unwrap();
        ops::copy_(&other, tensor, false).unwrap();
        all.push(other);
    }
    all
}

/// `b x m x k` times `b x k x n`, in f64.
pub(crate) fn product(a: &[f64], b: &[f64], [count, m, k, n]: [usize; 4]) -> Vec<f64> {
    let mut c = vec![0.0; count * m * n];
    for i in 0..count {
        for r in 0..m {
            for col in 0..n {
                c[(i * m + r) * n + col] =
                    (0..k).map(|p| a[(i * m + r) * k + p] * b[(i * k + p) * n + col]).sum();
            }
        }
    }
    c
}
