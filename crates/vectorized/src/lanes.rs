//! The traits that formulas are written against: vectors, their masks, and the element types that load into them.
//!
//! The traits of vectors add operations to each other, so that a formula can require only what it uses. [`Vector`] loads, stores, selects
//! and compares for equality. [`Number`] adds `+ - *`, 0 and 1; every type has it. [`Ordered`] adds `<`, minimum, maximum and a magnitude;
//! complex numbers do not have it. [`Float`] and [`Integer`] are ordered.
#![expect(unsafe_code, reason = "loads and stores go through raw pointers")]

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use flambeau_core::Complex;

use super::isa::Isa;
use super::math::FloatElement;

/// A truth value per lane, with `&`, `|` and `!`.
pub trait Mask: Copy + BitAnd<Output = Self> + BitOr<Output = Self> + Not<Output = Self> {
    /// The number of lanes.
    const LANES: usize;

    /// The mask whose first `count` lanes are true.
    fn first(count: usize) -> Self;

    /// Lane `i` is true where byte `i` is not zero.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading `count` bytes, and `count` is at most `LANES`; the lanes past it are false.
    unsafe fn load_bool(from: *const bool, count: usize) -> Self;

    /// Writes a byte, 0 or 1, for each of the first `count` lanes.
    ///
    /// # Safety
    ///
    /// - `to` is valid for writing `count` bytes, and `count` is at most `LANES`.
    unsafe fn store_bool(self, to: *mut bool, count: usize);

    /// True if some lane is.
    fn any(self) -> bool;

    /// True if every lane is.
    fn all(self) -> bool;
}

/// A fixed number of elements that are loaded, stored, selected and compared for equality together. [`Number`] adds arithmetic, and
/// [`Ordered`] an order.
pub trait Vector: Copy {
    /// The type of a lane.
    type Element: Copy + 'static;
    /// The result of a comparison.
    type Mask: Mask;
    /// The number of lanes.
    const LANES: usize;

    /// The same value in every lane.
    fn splat(value: Self::Element) -> Self;

    /// Reads `LANES` elements.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading `LANES` elements; it need not be aligned for more than one.
    unsafe fn load(from: *const Self::Element) -> Self;

    /// Reads `count` elements; the other lanes hold zero.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading `count` elements, and `count` is at most `LANES`.
    unsafe fn load_partial(from: *const Self::Element, count: usize) -> Self;

    /// Writes `LANES` elements.
    ///
    /// # Safety
    ///
    /// - `to` is valid for writing `LANES` elements; it need not be aligned for more than one.
    unsafe fn store(self, to: *mut Self::Element);

    /// Writes the first `count` elements.
    ///
    /// # Safety
    ///
    /// - `to` is valid for writing `count` elements, and `count` is at most `LANES`.
    unsafe fn store_partial(self, to: *mut Self::Element, count: usize);

    /// `yes` where the mask is true, `no` elsewhere.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;

    /// `self == other`; false where either is NaN.
    fn eq(self, other: Self) -> Self::Mask;
    /// `self != other`; true where either is NaN.
    fn ne(self, other: Self) -> Self::Mask;
}

/// The arithmetic of a ring, which every element type has. Integers wrap; `bool` computes with or (`+`), and (`*`), xor (`-`).
pub trait Number:
    Vector<Element: flambeau_core::Element>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
    /// A number given as an argument, in every lane.
    #[inline(always)]
    fn scalar(value: flambeau_core::Scalar) -> Self {
        Self::splat(flambeau_core::Element::from_scalar(value))
    }
    /// The product with a number given as an argument. Complex numbers are multiplied by a real one part by part, so that one with an infinite
    /// part stays infinite.
    #[inline(always)]
    fn scaled(self, factor: flambeau_core::Scalar) -> Self {
        Self::scalar(factor) * self
    }
    /// 0 in every lane.
    fn zero() -> Self;
    /// 1 in every lane.
    fn one() -> Self;
}

