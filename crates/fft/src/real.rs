//! Transforms of real rows by complex ones of half the length.
//!
//! The real row x of length n = 2 m is the complex row z of length m with z[j] = x[2 j] + i x[2 j + 1], in the same memory. Its transform Z
//! has those of the even and of the odd elements in it: E[k] = (Z[k] + conj(Z[m - k])) / 2 and O[k] = (Z[k] - conj(Z[m - k])) / 2 i. The
//! transform of x is X[k] = E[k] + w^k O[k] with w = exp(-2 pi i / n), for k up to m. The inverse undoes these steps in reverse. Two real rows
//! are never transformed as one complex row, since a NaN or the size of one would reach the other.

use crate::cache;
use crate::error::{OutOfMemory, filled};
use crate::float::Float;
use crate::plan::Direction;
use std::f64::consts::TAU;
use std::sync::Arc;

type Pair<T> = [T; 2];

#[inline(always)]
fn conj<T: Float>(a: Pair<T>) -> Pair<T> {
    [a[0], -a[1]]
}

#[inline(always)]
fn add<T: Float>(a: Pair<T>, b: Pair<T>) -> Pair<T> {
    [a[0] + b[0], a[1] + b[1]]
}

#[inline(always)]
fn sub<T: Float>(a: Pair<T>, b: Pair<T>) -> Pair<T> {
    [a[0] - b[0], a[1] - b[1]]
}

