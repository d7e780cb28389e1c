//! Special functions that are evaluated in f64, whatever the type is: gamma, zeta, Bessel and Airy functions, inverse functions,
//! orthogonal polynomials. In f64, results for f32 are correctly rounded in nearly all cases.
//!
//! They are formulas on vectors, which are compiled for f64 only.

mod bessel;
mod bessel_coefficients;
mod gamma;
mod horner;
mod incomplete_gamma;
mod modified_bessel;
pub mod normal;
mod polynomial;
mod zeta;

use crate::loops::{self, FloatFormula};
use crate::structured::copy_to_self;
use crate::tensor_iterator::TensorIterator;
use crate::vectorized::Float;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, Result, Scalar, ScalarType, ensure};
use horner::rounded;

formulas! { double_kernel(FloatFormula, Float) -> V:
    /// The inverse of the error function.
    fn erfinv, erfinv_meta = build_unary_float_op(self_: x) => normal::erfinv(x);
    /// The inverse of the cumulative distribution function of the standard normal distribution.
    fn ndtri, ndtri_meta = build_unary_float_op(self_: x) => normal::quantile(x);
    /// The logarithm of the absolute value of the gamma function.
    fn lgamma, lgamma_meta = build_unary_float_op(self_: x) => gamma::ln_gamma(x);
    /// The derivative of `lgamma`.
    fn digamma, digamma_meta = build_unary_float_op(self_: x) => gamma::digamma(x);
    /// The modified Bessel function of the first kind, of order 0.
    fn i0, i0_meta = build_unary_float_op(self_: x) => modified_bessel::i0(x);
    /// `i0` times e^-|x|.
    fn i0e, i0e_meta = build_unary_float_op(self_: x) => modified_bessel::i0e(x);
    /// The modified Bessel function of the first kind, of order 1.
    fn i1, i1_meta = build_unary_float_op(self_: x) => modified_bessel::i1(x);
    /// `i1` times e^-|x|.
    fn i1e, i1e_meta = build_unary_float_op(self_: x) => modified_bessel::i1e(x);
    /// The Bessel function of the first kind, of order 0.
    fn bessel_j0, bessel_j0_meta = build_unary_float_op(x: x) => bessel::j0(x);
    /// The Bessel function of the first kind, of order 1.
    fn bessel_j1, bessel_j1_meta = build_unary_float_op(x: x) => bessel::j1(x);
    /// The Bessel function of the second kind, of order 0.
    fn bessel_y0, bessel_y0_meta = build_unary_float_op(x: x) => bessel::y0(x);
    /// The Bessel function of the second kind, of order 1.
    fn bessel_y1, bessel_y1_meta = build_unary_float_op(x: x) => bessel::y1(x);
    /// The modified Bessel function of the second kind, of order 0.
    fn modified_bessel_k0, modified_bessel_k0_meta = build_unary_float_op(x: x) => bessel::k0(x);
    /// The modified Bessel function of the second kind, of order 1.
    fn modified_bessel_k1, modified_bessel_k1_meta = build_unary_float_op(x: x) => bessel::k1(x);
    /// The modified Bessel function of the second kind, of order 0, times e^x.
    fn scaled_modified_bessel_k0, scaled_modified_bessel_k0_meta = build_unary_float_op(x: x) => bessel::k0e(x);
    /// The modified Bessel function of the second kind, of order 1, times e^x.
    fn scaled_modified_bessel_k1, scaled_modified_bessel_k1_meta = build_unary_float_op(x: x) => bessel::k1e(x);
    /// The spherical Bessel function of the first kind, of order 0.
    fn spherical_bessel_j0, spherical_bessel_j0_meta = build_unary_float_op(x: x) => bessel::spherical_j0(x);
    /// The Airy function.
    fn airy_ai, airy_ai_meta = build_unary_float_op(x: x) => bessel::airy(x);
    /// The regularized lower incomplete gamma function.
    fn igamma, igamma_meta = build_binary_op(self_: a, other: x) => incomplete_gamma::lower(a, x);
    /// The regularized upper incomplete gamma function.
    fn igammac, igammac_meta = build_binary_op(self_: a, other: x) => incomplete_gamma::upper(a, x);
}

/// The Hurwitz zeta function.
#[derive(Clone, Copy)]
struct Zeta {
    /// Whether arguments are those of f32: an exponent just below 1 may round to it.
    rounds: bool,
}

impl FloatFormula<2> for Zeta {
    #[inline(always)]
    fn call<V: Float>(self, [s, q]: [V; 2]) -> V {
        let [s, q] = if self.rounds { [rounded(s), rounded(q)] } else { [s, q] };
        zeta::zeta(s, q)
    }
}

/// Shape and type of [`zeta`].
pub fn zeta_meta<'a>(iter: &mut TensorIterator<'a>, self_: &'a Tensor, other: &'a Tensor) -> Result<()> {
    iter.build_binary_float_op(self_, other)
}

