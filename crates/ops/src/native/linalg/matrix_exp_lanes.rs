//! The exponential of small matrices, one in each lane: what `matrix_exp` composes of operators for larger ones.

use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, scratch};
use flambeau_core::Result;
use std::array::from_fn;

/// The numerator's coefficients; those of the denominator have alternating signs.
pub(super) const COEFFICIENTS: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];

/// The norm up to which the approximant is right to rounding errors of f64.
const LARGEST_NORM: f64 = 5.371_920_351_148_152;

/// Rows up to which matrices are computed so.
pub(super) const LARGEST: i64 = 8;
/// Matrices that are computed at a time.
const LANES: usize = 8;
/// Products of matrices that an exponential takes, at least.
const PRODUCTS: usize = 8;

/// The elements of the same index of so many matrices.
type Lane = [f64; LANES];

/// The exponential of each of the contiguous matrices of `n` rows, in f64.
pub(super) fn exponentials(name: &str, matrices: &Tensor, n: usize) -> Result<Tensor> {
    let made = TensorSpec::like(matrices, matrices.sizes()).allocate(name)?;
    with_slices(name, &[matrices], &[&made], |s| {
        let from = s.read::<f64>(0)?;
        let grain = GRAIN / (n * n * n * PRODUCTS);
        fill_chunks(s.write::<f64>(0)?, n * n, grain, |range, to| {
            let mut work = Work::new(n);
            let length = n * n * LANES;
            for (from, to) in from[range].chunks(length).zip(to.chunks_mut(length)) {
                with_processor_vectors(
                    #[inline(always)]
                    || work.run(from, to),
                );
            }
        });
        Ok(())
    })?;
    Ok(made)
}

/// How often to halve a matrix of this norm.
pub(super) fn squarings_for(norm: f64) -> f64 {
    if norm.is_finite() && norm > LARGEST_NORM { (norm / LARGEST_NORM).log2().ceil() } else { 0.0 }
}

/// Matrices of `n` rows that the computation of one group needs.
struct Work {
    n: usize,
    a: Vec<Lane>,
    /// The second, fourth and sixth power of `a`.
    powers: [Vec<Lane>; 3],
    even: Vec<Lane>,
    odd: Vec<Lane>,
    product: Vec<Lane>,
}

impl Work {
    fn new(n: usize) -> Self {
        let new = || scratch::filled([0.0; LANES], n * n);
        Work { n, a: new(), powers: from_fn(|_| new()), even: new(), odd: new(), product: new() }
    }

    /// Writes the exponentials of up to `LANES` matrices. Lanes without one are 0.
    #[inline(always)]
    fn run(&mut self, from: &[f64], to: &mut [f64]) {
        let (n, size) = (self.n, self.n * self.n);
        self.a.fill([0.0; LANES]);
        for (lane, matrix) in from.chunks_exact(size).enumerate() {
            for (to, x) in self.a.iter_mut().zip(matrix) {
                to[lane] = *x;
            }
        }
        let squarings = largest_sums(&self.a, n).map(squarings_for);
        let factors = squarings.map(|count| if count > 0.0 { (-count).exp2() } else { 1.0 });
        for x in &mut self.a {
            *x = from_fn(|l| x[l] * factors[l]);
        }
        self.approximant();
        let most = squarings.iter().copied().fold(0.0, f64::max) as usize;
        for step in 0..most {
            multiply(n, &self.even, &self.even, &mut self.product);
            // A matrix that is done stays as it is, so that it has the same bits beside any others.
            for (x, square) in self.even.iter_mut().zip(&self.product) {
                *x = from_fn(|l| if squarings[l] > step as f64 { square[l] } else { x[l] });
            }
        }
        for (lane, matrix) in to.chunks_exact_mut(size).enumerate() {
            for (to, x) in matrix.iter_mut().zip(&self.even) {
                *to = x[lane];
            }
        }
    }

