//! The error of each function in ulp: f32 against f64, f64 against sums of two f64.

use super::double_double::{Dd, LN_2, LN_10};
use super::*;

/// The distance from the exact value in ulp of an f32 of its size.
fn ulp_f32(got: f32, exact: f64) -> f64 {
    let limit = f64::from(f32::MAX) * (1.0 + f64::from(f32::EPSILON) / 4.0);
    if exact.abs() >= limit {
        return if f64::from(got).abs() == f64::INFINITY && (got > 0.0) == (exact > 0.0) {
            0.0
        } else {
            f64::INFINITY
        };
    }
    let exponent = exact.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor() as i32;
    (f64::from(got) - exact).abs() / 2f64.powi(exponent - 23)
}

/// The distance from the exact value in ulp of an f64 of its size.
fn ulp_f64(got: f64, exact: Dd) -> f64 {
    let exponent = ((exact.0.to_bits() >> 52) & 0x7ff).max(1) as i32 - 1075;
    ((got - exact.0) - exact.1).abs() / f64::from_bits((((exponent + 52) + 1023) as u64).max(1) << 52)
        * 2f64.powi(52)
}

/// Every `STRIDE`th of all f32, negative ones and denormals included.
const STRIDE: usize = 8191;

fn all_f32() -> Vec<f32> {
    let some = (0..=u32::MAX).step_by(STRIDE).map(f32::from_bits);
    // Where functions change their formula or their binade.
    let dense = (0..200_000u32).map(|i| 0.2 + f64::from(i) * 1e-5).flat_map(|x| [x as f32, -x as f32]);
    some.chain(dense).collect()
}

fn worst_f32(x: &[f32], got: &[f32], exact: impl Fn(usize) -> f64) -> (f64, f32) {
    let mut worst = (0.0, 0.0);
    for i in 0..x.len() {
        let exact = exact(i);
        if exact.is_nan() {
            assert!(got[i].is_nan(), "of {}: got {}, expected NaN", x[i], got[i]);
            continue;
        }
        let error = ulp_f32(got[i], exact);
        assert!(!error.is_nan(), "of {}: got {}, expected {exact}", x[i], got[i]);
        if error > worst.0 {
            worst = (error, x[i]);
        }
    }
    worst
}

/// The bounds that the methods of `Float` state.
const BOUNDS: [(&str, f64, f64); 26] = [
    ("Exp", 0.77, 0.77),
    ("Exp2", 0.77, 0.77),
    ("Expm1", 0.88, 0.85),
    ("Log", 0.88, 0.88),
    ("Log2", 0.58, 0.58),
    ("Log10", 0.62, 0.62),
    ("Log1p", 0.7, 0.65),
    ("Sin", 0.95, 0.78),
    ("Cos", 0.95, 0.78),
    ("Tan", 0.72, 0.66),
    ("Asin", 0.65, 0.62),
    ("Acos", 0.62, 0.62),
    ("Atan", 0.9, 0.7),
    ("Sinh", 0.78, 0.8),
    ("Cosh", 0.66, 0.65),
    ("Tanh", 1.25, 0.82),
    ("Sigmoid", 0.88, 0.77),
    ("Erf", 0.95, 0.8),
    ("Erfc", 0.99, 0.85),
    ("Erfcx", 2.4, 1.9),
    ("Gelu", 7.5, 2.0),
    ("Asinh", 0.65, 0.65),
    ("Acosh", 0.65, 0.65),
    ("Atanh", 0.65, 0.65),
    ("Pow", 0.85, 0.85),
    ("Rsqrt", 1.5, 1.5),
];

fn bounds(name: &str) -> (f64, f64) {
    BOUNDS.iter().find(|row| row.0 == name).map(|row| (row.1, row.2)).unwrap()
}

#[test]
fn f32_functions_are_within_their_bounds() {
    let x = all_f32();
    macro_rules! check {
        ($formula:ident, $exact:expr) => {
            let got = apply(best(), $formula, &x, &x);
            let worst = worst_f32(&x, &got, |i| $exact(f64::from(x[i])));
            println!("{:8} f32 {:.4} ulp at {:e}", stringify!($formula), worst.0, worst.1);
            assert!(worst.0 <= bounds(stringify!($formula)).0, "{}: {worst:?}", stringify!($formula));
        };
    }
    for_each_function!(check);
}

