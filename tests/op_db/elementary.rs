//! Special functions in closed form, functions of the bits of a number, and functions of integers.

use super::special as f;
use super::unary::float_of;
use crate::array::{Array, broadcast};
use crate::row::{ALL, Arg, Check, FLOATS, INTEGERS, NUMBERS, Row, none, number, row, whole};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, BF16, Bool, F16, F32, F64, I8, I16, I32, I64};
use half::{bf16, f16};
use std::f64::consts::PI;
use std::ops::Range;

/// sin(pi x) from what is left of the nearest integer.
fn sinc(x: f64) -> f64 {
    let whole = x.round();
    let sine = (PI * (x - whole)).sin() * if whole % 2.0 == 0.0 { 1.0 } else { -1.0 };
    if x == 0.0 { 1.0 } else { sine / (PI * x) }
}

/// As a difference of logarithms that both have a small relative error, near 0 and near 1.
fn logit(x: f64) -> f64 {
    x.ln() - (-x).ln_1p()
}

fn xlogy(x: f64, y: f64) -> f64 {
    if y.is_nan() || x != 0.0 { x * y.ln() } else { 0.0 }
}

fn xlog1py(x: f64, y: f64) -> f64 {
    if y.is_nan() || x != 0.0 { x * y.ln_1p() } else { 0.0 }
}

/// The logarithm of the probability; above 0 from that of the other tail.
fn log_ndtr(x: f64) -> f64 {
    if x > 0.0 { (-f::normal_cdf(-x)).ln_1p() } else { f::normal_cdf(x).ln() }
}

/// By the magnitude, of which `1 + ..` loses nothing.
fn atanh(x: f64) -> f64 {
    let a = x.abs();
    (0.5 * (2.0 * a / (1.0 - a)).ln_1p()).copysign(x)
}

fn entr(x: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    if x < 0.0 { f64::NEG_INFINITY } else { -x * x.ln() }
}

fn of_one() -> Vec<Row> {
    let real = |name, domain: Range<f64>, ulps: f64, f: fn(f64) -> f64| {
        row(name).types(NUMBERS).gives(float_of).ulps(ulps).unary(domain, &[], f)
    };
    let replaced = |types, most: f64| {
        row("nan_to_num").types(types).ulps(0.0).unary(-9.0..9.0, &[none(), none(), none()], move |x| {
            if x.is_nan() { 0.0 } else { x.clamp(-most, most) }
        })
    };
    let logit_between = |eps: f64, low: f64, high: f64| {
        row("logit").types(FLOATS).ulps(4.0).terms(1.0).unary(0.05..0.95, &[eps.into()], move |x| {
            logit(if x < low {
                low
            } else if x > high {
                high
            } else {
                x
            })
        })
    };
    vec![
        real("rad2deg", -7.0..7.0, 1.0, f64::to_degrees),
        real("asinh", -8.0..8.0, 3.0, f64::asinh),
        real("acosh", 1.5..60.0, 3.0, f64::acosh),
        real("atanh", -0.95..0.95, 3.0, atanh),
        real("sinc", -4.4..4.4, 5.0, sinc),
        row("logit").types(FLOATS).ulps(4.0).terms(1.0).unary(0.05..0.95, &[none()], logit),
        row("logit").types(&[F32]).ulps(2.0).unary_of(
            |sizes, seed| whole(1.0..9.0)(sizes, seed).map(|x| x * 2f64.powi(-140)),
            &[none()],
            logit,
        ),
        logit_between(0.125, 0.125, 0.875),
        logit_between(0.75, 0.75, 0.25),
        row("logit").types(FLOATS).ulps(4.0).terms(1.0).unary(0.05..0.95, &[(-1.0).into()], logit),
        real("special_entr", 0.05..4.0, 3.0, entr),
        // The argument of erfc is rounded, and its derivative multiplies that by x^2.
        real("special_ndtr", -3.0..3.0, 14.0, f::normal_cdf),
        real("special_log_ndtr", -5.0..2.0, 14.0, log_ndtr).types(FLOATS),
        real("special_erfcx", -2.0..6.0, 9.0, f::erfcx),
        replaced(&[F32], f64::from(f32::MAX)),
        replaced(&[F16], 65504.0),
        replaced(&[F64], f64::MAX),
        row("nan_to_num").types(ALL).ulps(0.0).unary_of(
            whole(0.0..9.0),
            &[0.5.into(), 7.0.into(), (-7.0).into()],
            |x| match x {
                x if x.is_nan() => 0.5,
                x if x.is_infinite() => 7.0 * x.signum(),
                x => x,
            },
        ),
        row("positive").ulps(0.0).unary(-9.0..9.0, &[], |x| x).refuses(
            vec![Arg::Typed(Array::scalar(1.0), Bool)],
            ErrorKind::NotImplemented,
            "bool tensor",
        ),
    ]
}

