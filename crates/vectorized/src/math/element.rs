//! What the formulas of `math` need to know about f32 and f64: their layout, their limits, and coefficients.
//!
//! The polynomials interpolate at Chebyshev nodes, computed with 60 digits, then rounded. A constant `X_LOW` is the exact value minus
//! `X`; one with `_SHORT` has so few digits that its product with an exponent is exact.

use std::ops::Div;

use super::super::lane::OrderedLane;
use super::circle::{self, Circle};
use super::{payne_hanek, piece_tables};

/// f32 and f64, as the formulas of [`Float`](super::super::Float) see them: layout, limits and coefficients.
pub trait FloatElement: OrderedLane + Div<Output = Self> {
    /// The number of explicit bits of the significand.
    const MANTISSA_BITS: u32;
    /// The sign bit; its complement within the width is everything else.
    const SIGN_MASK: u64;
    /// The bits of 1.
    const ONE_BITS: u64;
    /// The bits of 3/4, where reduced significands begin.
    const MIN_SIGNIFICAND_BITS: u64;
    /// The smallest positive normal number.
    const MIN_NORMAL: Self;
    /// 1.5 * 2^MANTISSA_BITS: adding it rounds to an integer, which the low bits then hold in two's complement.
    const ROUND: Self;
    /// `ROUND / 16`: adding it rounds to a multiple of 1/16, and the low bits hold how many.
    const ROUND_SIXTEENTH: Self;
    /// Arguments of `exp` beyond which the result is 0 or infinite.
    const EXP_RANGE: (Self, Self);
    /// Arguments of `exp2` beyond which the result is 0 or infinite.
    const EXP2_RANGE: (Self, Self);
    /// An `x` with `e^-x` less than a quarter of the unit roundoff.
    const NEGLIGIBLE: Self;
    /// An argument at which `sinh` overflows, while a quarter of its exponential does not.
    const SINH_MAX: Self;
    /// An argument at which `erfc` is 0, at the end of its polynomial's range.
    const ERFC_MAX: Self;
    /// From here on `erf` rounds to 1.
    const ERF_MAX: Self;
    /// The centre of the variable of `ERFC`, `(x - c) / (x + c)`.
    const ERFC_CENTRE: Self;
    /// The largest argument that is reduced by three parts of pi/2.
    const REDUCTION_MAX: Self;
    /// ln 2.
    const LN_2: Self;
    /// What `LN_2` leaves out.
    const LN_2_LOW: Self;
    /// log2 e.
    const LOG2_E: Self;
    /// What `LOG2_E` leaves out.
    const LOG2_E_LOW: Self;
    /// log10 e.
    const LOG10_E: Self;
    /// What `LOG10_E` leaves out.
    const LOG10_E_LOW: Self;
    /// pi/2, in three parts.
    const FRAC_PI_2: Self;
    /// What `FRAC_PI_2` leaves out.
    const FRAC_PI_2_LOW: Self;
    /// What `FRAC_PI_2_LOW` leaves out.
    const FRAC_PI_2_LOWEST: Self;
    /// pi.
    const PI: Self;
    /// What `PI` leaves out.
    const PI_LOW: Self;
    /// ln 2.
    const LN_2_SHORT: Self;
    /// What `LN_2_SHORT` leaves out.
    const LN_2_SHORT_LOW: Self;
    /// log10 2.
    const LOG10_2_SHORT: Self;
    /// What `LOG10_2_SHORT` leaves out.
    const LOG10_2_SHORT_LOW: Self;
    /// What 1/3 loses in rounding.
    const THIRD_LOW: Self;
    /// 2/pi.
    const FRAC_2_PI: Self;
    /// What the first coefficient of `NEG_LOG_ERFC` leaves out.
    const NEG_LOG_ERFC_LOW: Self;
    /// What the first coefficient of `ERFC` leaves out.
    const ERFC_LOW: Self;
    /// `e^(z^2 / 2)` times the probability that a normal variable is above `z`, for `z` up to 13: a quotient, within 5e-9; f32 only.
    const NORMAL_TAIL: (&'static [Self], &'static [Self]);
    /// `piece_tables::TAIL` and `SLOPE`; `None` where polynomials of low degree are not precise enough.
    const NORMAL_PIECES: Option<[&'static [[Self; 16]; 7]; 2]>;
    /// `piece_tables::TANH`; `None` as above.
    const TANH: Option<&'static [[Self; 16]; 8]>;
    /// `piece_tables::SIGMOID`; `None` as above.
    const SIGMOID: Option<&'static [[Self; 16]; 8]>;
    /// `(e^r - 1 - r) / r^2` for `|r| <= ln 2 / 2`.
    const EXP: &'static [Self];
    /// The same for `|r| <= ln 2 / 32`, with its error weighed by `r^2`.
    const SHORT_EXP: &'static [Self];
    /// `2^(i / 16)`.
    const POWERS: &'static [Self; 16];
    /// What `POWERS` leaves out.
    const POWERS_LOW: &'static [Self; 16];
    /// `POWERS`, minus `i / 16` of the lowest bit of the exponent in their bits: the differences from a linear interpolation.
    const POWER_RESIDUALS: &'static [Self; 16];
    /// `2^(1 - i / 16)`.
    const ROOTS: &'static [Self; 16];
    /// What `ROOTS` leaves out.
    const ROOTS_LOW: &'static [Self; 16];
    /// For each sixteenth of the range of reduced significands, indexed by its position in a binade: a multiple of 1/32 near the
    /// reciprocal of its middle, but 1 on both sides of 1.
    const INVERSES: &'static [Self; 16];
    /// `-ln` of `INVERSES`, with as few digits as `LN_2_SHORT`, so that the sum with a multiple of that is exact.
    const LOGS: &'static [Self; 16];
    /// What `LOGS` leaves out.
    const LOGS_LOW: &'static [Self; 16];
    /// `(ln(1 + r) - r) / r^2` for `r` in -0.0372 to 0.0626, with its error weighed by `r`.
    const LOG: &'static [Self];
    /// `(ln(1 + r) - r + r^2 / 2) / r^3` for the same `r`, with its error weighed by `r^2`; or, where the third term is a pair,
    /// `(ln(1 + r) - r + r^2 / 2 - r^3 / 3) / r^4`, with its error weighed by `r^3`.
    const LONG_LOG: &'static [Self];
    /// Whether it is.
    const LONG_LOG_HAS_THIRD: bool;
    /// The table of points on the circle; `None` where it is not faster.
    const CIRCLE: Option<&'static Circle<Self>>;
    /// `(sin r - r) / r^3`, in `r^2`, for `|r| <= pi/4`.
    const SIN: &'static [Self];
    /// `(cos r - 1 + r^2 / 2) / r^4`, in `r^2`, for `|r| <= pi/4`.
    const COS: &'static [Self];
    /// `(tan r - r) / r^3`, in `r^2`, for `|r| <= pi/8`.
    const TAN: &'static [Self];
    /// `(atan r - r) / r^3`, in `r^2`, for `|r| <= tan(pi/8)`.
    const ATAN: &'static [Self];
    /// `(asin r - r) / r^3`, in `r^2`, for `|r| <= 1/2`.
    const ASIN: &'static [Self];
    /// `erf(x) / x - 1`, in `x^2`, for `|x| <= 1`.
    const ERF: &'static [Self];
    /// `(1 + 2 x) e^(x^2) erfc(x)`, in `(x - c) / (x + c)`, for `x` from 3/4 to `ERFC_MAX`.
    const ERFC: &'static [Self];
    /// `-ln erfc(x)`, in `x - 1`, for `x` from 0.9 to `ERF_MAX`, with its error weighed by `erfc(x)`.
    const NEG_LOG_ERFC: &'static [Self];
    /// The element nearest to `value`.
    fn from_f64(value: f64) -> Self;
    /// For each `x`: `(n, high, low)` with `x = n * pi/2 + high + low` modulo 2 pi, `n` in 0..4 and `|high|` at most
    /// pi/4; NaN if it is not finite.
    fn reduce_large(x: &[Self], n: &mut [Self], high: &mut [Self], low: &mut [Self]);
}

macro_rules! float_element {
    ($float:ident, $bits:ident: $($body:tt)*) => {
        impl FloatElement for $float {
            $($body)*

            const POWER_RESIDUALS: &[Self; 16] = &{
                let mut powers = *Self::POWERS;
                let mut i = 0;
                while i < 16 {
                    let linear = i << (Self::MANTISSA_BITS - 4);
                    powers[i] = Self::from_bits(powers[i].to_bits() - linear as $bits);
                    i += 1;
                }
                powers
            };

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $float
            }

            #[cold]
            #[inline(never)]
            fn reduce_large(x: &[Self], n: &mut [Self], high: &mut [Self], low: &mut [Self]) {
                for (((&x, n), high), low) in x.iter().zip(n).zip(high).zip(low) {
                    let (quadrant, first, second) = payne_hanek::reduce(f64::from(x));
                    *n = f32::from(quadrant).into();
                    *high = first as $float;
                    *low = ((first - f64::from(*high)) + second) as $float;
                }
            }
        }
    };
}

