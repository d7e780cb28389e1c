//! Eigenvalues and eigenvectors of Hermitian matrices: a reduction to a real tridiagonal matrix by reflectors, then implicit QL or QR
//! with Wilkinson's shift.

use crate::field::Field;
use crate::matrix::MatrixMut;
use crate::qr::product_below_diagonal;
use crate::reflector::{add_multiple, dot, reflector};
use crate::rotations::{Rotations, order_of};
use crate::scaling::{Failure, Scale, scale};
use flambeau_gemm::scratch;
use flambeau_vectorized::with_processor_vectors;

/// Sweeps for each eigenvalue after which the iteration is given up.
const SWEEPS: usize = 30;

/// The eigenvalues of a Hermitian matrix in ascending order, from its lower triangle. With `vectors`, `a` is overwritten with the
/// eigenvectors as columns, else with anything.
///
/// # Errors
/// [`Failure`]; `a` and `values` then hold anything.
pub fn hermitian<T: Field<Real = f64>>(
    mut a: MatrixMut<'_, T>,
    values: &mut [f64],
    vectors: bool,
) -> Result<(), Failure> {
    let n = a.rows();
    assert!(a.columns() == n && values.len() == n, "{n} eigenvalues of a square matrix");
    if n == 0 {
        return Ok(());
    }
    let factor = prepare(&mut a)?;
    let (mut off, mut tau) = (scratch::filled(0.0, n - 1), scratch::filled(T::ZERO, n - 1));
    tridiagonalize(&mut a, &mut off, &mut tau);
    (0..n).for_each(|j| values[j] = a.at(j, j).re());
    if vectors {
        product_below_diagonal(&mut a, &tau);
    }
    let mut rotations = Rotations::new(vectors.then_some(a));
    iterate(values, &mut off, &mut rotations)?;
    let order = order_of(values, false);
    rotations.finish(&order, &scratch::filled(false, n));
    let sorted = scratch::collect(order.iter().map(|from| values[*from]));
    values.copy_from_slice(&sorted);
    factor.undo(values);
    Ok(())
}

/// Clears what is not read, and scales the matrix if its numbers are extreme.
pub(crate) fn prepare<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>) -> Result<Scale, Failure> {
    clear_unread(a);
    scale(a)
}

/// What is above the diagonal and the imaginary parts on it are not read, so they must neither count as extreme nor as infinite.
fn clear_unread<T: Field>(a: &mut MatrixMut<'_, T>) {
    for j in 0..a.columns() {
        a.column(j)[..j].fill(T::ZERO);
        a.set(j, j, T::from_real(a.at(j, j).re()));
    }
}

/// Overwrites the lower triangle with a tridiagonal matrix, the vectors of the reflectors below its subdiagonal `off`: LAPACK's
/// `sytd2`.
fn tridiagonalize<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, off: &mut [f64], tau: &mut [T]) {
    with_processor_vectors(
        #[inline(always)]
        || reduce_columns(a, off, tau),
    );
}

#[inline(always)]
fn reduce_columns<T: Field<Real = f64>>(a: &mut MatrixMut<'_, T>, off: &mut [f64], tau: &mut [T]) {
    let n = a.rows();
    let (mut p, mut v) = (scratch::filled(T::ZERO, n), scratch::filled(T::ZERO, n));
    for k in 0..n - 1 {
        let length = n - 1 - k;
        let column = &mut a.column(k)[k + 1..];
        tau[k] = reflector(column);
        off[k] = column[0].re();
        if tau[k] == T::ZERO {
            continue;
        }
        let (v, p) = (&mut v[..length], &mut p[..length]);
        v.copy_from_slice(column);
        v[0] = T::ONE;
        let mut trailing = a.reborrow().block(k + 1, k + 1, [length, length]);
        multiply_hermitian(&mut trailing, v, p);
        p.iter_mut().for_each(|p| *p = *p * tau[k]);
        let shift = (tau[k].conj() * dot(v, p)).scaled(-0.5);
        add_multiple(p, shift, v);
        for j in 0..length {
            let (by_p, by_v) = (-v[j].conj(), -p[j].conj());
            let column = &mut trailing.column(j)[j..];
            for ((x, p), v) in column.iter_mut().zip(&p[j..]).zip(&v[j..]) {
                *x = *x + (*p * by_p + *v * by_v);
            }
        }
    }
}

