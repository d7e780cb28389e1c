//! Formulas of one argument.

use crate::Tensor;
use crate::loops::{self, FloatFormula, NumberFormula};
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Number};
use flambeau_core::Result;

/// Formulas of floating point numbers; integers are converted to the default floating point type first.
macro_rules! float_formulas {
    ($($(#[$doc:meta])* fn $name:ident, $meta:ident($x:ident) = $formula:expr;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
            iter.build_unary_float_op(self_)
        }

        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, _: &Tensor) -> Result<()> {
            #[derive(Clone, Copy)]
            struct Formula;
            impl FloatFormula<1> for Formula {
                #[inline(always)]
                fn call<V: Float>(self, [$x]: [V; 1]) -> V {
                    $formula
                }
            }
            loops::float_kernel(iter, Formula)
        }
    )*};
}

/// Formulas of numbers of any type but bool, with a result of that type.
macro_rules! number_formulas {
    ($($(#[$doc:meta])* fn $name:ident, $meta:ident($x:ident) = $formula:expr;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
            iter.build_unary_op(self_)
        }

        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, _: &Tensor) -> Result<()> {
            #[derive(Clone, Copy)]
            struct Formula;
            impl NumberFormula<1> for Formula {
                #[inline(always)]
                fn call<V: Number>(self, [$x]: [V; 1]) -> V {
                    $formula
                }
            }
            loops::number_kernel(iter, Formula)
        }
    )*};
}

float_formulas! {
    /// e^x.
    fn exp, exp_meta(x) = x.exp();
    /// The natural logarithm.
    fn log, log_meta(x) = x.log();
    /// The hyperbolic tangent.
    fn tanh, tanh_meta(x) = x.tanh();
    /// 1 / (1 + e^-x).
    fn sigmoid, sigmoid_meta(x) = x.sigmoid();
    /// The square root.
    fn sqrt, sqrt_meta(x) = x.sqrt();
}

number_formulas! {
    /// -x.
    fn neg, neg_meta(x) = -x;
    /// max(x, 0); NaN stays NaN.
    fn relu, relu_meta(x) = x.maximum(V::zero());
}