/// Numbers with an order, in which they are an ordered ring: all but complex ones.
pub trait Ordered: Number {
    /// `self < other`; false where either is NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// `self <= other`; false where either is NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// `self > other`; false where either is NaN.
    #[inline(always)]
    fn gt(self, other: Self) -> Self::Mask {
        other.lt(self)
    }
    /// `self >= other`; false where either is NaN.
    #[inline(always)]
    fn ge(self, other: Self) -> Self::Mask {
        other.le(self)
    }
    /// The absolute value; that of the smallest integer is itself.
    fn abs(self) -> Self;
    /// `self` where `self < other`, else `other`: so `other` where either is NaN.
    fn min(self, other: Self) -> Self;
    /// `self` where `self > other`, else `other`: so `other` where either is NaN.
    fn max(self, other: Self) -> Self;
    /// The smaller one, or NaN where either is NaN, as `torch.minimum`.
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        Self::select(self.ne(self), self, self.min(other))
    }
    /// The larger one, or NaN where either is NaN, as `torch.maximum`.
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        Self::select(self.ne(self), self, self.max(other))
    }
    /// [`Ordered::min`] in whose order -0 is less than 0, as in IEEE 754-2019.
    #[inline(always)]
    fn min_of_signed(self, other: Self) -> Self {
        // Equal numbers can only differ if they are zeros; this sum of two zeros is -0 where either is.
        signed_zeros(self, other, self.min(other), -((-self) - other))
    }
    /// [`Ordered::max`] in whose order 0 is greater than -0, as in IEEE 754-2019.
    #[inline(always)]
    fn max_of_signed(self, other: Self) -> Self {
        signed_zeros(self, other, self.max(other), self + other)
    }
}

/// `zero` where both are zeros that may have a sign, else `other_than_zero`.
#[inline(always)]
fn signed_zeros<V: Ordered>(a: V, b: V, other_than_zero: V, zero: V) -> V {
    use flambeau_core::Element;
    if !<V::Element as Element>::SCALAR_TYPE.is_floating_point() {
        return other_than_zero;
    }
    V::select(a.eq(V::zero()) & b.eq(V::zero()), zero, other_than_zero)
}

/// Operations of the integers (and of `bool`, where `!` is logical). Nothing here panics.
pub trait Integer:
    Ordered + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// `self << by`, and 0 where `by` is negative or at least the width, as PyTorch.
    fn shl(self, by: Self) -> Self;
    /// `self >> by`, filled with the sign where `by` is negative or at least the width, as PyTorch.
    fn shr(self, by: Self) -> Self;
    /// The quotient rounded towards zero; 0 where `other` is 0, and the smallest integer divided by -1 wraps.
    fn div_trunc(self, other: Self) -> Self;
    /// The quotient rounded down, as Python's `//`; the exceptions of [`Integer::div_trunc`].
    fn div_floor(self, other: Self) -> Self;
    /// The remainder with the sign of `other`, as Python's `%`; 0 where `other` is 0.
    fn remainder(self, other: Self) -> Self;
    /// The remainder with the sign of `self`, as C's `%`; 0 where `other` is 0.
    fn remainder_trunc(self, other: Self) -> Self;
    /// The greatest common divisor, of two zeros 0. It is not negative, unless it is the magnitude of the smallest integer, which wraps.
    fn gcd(self, other: Self) -> Self;
}

/// The bits of a float vector, as unsigned integers of the same width that wrap.
pub trait Bits:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
{
    /// The low bits of `value` in every lane.
    fn splat(value: u64) -> Self;
    /// Shifts left by the same amount, less than the width, in every lane.
    fn shl(self, by: u32) -> Self;
    /// Shifts right, filling with zeros.
    fn shr(self, by: u32) -> Self;
}

/// Operations of f32 and f64. The functions of `super::math` are methods here; each states its error in ulp, as measured against a
/// reference of higher precision.
pub trait Float: Ordered<Element: FloatElement> + Div<Output = Self> {
    /// The vector of this one's bits.
    type Bits: Bits;

