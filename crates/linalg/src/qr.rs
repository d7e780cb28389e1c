//! QR factorization by blocks of Householder reflectors, in LAPACK's format: `geqrf`, `orgqr` and `ormqr`.

use crate::columns::{WIDTH, dots};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::{Block, add_multiple, dot, reflector};
use crate::strips::{FEW as LANES, MOST_ROWS, OnStrips, overwrite_strips};
use flambeau_vectorized::with_processor_vectors;

/// Reflectors in a block.
const BLOCK: usize = 32;
/// Rows up to which a product of reflectors is computed without blocks.
const UNBLOCKED: usize = 40;
/// Columns and reflectors up to which the same is done for any number of rows: products of matrices, which threads share, would take
/// several times as long as to read the columns.
const FEW: usize = 4;
/// The same for matrices of at most [`SHORT`] rows, whose products threads would not share.
const SOME: usize = 8;
/// Rows for which [`SOME`] columns are computed without blocks.
const SHORT: usize = 4096;

/// Overwrites `a` with R, on and above the diagonal, and the vectors of the reflectors below it: `Q = H1 H2 .. Hk`.
pub fn qr<T: Field>(mut a: MatrixMut<'_, T>, tau: &mut [T]) {
    let (rows, columns) = (a.rows(), a.columns());
    assert!(tau.len() == rows.min(columns), "{} reflectors for {rows} x {columns}", tau.len());
    for (number, tau) in tau.chunks_mut(BLOCK).enumerate() {
        let (at, width) = (number * BLOCK, tau.len());
        let part = a.reborrow().block(at, at, [rows - at, columns - at]);
        let (mut panel, mut rest) = part.split_columns(width);
        factor_panel(&mut panel, tau);
        if rest.columns() > 0 {
            Block::new(&panel.view(), tau).apply(true, &mut rest);
        }
    }
}

fn factor_panel<T: Field>(panel: &mut MatrixMut<'_, T>, tau: &mut [T]) {
    with_processor_vectors(
        #[inline(always)]
        || {
            for (j, tau) in tau.iter_mut().enumerate() {
                let sizes = [panel.rows() - j, panel.columns() - j];
                let part = panel.reborrow().block(j, j, sizes);
                let (mut own, mut others) = part.split_columns(1);
                *tau = reflector(own.column(0));
                apply_adjoint_to_columns(&own.column(0)[1..], *tau, &mut others);
            }
        },
    );
}

/// `c = H' c`, for the reflector with `tail` after a 1.
#[inline(always)]
pub(crate) fn apply_adjoint<T: Field>(tail: &[T], tau: T, c: &mut [T]) {
    let Some((first, rest)) = c.split_first_mut() else { return };
    let factor = tau.conj() * (*first + dot(tail, rest));
    *first = *first - factor;
    add_multiple(rest, -factor, tail);
}

/// `a = H' a`, for the reflector with `tail` after a 1, four columns at a time.
#[inline(always)]
pub(crate) fn apply_adjoint_to_columns<T: Field>(tail: &[T], tau: T, a: &mut MatrixMut<'_, T>) {
    let columns = a.columns();
    let whole = columns / WIDTH * WIDTH;
    for j in (0..whole).step_by(WIDTH) {
        let view = a.view();
        let sums = dots([0, 1, 2, 3].map(|k| &view.column(j + k)[1..]), tail);
        for (k, sum) in sums.into_iter().enumerate() {
            let column = a.column(j + k);
            let factor = tau.conj() * (column[0] + sum.conj());
            column[0] = column[0] - factor;
            add_multiple(&mut column[1..], -factor, tail);
        }
    }
    (whole..columns).for_each(|j| apply_adjoint(tail, tau, a.column(j)));
}

