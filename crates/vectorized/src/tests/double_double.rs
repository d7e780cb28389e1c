//! Numbers of 106 bits as sums of two f64, and the functions on them: slow series, independent of what they check.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `high + low`, with `low` at most half an ulp of `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dd(pub(super) f64, pub(super) f64);

pub(super) const LN_2: Dd = Dd(std::f64::consts::LN_2, 2.319_046_813_846_3e-17);
pub(super) const LN_10: Dd = Dd(std::f64::consts::LN_10, -2.170_756_223_382_249_4e-16);
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_17e-33];
const TWO_OVER_ROOT_PI: Dd = Dd(std::f64::consts::FRAC_2_SQRT_PI, 1.533_545_961_316_588e-17);

fn two_sum(a: f64, b: f64) -> Dd {
    let sum = a + b;
    let of_b = sum - a;
    Dd(sum, (a - (sum - of_b)) + (b - of_b))
}

impl From<f64> for Dd {
    fn from(x: f64) -> Self {
        Dd(x, 0.0)
    }
}

impl Add for Dd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (high, low) = (two_sum(self.0, other.0), two_sum(self.1, other.1));
        let sum = two_sum(high.0, high.1 + low.0);
        two_sum(sum.0, sum.1 + low.1)
    }
}

impl Neg for Dd {
    type Output = Self;
    fn neg(self) -> Self {
        Dd(-self.0, -self.1)
    }
}

impl Sub for Dd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Dd {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let high = self.0 * other.0;
        let low = self.0.mul_add(other.0, -high) + (self.0 * other.1 + self.1 * other.0);
        two_sum(high, low)
    }
}

impl Div for Dd {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.0 / other.0;
        let rest = self - other * first.into();
        let second = rest.0 / other.0;
        let rest = rest - other * second.into();
        two_sum(first, second) + (rest.0 / other.0).into()
    }
}

impl Dd {
    pub(super) const ONE: Self = Dd(1.0, 0.0);

    fn times(self, factor: f64) -> Self {
        self * factor.into()
    }

    fn doubled(self, times: i32) -> Self {
        let (first, second) = (2f64.powi(times / 2), 2f64.powi(times - times / 2));
        Dd(self.0 * first * second, self.1 * first * second)
    }

    pub(super) fn sqrt(self) -> Self {
        if self.0 == 0.0 {
            return self;
        }
        let root = self.0.sqrt();
        Dd::from(root) + (self - Dd::from(root) * root.into()) / (2.0 * root).into()
    }

    /// `x + x^2 / 2! + ...`, or what is like it: `term(k)` takes one term to the next.
    fn series(first: Self, term: impl Fn(Self, f64) -> Self) -> Self {
        let (mut sum, mut next) = (first, first);
        for k in 1..400 {
            next = term(next, f64::from(k));
            sum = sum + next;
            if next.0.abs() <= sum.0.abs() * 1e-34 {
                break;
            }
        }
        sum
    }

    /// `e^x - 1` without cancellation: by its series near 0.
    pub(super) fn expm1(self) -> Self {
        if self.0.abs() < 0.5 {
            return Self::series(self, |t, k| t * self / (k + 1.0).into());
        }
        self.exp() - Self::ONE
    }

    pub(super) fn exp(self) -> Self {
        assert!(self.0.is_finite(), "the reference of a function got {self:?}");
        let n = (self.0 / LN_2.0).round();
        let reduced = (self - LN_2.times(n)).doubled(-8);
        // (1 + m)^2 - 1 = 2 m + m^2, eight times.
        let m = (0..8).fold(reduced.expm1(), |m, _| m.times(2.0) + m * m);
        (m + Self::ONE).doubled(n as i32)
    }

    /// One Newton step from the f64 logarithm.
    pub(super) fn log1p(self) -> Self {
        let guess = Dd::from(self.0.ln_1p());
        guess + (self - guess.expm1()) / guess.exp()
    }

    pub(super) fn ln(self) -> Self {
        let exponent = self.0.log2().round();
        assert!(exponent.is_finite(), "the logarithm of {self:?}");
        LN_2.times(exponent) + (self.doubled(-(exponent as i32)) - Self::ONE).log1p()
    }

