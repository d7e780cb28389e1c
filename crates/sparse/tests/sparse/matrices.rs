//! Matrices with many zeros, in every layout.

use flambeau_core::{Layout, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};
use flambeau_sparse as sparse;

pub(crate) const LAYOUTS: [Layout; 5] =
    [Layout::SparseCoo, Layout::SparseCsr, Layout::SparseCsc, Layout::SparseBsr, Layout::SparseBsc];

/// A strided tensor in which two of three elements are 0; the others are small integers, so that sums are exact.
pub(crate) fn holey(sizes: &[i64], seed: u64) -> Tensor {
    let count: i64 = sizes.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 33
    };
    let values = (0..count).map(|_| if next() % 3 == 0 { (next() % 9) as f64 - 4.0 } else { 0.0 });
    Tensor::from_vec(values.collect(), sizes).unwrap()
}

/// A strided tensor of small integers.
pub(crate) fn full(sizes: &[i64], seed: u64) -> Tensor {
    ops::add_scalar(&holey(sizes, seed), Scalar::Int(5), Scalar::Int(1)).unwrap()
}

/// The same matrix in a layout, with blocks of two rows and three columns where it has blocks.
pub(crate) fn in_layout(dense: &Tensor, layout: Layout) -> Tensor {
    let block = layout.is_blocked().then_some([2, 3]);
    sparse::to_sparse(dense, layout, block, None).unwrap()
}

pub(crate) fn dense(tensor: &Tensor) -> Tensor {
    sparse::to_dense(tensor).unwrap()
}

pub(crate) fn same(a: &Tensor, b: &Tensor) -> bool {
    let (a, b) = (dense(a), dense(b));
    a.sizes() == b.sizes() && ops::equal(&a, &b).unwrap()
}

pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_vec(values.to_vec(), &[values.len() as i64]).unwrap()
}

pub(crate) fn as_type(tensor: &Tensor, dtype: ScalarType) -> Tensor {
    ops::to_dtype(tensor, dtype, false, false, None).unwrap()
}
