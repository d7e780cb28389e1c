//! Sizes and strides of one tensor, inline up to five dimensions.

use std::fmt;

/// Dimensions that are stored without an allocation. Five covers N, C, D, H, W.
pub const INLINE_DIMS: usize = 5;

/// The largest number of dimensions of a tensor, so that a set of them fits in one word. PyTorch's reductions and NumPy have the same.
pub const MAX_DIMS: usize = 64;

/// Sizes and strides, in elements, of equal length.
#[derive(Clone)]
pub struct SizesAndStrides(Repr);

#[derive(Clone)]
enum Repr {
    Inline { dims: u8, sizes: [i64; INLINE_DIMS], strides: [i64; INLINE_DIMS] },
    Heap { sizes: Box<[i64]>, strides: Box<[i64]> },
}

impl SizesAndStrides {
    /// Of a zero-dimensional tensor.
    pub const SCALAR: SizesAndStrides =
        SizesAndStrides(Repr::Inline { dims: 0, sizes: [0; INLINE_DIMS], strides: [0; INLINE_DIMS] });

    /// `sizes` beside `strides`; the shorter length counts.
    #[inline]
    pub fn new(sizes: &[i64], strides: &[i64]) -> Self {
        let mut made = Self::SCALAR;
        made.set(sizes, strides);
        made
    }

    /// `sizes` in row-major order, with the strides of [`shape::contiguous_strides`](crate::shape::contiguous_strides).
    pub fn contiguous(sizes: &[i64]) -> Self {
        Self::new(sizes, &crate::shape::contiguous_strides(sizes))
    }

    /// Overwrites [`SCALAR`](Self::SCALAR) by `new` in row-major order; [`shape::numel`](crate::shape::numel) has accepted these sizes.
    #[inline(always)]
    pub(crate) fn set_contiguous(&mut self, new: &[i64]) {
        let mut stride = 1i64;
        match &mut self.0 {
            Repr::Inline { dims, sizes, strides } if new.len() <= INLINE_DIMS => {
                *dims = new.len() as u8;
                for d in (0..new.len()).rev() {
                    sizes[d] = new[d];
                    strides[d] = stride;
                    stride = stride.wrapping_mul(new[d]);
                }
                // Only then can a product have wrapped: otherwise it is at most the number of elements.
                if stride == 0 {
                    copy_contiguous(new, strides);
                }
            }
            _ => *self = Self::on_heap(new, &crate::shape::contiguous_strides(new)),
        }
    }

    /// The same with any strides.
    #[inline(always)]
    pub(crate) fn set(&mut self, new: &[i64], new_strides: &[i64]) {
        let count = new.len().min(new_strides.len());
        match &mut self.0 {
            Repr::Inline { dims, sizes, strides } if count <= INLINE_DIMS => {
                *dims = count as u8;
                #[expect(clippy::manual_memcpy, reason = "a call to memcpy costs more than five moves")]
                for d in 0..count {
                    sizes[d] = new[d];
                    strides[d] = new_strides[d];
                }
            }
            _ => *self = Self::on_heap(&new[..count], &new_strides[..count]),
        }
    }

    #[cold]
    fn on_heap(sizes: &[i64], strides: &[i64]) -> Self {
        SizesAndStrides(Repr::Heap { sizes: sizes.into(), strides: strides.into() })
    }

    #[inline]
    fn parts_mut(&mut self) -> (&mut [i64], &mut [i64]) {
        match &mut self.0 {
            Repr::Inline { sizes, strides, .. } => (sizes, strides),
            Repr::Heap { sizes, strides } => (sizes, strides),
        }
    }

    /// Exchanges two dimensions, which exist.
    #[inline]
    pub fn swap(&mut self, a: usize, b: usize) {
        let (sizes, strides) = self.parts_mut();
        sizes.swap(a, b);
        strides.swap(a, b);
    }

    /// Replaces size and stride of a dimension, which exists.
    #[inline]
    pub(crate) fn set_dim(&mut self, dim: usize, size: i64, stride: i64) {
        let (sizes, strides) = self.parts_mut();
        sizes[dim] = size;
        strides[dim] = stride;
    }

    /// The sizes, outermost first.
    #[inline]
    pub fn sizes(&self) -> &[i64] {
        match &self.0 {
            Repr::Inline { dims, sizes, .. } => &sizes[..(*dims as usize).min(INLINE_DIMS)],
            Repr::Heap { sizes, .. } => sizes,
        }
    }

    /// The strides, in elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        match &self.0 {
            Repr::Inline { dims, strides, .. } => &strides[..(*dims as usize).min(INLINE_DIMS)],
            Repr::Heap { strides, .. } => strides,
        }
    }

    /// How many dimensions.
    #[inline]
    pub fn dim(&self) -> usize {
        match &self.0 {
            Repr::Inline { dims, .. } => *dims as usize,
            Repr::Heap { sizes, .. } => sizes.len(),
        }
    }
}

/// The strides of sizes of which one is 0.
#[cold]
#[inline(never)]
fn copy_contiguous(sizes: &[i64], strides: &mut [i64]) {
    for (stride, exact) in strides.iter_mut().zip(crate::shape::contiguous_strides(sizes)) {
        *stride = exact;
    }
}

impl PartialEq for SizesAndStrides {
    fn eq(&self, other: &Self) -> bool {
        self.sizes() == other.sizes() && self.strides() == other.strides()
    }
}

impl fmt::Debug for SizesAndStrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sizes {:?} strides {:?}", self.sizes(), self.strides())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Sizes drawn at random, many with a 0 and some of more elements than there are numbers, against wide integers.
    #[test]
    fn contiguous_strides_are_exact_or_saturate() {
        let mut seed = 7u64;
        let mut draw = move |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let likely = [0, 0, 1, 1, 2, 3, 5, 1 << 21, 1 << 31, (1 << 31) + 1, 1 << 62, i64::MAX];
        let mut saturated = 0;
        for _ in 0..20_000 {
            let sizes: Vec<i64> = (0..draw(8)).map(|_| likely[draw(likely.len())]).collect();
            let mut next = 1i128;
            let mut expected = vec![0; sizes.len()];
            for d in (0..sizes.len()).rev() {
                expected[d] = next.min(i64::MAX.into()) as i64;
                next = (next * i128::from(sizes[d].max(1))).min(1 << 63);
            }
            saturated += usize::from(expected.contains(&i64::MAX));
            assert_eq!(SizesAndStrides::contiguous(&sizes).strides(), expected, "{sizes:?}");
            if crate::shape::numel(&sizes).is_ok() {
                let mut made = SizesAndStrides::SCALAR;
                made.set_contiguous(&sizes);
                assert_eq!(made.strides(), expected, "{sizes:?}");
            }
            assert_eq!(crate::shape::contiguous_strides(&sizes).as_slice(), expected, "{sizes:?}");
        }
        assert!(saturated > 500, "{saturated} saturated");
    }
}
