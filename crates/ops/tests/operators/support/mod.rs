//! Helpers of the kernels' tests: tensors of every type and layout, their values as f64, and a reference reduction.
#![allow(unsafe_code, dead_code, reason = "reads elements in tests; each test file uses a part")]

use flambeau_core::{Device, MemoryFormat, ReadGuard, Scalar, ScalarType};
use flambeau_ops::{Tensor, native, ops};

/// The values in row-major order.
pub(crate) fn values(tensor: &Tensor) -> Vec<f64> {
    let wide =
        ops::empty_memory_format(tensor.sizes(), Some(ScalarType::F64), None, None, None, None).unwrap();
    ops::copy_(&wide, tensor, false).unwrap();
    let guard = ReadGuard::acquire(wide.storage()).unwrap();
    let (from, n) = (guard.data_ptr().cast::<f64>(), wide.numel() as usize);
    // SAFETY: the guard is held, and a contiguous tensor has `n` elements there.
    (0..n).map(|i| unsafe { from.add(i).read() }).collect()
}

/// The values of an i64 tensor.
pub(crate) fn ints(tensor: &Tensor) -> Vec<i64> {
    assert_eq!(tensor.dtype(), ScalarType::I64);
    let dense = ops::clone(tensor, Some(MemoryFormat::Contiguous)).unwrap();
    let guard = ReadGuard::acquire(dense.storage()).unwrap();
    let from = guard.data_ptr().cast::<i64>();
    // SAFETY: as above.
    (0..dense.numel() as usize).map(|i| unsafe { from.add(i).read() }).collect()
}

/// Numbers in -1..1 that are the same in every run.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

pub(crate) fn cast(tensor: &Tensor, dtype: ScalarType) -> Tensor {
    let made = ops::empty_memory_format(tensor.sizes(), Some(dtype), None, None, None, None).unwrap();
    ops::copy_(&made, tensor, false).unwrap();
    made
}

/// A tensor of noise, scaled so that integers have a few values.
pub(crate) fn sample(sizes: &[i64], dtype: ScalarType, seed: u64) -> Tensor {
    let n: i64 = sizes.iter().product();
    let scale = if dtype.is_floating_point() { 1.0 } else { 4.0 };
    let data: Vec<f64> = noise(n as usize, seed).iter().map(|x| x * scale).collect();
    cast(&Tensor::from_vec(data, sizes).unwrap(), dtype)
}

/// The same logical shape in several layouts.
pub(crate) fn layouts(sizes: &[i64], dtype: ScalarType, seed: u64) -> Vec<(&'static str, Tensor)> {
    let mut all = vec![("contiguous", sample(sizes, dtype, seed))];
    if sizes.len() >= 2 {
        let last = sizes.len() as i64 - 1;
        let mut swapped = sizes.to_vec();
        swapped.swap(0, last as usize);
        let base = sample(&swapped, dtype, seed + 1);
        all.push(("transposed", ops::transpose_int(&base, 0, last).unwrap()));
    }
    if !sizes.is_empty() {
        let mut wider = sizes.to_vec();
        *wider.last_mut().unwrap() = wider.last().unwrap() * 2 + 3;
        let base = sample(&wider, dtype, seed + 2);
        let end = 1 + 2 * sizes.last().unwrap();
        all.push(("sliced", native::shape::view::slice(&base, -1, Some(1), Some(end), 2).unwrap()));
        let mut one = sizes.to_vec();
        one[0] = 1;
        all.push(("expanded", ops::expand(&sample(&one, dtype, seed + 3), sizes, false).unwrap()));
    }
    all
}

/// Every row of the dimensions `dims` of a row-major array, in row-major order of the other dimensions.
pub(crate) fn rows_of(data: &[f64], sizes: &[i64], dims: &[usize]) -> Vec<Vec<f64>> {
    let all: Vec<usize> = if dims.is_empty() { (0..sizes.len()).collect() } else { dims.to_vec() };
    let kept = |d: usize| !all.contains(&d);
    let outputs: i64 = (0..sizes.len()).filter(|&d| kept(d)).map(|d| sizes[d]).product();
    let mut rows = vec![vec![]; outputs as usize];
    for (i, value) in data.iter().enumerate() {
        let (mut left, mut row, mut step) = (i as i64, 0, 1);
        for d in (0..sizes.len()).rev() {
            let here = left % sizes[d];
            left /= sizes[d];
            if kept(d) {
                row += here * step;
                step *= sizes[d];
            }
        }
        rows[row as usize].push(*value);
    }
    rows
}

/// A sum without rounding errors to speak of (Neumaier), so that f64 results have a reference too.
pub(crate) fn total(x: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for x in x {
        let next = sum + x;
        lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
        sum = next;
    }
    sum + lost
}

/// The rounding unit of a type; 0 for integers.
pub(crate) fn epsilon(dtype: ScalarType) -> f64 {
    match dtype {
        ScalarType::F16 => 2f64.powi(-11),
        ScalarType::BF16 => 2f64.powi(-8),
        ScalarType::F32 => 2f64.powi(-24),
        ScalarType::F64 => 2f64.powi(-53),
        _ => 0.0,
    }
}

/// Fails unless each value is within `scale` times the bound of the expected one; NaN equals NaN.
pub(crate) fn assert_close(got: &[f64], want: &[f64], bound: impl Fn(usize) -> f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: number of results");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        let same = (g.is_nan() && w.is_nan()) || g == w || (g - w).abs() <= bound(i);
        assert!(same, "{what}: result {i} is {g}, expected {w}, bound {}", bound(i));
    }
}

pub(crate) fn meta(sizes: &[i64], dtype: ScalarType) -> Tensor {
    ops::empty_memory_format(sizes, Some(dtype), None, Some(Device::META), None, None).unwrap()
}

pub(crate) fn scalar(x: f64) -> Scalar {
    Scalar::Float(x)
}
