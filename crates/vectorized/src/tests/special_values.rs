//! Zeros, infinities, NaN, and the limits of the range: every function agrees with the C standard about them.

use super::*;

/// True if `got` has the class that `expected` has when rounded to its type: NaN, infinite, or zero, with its sign.
fn same_class<T: Copy + Into<f64>>(got: T, expected: T) -> bool {
    let (got, expected): (f64, f64) = (got.into(), expected.into());
    if expected.is_nan() {
        return got.is_nan();
    }
    got.is_infinite() == expected.is_infinite()
        && (got == 0.0) == (expected == 0.0)
        && got.is_sign_negative() == expected.is_sign_negative()
}

#[test]
fn functions_agree_with_c_at_special_values() {
    for set in CpuCapability::available() {
        let (x, single) = (special_f64(), special_f32());
        macro_rules! check {
            ($formula:ident, $exact:expr) => {
                for (x, got) in x.iter().zip(apply(set, $formula, &x, &x)) {
                    let expected = $exact(*x);
                    assert!(
                        same_class(got, expected),
                        "{} {x:e}: {got:e}, {expected:e}",
                        stringify!($formula)
                    );
                }
                for (x, got) in single.iter().zip(apply(set, $formula, &single, &single)) {
                    let expected = $exact(f64::from(*x)) as f32;
                    assert!(
                        same_class(got, expected),
                        "{} {x:e}: {got:e}, {expected:e}",
                        stringify!($formula)
                    );
                }
            };
        }
        for_each_function!(check);
    }
}

/// What must be exact: not only of the right class.
#[test]
fn functions_are_exact_where_they_can_be() {
    for set in CpuCapability::available() {
        let at = |x: f64, y: f64| {
            [
                apply(set, Exp, &[x], &[y])[0],
                apply(set, Log, &[x], &[y])[0],
                apply(set, Cos, &[x], &[y])[0],
                apply(set, Cosh, &[x], &[y])[0],
                apply(set, Sigmoid, &[x], &[y])[0],
                apply(set, Erfc, &[x], &[y])[0],
            ]
        };
        assert_eq!(at(0.0, 0.0), [1.0, f64::NEG_INFINITY, 1.0, 1.0, 0.5, 1.0]);
        let powers: Vec<f64> = (-1074..1024).map(f64::from).collect();
        for (n, got) in powers.iter().zip(apply(set, Exp2, &powers, &powers)) {
            assert_eq!(got, n.exp2(), "2^{n}");
            assert_eq!(apply(set, Log2, &[got], &[got])[0], *n);
        }
        for (x, y) in [(3.0, 4.0), (10.0, 15.0), (-7.0, 3.0), (0.5, -20.0), (-2.0, 31.0), (1.5, 10.0)] {
            assert_eq!(apply(set, Pow, &[x], &[y])[0], f64::powf(x, y), "{x}^{y}");
        }
    }
}

#[test]
fn powers_agree_with_c_at_every_pair_of_special_values() {
    let mut x = special_f64();
    x.extend([-3.0, -2.5, -1e-3, 0.1, 7.0, 1024.5]);
    let pairs: Vec<(f64, f64)> = x.iter().flat_map(|&a| x.iter().map(move |&b| (a, b))).collect();
    let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let single = |x: &[f64]| x.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let (a32, b32) = (single(&a), single(&b));
    for set in CpuCapability::available() {
        for (i, got) in apply(set, Pow, &a, &b).into_iter().enumerate() {
            let expected = a[i].powf(b[i]);
            assert!(same_class(got, expected), "{:e}^{:e}: {got:e}, {expected:e}", a[i], b[i]);
        }
        for (i, got) in apply(set, Pow, &a32, &b32).into_iter().enumerate() {
            let expected = f64::from(a32[i]).powf(f64::from(b32[i])) as f32;
            assert!(same_class(got, expected), "{:e}^{:e}: {got:e}, {expected:e}", a32[i], b32[i]);
        }
    }
}

/// The largest argument with a finite result, and the next one.
#[test]
fn functions_overflow_where_they_should() {
    fn next(x: f32) -> f32 {
        f32::from_bits(x.to_bits() + 1)
    }
    for set in CpuCapability::available() {
        let last = |f: &dyn Fn(f32) -> f32, limit: f32| {
            assert!(f(limit).is_finite(), "{limit}: {}", f(limit));
            assert!(f(next(limit)).is_infinite(), "{limit}: {}", f(next(limit)));
        };
        last(&|x| apply(set, Exp, &[x], &[x])[0], 88.722_83);
        last(&|x| apply(set, Expm1, &[x], &[x])[0], 88.722_83);
        last(&|x| apply(set, Exp2, &[x], &[x])[0], 127.999_99);
        last(&|x| apply(set, Sinh, &[x], &[x])[0], 89.415_985);
        last(&|x| apply(set, Cosh, &[x], &[x])[0], 89.415_985);
        assert_eq!(apply(set, Exp, &[-103.972_07f32], &[0.0])[0], f32::from_bits(1));
        assert_eq!(apply(set, Exp, &[-103.972_09f32], &[0.0])[0], 0.0);
    }
}
