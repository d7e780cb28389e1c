//! The same input gives the same bits on every instruction set, at every position, and in every length.

use super::*;

/// Arguments of every magnitude, with the special ones among them.
fn inputs() -> (Vec<f64>, Vec<f64>) {
    let mut random = Random(7);
    let mut x = special_f64();
    x.extend((0..700).map(|_| f64::from_bits(random.bits())));
    x.extend((0..1500).map(|_| random.between(-30.0, 30.0)));
    x.extend((0..1500).map(|_| random.between(-2.0, 2.0)));
    let mut y = x.clone();
    y.rotate_left(1234);
    (x, y)
}

fn bits<T: Copy + Into<f64>>(x: T) -> u64 {
    let x: f64 = x.into();
    // The sign and payload of a NaN may differ.
    if x.is_nan() { 0x7ff8 << 48 } else { x.to_bits() }
}

fn check<T, F: Formula>(name: &str, formula: F, x: &[T], y: &[T])
where
    T: EveryLanes + Default + Copy + Into<f64>,
    for<'a> Map<'a, T, F>: EveryIsa,
{
    let reference = apply(CpuCapability::Default, formula, x, y);
    for set in CpuCapability::available() {
        let got = apply(set, formula, x, y);
        for i in 0..x.len() {
            let (x, y): (f64, f64) = (x[i].into(), y[i].into());
            let (got, reference): (f64, f64) = (got[i].into(), reference[i].into());
            assert_eq!(
                bits(got),
                bits(reference),
                "{name} of {x:e}, {y:e} on {set:?}: {got:e}, {reference:e}"
            );
        }
        for length in 0..35 {
            for start in [0, 1, 5, 58] {
                let (x, y) = (&x[start..start + length], &y[start..start + length]);
                let got = apply(set, formula, x, y);
                for i in 0..length {
                    let reference = reference[start + i];
                    assert_eq!(
                        bits(got[i]),
                        bits(reference),
                        "{name}: {i} of {length} from {start} on {set:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_formula_has_the_same_bits_everywhere() {
    let (x, y) = inputs();
    let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<_>>();
    let (x32, y32) = (single(&x), single(&y));
    let half = |x: &[f64]| x.iter().map(|&x| half::f16::from_f64(x)).collect::<Vec<_>>();
    let (x16, y16) = (half(&x), half(&y));
    let brain = |x: &[f64]| x.iter().map(|&x| half::bf16::from_f64(x)).collect::<Vec<_>>();
    let (xb16, yb16) = (brain(&x), brain(&y));
    macro_rules! all {
        ($($formula:ident)*) => {$(
            check(stringify!($formula), $formula, &x, &y);
            check(stringify!($formula), $formula, &x32, &y32);
            check(stringify!($formula), $formula, &x16, &y16);
            check(stringify!($formula), $formula, &xb16, &yb16);
        )*};
    }
    all! {
        Exp ExpToHalf Exp2 Expm1 Log Log2 Log10 Log1p Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Sigmoid Erf ErfToHalf Erfc Gelu
        GeluSlope Pow Rsqrt Sqrt Recip Quotient MulAdd Floor Ceil Round Trunc Copysign Maximum Minimum Max Min Abs Neg Sum Difference
        Product Greater NotEqual IsNan
    }
}
