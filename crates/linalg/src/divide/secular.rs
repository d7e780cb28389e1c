//! The secular equation `1 + sum of w_j^2 / (p_j - x) = 0`, of which one root lies right of each pole.
//!
//! A root is stored as its distance from the nearer of its two poles, so that its distances from all poles are known to a few rounding
//! errors each. Weights that are computed anew from these distances make the vectors orthogonal: Gu and Eisenstat, "A stable and
//! efficient algorithm for the rank-one modification of the symmetric eigenproblem" (1994). The iteration interpolates by rational
//! functions with two poles: Li, "Solving secular equations stably and efficiently" (1993).

use crate::scaling::Failure;
use flambeau_gemm::scratch;
use flambeau_parallel::for_each_task;
use flambeau_vectorized::with_processor_vectors;

/// Evaluations after which a root is given up, more than bisection needs.
const EVALUATIONS: usize = 200;
/// Evaluations after which an interval is only bisected: three to five suffice.
const INTERPOLATIONS: usize = 30;
/// Roots, or weights, that a thread computes at a time.
const CHUNK: usize = 64;
/// Half of the distance from 1 to the next number.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A secular equation. Poles are `points`, in ascending order, or their squares.
#[derive(Clone, Copy)]
pub(crate) struct Equation<'a> {
    pub(crate) points: &'a [f64],
    pub(crate) weights: &'a [f64],
    pub(crate) squared: bool,
}

/// A root: a pole, and the distance from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root {
    pole: usize,
    offset: f64,
}

/// An interval `low < x < high` with the root in it, in distances from a pole.
#[derive(Clone, Copy)]
struct Interval {
    low: f64,
    high: f64,
}

impl Interval {
    fn contains(self, x: f64) -> bool {
        self.low < x && x < self.high
    }

    /// A number in the middle of the exponents where the ends differ much, so that few steps find any magnitude.
    fn middle(self) -> f64 {
        let sign = if self.low < 0.0 { -1.0 } else { 1.0 };
        let (small, large) = (self.low.abs().min(self.high.abs()), self.low.abs().max(self.high.abs()));
        if small == 0.0 {
            sign * large * 1e-6
        } else if large > 4.0 * small {
            sign * small.sqrt() * large.sqrt()
        } else {
            sign * (small + (large - small) / 2.0)
        }
    }

    /// Whether its ends are neighbours, but for a rounding error.
    fn is_tight(self) -> bool {
        self.high - self.low <= 2.0 * UNIT * self.low.abs().max(self.high.abs())
    }
}

/// The sums of an equation at a point, over the poles to the left and to the right of a gap: of terms, and of their derivatives.
#[derive(Clone, Copy)]
struct Sums {
    terms: [f64; 2],
    slopes: [f64; 2],
}

impl Sums {
    fn value(&self) -> f64 {
        1.0 + (self.terms[0] + self.terms[1])
    }

    fn slope(&self) -> f64 {
        self.slopes[0] + self.slopes[1]
    }

    /// Whether the value at `x` is within its rounding errors.
    fn is_zero(&self, x: f64) -> bool {
        let size = self.terms[0].abs() + self.terms[1].abs();
        self.value().abs() <= UNIT * (8.0 * size + 1.0 + x.abs() * self.slope())
    }
}

/// The two poles between which a function is interpolated, in distances from the root's pole. For the last root both are left of it.
#[derive(Clone, Copy)]
struct Gap {
    left: usize,
    distances: [f64; 2],
    squares: [f64; 2],
    /// Which of the two poles the distances are from.
    nearer: usize,
    is_last: bool,
}

impl Gap {
    /// The root of `c x^2 - a x + b` that lies between the poles, or right of both.
    fn root(&self, [a, b, c]: [f64; 3]) -> f64 {
        let root = (a * a - 4.0 * b * c).max(0.0).sqrt();
        let (plain, root) = if self.is_last { (a >= 0.0, root) } else { (a <= 0.0, -root) };
        if plain { (a + root) / (2.0 * c) } else { 2.0 * b / (a - root) }
    }

    /// The root of the equation whose other terms are the constant `c`.
    fn first_guess(&self, c: f64) -> f64 {
        let ([l, r], [wl, wr]) = (self.distances, self.squares);
        self.root([c * (l + r) + wl + wr, c * l * r + wl * r + wr * l, c])
    }