    /// The bits.
    fn to_bits(self) -> Self::Bits;
    /// The floats with these bits.
    fn from_bits(bits: Self::Bits) -> Self;
    /// Where two vectors of bits are equal.
    fn bits_equal(a: Self::Bits, b: Self::Bits) -> Self::Mask;

    /// The square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// `self * factor + term`, rounded once.
    fn mul_add(self, factor: Self, term: Self) -> Self;
    /// The largest integer that is not above it.
    fn floor(self) -> Self;
    /// The smallest integer that is not below it.
    fn ceil(self) -> Self;
    /// The nearest integer, halves to even, as `torch.round`.
    fn round(self) -> Self;
    /// The integer part.
    fn trunc(self) -> Self;
    /// `self * 2^n` for an integral `n`, of magnitude below 2^11, rounded once.
    fn scale(self, n: Self) -> Self;
    /// `self * 2^floor(n)`, of magnitude below 2^11, rounded once.
    fn scale_floor(self, n: Self) -> Self;
    /// `floor(log2(self))` of a positive normal number.
    fn exponent(self) -> Self;
    /// `self / 2^n`, of a positive normal number, with the `n` for which it is in 3/4 to 3/2.
    fn significand(self) -> Self;
    /// Each lane moved up by one, and the last of `before` in the first.
    fn slide_up(self, before: Self) -> Self;
    /// Each lane moved down by one, and the first of `after` in the last.
    fn slide_down(self, after: Self) -> Self;
    /// The lanes of two adjacent vectors, `self` before `next`, at even positions, and those at odd ones: the real and the imaginary parts of
    /// complex numbers.
    fn deinterleave(self, next: Self) -> (Self, Self);
    /// Two adjacent vectors with the lanes of `self` at even positions and those of `odd` at odd ones.
    fn interleave(self, odd: Self) -> (Self, Self);
    /// The elements of `table` at the indices that are the low four bits of `index`.
    fn look_up(table: &'static [Self::Element; 16], index: Self::Bits) -> Self;

    /// `term - self * factor`, rounded once.
    #[inline(always)]
    fn neg_mul_add(self, factor: Self, term: Self) -> Self {
        (-self).mul_add(factor, term)
    }
    /// The literal `value`, rounded to the element type, in every lane.
    #[inline(always)]
    fn constant(value: f64) -> Self {
        Self::splat(Self::Element::from_f64(value))
    }
    /// Where a lane is NaN.
    #[inline(always)]
    fn is_nan(self) -> Self::Mask {
        self.ne(self)
    }
    /// The magnitude of `self` with the sign of `sign`.
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        let mask = Self::Bits::splat(Self::Element::SIGN_MASK);
        let rest = Self::Bits::splat(!Self::Element::SIGN_MASK);
        Self::from_bits((self.to_bits() & rest) | (sign.to_bits() & mask))
    }
    /// `1 / self`, correctly rounded.
    #[inline(always)]
    fn recip(self) -> Self {
        Self::one() / self
    }
    /// `1 / sqrt(self)`, rounded twice: within 1.5 ulp.
    #[inline(always)]
    fn rsqrt(self) -> Self {
        self.sqrt().recip()
    }
    /// The lanes, in memory, for a function that must take them one by one.
    #[inline(always)]
    fn spill(self, lanes: &mut [Self::Element; 16]) {
        const { assert!(Self::LANES <= 16) };
        // SAFETY: the array holds 16 elements, and no float vector has more lanes.
        unsafe { self.store(lanes.as_mut_ptr()) }
    }
    /// The vector of the first lanes in memory.
    #[inline(always)]
    fn refill(lanes: &[Self::Element; 16]) -> Self {
        const { assert!(Self::LANES <= 16) };
        // SAFETY: the array holds 16 elements, and no float vector has more lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }
    /// `[n, high, low]` with `self = n * pi/2 + high + low` modulo 2 pi, as [`FloatElement::reduce_large`] gives them: lane by lane.
    #[inline(always)]
    fn reduce_large(self) -> [Self; 3] {
        let zeros = [Self::Element::from_f64(0.0); 16];
        let [mut lanes, mut n, mut high, mut low] = [zeros; 4];
        self.spill(&mut lanes);
        let count = Self::LANES;
        Self::Element::reduce_large(&lanes[..count], &mut n[..count], &mut high[..count], &mut low[..count]);
        [Self::refill(&n), Self::refill(&high), Self::refill(&low)]
    }
    /// The remainder of `self` divided by `by`, with the sign of `self`, as C's `fmod`: lane by lane, in f64.
    #[inline(always)]
    fn fmod(self, by: Self) -> Self {
        let zeros = [Self::Element::from_f64(0.0); 16];
        let (mut from, mut divisors) = (zeros, zeros);
        self.spill(&mut from);
        by.spill(&mut divisors);
        super::math::fmod_each(&mut from, &divisors);
        Self::refill(&from)
    }
    /// e to the power of `self`. Within 0.61 ulp, and 0.77 where the result is denormal.
    #[inline(always)]
    fn exp(self) -> Self {
        super::math::exp(self)
    }
    /// e to the power of `self` within 2^-20 of it, enough where it is rounded to f16 or bf16; and true only if all results are
    /// [normal](Lanes::store_normal).
    #[inline(always)]
    fn exp_to_half(self) -> (Self, bool) {
        super::math::exp_to_half(self)
    }
    /// 2 to the power of `self`. Within 0.77 ulp in f32, 0.77 in f64.
    #[inline(always)]
    fn exp2(self) -> Self {
        super::math::exp2(self)
    }
    /// `e^self - 1`, without cancellation near 0. Within 0.88 ulp in f32, 0.85 in f64.
    #[inline(always)]
    fn expm1(self) -> Self {
        super::math::expm1(self)
    }
    /// The natural logarithm; -infinity at 0, NaN below. Within 0.88 ulp in f32, 0.88 in f64.
    #[inline(always)]
    fn log(self) -> Self {
        super::math::log(self)
    }
    /// The logarithm to base 2; -infinity at 0, NaN below. Within 0.58 ulp in f32, 0.58 in f64.
    #[inline(always)]
    fn log2(self) -> Self {
        super::math::log2(self)
    }
    /// The logarithm to base 10; -infinity at 0, NaN below. Within 0.62 ulp in f32, 0.62 in f64.
    #[inline(always)]
    fn log10(self) -> Self {
        super::math::log10(self)
    }
    /// `log(1 + self)`, without cancellation near 0. Within 0.7 ulp in f32, 0.65 in f64.
    #[inline(always)]
    fn log1p(self) -> Self {
        super::math::log1p(self)
    }
    /// The sine, of arguments of any size. Within 0.95 ulp in f32, 0.78 in f64.
    #[inline(always)]
    fn sin(self) -> Self {
        super::math::sin(self)
    }
    /// The cosine, of arguments of any size. Within 0.95 ulp in f32, 0.78 in f64.
    #[inline(always)]
    fn cos(self) -> Self {
        super::math::cos(self)
    }
    /// The tangent, of arguments of any size. Within 0.72 ulp in f32, 0.66 in f64.
    #[inline(always)]
    fn tan(self) -> Self {
        super::math::tan(self)
    }
    /// The angle in -pi/2 to pi/2 whose sine is `self`; NaN outside -1 to 1.
    /// Within 0.65 ulp in f32, 0.62 in f64.
    #[inline(always)]
    fn asin(self) -> Self {
        super::math::asin(self)
    }
    /// The angle in 0 to pi whose cosine is `self`; NaN outside -1 to 1. Within 0.62 ulp in f32, 0.62 in f64.
    #[inline(always)]
    fn acos(self) -> Self {
        super::math::acos(self)
    }
    /// The angle in -pi/2 to pi/2 whose tangent is `self`. Within 0.9 ulp in f32, 0.7 in f64.
    #[inline(always)]
    fn atan(self) -> Self {
        super::math::atan(self)
    }
    /// The hyperbolic tangent. Within 1.25 ulp in f32, 0.82 in f64.
    #[inline(always)]
    fn tanh(self) -> Self {
        super::math::tanh(self)
    }
    /// The hyperbolic sine. Within 0.78 ulp in f32, 0.8 in f64.
    #[inline(always)]
    fn sinh(self) -> Self {
        super::math::sinh(self)
    }
    /// The hyperbolic cosine. Within 0.66 ulp in f32, 0.65 in f64.
    #[inline(always)]
    fn cosh(self) -> Self {
        super::math::cosh(self)
    }
    /// `1 / (1 + e^-self)`. Within 0.88 ulp in f32, 0.77 in f64.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        super::math::sigmoid(self)
    }
    /// The error function. Within 0.95 ulp in f32, 0.8 in f64.
    #[inline(always)]
    fn erf(self) -> Self {
        super::math::erf(self)
    }
    /// The error function within 2^-17 of it up to 2.83, and what rounds to 1 beyond: enough where it is rounded to f16 or bf16; and true
    /// only if all results are [normal](Lanes::store_normal).
    #[inline(always)]
    fn erf_to_half(self) -> (Self, bool) {
        super::math::erf_to_half(self)
    }
    /// `1 - erf(self)`, without cancellation. Within 0.99 ulp in f32, 0.85 in f64.
    #[inline(always)]
    fn erfc(self) -> Self {
        super::math::erfc(self)
    }
    /// `self` times the probability that a normal variable is below `self`. Within 7.5 ulp in f32, 6 where it is normal; within 2 in
    /// f64, and as many more as the square of `self` where that is negative.
    #[inline(always)]
    fn gelu(self) -> Self {
        super::math::gelu(self)
    }
    /// The derivative of [`Float::gelu`], 0 near -0.75: within 2 ulp of it or of 1/8 in f32, and of itself beyond -4; within 3 in f64,
    /// and as many more as the square of `self` where that is negative.
    #[inline(always)]
    fn gelu_slope(self) -> Self {
        super::math::gelu_slope(self)
    }
    /// `e^(self^2) erfc(self)`. Within 2.4 ulp in f32, 1.9 in f64.
    #[inline(always)]
    fn erfcx(self) -> Self {
        super::math::erfcx(self)
    }
    /// The number whose hyperbolic sine is `self`. Within 0.65 ulp in f32, 0.65 in f64.
    #[inline(always)]
    fn asinh(self) -> Self {
        super::math::asinh(self)
    }
    /// The positive number whose hyperbolic cosine is `self`; NaN below 1. Within 0.65 ulp in f32, 0.65 in f64.
    #[inline(always)]
    fn acosh(self) -> Self {
        super::math::acosh(self)
    }
    /// The number whose hyperbolic tangent is `self`; NaN outside -1 to 1. Within 0.65 ulp in f32, 0.65 in f64.
    #[inline(always)]
    fn atanh(self) -> Self {
        super::math::atanh(self)
    }
    /// `self` to the power of `exponent`, with every special case as C's `pow`.
    /// Within 0.85 ulp in f32, 0.85 in f64.
    #[inline(always)]
    fn pow(self, exponent: Self) -> Self {
        super::math::pow(self, exponent)
    }
}