fn questions() -> Vec<Row> {
    let ask = |name, f: fn(f64) -> bool| {
        let start = row(name).types(ALL).gives(|_| Bool).not_differentiable();
        start.unary_of(whole(-2.0..3.0), &[], move |x| f(x).into())
    };
    vec![
        ask("isposinf", |x| x == f64::INFINITY),
        ask("isneginf", |x| x == f64::NEG_INFINITY),
        ask("isreal", |_| true),
    ]
}

fn of_two() -> Vec<Row> {
    let real = |name, domains: [Range<f64>; 2], ulps: f64, f: fn(f64, f64) -> f64| {
        row(name).types(FLOATS).ulps(ulps).binary(domains, &[], f)
    };
    let promotes = |row: Row| row.types(NUMBERS).gives(float_of);
    let narrow = "only float64 takes the result, as in PyTorch";
    let wide = |row: Row| row.gives(|_| F64).skip(Check::Variants, narrow);
    let step = |x: f64, at: f64| if x == 0.0 { at } else { f64::from(x > 0.0) };
    let scalar = |name, f: fn(f64) -> f64| promotes(row(name).ulps(3.0).unary(0.3..6.0, &[number(2.5)], f));
    vec![
        promotes(real("xlogy.Tensor", [-5.0..5.0, 0.2..9.0], 3.0, xlogy)),
        scalar("xlogy.Scalar_Self", |y| xlogy(2.5, y)).arranged(&[1, 0]),
        scalar("xlogy.Scalar_Other", |x| xlogy(x, 2.5)),
        promotes(real("special_xlog1py", [-5.0..5.0, -0.8..9.0], 3.0, xlog1py)),
        scalar("special_xlog1py.self_scalar", |y| xlog1py(2.5, y)).arranged(&[1, 0]),
        scalar("special_xlog1py.other_scalar", |x| xlog1py(x, 2.5)),
        real("logaddexp", [-5.0..5.0, -5.0..5.0], 2.0, f::log_of_sum).terms(5.0),
        real("logaddexp2", [-5.0..5.0, -5.0..5.0], 3.0, |a, b| {
            let ln_2 = std::f64::consts::LN_2;
            f::log_of_sum(a * ln_2, b * ln_2) / ln_2
        })
        .terms(5.0),
        row("heaviside")
            .types(ALL)
            .ulps(0.0)
            .not_differentiable()
            .binary_of(
                |sizes, seed| whole(-2.0..3.0)(sizes, seed).map(|x| if seed < 100 { x } else { x.abs() }),
                &[],
                step,
            )
            .refuses(
                vec![Array::scalar(1.0).into(), Arg::Typed(Array::scalar(1.0), F64)],
                ErrorKind::InvalidArgument,
                "different dtypes",
            ),
        promotes(row("ldexp.Tensor").ulps(0.0).binary_of(
            |sizes, seed| whole(-4.0..5.0)(sizes, seed),
            &[],
            |x, n| x * n.exp2(),
        ))
        .types(FLOATS),
        real("ldexp.Tensor", [-5.0..5.0, -3.0..3.0], 3.0, |x, n| x * n.exp2()),
        wide(row("float_power.Tensor_Tensor").ulps(2.0).binary([0.3..4.0, 0.3..3.0], &[], f64::powf)),
        row("float_power.Tensor_Tensor").types(&[F64]).ulps(2.0).binary(
            [0.3..4.0, -3.0..3.0],
            &[],
            f64::powf,
        ),
        wide(row("float_power.Scalar").ulps(2.0).unary(-4.0..4.0, &[number(2.5)], |x| 2.5f64.powf(x)))
            .arranged(&[1, 0])
            .types(FLOATS),
        wide(row("float_power.Tensor_Scalar").ulps(2.0).unary(0.3..4.0, &[number(2)], |x| x * x)),
        row("float_power.Tensor_Scalar")
            .types(&[F64])
            .ulps(2.0)
            .unary(0.3..4.0, &[number(2.5)], |x| x.powf(2.5)),
    ]
}

