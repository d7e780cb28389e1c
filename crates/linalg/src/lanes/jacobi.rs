//! Eigenvalues and eigenvectors of Hermitian matrices in lanes, by Jacobi's rotations.
//!
//! A sweep rotates each pair of rows and columns so that the element between them becomes 0. A lane whose element is negligible is
//! not rotated; so a matrix takes the same rotations in a batch as alone. Rutishauser, "The Jacobi
//! method for real symmetric matrices" (1966).

use super::number::{Lane, MaskOf};
use super::packed::{MOST_LANES, Packed, store_integers};
use super::{Algorithm, InLanes};
use crate::scaling::Failure;
use flambeau_vectorized::{Float, Mask as _, Number as _, Ordered as _, Vector as _};

/// Sweeps after which the iteration is given up: six to eight suffice.
const SWEEPS: usize = 40;
/// The square of an element that is negligible, in units of the product of both elements on the diagonal beside it.
const NEGLIGIBLE: f64 = f64::EPSILON * f64::EPSILON / 4.0;
/// The same in units of the largest square of an element.
const VANISHING: f64 = 1e-60;

/// The eigenvalues of each matrix of a batch, in no order, on its diagonal, from the lower triangle; what is above it must be 0, and
/// elements finite and of moderate size. The vectors, if there are some, become the eigenvectors.
pub(super) struct Jacobi<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) n: usize,
    /// As many matrices, or none.
    pub(super) vectors: &'a mut [T],
    pub(super) results: &'a mut [Result<(), Failure>],
}

impl<T: InLanes> Algorithm<T> for Jacobi<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let Jacobi { matrices, n, mut vectors, results } = self;
        let size = n * n;
        let mut packed = Packed::<L>::new(size);
        let mut packed_vectors = Packed::<L>::new(if vectors.is_empty() { 0 } else { size });
        let groups = matrices.chunks_mut(L::LANES * size).zip(results.chunks_mut(L::LANES));
        for (matrices, results) in groups {
            packed.load(matrices);
            set_to_identity(packed_vectors.numbers(), n);
            let rotating = iterate(packed.numbers(), packed_vectors.numbers(), n);
            packed.store(matrices);
            if !vectors.is_empty() {
                let (first, rest) = std::mem::take(&mut vectors).split_at_mut(matrices.len());
                packed_vectors.store(first);
                vectors = rest;
            }
            report(rotating, results, n);
        }
    }
}

/// Makes an error of the results of matrices of size `n` in whose lanes there is still something to rotate.
#[inline(always)]
pub(super) fn report<V: Float<Element: Into<f64>>>(
    rotating: V,
    results: &mut [Result<(), Failure>],
    n: usize,
) {
    let mut still_rotates = [0; MOST_LANES];
    store_integers(rotating, &mut still_rotates, 0, 1);
    for (result, still_rotates) in results.iter_mut().zip(still_rotates) {
        if result.is_ok() && still_rotates != 0 {
            *result = Err(Failure::NotConverged(n));
        }
    }
}

#[inline(always)]
pub(super) fn set_to_identity<L: Lane>(v: &mut [L], n: usize) {
    v.fill(L::zero());
    for x in v.iter_mut().step_by(n + 1) {
        *x = L::one();
    }
}

