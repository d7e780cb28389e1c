//! Loops over elements whose bits are in lanes of another type, for operators of integers, bool and half precision that take less time so:
//! by the operations that floats have in vector registers, or without a conversion to f32.
#![expect(unsafe_code, reason = "element access behind the guards that the iterator holds")]

use super::formulas::{Division, DivisionFormula, LogicalFormula, NumberFormula};
use super::rows::{LaneFormula, RowKernel, Rows, dispatch_rows, store_first, streams_lanes};
use crate::vectorized::{
    Bits, CodegenAnchor, EveryIsa, Float, FloatElement, FloatLanes, Isa, Lanes, Mask, Scalar, Vector,
};
use std::sync::atomic::{AtomicBool, Ordering};

/// [`Divides`](super::rows::Divides) of i64, whose bits are in the lanes of f64. Vectors have a division of floats, and a fused multiply-add,
/// which gives the exact rest.
#[derive(Clone, Copy)]
pub(super) struct DividesByFloats<'a, F>(pub(super) F, pub(super) &'a AtomicBool);

impl<F> CodegenAnchor for DividesByFloats<'_, F> {
    type Anchor = F;
}

impl<F: DivisionFormula> DividesByFloats<'_, F> {
    /// Of integers from -2^51 to 2^51 - 1; 0 where `is_zero` says that the divisor is.
    #[inline(always)]
    fn by_floats<V: Float>(self, args: [V::Bits; 2], is_zero: V::Mask) -> V::Bits {
        // A sum with this number has the integer nearest to the other in its low bits.
        let round = V::splat(V::Element::ROUND);
        let bits = round.to_bits();
        let dividend = V::from_bits(args[0] + bits) - round;
        let divisor = V::from_bits(args[1] + bits) - round;
        let quotient = (dividend / divisor).round();
        let rest = quotient.neg_mul_add(divisor, dividend);
        let result = self.0.of_floats(Division { dividend, divisor, quotient, rest });
        (V::select(is_zero, V::zero(), result) + round).to_bits() - bits
    }

    /// One by one.
    ///
    /// # Safety
    /// - `args` are valid for reading and `to` for writing `lanes` integers.
    #[inline(always)]
    unsafe fn by_lanes(self, args: [*const i64; 2], to: *mut i64, lanes: usize) {
        for i in 0..lanes {
            // SAFETY: a vector of this set is one element, and `i` is less than `lanes`.
            unsafe {
                let [a, b] = [args[0].add(i), args[1].add(i)];
                let [a, b] = [<i64 as Lanes<Scalar>>::load(a), <i64 as Lanes<Scalar>>::load(b)];
                <i64 as Lanes<Scalar>>::store(self.0.call([a, b]), to.add(i));
            }
        }
    }
}

impl<I: Isa, F: DivisionFormula> LaneFormula<I, f64, 2> for DividesByFloats<'_, F>
where
    f64: FloatLanes<I>,
{
    const OUTPUT_SIZE: usize = size_of::<i64>();
    const STREAMS: bool = streams_lanes::<I, f64, 2>();

    #[inline(always)]
    unsafe fn apply(self, args: [<f64 as Lanes<I>>::Vector; 2], to: *mut u8, count: usize) {
        const MAX_LANES: usize = 8;
        type VectorOf<I> = <f64 as Lanes<I>>::Vector;
        type BitsOf<I> = <VectorOf<I> as Float>::Bits;
        const { assert!(<VectorOf<I> as Vector>::LANES <= MAX_LANES) };
        let bits = [args[0].to_bits(), args[1].to_bits()];
        let zero = BitsOf::<I>::splat(0);
        let is_zero = VectorOf::<I>::bits_equal(bits[1], zero);
        // Lanes past `count` hold zeros and are left out.
        if (is_zero & Mask::first(count)).any() {
            self.1.store(true, Ordering::Relaxed);
        }
        let limit = BitsOf::<I>::splat(1 << 51);
        let beyond = ((bits[0] + limit) | (bits[1] + limit)).shr(52);
        // SAFETY: `to` takes a result for each lane, and the arrays hold as many as the widest vector has.
        unsafe {
            if VectorOf::<I>::bits_equal(beyond, zero).all() {
                let result = self.by_floats::<VectorOf<I>>(bits, is_zero);
                return <f64 as Lanes<I>>::store(VectorOf::<I>::from_bits(result), to.cast());
            }
            let [mut a, mut b] = [[0.0; MAX_LANES]; 2];
            <f64 as Lanes<I>>::store(args[0], a.as_mut_ptr());
            <f64 as Lanes<I>>::store(args[1], b.as_mut_ptr());
            self.by_lanes([a.as_ptr().cast(), b.as_ptr().cast()], to.cast(), VectorOf::<I>::LANES);
        }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { store_first::<I, f64>(from, to, count) }
    }
}

