//! Logical and bitwise operators.

use crate::loops::{self, LogicalFormula};
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Mask, Number, Vector};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar};

type MaskOf<V> = <V as Vector>::Mask;

/// Whether lanes differ from 0; NaN does.
#[inline(always)]
fn is_nonzero<V: Number>(x: V) -> MaskOf<V> {
    x.ne(V::zero())
}

/// Predicates of whether arguments differ from 0, of the masks that say so.
macro_rules! logical {
    ($(
        $(#[$doc:meta])*
        fn $name:ident, $meta:ident, $of_values:ident = $build:ident($($tensor:ident: $lane:ident),+) => $formula:expr;
    )*) => {$(
        formulas! { comparison_kernel(Comparison, Number) -> MaskOf<V>:
            $(#[$doc])*
            fn $of_values, $meta = $build($($tensor: $lane),+) => {
                $(let $lane = is_nonzero($lane);)+
                $formula
            };
        }

        impl LogicalFormula<{ [$(stringify!($lane)),+].len() }> for $of_values::Formula {
            #[inline(always)]
            fn call<M: Mask>(self, [$($lane),+]: [M; [$(stringify!($lane)),+].len()]) -> M {
                $formula
            }
        }

        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, $(_: formulas!(@tensor $tensor)),+) -> Result<()> {
            loops::logical_kernel(iter, $of_values::Formula {})
        }
    )*};
}

logical! {
    /// Whether it is 0.
    fn logical_not, logical_not_meta, not_of_values = build_unary_bool_op(self_: x) => !x;
    /// Whether both differ from 0.
    fn logical_and, logical_and_meta, and_of_values = build_comparison_op(self_: a, other: b) => a & b;
    /// Whether either differs from 0.
    fn logical_or, logical_or_meta, or_of_values = build_comparison_op(self_: a, other: b) => a | b;
    /// Whether exactly one differs from 0.
    fn logical_xor, logical_xor_meta, xor_of_values = build_comparison_op(self_: a, other: b) => (a & !b) | (!a & b);
}

formulas! { not_kernel(IntegerFormula, Integer) -> V:
    /// Bitwise not; for bool, logical not.
    fn bitwise_not, bitwise_not_meta = build_unary_op(self_: x) => !x;
}

formulas! { bitwise_kernel(IntegerFormula, Integer) -> V:
    /// Bitwise and.
    fn bitwise_and, bitwise_and_meta = build_binary_op(self_: a, other: b) => a & b;
    /// Bitwise or.
    fn bitwise_or, bitwise_or_meta = build_binary_op(self_: a, other: b) => a | b;
    /// Bitwise exclusive or.
    fn bitwise_xor, bitwise_xor_meta = build_binary_op(self_: a, other: b) => a ^ b;
}

scalar_overloads! {
    bitwise_and_scalar, bitwise_and_scalar_() = bitwise_and_tensor, bitwise_and__tensor;
    bitwise_or_scalar, bitwise_or_scalar_() = bitwise_or_tensor, bitwise_or__tensor;
    bitwise_xor_scalar, bitwise_xor_scalar_() = bitwise_xor_tensor, bitwise_xor__tensor;
}

/// [`and`](crate::ops::bitwise_and_tensor) with a number on the left.
pub fn bitwise_and_scalar_tensor(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_and_tensor(&Tensor::wrapped_number(self_)?, other)
}

/// [`or`](crate::ops::bitwise_or_tensor) with a number on the left.
pub fn bitwise_or_scalar_tensor(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_or_tensor(&Tensor::wrapped_number(self_)?, other)
}

/// [`xor`](crate::ops::bitwise_xor_tensor) with a number on the left.
pub fn bitwise_xor_scalar_tensor(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::bitwise_xor_tensor(&Tensor::wrapped_number(self_)?, other)
}
