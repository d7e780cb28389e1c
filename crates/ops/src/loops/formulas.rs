//! Traits of formulas, one for each set of element types, by the operations that vectors of them have.

use crate::vectorized::{Float, Integer, Mask, Number, Ordered, Vector};
use flambeau_core::{Complex, Element, Scalar};

/// What a formula has beside its operands.
pub trait Argument: Copy {
    /// The number that an element of type `E` holds of it, of the kind of such elements. Which kind that is the compiler knows, so that a loop
    /// over vectors converts the number once, before it begins.
    #[inline(always)]
    fn as_element<E: Element>(self) -> Self {
        self
    }
}

impl Argument for Scalar {
    #[inline(always)]
    fn as_element<E: Element>(self) -> Self {
        // Products of complex numbers depend on whether a number was given as a real one.
        if E::SCALAR_TYPE.is_complex() { self } else { E::from_scalar(self).to_scalar() }
    }
}

impl Argument for f64 {}
impl Argument for i64 {}
impl Argument for bool {}

/// A formula of `N` floating point arguments.
pub trait FloatFormula<const N: usize>: Copy + Sync {
    /// The formula, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [V; N]) -> V;

    /// The formula with the precision that f16 and bf16 need, to which results are rounded, for formulas that have a shorter form for
    /// it; and `true` only if no result is denormal or NaN.
    #[inline(always)]
    fn call_to_half<V: Float>(self, args: [V; N]) -> (V, bool) {
        (self.call(args), false)
    }

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A formula of `N` arguments of any one type.
pub trait NumberFormula<const N: usize>: Copy + Sync {
    /// The formula, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Number>(self, args: [V; N]) -> V;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A formula of `N` arguments of any one type that has an order.
pub trait OrderedFormula<const N: usize>: Copy + Sync {
    /// The formula, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Ordered>(self, args: [V; N]) -> V;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A formula of `N` integer or bool arguments.
pub trait IntegerFormula<const N: usize>: Copy + Sync {
    /// The formula, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Integer>(self, args: [V; N]) -> V;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A formula of a dividend and a divisor that are integers.
pub trait DivisionFormula: IntegerFormula<2> {
    /// The same formula of integers that floats hold exactly. Mark it `#[inline(always)]`.
    fn of_floats<V: Float>(self, division: Division<V>) -> V;
}

/// A division of integers that floats hold exactly, by a number other than 0.
#[derive(Clone, Copy)]
pub struct Division<V> {
    /// What is divided.
    pub dividend: V,
    /// By what it is divided.
    pub divisor: V,
    /// An integer less than 1 away from the exact quotient.
    pub quotient: V,
    /// The dividend without the product of quotient and divisor, exactly: 0 or of either sign.
    pub rest: V,
}

/// A predicate of `N` truth values.
pub trait LogicalFormula<const N: usize>: Copy + Sync {
    /// The predicate, on masks. Mark it `#[inline(always)]`.
    fn call<M: Mask>(self, args: [M; N]) -> M;
}

/// A predicate of `N` arguments of any one type.
pub trait Comparison<const N: usize>: Copy + Sync {
    /// The predicate, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Number>(self, args: [V; N]) -> <V as Vector>::Mask;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A predicate of `N` arguments of any one type that has an order.
pub trait OrderedComparison<const N: usize>: Copy + Sync {
    /// The predicate, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Ordered>(self, args: [V; N]) -> <V as Vector>::Mask;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A predicate of `N` floating point arguments.
pub trait FloatComparison<const N: usize>: Copy + Sync {
    /// The predicate, on vectors. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [V; N]) -> <V as Vector>::Mask;

    /// The formula with its numbers [as elements](Argument::as_element) of type `E`. Formulas without a [`Scalar`] keep this.
    #[inline(always)]
    fn with_arguments_as<E: Element>(self) -> Self {
        self
    }
}

/// A formula of `N` complex arguments.
pub trait ComplexFormula<const N: usize>: Copy + Sync {
    /// The formula, on vectors of real and imaginary parts. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [Complex<V>; N]) -> Complex<V>;
}

/// A formula of `N` complex arguments with a real result.
pub trait ComplexToReal<const N: usize>: Copy + Sync {
    /// The formula, on vectors of real and imaginary parts. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [Complex<V>; N]) -> V;
}

/// A predicate of `N` complex arguments.
pub trait ComplexComparison<const N: usize>: Copy + Sync {
    /// The predicate, on vectors of real and imaginary parts. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [Complex<V>; N]) -> <V as Vector>::Mask;
}
