//! Cholesky factorization in lanes.

use super::number::Lane;
use super::packed::{Packed, store_integers};
use super::{Algorithm, InLanes};
use flambeau_vectorized::{Float as _, Number as _, Ordered as _, Vector as _};

/// What `crate::cholesky` computes, for each matrix of a batch.
pub(super) struct Cholesky<'a, T> {
    pub(super) matrices: &'a mut [T],
    pub(super) n: usize,
    pub(super) info: &'a mut [i32],
}

impl<T: InLanes> Algorithm<T> for Cholesky<'_, T> {
    #[inline(always)]
    fn run<L: Lane<Element = T>>(self) {
        let size = self.n * self.n;
        let mut packed = Packed::<L>::new(size);
        let groups = self.matrices.chunks_mut(L::LANES * size).zip(self.info.chunks_mut(L::LANES));
        for (matrices, info) in groups {
            packed.load(matrices);
            let failed = factor(packed.numbers(), self.n);
            packed.store(matrices);
            store_integers(failed, info, 0, 1);
        }
    }
}

/// Overwrites the lower triangles with the factors and the upper ones with zeros. Returns the order of the first leading minor that is not
/// positive, or 0; a lane in which there is one is not changed from there on.
#[inline(always)]
fn factor<L: Lane>(a: &mut [L], n: usize) -> L::Part {
    let (mut failed, zero) = (L::Part::zero(), L::Part::zero());
    for j in 0..n {
        let (known, rest) = a.split_at_mut((j + 1) * n);
        let column = &mut known[j * n..];
        let pivot = column[j].re();
        // Not `pivot <= 0`, so that NaN fails too.
        let fails = failed.eq(zero) & !pivot.gt(zero);
        failed = L::Part::select(fails, L::Part::constant((j + 1) as f64), failed);
        let goes_on = failed.eq(zero);
        let root = L::Part::select(goes_on, pivot.sqrt(), L::Part::one());
        column[j] = L::select(goes_on, L::real(root), column[j]);
        column[..j].fill(L::zero());
        for x in &mut column[j + 1..] {
            *x = x.divided(root);
        }
        for (k, other) in rest.chunks_exact_mut(n).enumerate() {
            let k = j + 1 + k;
            let by = L::select(goes_on, column[k].conj(), L::zero());
            for (x, factor) in other[k..].iter_mut().zip(&column[k..]) {
                *x = x.minus_product(*factor, by);
            }
        }
    }
    failed
}