/// Bytes of bool, eight in each lane of f64, with the other truth value.
#[derive(Clone, Copy)]
pub(super) struct NotBytes;

impl CodegenAnchor for NotBytes {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>> LaneFormula<I, T, 1> for NotBytes {
    const OUTPUT_SIZE: usize = size_of::<T>();
    const STREAMS: bool = streams_lanes::<I, T, 1>();

    #[inline(always)]
    unsafe fn apply(self, args: [T::Vector; 1], to: *mut u8, _: usize) {
        let low = <T::Vector as Float>::Bits::splat(u64::from_ne_bytes([0x7f; 8]));
        let high = <T::Vector as Float>::Bits::splat(u64::from_ne_bytes([0x80; 8]));
        let x = args[0].to_bits();
        // Any byte but 0 is true: it has its highest bit, or another one, from which the sum carries into the highest.
        let is_true = ((x & low) + low) | x;
        let is_false = ((is_true ^ high) & high).shr(7);
        // SAFETY: `to` takes a result for each lane.
        unsafe { T::store(T::Vector::from_bits(is_false), to.cast()) }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { store_first::<I, T>(from, to, count) }
    }
}

/// A predicate of integers, whose bits are in the lanes of floats as wide: of whether they differ from 0.
#[derive(Clone, Copy)]
pub(super) struct Nonzero<F>(pub(super) F);

impl<F> CodegenAnchor for Nonzero<F> {
    type Anchor = F;
}

impl<I: Isa, T: FloatLanes<I>, F: LogicalFormula<N>, const N: usize> LaneFormula<I, T, N> for Nonzero<F> {
    const OUTPUT_SIZE: usize = size_of::<bool>();

    #[inline(always)]
    unsafe fn apply(self, args: [T::Vector; N], to: *mut u8, _: usize) {
        let zero = <T::Vector as Float>::Bits::splat(0);
        let mut nonzero = [<T::Vector as Vector>::Mask::first(0); N];
        for i in 0..N {
            nonzero[i] = !T::Vector::bits_equal(args[i].to_bits(), zero);
        }
        // SAFETY: `to` takes a result for each lane.
        unsafe { self.0.call(nonzero).store_bool(to.cast(), T::Vector::LANES) }
    }

    #[inline(always)]
    unsafe fn copy(from: *const u8, to: *mut u8, count: usize) {
        // SAFETY: this function's condition.
        unsafe { to.copy_from_nonoverlapping(from, count) }
    }
}

/// Runs [`NotBytes`] over eights of bools, and `formula`, which is the same of one, over those that are left.
#[inline]
pub(super) fn dispatch_not<F>(rows: &Rows<1>, formula: F)
where
    for<'r> RowKernel<'r, bool, F, 1>: EveryIsa,
{
    let words = if rows.repeated[0] { 0 } else { rows.n / size_of::<f64>() };
    let bytes = words * size_of::<f64>();
    if words > 0 {
        dispatch_rows::<f64, NotBytes, 1>(&Rows { n: words, ..*rows }, NotBytes);
    }
    if bytes < rows.n {
        let rest = Rows { streams: rows.streams && bytes == 0, ..rows.part(bytes..rows.n, [1], 1) };
        dispatch_rows::<bool, F, 1>(&rest, formula);
    }
}

/// The element that a formula without arguments gives.
pub(super) fn constant<T: Lanes<Scalar> + Default>(formula: impl NumberFormula<0>) -> T {
    let mut element = T::default();
    // SAFETY: a vector of this set is one element.
    unsafe { T::store(formula.call([]), &raw mut element) };
    element
}
