//! Factorizations and systems of all matrices of a batch, which lie one after another: small ones in lanes, others one by one.
//!
//! Which algorithm computes a matrix depends on its sizes alone, so it has the same bits alone as in a batch.

use crate::hermitian::prepare;
use crate::lanes::{InLanes, LARGEST, LARGEST_SPECTRAL, SpectralInLanes};
use crate::lu::restore_rows;
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::norm;
use crate::rotations::order_of;
use crate::scaling::{Failure, Scale, scale_to_range};
use crate::triangular::Triangular;
use crate::{System, exchange_rows};
use flambeau_gemm::scratch;
use std::ops::RangeInclusive;

/// How many matrices of these sizes should be given to a function at once.
pub fn batch_length(sizes: &[usize]) -> usize {
    if is_small(sizes) { 64 } else { 1 }
}

fn is_small(sizes: &[usize]) -> bool {
    sizes.iter().all(|size| (1..=LARGEST).contains(size))
}

/// [`cholesky`](crate::cholesky) of `n x n` matrices, with an `info` for each.
pub fn cholesky_batch<T: InLanes>(matrices: &mut [T], n: usize, info: &mut [i32]) {
    assert!(matrices.len() == info.len() * n * n, "a number for each matrix");
    info.fill(0);
    if is_small(&[n]) {
        return T::cholesky(matrices, n, info);
    }
    for (a, info) in chunks(matrices, n * n).zip(info) {
        *info = crate::cholesky(MatrixMut::new(a, n, n, n));
    }
}

/// [`lu`](crate::lu) of matrices, with pivots and an `info` for each.
pub fn lu_batch<T: InLanes>(
    matrices: &mut [T],
    [rows, columns]: [usize; 2],
    pivots: &mut [i32],
    info: &mut [i32],
    pivoting: bool,
) {
    let count = rows.min(columns);
    assert!(
        matrices.len() == info.len() * rows * columns && pivots.len() == info.len() * count,
        "pivots and a number for each matrix"
    );
    info.fill(0);
    if rows == columns && is_small(&[rows]) {
        return T::lu(matrices, rows, pivots, info, pivoting);
    }
    for ((a, pivots), info) in chunks(matrices, rows * columns).zip(chunks(pivots, count)).zip(info) {
        *info = crate::lu(MatrixMut::new(a, rows, columns, rows), pivots, pivoting);
    }
}

/// [`solve_factored`](crate::solve_factored) of systems with `columns` right sides each.
pub fn solve_factored_batch<T: InLanes>(
    factors: &[T],
    n: usize,
    pivots: &[i32],
    system: System,
    x: &mut [T],
    columns: usize,
) {
    let size = n * columns;
    assert!(
        factors.len() * columns == x.len() * n && pivots.len() * columns == x.len(),
        "factors and pivots for each right side"
    );
    if !is_small(&[n, columns]) {
        for (at, x) in chunks(x, size).enumerate() {
            let factors = Matrix::new(&factors[at * n * n..(at + 1) * n * n], n, n, n);
            let pivots = &pivots[at * n..(at + 1) * n];
            crate::solve_factored(factors, pivots, system, MatrixMut::new(x, n, columns, n));
        }
        return;
    }
    if system == System::Plain {
        for (x, pivots) in x.chunks_exact_mut(size).zip(pivots.chunks_exact(n)) {
            exchange_rows(&mut MatrixMut::new(x, n, columns, n), pivots);
        }
        return T::solve(factors, n, [false; 2], &[[false, true], [true, false]], x, columns);
    }
    // The transpose of a lower triangle is an upper one.
    let triangles = [[false, false], [true, true]];
    T::solve(factors, n, [true, system == System::Adjoint], &triangles, x, columns);
    for (x, pivots) in x.chunks_exact_mut(size).zip(pivots.chunks_exact(n)) {
        restore_rows(&mut MatrixMut::new(x, n, columns, n), pivots);
    }
}

