//! Sizes and strides of one tensor, inline up to five dimensions.

use std::fmt;

/// Dimensions kept without an allocation. Five covers N, C, D, H, W.
pub const INLINE_DIMS: usize = 5;

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

    /// `sizes` in row-major order. Products must fit; see [`shape::numel`](crate::shape::numel).
    #[inline]
    pub fn contiguous(sizes: &[i64]) -> Self {
        let mut made = Self::SCALAR;
        made.set_contiguous(sizes);
        made
    }

    /// Replaces [`SCALAR`](Self::SCALAR) by `sizes` in row-major order, where it stands.
    #[inline(always)]
    pub(crate) fn set_contiguous(&mut self, new: &[i64]) {
        let mut stride = 1i64;
        match &mut self.0 {
            Repr::Inline { dims, sizes, strides } if new.len() <= INLINE_DIMS => {
                *dims = new.len() as u8;
                for d in (0..new.len()).rev() {
                    sizes[d] = new[d];
                    strides[d] = stride;
                    stride *= new[d].max(1);
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