/// Of every f16 and bf16: the bound, and that the rounded result is hardly farther from the exact one than the nearest.
#[test]
fn exponentials_of_halves_are_within_their_bound() {
    fn check<T: Convert + Default>(digits: i32, min_normal: f64, of_bits: impl Fn(u16) -> T)
    where
        for<'a> Map<'a, T, ExpToHalf>: EveryIsa,
    {
        let x: Vec<T> = (0..=u16::MAX).map(of_bits).collect();
        let wide: Vec<f32> = x.iter().map(|x| x.to_f32()).collect();
        let results = apply::<f32, _>(best(), ExpToHalf, &wide, &wide);
        let rounded = apply(best(), ExpToHalf, &x, &x);
        for (i, &x) in wide.iter().enumerate() {
            let (exact, got, rounded) = (f64::from(x).exp(), f64::from(results[i]), rounded[i].to_f64());
            let nearest = exact.convert::<T>().to_f64();
            if !nearest.is_finite() {
                assert_eq!(nearest.is_nan(), rounded.is_nan(), "of {x:e}");
                assert!(got.is_nan() || rounded == nearest, "of {x:e}: got {rounded:e}");
                continue;
            }
            let bound = exact * 2f64.powi(-20) + f64::from(f32::from_bits(1));
            assert!((got - exact).abs() <= bound, "of {x:e}: got {got:e}, expected {exact:e}");
            let unit = exact.max(min_normal).log2().floor().exp2() * 2f64.powi(-digits);
            assert!((rounded - exact).abs() <= 0.502 * unit, "of {x:e}: got {rounded:e}, expected {exact:e}");
        }
    }
    check(10, 2f64.powi(-14), half::f16::from_bits);
    check(7, f64::from(f32::MIN_POSITIVE), half::bf16::from_bits);
}

/// Of every f16 and bf16 that is a number: the rounded result is hardly farther from the exact one than the nearest.
#[test]
fn error_functions_of_halves_are_within_their_bound() {
    fn check<T: Convert + Default>(digits: i32, min_normal: f64, of_bits: impl Fn(u16) -> T)
    where
        for<'a> Map<'a, T, ErfToHalf>: EveryIsa,
    {
        let x: Vec<T> = (0..=u16::MAX).map(of_bits).collect();
        for (x, got) in x.iter().zip(apply(best(), ErfToHalf, &x, &x)) {
            let (x, got) = (x.to_f64(), got.to_f64());
            let exact = if x.abs() < 6.0 { Dd::from(x).erf().0 } else { x.signum() };
            if x.is_nan() {
                assert!(got.is_nan(), "of NaN: got {got:e}");
                continue;
            }
            let unit = exact.abs().max(min_normal).log2().floor().exp2() * 2f64.powi(-digits);
            assert!((got - exact).abs() <= 0.51 * unit, "of {x:e}: got {got:e}, expected {exact:e}");
        }
    }
    check(10, 2f64.powi(-14), half::f16::from_bits);
    check(7, f64::from(f32::MIN_POSITIVE), half::bf16::from_bits);
}

/// The derivative is zero near -0.75: only beyond -3.9 its error is measured in ulp of itself, and above that in ulp of itself or of 1/8,
/// whichever is larger.
#[test]
fn slopes_of_gelu_are_within_their_bounds() {
    let error = |x: f64, got: f64| {
        let z = Dd::from(x);
        let density = (z * z * Dd::from(-0.5)).exp() / Dd::from(std::f64::consts::TAU).sqrt();
        let exact = normal_cdf(z) + z * density;
        ((got - exact.0) - exact.1).abs() / exact.0.abs().max(if x < -3.9 { 0.0 } else { 0.125 })
    };
    let x: Vec<f32> = all_f32().into_iter().filter(|x| x.abs() < 9.0).collect();
    let got = apply(best(), GeluSlope, &x, &x);
    let worst = x.iter().zip(got).map(|(&x, got)| error(x.into(), got.into())).fold(0.0, f64::max);
    assert!(worst <= 2.0 * f64::from(f32::EPSILON), "{worst:e} in f32");
    let x = samples(-1.0, 9.0);
    let got = apply(best(), GeluSlope, &x, &x);
    let worst = x.iter().zip(got).map(|(&x, got)| error(x, got)).fold(0.0, f64::max);
    assert!(worst <= 3.0 * f64::EPSILON, "{worst:e} in f64");
}

