//! Complex numbers in pointwise operators: their functions, and kernels that have no counterpart for real numbers.

mod functions;
mod inverse;

pub(super) use functions::*;
pub(super) use inverse::*;

use super::plane::length;
use crate::loops::{self, ComplexComparison, ComplexFormula, ComplexToReal};
use crate::native::shape::complex_views::view_as_real;
use crate::tensor_iterator::{Config, TensorIterator};
use crate::vectorized::{Float, Vector};
use crate::{Tensor, ops};
use flambeau_core::{Complex, Element, Result, Scalar, ScalarType, ensure};

/// Builds the iterator of an operator whose results are real, such as `abs`.
pub(super) fn build_real_op<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    ensure!(
        !iter.is_in_place(),
        Dtype(iter.name(), "self"),
        "In-place abs is not supported for complex tensors."
    );
    iter.build_from(&[self_], Config { output_dtype: Some(self_.dtype().to_real()), ..Config::SAME })
}

/// Kernels that are given by a formula: the trait, the loop, and what the formula returns.
macro_rules! complex_kernels {
    ($($(#[$doc:meta])* fn $name:ident: $trait:ident -> $returned:ty, $kernel:ident, |$z:ident| $formula:expr;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(iter: &TensorIterator<'_>) -> Result<()> {
            #[derive(Clone, Copy)]
            struct Formula;
            impl $trait<1> for Formula {
                #[inline(always)]
                fn call<V: Float>(self, [$z]: [Complex<V>; 1]) -> $returned {
                    $formula
                }
            }
            loops::$kernel(iter, Formula)
        }
    )*};
}

complex_kernels! {
    /// The absolute value, without overflow.
    fn abs: ComplexToReal -> V, complex_to_real_kernel, |z| length(z.re, z.im);
    /// The angle in the complex plane, in -pi to pi.
    fn angle: ComplexToReal -> V, complex_to_real_kernel, |z| super::plane::angle(z.im, z.re);
    /// Whether a part is infinite.
    fn isinf: ComplexComparison -> <V as Vector>::Mask, complex_comparison_kernel, |z| is_infinite(z.re) | is_infinite(z.im);
    /// `z / |z|`, and 0 for 0.
    fn sgn: ComplexFormula -> Complex<V>, complex_kernel, |z| {
        let size = length(z.re, z.im);
        let is_zero = size.eq(V::zero());
        Vector::select(is_zero, Complex::new(V::zero(), V::zero()), Complex::new(z.re / size, z.im / size))
    };
    /// The conjugate.
    fn conjugate: ComplexFormula -> Complex<V>, complex_kernel, |z| z.conj();
}

/// Shape and type of [`_conj_physical`].
pub fn _conj_physical_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor) -> Result<()> {
    iter.build_unary_op(self_)
}

/// The conjugates of complex numbers.
pub fn _conj_physical(iter: &mut TensorIterator<'_>, self_: &Tensor) -> Result<()> {
    if self_.dtype().is_complex() { conjugate(iter) } else { loops::copy_kernel(iter) }
}

/// `z` to the power of one exponent.
pub(super) fn pow_by(iter: &TensorIterator<'_>, exponent: Scalar) -> Result<()> {
    #[derive(Clone, Copy)]
    struct PowBy(f64, f64);
    impl ComplexFormula<1> for PowBy {
        #[inline(always)]
        fn call<V: Float>(self, [z]: [Complex<V>; 1]) -> Complex<V> {
            pow(z, Complex::new(V::constant(self.0), V::constant(self.1)))
        }
    }
    let (re, im) = exponent.to_complex();
    loops::complex_kernel(iter, PowBy(re, im))
}

/// Whether `|a - b| <= atol + rtol |b|`, or a = b, or, with `equal_nan`, both have a part that is NaN.
pub(super) fn isclose(iter: &TensorIterator<'_>, [rtol, atol]: [f64; 2], equal_nan: bool) -> Result<()> {
    #[derive(Clone, Copy)]
    struct Close(f64, f64, bool);
    impl ComplexComparison<2> for Close {
        #[inline(always)]
        fn call<V: Float>(self, [a, b]: [Complex<V>; 2]) -> <V as Vector>::Mask {
            let Close(rtol, atol, equal_nan) = self;
            let difference = length(a.re - b.re, a.im - b.im);
            let allowed = V::constant(atol) + (V::constant(rtol) * length(b.re, b.im)).abs();
            let close = a.eq(b) | ((difference * V::zero()).eq(V::zero()) & difference.le(allowed));
            if equal_nan { close | (a.ne(a) & b.ne(b)) } else { close }
        }
    }
    loops::complex_comparison_kernel(iter, Close(rtol, atol, equal_nan))
}

/// The complex numbers with the given parts, which broadcast.
pub fn complex(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
    check_parts("complex", [("real", real), ("imag", imag)])?;
    from_parts("complex", real, imag)
}

/// The complex numbers with the given absolute values and angles, which broadcast.
pub fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    check_parts("polar", [("abs", abs), ("angle", angle)])?;
    from_parts("polar", &ops::mul_tensor(abs, &ops::cos(angle)?)?, &ops::mul_tensor(abs, &ops::sin(angle)?)?)
}

fn check_parts(name: &str, parts: [(&str, &Tensor); 2]) -> Result<()> {
    let [(_, first), _] = parts;
    for (argument, part) in parts {
        ensure!(
            matches!(part.dtype(), ScalarType::F16 | f32::SCALAR_TYPE | f64::SCALAR_TYPE),
            Dtype(name, argument),
            "Expected both inputs to be Half, Float or Double tensors but got {}",
            part.dtype()
        );
        ensure!(
            part.dtype() == first.dtype(),
            Dtype(name, argument),
            "Expected object of scalar type {} but got scalar type {} for second argument",
            first.dtype(),
            part.dtype()
        );
    }
    Ok(())
}

fn from_parts(name: &str, re: &Tensor, im: &Tensor) -> Result<Tensor> {
    let sizes = flambeau_core::shape::broadcast(re.sizes(), im.sizes()).map_err(|e| e.in_operator(name))?;
    // Elsewhere half precision becomes complex64, which has more operators.
    let dtype = if re.dtype() == ScalarType::F16 { ScalarType::Complex32 } else { re.dtype().to_complex() };
    let made = ops::empty_memory_format(&sizes, Some(dtype), None, Some(re.device()), None, None)?;
    let parts = view_as_real(&made)?;
    for (index, part) in [re, im].into_iter().enumerate() {
        ops::copy_(&ops::select_int(&parts, -1, index as i64)?, part, false)?;
    }
    Ok(made)
}