    /// The quotient of polynomials, in `even`.
    #[inline(always)]
    fn approximant(&mut self) {
        let Work { n, a, powers: [a2, a4, a6], even, odd, product } = self;
        let n = *n;
        multiply(n, a, a, a2);
        multiply(n, a2, a2, a4);
        multiply(n, a4, a2, a6);
        let powers = [&a2[..], a4, a6];
        // The even part, and the odd one divided by `a`.
        for (parity, part) in [(0, &mut *even), (1, &mut *odd)] {
            let c = |k: usize| COEFFICIENTS[k + parity];
            combine(powers, [c(8), c(10), c(12)], product);
            multiply(n, a6, product, part);
            combine(powers, [c(2), c(4), c(6)], product);
            for (i, (x, low)) in part.iter_mut().zip(&*product).enumerate() {
                let one = if i % (n + 1) == 0 { c(0) } else { 0.0 };
                *x = from_fn(|l| x[l] + low[l] + one);
            }
        }
        multiply(n, a, odd, product);
        for ((even, odd), product) in even.iter_mut().zip(odd.iter_mut()).zip(&*product) {
            *odd = from_fn(|l| even[l] - product[l]);
            *even = from_fn(|l| even[l] + product[l]);
        }
        solve(n, odd, even);
    }
}

/// The largest sum of magnitudes of a column of each matrix; infinite or NaN if an element is.
#[inline(always)]
fn largest_sums(a: &[Lane], n: usize) -> Lane {
    let mut largest = [0.0; LANES];
    for j in 0..n {
        let mut sum: Lane = [0.0; LANES];
        for row in a.chunks_exact(n) {
            sum = from_fn(|l| sum[l] + row[j][l].abs());
        }
        largest = from_fn(|l| if sum[l] > largest[l] || sum[l].is_nan() { sum[l] } else { largest[l] });
    }
    largest
}

/// `to = a b`.
#[inline(always)]
fn multiply(n: usize, a: &[Lane], b: &[Lane], to: &mut [Lane]) {
    for (a, to) in a.chunks_exact(n).zip(to.chunks_exact_mut(n)) {
        for (j, to) in to.iter_mut().enumerate() {
            let mut sum = [0.0; LANES];
            for (x, b) in a.iter().zip(b.chunks_exact(n)) {
                sum = from_fn(|l| sum[l] + x[l] * b[j][l]);
            }
            *to = sum;
        }
    }
}

/// The sum of multiples of three matrices.
#[inline(always)]
fn combine([a, b, c]: [&[Lane]; 3], factors: [f64; 3], to: &mut [Lane]) {
    for (((a, b), c), to) in a.iter().zip(b).zip(c).zip(to) {
        *to = from_fn(|l| a[l] * factors[0] + b[l] * factors[1] + c[l] * factors[2]);
    }
}

/// Overwrites the right sides with the solutions, by elimination with row exchanges, and `a` with anything.
#[inline(always)]
fn solve(n: usize, a: &mut [Lane], right: &mut [Lane]) {
    for k in 0..n {
        for i in k + 1..n {
            let is_larger: [bool; LANES] = from_fn(|l| a[i * n + k][l].abs() > a[k * n + k][l].abs());
            for j in 0..n {
                exchange(is_larger, a, [i * n + j, k * n + j]);
                exchange(is_larger, right, [i * n + j, k * n + j]);
            }
        }
        for i in k + 1..n {
            let (x, pivot) = (a[i * n + k], a[k * n + k]);
            let factor = from_fn(|l| x[l] / pivot[l]);
            for j in 0..n {
                subtract(factor, a, [k * n + j, i * n + j]);
                subtract(factor, right, [k * n + j, i * n + j]);
            }
        }
    }
    for k in (0..n).rev() {
        let pivot = a[k * n + k];
        for j in 0..n {
            for i in k + 1..n {
                let (factor, from) = (a[k * n + i], right[i * n + j]);
                let x = &mut right[k * n + j];
                *x = from_fn(|l| x[l] - factor[l] * from[l]);
            }
            let x = &mut right[k * n + j];
            *x = from_fn(|l| x[l] / pivot[l]);
        }
    }
}

/// Exchanges two elements in some lanes.
#[inline(always)]
fn exchange(lanes: [bool; LANES], all: &mut [Lane], [i, k]: [usize; 2]) {
    let (x, y) = (all[i], all[k]);
    all[i] = from_fn(|l| if lanes[l] { y[l] } else { x[l] });
    all[k] = from_fn(|l| if lanes[l] { x[l] } else { y[l] });
}

/// Subtracts a multiple of one element from another.
#[inline(always)]
fn subtract(factor: Lane, all: &mut [Lane], [from, to]: [usize; 2]) {
    let (x, y) = (all[from], all[to]);
    all[to] = from_fn(|l| y[l] - factor[l] * x[l]);
}
