//! Sums, products, quotients, powers, comparisons and reductions.

use crate::{C, COMPLEX, abs, c, draw, expect_close, expect_close_reals, numbers, reals, tensor};
use flambeau_core::{Complex, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

const ONE: Scalar = Scalar::Int(1);

fn quotient(a: C, b: C) -> C {
    let norm = b.re * b.re + b.im * b.im;
    c((a.re * b.re + a.im * b.im) / norm, (a.im * b.re - a.re * b.im) / norm)
}

#[test]
fn arithmetic_is_right_in_every_layout() {
    let (a, b) = (draw(60, 1), draw(60, 2));
    let zip = |f: fn(C, C) -> C| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
    for dtype in COMPLEX {
        let (x, y) = (tensor(&a, &[3, 20], dtype), tensor(&b, &[3, 20], dtype));
        // The same values in the order of columns.
        let strided = |t: &Tensor| {
            ops::t(&ops::contiguous(&ops::t(t).unwrap(), flambeau_core::MemoryFormat::Contiguous).unwrap())
                .unwrap()
        };
        for (x, y) in [(x.clone(), y.clone()), (strided(&x), y.clone()), (strided(&x), strided(&y))] {
            let check = |what: &str, got: Tensor, expected: Vec<C>| {
                expect_close(what, &numbers(&got), &expected, dtype, 3.0);
            };
            check("add", ops::add_tensor(&x, &y, ONE).unwrap(), zip(|a, b| a + b));
            check("sub", ops::sub_tensor(&x, &y, ONE).unwrap(), zip(|a, b| a - b));
            check("mul", ops::mul_tensor(&x, &y).unwrap(), zip(|a, b| a * b));
            check("div", ops::div_tensor(&x, &y).unwrap(), zip(quotient));
            let i = Scalar::Complex(0.0, 1.0);
            check("add with alpha", ops::add_tensor(&x, &y, i).unwrap(), zip(|a, b| a + c(-b.im, b.re)));
            check("neg", ops::neg(&x).unwrap(), zip(|a, _| c(-a.re, -a.im)));
            check("conj", ops::conj(&x).unwrap(), zip(|a, _| a.conj()));
            check("sgn", ops::sgn(&x).unwrap(), zip(|a, _| c(a.re / abs(a), a.im / abs(a))));
            check("reciprocal", ops::reciprocal(&x).unwrap(), zip(|a, _| quotient(c(1.0, 0.0), a)));
            let real = |what: &str, got: Tensor, f: fn(C) -> f64| {
                assert_eq!(got.dtype(), dtype.to_real(), "{what}");
                let expected: Vec<f64> = a.iter().map(|z| f(*z)).collect();
                expect_close_reals(what, &reals(&got), &expected, dtype, 3.0);
            };
            real("abs", ops::abs(&x).unwrap(), abs);
            real("angle", ops::angle(&x).unwrap(), |z| z.im.atan2(z.re));
            real("real", ops::real(&x).unwrap(), |z| z.re);
            real("imag", ops::imag(&x).unwrap(), |z| z.im);
        }
    }
}

/// `z * conj(z)` is real to the bit, and factors commute.
#[test]
fn products_are_exact_where_they_should_be() {
    for dtype in COMPLEX {
        let (x, y) = (tensor(&draw(33, 5), &[33], dtype), tensor(&draw(33, 6), &[33], dtype));
        let square = numbers(&ops::mul_tensor(&x, &ops::conj(&x).unwrap()).unwrap());
        assert!(square.iter().all(|z| z.im == 0.0));
        let (xy, yx) = (ops::mul_tensor(&x, &y).unwrap(), ops::mul_tensor(&y, &x).unwrap());
        assert_eq!(numbers(&xy), numbers(&yx));
    }
}

#[test]
fn quotients_have_no_spurious_overflow() {
    let (big, small) = (1e300, 1e-300);
    let a = [c(big, big), c(small, small), c(1.0, 0.0), c(1.0, 1.0), c(big, 0.0), c(1.0, 2.0), c(0.0, 0.0)];
    let b = [
        c(big, -big),
        c(small, -small),
        c(0.0, 0.0),
        c(f64::INFINITY, 0.0),
        c(big, big),
        c(0.0, f64::NAN),
        c(0.0, 0.0),
    ];
    let x = tensor(&a, &[7], ScalarType::Complex128);
    let got = numbers(&ops::div_tensor(&x, &tensor(&b, &[7], ScalarType::Complex128)).unwrap());
    expect_close("quotient", &got[..2], &[c(0.0, 1.0), c(0.0, 1.0)], ScalarType::Complex128, 2.0);
    assert!(got[2].re == f64::INFINITY && got[2].im.is_nan(), "{}", got[2]);
    assert_eq!(got[3], c(0.0, 0.0));
    expect_close("quotient", &got[4..5], &[c(0.5, -0.5)], ScalarType::Complex128, 2.0);
    assert!(got[5].re.is_nan() && got[5].im.is_nan());
    assert!(got[6].re.is_nan() && got[6].im.is_nan());
}

/// Numbers of which all parts are one of 11: 14,641 pairs.
fn special_pairs() -> (Vec<C>, Vec<C>) {
    let (infinity, big, small) = (f64::INFINITY, 2f64.powi(120), 2f64.powi(-120));
    let parts = [0.0, -0.0, 1.0, -1.0, 2.5, -0.75, infinity, -infinity, f64::NAN, big, -small];
    let numbers: Vec<C> = parts.iter().flat_map(|re| parts.map(|im| c(*re, im))).collect();
    let pairs = numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b)));
    pairs.unzip()
}

