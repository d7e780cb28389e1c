//! A number where a schema takes a list of one or several: `x.sum_dim(1)`, `x.sum_dim([0, 1])`.

use flambeau_core::DimVec;

/// What a method takes for an argument of type `int[1]`: a number, or an array, slice or vector of numbers.
pub trait IntList {
    /// The numbers.
    fn ints(&self) -> &[i64];
}

impl IntList for i64 {
    #[inline]
    fn ints(&self) -> &[i64] {
        std::slice::from_ref(self)
    }
}

impl<const N: usize> IntList for [i64; N] {
    #[inline]
    fn ints(&self) -> &[i64] {
        self
    }
}

impl IntList for [i64] {
    #[inline]
    fn ints(&self) -> &[i64] {
        self
    }
}

impl IntList for Vec<i64> {
    #[inline]
    fn ints(&self) -> &[i64] {
        self
    }
}

impl IntList for DimVec {
    #[inline]
    fn ints(&self) -> &[i64] {
        self
    }
}

impl<T: IntList + ?Sized> IntList for &T {
    #[inline]
    fn ints(&self) -> &[i64] {
        (**self).ints()
    }
}
