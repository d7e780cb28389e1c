//! Schur decompositions of Hessenberg matrices: implicit QR steps make the elements below the diagonal negligible. Real matrices take
//! two shifts at once, so that complex pairs need no complex arithmetic and remain as blocks of two rows: Francis, "The QR
//! transformation" (1961).

use crate::field::{Field, Real};
use crate::matrix::MatrixMut;
use crate::reflector::reflector;
use crate::scaling::Failure;
use flambeau_core::Complex;
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;
use std::ops::Range;

/// Steps for each eigenvalue after which the iteration is given up.
const STEPS: usize = 30;
/// Steps for one eigenvalue after which shifts are chosen differently, to leave a cycle.
const EXCEPTIONAL: usize = 10;

/// A real or complex number as a complex one.
pub(crate) fn complex<T: Field<Real = f64>>(x: T) -> Complex<f64> {
    Complex::new(x.re(), x.im())
}

/// The root with a real part that is not negative.
fn root(z: Complex<f64>) -> Complex<f64> {
    let size = ((z.re.abs() + z.re.hypot(z.im)) / 2.0).sqrt();
    match (size == 0.0, z.re >= 0.0) {
        (true, _) => Complex::new(0.0, 0.0),
        (_, true) => Complex::new(size, z.im / (2.0 * size)),
        (_, false) => Complex::new(z.im.abs() / (2.0 * size), size.copysign(z.im)),
    }
}

/// The eigenvalues of `[[a, b], [c, d]]` less `d`. Those of real numbers are both real or conjugates. The second one is the smaller one.
fn pair_less_corner([a, b, c, d]: [Complex<f64>; 4]) -> [Complex<f64>; 2] {
    let half = (a - d).scaled(0.5);
    let scale = half.pivot_size().max(b.pivot_size()).max(c.pivot_size());
    if scale == 0.0 {
        return [Complex::<f64>::ZERO; 2];
    }
    let [half, b, c] = [half, b, c].map(|x| x.divided(scale));
    let square = half * half + b * c;
    let root = root(square);
    let are_conjugates = half.im == 0.0 && square.im == 0.0 && square.re < 0.0;
    // The larger sum, so that nothing cancels.
    let sum = if (half * root.conj()).re >= 0.0 { half + root } else { half - root };
    if are_conjugates || sum == Complex::<f64>::ZERO {
        return [half + root, half - root].map(|x| x.scaled(scale));
    }
    [sum.scaled(scale), -(b * c / sum).scaled(scale)]
}

/// The smallest magnitude that is not negligible in a matrix of `n` rows, whatever its norm is.
pub(crate) fn negligible_size(n: usize) -> f64 {
    f64::SAFE_MIN * (n as f64 / f64::EPSILON)
}

/// The iteration on the Hessenberg matrix `h`, whose transformations are collected in `q` if there is one.
pub(crate) struct Iteration<'a, T> {
    pub(crate) h: MatrixMut<'a, T>,
    pub(crate) q: Basis<'a, T>,
    pub(crate) active: Range<usize>,
}