float_element! { f32, u32:
    const MANTISSA_BITS: u32 = 23;
    const SIGN_MASK: u64 = 1 << 31;
    const ONE_BITS: u64 = 0x3f80_0000;
    const MIN_SIGNIFICAND_BITS: u64 = 0x3f40_0000;
    const MIN_NORMAL: Self = f32::MIN_POSITIVE;
    const THIRD_LOW: Self = -9.934107e-9;
    const ROUND: Self = 12_582_912.0;
    const ROUND_SIXTEENTH: Self = 786_432.0;
    const EXP_RANGE: (Self, Self) = (-104.0, 89.0);
    const EXP2_RANGE: (Self, Self) = (-151.0, 129.0);
    const NEGLIGIBLE: Self = 20.0;
    const SINH_MAX: Self = 89.5;
    const ERFC_MAX: Self = 10.2;
    const ERF_MAX: Self = 4.0;
    const ERFC_CENTRE: Self = 2.0;
    const REDUCTION_MAX: Self = 65_536.0;
    const LN_2: Self = std::f32::consts::LN_2;
    const LN_2_LOW: Self = -1.9046542e-9;
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const LOG2_E_LOW: Self = 1.925963e-8;
    const LOG10_E: Self = std::f32::consts::LOG10_E;
    const LOG10_E_LOW: Self = -1.010305e-8;
    const FRAC_PI_2: Self = std::f32::consts::FRAC_PI_2;
    const FRAC_PI_2_LOW: Self = -4.371139e-8;
    const FRAC_PI_2_LOWEST: Self = -1.7151245e-15;
    const PI: Self = std::f32::consts::PI;
    const PI_LOW: Self = -8.742278e-8;
    const LN_2_SHORT: Self = 0.69314575;
    const LN_2_SHORT_LOW: Self = 1.4286068e-6;
    const LOG10_2_SHORT: Self = 0.3010254;
    const LOG10_2_SHORT_LOW: Self = 4.605039e-6;
    const FRAC_2_PI: Self = std::f32::consts::FRAC_2_PI;
    const NEG_LOG_ERFC_LOW: Self = -5.0693977e-8;
    const ERFC_LOW: Self = 5.6899725e-9;
    const NORMAL_TAIL: (&[Self], &[Self]) = (
        &[49.99396, 43.480267, 18.067318, 3.9774146, 0.3989483],
        &[99.98792, 166.7394, 119.17906, 46.271004, 9.97067, 1.0],
    );
    const NORMAL_PIECES: Option<[&[[Self; 16]; 7]; 2]> = Some([&piece_tables::TAIL, &piece_tables::SLOPE]);
    const TANH: Option<&[[Self; 16]; 8]> = Some(&piece_tables::TANH);
    const SIGMOID: Option<&[[Self; 16]; 8]> = Some(&piece_tables::SIGMOID);
    const EXP: &[Self] = &[
        0.5, 0.16666667, 0.041666463, 0.0083333105, 0.0013933731, 0.0001989108,
    ];
    const SHORT_EXP: &[Self] = &[
        0.5000162, 0.16667025,
    ];
    const POWERS: &[Self; 16] = &[
        1.0, 1.0442737, 1.0905077, 1.1387886, 1.1892071, 1.2418578, 1.2968396, 1.3542556,
        std::f32::consts::SQRT_2, 1.4768262, 1.5422108, 1.6104903, 1.6817929, 1.7562522, 1.8340081, 1.9152066,
    ];
    const POWERS_LOW: &[Self; 16] = &[
        0.0, 4.83347e-08, -1.307754e-08, 5.3862223e-08, 3.7976353e-08, 4.496838e-08, -4.0189995e-08,
        -1.0123349e-08, 2.4203235e-08, -4.500899e-08, 8.070905e-09, 9.836217e-09, -2.4755327e-08,
        -9.23577e-09, -1.1239278e-08, 9.845328e-09,
    ];
    const ROOTS: &[Self; 16] = &[
        2.0, 1.9152066, 1.8340081, 1.7562522, 1.6817929, 1.6104903, 1.5422108, 1.4768262,
        std::f32::consts::SQRT_2, 1.3542556, 1.2968396, 1.2418578, 1.1892071, 1.1387886, 1.0905077, 1.0442737,
    ];
    const ROOTS_LOW: &[Self; 16] = &[
        0.0, 9.845328e-09, -1.1239278e-08, -9.23577e-09, -2.4755327e-08, 9.836217e-09, 8.070905e-09,
        -4.500899e-08, 2.4203235e-08, -1.0123349e-08, -4.0189995e-08, 4.496838e-08, 3.7976353e-08,
        5.3862223e-08, -1.307754e-08, 4.83347e-08,
    ];
    const INVERSES: &[Self; 16] = &[
        1.3125, 1.25, 1.21875, 1.15625, 1.125, 1.09375, 1.0625, 1.0, 1.0, 0.90625, 0.875, 0.8125, 0.78125,
        0.75, 0.71875, 0.6875,
    ];
    const LOGS: &[Self; 16] = &[
        -0.27192688, -0.22314453, -0.1978302, -0.14518738, -0.11778259, -0.08961487, -0.06062317, 0.0, 0.0,
        0.09843445, 0.13352966, 0.2076416, 0.24685669, 0.2876892, 0.33024597, 0.37469482,
    ];
    const LOGS_LOW: &[Self; 16] = &[
        -6.8356007e-6, 9.799357e-7, 4.4568656e-6, 5.368085e-6, -4.4288294e-7, 2.7094743e-6, -1.4528712e-6,
        0.0, 0.0, 5.6245713e-6, 1.7295386e-6, -2.2367842e-6, 3.3884785e-6, -7.1365325e-6, -4.284809e-6,
        -1.3747773e-6,
    ];
    const LOG: &[Self] = &[
        -0.4999999, 0.33334506, -0.2502485, 0.1909681,
    ];
    const LONG_LOG: &[Self] = &[
        0.33333334, -0.24999993, 0.20001157, -0.16685459, 0.13550149,
    ];
    const LONG_LOG_HAS_THIRD: bool = false;
    const CIRCLE: Option<&Circle<Self>> = Some(&circle::CIRCLE);
    const SIN: &[Self] = &[
        -0.16666667, 0.008333332, -0.00019840077, 2.7248702e-6,
    ];
    const COS: &[Self] = &[
        0.041666664, -0.0013888298, 2.4546931e-5,
    ];
    const TAN: &[Self] = &[
        0.33333334, 0.1333331, 0.05398039, 0.021653198, 0.010408398,
    ];
    const ATAN: &[Self] = &[
        -0.3333333, 0.19999537, -0.14263839, 0.10742467, -0.064477414,
    ];
    const ASIN: &[Self] = &[
        0.16666666, 0.07500094, 0.044599403, 0.031100662, 0.017149238, 0.033690847,
    ];
    const ERF: &[Self] = &[
        0.12837917, -0.37612638, 0.11283782, -0.02686543, 0.0052210316, -0.00084840803, 0.00011265959,
        -9.667045e-6,
    ];
    const ERFC: &[Self] = &[
        1.2769784, -0.092763826, -0.16603006, 0.16405058, -0.054227445, -0.008013912, 0.00877212,
        0.0011034417, -0.0015171119,
    ];
    const NEG_LOG_ERFC: &[Self] = &[
        1.8496056, 2.6389675, 0.84310734, 0.04156146, -0.010040872, 0.002004844, -0.00028534568,
        2.077874e-5,
    ];
}

