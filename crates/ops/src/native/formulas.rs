//! The macro that turns a formula into a kernel and the function that finds its shape and type.

use crate::Tensor;
use crate::tensor_iterator::{Config, TensorIterator, result_type_of};
use crate::vectorized::Float;
use flambeau_core::{Result, Scalar, ScalarType, ensure};
use smallvec::SmallVec;

/// The chain rule: `grad * slope`, but what arrived where that is 0, so that a branch that was not taken leaves no NaN even where
/// its slope is not finite.
#[inline(always)]
pub(super) fn chained<V: Float>(grad: V, slope: V) -> V {
    V::select(grad.eq(V::zero()), grad, grad * slope)
}

/// Builds for one tensor and a result of its type, which an `out` must have too.
#[inline]
pub(super) fn build_unary_op<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_op(self_)?;
    check_out(iter, iter.common_dtype())
}

/// Builds a question about one tensor, whose answer is written into truth values only.
#[inline]
pub(super) fn build_truth_op<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_bool_op(self_)?;
    check_out(iter, ScalarType::Bool)
}

/// Refuses an `out` of another type than `expected`.
#[inline]
pub(super) fn check_out(iter: &TensorIterator<'_>, expected: ScalarType) -> Result<()> {
    if iter.trivial().is_none() {
        let got = iter.operands()[0].dtype();
        ensure!(expected == got, Dtype, "{}: Found dtype {got} but expected {expected}", iter.name());
    }
    Ok(())
}

/// A list of structured operators, each a formula on lanes.
///
/// First the loop of [`loops`](crate::loops) and the trait it takes; then, for each operator, how the iterator is built, the
/// tensors with the names their lanes have in the formula, and the arguments that are not tensors:
///
/// ```text
/// formulas! { float_kernel(FloatFormula, Float) -> V:
///     /// What it computes.
///     fn leaky, leaky_meta = build_unary_op(self_: x; slope: Scalar) => x * V::scalar(slope);
/// }
/// ```
macro_rules! formulas {
    ($kernel:ident($trait:ident, $lanes:ident) -> $returned:ty: $(
        $(#[$doc:meta])*
        fn $name:ident, $meta:ident = $build:ident($($tensor:ident: $lane:ident),+ $(; $($arg:ident: $ty:ty),+)?) => $formula:expr;
    )*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(
            iter: &mut $crate::tensor_iterator::TensorIterator<'a>,
            $($tensor: &'a $crate::Tensor,)+
            $($(_: $ty),+)?
        ) -> flambeau_core::Result<()> {
            formulas!(@build $build iter $($tensor),+)
        }

        $(#[$doc])*
        pub fn $name(
            iter: &mut $crate::tensor_iterator::TensorIterator<'_>,
            $(_: formulas!(@tensor $tensor),)+
            $($($arg: $ty),+)?
        ) -> flambeau_core::Result<()> {
            #[derive(Clone, Copy)]
            struct Formula {
                $($($arg: $ty),+)?
            }
            const LANES: usize = [$(stringify!($lane)),+].len();
            impl $crate::loops::$trait<LANES> for Formula {
                #[inline(always)]
                fn call<V: $crate::vectorized::$lanes>(self, [$($lane),+]: [V; LANES]) -> $returned {
                    let Formula { $($($arg),+)? } = self;
                    $formula
                }
            }
            $crate::loops::$kernel(iter, Formula { $($($arg),+)? })
        }
    )*};
    (@tensor $tensor:ident) => { &$crate::Tensor };
    (@build build_unary_op $iter:ident $tensor:ident) => { $crate::native::formulas::build_unary_op($iter, $tensor) };
    (@build build_truth_op $iter:ident $tensor:ident) => { $crate::native::formulas::build_truth_op($iter, $tensor) };
    (@build build_converted_op $iter:ident $tensor:ident) => {
        $iter.build_from(&[$tensor], $crate::tensor_iterator::Config::SAME)
    };
    (@build $build:ident $iter:ident $($tensor:ident),+) => { $iter.$build($($tensor),+) };
}

/// The forms of an operator that take a number: it is wrapped, so that it ranks below tensors in promotion.
macro_rules! with_numbers {
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

/// Builds for one tensor and numbers that take part in promotion: `clamp`, `pow`. The numbers become operands only where they
/// change the type, and the formula never reads them there.
pub(super) fn build_with_numbers<'a>(
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
