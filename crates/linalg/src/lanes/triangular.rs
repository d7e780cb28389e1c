//! Triangular systems in lanes.

use super::number::Lane;
use super::packed::Packed;
use super::{Algorithm, InLanes};

/// Solves systems with one triangle after another, for each matrix of a batch.
pub(super) struct Solve<'a, T> {
    pub(super) matrices: &'a [T],
    pub(super) n: usize,
    /// Whether the triangles are those of the transpose, and whether of its conjugate.
    pub(super) transposed: bool,
    pub(super) conjugated: bool,
    /// For each whether it is the upper one, and whether its diagonal is taken to be 1.
    pub(super) triangles: &'a [[bool; 2]],
    pub(super) x: &'a mut [T],
    pub(super) columns: usize,
}

impl<T: InLanes> Algorithm<T> for Solve<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let (n, size) = (self.n, self.n * self.n);
        let (mut a, mut b) = (Packed::<L>::new(size), Packed::<L>::new(n * self.columns));
        let sides = self.x.chunks_mut(L::LANES * n * self.columns);
        for (matrices, x) in self.matrices.chunks(L::LANES * size).zip(sides) {
            a.load(matrices);
            b.load(x);
            let (a, b_numbers) = (a.numbers(), b.numbers());
            if self.transposed {
                transpose(a, n);
            }
            if self.conjugated {
                for x in a.iter_mut() {
                    *x = x.conj();
                }
            }
            for triangle in self.triangles {
                substitute(a, n, *triangle, b_numbers);
            }
            b.store(x);
        }
    }
}

#[inline(always)]
fn transpose<L: Lane>(a: &mut [L], n: usize) {
    for i in 0..n {
        for j in 0..i {
            a.swap(i * n + j, j * n + i);
        }
    }
}

/// Overwrites the columns of `b` with the solutions.
#[inline(always)]
fn substitute<L: Lane>(a: &[L], n: usize, [upper, unit]: [bool; 2], b: &mut [L]) {
    for step in 0..n {
        let row = if upper { n - 1 - step } else { step };
        let column = &a[row * n..(row + 1) * n];
        let rest = if upper { 0..row } else { row + 1..n };
        for b in b.chunks_exact_mut(n) {
            if !unit {
                b[row] = b[row].over(column[row]);
            }
            let known = b[row];
            for (x, factor) in b[rest.clone()].iter_mut().zip(&column[rest.clone()]) {
                *x = x.minus_product(*factor, known);
            }
        }
    }
}