/// The next number after `x` in the direction of `y`, by the bits of a type in the order of its numbers.
macro_rules! next {
    ($t:ty, $bits:ty, $to:expr, $from:expr) => {
        |x: f64, y: f64| {
            let (to, from): (fn(f64) -> $t, fn($t) -> f64) = ($to, $from);
            if x.is_nan() || y.is_nan() {
                return f64::NAN;
            }
            let sign: $bits = 1 << (<$bits>::BITS - 1);
            let bits = to(x).to_bits();
            let next = match () {
                () if x == y => to(y).to_bits(),
                () if x == 0.0 => (to(y).to_bits() & sign) | 1,
                () if (x < y) == (x > 0.0) => bits + 1,
                () => bits - 1,
            };
            from(<$t>::from_bits(next))
        }
    };
}

fn of_bits() -> Vec<Row> {
    let next = |types, f: fn(f64, f64) -> f64| {
        row("nextafter").types(types).ulps(0.0).binary([-3.0..3.0, -3.0..3.0], &[], f)
    };
    let small = |types, smallest: f64, f: fn(f64, f64) -> f64| {
        let near = move |sizes: &[usize], seed: u64| whole(-2.0..3.0)(sizes, seed).map(|x| x * smallest);
        row("nextafter").types(types).ulps(0.0).binary_of(near, &[], f).not_differentiable()
    };
    let f16_next = next!(f16, u16, f16::from_f64, f16::to_f64);
    let bf16_next = next!(bf16, u16, bf16::from_f64, bf16::to_f64);
    let f32_next = next!(f32, u32, |x| x as f32, f64::from);
    let f64_next = next!(f64, u64, |x| x, |x| x);
    let split = |x: f64| {
        if x == 0.0 || !x.is_finite() {
            return (x, 0.0);
        }
        let exponent = x.abs().log2().floor() + 1.0;
        (x / exponent.exp2(), exponent)
    };
    vec![
        next(&[F16], f16_next),
        next(&[BF16], bf16_next),
        next(&[F32], f32_next),
        next(&[F64], f64_next),
        small(&[F16], 2f64.powi(-24), f16_next),
        small(&[F16], 2f64.powi(-14), f16_next),
        small(&[F32], 2f64.powi(-149), f32_next),
        small(&[F32], 2f64.powi(-126), f32_next),
        small(&[F64], 2f64.powi(-1022), f64_next),
        row("frexp.Tensor")
            .types(FLOATS)
            .ulps(0.0)
            .unary(-9.0..9.0, &[], f64::abs)
            .reference(move |a| vec![a[0].array().map(|x| split(x).0), a[0].array().map(|x| split(x).1)])
            .refuses(vec![Arg::Typed(Array::scalar(1.0), I32)], ErrorKind::InvalidArgument, "floating-point"),
    ]
}

fn gcd(a: f64, b: f64) -> f64 {
    if b == 0.0 { a.abs() } else { gcd(b, a % b) }
}

fn lcm(a: f64, b: f64) -> f64 {
    if a * b == 0.0 { 0.0 } else { (a / gcd(a, b) * b).abs() }
}