/// The Hurwitz zeta function: the sum of (k + q)^-s over k from 0.
pub fn zeta(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
    let rounds = iter.common_dtype() != ScalarType::F64;
    loops::double_kernel(iter, Zeta { rounds })
}

/// Operators that are given by polynomials of an order.
macro_rules! polynomials {
    ($($(#[$doc:meta])* fn $name:ident, $meta:ident = $([$shifted:ident])? $polynomial:ident;)*) => {$(
        #[doc = concat!("Shape and type of [`", stringify!($name), "`].")]
        pub fn $meta<'a>(iter: &mut TensorIterator<'a>, x: &'a Tensor, n: &'a Tensor) -> Result<()> {
            iter.build_binary_float_op(x, n)
        }

        mod $name {
            use super::polynomial;
            use crate::loops::FloatFormula;
            use crate::vectorized::Float;

            /// Whether arguments are those of f32: an order just below an integer may round to it.
            #[derive(Clone, Copy)]
            pub(super) struct Formula {
                pub(super) rounds: bool,
            }

            impl FloatFormula<2> for Formula {
                #[inline(always)]
                fn call<V: Float>(self, [x, n]: [V; 2]) -> V {
                    let [x, n] = if self.rounds { [super::rounded(x), super::rounded(n)] } else { [x, n] };
                    $(let x = polynomial::$shifted(x);)?
                    polynomial::$polynomial(x, n)
                }
            }
        }

        $(#[$doc])*
        pub fn $name(iter: &mut TensorIterator<'_>, _: &Tensor, _: &Tensor) -> Result<()> {
            let rounds = iter.common_dtype() != ScalarType::F64;
            loops::double_kernel(iter, $name::Formula { rounds })
        }
    )*};
}

polynomials! {
    /// Chebyshev's polynomials of the first kind.
    fn chebyshev_polynomial_t, chebyshev_polynomial_t_meta = chebyshev_t;
    /// Chebyshev's polynomials of the second kind.
    fn chebyshev_polynomial_u, chebyshev_polynomial_u_meta = chebyshev_u;
    /// Chebyshev's polynomials of the third kind.
    fn chebyshev_polynomial_v, chebyshev_polynomial_v_meta = chebyshev_v;
    /// Chebyshev's polynomials of the fourth kind.
    fn chebyshev_polynomial_w, chebyshev_polynomial_w_meta = chebyshev_w;
    /// Chebyshev's polynomials of the first kind, shifted to the interval from 0 to 1.
    fn shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_t_meta = [shifted] chebyshev_t;
    /// Chebyshev's polynomials of the second kind, shifted to the interval from 0 to 1.
    fn shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_u_meta = [shifted] chebyshev_u;
    /// Chebyshev's polynomials of the third kind, shifted to the interval from 0 to 1.
    fn shifted_chebyshev_polynomial_v, shifted_chebyshev_polynomial_v_meta = [shifted] chebyshev_v;
    /// Chebyshev's polynomials of the fourth kind, shifted to the interval from 0 to 1.
    fn shifted_chebyshev_polynomial_w, shifted_chebyshev_polynomial_w_meta = [shifted] chebyshev_w;
    /// Physicist's Hermite polynomials.
    fn hermite_polynomial_h, hermite_polynomial_h_meta = hermite_h;
    /// Probabilist's Hermite polynomials.
    fn hermite_polynomial_he, hermite_polynomial_he_meta = hermite_he;
    /// Laguerre's polynomials.
    fn laguerre_polynomial_l, laguerre_polynomial_l_meta = laguerre_l;
    /// Legendre's polynomials.
    fn legendre_polynomial_p, legendre_polynomial_p_meta = legendre_p;
}

impl FloatFormula<1> for zeta::Polygamma {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        self.at(x)
    }
}

/// Shape and type of [`polygamma`].
pub fn polygamma_meta<'a>(iter: &mut TensorIterator<'a>, n: i64, self_: &'a Tensor) -> Result<()> {
    ensure!(n >= 0, InvalidArgument(iter.name(), "n"), "polygamma(n, x) does not support negative n.");
    iter.build_unary_float_op(self_)
}

/// The derivative of order n of the digamma function.
pub fn polygamma(iter: &mut TensorIterator<'_>, n: i64, _: &Tensor) -> Result<()> {
    match n {
        0 => loops::double_kernel(iter, digamma::Formula {}),
        1 => loops::double_kernel(iter, Trigamma),
        _ => loops::double_kernel(iter, zeta::Polygamma::new(n)),
    }
}

/// The derivative of the digamma function.
#[derive(Clone, Copy)]
struct Trigamma;