/// Makes the elements below the diagonal negligible. Returns 1 in lanes where they are not, which has not been observed.
#[inline(always)]
fn iterate<L: Lane>(a: &mut [L], v: &mut [L], n: usize) -> L::Part {
    let zero = L::Part::zero();
    let mut largest = zero;
    for x in a.iter() {
        largest = largest.max(x.add_square(zero));
    }
    let vanishing = largest * L::Part::constant(VANISHING);
    let mut rotating = zero;
    for _ in 0..SWEEPS {
        rotating = zero;
        for p in 0..n {
            for q in p + 1..n {
                let (first, last) = (a[p * n + p].re(), a[q * n + q].re());
                let square = a[p * n + q].add_square(zero);
                let bound = L::Part::constant(NEGLIGIBLE) * (first * last).abs();
                let rotates = square.gt(bound.max(vanishing));
                if !rotates.any() {
                    continue;
                }
                rotating = L::Part::select(rotates, L::Part::one(), rotating);
                let size = L::Part::select(rotates, square.sqrt(), L::Part::one());
                let rotation = Rotation::new(rotates, a[p * n + q], size, last - first);
                rotate_matrix(a, n, [p, q], &rotation);
                let tangent = rotation.tangent;
                a[p * n + p] = L::select(rotates, L::real(tangent.neg_mul_add(size, first)), a[p * n + p]);
                a[q * n + q] = L::select(rotates, L::real(tangent.mul_add(size, last)), a[q * n + q]);
                a[p * n + q] = L::select(rotates, L::zero(), a[p * n + q]);
                rotate_columns(v, n, [p, q], &rotation);
            }
        }
        if rotating.eq(zero).all() {
            break;
        }
    }
    rotating
}

/// The smaller solution of `t^2 + 2 half t = 1`.
#[inline(always)]
fn tangent_of<V: Float>(half: V) -> V {
    let root = half.mul_add(half, V::one()).sqrt();
    V::one().copysign(half) / (half.abs() + root)
}

/// `x` and `y` become `c x - s d y` and `s x + c d y`.
pub(super) struct Rotation<L: Lane> {
    /// The lanes that are rotated. Others keep their bits: a product with an angle of 0 would change signs of zeros.
    rotates: MaskOf<L>,
    tangent: L::Part,
    cosine: L::Part,
    sine: L::Part,
    /// `d`, of magnitude 1.
    phase: L,
}

impl<L: Lane> Rotation<L> {
    /// The rotation that makes `element`, of magnitude `size`, 0 beside two elements of this difference on the diagonal.
    #[inline(always)]
    pub(super) fn new(rotates: MaskOf<L>, element: L, size: L::Part, difference: L::Part) -> Self {
        let phase = L::select(rotates, element.divided(size), L::one());
        let tangent = L::Part::select(rotates, tangent_of(difference / (size + size)), L::Part::zero());
        let cosine = tangent.mul_add(tangent, L::Part::one()).rsqrt();
        Self { rotates, tangent, cosine, sine: tangent * cosine, phase }
    }

    #[inline(always)]
    fn of(&self, x: L, y: L) -> (L, L) {
        let in_phase = y.times(self.phase);
        let (c, s) = (self.cosine, self.sine);
        let (first, last) = (x.scaled(c).plus_scaled(in_phase, -s), in_phase.scaled(c).plus_scaled(x, s));
        (L::select(self.rotates, first, x), L::select(self.rotates, last, y))
    }
}

/// Rotates columns `p < q` of a Hermitian matrix and the rows of the same numbers, but for the elements where they cross. The upper
/// triangle is not stored: its elements are the conjugates of those below.
#[inline(always)]
fn rotate_matrix<L: Lane>(a: &mut [L], n: usize, [p, q]: [usize; 2], rotation: &Rotation<L>) {
    for i in 0..p {
        let (x, y) = rotation.of(a[i * n + p].conj(), a[i * n + q].conj());
        (a[i * n + p], a[i * n + q]) = (x.conj(), y.conj());
    }
    for i in p + 1..q {
        let (x, y) = rotation.of(a[p * n + i], a[i * n + q].conj());
        (a[p * n + i], a[i * n + q]) = (x, y.conj());
    }
    for i in q + 1..n {
        (a[p * n + i], a[q * n + i]) = rotation.of(a[p * n + i], a[q * n + i]);
    }
}

/// Rotates columns `p < q`, if there are any.
#[inline(always)]
pub(super) fn rotate_columns<L: Lane>(v: &mut [L], n: usize, [p, q]: [usize; 2], rotation: &Rotation<L>) {
    if v.is_empty() {
        return;
    }
    let (before, after) = v.split_at_mut(q * n);
    for (x, y) in before[p * n..(p + 1) * n].iter_mut().zip(&mut after[..n]) {
        (*x, *y) = rotation.of(*x, *y);
    }
}
