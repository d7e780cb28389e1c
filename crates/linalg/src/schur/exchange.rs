//! Exchanges of adjacent diagonal blocks of a Schur form: Bai and Demmel, "On swapping diagonal blocks in real Schur form" (1993).

use super::window::Window;
use super::{Basis, Iteration, unit};
use crate::field::{Field, Real};
use crate::hessenberg::reflect_from_right;
use crate::matrix::MatrixMut;
use crate::qr::apply_adjoint;
use crate::reflector::reflector;
use flambeau_vectorized::with_processor_vectors;

/// Rows of two blocks.
const ROWS: usize = 4;
/// How large an element that should be 0 may be, in rounding errors of the largest element.
const TOLERANCE: f64 = 10.0;

type Small<T> = [[T; ROWS]; ROWS];

/// A reflector of a few rows, with its 1.
#[derive(Clone, Copy)]
struct Few<T> {
    v: [T; ROWS],
    tau: T,
}

impl<T: Field> Window<T> {
    /// Exchanges two diagonal blocks, the first of which begins at row `k`. Returns whether that was possible: blocks of nearly equal
    /// eigenvalues may not be exchanged without an error. Blocks that then have real eigenvalues are split.
    pub(super) fn exchange(&mut self, k: usize, [p, q]: [usize; 2]) -> bool {
        if p + q == 2 {
            self.exchange_numbers(k);
            return true;
        }
        let size = p + q;
        let mut blocks = [[T::ZERO; ROWS]; ROWS];
        let t = self.triangle();
        for (j, column) in blocks.iter_mut().enumerate().take(size) {
            (0..size).for_each(|i| column[i] = t.at(k + i, k + j));
        }
        let changes = reflectors_of(&blocks, [p, q]);
        if !is_exchanged(&mut blocks, [p, q], &changes[..q]) {
            return false;
        }
        self.reflect(k, size, &changes[..q]);
        let [mut t, v] = self.parts();
        t.reborrow().block(k + q, k, [p, q]).fill(T::ZERO);
        let mut iteration = Iteration { h: t, q: Basis::new(Some(v)), active: 0..0 };
        for (at, width) in [(k, q), (k + q, p)] {
            if width == 2 {
                iteration.split_pair(at);
            }
        }
        iteration.q.apply();
        true
    }

    fn reflect(&mut self, k: usize, size: usize, changes: &[Few<T>]) {
        let rows = self.rows;
        let [mut t, mut v] = self.parts();
        let mut product = flambeau_gemm::scratch::filled(T::ZERO, rows);
        with_processor_vectors(
            #[inline(always)]
            || {
                for (at, Few { v: own, tau }) in changes.iter().enumerate() {
                    let (first, own) = (k + at, &own[..size - at]);
                    for j in k..rows {
                        apply_adjoint(&own[1..], *tau, &mut t.column(j)[first..k + size]);
                    }
                    let mut above = t.reborrow().block(0, first, [k + size, own.len()]);
                    reflect_from_right(&mut above, own, *tau, &mut product);
                    let mut basis = v.reborrow().block(0, first, [rows, own.len()]);
                    reflect_from_right(&mut basis, own, *tau, &mut product);
                }
            },
        );
    }

    /// Exchanges two elements of the diagonal.
    fn exchange_numbers(&mut self, k: usize) {
        let rows = self.rows;
        let [mut t, mut v] = self.parts();
        let (first, second) = (t.at(k, k), t.at(k + 1, k + 1));
        // The eigenvector of the second one.
        let mut vector = [t.at(k, k + 1), second - first];
        let scale = vector[0].pivot_size().larger(vector[1].pivot_size());
        if scale == T::Real::ZERO {
            return;
        }
        vector = vector.map(|x| x.divided(scale));
        let length = crate::reflector::norm(&vector);
        let [c, s] = vector.map(|x| x.divided(length));
        with_processor_vectors(
            #[inline(always)]
            || {
                for j in k + 2..rows {
                    let column = t.column(j);
                    let (x, y) = (column[k], column[k + 1]);
                    column[k] = c.conj() * x + s.conj() * y;
                    column[k + 1] = c * y - s * x;
                }
                rotate_columns(&mut t.reborrow().block(0, k, [k, 2]), c, s);
                rotate_columns(&mut v.reborrow().block(0, k, [rows, 2]), c, s);
            },
        );
        // Of `[first, x; 0, second]` the rotation makes `[second, conj(x); 0, first]`.
        t.set(k, k + 1, t.at(k, k + 1).conj());
        t.set(k, k, second);
        t.set(k + 1, k + 1, first);
    }
}

