//! Integers alone: divisors, multiples and shifts.

use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Integer, Mask};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

formulas! { integer_kernel(IntegerFormula, Integer) -> V:
    /// [`gcd`], of bool too.
    fn any_gcd, gcd_meta = build_binary_op(self_: a, other: b) => greatest_divisor(a, b);
    /// [`lcm`], of bool too.
    fn any_lcm, lcm_meta = build_binary_op(self_: a, other: b) => (a.div_trunc(greatest_divisor(a, b)) * b).abs();
    /// [`left_shift`], of bool too.
    fn any_left_shift, left_shift_meta = build_binary_op(self_: a, other: by) => a.shl(by);
    /// [`right_shift`], of bool too.
    fn any_right_shift, right_shift_meta = build_binary_op(self_: a, other: by) => a.shr(by);
}

/// Operators that integers have and bool has not.
macro_rules! of_integers {
    ($($(#[$doc:meta])* fn $name:ident = $any:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
            let dtype = iter.common_dtype();
            ensure!(dtype != ScalarType::Bool, NotImplemented, "{}: not implemented for {dtype}", iter.name());
            $any(iter, self_, other)
        }
    )*};
}

of_integers! {
    /// The greatest number that divides both; of zeros, 0.
    fn gcd = any_gcd;
    /// The least number that both divide; 0 beside 0.
    fn lcm = any_lcm;
    /// The bits so many places up; 0 for a place outside of the type.
    fn left_shift = any_left_shift;
    /// The bits so many places down; the sign for a place outside of the type.
    fn right_shift = any_right_shift;
}

/// Euclid's algorithm, until no lane has a remainder.
#[inline(always)]
fn greatest_divisor<V: Integer>(a: V, b: V) -> V {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b.ne(V::zero()).any() {
        let done = b.eq(V::zero());
        (a, b) = (V::select(done, a, b), V::select(done, b, a.remainder_trunc(b)));
    }
    a
}

with_numbers! {
    left_shift_scalar, left_shift_scalar_() = bitwise_left_shift_tensor, bitwise_left_shift__tensor;
    right_shift_scalar, right_shift_scalar_() = bitwise_right_shift_tensor, bitwise_right_shift__tensor;
}

/// The bits of a number, so many places up.
pub fn left_shift_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_left_shift_tensor(&Tensor::wrapped_number(self_)?, other)
}

/// The bits of a number, so many places down.
pub fn right_shift_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_right_shift_tensor(&Tensor::wrapped_number(self_)?, other)
}
