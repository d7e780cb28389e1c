//! The macro that makes of a formula a structured kernel: the function that computes elements, and the meta function.

use crate::Tensor;
use crate::tensor_iterator::{Config, TensorIterator, result_type_of};
use crate::vectorized::Float;
use flambeau_core::{Result, Scalar, ScalarType, ensure};
use smallvec::SmallVec;

/// The chain rule: `grad * slope`, but 0 (with the sign of `grad`) where `grad` is 0. So a branch of `where` that was not chosen
/// yields no NaN, even where its derivative is not finite.
#[inline(always)]
pub(super) fn chain_rule<V: Float>(grad: V, slope: V) -> V {
    V::select(grad.eq(V::zero()), grad, grad * slope)
}

/// Builds the iterator of a unary operator whose result has the type of its argument; an `out` tensor must have it too.
#[inline]
pub(super) fn build_unary_op<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_op(self_)?;
    check_out(iter, iter.common_dtype())
}

/// Builds the iterator of a unary predicate, such as `isnan`; an `out` tensor must be of bool.
#[inline]
pub(super) fn build_predicate_op<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_bool_op(self_)?;
    check_out(iter, ScalarType::Bool)
}

/// Refuses an `out` tensor of another type than `expected`.
#[inline]
pub(super) fn check_out(iter: &TensorIterator<'_>, expected: ScalarType) -> Result<()> {
    if iter.trivial().is_none() {
        let got = iter.operands()[0].dtype();
        ensure!(expected == got, Dtype(iter.name()), "Found dtype {got} but expected {expected}");
    }
    Ok(())
}

/// A list of structured pointwise operators, each given by a formula on vectors.
///
/// First come the loop of [`loops`](crate::loops) and the trait of formulas that it takes. Then come, for each operator: the method
/// that builds the iterator, the tensor arguments with the names of their vectors in the formula, and the other arguments.
///
/// ```text
/// formulas! { float_kernel(FloatFormula, Float) -> V:
///     /// What it computes.
///     fn leaky, leaky_meta = build_unary_op(self_: x; slope: Scalar) => x * V::scalar(slope);
/// }
/// ```
///
/// `complex` and a formula on complex vectors may follow. They have the same names, and read no other arguments.
macro_rules! formulas {
    ($kernel:ident($trait:ident, $lanes:ident) -> $returned:ty: $(
        $(#[$doc:meta])*
        fn $name:ident, $meta:ident = $build:ident($($tensor:ident: $lane:ident),+ $(; $($arg:ident: $ty:ty),+)?) => $formula:expr
            $(, complex $complex:expr)?;
    )*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(
            iter: &mut $crate::tensor_iterator::TensorIterator<'a>,
            $($tensor: &'a $crate::Tensor,)+
            $($(_: $ty),+)?
        ) -> flambeau_core::Result<()> {
            formulas!(@build $build iter $($tensor),+)
        }

        // Its own module, so that the machine code of the formula is a codegen unit: an edit compiles that one again, and not all of the file.
        mod $name {
            #[allow(unused_imports, reason = "a formula of methods alone needs no import")]
            use super::*;

            #[derive(Clone, Copy)]
            pub(super) struct Formula {
                $($(pub(super) $arg: $ty),+)?
            }
            const LANES: usize = [$(stringify!($lane)),+].len();
            impl $crate::loops::$trait<LANES> for Formula {
                #[inline(always)]
                fn call<V: $crate::vectorized::$lanes>(self, [$($lane),+]: [V; LANES]) -> $returned {
                    let Formula { $($($arg),+)? } = self;
                    $formula
                }
                $(
                    #[inline(always)]
                    fn with_arguments_as<E: flambeau_core::Element>(self) -> Self {
                        Formula { $($arg: $crate::loops::Argument::as_element::<E>(self.$arg)),+ }
                    }
                )?
            }
            formulas!(@complex_formula [$($lane),+] $($complex)?);
        }

        $(#[$doc])*
        pub fn $name(
            iter: &mut $crate::tensor_iterator::TensorIterator<'_>,
            $(_: formulas!(@tensor $tensor),)+
            $($($arg: $ty),+)?
        ) -> flambeau_core::Result<()> {
            formulas!(@run $kernel, iter, ($name::Formula { $($($arg),+)? }), $($complex)?)
        }
    )*};
    (@complex_formula [$($lane:ident),+]) => {};
    (@complex_formula [$($lane:ident),+] $complex:expr) => {
        impl $crate::loops::ComplexFormula<LANES> for Formula {
            #[inline(always)]
            fn call<V: $crate::vectorized::Float>(
                self,
                [$($lane),+]: [flambeau_core::Complex<V>; LANES],
            ) -> flambeau_core::Complex<V> {
                $complex
            }
        }
    };
    (@run $kernel:ident, $iter:ident, $formula:expr,) => { $crate::loops::$kernel($iter, $formula) };
    (@run $kernel:ident, $iter:ident, $formula:expr, $complex:expr) => {
        $crate::loops::complex_or($iter, $formula, |iter, formula| $crate::loops::$kernel(iter, formula))
    };
    (@tensor $tensor:ident) => { &$crate::Tensor };
    (@build build_unary_op $iter:ident $tensor:ident) => { $crate::native::formulas::build_unary_op($iter, $tensor) };
    (@build build_predicate_op $iter:ident $tensor:ident) => { $crate::native::formulas::build_predicate_op($iter, $tensor) };
    (@build build_converted_op $iter:ident $tensor:ident) => {
        $iter.build_from(&[$tensor], $crate::tensor_iterator::Config::SAME)
    };
    (@build $build:ident $iter:ident $($tensor:ident),+) => { $iter.$build($($tensor),+) };
}

/// The overloads of an operator that take a number. It becomes a wrapped number, which has a lower rank than tensors in type
/// promotion.
macro_rules! scalar_overloads {
    ($($function:ident, $in_place:ident($($arg:ident: $ty:ty),*) = $of_tensors:ident, $of_tensors_in_place:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($of_tensors), "`](crate::ops::", stringify!($of_tensors), ") with a number.")]
        pub fn $function(self_: &$crate::Tensor, other: flambeau_core::Scalar $(, $arg: $ty)*) -> flambeau_core::Result<$crate::Tensor> {
            $crate::ops::$of_tensors(self_, &$crate::Tensor::wrapped_number(other)? $(, $arg)*)
        }

        #[doc = concat!("[`", stringify!($of_tensors), "`](crate::ops::", stringify!($of_tensors), ") with a number, in place.")]
        pub fn $in_place(self_: &$crate::Tensor, other: flambeau_core::Scalar $(, $arg: $ty)*) -> flambeau_core::Result<()> {
            $crate::ops::$of_tensors_in_place(self_, &$crate::Tensor::wrapped_number(other)? $(, $arg)*)
        }
    )*};
}

/// Builds the iterator for one tensor and numbers that take part in type promotion, as in `clamp` and `pow`. The numbers become
/// operands only where they change the result type; the formula reads them from its own fields.
pub(super) fn build_with_scalars<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    numbers: impl IntoIterator<Item = Scalar>,
) -> Result<()> {
    let mut promoting: SmallVec<[Scalar; 2]> = SmallVec::new();
    for number in numbers {
        if result_type_of(self_, number)? != self_.dtype() {
            promoting.push(number);
        }
    }
    if promoting.is_empty() {
        return iter.build_unary_op(self_);
    }
    iter.add_input(self_);
    for number in promoting {
        iter.add_owned_input(Tensor::wrapped_number(number)?);
    }
    iter.build(Config::PROMOTE)
}