/// `p = a v`, from the lower triangle.
#[inline(always)]
fn multiply_hermitian<T: Field>(a: &mut MatrixMut<'_, T>, v: &[T], p: &mut [T]) {
    p.fill(T::ZERO);
    for j in 0..v.len() {
        let below = &a.column(j)[j..];
        p[j] = p[j] + v[j].scaled(below[0].re()) + dot(&below[1..], &v[j + 1..]);
        add_multiple(&mut p[j + 1..], v[j], &below[1..]);
    }
}

/// A part `low..=high` of a tridiagonal matrix without zeros off the diagonal, and the end that is worked on.
#[derive(Clone, Copy)]
struct Part {
    low: usize,
    high: usize,
    /// From the upper end: QL in terms of rows from `high` up to `low`; else mirrored, which is QR.
    from_top: bool,
}

impl Part {
    /// Row `i`, counted from the end at which eigenvalues are found.
    fn row(self, i: usize) -> usize {
        if self.from_top { self.low + i } else { self.high - i }
    }

    /// The number of the element off the diagonal between rows `i` and `i + 1`, counted from the same end.
    fn between(self, i: usize) -> usize {
        if self.from_top { self.low + i } else { self.high - i - 1 }
    }
}

/// Makes the elements off the diagonal negligible.
fn iterate<T: Field<Real = f64>>(
    d: &mut [f64],
    e: &mut [f64],
    rotations: &mut Rotations<'_, T>,
) -> Result<(), Failure> {
    let (mut high, mut before) = (d.len() - 1, None::<Part>);
    let mut left = SWEEPS.saturating_mul(d.len());
    loop {
        while high > 0 && is_negligible(d, e, high - 1) {
            high -= 1;
        }
        if high == 0 {
            return Ok(());
        }
        let mut low = high - 1;
        while low > 0 && !is_negligible(d, e, low - 1) {
            low -= 1;
        }
        // An end is chosen for each part anew, but not within it: the smaller end first keeps small eigenvalues accurate.
        let known = before.filter(|old| old.low <= low && high <= old.high).map(|old| old.from_top);
        let part = Part { low, high, from_top: known.unwrap_or(d[low].abs() <= d[high].abs()) };
        before = Some(part);
        if left == 0 {
            return Err(Failure::NotConverged(e.iter().filter(|e| **e != 0.0).count()));
        }
        left -= 1;
        sweep(d, e, part, rotations);
    }
}

/// Whether an element off the diagonal is below the rounding errors of its neighbours; then it becomes 0.
fn is_negligible(d: &[f64], e: &mut [f64], i: usize) -> bool {
    let bound = f64::EPSILON / 2.0 * d[i].abs().sqrt() * d[i + 1].abs().sqrt() + 1e-154;
    let negligible = e[i].abs() <= bound;
    if negligible {
        e[i] = 0.0;
    }
    negligible
}

/// One implicit step with Wilkinson's shift: Parlett, "The symmetric eigenvalue problem" (1980), 8.12.
fn sweep<T: Field<Real = f64>>(d: &mut [f64], e: &mut [f64], part: Part, rotations: &mut Rotations<'_, T>) {
    let last = part.high - part.low;
    let (first, second) = (part.row(0), part.row(1));
    let half = (d[second] - d[first]) / (2.0 * e[part.between(0)]);
    let root = half.hypot(1.0).copysign(half);
    let mut g = d[part.row(last)] - d[first] + e[part.between(0)] / (half + root);
    let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
    for i in (0..last).rev() {
        let (row, next) = (part.row(i), part.row(i + 1));
        let (f, b) = (s * e[part.between(i)], c * e[part.between(i)]);
        let r = f.hypot(g);
        if i + 1 < last {
            e[part.between(i + 1)] = r;
        }
        if r == 0.0 {
            // The matrix has split here.
            d[next] -= p;
            return;
        }
        (s, c) = (f / r, g / r);
        g = d[next] - p;
        let t = (d[row] - g) * s + 2.0 * c * b;
        p = s * t;
        d[next] = g + p;
        g = c * t - b;
        rotations.rotate([next, row], c, s);
    }
    d[first] -= p;
    e[part.between(0)] = g;
}