    /// A better approximation than `x`. The nearer pole keeps its weight, or else both are fitted to the slopes.
    fn next(&self, x: f64, sums: &Sums, fitted: bool) -> f64 {
        let [l, r] = self.distances.map(|distance| distance - x);
        let (value, slope) = (sums.value(), sums.slope());
        let c = if self.is_last {
            (value - l * sums.slopes[0] - r * sums.slopes[1]).abs()
        } else if fitted {
            value - l * sums.slopes[0] - r * sums.slopes[1]
        } else if self.nearer == 0 {
            value - r * slope + (r - l) * (self.squares[0] / (l * l))
        } else {
            value - l * slope + (l - r) * (self.squares[1] / (r * r))
        };
        x + self.root([(l + r) * value - l * r * slope, l * r * value, c])
    }
}

impl Equation<'_> {
    /// All roots, in ascending order.
    pub(crate) fn solve(&self) -> Result<Vec<Root>, Failure> {
        let n = self.points.len();
        let mut roots = scratch::filled(None, n);
        let total: f64 = self.weights.iter().map(|w| w * w).sum();
        let solve = |(number, roots): (usize, &mut [Option<Root>])| {
            let mut distances = scratch::filled(0.0, n);
            for (i, root) in roots.iter_mut().enumerate() {
                with_processor_vectors(
                    #[inline(always)]
                    || *root = self.root(number * CHUNK + i, total, &mut distances),
                );
            }
        };
        for_chunks(&mut roots, solve);
        let missing = roots.iter().filter(|root| root.is_none()).count();
        if missing > 0 {
            Err(Failure::NotConverged(missing))
        } else {
            Ok(scratch::collect(roots.into_iter().flatten()))
        }
    }

    /// The distance of a pole from another one.
    #[inline(always)]
    fn distance(&self, of: f64, from: f64) -> f64 {
        if self.squared { (of - from) * (of + from) } else { of - from }
    }

    /// The distances of all poles from one.
    #[inline(always)]
    fn fill(&self, pole: usize, distances: &mut [f64]) {
        let from = self.points[pole];
        for (distance, point) in distances.iter_mut().zip(self.points) {
            *distance = self.distance(*point, from);
        }
    }

    #[inline(always)]
    fn root(&self, index: usize, total: f64, distances: &mut [f64]) -> Option<Root> {
        let n = self.points.len();
        if n == 1 {
            return Some(Root { pole: 0, offset: total });
        }
        let is_last = index + 1 == n;
        let left = index.min(n - 2);
        let squares = [self.weights[left], self.weights[left + 1]].map(|w| w * w);
        self.fill(index, distances);
        let middle = if is_last { total / 2.0 } else { distances[index + 1] / 2.0 };
        let sums = self.sums(distances, left, middle);
        let constant = sums.value()
            - squares[0] / (distances[left] - middle)
            - squares[1] / (distances[left + 1] - middle);
        let (pole, mut interval) = match (is_last, sums.value() >= 0.0) {
            (_, true) => (index, Interval { low: 0.0, high: middle }),
            (true, false) => (index, Interval { low: middle, high: total * (1.0 + 4.0 * f64::EPSILON) }),
            (false, false) => (index + 1, Interval { low: -middle, high: 0.0 }),
        };
        if pole != index {
            self.fill(pole, distances);
        }
        let gap = Gap {
            left,
            distances: [distances[left], distances[left + 1]],
            squares,
            nearer: pole - left,
            is_last,
        };
        let offset = self.iterate(&gap, distances, gap.first_guess(constant), &mut interval)?;
        Some(Root { pole, offset })
    }

    /// Improves `x` until it is the root, which lies in `interval`.
    #[inline(always)]
    fn iterate(&self, gap: &Gap, distances: &[f64], x: f64, interval: &mut Interval) -> Option<f64> {
        let mut x = if interval.contains(x) { x } else { interval.middle() };
        let (mut fitted, mut before) = (false, f64::INFINITY);
        for count in 0..EVALUATIONS {
            let sums = self.sums(distances, gap.left, x);
            let value = sums.value();
            if sums.is_zero(x) {
                return Some(x);
            }
            *(if value < 0.0 { &mut interval.low } else { &mut interval.high }) = x;
            fitted ^= value.abs() > 0.1 * before;
            before = value.abs();
            let next = gap.next(x, &sums, fitted);
            if (next - x).abs() <= UNIT * x.abs() || interval.is_tight() {
                return Some(x);
            }
            x = if count < INTERPOLATIONS && interval.contains(next) { next } else { interval.middle() };
        }
        None
    }

    #[inline(always)]
    fn sums(&self, distances: &[f64], left: usize, x: f64) -> Sums {
        let (before, after) = distances.split_at(left + 1);
        let (weights_before, weights_after) = self.weights.split_at(left + 1);
        let ([term, slope], [other_term, other_slope]) =
            (sums_of_terms(before, weights_before, x), sums_of_terms(after, weights_after, x));
        Sums { terms: [term, other_term], slopes: [slope, other_slope] }
    }

    /// What a root stands for: itself, or the number of which it is the square.
    pub(crate) fn value(&self, root: Root) -> f64 {
        let point = self.points[root.pole];
        match (self.squared, root.offset == 0.0) {
            (false, _) => point + root.offset,
            (true, true) => point,
            // The difference of squares, divided by the sum.
            (true, false) => point + root.offset / (point + (point * point + root.offset).max(0.0).sqrt()),
        }
    }

    /// The distances of all poles from a root.
    #[inline(always)]
    pub(crate) fn distances(&self, root: Root, distances: &mut [f64]) {
        self.fill(root.pole, distances);
        distances.iter_mut().for_each(|distance| *distance -= root.offset);
    }

    /// The weights of the equation whose roots are exactly `roots`, by Löwner's formula.
    pub(crate) fn exact_weights(&self, roots: &[Root]) -> Vec<f64> {
        let mut weights = scratch::filled(1.0, roots.len());
        let compute = |(number, weights): (usize, &mut [f64])| {
            with_processor_vectors(
                #[inline(always)]
                || self.products(roots, number * CHUNK, weights),
            );
        };
        for_chunks(&mut weights, compute);
        for (weight, old) in weights.iter_mut().zip(self.weights) {
            *weight = weight.abs().sqrt().copysign(*old);
        }
        weights
    }

    /// The squares of the weights from number `first` on: the product of `(p_j - x_i) / (p_j - p_i)` over all roots `x_i`, where for
    /// `i = j` there is no divisor.
    #[inline(always)]
    fn products(&self, roots: &[Root], first: usize, products: &mut [f64]) {
        let own = &self.points[first..first + products.len()];
        for (i, root) in roots.iter().enumerate() {
            let Some(at) = i.checked_sub(first).filter(|at| *at < own.len()) else {
                self.multiply(products, own, *root, i);
                continue;
            };
            self.multiply(&mut products[..at], &own[..at], *root, i);
            self.multiply(&mut products[at + 1..], &own[at + 1..], *root, i);
            products[at] *= self.distance(own[at], self.points[root.pole]) - root.offset;
        }
    }

    /// Multiplies products by the quotients of root and pole `i`.
    #[inline(always)]
    fn multiply(&self, products: &mut [f64], own: &[f64], root: Root, i: usize) {
        let (base, pole) = (self.points[root.pole], self.points[i]);
        for (product, own) in products.iter_mut().zip(own) {
            *product *= (self.distance(*own, base) - root.offset) / self.distance(*own, pole);
        }
    }
}

