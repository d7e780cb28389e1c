//! `&a + &b`, `2.0 * &a`, `-&a`: Rust's operators, each with a [`Result`].
//!
//! Operators chain where one side is a tensor, `&a + &b * &c` and `(&a - &b) * &c`; between two results, and before a
//! number, stands a `?`, since Rust lets nobody define operators of `Result`.
//!
//! The result is written over an operand that is passed by value, `a * &b`, where nobody else can see it (`buffer_reuse`), and so
//! over the temporaries of a chain.

use super::Tensor;
use super::buffer_reuse::{MaybeDonated, compute};
use crate::ops;
use flambeau_core::{Result, Scalar};
use std::ops::{Add, Div, Mul, Neg, Sub};

mod sealed {
    pub trait Sealed {}
}

/// The operand of an operator: a tensor, a result that may be one, or a number. Sealed.
///
/// A number ranks below tensors in promotion: `&a * 2.0` keeps the type of a floating point `a`.
pub trait Operand: sealed::Sealed + Sized {
    /// Calls `f` with the operand as a tensor, borrowed or donated.
    ///
    /// # Errors
    /// The operand's own, and those of `f`.
    fn with<R>(self, f: impl FnOnce(MaybeDonated<'_>) -> Result<R>) -> Result<R>;

    /// Writes the operand, broadcast and converted, into `target`.
    ///
    /// # Errors
    /// The operand's own, and those of `copy_` and `fill_`.
    fn write_into(self, target: &Tensor) -> Result<()> {
        self.with(|value| ops::copy_(target, &ops::expand(&value, target.sizes(), false)?, false))
    }
}

impl sealed::Sealed for &Tensor {}
impl Operand for &Tensor {
    #[inline]
    fn with<R>(self, f: impl FnOnce(MaybeDonated<'_>) -> Result<R>) -> Result<R> {
        f(MaybeDonated::Borrowed(self))
    }
}

impl sealed::Sealed for Tensor {}
impl Operand for Tensor {
    #[inline]
    fn with<R>(self, f: impl FnOnce(MaybeDonated<'_>) -> Result<R>) -> Result<R> {
        f(MaybeDonated::Donated(self))
    }
}

impl sealed::Sealed for Result<Tensor> {}
impl Operand for Result<Tensor> {
    #[inline]
    fn with<R>(self, f: impl FnOnce(MaybeDonated<'_>) -> Result<R>) -> Result<R> {
        f(MaybeDonated::Donated(self?))
    }
}

macro_rules! numbers {
    ($($rust:ty),*) => {$(
        impl sealed::Sealed for $rust {}
        impl Operand for $rust {
            #[inline]
            fn with<R>(self, f: impl FnOnce(MaybeDonated<'_>) -> Result<R>) -> Result<R> {
                f(MaybeDonated::Borrowed(&Tensor::wrapped_number(self.into())?))
            }

            fn write_into(self, target: &Tensor) -> Result<()> {
                ops::fill__scalar(target, self.into())
            }
        }
    )*};
}

/// Rust's operator `$trait` by a function of two tensors and its `out=` form.
macro_rules! operator {
    ($trait:ident, $method:ident, $op:expr, $with_out:expr, [$($number:ty),*]) => {
        operator!(@one $trait, $method, $op, $with_out, [R: Operand] &Tensor, R);
        operator!(@one $trait, $method, $op, $with_out, [R: Operand] Tensor, R);
        operator!(@each $trait, $method, $op, $with_out, Result<Tensor> $(, $number)*);
    };
    (@each $trait:ident, $method:ident, $op:expr, $with_out:expr, $($left:ty),*) => {$(
        operator!(@one $trait, $method, $op, $with_out, [] $left, &Tensor);
        operator!(@one $trait, $method, $op, $with_out, [] $left, Tensor);
    )*};
    (@one $trait:ident, $method:ident, $op:expr, $with_out:expr, [$($generics:tt)*] $left:ty, $right:ty) => {
        impl<$($generics)*> $trait<$right> for $left {
            type Output = Result<Tensor>;

            #[inline]
            fn $method(self, right: $right) -> Result<Tensor> {
                self.with(|left| right.with(|right| compute(left, right, $op, $with_out)))
            }
        }
    };
}

const ONE: Scalar = Scalar::Int(1);

macro_rules! operators_with {
    ($numbers:tt) => {
        operator!(
            Add,
            add,
            |a, b| ops::add_tensor(a, b, ONE),
            |a, b, out| ops::add_out(a, b, ONE, out),
            $numbers
        );
        operator!(
            Sub,
            sub,
            |a, b| ops::sub_tensor(a, b, ONE),
            |a, b, out| ops::sub_out(a, b, ONE, out),
            $numbers
        );
        operator!(Mul, mul, ops::mul_tensor, ops::mul_out, $numbers);
        operator!(Div, div, ops::div_tensor, ops::div_out, $numbers);
    };
}

numbers!(bool, u8, i8, i16, i32, i64, half::f16, half::bf16, f32, f64, Scalar);
// One type for each kind of literal, so that `(2.0 * &a)?` needs no suffix; others go on the right or through `Scalar`.
operators_with!([i64, f64, Scalar]);

impl Neg for &Tensor {
    type Output = Result<Tensor>;

    #[inline]
    fn neg(self) -> Result<Tensor> {
        ops::neg(self)
    }
}

impl Neg for Tensor {
    type Output = Result<Tensor>;

    #[inline]
    fn neg(self) -> Result<Tensor> {
        ops::neg(&self)
    }
}
