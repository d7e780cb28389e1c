//! Every instruction set against references: arithmetic, functions, conversions, tails.
#![expect(unsafe_code, reason = "kernels take pointers")]

mod accuracy;
mod arithmetic;
mod conversion;
mod double_double;
mod same_bits;
mod special_values;

use super::*;

/// A formula of two variables, for both float types and every instruction set.
trait Formula: Copy + Send {
    fn call<V: Float>(self, x: V, y: V) -> V;
}

/// One formula after another over the same elements.
struct Map<'a, T, F> {
    x: &'a [T],
    y: &'a [T],
    to: &'a mut [T],
    formula: F,
}

impl<T, F> CodegenAnchor for Map<'_, T, F> {
    type Anchor = Self;
}

impl<I: Isa, T: FloatLanes<I>, F: Formula> Kernel<I> for Map<'_, T, F> {
    #[inline(always)]
    unsafe fn run(self) {
        let Map { x, y, to, formula } = self;
        assert!(x.len() == y.len() && x.len() == to.len());
        let lanes = T::Vector::LANES;
        let whole = x.len() - x.len() % lanes;
        let rest = x.len() - whole;
        // SAFETY: the three slices have the same length.
        unsafe {
            for i in (0..whole).step_by(lanes) {
                let value = formula.call(T::load(x.as_ptr().add(i)), T::load(y.as_ptr().add(i)));
                T::store(value, to.as_mut_ptr().add(i));
            }
            let (x, y) = (x.as_ptr().add(whole), y.as_ptr().add(whole));
            let value = formula.call(T::load_partial(x, rest), T::load_partial(y, rest));
            T::store_partial(value, to.as_mut_ptr().add(whole), rest);
        }
    }
}

/// The formula over slices, on one instruction set.
fn apply<T: EveryLanes + Default, F: Formula>(set: CpuCapability, formula: F, x: &[T], y: &[T]) -> Vec<T>
where
    for<'a> Map<'a, T, F>: EveryIsa,
{
    let mut to = vec![T::default(); x.len()];
    let _guard = override_cpu_capability(set).unwrap();
    // SAFETY: the kernel checks its slices.
    unsafe { dispatch(Map { x, y, to: &mut to, formula }) };
    to
}

/// The fastest set, on which the dense samples run; the others are held to the same bits.
fn best() -> CpuCapability {
    CpuCapability::available().last().unwrap()
}

macro_rules! formulas {
    ($($name:ident |$x:ident, $y:ident| $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl Formula for $name {
            #[inline(always)]
            #[allow(unused_variables)]
            fn call<V: Float>(self, $x: V, $y: V) -> V { $body }
        }
    )*};
}

formulas! {
    Exp |x, y| x.exp();
    ExpToHalf |x, y| x.exp_to_half().0;
    Exp2 |x, y| x.exp2();
    Expm1 |x, y| x.expm1();
    Log |x, y| x.log();
    Log2 |x, y| x.log2();
    Log10 |x, y| x.log10();
    Log1p |x, y| x.log1p();
    Sin |x, y| x.sin();
    Cos |x, y| x.cos();
    Tan |x, y| x.tan();
    Asin |x, y| x.asin();
    Acos |x, y| x.acos();
    Atan |x, y| x.atan();
    Sinh |x, y| x.sinh();
    Cosh |x, y| x.cosh();
    Tanh |x, y| x.tanh();
    Sigmoid |x, y| x.sigmoid();
    Erf |x, y| x.erf();
    ErfToHalf |x, y| x.erf_to_half().0;
    Erfc |x, y| x.erfc();
    Erfcx |x, y| x.erfcx();
    Gelu |x, y| x.gelu();
    GeluSlope |x, y| x.gelu_slope();
    Asinh |x, y| x.asinh();
    Acosh |x, y| x.acosh();
    Atanh |x, y| x.atanh();
    Pow |x, y| x.pow(y);
    Rsqrt |x, y| x.rsqrt();
    Sqrt |x, y| x.sqrt();
    Recip |x, y| x.recip();
    Quotient |x, y| x / y;
    MulAdd |x, y| x.mul_add(y, x);
    Floor |x, y| x.floor();
    Ceil |x, y| x.ceil();
    Round |x, y| x.round();
    Trunc |x, y| x.trunc();
    Copysign |x, y| x.copysign(y);
    Maximum |x, y| x.maximum(y);
    Minimum |x, y| x.minimum(y);
    Max |x, y| x.max(y);
    Min |x, y| x.min(y);
    Abs |x, y| x.abs();
    Neg |x, y| -x;
    Sum |x, y| x + y;
    Difference |x, y| x - y;
    Product |x, y| x * y;
    Greater |x, y| V::select(x.gt(y), x, y);
    NotEqual |x, y| V::select(x.ne(y), V::one(), V::zero());
    IsNan |x, y| V::select(!x.is_nan() | y.le(x), V::one(), V::zero());
}