fn is_nan(z: C) -> bool {
    z.re.is_nan() && z.im.is_nan()
}

/// Products are those of the formula, and quotients those of the rules of this library.
#[test]
fn special_values_of_all_pairs() {
    for dtype in COMPLEX {
        let (a, b) = special_pairs();
        let sizes = [a.len() as i64];
        let (x, y) = (tensor(&a, &sizes, dtype), tensor(&b, &sizes, dtype));
        let products = numbers(&ops::mul_tensor(&x, &y).unwrap());
        let quotients = numbers(&ops::div_tensor(&x, &y).unwrap());
        let round = |x: f64| if dtype == ScalarType::Complex64 { f64::from(x as f32) } else { x };
        let alike = |x: f64, y: f64| x.is_nan() && y.is_nan() || round(x).to_bits() == y.to_bits();
        let is_finite = |z: C| z.re.is_finite() && z.im.is_finite();
        let mut seen = [0; 5];
        for ((a, b), (product, quotient)) in a.into_iter().zip(b).zip(products.into_iter().zip(quotients)) {
            let text = format!("{dtype}: {a} and {b}: {product} and {quotient}");
            let expected =
                [[a.re * b.re, a.im * b.im], [a.re * b.im, a.im * b.re]].map(|part| part.map(round));
            let [[rr, ii], [ri, ir]] = expected;
            assert!(alike(rr - ii, product.re) && alike(ri + ir, product.im), "{text}");
            let kind = if b.re == 0.0 && b.im == 0.0 {
                assert!(alike(a.re / 0.0, quotient.re) && alike(a.im / 0.0, quotient.im), "{text}");
                0
            } else if b.re.is_nan() || b.im.is_nan() {
                assert!(is_nan(quotient), "{text}");
                1
            } else if !is_finite(b) {
                assert!(if is_finite(a) { quotient == c(0.0, 0.0) } else { is_nan(quotient) }, "{text}");
                2
            } else if is_finite(a) {
                let expected = a / b;
                // Beyond these the type has no number for each quotient.
                if abs(expected) < 1e30 && (abs(expected) > 1e-30 || expected == c(0.0, 0.0)) {
                    expect_close(&text, &[quotient], &[expected], dtype, 4.0);
                }
                3
            } else {
                assert!(!is_finite(quotient), "{text}");
                4
            };
            seen[kind] += 1;
        }
        assert_eq!(seen, [4 * 121, 21 * 121, 36 * 121, 60 * 64, 60 * 57], "{dtype}");
    }
}

#[test]
fn infinite_numbers_stay_infinite_when_scaled_by_one() {
    let x = tensor(&[c(f64::INFINITY, 1.0)], &[1], ScalarType::Complex64);
    let zero = tensor(&[c(0.0, 0.0)], &[1], ScalarType::Complex64);
    let got = numbers(&ops::sub_tensor(&zero, &x, ONE).unwrap())[0];
    assert_eq!(got, c(f64::NEG_INFINITY, -1.0));
}

