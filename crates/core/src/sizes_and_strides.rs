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
        let dims = sizes.len().min(strides.len());
        if dims > INLINE_DIMS {
            return SizesAndStrides(Repr::Heap {
                sizes: sizes[..dims].into(),
                strides: strides[..dims].into(),
            });
        }
        let mut inline = ([0; INLINE_DIMS], [0; INLINE_DIMS]);
        #[expect(clippy::manual_memcpy, reason = "a call to memcpy costs more than five moves")]
        for d in 0..dims {
            inline.0[d] = sizes[d];
            inline.1[d] = strides[d];
        }
        SizesAndStrides(Repr::Inline { dims: dims as u8, sizes: inline.0, strides: inline.1 })
    }

    /// `sizes` in row-major order. Products must fit; see [`shape::numel`](crate::shape::numel).
    #[inline]
    pub fn contiguous(sizes: &[i64]) -> Self {
        if sizes.len() > INLINE_DIMS {
            let strides = crate::shape::contiguous_strides(sizes);
            return SizesAndStrides(Repr::Heap { sizes: sizes.into(), strides: strides.as_slice().into() });
        }
        let mut inline = ([0; INLINE_DIMS], [0; INLINE_DIMS]);
        let mut stride = 1i64;
        for d in (0..sizes.len()).rev() {
            inline.0[d] = sizes[d];
            inline.1[d] = stride;
            stride *= sizes[d].max(1);
        }
        SizesAndStrides(Repr::Inline { dims: sizes.len() as u8, sizes: inline.0, strides: inline.1 })
    }

    /// Exchanges two dimensions, which exist.
    #[inline]
    pub fn swap(&mut self, a: usize, b: usize) {
        let (sizes, strides) = match &mut self.0 {
            Repr::Inline { sizes, strides, .. } => (&mut sizes[..], &mut strides[..]),
            Repr::Heap { sizes, strides } => (&mut sizes[..], &mut strides[..]),
        };
        sizes.swap(a, b);
        strides.swap(a, b);
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
