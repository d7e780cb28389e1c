//! Special functions that are evaluated element by element in f64: by the functions of a program's special part.

use crate::loops::call_function;
use flambeau_core::{DispatchKeySet, Result, Scalar};
use flambeau_ops::native::pointwise::{special, special_scalar};
use flambeau_ops::tensor_iterator::iterate;
use flambeau_ops::{Tensor, ops, register};

/// Registers operators whose function has the name of the operator after `special_`.
macro_rules! functions {
    ($($operator:ident $name:literal $function:literal $meta:ident($($tensor:ident),+);)*) => {$(
        const _: () = {
            fn kernel(_: DispatchKeySet, $($tensor: &Tensor),+) -> Result<Tensor> {
                iterate::functional($name, |iter| {
                    special_scalar::$meta(iter, $($tensor),+)?;
                    call_function(iter, $function, &[])
                })
            }
            register!(ops::$operator, Cuda, kernel);
        };
    )*};
}

functions! {
    ERFINV "erfinv" "special_erfinv" erfinv_meta(self_);
    SPECIAL_NDTRI "special_ndtri" "special_ndtri" ndtri_meta(self_);
    LGAMMA "lgamma" "special_lgamma" lgamma_meta(self_);
    DIGAMMA "digamma" "special_digamma" digamma_meta(self_);
    SPECIAL_ZETA "special_zeta" "special_zeta" zeta_meta(self_, other);
    I0 "i0" "special_i0" i0_meta(self_);
    SPECIAL_MODIFIED_BESSEL_I0 "special_modified_bessel_i0" "special_i0" i0_meta(self_);
    SPECIAL_I0E "special_i0e" "special_i0e" i0e_meta(self_);
    SPECIAL_I1 "special_i1" "special_i1" i1_meta(self_);
    SPECIAL_MODIFIED_BESSEL_I1 "special_modified_bessel_i1" "special_i1" i1_meta(self_);
    SPECIAL_I1E "special_i1e" "special_i1e" i1e_meta(self_);
    IGAMMA "igamma" "special_igamma" igamma_meta(self_, other);
    IGAMMAC "igammac" "special_igammac" igammac_meta(self_, other);
    SPECIAL_BESSEL_J0 "special_bessel_j0" "special_bessel_j0" bessel_j0_meta(x);
    SPECIAL_BESSEL_J1 "special_bessel_j1" "special_bessel_j1" bessel_j1_meta(x);
    SPECIAL_BESSEL_Y0 "special_bessel_y0" "special_bessel_y0" bessel_y0_meta(x);
    SPECIAL_BESSEL_Y1 "special_bessel_y1" "special_bessel_y1" bessel_y1_meta(x);
    SPECIAL_MODIFIED_BESSEL_K0 "special_modified_bessel_k0" "special_modified_bessel_k0" modified_bessel_k0_meta(x);
    SPECIAL_MODIFIED_BESSEL_K1 "special_modified_bessel_k1" "special_modified_bessel_k1" modified_bessel_k1_meta(x);
    SPECIAL_SCALED_MODIFIED_BESSEL_K0 "special_scaled_modified_bessel_k0" "special_scaled_modified_bessel_k0"
        scaled_modified_bessel_k0_meta(x);
    SPECIAL_SCALED_MODIFIED_BESSEL_K1 "special_scaled_modified_bessel_k1" "special_scaled_modified_bessel_k1"
        scaled_modified_bessel_k1_meta(x);
    SPECIAL_SPHERICAL_BESSEL_J0 "special_spherical_bessel_j0" "special_spherical_bessel_j0" spherical_bessel_j0_meta(x);
    SPECIAL_AIRY_AI "special_airy_ai" "special_airy_ai" airy_ai_meta(x);
    SPECIAL_CHEBYSHEV_POLYNOMIAL_T "special_chebyshev_polynomial_t" "special_chebyshev_polynomial_t"
        chebyshev_polynomial_t_meta(x, n);
    SPECIAL_CHEBYSHEV_POLYNOMIAL_U "special_chebyshev_polynomial_u" "special_chebyshev_polynomial_u"
        chebyshev_polynomial_u_meta(x, n);
    SPECIAL_CHEBYSHEV_POLYNOMIAL_V "special_chebyshev_polynomial_v" "special_chebyshev_polynomial_v"
        chebyshev_polynomial_v_meta(x, n);
    SPECIAL_CHEBYSHEV_POLYNOMIAL_W "special_chebyshev_polynomial_w" "special_chebyshev_polynomial_w"
        chebyshev_polynomial_w_meta(x, n);
    SPECIAL_SHIFTED_CHEBYSHEV_POLYNOMIAL_T "special_shifted_chebyshev_polynomial_t"
        "special_shifted_chebyshev_polynomial_t" shifted_chebyshev_polynomial_t_meta(x, n);
    SPECIAL_SHIFTED_CHEBYSHEV_POLYNOMIAL_U "special_shifted_chebyshev_polynomial_u"
        "special_shifted_chebyshev_polynomial_u" shifted_chebyshev_polynomial_u_meta(x, n);
    SPECIAL_SHIFTED_CHEBYSHEV_POLYNOMIAL_V "special_shifted_chebyshev_polynomial_v"
        "special_shifted_chebyshev_polynomial_v" shifted_chebyshev_polynomial_v_meta(x, n);
    SPECIAL_SHIFTED_CHEBYSHEV_POLYNOMIAL_W "special_shifted_chebyshev_polynomial_w"
        "special_shifted_chebyshev_polynomial_w" shifted_chebyshev_polynomial_w_meta(x, n);
    SPECIAL_HERMITE_POLYNOMIAL_H "special_hermite_polynomial_h" "special_hermite_polynomial_h"
        hermite_polynomial_h_meta(x, n);
    SPECIAL_HERMITE_POLYNOMIAL_HE "special_hermite_polynomial_he" "special_hermite_polynomial_he"
        hermite_polynomial_he_meta(x, n);
    SPECIAL_LAGUERRE_POLYNOMIAL_L "special_laguerre_polynomial_l" "special_laguerre_polynomial_l"
        laguerre_polynomial_l_meta(x, n);
    SPECIAL_LEGENDRE_POLYNOMIAL_P "special_legendre_polynomial_p" "special_legendre_polynomial_p"
        legendre_polynomial_p_meta(x, n);
}

register!(ops::POLYGAMMA, Cuda, polygamma);
register!(ops::FREXP_TENSOR, Cuda, frexp);

fn polygamma(_: DispatchKeySet, n: i64, self_: &Tensor) -> Result<Tensor> {
    iterate::functional("polygamma", |iter| {
        special_scalar::polygamma_meta(iter, n, self_)?;
        call_function(iter, "special_polygamma", &[Scalar::Float(n as f64)])
    })
}

fn frexp(_: DispatchKeySet, self_: &Tensor) -> Result<(Tensor, Tensor)> {
    special::frexp(self_)
}
