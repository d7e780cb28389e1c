//! The vector of one lane that writes down what is done to it.

use super::super::lanes::{Bits, Float, Integer, Mask, Number, Ordered, Vector};
use super::super::math::FloatElement;
use super::tape::{
    NodeId, TracedType, ask, push, push_input, push_scalar, push_table, set_fault, set_output,
};
use flambeau_core::{Element, Scalar};
use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// A vector of one element, of which only the node on the tape is known.
#[derive(Clone, Copy, Debug)]
pub struct TracedLane<T> {
    node: NodeId,
    element: PhantomData<T>,
}

/// The result of a comparison of [`TracedLane`]s.
#[derive(Clone, Copy, Debug)]
pub struct TracedMask(NodeId);

/// The bits of a [`TracedLane`].
#[derive(Clone, Copy, Debug)]
pub struct TracedBits(NodeId);

impl<T> TracedLane<T> {
    #[inline(always)]
    fn at(node: NodeId) -> Self {
        TracedLane { node, element: PhantomData }
    }

    #[inline(always)]
    fn call(name: &'static str, args: &[NodeId]) -> Self {
        Self::at(push(name, TracedType::Element, args, 0))
    }
}

#[inline(always)]
fn mask(name: &'static str, args: &[NodeId]) -> TracedMask {
    TracedMask(push(name, TracedType::Mask, args, 0))
}

#[inline(always)]
fn bits(name: &'static str, args: &[NodeId], payload: u64) -> TracedBits {
    TracedBits(push(name, TracedType::Bits, args, payload))
}

macro_rules! operators {
    ($($trait:ident $method:ident $name:literal),*) => {$(
        impl<T: Element> $trait for TracedLane<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self::call($name, &[self.node, other.node])
            }
        }
    )*};
}

operators! {
    Add add "add", Sub sub "sub", Mul mul "mul", Div div "div",
    BitAnd bitand "bit_and", BitOr bitor "bit_or", BitXor bitxor "bit_xor"
}

impl<T: Element> Neg for TracedLane<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::call("neg", &[self.node])
    }
}

impl<T: Element> Not for TracedLane<T> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        Self::call("bit_not", &[self.node])
    }
}

impl BitAnd for TracedMask {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        mask("mask_and", &[self.0, other.0])
    }
}

impl BitOr for TracedMask {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        mask("mask_or", &[self.0, other.0])
    }
}

impl Not for TracedMask {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        mask("mask_not", &[self.0])
    }
}

impl Mask for TracedMask {
    const LANES: usize = 1;

    #[inline(always)]
    fn first(count: usize) -> Self {
        TracedMask(push("mask_constant", TracedType::Mask, &[], u64::from(count > 0)))
    }

    #[inline(always)]
    unsafe fn load_bool(_: *const bool, _: usize) -> Self {
        TracedMask(push_input(TracedType::Mask))
    }

    #[inline(always)]
    unsafe fn store_bool(self, _: *mut bool, _: usize) {
        set_output(self.0);
    }

    #[inline(always)]
    fn any(self) -> bool {
        ask()
    }

    #[inline(always)]
    fn all(self) -> bool {
        false
    }
}

impl<T: Element> Vector for TracedLane<T> {
    type Element = T;
    type Mask = TracedMask;
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(value: T) -> Self {
        let (name, payload) = match value.to_scalar() {
            Scalar::Bool(value) => ("integer", u64::from(value)),
            Scalar::Int(value) => ("integer", value as u64),
            Scalar::UInt(value) => ("integer", value),
            other => ("float", other.to_f64().to_bits()),
        };
        Self::at(push(name, TracedType::Element, &[], payload))
    }

    #[inline(always)]
    unsafe fn load(_: *const T) -> Self {
        Self::at(push_input(TracedType::Element))
    }

    #[inline(always)]
    unsafe fn load_partial(_: *const T, _: usize) -> Self {
        Self::at(push_input(TracedType::Element))
    }

    #[inline(always)]
    unsafe fn store(self, _: *mut T) {
        set_output(self.node);
    }

    #[inline(always)]
    unsafe fn store_partial(self, _: *mut T, _: usize) {
        set_output(self.node);
    }

    #[inline(always)]
    fn select(mask: TracedMask, yes: Self, no: Self) -> Self {
        Self::call("select", &[mask.0, yes.node, no.node])
    }

    #[inline(always)]
    fn eq(self, other: Self) -> TracedMask {
        mask("eq", &[self.node, other.node])
    }

    #[inline(always)]
    fn ne(self, other: Self) -> TracedMask {
        mask("ne", &[self.node, other.node])
    }
}

impl<T: Element> Number for TracedLane<T> {
    #[inline(always)]
    fn scalar(value: Scalar) -> Self {
        Self::at(push_scalar(value))
    }