#[test]
fn powers_are_right() {
    let (a, b) = (draw(30, 7), draw(30, 8));
    for dtype in COMPLEX {
        let (x, y) = (tensor(&a, &[30], dtype), tensor(&b, &[30], dtype));
        let log = |z: C| c(abs(z).ln(), z.im.atan2(z.re));
        let exp = |z: C| c(z.re.exp() * z.im.cos(), z.re.exp() * z.im.sin());
        let expected: Vec<C> = a.iter().zip(&b).map(|(a, b)| exp(*b * log(*a))).collect();
        expect_close("pow", &numbers(&ops::pow_tensor_tensor(&x, &y).unwrap()), &expected, dtype, 24.0);
        for exponent in [2.0, 3.0, 0.5, -0.5, -1.0, -2.0, 1.75] {
            let got = ops::pow_tensor_scalar(&x, Scalar::Float(exponent)).unwrap();
            let expected: Vec<C> = a.iter().map(|a| exp(c(exponent, 0.0) * log(*a))).collect();
            expect_close(&format!("pow {exponent}"), &numbers(&got), &expected, dtype, 24.0);
        }
        let real = ops::full(&[3], Scalar::Float(-2.0), Some(dtype.to_real()), None, None, None).unwrap();
        let got = ops::pow_tensor_scalar(&real, Scalar::Complex(0.5, 0.25)).unwrap();
        assert_eq!(got.dtype(), dtype);
        expect_close("real base", &numbers(&got), &[exp(c(0.5, 0.25) * log(c(-2.0, 0.0))); 3], dtype, 12.0);
        let zero = tensor(&[c(0.0, 0.0); 2], &[2], dtype);
        let powers =
            ops::pow_tensor_tensor(&zero, &tensor(&[c(0.0, 0.0), c(2.0, 1.0)], &[2], dtype)).unwrap();
        assert_eq!(numbers(&powers), [c(1.0, 0.0), c(0.0, 0.0)]);
    }
}

#[test]
fn comparisons_see_both_parts() {
    let a = [c(1.0, 2.0), c(1.0, 3.0), c(f64::NAN, 0.0), c(0.0, f64::INFINITY), c(0.0, 0.0), c(0.0, 1.0)];
    let x = tensor(&a, &[6], ScalarType::Complex64);
    let y = tensor(&[a[0], a[0], a[2], a[3], a[4], a[5]], &[6], ScalarType::Complex64);
    let bools = |t: Tensor| t.to_vec::<bool>().unwrap();
    assert_eq!(bools(ops::eq_tensor(&x, &y).unwrap()), [true, false, false, true, true, true]);
    assert_eq!(bools(ops::ne_tensor(&x, &y).unwrap()), [false, true, true, false, false, false]);
    assert_eq!(
        bools(ops::eq_scalar(&x, Scalar::Complex(1.0, 2.0)).unwrap()),
        [true, false, false, false, false, false]
    );
    assert_eq!(bools(ops::isnan(&x).unwrap()), [false, false, true, false, false, false]);
    assert_eq!(bools(ops::isinf(&x).unwrap()), [false, false, false, true, false, false]);
    assert_eq!(bools(ops::isfinite(&x).unwrap()), [true, true, false, false, true, true]);
    assert_eq!(bools(ops::logical_not(&x).unwrap()), [false, false, false, false, true, false]);
    assert_eq!(bools(ops::isreal(&x).unwrap()), [false, false, true, false, true, false]);
    let close =
        ops::isclose(&x, &ops::add_scalar(&x, Scalar::Complex(1e-6, -1e-6), ONE).unwrap(), 1e-4, 0.0, true);
    assert_eq!(bools(close.unwrap()), [true, true, true, false, false, true]);
    let real = Tensor::from(vec_of(&[1.0f32, 2.0]));
    assert_eq!(bools(ops::eq_scalar(&real, Scalar::Complex(1.0, 0.0)).unwrap()), [true, false]);
    assert_eq!(bools(ops::eq_scalar(&real, Scalar::Complex(1.0, 1.0)).unwrap()), [false, false]);
}

fn vec_of(values: &[f32; 2]) -> [f32; 2] {
    *values
}

