//! Sines from a table of points on the unit circle and short polynomials around them, whose precision suffices for f32.

use super::super::lanes::{Bits, Float};
use super::trigonometric::less_steps;
use super::{FloatElement, Pair, polynomial};

/// A table of 16 steps around the circle.
pub struct Circle<T: 'static> {
    /// The step, pi/8, in three parts, of which the first is less than it.
    step: [T; 3],
    /// The sines of 0 to 15 steps, the first of them -0.
    sines: [T; 16],
    /// The errors of `sines`: by how much they exceed the exact ones.
    excess: [T; 16],
    /// `(sin r - r) / r^3` in `r^2`, for `|r|` up to half a step, within 5e-10 of `sin r / r`.
    sin: [T; 2],
    /// `(1 - cos r) / r^2`, in `r^2` too, within 4e-9 of `cos r`.
    cos: [T; 2],
}

impl<T: FloatElement> Circle<T> {
    /// The sine of `x` and `quadrants`, for `|x|` up to `REDUCTION_MAX`. With `x` as `high + low` and steps to `a` it is
    /// `sin a + (cos a sin r - sin a (1 - cos r))`, summed from the smallest term on.
    ///
    /// Zeros keep their sign: the step's second part is positive, so that `high` is -0 for -0, and what it is added to last is -0.
    #[inline(always)]
    pub(super) fn sin_after<V: Float<Element = T>>(&'static self, x: V, quadrants: u64) -> V {
        let round = V::splat(T::ROUND);
        let shifted = x.mul_add(V::constant(8.0 * std::f64::consts::FRAC_1_PI), round);
        let Pair { high, low } = less_steps(x, shifted - round, self.step);
        let square = high * high;
        let sine_less = (square * high).mul_add(polynomial(square, &self.sin), low);
        let cosine_less = square * polynomial(square, &self.cos);

        let index = shifted.to_bits() + V::Bits::splat(4 * quadrants);
        let sine = V::look_up(&self.sines, index);
        let cosine = V::look_up(&self.sines, index + V::Bits::splat(4));
        let excess = sine.mul_add(cosine_less, V::look_up(&self.excess, index));
        sine + cosine.mul_add(high, -cosine.neg_mul_add(sine_less, excess))
    }
}

/// The table of f32.
#[rustfmt::skip]
pub(super) const CIRCLE: Circle<f32> = {
    use std::f32::consts::FRAC_1_SQRT_2;
    Circle {
        step: [0.39269906, 1.8874475e-8, -4.2878112e-16],
        sines: [
            -0.0, 0.38268343, FRAC_1_SQRT_2, 0.9238795, 1.0, 0.9238795, FRAC_1_SQRT_2, 0.38268343,
            0.0, -0.38268343, -FRAC_1_SQRT_2, -0.9238795, -1.0, -0.9238795, -FRAC_1_SQRT_2, -0.38268343,
        ],
        excess: [
            0.0, -6.2233507e-9, -1.21016175e-8, -2.830749e-8, 0.0, -2.830749e-8, -1.21016175e-8, -6.2233507e-9,
            0.0, 6.2233507e-9, 1.21016175e-8, 2.830749e-8, 0.0, 2.830749e-8, 1.21016175e-8, 6.2233507e-9,
        ],
        sin: [-0.16666652, 0.008322235],
        cos: [0.49999905, -0.041588992],
    }
};
