//! Householder reflectors `H = I - tau v v'` with `v[0] = 1`, by LAPACK's conventions, and blocks of them.
//!
//! A block is `H1 H2 .. Hk = I - V T V'` with an upper triangular T: Schreiber and Van Loan, "A storage-efficient WY representation for
//! products of Householder transformations" (1989).

use crate::field::{Field, Real};
use crate::matrix::{Matrix, MatrixMut};
use flambeau_gemm::scratch;

/// The root of the sum of squares, without overflow and underflow.
#[inline(always)]
pub(crate) fn norm<T: Field>(x: &[T]) -> T::Real {
    let square = sum_of_squares(x);
    if square >= smallest_square::<T>() && square.is_finite() { square.sqrt() } else { scaled_norm(x) }
}

/// From here on, squares that vanished do not count in a sum.
pub(crate) fn smallest_square<T: Field>() -> T::Real {
    T::Real::SAFE_MIN / (T::Real::EPSILON * T::Real::EPSILON)
}

#[inline(always)]
fn sum_of_squares<T: Field>(x: &[T]) -> T::Real {
    if x.len() > 4 {
        return dot(x, x).re();
    }
    x.iter().map(|x| x.re() * x.re() + x.im() * x.im()).sum()
}

/// The same by squares of quotients.
#[cold]
fn scaled_norm<T: Field>(x: &[T]) -> T::Real {
    let larger = |a: T::Real, b: T::Real| if b > a || b.is_nan() { b } else { a };
    let parts = |x: &T| larger(x.re().magnitude(), x.im().magnitude());
    let largest = x.iter().map(parts).fold(T::Real::ZERO, larger);
    if largest == T::Real::ZERO || !largest.is_finite() {
        return largest;
    }
    let square = |x: &T| {
        let x = x.divided(largest);
        x.re() * x.re() + x.im() * x.im()
    };
    largest * x.iter().map(square).sum::<T::Real>().sqrt()
}

/// The sum of `conj(x) * y`.
#[inline(always)]
pub(crate) fn dot<T: Field>(x: &[T], y: &[T]) -> T {
    let whole = x.len() / LANES * LANES;
    let ((x, x_rest), (y, y_rest)) = (x.split_at(whole), y[..x.len()].split_at(whole));
    let (in_lanes, rest) = (sum_of_products::<T, LANES>(x, y), sum_of_products::<T, 4>(x_rest, y_rest));
    in_lanes + rest
}

/// Sums of [`dot`]: two of the widest vectors of f64.
const LANES: usize = 16;

/// Several sums, which the compiler makes the lanes of vectors, then the sum of these.
#[inline(always)]
fn sum_of_products<T: Field, const LANES: usize>(x: &[T], y: &[T]) -> T {
    let mut sums = [T::ZERO; LANES];
    let (x_parts, y_parts) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let mut rest = T::ZERO;
    for (x, y) in x_parts.remainder().iter().zip(y_parts.remainder()) {
        rest = rest + x.conj() * *y;
    }
    for (x, y) in x_parts.zip(y_parts) {
        for lane in 0..LANES {
            sums[lane] = sums[lane] + x[lane].conj() * y[lane];
        }
    }
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for lane in 0..count {
            sums[lane] = sums[lane] + sums[lane + count];
        }
    }
    sums[0] + rest
}

/// `y += alpha * x`.
#[inline(always)]
pub(crate) fn add_multiple<T: Field>(y: &mut [T], alpha: T, x: &[T]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = *y + alpha * *x);
}

/// The reflector whose adjoint maps `x` to a multiple of the first unit vector: LAPACK's `larfg`. The first element of `x` becomes
/// this multiple, which is real, the others become those of `v`. Returns `tau`.
pub(crate) fn reflector<T: Field>(x: &mut [T]) -> T {
    let Some((alpha, tail)) = x.split_first_mut() else { return T::ZERO };
    let square = sum_of_squares(tail);
    let both = square + sum_of_squares(&[*alpha]);
    let size = if square >= smallest_square::<T>() && both.is_finite() {
        both.sqrt()
    } else {
        let tail_norm = scaled_norm(tail);
        if tail_norm == T::Real::ZERO && *alpha == T::from_real(alpha.re()) {
            return T::ZERO;
        }
        let smallest = T::Real::SAFE_MIN / T::Real::EPSILON;
        let size = norm(&[T::from_real(tail_norm), *alpha]);
        if size < smallest {
            // Too small for quotients with all digits.
            let up = T::Real::ONE / smallest;
            x.iter_mut().for_each(|x| *x = x.scaled(up));
            let tau = reflector(x);
            x[0] = x[0].divided(up);
            return tau;
        }
        size
    };
    let beta = -size.with_sign_of(alpha.re());
    let divisor = *alpha - T::from_real(beta);
    let tau = (T::from_real(beta) - *alpha).divided(beta);
    tail.iter_mut().for_each(|x| *x = *x / divisor);
    *alpha = T::from_real(beta);
    tau
}