#[inline(always)]
fn mul<T: Float>(a: Pair<T>, b: Pair<T>) -> Pair<T> {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

#[inline(always)]
fn half<T: Float>(a: Pair<T>) -> Pair<T> {
    [a[0] * T::HALF, a[1] * T::HALF]
}

/// `i a`.
#[inline(always)]
fn times_i<T: Float>(a: Pair<T>) -> Pair<T> {
    [-a[1], a[0]]
}

/// `a / i`.
#[inline(always)]
fn over_i<T: Float>(a: Pair<T>) -> Pair<T> {
    [a[1], -a[0]]
}

/// `exp(-2 pi i k / n)` for k below n / 4, which is all that pairs of elements need.
pub(crate) struct Twiddles<T>(Vec<Pair<T>>);

impl<T: Float> Twiddles<T> {
    /// The table of a length, from the cache if it is there.
    pub(crate) fn of(n: usize) -> Result<Arc<Self>, OutOfMemory> {
        cache::find_or_make(n, Direction::Forward, || {
            let table = table(n)?;
            let bytes = size_of_val(&table[..]);
            Ok((Twiddles(table), bytes))
        })
    }
}

/// Computed in f64 from the nearer end of the quadrant, so that all entries are correctly rounded or nearly so.
fn table<T: Float>(n: usize) -> Result<Vec<Pair<T>>, OutOfMemory> {
    let mut table = filled([T::ZERO; 2], n.div_ceil(4))?;
    for (k, entry) in table.iter_mut().enumerate() {
        let (sin, cos) = if 8 * k <= n {
            (TAU * k as f64 / n as f64).sin_cos()
        } else {
            let (sin, cos) = (TAU * (n - 4 * k) as f64 / (4.0 * n as f64)).sin_cos();
            (cos, sin)
        };
        *entry = [T::from_f64(cos), T::from_f64(-sin)];
    }
    Ok(table)
}

/// Elements from each end of a row that are computed together.
const WIDTH: usize = 8;

/// `WIDTH` complex numbers, parts apart, as vectors hold them.
#[derive(Clone, Copy)]
struct Parts<T>([T; WIDTH], [T; WIDTH]);

impl<T: Float> Parts<T> {
    #[inline(always)]
    fn of(number: impl Fn(usize) -> Pair<T>) -> Self {
        Parts(std::array::from_fn(|i| number(i)[0]), std::array::from_fn(|i| number(i)[1]))
    }

    /// One result for each of three numbers.
    #[inline(always)]
    fn map(self, b: Self, w: Self, f: impl Fn(Pair<T>, Pair<T>, Pair<T>) -> Pair<T>) -> Self {
        let at = |i: usize| f([self.0[i], self.1[i]], [b.0[i], b.1[i]], [w.0[i], w.1[i]]);
        Parts(std::array::from_fn(|i| at(i)[0]), std::array::from_fn(|i| at(i)[1]))
    }
}

/// Replaces elements k and m - k, for each k from 1 below m / 2, by the results of `f` for element k, the conjugate of element m - k, and
/// `w^k`: the first, and the conjugate of the second.
#[inline(always)]
fn from_both_ends<T: Float>(
    row: &mut [Pair<T>],
    twiddles: &Twiddles<T>,
    f: impl Fn(Pair<T>, Pair<T>, Pair<T>) -> [Pair<T>; 2],
) {
    let m = row.len() - 1;
    let (end, mut k) = (m.div_ceil(2), 1);
    while k + WIDTH <= end {
        let (front, back) = row.split_at_mut(m - k - WIDTH + 1);
        let (front, back) = (&mut front[k..k + WIDTH], &mut back[..WIDTH]);
        let factors = &twiddles.0[k..k + WIDTH];
        let a = Parts::of(|i| front[i]);
        let b = Parts::of(|i| conj(back[WIDTH - 1 - i]));
        let w = Parts::of(|i| factors[i]);
        let (low, high) = (a.map(b, w, |a, b, w| f(a, b, w)[0]), a.map(b, w, |a, b, w| f(a, b, w)[1]));
        for i in 0..WIDTH {
            front[i] = [low.0[i], low.1[i]];
            back[WIDTH - 1 - i] = [high.0[i], -high.1[i]];
        }
        k += WIDTH;
    }
    for k in k..end {
        let [low, high] = f(row[k], conj(row[m - k]), twiddles.0[k]);
        row[k] = low;
        row[m - k] = conj(high);
    }
}

/// From the transform Z of the pairs, the first m of m + 1 elements, makes that of the real row.
#[inline(always)]
pub(crate) fn split<T: Float>(row: &mut [Pair<T>], twiddles: &Twiddles<T>) {
    let m = row.len() - 1;
    let first = row[0];
    row[0] = [first[0] + first[1], T::ZERO];
    row[m] = [first[0] - first[1], T::ZERO];
    from_both_ends(
        row,
        twiddles,
        #[inline(always)]
        |a, b, w| {
            let even = half(add(a, b));
            let odd = mul(w, over_i(half(sub(a, b))));
            [add(even, odd), sub(even, odd)]
        },
    );
    if m.is_multiple_of(2) && m > 0 {
        row[m / 2] = conj(row[m / 2]);
    }
}

/// From the transform of a real row, m + 1 elements, makes in the first m elements that of the pairs, times 2: its backward transform has
/// the sums of the backward transform of length n. The imaginary parts of the first and the last element, which are 0 in a transform
/// of real numbers, are not read.
#[inline(always)]
pub(crate) fn merge<T: Float>(row: &mut [Pair<T>], twiddles: &Twiddles<T>) {
    let m = row.len() - 1;
    let (first, last) = (row[0][0], row[m][0]);
    row[0] = [first + last, first - last];
    from_both_ends(
        row,
        twiddles,
        #[inline(always)]
        |a, b, w| {
            let even = add(a, b);
            let odd = times_i(mul(conj(w), sub(a, b)));
            [add(even, odd), sub(even, odd)]
        },
    );
    if m.is_multiple_of(2) && m > 0 {
        let middle = conj(row[m / 2]);
        row[m / 2] = add(middle, middle);
    }
}

/// Fills the second half of the transform of a real row, which is the conjugate of the first in reverse.
#[inline(always)]
pub(crate) fn mirror<T: Float>(row: &mut [Pair<T>]) {
    let n = row.len();
    for k in n / 2 + 1..n {
        row[k] = conj(row[n - k]);
    }
}