/// [`Triangular::solve`] of systems with `columns` right sides each, for `n x n` matrices or, where `transposed`, their transposes.
pub fn solve_triangular_batch<T: InLanes>(
    matrices: &[T],
    n: usize,
    [upper, unit, transposed]: [bool; 3],
    x: &mut [T],
    columns: usize,
) {
    assert!(matrices.len() * columns == x.len() * n, "a matrix for each right side");
    if is_small(&[n, columns]) {
        let triangle = [upper != transposed, unit];
        return T::solve(matrices, n, [transposed, false], &[triangle], x, columns);
    }
    for (at, x) in chunks(x, n * columns).enumerate() {
        let matrix = Matrix::new(&matrices[at * n * n..(at + 1) * n * n], n, n, n);
        let a = Triangular { matrix, upper, unit };
        let a = if transposed { a.transposed() } else { a };
        a.solve(MatrixMut::new(x, n, columns, n));
    }
}

/// [`qr`](crate::qr) of matrices, with as many `tau` for each as the smaller size.
pub fn qr_batch<T: InLanes>(matrices: &mut [T], [rows, columns]: [usize; 2], tau: &mut [T]) {
    let count = rows.min(columns);
    assert!(matrices.len() * count == tau.len() * rows * columns, "reflectors for each matrix");
    if is_small(&[rows, columns]) {
        return T::qr(matrices, [rows, columns], tau);
    }
    for (a, tau) in chunks(matrices, rows * columns).zip(chunks(tau, count)) {
        crate::qr(MatrixMut::new(a, rows, columns, rows), tau);
    }
}

/// [`householder_product`](crate::householder_product) of matrices, of `count` reflectors each.
pub fn householder_product_batch<T: InLanes>(
    matrices: &mut [T],
    [rows, columns]: [usize; 2],
    tau: &[T],
    count: usize,
) {
    assert!(matrices.len() * count == tau.len() * rows * columns, "reflectors for each matrix");
    assert!(count <= columns && columns <= rows, "{count} reflectors, {rows} x {columns}");
    if is_small(&[rows, columns, count]) {
        return T::householder_product(matrices, [rows, columns], tau, count);
    }
    for (at, a) in chunks(matrices, rows * columns).enumerate() {
        let tau = &tau[at * count..(at + 1) * count];
        crate::householder_product(MatrixMut::new(a, rows, columns, rows), tau);
    }
}

/// [`hermitian`](crate::hermitian) of `n x n` matrices, with `n` values and a result for each.
pub fn hermitian_batch<T: SpectralInLanes>(
    matrices: &mut [T],
    n: usize,
    values: &mut [f64],
    vectors: bool,
    results: &mut [Result<(), Failure>],
) {
    assert!(
        matrices.len() == results.len() * n * n && values.len() == results.len() * n,
        "values and a result for each matrix"
    );
    if !(1..=LARGEST_SPECTRAL).contains(&n) {
        for ((a, values), result) in chunks(matrices, n * n).zip(chunks(values, n)).zip(results) {
            *result = crate::hermitian(MatrixMut::new(a, n, n, n), values, vectors);
        }
        return;
    }
    let mut scales = scratch::filled(Scale::NONE, results.len());
    for ((a, result), factor) in chunks(matrices, n * n).zip(&mut *results).zip(&mut scales) {
        *result = prepare(&mut MatrixMut::new(a, n, n, n)).map(|made| *factor = made);
        if result.is_err() {
            a.fill(T::ZERO);
        }
    }
    let mut made = scratch::filled(T::ZERO, if vectors { matrices.len() } else { 0 });
    T::jacobi(matrices, n, &mut made, results);
    for (at, (values, factor)) in chunks(values, n).zip(scales).enumerate() {
        let a = &mut matrices[at * n * n..(at + 1) * n * n];
        let found = scratch::collect(a.iter().step_by(n + 1).map(|x| factor.undone(x.re())));
        for (to, from) in order_of(&found, false).into_iter().enumerate() {
            values[to] = found[from];
            if vectors {
                let from = &made[(at * n + from) * n..][..n];
                a[to * n..(to + 1) * n].copy_from_slice(from);
            }
        }
    }
}

/// Left vectors, how many each matrix has, and right vectors.
pub type SingularVectors<'a, T> = (&'a mut [T], usize, &'a mut [T]);

