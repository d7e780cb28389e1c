//! What a formula is: a trait for each set of types, by what lanes of them can do.

use crate::vectorized::{Float, Integer, Number, Ordered, Vector};

/// A formula of `N` floating point arguments.
pub trait FloatFormula<const N: usize>: Copy + Sync {
    /// The formula, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [V; N]) -> V;

    /// The same where the results are rounded to f16 or bf16, for formulas that are shorter to so few digits; and true only if no
    /// result is denormal or NaN.
    #[inline(always)]
    fn call_to_half<V: Float>(self, args: [V; N]) -> (V, bool) {
        (self.call(args), false)
    }
}

/// A formula of `N` arguments of any one type.
pub trait NumberFormula<const N: usize>: Copy + Sync {
    /// The formula, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Number>(self, args: [V; N]) -> V;
}

/// A formula of `N` arguments of any one type that has an order.
pub trait OrderedFormula<const N: usize>: Copy + Sync {
    /// The formula, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Ordered>(self, args: [V; N]) -> V;
}

/// A formula of `N` integer or bool arguments.
pub trait IntegerFormula<const N: usize>: Copy + Sync {
    /// The formula, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Integer>(self, args: [V; N]) -> V;
}

/// A question about `N` arguments of any one type.
pub trait Comparison<const N: usize>: Copy + Sync {
    /// The question, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Number>(self, args: [V; N]) -> <V as Vector>::Mask;
}

/// A question about `N` arguments of any one type that has an order.
pub trait OrderedComparison<const N: usize>: Copy + Sync {
    /// The question, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Ordered>(self, args: [V; N]) -> <V as Vector>::Mask;
}

/// A question about `N` floating point arguments.
pub trait FloatComparison<const N: usize>: Copy + Sync {
    /// The question, on lanes. Mark it `#[inline(always)]`.
    fn call<V: Float>(self, args: [V; N]) -> <V as Vector>::Mask;
}