    /// Sine and cosine, for arguments up to about 10^6.
    pub(super) fn sin_cos(self) -> (Self, Self) {
        let n = (self.0 / HALF_PI[0]).round();
        let r = HALF_PI.iter().fold(self, |r, &part| r - Dd::from(n) * part.into());
        let square = r * r;
        let sin = Self::series(r, |t, k| -(t * square / (2.0 * k * (2.0 * k + 1.0)).into()));
        let cos = Self::series(Self::ONE, |t, k| -(t * square / (2.0 * k * (2.0 * k - 1.0)).into()));
        match n.rem_euclid(4.0) as u8 {
            0 => (sin, cos),
            1 => (cos, -sin),
            2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    pub(super) fn tan(self) -> Self {
        let (sin, cos) = self.sin_cos();
        sin / cos
    }

    /// The f64 arctangent, corrected by the addition theorem.
    pub(super) fn atan(self) -> Self {
        let guess = Dd::from(self.0.atan());
        let tan = guess.tan();
        guess + (self - tan) / (Self::ONE + self * tan)
    }

    fn half_pi() -> Self {
        two_sum(HALF_PI[0], HALF_PI[1])
    }

    pub(super) fn asin(self) -> Self {
        if self.0.abs() > 0.5 {
            let rest = ((Self::ONE - Dd(self.0.abs(), self.1 * self.0.signum())).times(0.5)).sqrt();
            let arc = Self::half_pi() - rest.asin().times(2.0);
            return arc.times(self.0.signum());
        }
        let guess = Dd::from(self.0.asin());
        let (sin, cos) = guess.sin_cos();
        guess + (self - sin) / cos
    }

    pub(super) fn acos(self) -> Self {
        if self.0 > 0.5 {
            return ((Self::ONE - self).times(0.5)).sqrt().asin().times(2.0);
        }
        Self::half_pi() - self.asin()
    }

    pub(super) fn sinh(self) -> Self {
        if self.0 < 0.0 {
            return -(-self).sinh();
        }
        let m = self.expm1();
        (m + m / (m + Self::ONE)).times(0.5)
    }

    pub(super) fn cosh(self) -> Self {
        let e = Dd(self.0.abs(), self.1 * self.0.signum()).exp();
        (e + Self::ONE / e).times(0.5)
    }

    pub(super) fn tanh(self) -> Self {
        let m = self.times(2.0).expm1();
        m / (m + 2.0.into())
    }

    pub(super) fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }

    /// `2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...)`, whose terms are all of one sign.
    pub(super) fn erf(self) -> Self {
        let square = self * self;
        let sum = Self::series(self, |t, k| t * square.times(2.0) / (2.0 * k + 1.0).into());
        TWO_OVER_ROOT_PI * (-square).exp() * sum
    }

    /// `e^(x^2) erfc(x)` by the continued fraction of Laplace from 3 on, backwards.
    pub(super) fn erfcx(self) -> Self {
        if self.0 < -3.0 {
            return (self * self).exp().times(2.0) - (-self).erfcx();
        }
        if self.0 < 3.0 {
            return (self * self).exp() * (Self::ONE - self.erf());
        }
        let fraction = (1..300).rev().fold(self, |f, k| self + Dd::from(f64::from(k) / 2.0) / f);
        TWO_OVER_ROOT_PI.times(0.5) / fraction
    }

    pub(super) fn erfc(self) -> Self {
        if self.0 < 3.0 { Self::ONE - self.erf() } else { (-(self * self)).exp() * self.erfcx() }
    }

    pub(super) fn asinh(self) -> Self {
        if self.0 < 0.0 {
            return -(-self).asinh();
        }
        let square = self * self;
        (self + square / (Self::ONE + (Self::ONE + square).sqrt())).log1p()
    }

    pub(super) fn acosh(self) -> Self {
        (self - Self::ONE + (self * self - Self::ONE).sqrt()).log1p()
    }

    pub(super) fn atanh(self) -> Self {
        (self.times(2.0) / (Self::ONE - self)).log1p().times(0.5)
    }

    pub(super) fn pow(self, exponent: Self) -> Self {
        (exponent * self.ln()).exp()
    }
}
