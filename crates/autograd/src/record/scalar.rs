//! Arithmetic on the numbers in derivative formulas: the result of integers is an integer unless it overflows.

use flambeau_core::{Complex, Scalar};

fn combine(
    left: Scalar,
    right: Scalar,
    exact: impl Fn(i64, i64) -> Option<i64>,
    rounded: impl Fn(f64, f64) -> f64,
    complex: impl Fn(Complex<f64>, Complex<f64>) -> Complex<f64>,
) -> Scalar {
    if left.is_complex() || right.is_complex() {
        return complex(parts(left), parts(right)).into();
    }
    let integers = left.is_integral(true) && right.is_integral(true);
    let whole = if integers { exact(left.to_i64(), right.to_i64()) } else { None };
    whole.map_or_else(|| Scalar::Float(rounded(left.to_f64(), right.to_f64())), Scalar::Int)
}

fn parts(value: Scalar) -> Complex<f64> {
    let (re, im) = value.to_complex();
    Complex::new(re, im)
}

/// `left + right`
pub fn add(left: Scalar, right: Scalar) -> Scalar {
    combine(left, right, i64::checked_add, |a, b| a + b, |a, b| a + b)
}

/// `left - right`
pub fn sub(left: Scalar, right: Scalar) -> Scalar {
    combine(left, right, i64::checked_sub, |a, b| a - b, |a, b| a - b)
}

/// `left * right`
pub fn mul(left: Scalar, right: Scalar) -> Scalar {
    combine(left, right, i64::checked_mul, |a, b| a * b, |a, b| a * b)
}

/// `left / right`, never rounded to an integer.
pub fn div(left: Scalar, right: Scalar) -> Scalar {
    if left.is_complex() || right.is_complex() {
        let (a, b) = (parts(left), parts(right));
        let (product, norm) = (a * b.conj(), b.re * b.re + b.im * b.im);
        return Scalar::Complex(product.re / norm, product.im / norm);
    }
    Scalar::Float(left.to_f64() / right.to_f64())
}

/// `-value`
pub fn neg(value: Scalar) -> Scalar {
    sub(Scalar::Int(0), value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_integers_until_they_overflow() {
        assert_eq!(sub(Scalar::Int(3), Scalar::Int(1)), Scalar::Int(2));
        assert_eq!(mul(Scalar::Int(3), Scalar::Float(0.5)), Scalar::Float(1.5));
        assert_eq!(add(Scalar::Int(i64::MAX), Scalar::Int(1)), Scalar::Float(i64::MAX as f64 + 1.0));
        assert_eq!(div(Scalar::Int(3), Scalar::Int(2)), Scalar::Float(1.5));
        assert_eq!(neg(Scalar::Int(i64::MIN)), Scalar::Float(-(i64::MIN as f64)));
    }
}
