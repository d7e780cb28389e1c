//! Formulas of two arguments that broadcast.

use crate::loops::{self, FloatFormula, NumberFormula};
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::{Float, Number};
use crate::{Tensor, ops};
use flambeau_core::{Result, Scalar, ScalarType, ensure};

/// The factor of `add` and `sub`, checked: an integer result takes no fraction, a bool result only a bool.
fn check_alpha(iter: &TensorIterator<'_>, alpha: Scalar) -> Result<()> {
    let dtype = iter.common_dtype();
    ensure!(
        dtype.is_floating_point() || !alpha.is_floating_point(),
        Dtype,
        "{}: expected an integer `alpha` for tensors of {dtype} but got {alpha}",
        iter.name()
    );
    ensure!(
        dtype == ScalarType::Bool || !matches!(alpha, Scalar::Bool(_)),
        Dtype,
        "{}: boolean alpha only supported for boolean results",
        iter.name()
    );
    Ok(())
}

/// Shape and type of [`add`].
pub fn add_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    alpha: Scalar,
) -> Result<()> {
    iter.build_binary_op(self_, other)?;
    check_alpha(iter, alpha)
}

/// self + alpha * other.
pub fn add(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, alpha: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Plain;
    impl NumberFormula<2> for Plain {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a + b
        }
    }
    #[derive(Clone, Copy)]
    struct Scaled(Scalar);
    impl NumberFormula<2> for Scaled {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a + V::scalar(self.0) * b
        }
    }
    if alpha == Scalar::Int(1) {
        loops::any_kernel(iter, Plain)
    } else {
        loops::any_kernel(iter, Scaled(alpha))
    }
}

/// Shape and type of [`sub`].
pub fn sub_meta<'a>(
    iter: &mut TensorIterator<'a>,
    self_: &'a Tensor,
    other: &'a Tensor,
    alpha: Scalar,
) -> Result<()> {
    iter.build_binary_op(self_, other)?;
    ensure!(
        iter.common_dtype() != ScalarType::Bool,
        Dtype,
        "sub: subtraction of two bool tensors is not supported; use logical_xor"
    );
    check_alpha(iter, alpha)
}

/// self - alpha * other.
pub fn sub(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor, alpha: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula(Scalar);
    impl NumberFormula<2> for Formula {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a - V::scalar(self.0) * b
        }
    }
    loops::number_kernel(iter, Formula(alpha))
}

/// Shape and type of [`mul`].
pub fn mul_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: &'a Tensor) -> Result<()> {
    iter.build_binary_op(self_, other)
}

/// self * other; logical and for bool.
pub fn mul(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula;
    impl NumberFormula<2> for Formula {
        #[inline(always)]
        fn call<V: Number>(self, [a, b]: [V; 2]) -> V {
            a * b
        }
    }
    loops::any_kernel(iter, Formula)
}

/// Shape and type of [`div`].
pub fn div_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: &'a Tensor) -> Result<()> {
    iter.build_binary_float_op(self_, other)
}

/// self / other, in floating point whatever the inputs.
pub fn div(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Formula;
    impl FloatFormula<2> for Formula {
        #[inline(always)]
        fn call<V: Float>(self, [a, b]: [V; 2]) -> V {
            a / b
        }
    }
    loops::float_kernel(iter, Formula)
}

/// self + alpha * other for a number.
pub fn add_scalar(self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<Tensor> {
    ops::add_tensor(self_, &Tensor::wrapped_number(other)?, alpha)
}

/// self - alpha * other for a number.
pub fn sub_scalar(self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<Tensor> {
    ops::sub_tensor(self_, &Tensor::wrapped_number(other)?, alpha)
}

/// self * other for a number.
pub fn mul_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::mul_tensor(self_, &Tensor::wrapped_number(other)?)
}

/// self / other for a number.
pub fn div_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::div_tensor(self_, &Tensor::wrapped_number(other)?)
}

/// `self += alpha * other` for a number.
pub fn add_scalar_(self_: &Tensor, other: Scalar, alpha: Scalar) -> Result<()> {
    ops::add__tensor(self_, &Tensor::wrapped_number(other)?, alpha)
}

/// `self *= other` for a number.
pub fn mul_scalar_(self_: &Tensor, other: Scalar) -> Result<()> {
    ops::mul__tensor(self_, &Tensor::wrapped_number(other)?)
}