#[test]
fn f32_powers_are_within_their_bound() {
    let mut random = Random(1);
    let mut x: Vec<f32> = all_f32().into_iter().filter(|x| x.is_finite() && *x != 0.0).collect();
    // Near 1 the logarithm has to be right in its last digits.
    x.extend((0..400_000).map(|_| random.between(0.7, 1.5) as f32));
    x.extend((0..100_000).map(|_| random.between(0.999, 1.001) as f32));
    // Exponents that keep most results in range, one in three of them integral.
    let y: Vec<f32> = x
        .iter()
        .enumerate()
        .map(|(i, x)| (random.between(-150.0, 150.0) / (f64::from(x.abs()).log2().abs() + 1e-9), i))
        .map(|(y, i)| if i % 3 == 0 { y.round() as f32 } else { y as f32 })
        .collect();
    let got = apply(best(), Pow, &x, &y);
    let worst = worst_f32(&x, &got, |i| f64::from(x[i]).powf(f64::from(y[i])));
    println!("Pow      f32 {:.4} ulp at {:e}", worst.0, worst.1);
    assert!(worst.0 <= bounds("Pow").0, "{worst:?}");
}

/// Arguments in a range, as many of them logarithmically spread towards 0 as evenly.
fn samples(low: f64, high: f64) -> Vec<f64> {
    let mut random = Random(2);
    let even = (0..4000).map(|_| random.between(low, high)).collect::<Vec<_>>();
    let towards_zero = (0..4000).map(|_| {
        let magnitude = 2f64.powf(random.between(-40.0, low.abs().max(high).log2()));
        if random.bits() & 1 == 1 { magnitude } else { -magnitude }
    });
    even.into_iter().chain(towards_zero.filter(|x| (low..=high).contains(x))).collect()
}

fn check_f64<F: Formula>(name: &str, formula: F, x: &[f64], y: &[f64], exact: impl Fn(f64, f64) -> Dd)
where
    for<'a> Map<'a, f64, F>: EveryIsa,
{
    let got = apply(best(), formula, x, y);
    let mut worst = (0.0, 0.0, 0.0);
    for i in 0..x.len() {
        let error = ulp_f64(got[i], exact(x[i], y[i]));
        assert!(!error.is_nan(), "{name} of {:e}, {:e}: got {:e}", x[i], y[i], got[i]);
        if error > worst.0 {
            worst = (error, x[i], y[i]);
        }
    }
    println!("{name:8} f64 {:.4} ulp at {:e}, {:e}", worst.0, worst.1, worst.2);
    assert!(worst.0 <= bounds(name).1, "{name}: {worst:?}");
}

/// The probability that a normal variable is below `x`.
fn normal_cdf(x: Dd) -> Dd {
    (-x / Dd::from(2.0).sqrt()).erfc() / 2.0.into()
}