/// Columns `x` and `y` become `x c + y s` and `y conj(c) - x conj(s)`.
#[inline(always)]
fn rotate_columns<T: Field>(a: &mut MatrixMut<'_, T>, c: T, s: T) {
    let (x, y) = a.two_columns(0, 1);
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (*x * c + *y * s, *y * c.conj() - *x * s.conj());
    }
}

/// The reflectors of the columns of `[-x; 1]`, which span the invariant subspace of the second block: `a x - x b = c` for the blocks
/// `[a, c; 0, b]`.
fn reflectors_of<T: Field>(blocks: &Small<T>, [p, q]: [usize; 2]) -> [Few<T>; 2] {
    let x = solve_sylvester(blocks, [p, q]);
    let size = p + q;
    let mut columns = [[T::ZERO; ROWS]; 2];
    for (j, column) in columns.iter_mut().enumerate().take(q) {
        (0..p).for_each(|i| column[i] = -x[j * p + i]);
        column[p + j] = T::ONE;
    }
    let mut changes = [Few { v: [T::ZERO; ROWS], tau: T::ZERO }; 2];
    for j in 0..q {
        let own = &mut columns[j][j..size];
        let tau = reflector(own);
        let mut v = [T::ZERO; ROWS];
        v[..size - j].copy_from_slice(own);
        v[0] = T::ONE;
        changes[j] = Few { v, tau };
        if j + 1 < q {
            apply_adjoint(&v[1..size - j], tau, &mut columns[j + 1][j..size]);
        }
    }
    changes
}

/// The solution of `a x - x b = c`, column by column, by elimination with complete pivoting.
fn solve_sylvester<T: Field>(blocks: &Small<T>, [p, q]: [usize; 2]) -> [T; ROWS] {
    let count = p * q;
    // The rows of the system, with the right side as their last element.
    let mut rows = [[T::ZERO; ROWS + 1]; ROWS];
    for (at, row) in rows.iter_mut().enumerate().take(count) {
        let (i, j) = (at % p, at / p);
        (0..p).for_each(|k| row[j * p + k] = row[j * p + k] + blocks[k][i]);
        (0..q).for_each(|l| row[l * p + i] = row[l * p + i] - blocks[p + j][p + l]);
        row[ROWS] = blocks[p + j][i];
    }
    let mut order = [0, 1, 2, 3];
    let mut smallest = T::Real::ZERO;
    for k in 0..count {
        let indices = (k..count).flat_map(|i| (k..count).map(move |j| (i, j)));
        let larger = |best: (usize, usize), at: (usize, usize)| {
            if rows[at.0][at.1].pivot_size() > rows[best.0][best.1].pivot_size() { at } else { best }
        };
        let (i, j) = indices.fold((k, k), larger);
        rows.swap(i, k);
        rows.iter_mut().for_each(|row| row.swap(j, k));
        order.swap(j, k);
        if k == 0 {
            smallest = (unit::<T::Real>() * rows[0][0].pivot_size()).larger(T::Real::SAFE_MIN);
        }
        if rows[k][k].pivot_size() < smallest {
            rows[k][k] = T::from_real(smallest);
        }
        let pivot = rows[k];
        for row in &mut rows[k + 1..count.max(k + 1)] {
            let factor = row[k] / pivot[k];
            (k..=ROWS).for_each(|j| row[j] = row[j] - factor * pivot[j]);
        }
    }
    let (mut solved, mut x) = ([T::ZERO; ROWS], [T::ZERO; ROWS]);
    for k in (0..count).rev() {
        let known = (k + 1..count).map(|j| rows[k][j] * solved[j]).sum::<T>();
        solved[k] = (rows[k][ROWS] - known) / rows[k][k];
        x[order[k]] = solved[k];
    }
    x
}

