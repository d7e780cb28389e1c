//! Vectors of complex numbers: a vector of real parts and one of imaginary parts, so that every function of real vectors serves them. Parts
//! are separated by each load and interleaved by each store.
#![expect(unsafe_code, reason = "loads and stores go through raw pointers")]

use flambeau_core::{Complex, Element, Scalar};

use super::isa::Isa;
use super::lanes::{ComplexLanes, Float, Lanes, Number, Vector};

/// How many of the `count` complex numbers' parts are in the first of the two vectors that they take in memory, and in the second.
#[inline(always)]
fn parts_of<V: Vector>(count: usize) -> (usize, usize) {
    ((2 * count).min(V::LANES), (2 * count).saturating_sub(V::LANES))
}

impl<V: Float> Vector for Complex<V> {
    type Element = Complex<V::Element>;
    type Mask = V::Mask;
    const LANES: usize = V::LANES;

    #[inline(always)]
    fn splat(value: Self::Element) -> Self {
        Complex::new(V::splat(value.re), V::splat(value.im))
    }
    #[inline(always)]
    unsafe fn load(from: *const Self::Element) -> Self {
        let from = from.cast::<V::Element>();
        // SAFETY: `from` is valid for reading `LANES` elements of two parts.
        let (first, second) = unsafe { (V::load(from), V::load(from.add(V::LANES))) };
        let (re, im) = first.deinterleave(second);
        Complex::new(re, im)
    }
    #[inline(always)]
    unsafe fn load_partial(from: *const Self::Element, count: usize) -> Self {
        let (from, (low, high)) = (from.cast::<V::Element>(), parts_of::<V>(count));
        // SAFETY: `from` is valid for reading `count <= LANES` elements of two parts, of which the second vector holds those past the first.
        let (first, second) =
            unsafe { (V::load_partial(from, low), V::load_partial(from.wrapping_add(V::LANES), high)) };
        let (re, im) = first.deinterleave(second);
        Complex::new(re, im)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut Self::Element) {
        let (to, (first, second)) = (to.cast::<V::Element>(), self.re.interleave(self.im));
        // SAFETY: `to` is valid for writing `LANES` elements of two parts.
        unsafe {
            first.store(to);
            second.store(to.add(V::LANES));
        }
    }
    #[inline(always)]
    unsafe fn store_partial(self, to: *mut Self::Element, count: usize) {
        let (to, (first, second)) = (to.cast::<V::Element>(), self.re.interleave(self.im));
        let (low, high) = parts_of::<V>(count);
        // SAFETY: `to` is valid for writing `count <= LANES` elements of two parts.
        unsafe {
            first.store_partial(to, low);
            second.store_partial(to.wrapping_add(V::LANES), high);
        }
    }
    #[inline(always)]
    fn select(mask: V::Mask, yes: Self, no: Self) -> Self {
        Complex::new(V::select(mask, yes.re, no.re), V::select(mask, yes.im, no.im))
    }
    #[inline(always)]
    fn eq(self, other: Self) -> V::Mask {
        self.re.eq(other.re) & self.im.eq(other.im)
    }
    #[inline(always)]
    fn ne(self, other: Self) -> V::Mask {
        self.re.ne(other.re) | self.im.ne(other.im)
    }
}

impl<V: Float> Number for Complex<V>
where
    Complex<V::Element>: Element,
{
    #[inline(always)]
    fn scalar(value: Scalar) -> Self {
        let (re, im) = value.to_complex();
        Complex::new(V::scalar(Scalar::Float(re)), V::scalar(Scalar::Float(im)))
    }
    #[inline(always)]
    fn scaled(self, factor: Scalar) -> Self {
        if factor.is_complex() {
            return Self::scalar(factor) * self;
        }
        let factor = Self::scalar(factor).re;
        Complex::new(factor * self.re, factor * self.im)
    }
    #[inline(always)]
    fn zero() -> Self {
        Complex::new(V::zero(), V::zero())
    }
    #[inline(always)]
    fn one() -> Self {
        Complex::new(V::one(), V::zero())
    }
}

macro_rules! complex_lanes {
    ($($part:ident)*) => {$(
        impl<I: Isa> Lanes<I> for Complex<$part>
        where
            $part: Lanes<I, Vector: Float<Element = $part>>,
        {
            type Vector = Complex<<$part as Lanes<I>>::Vector>;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }
            #[inline(always)]
            fn narrow(value: Self) -> Self {
                value
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self::Vector {
                // SAFETY: the conditions are the same.
                unsafe { <Self::Vector as Vector>::load(from) }
            }
            #[inline(always)]
            unsafe fn load_partial(from: *const Self, count: usize) -> Self::Vector {
                // SAFETY: the conditions are the same.
                unsafe { <Self::Vector as Vector>::load_partial(from, count) }
            }
            #[inline(always)]
            unsafe fn store(vector: Self::Vector, to: *mut Self) {
                // SAFETY: the conditions are the same.
                unsafe { vector.store(to) }
            }
            #[inline(always)]
            unsafe fn store_partial(vector: Self::Vector, to: *mut Self, count: usize) {
                // SAFETY: the conditions are the same.
                unsafe { vector.store_partial(to, count) }
            }
        }

        impl<I: Isa> ComplexLanes<I> for Complex<$part>
        where
            $part: Lanes<I, Vector: Float<Element = $part>>,
        {
            type Part = <$part as Lanes<I>>::Vector;
        }
    )*};
}

complex_lanes!(f32 f64);