#[test]
fn reductions_are_right() {
    let a = draw(7 * 11 * 5, 9);
    for dtype in COMPLEX {
        let x = tensor(&a, &[7, 11, 5], dtype);
        let strided = ops::permute(&x, &[2, 0, 1]).unwrap();
        let along = |i: usize, j: usize, f: &dyn Fn(C, C) -> C, first: C| {
            (0..11).fold(first, |acc, k| f(acc, a[(i * 11 + k) * 5 + j]))
        };
        let all = |f: &dyn Fn(C, C) -> C, first: C| {
            (0..35).map(|at| along(at / 5, at % 5, f, first)).collect::<Vec<_>>()
        };
        let (zero, one) = (c(0.0, 0.0), c(1.0, 0.0));
        let add = |a: C, b: C| a + b;
        let sum = numbers(&ops::sum_dim_intlist(&x, Some(&[1]), false, None).unwrap());
        expect_close("sum", &sum, &all(&add, zero), dtype, 12.0);
        let product = numbers(&ops::prod_dim_int(&x, 1, false, None).unwrap());
        expect_close("prod", &product, &all(&|a, b| a * b, one), dtype, 30.0);
        let total = a.iter().fold(zero, |acc, z| acc + *z);
        expect_close("sum of all", &numbers(&ops::sum(&x, None).unwrap()), &[total], dtype, 64.0);
        expect_close(
            "sum of a permuted one",
            &numbers(&ops::sum(&strided, None).unwrap()),
            &[total],
            dtype,
            64.0,
        );
        let mean = c(total.re / 385.0, total.im / 385.0);
        expect_close("mean", &numbers(&ops::mean(&x, None).unwrap()), &[mean], dtype, 64.0);
        let squares = a.iter().map(|z| abs(*z - mean).powi(2)).sum::<f64>();
        let var = ops::var(&x, true).unwrap();
        assert_eq!(var.dtype(), dtype.to_real());
        expect_close_reals("var", &reals(&var), &[squares / 384.0], dtype, 12.0);
        let std = ops::std(&x, false).unwrap();
        expect_close_reals("std", &reals(&std), &[(squares / 385.0).sqrt()], dtype, 12.0);
        let norm = ops::linalg_vector_norm(&x, Scalar::Int(2), None, false, None).unwrap();
        let expected = a.iter().map(|z| abs(*z).powi(2)).sum::<f64>().sqrt();
        expect_close_reals("norm", &reals(&norm), &[expected], dtype, 12.0);
        let scan = numbers(&ops::cumsum(&x, 1, None).unwrap());
        expect_close("the last of cumsum", &scan[10 * 5..11 * 5], &all(&add, zero)[..5], dtype, 24.0);
        let scan = numbers(&ops::cumprod(&x, 1, None).unwrap());
        expect_close(
            "the last of cumprod",
            &scan[10 * 5..11 * 5],
            &all(&|a, b| a * b, one)[..5],
            dtype,
            30.0,
        );
        let scalar = tensor(&a[..1], &[], dtype);
        assert_eq!(numbers(&ops::sum(&scalar, None).unwrap()), a[..1]);
        assert_eq!(numbers(&ops::prod(&tensor(&[], &[0], dtype), None).unwrap()), [one]);
        assert_eq!(numbers(&ops::sum(&tensor(&[], &[0], dtype), None).unwrap()), [zero]);
        assert!(!ops::all(&tensor(&[c(0.0, 1.0), zero], &[2], dtype)).unwrap().item::<bool>().unwrap());
        assert!(ops::any(&tensor(&[c(0.0, 1.0), zero], &[2], dtype)).unwrap().item::<bool>().unwrap());
    }
}

