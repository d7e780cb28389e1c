//! Schur decompositions of Hessenberg matrices: implicit QR steps make the elements below the diagonal negligible. Real matrices take
//! two shifts at once, so that complex pairs need no complex arithmetic and remain as blocks of two rows: Francis, "The QR
//! transformation" (1961). Large matrices take many shifts at once, see [`multishift`].

mod basis;
mod exchange;
mod multishift;
mod sweep;
mod window;

pub(crate) use basis::Basis;

use crate::field::{Field, Real};
use crate::matrix::MatrixMut;
use crate::reflector::reflector;
use crate::rotations::length;
use crate::scaling::Failure;
use basis::{Change, reflect_column, reflect_from_right, rotate_from_right};
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Steps for each eigenvalue after which the iteration is given up.
const STEPS: usize = 30;
/// Steps for one eigenvalue after which shifts are chosen differently, to leave a cycle.
const EXCEPTIONAL: usize = 10;

/// A real or complex number as a complex one.
pub(crate) fn complex<T: Field>(x: T) -> T::Complex {
    T::Complex::from_parts(x.re(), x.im())
}

fn half<R: Real>(x: R) -> R {
    x * R::from_f64(0.5)
}

/// The root with a real part that is not negative.
fn root<C: Field>(z: C) -> C {
    let (re, im) = (z.re(), z.im());
    let size = half(re.magnitude() + length(re, im)).sqrt();
    let zero = C::Real::ZERO;
    match (size == zero, re >= zero) {
        (true, _) => C::ZERO,
        (_, true) => C::from_parts(size, half(im / size)),
        (_, false) => C::from_parts(half(im.magnitude() / size), size.with_sign_of(im)),
    }
}

/// The eigenvalues of `[[a, b], [c, d]]` less `d`. Those of real numbers are both real or conjugates. The second one is the smaller one.
fn pair_less_corner<C: Field>([a, b, c, d]: [C; 4]) -> [C; 2] {
    let zero = C::Real::ZERO;
    let half = (a - d).scaled(C::Real::from_f64(0.5));
    let scale = half.pivot_size().larger(b.pivot_size()).larger(c.pivot_size());
    if scale == zero {
        return [C::ZERO; 2];
    }
    let [half, b, c] = [half, b, c].map(|x| x.divided(scale));
    let square = half * half + b * c;
    let root = root(square);
    let are_conjugates = half.im() == zero && square.im() == zero && square.re() < zero;
    // The larger sum, so that nothing cancels.
    let sum = if (half * root.conj()).re() >= zero { half + root } else { half - root };
    if are_conjugates || sum == C::ZERO {
        return [half + root, half - root].map(|x| x.scaled(scale));
    }
    [sum.scaled(scale), -(b * c / sum).scaled(scale)]
}

/// The smallest magnitude that is not negligible in a matrix of `n` rows, whatever its norm is.
pub(crate) fn negligible_size<R: Real>(n: usize) -> R {
    R::SAFE_MIN * (R::from_f64(n as f64) / (R::EPSILON + R::EPSILON))
}

/// The distance from 1 to the next number.
pub(crate) fn unit<R: Real>() -> R {
    R::EPSILON + R::EPSILON
}

/// The iteration on the Hessenberg matrix `h`, whose transformations are collected in `q` if there is one.
pub(crate) struct Iteration<'a, T: Field> {
    pub(crate) h: MatrixMut<'a, T>,
    pub(crate) q: Basis<'a, T>,
    pub(crate) active: Range<usize>,
}

