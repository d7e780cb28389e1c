//! Elements that are counted in row-major order, as `take` and `put` count them: from their numbers to their offsets.

use crate::native::strided_iter::StridedIter;
use smallvec::SmallVec;

/// Divides numbers below 2^32 by a multiplication.
#[derive(Clone, Copy)]
pub(super) struct Divisor {
    size: i64,
    reciprocal: u64,
}

impl Divisor {
    /// `None` where products would not be exact: unless `size` is at least 2, and `size` and all numbers are below 2^32.
    pub(super) fn new(size: i64, last: i64) -> Option<Self> {
        let narrow = 2..=i64::from(u32::MAX);
        // Rounded up, which is exact for numbers of 32 bits (Lemire, Kaser and Kurz: Faster remainder by direct computation, 2019).
        let reciprocal = || u64::MAX / size as u64 + 1;
        (narrow.contains(&size) && last <= i64::from(u32::MAX))
            .then(|| Divisor { size, reciprocal: reciprocal() })
    }

    /// The quotient and the remainder of a number.
    #[inline(always)]
    pub(super) fn split(self, number: i64) -> (i64, i64) {
        let quotient = ((u128::from(self.reciprocal) * number as u128) >> u64::BITS) as i64;
        (quotient, number - quotient * self.size)
    }
}

/// A dimension inside of the outermost one.
#[derive(Clone, Copy)]
struct Inner {
    size: i64,
    stride: i64,
    /// If all elements' numbers are below 2^32.
    divisor: Option<Divisor>,
}

/// The geometry of a tensor whose elements are counted in row-major order.
pub(super) struct RowMajor {
    /// Innermost first; adjacent dimensions that are contiguous to each other are merged.
    inner: SmallVec<[Inner; 4]>,
    outer_stride: i64,
    numel: i64,
}

impl RowMajor {
    pub(super) fn new(sizes: &[i64], strides: &[i64]) -> Self {
        let iter = StridedIter::new(sizes, [strides]);
        let numel = iter.numel() as i64;
        let (outer, inner) = iter.dims().split_first().unwrap_or((&(1, [0]), &[]));
        let inner = inner.iter().rev().map(|&(size, [stride])| {
            let size = size as i64;
            Inner { size, stride, divisor: Divisor::new(size, numel) }
        });
        RowMajor { inner: inner.collect(), outer_stride: outer.1[0], numel }
    }

    /// The number of elements.
    pub(super) fn numel(&self) -> i64 {
        self.numel
    }

    /// The offset of an element, whose number is below that of the elements.
    #[inline(always)]
    pub(super) fn offset(&self, number: i64) -> i64 {
        let (mut left, mut offset) = (number, 0);
        for dim in &self.inner {
            let (quotient, at) = match dim.divisor {
                Some(divisor) => divisor.split(left),
                None => (left / dim.size, left % dim.size),
            };
            offset += at * dim.stride;
            left = quotient;
        }
        offset + left * self.outer_stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_a_division() {
        for size in [2, 3, 7, 641, 65535, 65537, i64::from(u32::MAX)] {
            let divisor = Divisor::new(size, i64::from(u32::MAX)).unwrap();
            for number in [0, 1, 2, size - 1, size, 1 << 31, i64::from(u32::MAX) - 1, i64::from(u32::MAX)] {
                assert_eq!(divisor.split(number), (number / size, number % size));
            }
        }
    }

    #[test]
    fn offsets_are_sums_of_index_times_stride() {
        for strides in [[12, 4, 1], [1, 2, 6], [5, 0, 40], [0, 0, 0]] {
            let order = RowMajor::new(&[2, 3, 4], &strides);
            assert_eq!(order.numel(), 24);
            for number in 0..24 {
                let at = [number / 12, number / 4 % 3, number % 4];
                let offset: i64 = at.iter().zip(&strides).map(|(at, stride)| at * stride).sum();
                assert_eq!(order.offset(number), offset, "{number} of {strides:?}");
            }
        }
    }
}
