//! Singular value decompositions in lanes, by rotations that make columns orthogonal.
//!
//! A sweep rotates each pair of columns so that they become orthogonal; in the end columns are those of U times the singular values.
//! Hestenes, "Inversion of matrices by biorthogonalization and related results" (1958). A lane whose pair is orthogonal is not
//! rotated, so a matrix takes the same rotations in a batch as alone.

use super::jacobi::{Rotation, report, rotate_columns, set_to_identity};
use super::number::Lane;
use super::packed::Packed;
use super::{Algorithm, InLanes};
use crate::scaling::Failure;
use flambeau_vectorized::{Float as _, Mask as _, Number as _, Ordered as _, Vector as _};

/// Sweeps after which the iteration is given up: six to ten suffice.
const SWEEPS: usize = 40;

/// Overwrites the columns of each matrix of a batch with orthogonal ones, and `vectors`, if there are some, with the matrices of the
/// rotations that made them so.
pub(super) struct Hestenes<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) sizes: [usize; 2],
    /// As many square matrices, or none.
    pub(super) vectors: &'a mut [T],
    pub(super) results: &'a mut [Result<(), Failure>],
}

impl<T: InLanes> Algorithm<T> for Hestenes<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let Hestenes { matrices, sizes: [rows, columns], mut vectors, results } = self;
        let (size, square) = (rows * columns, columns * columns);
        let mut packed = Packed::<L>::new(size);
        let mut packed_vectors = Packed::<L>::new(if vectors.is_empty() { 0 } else { square });
        let groups = matrices.chunks_mut(L::LANES * size).zip(results.chunks_mut(L::LANES));
        for (matrices, results) in groups {
            packed.load(matrices);
            set_to_identity(packed_vectors.numbers(), columns);
            let rotating = iterate(packed.numbers(), packed_vectors.numbers(), [rows, columns]);
            packed.store(matrices);
            if !vectors.is_empty() {
                let (first, rest) = std::mem::take(&mut vectors).split_at_mut(results.len() * square);
                packed_vectors.store(first);
                vectors = rest;
            }
            report(rotating, results, columns);
        }
    }
}

/// Makes columns orthogonal. Returns 1 in lanes where they are not.
#[inline(always)]
fn iterate<L: Lane>(a: &mut [L], v: &mut [L], [rows, columns]: [usize; 2]) -> L::Part {
    let (zero, one) = (L::Part::zero(), L::Part::one());
    // The rounding errors of a sum of as many products.
    let tolerance = f64::EPSILON * (rows as f64).sqrt();
    let bound = L::Part::constant(tolerance * tolerance);
    let mut rotating = zero;
    for _ in 0..SWEEPS {
        rotating = zero;
        for p in 0..columns {
            for q in p + 1..columns {
                let (x, y) = (&a[p * rows..(p + 1) * rows], &a[q * rows..(q + 1) * rows]);
                let (first, last, product) = products(x, y);
                let square = product.add_square(zero);
                let rotates = square.gt(bound * first * last);
                if !rotates.any() {
                    continue;
                }
                rotating = L::Part::select(rotates, one, rotating);
                let size = L::Part::select(rotates, square.sqrt(), one);
                let rotation = Rotation::new(rotates, product.conj(), size, last - first);
                rotate_columns(a, rows, [p, q], &rotation);
                rotate_columns(v, columns, [p, q], &rotation);
            }
        }
        if rotating.eq(zero).all() {
            break;
        }
    }
    rotating
}

/// The squares of the norms of two columns, and the product of the first one's adjoint and the second one.
#[inline(always)]
fn products<L: Lane>(x: &[L], y: &[L]) -> (L::Part, L::Part, L) {
    let (mut first, mut last, mut product) = (L::Part::zero(), L::Part::zero(), L::zero());
    for (x, y) in x.iter().zip(y) {
        (first, last) = (x.add_square(first), y.add_square(last));
        product = product.plus_product(x.conj(), *y);
    }
    (first, last, product)
}
