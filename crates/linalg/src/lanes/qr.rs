//! QR factorization in lanes, by Householder reflectors in LAPACK's format.

use super::number::{Lane, MaskOf};
use super::packed::Packed;
use super::{Algorithm, InLanes};
use flambeau_vectorized::{Float as _, FloatElement as _, Mask as _, Number as _, Ordered as _, Vector};

/// What `crate::qr` computes, for each matrix of a batch.
pub(super) struct Qr<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) sizes: [usize; 2],
    pub(super) tau: &'a mut [T],
}

impl<T: InLanes> Algorithm<T> for Qr<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let [rows, columns] = self.sizes;
        let count = rows.min(columns);
        let (mut packed, mut packed_tau) = (Packed::<L>::new(rows * columns), Packed::<L>::new(count));
        let groups = self.matrices.chunks_mut(L::LANES * rows * columns);
        for (matrices, tau) in groups.zip(self.tau.chunks_mut(L::LANES * count)) {
            packed.load(matrices);
            let (a, taus) = (packed.numbers(), packed_tau.numbers());
            for (j, tau) in taus.iter_mut().enumerate() {
                let (known, rest) = a.split_at_mut((j + 1) * rows);
                let vector = &mut known[j * rows + j..];
                *tau = reflector(vector);
                for column in rest.chunks_exact_mut(rows) {
                    apply(&vector[1..], tau.conj(), &mut column[j..]);
                }
            }
            packed.store(matrices);
            packed_tau.store(tau);
        }
    }
}

/// What `crate::householder_product` computes, for each matrix of a batch.
pub(super) struct HouseholderProduct<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) sizes: [usize; 2],
    pub(super) tau: &'a [T],
    pub(super) count: usize,
}

impl<T: InLanes> Algorithm<T> for HouseholderProduct<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let ([rows, columns], count) = (self.sizes, self.count);
        let (mut packed, mut packed_tau) = (Packed::<L>::new(rows * columns), Packed::<L>::new(count));
        let groups = self.matrices.chunks_mut(L::LANES * rows * columns).enumerate();
        for (group, matrices) in groups {
            packed.load(matrices);
            let first = group * L::LANES * count;
            packed_tau.load(&self.tau[first..first + matrices.len() / (rows * columns) * count]);
            form_product(packed.numbers(), rows, packed_tau.numbers());
            packed.store(matrices);
        }
    }
}

/// Overwrites the vectors of reflectors with the columns of their product, from the last one on: LAPACK's `org2r`.
#[inline(always)]
fn form_product<L: Lane>(a: &mut [L], rows: usize, tau: &[L]) {
    for (j, column) in a.chunks_exact_mut(rows).enumerate().skip(tau.len()) {
        column.fill(L::zero());
        column[j] = L::one();
    }
    for (j, tau) in tau.iter().enumerate().rev() {
        let (known, rest) = a.split_at_mut((j + 1) * rows);
        let column = &mut known[j * rows..];
        for other in rest.chunks_exact_mut(rows) {
            apply(&column[j + 1..], *tau, &mut other[j..]);
        }
        column[..j].fill(L::zero());
        column[j] = L::one().minus(*tau);
        for x in &mut column[j + 1..] {
            *x = L::zero().minus_product(*tau, *x);
        }
    }
}

/// `c -= tau v (v' c)`, for the reflector with `tail` after a 1.
#[inline(always)]
fn apply<L: Lane>(tail: &[L], tau: L, c: &mut [L]) {
    let Some((first, rest)) = c.split_first_mut() else { return };
    let mut sum = *first;
    for (v, x) in tail.iter().zip(&*rest) {
        sum = sum.plus_product(v.conj(), *x);
    }
    let factor = tau.times(sum);
    *first = first.minus(factor);
    for (v, x) in tail.iter().zip(rest) {
        *x = x.minus_product(*v, factor);
    }
}

/// The reflector that `crate::reflector::reflector` makes, in each lane: the first number becomes real, the others become those of the
/// vector. Returns `tau`.
#[inline(always)]
fn reflector<L: Lane>(x: &mut [L]) -> L {
    let (zero, one) = (L::Part::zero(), L::Part::one());
    let mut of_tail = zero;
    for x in &x[1..] {
        of_tail = of_tail.maximum(x.larger_part());
    }
    let is_identity = of_tail.eq(zero) & x[0].is_real();
    let largest = of_tail.maximum(x[0].larger_part());
    let (up, down) = scale_of_small::<L>(largest);
    if !up.eq(one).all() {
        for x in x.iter_mut() {
            *x = x.scaled(up);
        }
    }
    let scale = L::Part::select(largest.eq(zero), one, largest * up);
    let (inverse, mut sum) = (one / scale, zero);
    for x in x.iter() {
        sum = x.scaled(inverse).add_square(sum);
    }
    let beta = -(scale * sum.sqrt()).copysign(x[0].re());
    let tau = L::real(beta).minus(x[0]).divided(beta);
    let divisor = L::select(is_identity, L::one(), x[0].minus(L::real(beta)));
    for x in &mut x[1..] {
        *x = x.over(divisor);
    }
    x[0] = L::select(is_identity, x[0], L::real(beta)).scaled(down);
    L::select(is_identity, L::zero(), tau)
}

type PartOf<L> = <<L as Lane>::Part as Vector>::Element;

/// Powers of two by which numbers too small for quotients with all digits are multiplied, and by which they are multiplied back; else 1.
#[inline(always)]
fn scale_of_small<L: Lane>(largest: L::Part) -> (L::Part, L::Part) {
    let units = f64::from(PartOf::<L>::MANTISSA_BITS + 1).exp2();
    let smallest_normal: f64 = PartOf::<L>::MIN_NORMAL.into();
    let smallest = smallest_normal * units;
    let is_small: MaskOf<L> = largest.lt(L::Part::constant(smallest));
    let choose = |factor: f64| L::Part::select(is_small, L::Part::constant(factor), L::Part::one());
    (choose(1.0 / smallest), choose(smallest))
}
