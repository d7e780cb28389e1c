//! QR factorization by blocks of Householder reflectors, in LAPACK's format: `geqrf`, `orgqr` and `ormqr`.

use crate::columns::{WIDTH, dots};
use crate::field::Field;
use crate::matrix::{Matrix, MatrixMut};
use crate::reflector::{Block, add_multiple, dot, reflector};
use flambeau_vectorized::with_processor_vectors;

/// Reflectors in a block.
const BLOCK: usize = 32;
/// Rows up to which a product of reflectors is computed without blocks.
const UNBLOCKED: usize = 40;

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
    if rows <= UNBLOCKED && a.is_column_major() {
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
    mut c: MatrixMut<'_, T>,
) {
    let (rows, columns) = (c.rows(), c.columns());
    assert!(vectors.rows() == if right { columns } else { rows }, "reflectors of another length");
    let blocks = tau.len().div_ceil(BLOCK);
    // `Q c` begins with the last reflector, `Q' c` and `c Q` with the first.
    for step in 0..blocks {
        let number = if right == adjoint { blocks - 1 - step } else { step };
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
