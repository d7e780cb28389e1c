//! `gcd`, `lcm` and bitwise shifts.

use crate::tensor_iterator::TensorIterator;
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

formulas! { integer_kernel(IntegerFormula, Integer) -> V:
    /// [`gcd`], without the check for bool.
    fn any_gcd, gcd_meta = build_binary_op(self_: a, other: b) => a.gcd(b);
    /// [`lcm`], without the check for bool.
    fn any_lcm, lcm_meta = build_binary_op(self_: a, other: b) => (a.div_trunc(a.gcd(b)) * b).abs();
    /// [`right_shift`], without the check for bool.
    fn any_right_shift, right_shift_meta = build_binary_op(self_: a, other: by) => a.shr(by);
}

formulas! { bitwise_kernel(IntegerFormula, Integer) -> V:
    /// [`left_shift`], without the check for bool.
    fn any_left_shift, left_shift_meta = build_binary_op(self_: a, other: by) => a.shl(by);
}

/// Operators of integers that are not defined for bool.
macro_rules! of_integers {
    ($($(#[$doc:meta])* fn $name:ident = $any:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, self_: &Tensor, other: &Tensor) -> Result<()> {
            let dtype = iter.common_dtype();
            ensure!(dtype != ScalarType::Bool, NotImplemented(iter.name(), "self"), "not implemented for {dtype}");
            $any(iter, self_, other)
        }
    )*};
}

of_integers! {
    /// The greatest common divisor; 0 for two zeros.
    fn gcd = any_gcd;
    /// The least common multiple; 0 if either is 0.
    fn lcm = any_lcm;
    /// Shifts the bits to the left; 0 if the shift is not below the number of bits.
    fn left_shift = any_left_shift;
    /// Shifts the bits to the right, arithmetically; 0 or -1, by the sign, if the shift is not below the number of bits.
    fn right_shift = any_right_shift;
}

scalar_overloads! {
    left_shift_scalar, left_shift_scalar_() = bitwise_left_shift_tensor, bitwise_left_shift__tensor;
    right_shift_scalar, right_shift_scalar_() = bitwise_right_shift_tensor, bitwise_right_shift__tensor;
}

/// A number shifted to the left by each element.
pub fn left_shift_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_left_shift_tensor(&Tensor::wrapped_number(self_)?, other)
}

/// A number shifted to the right by each element.
pub fn right_shift_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_right_shift_tensor(&Tensor::wrapped_number(self_)?, other)
}