/// Overwrites `a`, whose first columns hold the vectors of reflectors, with the first columns of their product.
pub fn householder_product<T: Field>(a: MatrixMut<'_, T>, tau: &[T]) {
    let (rows, columns, count) = (a.rows(), a.columns(), tau.len());
    assert!(count <= columns && columns <= rows, "{count} reflectors, {rows} x {columns}");
    let mut a = a;
    if (rows <= UNBLOCKED || are_few(rows, columns)) && a.is_column_major() {
        return with_processor_vectors(
            #[inline(always)]
            || multiply_one_by_one(&mut a, tau),
        );
    }
    let mut vectors = flambeau_gemm::scratch::filled(T::ZERO, rows * count);
    for (j, column) in vectors.chunks_exact_mut(rows.max(1)).enumerate() {
        column.copy_from_slice(a.column(j));
    }
    a.fill(T::ZERO);
    (0..columns).for_each(|j| a.set(j, j, T::ONE));
    let vectors = Matrix::new(&vectors, rows, count, rows);
    for (number, tau) in tau.chunks(BLOCK).enumerate().rev() {
        let at = number * BLOCK;
        let block = Block::new(&vectors.block(at, at, [rows - at, tau.len()]), tau);
        // The columns before are those of the identity, which the block leaves as they are.
        block.apply(false, &mut a.reborrow().block(at, at, [rows - at, columns - at]));
    }
}

/// Whether so many columns of `rows` elements, and as many reflectors, are too few for blocks.
fn are_few(rows: usize, columns: usize) -> bool {
    columns <= FEW || (columns <= SOME && rows <= SHORT)
}

/// [`householder_product`], a reflector at a time from the last to the first: the columns before are those of the identity.
#[inline(always)]
fn multiply_one_by_one<T: Field>(a: &mut MatrixMut<'_, T>, tau: &[T]) {
    let (rows, columns) = (a.rows(), a.columns());
    for j in tau.len()..columns {
        a.column(j).fill(T::ZERO);
        a.set(j, j, T::ONE);
    }
    for (j, tau) in tau.iter().enumerate().rev() {
        let part = a.reborrow().block(j, j, [rows - j, columns - j]);
        let (mut own, mut others) = part.split_columns(1);
        // The adjoint of the adjoint.
        apply_adjoint_to_columns(&own.column(0)[1..], tau.conj(), &mut others);
        let own = own.column(0);
        own[0] = T::ONE - *tau;
        own[1..].iter_mut().for_each(|x| *x = -*tau * *x);
        a.column(j)[..j].fill(T::ZERO);
    }
}

/// Overwrites `a`, whose columns hold the vectors of the reflectors from one row below the diagonal, with their product.
pub(crate) fn product_below_diagonal<T: Field>(a: &mut MatrixMut<'_, T>, tau: &[T]) {
    let n = a.rows();
    for j in (1..n).rev() {
        let (from, to) = a.two_columns(j - 1, j);
        to[1..].copy_from_slice(&from[1..]);
        to[0] = T::ZERO;
    }
    a.column(0).fill(T::ZERO);
    a.set(0, 0, T::ONE);
    if n > 1 {
        householder_product(a.reborrow().block(1, 1, [n - 1, n - 1]), tau);
    }
}

/// Overwrites `c` with `Q c` or, where `right`, with `c Q`, for `Q = H1 H2 .. Hk` of the reflectors in `vectors`; with `adjoint`, by
/// the adjoint of Q.
pub fn multiply_by_q<T: Field>(
    vectors: Matrix<'_, T>,
    tau: &[T],
    [right, adjoint]: [bool; 2],
    c: MatrixMut<'_, T>,
) {
    let (rows, columns, mut c) = (c.rows(), c.columns(), c);
    assert!(vectors.rows() == if right { columns } else { rows }, "reflectors of another length");
    let length = vectors.rows();
    let forward = right != adjoint;
    if tau.len() <= FEW && length <= MOST_ROWS {
        let (vectors, c) = from_left(vectors, right, c);
        let reflections = SmallReflections::new(&vectors, tau, [forward, adjoint]);
        return overwrite_strips(c, 2 * length * tau.len(), &reflections);
    }
    if are_few(length, tau.len().max(if right { rows } else { columns })) {
        let (vectors, mut c) = from_left(vectors, right, c.reborrow());
        if c.is_column_major() && vectors.is_column_major() {
            return apply_one_by_one(&vectors, tau, [forward, adjoint], &mut c);
        }
    }
    let blocks = tau.len().div_ceil(BLOCK);
    // `Q c` begins with the last reflector, `Q' c` and `c Q` with the first.
    for step in 0..blocks {
        let number = if forward { step } else { blocks - 1 - step };
        let at = number * BLOCK;
        let tau = &tau[at..(at + BLOCK).min(tau.len())];
        let block = Block::new(&vectors.block(at, at, [vectors.rows() - at, tau.len()]), tau);
        if right {
            block.apply_right(adjoint, c.reborrow().block(0, at, [rows, columns - at]));
        } else {
            block.apply(adjoint, &mut c.reborrow().block(at, 0, [rows - at, columns]));
        }
    }
}