fn product(a: &[C], b: &[C], [m, k, n]: [usize; 3]) -> Vec<C> {
    let element = |i: usize, j: usize| (0..k).fold(c(0.0, 0.0), |acc, x| acc + a[i * k + x] * b[x * n + j]);
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

fn expect_product(what: &str, got: &Tensor, expected: &[C], dtype: ScalarType) {
    let scale = expected.iter().map(|z| abs(*z)).fold(0.0, f64::max);
    for (got, expected) in numbers(got).iter().zip(expected) {
        assert!(abs(*got - *expected) <= 16.0 * eps_of(dtype) * scale, "{what}: {got} is not {expected}");
    }
}

fn eps_of(dtype: ScalarType) -> f64 {
    crate::eps(dtype)
}

#[test]
fn matrix_products_are_right() {
    let (a, b, d) = (draw(2 * 5 * 7, 11), draw(2 * 7 * 3, 12), draw(15, 13));
    let expected = product(&a[..35], &b[..21], [5, 7, 3]);
    for dtype in COMPLEX {
        let (x, y) = (tensor(&a[..35], &[5, 7], dtype), tensor(&b[..21], &[7, 3], dtype));
        expect_product("mm", &ops::mm(&x, &y).unwrap(), &expected, dtype);
        let transposed =
            ops::t(&ops::contiguous(&ops::t(&x).unwrap(), flambeau_core::MemoryFormat::Contiguous).unwrap())
                .unwrap();
        expect_product("mm of a transposed one", &ops::mm(&transposed, &y).unwrap(), &expected, dtype);
        expect_product("matmul", &ops::matmul(&x, &y).unwrap(), &expected, dtype);
        let (beta, alpha) = (c(0.5, -1.0), c(0.0, 2.0));
        let scalar = |z: C| Scalar::Complex(z.re, z.im);
        let added = ops::addmm(&tensor(&d, &[5, 3], dtype), &x, &y, scalar(beta), scalar(alpha)).unwrap();
        let with_addend: Vec<C> = expected.iter().zip(&d).map(|(e, d)| beta * *d + alpha * *e).collect();
        expect_product("addmm", &added, &with_addend, dtype);
        let batches = ops::bmm(&tensor(&a, &[2, 5, 7], dtype), &tensor(&b, &[2, 7, 3], dtype)).unwrap();
        let both = [expected.clone(), product(&a[35..], &b[21..], [5, 7, 3])].concat();
        expect_product("bmm", &batches, &both, dtype);
        let column = ops::mv(&x, &tensor(&b[..7], &[7], dtype)).unwrap();
        expect_product("mv", &column, &product(&a[..35], &b[..7], [5, 7, 1]), dtype);
        let (u, v) = (tensor(&a[..9], &[9], dtype), tensor(&b[..9], &[9], dtype));
        expect_product("dot", &ops::dot(&u, &v).unwrap(), &product(&a[..9], &b[..9], [1, 9, 1]), dtype);
        let conjugates: Vec<C> = a[..9].iter().map(|z| z.conj()).collect();
        expect_product("vdot", &ops::vdot(&u, &v).unwrap(), &product(&conjugates, &b[..9], [1, 9, 1]), dtype);
        let weight = tensor(&b[..21], &[3, 7], dtype);
        let linear = ops::linear(&x, &weight, None).unwrap();
        let columns: Vec<C> = (0..21).map(|at| b[at % 3 * 7 + at / 3]).collect();
        expect_product("linear", &linear, &product(&a[..35], &columns, [5, 7, 3]), dtype);
        let empty = ops::mm(&tensor(&[], &[2, 0], dtype), &tensor(&[], &[0, 2], dtype)).unwrap();
        assert_eq!(numbers(&empty), [c(0.0, 0.0); 4]);
    }
}

#[test]
fn random_numbers_have_the_right_variance() {
    for dtype in COMPLEX {
        let x = ops::randn(&[20_000], Some(dtype), None, None, None).unwrap();
        let spread = reals(&ops::var(&x, true).unwrap())[0];
        assert!((spread - 1.0).abs() < 0.05, "{spread}");
        let u = ops::rand(&[20_000], Some(dtype), None, None, None).unwrap();
        let mean = numbers(&ops::mean(&u, None).unwrap())[0];
        assert!((mean.re - 0.5).abs() < 0.02 && (mean.im - 0.5).abs() < 0.02, "{mean}");
    }
}

#[test]
fn promotion_is_that_of_pytorch() {
    use ScalarType::*;
    let of = |dtype| ops::ones(&[2], Some(dtype), None, None, None).unwrap();
    let sum = |a, b| ops::add_tensor(&of(a), &of(b), ONE).unwrap().dtype();
    let cases = [
        (F32, Complex64, Complex64),
        (F64, Complex64, Complex128),
        (I64, Complex64, Complex64),
        (F16, Complex64, Complex64),
    ];
    for (a, b, expected) in cases {
        assert_eq!(sum(a, b), expected, "{a} {b}");
        assert_eq!(a.promote(b), Some(expected));
    }
    assert_eq!(sum(Complex64, Complex128), Complex128);
    let i = Scalar::Complex(0.0, 1.0);
    let with_i = |dtype| ops::add_scalar(&of(dtype), i, ONE).unwrap().dtype();
    for (dtype, expected) in [
        (F32, Complex64),
        (F64, Complex128),
        (I64, Complex64),
        (Bool, Complex64),
        (F16, Complex64),
        (Complex64, Complex64),
    ] {
        assert_eq!(with_i(dtype), expected, "{dtype}");
    }
    let wide = ops::full(&[], i, Some(Complex128), None, None, None).unwrap();
    assert_eq!(ops::mul_tensor(&of(Complex64), &wide).unwrap().dtype(), Complex64);
    assert_eq!(ops::mul_tensor(&of(F32), &wide).unwrap().dtype(), Complex64);
    assert_eq!(ops::mul_tensor(&of(I64), &wide).unwrap().dtype(), Complex128);
    assert!(!Complex64.can_cast(F64) && F64.can_cast(Complex64));
    assert_eq!(ops::full(&[1], i, None, None, None, None).unwrap().dtype(), Complex64);
    assert_eq!(Tensor::from([Complex::new(1.0f32, 2.0)]).dtype(), Complex64);
}