impl<T: Field<Real = f64>> Iteration<'_, T> {
    /// Elements of the reflectors: one more than there are shifts in a step.
    const WIDTH: usize = if T::IS_COMPLEX { 2 } else { 3 };

    /// Overwrites `h` with the Schur form, and `values` with its eigenvalues.
    pub(crate) fn run(&mut self, values: &mut [Complex<f64>]) -> Result<(), Failure> {
        let (n, active) = (self.h.rows(), self.active.clone());
        for i in (0..active.start).chain(active.end..n) {
            values[i] = complex(self.h.at(i, i));
        }
        let smallest = negligible_size(n);
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
    fn start_of_block(&mut self, last: usize, smallest: f64) -> usize {
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
    fn is_negligible(&self, row: usize, smallest: f64) -> bool {
        let size = |i: usize, j: usize| self.h.at(i, j).pivot_size();
        let below = size(row, row - 1);
        if below <= smallest {
            return true;
        }
        let mut around = size(row - 1, row - 1) + size(row, row);
        if around == 0.0 {
            around += if row - 1 > self.active.start { size(row - 1, row - 2) } else { 0.0 };
            around += if row + 1 < self.active.end { size(row + 1, row) } else { 0.0 };
        }
        if below > f64::EPSILON * around {
            return false;
        }
        let above = size(row - 1, row);
        let (own, difference) =
            (size(row, row), (self.h.at(row - 1, row - 1) - self.h.at(row, row)).pivot_size());
        let sum = own.max(difference) + below.max(above);
        let product = below.min(above) * (below.max(above) / sum);
        let bound = own.min(difference) * (own.max(difference) / sum);
        product <= smallest.max(f64::EPSILON * bound)
    }

    /// The shifts of a step: eigenvalues of the last two rows and columns.
    fn shifts(&self, start: usize, last: usize, steps: usize) -> [Complex<f64>; 2] {
        let at = |i: usize, j: usize| complex(self.h.at(i, j));
        if steps.is_multiple_of(EXCEPTIONAL) {
            // First at the upper end, then at the lower one, and so on.
            let row = if steps.is_multiple_of(2 * EXCEPTIONAL) { last } else { start };
            let below = if row == last { [last, last - 1] } else { [start + 1, start] };
            let size = at(below[0], below[1]).pivot_size();
            let center = at(row, row) + Complex::new(0.75 * size, 0.0);
            let offset = Complex::new(0.0, 0.66 * size);
            return if T::IS_COMPLEX { [center; 2] } else { [center + offset, center - offset] };
        }
        let k = last - 1;
        let corner = at(last, last);
        let [first, second] = pair_less_corner([at(k, k), at(k, last), at(last, k), corner]);
        let nearest = if first.pivot_size() < second.pivot_size() { first } else { second };
        // Two real shifts converge faster if they are equal.
        let shifts = if T::IS_COMPLEX || first.im == 0.0 { [nearest; 2] } else { [first, second] };
        shifts.map(|shift| corner + shift)
    }

    /// A multiple of the first column of the product of `h - shift` from row `m` on.
    fn first_column(&self, m: usize, [first, second]: [Complex<f64>; 2]) -> [T; 3] {
        let (own, below) = (self.h.at(m, m), self.h.at(m + 1, m));
        if T::IS_COMPLEX {
            let shifted = own - T::from_parts(first.re, first.im);
            let scale = shifted.pivot_size() + below.pivot_size();
            return if scale == 0.0 {
                [T::ZERO; 3]
            } else {
                [shifted.divided(scale), below.divided(scale), T::ZERO]
            };
        }
        let scale = (own.re() - second.re).abs() + second.im.abs() + below.re().abs();
        if scale == 0.0 {
            return [T::ZERO; 3];
        }
        let below = below.re() / scale;
        let of_shifts =
            (own.re() - first.re) * ((own.re() - second.re) / scale) - first.im * (second.im / scale);
        let v = [
            below * self.h.at(m, m + 1).re() + of_shifts,
            below * (own.re() + self.h.at(m + 1, m + 1).re() - first.re - second.re),
            below * self.h.at(m + 2, m + 1).re(),
        ];
        let size = v.iter().map(|v| v.abs()).sum::<f64>();
        v.map(|v| T::from_real(if size == 0.0 { v } else { v / size }))
    }

    /// One implicit step on the block from `start` to `last`.
    fn step(&mut self, start: usize, last: usize, shifts: [Complex<f64>; 2]) {
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
        size(m, m - 1) * rest <= f64::EPSILON * v[0].pivot_size() * around
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
        let columns = if self.q.matrix.is_some() { self.h.columns() } else { last + 1 };
        for j in k..columns {
            reflect_column(&mut self.h.column(j)[k..k + width], v, tau);
        }
        reflect_from_right(self.h.reborrow().block(0, k, [rows, width]), v, tau);
        self.q.push(Change::Reflection { first: k, width, v: *v, tau });
    }

    /// The eigenvalues of a block of two real rows. If they are real, a rotation makes the block triangular.
    fn split_pair(&mut self, k: usize) -> [Complex<f64>; 2] {
        let l = k + 1;
        let at = |i: usize, j: usize| complex(self.h.at(i, j));
        let (c, d) = (at(l, k).re, at(l, l));
        let [first, second] = pair_less_corner([at(k, k), at(k, l), at(l, k), d]);
        let values = [d + first, d + second];
        if first.im != 0.0 {
            return if first.im > 0.0 { values } else { [values[1], values[0]] };
        }
        // The eigenvector of the first value is `(first, c)`.
        let z = first.re;
        let scale = z.abs().max(c.abs());
        let (z, c) = (z / scale, c / scale);
        let length = z.hypot(c);
        let (cosine, sine) = (z / length, c / length);
        for j in k..self.h.columns() {
            let (x, y) = (self.h.at(k, j), self.h.at(l, j));
            self.h.set(k, j, x.scaled(cosine) + y.scaled(sine));
            self.h.set(l, j, y.scaled(cosine) - x.scaled(sine));
        }
        rotate_from_right(&mut self.h.reborrow().block(0, k, [l + 1, 2]), cosine, sine);
        self.q.push(Change::Rotation { first: k, cosine, sine });
        self.h.set(k, k, T::from_real(values[0].re));
        self.h.set(l, l, T::from_real(values[1].re));
        self.h.set(l, k, T::ZERO);
        values
    }
}

/// What is multiplied to some columns of the basis from the right.
#[derive(Clone, Copy)]
enum Change<T> {
    Reflection { first: usize, width: usize, v: [T; 3], tau: T },
    Rotation { first: usize, cosine: f64, sine: f64 },
}

/// The basis of a Schur form, if it is computed. Its rows are independent, so changes are collected, and then applied to as many rows at
/// once as fit the cache, by several threads.
pub(crate) struct Basis<'a, T> {
    matrix: Option<MatrixMut<'a, T>>,
    waiting: Vec<Change<T>>,
}