/// The transpose of `c Q` where `right`, as a product from the left: `Q^T c^T`, and `H^T = I - tau conj(v) v^T`.
fn from_left<'v, 'c, T: Field>(
    vectors: Matrix<'v, T>,
    right: bool,
    c: MatrixMut<'c, T>,
) -> (Matrix<'v, T>, MatrixMut<'c, T>) {
    if right { (vectors.conjugated(), c.transposed()) } else { (vectors, c) }
}

/// Applies reflectors to columns one at a time.
fn apply_one_by_one<T: Field>(
    vectors: &Matrix<'_, T>,
    tau: &[T],
    [forward, adjoint]: [bool; 2],
    c: &mut MatrixMut<'_, T>,
) {
    let (rows, columns) = (c.rows(), c.columns());
    with_processor_vectors(
        #[inline(always)]
        || {
            for step in 0..tau.len() {
                let j = if forward { step } else { tau.len() - 1 - step };
                // The adjoint of the adjoint.
                let tau = if adjoint { tau[j] } else { tau[j].conj() };
                let mut part = c.reborrow().block(j, 0, [rows - j, columns]);
                apply_adjoint_to_columns(&vectors.column(j)[j + 1..], tau, &mut part);
            }
        },
    );
}

/// Reflectors of at most [`MOST_ROWS`] rows in the order in which they are applied.
struct SmallReflections<T> {
    /// The elements of each vector after the 1, which is that of row [`ones`](Self::ones).
    tails: [[T; MOST_ROWS]; MOST_ROWS],
    tau: [T; MOST_ROWS],
    ones: [usize; MOST_ROWS],
    count: usize,
}

impl<T: Field> SmallReflections<T> {
    fn new(vectors: &Matrix<'_, T>, tau: &[T], [forward, adjoint]: [bool; 2]) -> Self {
        let (rows, count) = (vectors.rows(), tau.len());
        assert!(count <= rows, "{count} reflectors of {rows} rows");
        let zeros = [T::ZERO; MOST_ROWS];
        let mut made = Self { tails: [zeros; MOST_ROWS], tau: zeros, ones: [0; MOST_ROWS], count };
        for step in 0..count {
            let j = if forward { step } else { count - 1 - step };
            made.ones[step] = j;
            made.tau[step] = if adjoint { tau[j].conj() } else { tau[j] };
            for (x, row) in made.tails[step].iter_mut().zip(j + 1..rows) {
                *x = vectors.at(row, j);
            }
        }
        made
    }
}

impl<T: Field> OnStrips<T> for SmallReflections<T> {
    #[inline(always)]
    fn run<const W: usize>(&self, x: &mut [[T; W]]) {
        for ((tail, tau), one) in self.tails.iter().zip(self.tau).zip(self.ones).take(self.count) {
            let Some((first, rest)) = x[one..].split_first_mut() else { continue };
            for (part, first) in first.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
                let mut sums = *first;
                for (v, row) in tail.iter().zip(&*rest) {
                    let (v, row) = (v.conj(), &row.as_chunks::<LANES>().0[part]);
                    for lane in 0..LANES {
                        sums[lane] = sums[lane] + v * row[lane];
                    }
                }
                for lane in 0..LANES {
                    sums[lane] = tau * sums[lane];
                    first[lane] = first[lane] - sums[lane];
                }
                for (v, row) in tail.iter().zip(&mut *rest) {
                    let row = &mut row.as_chunks_mut::<LANES>().0[part];
                    for lane in 0..LANES {
                        row[lane] = row[lane] - *v * sums[lane];
                    }
                }
            }
        }
    }
}