/// Calls `f` with the number and the elements of each chunk.
fn for_chunks<T: Send>(items: &mut [T], f: impl Fn((usize, &mut [T])) + Sync) {
    let chunks = items.chunks_mut(CHUNK).enumerate();
    if chunks.len() < 4 { chunks.for_each(f) } else { for_each_task(scratch::collect(chunks), f) }
}

/// Sums in which terms are added: the lanes of a vector of f64.
const LANES: usize = 8;

/// The sums of `w^2 / (p - x)` and of their derivatives.
#[inline(always)]
fn sums_of_terms(distances: &[f64], weights: &[f64], x: f64) -> [f64; 2] {
    let (mut terms, mut slopes) = ([0.0; LANES], [0.0; LANES]);
    let (distances, weights) = (distances.chunks_exact(LANES), weights.chunks_exact(LANES));
    let (mut term, mut slope) = (0.0, 0.0);
    for (distance, weight) in distances.remainder().iter().zip(weights.remainder()) {
        let quotient = weight / (distance - x);
        term += weight * quotient;
        slope += quotient * quotient;
    }
    for (distances, weights) in distances.zip(weights) {
        for lane in 0..LANES {
            let quotient = weights[lane] / (distances[lane] - x);
            terms[lane] += weights[lane] * quotient;
            slopes[lane] += quotient * quotient;
        }
    }
    [term + sum(terms), slope + sum(slopes)]
}

#[inline(always)]
fn sum(mut lanes: [f64; LANES]) -> f64 {
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for lane in 0..count {
            lanes[lane] += lanes[lane + count];
        }
    }
    lanes[0]
}