/// Applies the reflectors, and tells whether the second block is then the first one.
fn is_exchanged<T: Field>(blocks: &mut Small<T>, [p, q]: [usize; 2], changes: &[Few<T>]) -> bool {
    let size = p + q;
    let sizes = |blocks: &Small<T>, columns: usize, from: usize| {
        let elements = blocks[..columns].iter().flat_map(|column| &column[from..size]);
        elements.fold(T::Real::ZERO, |largest, x| {
            let own = x.pivot_size();
            if own > largest || own.is_nan() { own } else { largest }
        })
    };
    let largest = sizes(blocks, size, 0);
    for (at, Few { v, tau }) in changes.iter().enumerate() {
        let v = &v[..size - at];
        for column in &mut blocks[..size] {
            apply_adjoint(&v[1..], *tau, &mut column[at..size]);
        }
        let columns = &mut blocks[at..size];
        for i in 0..size {
            let sum = columns.iter().zip(v).map(|(column, v)| column[i] * *v).sum::<T>();
            for (column, v) in columns.iter_mut().zip(v) {
                column[i] = column[i] - *tau * sum * v.conj();
            }
        }
    }
    let bound = T::Real::from_f64(TOLERANCE) * unit::<T::Real>() * largest;
    sizes(blocks, q, q) <= bound.larger(T::Real::SAFE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;
    use flambeau_core::Complex;

    /// The product of the basis, the triangle and the adjoint of the basis.
    fn whole<T: Field>(window: &Window<T>) -> Vec<T> {
        let rows = window.rows;
        let product = |a: Matrix<'_, T>, b: Matrix<'_, T>| {
            let mut c = vec![T::ZERO; rows * rows];
            for j in 0..rows {
                (0..rows).for_each(|i| c[j * rows + i] = (0..rows).map(|k| a.at(i, k) * b.at(k, j)).sum());
            }
            c
        };
        let left = product(window.basis(), window.triangle());
        product(Matrix::new(&left, rows, rows, rows), window.basis().adjoint())
    }

    /// Exchanges blocks of these sizes in a triangle of which they are rows 1 to `p + q`.
    fn check<T: Field>([p, q]: [usize; 2], number: impl Fn(usize) -> T) {
        let rows = p + q + 2;
        let is_inside = |i: usize, j: usize| {
            [1..1 + p, 1 + p..1 + p + q].iter().any(|b| b.contains(&i) && b.contains(&j))
        };
        let mut a = vec![T::ZERO; rows * rows];
        for j in 0..rows {
            for i in (0..rows).filter(|i| *i <= j || is_inside(*i, j)) {
                let x = number(j * rows + i)
                    + if i == j { number(i).scaled(T::Real::from_f64(3.0)) } else { T::ZERO };
                // Complex eigenvalues: elements of different signs off the diagonal.
                a[j * rows + i] = if i > j {
                    T::from_real(-x.magnitude())
                } else if i < j {
                    T::from_real(x.magnitude())
                } else {
                    x
                };
            }
        }
        let mut window = Window::new(&Matrix::new(&a, rows, rows, rows), 0..rows, true);
        let (before, block) = (whole(&window), |w: &Window<T>, k: usize, size: usize| {
            let t = w.triangle();
            let trace = (k..k + size).map(|i| t.at(i, i)).sum::<T>();
            let product = if size == 2 {
                t.at(k, k) * t.at(k + 1, k + 1) - t.at(k, k + 1) * t.at(k + 1, k)
            } else {
                trace
            };
            [trace, product]
        });
        let expected = [block(&window, 1 + p, q), block(&window, 1, p)];
        assert!(window.exchange(1, [p, q]));
        let got = [block(&window, 1, q), block(&window, 1 + q, p)];
        let is_near = |x: T, y: T| (x - y).magnitude().to_f64() < 1e-12;
        assert!(
            expected.iter().flatten().zip(got.iter().flatten()).all(|(x, y)| is_near(*x, *y)),
            "{expected:?} {got:?}"
        );
        assert!(before.iter().zip(whole(&window)).all(|(x, y)| is_near(*x, y)));
        let t = window.triangle();
        for j in 0..rows {
            for i in j + 1..rows {
                let is_block = [1..1 + q, 1 + q..1 + p + q].iter().any(|b| b.contains(&i) && b.contains(&j));
                assert!(is_block || t.at(i, j) == T::ZERO, "{i} {j}");
            }
        }
    }

    #[test]
    fn blocks_change_their_order() {
        for (at, seed) in (0..60).map(|at| (at % 4, at as f64)) {
            let sizes = [[1, 1], [1, 2], [2, 1], [2, 2]][at];
            check::<f64>(sizes, |k| (1.0 + seed + 7.3 * k as f64).sin());
            check::<Complex<f64>>([1, 1], |k| {
                Complex::new((seed + k as f64).sin(), (2.0 * seed + k as f64).cos())
            });
        }
    }

    #[test]
    fn equal_blocks_may_remain() {
        // The same block twice, without and with a large coupling: the result is a similarity in any case.
        for coupling in [0.0f64, 1e8] {
            let a =
                [1.0, -2.0, 0.0, 0.0, 3.0, 1.0, 0.0, 0.0, coupling, 1.0, 1.0, -2.0, 0.5, coupling, 3.0, 1.0];
            let mut window = Window::new(&Matrix::new(&a, 4, 4, 4), 0..4, true);
            let before = window.t.clone();
            if window.exchange(0, [2, 2]) {
                assert!(
                    before.iter().zip(whole(&window)).all(|(x, y)| (x - y).abs() <= 1e-12 * (1.0 + coupling))
                );
            } else {
                assert_eq!(before, window.t);
            }
        }
    }
}