/// An element type, and how it is loaded into and stored from the vectors of the instruction set `I`.
pub trait Lanes<I: Isa>: Copy + 'static {
    /// The vector that elements are computed in: of f32 lanes for f16 and bf16, of lanes of the type itself otherwise.
    type Vector: Number;

    /// One element as a lane holds it.
    fn widen(self) -> <Self::Vector as Vector>::Element;

    /// A lane's value as an element, rounded as [`Lanes::store`] rounds.
    fn narrow(value: <Self::Vector as Vector>::Element) -> Self;

    /// Reads one element, aligned or not. Generic code must read elements by this function, since memory of `bool` may hold any byte, of
    /// which all but 0 are true.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading one element.
    #[inline(always)]
    unsafe fn load_one(from: *const Self) -> Self {
        // SAFETY: this function's condition; any bytes are a value of every type but `bool`, which overrides this method.
        unsafe { from.read_unaligned() }
    }

    /// Reads `Vector::LANES` elements.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading `Vector::LANES` elements.
    unsafe fn load(from: *const Self) -> Self::Vector;

    /// Reads `count` elements; the other lanes hold zero.
    ///
    /// # Safety
    ///
    /// - `from` is valid for reading `count` elements, and `count` is at most `Vector::LANES`.
    unsafe fn load_partial(from: *const Self, count: usize) -> Self::Vector;

    /// Writes `Vector::LANES` elements, rounding to nearest even where this type is narrower than the vector's.
    ///
    /// # Safety
    ///
    /// - `to` is valid for writing `Vector::LANES` elements.
    unsafe fn store(vector: Self::Vector, to: *mut Self);

    /// As [`Lanes::store`], where no lane holds a denormal number or NaN: bf16 is rounded by one instruction then.
    ///
    /// # Safety
    ///
    /// - As [`Lanes::store`].
    #[inline(always)]
    unsafe fn store_normal(vector: Self::Vector, to: *mut Self) {
        // SAFETY: this function's condition.
        unsafe { Self::store(vector, to) }
    }

    /// Writes the first `count` elements.
    ///
    /// # Safety
    ///
    /// - `to` is valid for writing `count` elements, and `count` is at most `Vector::LANES`.
    unsafe fn store_partial(vector: Self::Vector, to: *mut Self, count: usize);

    /// Reads `count` elements, by the faster load of a whole vector if they are as many.
    ///
    /// # Safety
    ///
    /// - As [`Lanes::load_partial`].
    #[inline(always)]
    unsafe fn load_up_to(from: *const Self, count: usize) -> Self::Vector {
        // SAFETY: this function's condition.
        unsafe {
            if count == Self::Vector::LANES { Self::load(from) } else { Self::load_partial(from, count) }
        }
    }

    /// Writes `count` elements, by the faster store of a whole vector if they are as many.
    ///
    /// # Safety
    ///
    /// - As [`Lanes::store_partial`].
    #[inline(always)]
    unsafe fn store_up_to(vector: Self::Vector, to: *mut Self, count: usize) {
        // SAFETY: this function's condition.
        unsafe {
            if count == Self::Vector::LANES {
                Self::store(vector, to)
            } else {
                Self::store_partial(vector, to, count)
            }
        }
    }
}

/// The element types that have an order: all but complex numbers.
pub trait OrderedLanes<I: Isa>: Lanes<I, Vector: Ordered> {}
impl<I: Isa, T: Lanes<I, Vector: Ordered>> OrderedLanes<I> for T {}

/// The element types that compute in floats: f16, bf16, f32, f64.
pub trait FloatLanes<I: Isa>: Lanes<I, Vector: Float> {}
impl<I: Isa, T: Lanes<I, Vector: Float>> FloatLanes<I> for T {}

/// The complex element types. Their vectors hold real and imaginary parts in vectors of their own.
pub trait ComplexLanes<I: Isa>: Lanes<I, Vector = Complex<<Self as ComplexLanes<I>>::Part>> {
    /// The vector of real or of imaginary parts.
    type Part: Float;
}

/// The element types that compute in integers: bool, u8, i8, i16, i32, i64.
pub trait IntegerLanes<I: Isa>: Lanes<I, Vector: Integer> {}
impl<I: Isa, T: Lanes<I, Vector: Integer>> IntegerLanes<I> for T {}
