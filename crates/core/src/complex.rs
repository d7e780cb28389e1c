//! Complex numbers: a real and an imaginary part.
#![expect(unsafe_code, reason = "declares the layout of a type")]

use bytemuck::{Pod, Zeroable};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// `re + im i`: an element of a complex tensor, or, with vectors as parts, several of them. In memory the real part is before the
/// imaginary one, as in C, NumPy and PyTorch. Products are those of the formula, without the cases for infinities of C99, Annex G.
///
/// ```
/// use flambeau_core::Complex;
/// let z = Complex::new(1.0f32, 2.0);
/// assert_eq!(z * z.conj(), Complex::new(5.0, 0.0));
/// assert_eq!(z.to_string(), "1+2j");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

// SAFETY: two zeroed parts.
unsafe impl<T: Zeroable> Zeroable for Complex<T> {}
// SAFETY: two parts of one type lie beside each other without padding, and any bytes are a value of them.
unsafe impl<T: Pod> Pod for Complex<T> {}

impl<T> Complex<T> {
    /// `re + im i`.
    #[inline(always)]
    pub const fn new(re: T, im: T) -> Self {
        Complex { re, im }
    }
}

impl<T: Neg<Output = T>> Complex<T> {
    /// The conjugate, `re - im i`.
    #[inline(always)]
    #[must_use]
    pub fn conj(self) -> Self {
        Complex::new(self.re, -self.im)
    }
}

impl<T: Add<Output = T>> Add for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Complex::new(self.re + other.re, self.im + other.im)
    }
}

impl<T: Sub<Output = T>> Sub for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Complex::new(self.re - other.re, self.im - other.im)
    }
}

impl<T: Neg<Output = T>> Neg for Complex<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Complex::new(-self.re, -self.im)
    }
}

impl<T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>> Mul for Complex<T> {
    type Output = Self;
    /// Four products, each rounded: so `z * z.conj()` is real to the last bit, and factors may be exchanged.
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        let (a, b) = (self, other);
        Complex::new(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)
    }
}

macro_rules! quotient {
    ($($t:ty)*) => {$(
        impl Div for Complex<$t> {
            type Output = Self;
            /// By the quotient of the divisor's parts, so that no square overflows: Smith, "Algorithm 116: complex division" (1962).
            /// Zero divides the parts.
            #[inline]
            fn div(self, by: Self) -> Self {
                if by.re == 0.0 && by.im == 0.0 {
                    return Complex::new(self.re / by.re, self.im / by.re);
                }
                if by.re.abs() >= by.im.abs() {
                    let ratio = by.im / by.re;
                    let size = by.re + by.im * ratio;
                    return Complex::new((self.re + self.im * ratio) / size, (self.im - self.re * ratio) / size);
                }
                let ratio = by.re / by.im;
                let size = by.re * ratio + by.im;
                Complex::new((self.re * ratio + self.im) / size, (self.im * ratio - self.re) / size)
            }
        }
    )*};
}
quotient!(f32 f64);

impl<T: Default + Add<Output = T>> Sum for Complex<T> {
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        numbers.fold(Complex::default(), Add::add)
    }
}

/// As Python writes it, without parentheses.
impl<T: fmt::Display> fmt::Display for Complex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let im = self.im.to_string();
        let sign = if im.starts_with('-') { "" } else { "+" };
        write!(f, "{}{sign}{im}j", self.re)
    }
}