/// Calls a macro with every formula that is one function of one variable, and its C counterpart in f64.
macro_rules! for_each_function {
    ($do:ident) => {
        $do!(Exp, f64::exp);
        $do!(Exp2, f64::exp2);
        $do!(Expm1, f64::exp_m1);
        $do!(Log, f64::ln);
        $do!(Log2, f64::log2);
        $do!(Log10, f64::log10);
        $do!(Log1p, f64::ln_1p);
        $do!(Sin, f64::sin);
        $do!(Cos, f64::cos);
        $do!(Tan, f64::tan);
        $do!(Asin, f64::asin);
        $do!(Acos, f64::acos);
        $do!(Atan, f64::atan);
        $do!(Sinh, f64::sinh);
        $do!(Cosh, f64::cosh);
        $do!(Tanh, f64::tanh);
        $do!(Sigmoid, super::sigmoid);
        $do!(Erf, super::c_erf);
        $do!(Erfc, super::c_erfc);
        $do!(Erfcx, super::erfcx);
        $do!(Gelu, super::gelu);
        $do!(Asinh, super::asinh);
        $do!(Acosh, super::acosh);
        $do!(Atanh, super::atanh);
        $do!(Rsqrt, super::rsqrt);
    };
}
use for_each_function;

unsafe extern "C" {
    safe fn erf(x: f64) -> f64;
    safe fn erfc(x: f64) -> f64;
}

mod c {
    unsafe extern "C" {
        pub(super) safe fn asinh(x: f64) -> f64;
        pub(super) safe fn acosh(x: f64) -> f64;
        pub(super) safe fn atanh(x: f64) -> f64;
    }
}

fn c_erf(x: f64) -> f64 {
    erf(x)
}

fn c_erfc(x: f64) -> f64 {
    erfc(x)
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn gelu(x: f64) -> f64 {
    x * (erfc(-x * std::f64::consts::FRAC_1_SQRT_2) / 2.0)
}

/// From C's `erfc`, or Laplace's continued fraction where that leaves the range.
fn erfcx(x: f64) -> f64 {
    if x < 20.0 {
        return (x * x).exp() * erfc(x);
    }
    let fraction = (1..50).rev().fold(x, |f, k| x + f64::from(k) / 2.0 / f);
    std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
}

/// C's: the standard library has its own, which overflow early.
fn asinh(x: f64) -> f64 {
    c::asinh(x)
}

fn acosh(x: f64) -> f64 {
    c::acosh(x)
}

fn atanh(x: f64) -> f64 {
    c::atanh(x)
}

fn rsqrt(x: f64) -> f64 {
    1.0 / x.sqrt()
}

/// A small generator, the same everywhere (Vigna's splitmix64).
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Uniform between the bounds.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.bits() >> 11) as f64 / (1u64 << 53) as f64)
    }
}

/// What tends to go wrong: zeros, ones, halves, infinities, NaN, denormals, extremes.
fn special_f64() -> Vec<f64> {
    let positive = [
        0.0,
        5e-324,
        1e-310,
        f64::MIN_POSITIVE,
        1e-300,
        1e-20,
        f64::EPSILON,
        0.25,
        0.5,
        0.75,
        0.9,
        1.0 - f64::EPSILON,
        1.0,
        1.0 + f64::EPSILON,
        1.5,
        2.0,
        2.5,
        3.0,
        4.0,
        10.0,
        88.0,
        709.0,
        1e5,
        1e9,
        9.007_199_254_740_993e15,
        1e22,
        1e100,
        1e308,
        f64::MAX,
        f64::INFINITY,
    ];
    positive.iter().flat_map(|&x| [x, -x]).chain([f64::NAN]).collect()
}

/// The same for f32.
fn special_f32() -> Vec<f32> {
    let positive = [
        0.0,
        1e-45,
        1e-40,
        f32::MIN_POSITIVE,
        1e-30,
        1e-10,
        f32::EPSILON,
        0.25,
        0.5,
        0.75,
        0.9,
        1.0 - f32::EPSILON,
        1.0,
        1.0 + f32::EPSILON,
        1.5,
        2.0,
        2.5,
        3.0,
        4.0,
        10.0,
        16.0,
        88.0,
        1e5,
        8_388_609.0,
        16_777_215.0,
        1e20,
        1e30,
        3e38,
        f32::MAX,
        f32::INFINITY,
    ];
    positive.iter().flat_map(|&x| [x, -x]).chain([f32::NAN]).collect()
}