/// [`svd`](crate::svd) of matrices with at least as many rows as columns, with values and a result for each.
pub fn svd_batch<T: SpectralInLanes>(
    matrices: &mut [T],
    [rows, columns]: [usize; 2],
    values: &mut [f64],
    mut vectors: Option<SingularVectors<'_, T>>,
    results: &mut [Result<(), Failure>],
) {
    assert!(
        matrices.len() == results.len() * rows * columns && values.len() == results.len() * columns,
        "values and a result for each matrix"
    );
    results.fill(Ok(()));
    let before = if has_small_svd([rows, columns], vectors.as_ref().map(|vectors| vectors.1)) {
        scratch::to_vec(matrices)
    } else {
        scratch::with_capacity(0)
    };
    let mut rotated =
        scratch::filled(T::ZERO, if vectors.is_some() { results.len() * columns * columns } else { 0 });
    let mut scales = scratch::filled(Scale::NONE, results.len());
    if !before.is_empty() {
        for ((a, result), factor) in chunks(matrices, rows * columns).zip(&mut *results).zip(&mut scales) {
            let mut a = MatrixMut::new(a, rows, columns, rows);
            *result = scale_to_range(&mut a, &FOURTH_POWERS).map(|made| *factor = made);
            if result.is_err() {
                a.fill(T::ZERO);
            }
        }
        T::hestenes(matrices, [rows, columns], &mut rotated, results);
    }
    for (at, (a, values)) in chunks(matrices, rows * columns).zip(chunks(values, columns)).enumerate() {
        let own = vectors.as_mut().map(|(left, width, right)| {
            let (size, square) = (rows * *width, columns * columns);
            (&mut left[at * size..(at + 1) * size], *width, &mut right[at * square..(at + 1) * square])
        });
        if results[at] == Err(Failure::NotFinite) {
            continue;
        }
        if !before.is_empty() {
            let rotated = rotated.get(at * columns * columns..).unwrap_or_default();
            let found = SmallSvd { a, rows, rotated, factor: scales[at] };
            if results[at].is_ok() && found.has_full_rank() {
                found.finish(values, own);
                continue;
            }
            a.copy_from_slice(&before[at * rows * columns..(at + 1) * rows * columns]);
        }
        let own = own.map(|(left, width, right)| {
            (MatrixMut::new(left, rows, width, rows), MatrixMut::new(right, columns, columns, columns))
        });
        results[at] = crate::svd(MatrixMut::new(a, rows, columns, rows), values, own);
    }
}

/// Whether matrices of these sizes, with as many left vectors, are decomposed in lanes.
fn has_small_svd([rows, columns]: [usize; 2], width: Option<usize>) -> bool {
    (1..=LARGEST_SPECTRAL).contains(&columns) && rows <= LARGEST && width.is_none_or(|width| width == columns)
}

/// Orthogonal columns, and the rotations that made them so.
struct SmallSvd<'a, T> {
    a: &'a [T],
    rows: usize,
    rotated: &'a [T],
    factor: Scale,
}

impl<T: SpectralInLanes> SmallSvd<'_, T> {
    fn norms(&self) -> impl Iterator<Item = f64> {
        self.a.chunks_exact(self.rows).map(norm)
    }

    /// Whether each column has a direction: otherwise others have to be found that are orthogonal.
    fn has_full_rank(&self) -> bool {
        let largest = self.norms().fold(0.0, f64::max);
        self.norms().all(|norm| norm > VANISHING * largest)
    }

    /// Writes values in descending order, and the vectors.
    fn finish(&self, values: &mut [f64], vectors: Option<SingularVectors<'_, T>>) {
        let norms = scratch::collect(self.norms());
        let order = order_of(&norms, true);
        values.iter_mut().zip(&order).for_each(|(value, from)| *value = self.factor.undone(norms[*from]));
        let (Some((left, _, right)), columns) = (vectors, norms.len()) else { return };
        for (to, from) in left.chunks_exact_mut(self.rows).zip(&order) {
            let column = &self.a[from * self.rows..(from + 1) * self.rows];
            to.iter_mut().zip(column).for_each(|(to, x)| *to = x.divided(norms[*from]));
        }
        for (to, from) in right.chunks_exact_mut(columns).zip(&order) {
            to.copy_from_slice(&self.rotated[from * columns..(from + 1) * columns]);
        }
    }
}

/// Magnitudes of which the fourth powers, also those of columns that [`VANISHING`] barely admits, are far from the ends of the range.
const FOURTH_POWERS: RangeInclusive<f64> = 1e-6..=1e30;
/// A singular value that is taken to be 0, in units of the largest one.
const VANISHING: f64 = 1e-60;

/// The parts of a slice, none of a slice without elements.
fn chunks<T>(slice: &mut [T], size: usize) -> std::slice::ChunksExactMut<'_, T> {
    slice.chunks_exact_mut(size.max(1))
}