impl<T: Field> Iteration<'_, T> {
    /// Elements of the reflectors: one more than there are shifts in a step.
    const WIDTH: usize = if T::IS_COMPLEX { 2 } else { 3 };

    /// Overwrites `h` with the Schur form, and `values` with its eigenvalues.
    pub(crate) fn run(&mut self, values: &mut [T::Complex]) -> Result<(), Failure> {
        let (n, active) = (self.h.rows(), self.active.clone());
        for i in (0..active.start).chain(active.end..n) {
            values[i] = complex(self.h.at(i, i));
        }
        let smallest = negligible_size(n);
        let has_many_shifts = multishift::applies(active.len());
        let (mut end, mut steps, mut total) = (active.end, 0, STEPS.saturating_mul(active.len()));
        while end > active.start {
            let last = end - 1;
            let start = self.start_of_block(last, smallest);
            if start == last {
                values[last] = complex(self.h.at(last, last));
                (end, steps) = (last, 0);
            } else if !T::IS_COMPLEX && start + 1 == last {
                let [first, second] = self.split_pair(start);
                (values[start], values[last]) = (first, second);
                (end, steps) = (start, 0);
            } else if total == 0 {
                return Err(Failure::NotConverged(end));
            } else if has_many_shifts {
                let round = self.round(start..end, steps, values);
                (steps, end) = (if round.found > 0 { 0 } else { steps + 1 }, end - round.found);
                total = total.saturating_sub(round.cost);
            } else {
                (steps, total) = (steps + 1, total - 1);
                let shifts = self.shifts(start, last, steps);
                self.step(start, last, shifts);
            }
        }
        self.q.apply();
        Ok(())
    }

    /// The first row of the block that ends with row `last`, and has no negligible element below its diagonal.
    fn start_of_block(&mut self, last: usize, smallest: T::Real) -> usize {
        let mut start = last;
        while start > self.active.start {
            if self.is_negligible(start, smallest) {
                self.h.set(start, start - 1, T::ZERO);
                break;
            }
            start -= 1;
        }
        start
    }

    /// Whether the element left of the diagonal in a row may be set to 0: Ahues and Tisseur, "A new deflation criterion for the QR
    /// algorithm" (1997).
    fn is_negligible(&self, row: usize, smallest: T::Real) -> bool {
        let size = |i: usize, j: usize| self.h.at(i, j).pivot_size();
        let below = size(row, row - 1);
        if below <= smallest {
            return true;
        }
        let mut around = size(row - 1, row - 1) + size(row, row);
        if around == T::Real::ZERO {
            around =
                around + if row - 1 > self.active.start { size(row - 1, row - 2) } else { T::Real::ZERO };
            around = around + if row + 1 < self.active.end { size(row + 1, row) } else { T::Real::ZERO };
        }
        if below > unit::<T::Real>() * around {
            return false;
        }
        let above = size(row - 1, row);
        let (own, difference) =
            (size(row, row), (self.h.at(row - 1, row - 1) - self.h.at(row, row)).pivot_size());
        let sum = own.larger(difference) + below.larger(above);
        let product = below.smaller(above) * (below.larger(above) / sum);
        let bound = own.smaller(difference) * (own.larger(difference) / sum);
        product <= smallest.larger(unit::<T::Real>() * bound)
    }

    /// The shifts of a step: eigenvalues of the last two rows and columns.
    fn shifts(&self, start: usize, last: usize, steps: usize) -> [T::Complex; 2] {
        let at = |i: usize, j: usize| complex(self.h.at(i, j));
        if steps.is_multiple_of(EXCEPTIONAL) {
            // First at the upper end, then at the lower one, and so on.
            let row = if steps.is_multiple_of(2 * EXCEPTIONAL) { last } else { start };
            let below = if row == last { [last, last - 1] } else { [start + 1, start] };
            let size = at(below[0], below[1]).pivot_size();
            let part = |factor: f64| T::Real::from_f64(factor) * size;
            let center = at(row, row) + T::Complex::from_real(part(0.75));
            let offset = T::Complex::from_parts(T::Real::ZERO, part(0.66));
            return if T::IS_COMPLEX { [center; 2] } else { [center + offset, center - offset] };
        }
        let k = last - 1;
        let corner = at(last, last);
        let [first, second] = pair_less_corner([at(k, k), at(k, last), at(last, k), corner]);
        let nearest = if first.pivot_size() < second.pivot_size() { first } else { second };
        // Two real shifts converge faster if they are equal.
        let shifts =
            if T::IS_COMPLEX || first.im() == T::Real::ZERO { [nearest; 2] } else { [first, second] };
        shifts.map(|shift| corner + shift)
    }

    /// A multiple of the first column of the product of `h - shift` from row `m` on.
    fn first_column(&self, m: usize, [first, second]: [T::Complex; 2]) -> [T; 3] {
        let (own, below) = (self.h.at(m, m), self.h.at(m + 1, m));
        if T::IS_COMPLEX {
            let shifted = own - T::from_parts(first.re(), first.im());
            let scale = shifted.pivot_size() + below.pivot_size();
            return if scale == T::Real::ZERO {
                [T::ZERO; 3]
            } else {
                [shifted.divided(scale), below.divided(scale), T::ZERO]
            };
        }
        let scale = (own.re() - second.re()).magnitude() + second.im().magnitude() + below.re().magnitude();
        if scale == T::Real::ZERO {
            return [T::ZERO; 3];
        }
        let below = below.re() / scale;
        let of_shifts =
            (own.re() - first.re()) * ((own.re() - second.re()) / scale) - first.im() * (second.im() / scale);
        let v = [
            below * self.h.at(m, m + 1).re() + of_shifts,
            below * (own.re() + self.h.at(m + 1, m + 1).re() - first.re() - second.re()),
            below * self.h.at(m + 2, m + 1).re(),
        ];
        let size = v.iter().map(|v| v.magnitude()).sum::<T::Real>();
        v.map(|v| T::from_real(if size == T::Real::ZERO { v } else { v / size }))
    }

    /// One implicit step on the block from `start` to `last`.
    fn step(&mut self, start: usize, last: usize, shifts: [T::Complex; 2]) {
        let mut m = last + 1 - Self::WIDTH;
        let mut v = self.first_column(m, shifts);
        // From where two small elements below the diagonal let the step begin.
        while m > start && !self.may_begin(m, &v) {
            m -= 1;
            v = self.first_column(m, shifts);
        }
        for k in m..last {
            let width = Self::WIDTH.min(last + 1 - k);
            if k > m {
                v[..width].copy_from_slice(&self.h.column(k - 1)[k..k + width]);
            }
            let tau = reflector(&mut v[..width]);
            if k > m {
                let column = &mut self.h.column(k - 1)[k..k + width];
                column.fill(T::ZERO);
                column[0] = v[0];
            } else if m > start {
                self.h.set(m, m - 1, self.h.at(m, m - 1) * (T::ONE - tau.conj()));
            }
            self.reflect(k, width, last, &v, tau);
        }
    }

    fn may_begin(&self, m: usize, v: &[T; 3]) -> bool {
        let size = |i: usize, j: usize| self.h.at(i, j).pivot_size();
        let around = size(m - 1, m - 1) + size(m, m) + size(m + 1, m + 1);
        let rest = v[1].pivot_size() + v[2].pivot_size();
        size(m, m - 1) * rest <= unit::<T::Real>() * v[0].pivot_size() * around
    }

    /// Applies a reflector to rows and columns from `k` on, and to the columns of `q`. Without `q` only the eigenvalues count, which
    /// depend on the block alone.
    fn reflect(&mut self, k: usize, width: usize, last: usize, v: &[T; 3], tau: T) {
        with_processor_vectors(
            #[inline(always)]
            || self.reflect_rows_and_columns(k, width, last, v, tau),
        );
    }

    #[inline(always)]
    fn reflect_rows_and_columns(&mut self, k: usize, width: usize, last: usize, v: &[T; 3], tau: T) {
        let rows = (k + Self::WIDTH).min(last) + 1;
        let columns = if self.q.is_computed() { self.h.columns() } else { last + 1 };
        for j in k..columns {
            reflect_column(&mut self.h.column(j)[k..k + width], v, tau);
        }
        reflect_from_right(self.h.reborrow().block(0, k, [rows, width]), v, tau);
        self.q.push(Change::Reflection { first: k, width, v: *v, tau });
    }

    /// The eigenvalues of a block of two real rows. If they are real, a rotation makes the block triangular.
    fn split_pair(&mut self, k: usize) -> [T::Complex; 2] {
        let l = k + 1;
        let at = |i: usize, j: usize| complex(self.h.at(i, j));
        let (c, d) = (at(l, k).re(), at(l, l));
        let [first, second] = pair_less_corner([at(k, k), at(k, l), at(l, k), d]);
        let values = [d + first, d + second];
        let zero = T::Real::ZERO;
        if first.im() != zero {
            return if first.im() > zero { values } else { [values[1], values[0]] };
        }
        // The eigenvector of the first value is `(first, c)`.
        let z = first.re();
        let scale = z.magnitude().larger(c.magnitude());
        let (z, c) = (z / scale, c / scale);
        let size = length(z, c);
        let (cosine, sine) = (z / size, c / size);
        for j in k..self.h.columns() {
            let (x, y) = (self.h.at(k, j), self.h.at(l, j));
            self.h.set(k, j, x.scaled(cosine) + y.scaled(sine));
            self.h.set(l, j, y.scaled(cosine) - x.scaled(sine));
        }
        rotate_from_right(&mut self.h.reborrow().block(0, k, [l + 1, 2]), cosine, sine);
        self.q.push(Change::Rotation { first: k, cosine, sine });
        self.h.set(k, k, T::from_real(values[0].re()));
        self.h.set(l, l, T::from_real(values[1].re()));
        self.h.set(l, k, T::ZERO);
        values
    }
}
