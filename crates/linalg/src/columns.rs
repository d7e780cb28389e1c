//! Products of a vector and the columns of a matrix, four columns at a time, so that the vector is loaded and stored a quarter as often.

use crate::field::Field;
use crate::reflector::{add_multiple, dot};

/// Columns at a time.
pub(crate) const WIDTH: usize = 4;
/// Sums of one column: a vector of f64.
const LANES: usize = 8;

/// Some columns of the same length, adjacent in memory, that begin every `pitch` elements.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) pitch: usize,
    /// The first row that counts.
    pub(crate) from: usize,
}

impl<'a, T: Field> Columns<'a, T> {
    /// Rows of a column.
    #[inline(always)]
    pub(crate) fn rows(self, column: usize, length: usize) -> &'a [T] {
        &self.elements[column * self.pitch + self.from..][..length]
    }

    /// `y += sum of factors[j] * column j`.
    #[inline(always)]
    pub(crate) fn add_to(self, y: &mut [T], factors: &[T]) {
        let (whole, rest) = factors.as_chunks::<WIDTH>();
        for (number, factors) in whole.iter().enumerate() {
            let columns = [0, 1, 2, 3].map(|k| self.rows(number * WIDTH + k, y.len()));
            add_columns(y, columns, *factors);
        }
        for (k, factor) in rest.iter().enumerate() {
            add_multiple(y, *factor, self.rows(whole.len() * WIDTH + k, y.len()));
        }
    }

    /// Subtracts from `y` the products of the columns and the factors.
    #[inline(always)]
    pub(crate) fn subtract_from(self, y: &mut [T], factors: &mut [T]) {
        factors.iter_mut().for_each(|factor| *factor = -*factor);
        self.add_to(y, factors);
    }

    /// The sums of `conj(column j) * x`.
    #[inline(always)]
    pub(crate) fn dots(self, x: &[T], sums: &mut [T]) {
        let (whole, rest) = sums.as_chunks_mut::<WIDTH>();
        let done = whole.len() * WIDTH;
        for (number, sums) in whole.iter_mut().enumerate() {
            *sums = dots([0, 1, 2, 3].map(|k| self.rows(number * WIDTH + k, x.len())), x);
        }
        for (k, sum) in rest.iter_mut().enumerate() {
            *sum = dot(self.rows(done + k, x.len()), x);
        }
    }
}

/// Whole vectors of the columns, and the rest of their rows.
#[inline(always)]
fn in_lanes<'a, T>(columns: [&'a [T]; WIDTH], length: usize) -> [(&'a [[T; LANES]], &'a [T]); WIDTH] {
    columns.map(|column| column[..length].as_chunks::<LANES>())
}

/// `y += sum of factors[k] * columns[k]`.
#[inline(always)]
pub(crate) fn add_columns<T: Field>(y: &mut [T], columns: [&[T]; WIDTH], [f, g, h, k]: [T; WIDTH]) {
    let [a, b, c, d] = columns.map(|column| &column[..y.len()]);
    for ((((y, a), b), c), d) in y.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        *y = *y + ((f * *a + g * *b) + (h * *c + k * *d));
    }
}

/// The sums of `conj(columns[k]) * x`.
#[inline(always)]
pub(crate) fn dots<T: Field>(columns: [&[T]; WIDTH], x: &[T]) -> [T; WIDTH] {
    let columns = in_lanes(columns, x.len());
    let (x, x_rest) = x.as_chunks::<LANES>();
    let mut sums = [[T::ZERO; LANES]; WIDTH];
    let whole = columns.map(|column| &column.0[..x.len()]);
    for (at, x) in x.iter().enumerate() {
        for (sums, column) in sums.iter_mut().zip(whole) {
            for lane in 0..LANES {
                sums[lane] = sums[lane] + column[at][lane].conj() * x[lane];
            }
        }
    }
    let mut results = sums.map(sum);
    for (result, (_, rest)) in results.iter_mut().zip(columns) {
        for (a, x) in rest.iter().zip(x_rest) {
            *result = *result + a.conj() * *x;
        }
    }
    results
}

/// `y += sum of factors[k] * columns[k]`, and the sums of `conj(columns[k]) * x`, while the columns are read once.
#[inline(always)]
pub(crate) fn add_columns_and_dots<T: Field>(
    y: &mut [T],
    columns: [&[T]; WIDTH],
    factors: [T; WIDTH],
    x: &[T],
) -> [T; WIDTH] {
    let columns = in_lanes(columns, x.len());
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (y, y_rest) = y.as_chunks_mut::<LANES>();
    let mut sums = [[T::ZERO; LANES]; WIDTH];
    let [a, b, c, d] = columns.map(|column| &column.0[..x.len()]);
    let [f, g, h, k] = factors;
    for (at, (x, y)) in x.iter().zip(y).enumerate() {
        let (a, b, c, d) = (&a[at], &b[at], &c[at], &d[at]);
        for lane in 0..LANES {
            y[lane] = y[lane] + ((f * a[lane] + g * b[lane]) + (h * c[lane] + k * d[lane]));
            sums[0][lane] = sums[0][lane] + a[lane].conj() * x[lane];
            sums[1][lane] = sums[1][lane] + b[lane].conj() * x[lane];
            sums[2][lane] = sums[2][lane] + c[lane].conj() * x[lane];
            sums[3][lane] = sums[3][lane] + d[lane].conj() * x[lane];
        }
    }
    let mut results = sums.map(sum);
    for (at, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        let own = columns.map(|column| column.1[at]);
        *y = *y + ((f * own[0] + g * own[1]) + (h * own[2] + k * own[3]));
        for (result, own) in results.iter_mut().zip(own) {
            *result = *result + own.conj() * *x;
        }
    }
    results
}

#[inline(always)]
fn sum<T: Field>(mut lanes: [T; LANES]) -> T {
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for lane in 0..count {
            lanes[lane] = lanes[lane] + lanes[lane + count];
        }
    }
    lanes[0]
}