float_element! { f64, u64:
    const MANTISSA_BITS: u32 = 52;
    const SIGN_MASK: u64 = 1 << 63;
    const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;
    const MIN_SIGNIFICAND_BITS: u64 = 0x3fe8_0000_0000_0000;
    const MIN_NORMAL: Self = f64::MIN_POSITIVE;
    const THIRD_LOW: Self = 1.850371707708594e-17;
    const ROUND: Self = 6_755_399_441_055_744.0;
    const ROUND_SIXTEENTH: Self = 422_212_465_065_984.0;
    const EXP_RANGE: (Self, Self) = (-746.0, 710.0);
    const EXP2_RANGE: (Self, Self) = (-1076.0, 1025.0);
    const NEGLIGIBLE: Self = 40.0;
    const SINH_MAX: Self = 710.5;
    const ERFC_MAX: Self = 27.4;
    const ERF_MAX: Self = 6.0;
    const ERFC_CENTRE: Self = 3.0;
    const REDUCTION_MAX: Self = 16_777_216.0;
    const LN_2: Self = std::f64::consts::LN_2;
    const LN_2_LOW: Self = 2.3190468138462996e-17;
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const LOG2_E_LOW: Self = 2.0355273740931033e-17;
    const LOG10_E: Self = std::f64::consts::LOG10_E;
    const LOG10_E_LOW: Self = 1.098319650216765e-17;
    const FRAC_PI_2: Self = std::f64::consts::FRAC_PI_2;
    const FRAC_PI_2_LOW: Self = 6.123233995736766e-17;
    const FRAC_PI_2_LOWEST: Self = -1.4973849048591698e-33;
    const PI: Self = std::f64::consts::PI;
    const PI_LOW: Self = 1.2246467991473532e-16;
    const LN_2_SHORT: Self = 0.693147180559663;
    const LN_2_SHORT_LOW: Self = 2.8235290563031577e-13;
    const LOG10_2_SHORT: Self = 0.30102999566383914;
    const LOG10_2_SHORT_LOW: Self = 1.42050232272661e-13;
    const FRAC_2_PI: Self = std::f64::consts::FRAC_2_PI;
    const NEG_LOG_ERFC_LOW: Self = 9.14811055609562e-18;
    const ERFC_LOW: Self = 4.5498180195792344e-17;
    const NORMAL_TAIL: (&[Self], &[Self]) = (&[], &[]);
    const NORMAL_PIECES: Option<[&[[Self; 16]; 7]; 2]> = None;
    const TANH: Option<&[[Self; 16]; 8]> = None;
    const SIGMOID: Option<&[[Self; 16]; 8]> = None;
    const EXP: &[Self] = &[
        0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326084, 0.0013888888888883711,
        0.0001984126987500228, 2.480158732567746e-5, 2.755725517000089e-6, 2.755727347871858e-7,
        2.5105312729622103e-8, 2.09147553258932e-9,
    ];
    const SHORT_EXP: &[Self] = &[
        0.5000000000000006, 0.1666666666441779, 0.04166666665965705, 0.008333471925185213,
        0.0013889128980169823,
    ];
    const POWERS: &[Self; 16] = &[
        1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721, 1.241857812073484,
        1.2968395546510096, 1.3542555469368927, std::f64::consts::SQRT_2, 1.4768261459394993,
        1.5422108254079407, 1.6104903319492543, 1.681792830507429, 1.7562521603732995, 1.8340080864093424,
        1.9152065613971474,
    ];
    const POWERS_LOW: &[Self; 16] = &[
        0.0, 8.551889705537965e-17, -3.046782079812471e-17, 8.912812676025408e-17, 3.982015231465646e-17,
        4.658027591836937e-17, 2.5382502794888315e-17, 7.70094837980299e-17, -9.667293313452913e-17,
        -3.483994556892796e-17, 7.949834809697621e-17, 2.4707192569797888e-17, 8.199010020581497e-17,
        2.960140695448873e-17, 3.283107224245627e-17, -1.0619946056195963e-16,
    ];
    const ROOTS: &[Self; 16] = &[
        2.0, 1.9152065613971474, 1.8340080864093424, 1.7562521603732995, 1.681792830507429,
        1.6104903319492543, 1.5422108254079407, 1.4768261459394993, std::f64::consts::SQRT_2,
        1.3542555469368927, 1.2968395546510096, 1.241857812073484, 1.189207115002721, 1.1387886347566916,
        1.0905077326652577, 1.0442737824274138,
    ];
    const ROOTS_LOW: &[Self; 16] = &[
        0.0, -1.0619946056195963e-16, 3.283107224245627e-17, 2.960140695448873e-17, 8.199010020581497e-17,
        2.4707192569797888e-17, 7.949834809697621e-17, -3.483994556892796e-17, -9.667293313452913e-17,
        7.70094837980299e-17, 2.5382502794888315e-17, 4.658027591836937e-17, 3.982015231465646e-17,
        8.912812676025408e-17, -3.046782079812471e-17, 8.551889705537965e-17,
    ];
    const INVERSES: &[Self; 16] = &[
        1.3125, 1.25, 1.21875, 1.15625, 1.125, 1.09375, 1.0625, 1.0, 1.0, 0.90625, 0.875, 0.8125, 0.78125,
        0.75, 0.71875, 0.6875,
    ];
    const LOGS: &[Self; 16] = &[
        -0.2719337154835557, -0.22314355131425145, -0.19782574332998593, -0.14518200984457508,
        -0.11778303565643, -0.08961215868976069, -0.06062462181648698, 0.0, 0.0, 0.09844007281321865,
        0.13353139262449076, 0.20763936477828793, 0.2468600779316148, 0.28768207245184385,
        0.33024168687052224, 0.3746934494413381,
    ];
    const LOGS_LOW: &[Self; 16] = &[
        -8.604306772808733e-14, 4.169796584527195e-14, 6.604544877082384e-14, 7.718001336828099e-14,
        4.654729747598445e-14, 7.355770219435029e-14, 5.213620639136504e-14, 0.0, 0.0,
        3.3871241029241416e-14, 3.1859736349078334e-14, -4.3425422595242564e-14, -8.899851356560444e-14,
        -6.292357389008195e-14, 5.4612144489920215e-14, 7.260466149925637e-14,
    ];
    const LOG: &[Self] = &[
        -0.5, 0.3333333333333309, -0.2500000000005303, 0.20000000001610124, -0.16666666543433423,
        0.1428571066795157, -0.1250009356665429, 0.11114407600827501, -0.09989551846991986,
        0.08066472357167434,
    ];
    const LONG_LOG: &[Self] = &[
        -0.25, 0.19999999999999865, -0.16666666666687774, 0.14285714286792608, -0.12499999935279407,
        0.11111108480488689, -0.10000055548058631, 0.0909342890570544, -0.08329090501211917,
        0.06877726421636397,
    ];
    const LONG_LOG_HAS_THIRD: bool = true;
    const CIRCLE: Option<&Circle<Self>> = None;
    const SIN: &[Self] = &[
        -0.16666666666666666, 0.008333333333333331, -0.00019841269841264968, 2.755731921926441e-6,
        -2.5052106206531682e-8, 1.605852751943773e-10, -7.586455940017973e-13,
    ];
    const COS: &[Self] = &[
        0.041666666666666664, -0.0013888888888887367, 2.480158729872029e-5, -2.7557317248229367e-7,
        2.0876141380294955e-9, -1.1382280957702634e-11,
    ];
    const TAN: &[Self] = &[
        0.3333333333333333, 0.1333333333333344, 0.053968253968029206, 0.021869488554680988,
        0.008863234755845589, 0.0035921465683112063, 0.0014555652680695401, 0.0005924314842153813,
        0.00022630671970927263, 0.0001336522052725729,
    ];
    const ATAN: &[Self] = &[
        -0.3333333333333333, 0.199999999999998, -0.14285714285658824, 0.1111111110505757,
        -0.09090908748635232, 0.07692296234491514, -0.06666422364033206, 0.05878900032342983,
        -0.052302411507894, 0.045506220391755364, -0.034545610104858494, 0.016258132064979208,
    ];
    const ASIN: &[Self] = &[
        0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247,
        0.02237217294214989, 0.017352392720869973, 0.013971212973552933, 0.011479177415184906,
        0.01032281435018578, 0.005457506718640358, 0.01740087944269402, -0.014851887071247204,
        0.028757851367421566,
    ];
    const ERF: &[Self] = &[
        0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
        0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736, -1.4925647567519332e-5,
        1.6462045441468418e-6, -1.6364642158167616e-7, 1.4792401209404813e-8, -1.216456005728345e-9,
        8.709045129053106e-11, -4.230945824295338e-12,
    ];
    const ERFC: &[Self] = &[
        1.2530080582697296, -0.1356211061245812, -0.0475622943534513, 0.12964515870276302,
        -0.11927366341526431, 0.06830802734388586, -0.023770514919977566, 0.0025293918179972973,
        0.0018886903787109699, -0.0007798322980735723, -0.00010515995871936483, 0.00012509958422575674,
        4.9502415174782155e-6, -2.0101923108165122e-5, -7.335407092038228e-7, 3.4774660989819753e-6,
        3.5907505945040446e-7, -6.281023687709833e-7, -1.3911314702681888e-7, 1.160219060752652e-7,
        3.201605044966939e-8, -2.007654310378306e-8,
    ];
    const NEG_LOG_ERFC: &[Self] = &[
        1.8496055099332482, 2.6389675142347913, 0.8431072563584873, 0.041561098046524254,
        -0.010033825434568114, 0.001977903022404836, -0.00023732470070828124, -2.6270459673315668e-5,
        2.7141486327401506e-5, -9.578293843535504e-6, 2.020248196699264e-6, -1.0450645483788219e-7,
        -1.25677547449656e-7, 6.758830634359845e-8, -2.133714996728705e-8, 4.8134574801460855e-9,
        -7.887792432350973e-10, 8.975731693923798e-11, -6.348487277576624e-12, 2.0982435584584442e-13,
    ];
}
