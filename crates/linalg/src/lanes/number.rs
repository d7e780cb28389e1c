//! Numbers in lanes: what the algorithms need of real and of complex ones.

use crate::field::Field;
use flambeau_core::Complex;
use flambeau_vectorized::{Float, Vector};

/// The truth values of lanes.
pub(super) type MaskOf<L> = <<L as Lane>::Part as Vector>::Mask;

/// A number in each lane. Products that are added or subtracted are rounded as seldom as the parts allow.
pub(super) trait Lane: Copy {
    /// The number in one lane.
    type Element: Field;
    /// A vector of parts.
    type Part: Float<Element: Into<f64>>;
    /// How many vectors of parts a number has.
    const PARTS: usize;
    /// How many numbers there are.
    const LANES: usize = <Self::Part as Vector>::LANES;

    /// Real numbers.
    fn real(re: Self::Part) -> Self;
    /// The real parts.
    fn re(self) -> Self::Part;
    /// The conjugates.
    fn conj(self) -> Self;
    /// `yes` where the mask is true, `no` elsewhere.
    fn select(mask: MaskOf<Self>, yes: Self, no: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The product.
    fn times(self, by: Self) -> Self;
    /// `self + a * b`
    fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self - a * b`
    fn minus_product(self, a: Self, b: Self) -> Self;
    /// The quotient, without overflow of squares.
    fn over(self, by: Self) -> Self;
    /// The product with real numbers.
    fn scaled(self, by: Self::Part) -> Self;
    /// `self + a * b`, for real numbers `b`.
    fn plus_scaled(self, a: Self, b: Self::Part) -> Self;
    /// The quotient by real numbers.
    fn divided(self, by: Self::Part) -> Self;
    /// What pivots are compared by: [`Field::pivot_size`].
    fn pivot_size(self) -> Self::Part;
    /// The magnitude of the larger part, NaN where a part is.
    fn larger_part(self) -> Self::Part;
    /// `sum` and the squares of the parts.
    fn add_square(self, sum: Self::Part) -> Self::Part;
    /// Where there is no imaginary part.
    fn is_real(self) -> MaskOf<Self>;

    /// 0 in each lane.
    #[inline(always)]
    fn zero() -> Self {
        Self::real(flambeau_vectorized::Number::zero())
    }
    /// 1 in each lane.
    #[inline(always)]
    fn one() -> Self {
        Self::real(flambeau_vectorized::Number::one())
    }
    /// Where a number is 0.
    #[inline(always)]
    fn is_zero(self) -> MaskOf<Self> {
        self.larger_part().eq(flambeau_vectorized::Number::zero())
    }
}

/// Real numbers.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Reals<V>(V);

impl<V: Float<Element: Into<f64> + Field>> Lane for Reals<V> {
    type Element = V::Element;
    type Part = V;
    const PARTS: usize = 1;

    #[inline(always)]
    fn real(re: V) -> Self {
        Self(re)
    }
    #[inline(always)]
    fn re(self) -> V {
        self.0
    }
    #[inline(always)]
    fn conj(self) -> Self {
        self
    }
    #[inline(always)]
    fn select(mask: V::Mask, yes: Self, no: Self) -> Self {
        Self(V::select(mask, yes.0, no.0))
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
    #[inline(always)]
    fn times(self, by: Self) -> Self {
        Self(self.0 * by.0)
    }
    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        Self(a.0.mul_add(b.0, self.0))
    }
    #[inline(always)]
    fn minus_product(self, a: Self, b: Self) -> Self {
        Self(a.0.neg_mul_add(b.0, self.0))
    }
    #[inline(always)]
    fn over(self, by: Self) -> Self {
        Self(self.0 / by.0)
    }
    #[inline(always)]
    fn scaled(self, by: V) -> Self {
        Self(self.0 * by)
    }
    #[inline(always)]
    fn plus_scaled(self, a: Self, b: V) -> Self {
        Self(a.0.mul_add(b, self.0))
    }
    #[inline(always)]
    fn divided(self, by: V) -> Self {
        Self(self.0 / by)
    }
    #[inline(always)]
    fn pivot_size(self) -> V {
        self.0.abs()
    }
    #[inline(always)]
    fn larger_part(self) -> V {
        self.0.abs()
    }
    #[inline(always)]
    fn add_square(self, sum: V) -> V {
        self.0.mul_add(self.0, sum)
    }
    #[inline(always)]
    fn is_real(self) -> V::Mask {
        V::zero().eq(V::zero())
    }
}

/// Complex numbers, whose parts are in vectors of their own.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complexes<V> {
    re: V,
    im: V,
}

impl<V: Float<Element: Into<f64>>> Lane for Complexes<V>
where
    Complex<V::Element>: Field,
{
    type Element = Complex<V::Element>;
    type Part = V;
    const PARTS: usize = 2;

    #[inline(always)]
    fn real(re: V) -> Self {
        Self { re, im: V::zero() }
    }
    #[inline(always)]
    fn re(self) -> V {
        self.re
    }
    #[inline(always)]
    fn conj(self) -> Self {
        Self { re: self.re, im: -self.im }
    }
    #[inline(always)]
    fn select(mask: V::Mask, yes: Self, no: Self) -> Self {
        Self { re: V::select(mask, yes.re, no.re), im: V::select(mask, yes.im, no.im) }
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
    #[inline(always)]
    fn times(self, by: Self) -> Self {
        let re = self.im.neg_mul_add(by.im, self.re * by.re);
        Self { re, im: self.im.mul_add(by.re, self.re * by.im) }
    }
    #[inline(always)]
    fn plus_product(self, a: Self, b: Self) -> Self {
        let re = a.im.neg_mul_add(b.im, a.re.mul_add(b.re, self.re));
        Self { re, im: a.im.mul_add(b.re, a.re.mul_add(b.im, self.im)) }
    }
    #[inline(always)]
    fn minus_product(self, a: Self, b: Self) -> Self {
        let re = a.im.mul_add(b.im, a.re.neg_mul_add(b.re, self.re));
        Self { re, im: a.im.neg_mul_add(b.re, a.re.neg_mul_add(b.im, self.im)) }
    }
    /// Smith, "Algorithm 116: complex division" (1962), with the larger part of the divisor first in each lane.
    #[inline(always)]
    fn over(self, by: Self) -> Self {
        let ordered = by.re.abs().ge(by.im.abs());
        let order = |re: V, im: V| (V::select(ordered, re, im), V::select(ordered, im, re));
        let ((large, small), (first, second)) = (order(by.re, by.im), order(self.re, self.im));
        let ratio = small / large;
        let size = small.mul_add(ratio, large);
        let re = second.mul_add(ratio, first) / size;
        let im = first.neg_mul_add(ratio, second) / size;
        Self { re, im: V::select(ordered, im, -im) }
    }
    #[inline(always)]
    fn scaled(self, by: V) -> Self {
        Self { re: self.re * by, im: self.im * by }
    }
    #[inline(always)]
    fn plus_scaled(self, a: Self, b: V) -> Self {
        Self { re: a.re.mul_add(b, self.re), im: a.im.mul_add(b, self.im) }
    }
    #[inline(always)]
    fn divided(self, by: V) -> Self {
        Self { re: self.re / by, im: self.im / by }
    }
    #[inline(always)]
    fn pivot_size(self) -> V {
        self.re.abs() + self.im.abs()
    }
    #[inline(always)]
    fn larger_part(self) -> V {
        self.re.abs().maximum(self.im.abs())
    }
    #[inline(always)]
    fn add_square(self, sum: V) -> V {
        self.im.mul_add(self.im, self.re.mul_add(self.re, sum))
    }
    #[inline(always)]
    fn is_real(self) -> V::Mask {
        self.im.eq(V::zero())
    }
}