#[test]
fn f64_functions_are_within_their_bounds() {
    macro_rules! check {
        ($($formula:ident, $low:expr, $high:expr, |$x:ident| $exact:expr;)*) => {$(
            let x = samples($low, $high);
            check_f64(stringify!($formula), $formula, &x, &x, |x, _| { let $x = Dd::from(x); $exact });
        )*};
    }
    check! {
        Exp, -650.0, 709.0, |x| x.exp();
        Exp2, -950.0, 1023.0, |x| (x * LN_2).exp();
        Expm1, -60.0, 709.0, |x| x.expm1();
        Log, 0.0, 3.0, |x| x.ln();
        Log, 0.0, 1e300, |x| x.ln();
        Log2, 0.0, 3.0, |x| x.ln() / LN_2;
        Log10, 0.0, 3.0, |x| x.ln() / LN_10;
        Log1p, -0.9999, 3.0, |x| x.log1p();
        Log1p, -0.9, 1e20, |x| x.log1p();
        Sin, -30.0, 30.0, |x| x.sin_cos().0;
        Sin, -1e6, 1e6, |x| x.sin_cos().0;
        Cos, -30.0, 30.0, |x| x.sin_cos().1;
        Cos, -1e6, 1e6, |x| x.sin_cos().1;
        Tan, -30.0, 30.0, |x| x.tan();
        Tan, -1e6, 1e6, |x| x.tan();
        Asin, -1.0, 1.0, |x| x.asin();
        Acos, -1.0, 1.0, |x| x.acos();
        Atan, -8.0, 8.0, |x| x.atan();
        Atan, -1e6, 1e6, |x| x.atan();
        Sinh, -709.0, 709.0, |x| x.sinh();
        Sinh, -3.0, 3.0, |x| x.sinh();
        Cosh, -709.0, 709.0, |x| x.cosh();
        Cosh, -3.0, 3.0, |x| x.cosh();
        Tanh, -20.0, 20.0, |x| x.tanh();
        Tanh, -1.0, 1.0, |x| x.tanh();
        Sigmoid, -600.0, 40.0, |x| x.sigmoid();
        Sigmoid, -3.0, 3.0, |x| x.sigmoid();
        Erf, -6.0, 6.0, |x| x.erf();
        Erf, -1.5, 1.5, |x| x.erf();
        Erfc, -6.0, 25.0, |x| x.erfc();
        Erfc, -1.0, 3.0, |x| x.erfc();
        Erfcx, -1.0, 3.0, |x| x.erfcx();
        Erfcx, -26.0, 40.0, |x| x.erfcx();
        Erfcx, 27.0, 1e4, |x| x.erfcx();
        Gelu, -1.0, 9.0, |x| x * normal_cdf(x);
        Asinh, -3.0, 3.0, |x| x.asinh();
        Asinh, -1e9, 1e9, |x| x.asinh();
        Acosh, 1.0, 1.1, |x| x.acosh();
        Acosh, 1.0, 1e9, |x| x.acosh();
        Atanh, -1.0, 1.0, |x| x.atanh();
        Rsqrt, 0.0, 1e9, |x| Dd::ONE / x.sqrt();
    }
}

#[test]
fn f64_powers_are_within_their_bound() {
    let mut random = Random(3);
    let mut x: Vec<f64> =
        (0..8000).map(|_| 2f64.powf(random.between(-500.0, 500.0).powi(3) / 2.5e5)).collect();
    x.extend((0..4000).map(|_| random.between(0.7, 1.5)));
    x.extend((0..2000).map(|_| random.between(0.999, 1.001)));
    let y: Vec<f64> = x.iter().map(|x| random.between(-950.0, 1020.0) / x.log2()).collect();
    check_f64("Pow", Pow, &x, &y, |x, y| Dd::from(x).pow(y.into()));
}

/// Where results are denormal, the reference is scaled by 2^200 so that it keeps its digits.
#[test]
fn f64_exponentials_round_once_into_the_denormals() {
    let mut random = Random(4);
    let x: Vec<f64> = (0..4000).map(|_| random.between(-745.2, -708.0)).collect();
    let got = apply(best(), Exp, &x, &x);
    for (x, got) in x.iter().zip(got) {
        let exact = (Dd::from(*x) + LN_2 * 200.0.into()).exp();
        let unit = 2f64.powi(200 - 1074);
        let error = ((got * 2f64.powi(200) - exact.0) - exact.1).abs() / unit;
        assert!(error <= bounds("Exp").1, "{x}: {error}");
    }
}

/// Reduction of huge arguments against glibc's, which is within 0.56 ulp.
#[test]
fn trigonometric_functions_reduce_any_argument() {
    let mut random = Random(5);
    let x: Vec<f64> =
        (0..20_000).map(|_| 2f64.powf(random.between(20.0, 1023.9))).flat_map(|x| [x, -x]).collect();
    let (sin, cos, tan) =
        (apply(best(), Sin, &x, &x), apply(best(), Cos, &x, &x), apply(best(), Tan, &x, &x));
    for (i, x) in x.iter().enumerate() {
        for (got, exact) in [(sin[i], x.sin()), (cos[i], x.cos()), (tan[i], x.tan())] {
            assert!(ulp_f64(got, exact.into()) <= 2.0, "{x:e}: {got} and {exact}");
        }
    }
    // The f64 that is nearest to a multiple of pi/2 (Muller, Elementary Functions).
    let nearest = [6_381_956_970_095_103.0 * 2f64.powi(797)];
    let got = apply(best(), Cos, &nearest, &nearest)[0];
    assert!((got / -4.687_165_924_254_628e-19 - 1.0).abs() < 1e-15, "{got:e}");
}