impl<'a, T: Field<Real = f64>> Basis<'a, T> {
    /// Rows of a panel.
    const PANEL: usize = 64;
    /// Changes for each column that are collected before they are applied.
    const COLLECTED: usize = 16;

    pub(crate) fn new(matrix: Option<MatrixMut<'a, T>>) -> Self {
        Self { matrix, waiting: Vec::new() }
    }

    fn push(&mut self, change: Change<T>) {
        let Some(matrix) = &self.matrix else { return };
        scratch::push(&mut self.waiting, change);
        if self.waiting.len() >= Self::COLLECTED * matrix.columns() {
            self.apply();
        }
    }

    /// Applies what is waiting.
    fn apply(&mut self) {
        let (Some(matrix), waiting) = (&mut self.matrix, &self.waiting) else { return };
        for_each_task(matrix.reborrow().panels(Self::PANEL), |mut panel| {
            with_processor_vectors(
                #[inline(always)]
                || change_panel(&mut panel, waiting),
            );
        });
        self.waiting.clear();
    }
}

#[inline(always)]
fn change_panel<T: Field<Real = f64>>(panel: &mut MatrixMut<'_, T>, changes: &[Change<T>]) {
    let rows = panel.rows();
    for change in changes {
        match *change {
            Change::Reflection { first, width, v, tau } => {
                reflect_from_right(panel.reborrow().block(0, first, [rows, width]), &v, tau);
            }
            Change::Rotation { first, cosine, sine } => {
                rotate_from_right(&mut panel.reborrow().block(0, first, [rows, 2]), cosine, sine);
            }
        }
    }
}

/// Rotates two columns.
#[inline(always)]
fn rotate_from_right<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, cosine: f64, sine: f64) {
    let (x, y) = a.two_columns(0, 1);
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (x.scaled(cosine) + y.scaled(sine), y.scaled(cosine) - x.scaled(sine));
    }
}

/// `x = H' x`, for the reflector `I - tau v v'` with `v[0] = 1`, of two or three elements.
#[inline(always)]
fn reflect_column<T: Field>(x: &mut [T], v: &[T; 3], tau: T) {
    match x {
        [x, y] => {
            let sum = tau.conj() * (*x + v[1].conj() * *y);
            (*x, *y) = (*x - sum, *y - sum * v[1]);
        }
        [x, y, z] => {
            let sum = tau.conj() * (*x + v[1].conj() * *y + v[2].conj() * *z);
            (*x, *y, *z) = (*x - sum, *y - sum * v[1], *z - sum * v[2]);
        }
        _ => {}
    }
}

/// `a = a H`, for a matrix of two or three columns.
#[inline(always)]
fn reflect_from_right<T: Field>(a: MatrixMut<'_, T>, v: &[T; 3], tau: T) {
    let (mut first, rest) = a.split_columns(1);
    let (mut second, mut third) = rest.split_columns(1);
    let pairs = first.column(0).iter_mut().zip(second.column(0));
    let factors = [tau, tau * v[1].conj(), tau * v[2].conj()];
    if third.columns() == 0 {
        for (x, y) in pairs {
            let sum = *x + *y * v[1];
            (*x, *y) = (*x - sum * factors[0], *y - sum * factors[1]);
        }
        return;
    }
    for ((x, y), z) in pairs.zip(third.column(0)) {
        let sum = *x + *y * v[1] + *z * v[2];
        (*x, *y, *z) = (*x - sum * factors[0], *y - sum * factors[1], *z - sum * factors[2]);
    }
}