    #[inline(always)]
    fn zero() -> Self {
        Self::splat(T::from_scalar(Scalar::Int(0)))
    }

    #[inline(always)]
    fn one() -> Self {
        Self::splat(T::from_scalar(Scalar::Int(1)))
    }
}

impl<T: Element> Ordered for TracedLane<T> {
    #[inline(always)]
    fn lt(self, other: Self) -> TracedMask {
        mask("lt", &[self.node, other.node])
    }

    #[inline(always)]
    fn le(self, other: Self) -> TracedMask {
        mask("le", &[self.node, other.node])
    }

    #[inline(always)]
    fn abs(self) -> Self {
        Self::call("abs", &[self.node])
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        Self::call("min", &[self.node, other.node])
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        Self::call("max", &[self.node, other.node])
    }
}

/// Methods of one or two vectors.
macro_rules! methods {
    ($($method:ident($($arg:ident),*)),* $(,)?) => {$(
        #[inline(always)]
        fn $method(self, $($arg: Self),*) -> Self {
            Self::call(stringify!($method), &[self.node, $($arg.node),*])
        }
    )*};
}

impl<T: Element> Integer for TracedLane<T> {
    methods! {
        shl(by), shr(by), div_trunc(other), div_floor(other), remainder(other), remainder_trunc(other),
    }

    #[inline(always)]
    fn gcd(self, _: Self) -> Self {
        set_fault("it has a loop whose end depends on its elements");
        self
    }
}

impl Bits for TracedBits {
    #[inline(always)]
    fn splat(value: u64) -> Self {
        bits("bits", &[], value)
    }

    #[inline(always)]
    fn shl(self, by: u32) -> Self {
        bits("bits_shl", &[self.0], u64::from(by))
    }

    #[inline(always)]
    fn shr(self, by: u32) -> Self {
        bits("bits_shr", &[self.0], u64::from(by))
    }
}

macro_rules! operators_of_bits {
    ($($trait:ident $method:ident $name:literal),*) => {$(
        impl $trait for TracedBits {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                bits($name, &[self.0, other.0], 0)
            }
        }
    )*};
}

operators_of_bits! {
    Add add "bits_add", Sub sub "bits_sub", BitAnd bitand "bits_and", BitOr bitor "bits_or", BitXor bitxor "bits_xor"
}

impl<T: FloatElement> Float for TracedLane<T> {
    type Bits = TracedBits;

    #[inline(always)]
    fn to_bits(self) -> TracedBits {
        bits("to_bits", &[self.node], 0)
    }

    #[inline(always)]
    fn from_bits(bits: TracedBits) -> Self {
        Self::call("from_bits", &[bits.0])
    }

    #[inline(always)]
    fn bits_equal(a: TracedBits, b: TracedBits) -> TracedMask {
        mask("bits_equal", &[a.0, b.0])
    }

    methods! {
        sqrt(), mul_add(factor, term), floor(), ceil(), round(), trunc(), scale(n), scale_floor(n), exponent(), significand(),
        copysign(sign), exp(), exp2(), expm1(), log(), log2(), log10(), log1p(), sin(), cos(), tan(), asin(), acos(), atan(),
        tanh(), sinh(), cosh(), sigmoid(), erf(), erfc(), gelu(), gelu_slope(), erfcx(), asinh(), acosh(), atanh(), pow(exponent), fmod(by),
    }

    #[inline(always)]
    fn exp_to_half(self) -> (Self, bool) {
        (self.exp(), false)
    }

    #[inline(always)]
    fn erf_to_half(self) -> (Self, bool) {
        (self.erf(), false)
    }

    #[inline(always)]
    fn reduce_large(self) -> [Self; 3] {
        ["reduced_quadrant", "reduced_high", "reduced_low"].map(|part| Self::call(part, &[self.node]))
    }

    #[inline(always)]
    fn slide_up(self, before: Self) -> Self {
        set_fault("it takes lanes of several vectors");
        before
    }

    #[inline(always)]
    fn slide_down(self, after: Self) -> Self {
        set_fault("it takes lanes of several vectors");
        after
    }

    /// Of vectors of one lane, each is a part of the same complex number.
    #[inline(always)]
    fn deinterleave(self, next: Self) -> (Self, Self) {
        (self, next)
    }

    #[inline(always)]
    fn interleave(self, odd: Self) -> (Self, Self) {
        (self, odd)
    }

    #[inline(always)]
    fn look_up(table: &'static [T; 16], index: TracedBits) -> Self {
        let table = push_table(table.map(|value| value.to_scalar().to_f64().to_bits()));
        Self::at(push("look_up", TracedType::Element, &[index.0], table))
    }

    #[inline(always)]
    fn spill(self, _: &mut [T; 16]) {
        set_fault("it takes lanes one by one");
    }

    #[inline(always)]
    fn refill(_: &[T; 16]) -> Self {
        Self::at(0)
    }
}