/// Reflectors as one block.
pub(crate) struct Block<T> {
    /// The vectors as columns, with ones and zeros above.
    v: Vec<T>,
    /// The triangular factor, column-major.
    t: Vec<T>,
    rows: usize,
    count: usize,
}

impl<T: Field> Block<T> {
    /// The reflectors below the diagonal of `a`.
    pub(crate) fn new(a: &Matrix<'_, T>, tau: &[T]) -> Self {
        let (rows, count) = (a.rows(), tau.len());
        let mut v = scratch::filled(T::ZERO, rows * count);
        for (j, column) in v.chunks_exact_mut(rows.max(1)).enumerate() {
            column[j] = T::ONE;
            (j + 1..rows).for_each(|i| column[i] = a.at(i, j));
        }
        let mut block = Self { v, t: scratch::filled(T::ZERO, count * count), rows, count };
        block.make_factor(tau);
        block
    }

    /// `T[..i, i] = -tau_i T[..i, ..i] V[.., ..i]' v_i`, column by column, of a factor that is 0.
    fn make_factor(&mut self, tau: &[T]) {
        let (rows, count) = (self.rows, self.count);
        let mut products = scratch::filled(T::ZERO, count * count);
        let v = Matrix::new(&self.v, rows, count, rows);
        MatrixMut::new(&mut products, count, count, count).multiply_add(
            T::Real::ONE,
            &v.adjoint(),
            &v,
            T::Real::ZERO,
        );
        for i in 0..count {
            let (before, column) = self.t.split_at_mut(i * count);
            for (k, factor) in before.chunks_exact(count).enumerate() {
                add_multiple(&mut column[..=k], -tau[i] * products[i * count + k], &factor[..=k]);
            }
            column[i] = tau[i];
        }
    }

    /// `c = H c`, or with the adjoint of H.
    pub(crate) fn apply(&self, adjoint: bool, c: &mut MatrixMut<'_, T>) {
        let v = Matrix::new(&self.v, self.rows, self.count, self.rows);
        let t = Matrix::new(&self.t, self.count, self.count, self.count);
        apply_factors(v, if adjoint { t.adjoint() } else { t }, c);
    }

    /// `c = c H`, or with the adjoint of H.
    pub(crate) fn apply_right(&self, adjoint: bool, c: MatrixMut<'_, T>) {
        // The transpose of `c H` is `H^T c^T`, and `H^T = I - conj(V) T^T V^T`.
        let v = Matrix::new(&self.v, self.rows, self.count, self.rows).conjugated();
        let t = Matrix::new(&self.t, self.count, self.count, self.count).transposed();
        apply_factors(v, if adjoint { t.adjoint() } else { t }, &mut c.transposed());
    }
}

/// `c -= V T V' c`.
fn apply_factors<T: Field>(v: Matrix<'_, T>, t: Matrix<'_, T>, c: &mut MatrixMut<'_, T>) {
    let (count, columns) = (v.columns(), c.columns());
    let (mut w, mut tw) =
        (scratch::filled(T::ZERO, count * columns), scratch::filled(T::ZERO, count * columns));
    MatrixMut::new(&mut w, count, columns, count).multiply_add(
        T::Real::ONE,
        &v.adjoint(),
        &c.view(),
        T::Real::ZERO,
    );
    let w = Matrix::new(&w, count, columns, count);
    MatrixMut::new(&mut tw, count, columns, count).multiply_add(T::Real::ONE, &t, &w, T::Real::ZERO);
    c.multiply_add(-T::Real::ONE, &v, &Matrix::new(&tw, count, columns, count), T::Real::ONE);
}