impl FloatFormula<1> for Trigamma {
    #[inline(always)]
    fn call<V: Float>(self, [x]: [V; 1]) -> V {
        gamma::trigamma(x)
    }
}

/// [`polygamma`] in place.
pub fn polygamma_(self_: &Tensor, n: i64) -> Result<()> {
    copy_to_self("polygamma_", &ops::polygamma(n, self_)?, self_)
}

/// The logarithm of the multivariate gamma function of p dimensions: the sum of that of `x - k / 2`, k below p, and a constant.
pub fn mvlgamma(self_: &Tensor, p: i64) -> Result<Tensor> {
    ensure!(p >= 1, InvalidArgument("mvlgamma", "p"), "p has to be greater than or equal to 1");
    let dtype = self_.dtype().to_floating_point(ScalarType::F32);
    let steps = ops::arange_start_step(
        Scalar::Float(0.5 - p as f64 / 2.0),
        Scalar::Float(0.5),
        Scalar::Float(0.5),
        Some(dtype),
        None,
        Some(self_.device()),
        None,
    )?;
    // The terms of an element are not adjacent: rows of `p` elements would be short.
    let mut sizes = DimVec::from_elem(1, self_.dim() + 1);
    sizes[0] = p;
    let shifted = ops::add_tensor(&ops::unsqueeze(self_, 0)?, &ops::view(&steps, &sizes)?, Scalar::Int(1))?;
    let constant = p as f64 * (p as f64 - 1.0) / 4.0 * std::f64::consts::PI.ln();
    let sum = ops::sum_dim_intlist(&ops::lgamma(&shifted)?, Some(&[0]), false, None)?;
    ops::add_scalar(&sum, Scalar::Float(constant), Scalar::Int(1))
}

/// [`mvlgamma`] in place.
pub fn mvlgamma_(self_: &Tensor, p: i64) -> Result<()> {
    copy_to_self("mvlgamma_", &ops::mvlgamma(self_, p)?, self_)
}

/// [`zeta`] with a number for `self`.
pub fn zeta_of_scalar(self_: Scalar, other: &Tensor) -> Result<Tensor> {
    ops::special_zeta(&Tensor::wrapped_number(self_)?, other)
}

/// [`zeta`] with a number for `other`.
pub fn zeta_scalar(self_: &Tensor, other: Scalar) -> Result<Tensor> {
    ops::special_zeta(self_, &Tensor::wrapped_number(other)?)
}

/// Overloads of polynomials with a number for the argument or for the order.
macro_rules! polynomials_of_numbers {
    ($($of_number:ident, $of_order:ident = $of_tensors:ident;)*) => {$(
        #[doc = concat!("[`", stringify!($of_tensors), "`](ops::", stringify!($of_tensors), ") of a number.")]
        pub fn $of_number(x: Scalar, n: &Tensor) -> Result<Tensor> {
            ops::$of_tensors(&Tensor::wrapped_number(x)?, n)
        }

        #[doc = concat!("[`", stringify!($of_tensors), "`](ops::", stringify!($of_tensors), ") of one order.")]
        pub fn $of_order(x: &Tensor, n: Scalar) -> Result<Tensor> {
            ops::$of_tensors(x, &Tensor::wrapped_number(n)?)
        }
    )*};
}

polynomials_of_numbers! {
    chebyshev_polynomial_t_of_number, chebyshev_polynomial_t_of_order = special_chebyshev_polynomial_t;
    chebyshev_polynomial_u_of_number, chebyshev_polynomial_u_of_order = special_chebyshev_polynomial_u;
    chebyshev_polynomial_v_of_number, chebyshev_polynomial_v_of_order = special_chebyshev_polynomial_v;
    chebyshev_polynomial_w_of_number, chebyshev_polynomial_w_of_order = special_chebyshev_polynomial_w;
    shifted_chebyshev_polynomial_t_of_number, shifted_chebyshev_polynomial_t_of_order = special_shifted_chebyshev_polynomial_t;
    shifted_chebyshev_polynomial_u_of_number, shifted_chebyshev_polynomial_u_of_order = special_shifted_chebyshev_polynomial_u;
    shifted_chebyshev_polynomial_v_of_number, shifted_chebyshev_polynomial_v_of_order = special_shifted_chebyshev_polynomial_v;
    shifted_chebyshev_polynomial_w_of_number, shifted_chebyshev_polynomial_w_of_order = special_shifted_chebyshev_polynomial_w;
    hermite_polynomial_h_of_number, hermite_polynomial_h_of_order = special_hermite_polynomial_h;
    hermite_polynomial_he_of_number, hermite_polynomial_he_of_order = special_hermite_polynomial_he;
    laguerre_polynomial_l_of_number, laguerre_polynomial_l_of_order = special_laguerre_polynomial_l;
    legendre_polynomial_p_of_number, legendre_polynomial_p_of_order = special_legendre_polynomial_p;
}