fn of_integers() -> Vec<Row> {
    const SIGNED: &[ScalarType] = &[I8, I16, I32, I64];
    let exact = |name| row(name).types(INTEGERS).ulps(0.0).not_differentiable();
    let pairs = |a: Range<f64>, b: Range<f64>| {
        move |sizes: &[usize], seed: u64| whole(if seed < 100 { a.clone() } else { b.clone() })(sizes, seed)
    };
    let up = |x: f64, n: f64| x * n.exp2();
    let down = |x: f64, n: f64| (x / n.exp2()).floor();
    let far_up =
        |x: f64, n: f64| if (0.0..32.0).contains(&n) { f64::from((x as i32) << n as i32) } else { 0.0 };
    let far_down =
        move |x: f64, n: f64| if (0.0..32.0).contains(&n) { down(x, n) } else { -f64::from(x < 0.0) };
    let bool = |name: &'static str| {
        let one = || Arg::Typed(Array::scalar(1.0), Bool);
        exact(name)
            .binary_of(pairs(0.0..8.0, 0.0..4.0), &[], if name.contains('l') { up } else { down })
            .refuses(vec![one(), one()], ErrorKind::NotImplemented, name)
    };
    let shifts = ["bitwise_left_shift.Tensor", "__lshift__.Tensor"];
    let numbers = [
        ("bitwise_left_shift.Tensor_Scalar", true),
        ("__lshift__.Scalar", true),
        ("__ilshift__.Scalar", true),
        ("bitwise_right_shift.Tensor_Scalar", false),
        ("__rshift__.Scalar", false),
        ("__irshift__.Scalar", false),
    ];
    let mut rows = vec![
        exact("gcd").binary_of(pairs(0.0..50.0, 0.0..50.0), &[], gcd),
        exact("gcd").types(SIGNED).binary_of(pairs(-50.0..50.0, -9.0..9.0), &[], gcd),
        exact("lcm").binary_of(pairs(0.0..11.0, 0.0..11.0), &[], lcm),
        exact("lcm").types(SIGNED).binary_of(pairs(-10.0..11.0, -9.0..9.0), &[], lcm),
        exact("bitwise_left_shift.Tensor").types(&[I32]).binary_of(pairs(-9.0..9.0, -3.0..40.0), &[], far_up),
        exact("bitwise_right_shift.Tensor").types(&[I32]).binary_of(
            pairs(-90.0..90.0, -3.0..40.0),
            &[],
            far_down,
        ),
        exact("bitwise_left_shift.Scalar_Tensor")
            .unary_of(whole(0.0..5.0), &[number(5)], |n| 5.0 * n.exp2())
            .arranged(&[1, 0]),
        exact("bitwise_right_shift.Scalar_Tensor")
            .unary_of(whole(0.0..5.0), &[number(99)], |n| (99.0 / n.exp2()).floor())
            .arranged(&[1, 0]),
    ];
    let in_place = |mut row: Row| {
        row.samples.retain(|s| broadcast(&s[0].array().sizes, &s[1].array().sizes) == s[0].array().sizes);
        row
    };
    rows.extend(shifts.map(bool));
    rows.extend(["bitwise_right_shift.Tensor", "__rshift__.Tensor"].map(bool));
    rows.extend(["__ilshift__.Tensor", "__irshift__.Tensor"].map(bool).map(in_place));
    rows.extend(numbers.map(|(name, is_up)| {
        exact(name).unary_of(
            whole(0.0..30.0),
            &[number(2)],
            move |x| if is_up { up(x, 2.0) } else { down(x, 2.0) },
        )
    }));
    rows
}

fn copies() -> Vec<Row> {
    let some = |sizes: &[usize], seed: u64| Arg::Tensor(Array::fill(sizes, -9.0..9.0, seed));
    vec![
        row("fill.Scalar").types(ALL).ulps(0.0).unary_of(whole(0.0..9.0), &[number(1)], |_| 1.0),
        row("fill.Tensor")
            .types(ALL)
            .ulps(0.0)
            .sample(vec![some(&[3, 4], 1), some(&[], 2)])
            .sample(vec![some(&[], 1), some(&[], 3)])
            .sample(vec![some(&[0], 1), some(&[], 3)])
            .reference(|a| vec![a[1].array().expand(&a[0].array().sizes)])
            .refuses(vec![some(&[3], 1), some(&[1], 1)], ErrorKind::InvalidArgument, "0-dimension"),
        row("copy")
            .types(ALL)
            .ulps(0.0)
            .sample(vec![some(&[3, 4], 1), some(&[4], 2), false.into()])
            .sample(vec![some(&[17], 1), some(&[17], 2), false.into()])
            .sample(vec![some(&[2, 0], 1), some(&[1, 1], 2), false.into()])
            .reference(|a| vec![a[1].array().expand(&a[0].array().sizes)])
            .refuses(vec![some(&[3], 1), some(&[2], 1), false.into()], ErrorKind::Shape, "copy_"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [of_one(), questions(), of_two(), of_bits(), of_integers(), copies()].into_iter().flatten().collect()
}
