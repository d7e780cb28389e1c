//! Products of complex matrices against sums in f64, for orders, sizes and conjugates.

use super::{Isa, Number, ORDERS, Order, Sample};
use crate::{ComplexGemm, Gemm, complex_gemm, complex_gemm_batch};
use flambeau_parallel::set_num_threads;

/// A complex matrix in memory, with strides in complex numbers.
#[derive(Clone)]
struct Complexes<T> {
    data: Vec<T>,
    strides: [isize; 2],
}

impl<T: Sample> Complexes<T> {
    fn new(rows: usize, columns: usize, order: Order, seed: usize) -> Self {
        let (strides, len) = order.placement(rows, columns);
        let data = (0..2 * len).map(|i| T::sample(seed + i)).collect();
        Self { data, strides: strides.map(|s| s as isize) }
    }

    fn at(&self, i: usize, j: usize, conjugate: bool) -> [f64; 2] {
        let at = 2 * (i * self.strides[0] as usize + j * self.strides[1] as usize);
        let [re, im] = [self.data[at].value(), self.data[at + 1].value()];
        [re, if conjugate { -im } else { im }]
    }
}

/// The largest error relative to its bound: so many rounding errors of the sum of the absolute values.
fn check<T: Sample>(isa: Isa, [m, n, k]: [usize; 3], orders: [Order; 3], conjugate: [bool; 2], beta: i32) {
    let alpha = -2;
    let (a, b) = (Complexes::<T>::new(m, k, orders[0], 1), Complexes::<T>::new(k, n, orders[1], 2));
    let before = Complexes::<T>::new(m, n, orders[2], 3);
    let mut c = before.clone();
    let mut product = Gemm::contiguous(m, n, k, a.data.as_ptr(), b.data.as_ptr(), c.data.as_mut_ptr());
    (product.a_strides, product.b_strides, product.c_strides) = (a.strides, b.strides, c.strides);
    (product.alpha, product.beta) = (Number::of(alpha), Number::of(beta));
    let (alpha, beta) = (f64::from(alpha), f64::from(beta));
    // SAFETY: the set is available, and the matrices have the sizes and strides.
    unsafe { complex_gemm(isa, &ComplexGemm { product, conjugate }) };
    for i in 0..m {
        for j in 0..n {
            let (mut sum, mut size) = ([0.0; 2], 0.0);
            for p in 0..k {
                let ([x, y], [u, v]) = (a.at(i, p, conjugate[0]), b.at(p, j, conjugate[1]));
                sum = [sum[0] + x * u - y * v, sum[1] + x * v + y * u];
                size += (x.abs() + y.abs()) * (u.abs() + v.abs());
            }
            let (old, new) = (before.at(i, j, false), c.at(i, j, false));
            for part in 0..2 {
                let expected = alpha * sum[part] + beta * old[part];
                let bound = T::SUM * (2 * k + 4) as f64 * (size + (beta * old[part]).abs());
                let error = (expected - new[part]).abs();
                assert!(
                    error <= bound,
                    "{isa:?} {m} x {n} x {k} {orders:?} {conjugate:?}: {error:e} > {bound:e}"
                );
            }
        }
    }
}

fn available() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

#[test]
fn products_of_complex_matrices_in_every_order() {
    for isa in available() {
        for sizes in [[1, 1, 1], [1, 40, 7], [40, 1, 7], [3, 50, 20], [5, 6, 7], [33, 18, 65], [2, 3, 0]] {
            for order in ORDERS.iter().flat_map(|x| ORDERS.map(move |y| [*x, y])) {
                for result in ORDERS {
                    let orders = [order[0], order[1], result];
                    check::<f64>(isa, sizes, orders, [false; 2], 0);
                    check::<f32>(isa, sizes, orders, [true, false], 3);
                    check::<f64>(isa, sizes, orders, [false, true], 3);
                    check::<f32>(isa, sizes, orders, [true, true], 0);
                }
            }
        }
    }
}

#[test]
fn large_products_of_complex_matrices_are_computed_in_pieces() {
    // The copy of B would exceed a piece.
    check::<f32>(Isa::detected(), [9, 1100, 1000], [Order::Row, Order::Column, Order::Row], [false; 2], 1);
}

#[test]
fn numbers_that_are_not_finite_remain_in_their_rows() {
    let (mut a, b) = (vec![1.0f64; 2 * 20 * 5], vec![2.0f64; 2 * 5 * 6]);
    a[2 * 5 * 3] = f64::INFINITY;
    a[2 * 5 * 7 + 1] = f64::NAN;
    let mut c = vec![0.0; 2 * 20 * 6];
    let product = Gemm::contiguous(20, 6, 5, a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: the arrays hold the elements of the matrices.
    unsafe { complex_gemm(Isa::detected(), &ComplexGemm { product, conjugate: [false; 2] }) };
    for (i, row) in c.chunks_exact(12).enumerate() {
        match i {
            3 => assert!(row.iter().all(|x| x.is_infinite())),
            7 => assert!(row.iter().all(|x| x.is_nan())),
            _ => assert!(row.chunks_exact(2).all(|x| *x == [0.0, 20.0]), "{row:?}"),
        }
    }
}

#[test]
fn a_complex_product_has_the_same_bits_alone_in_a_batch_and_on_any_number_of_threads() {
    for [m, n, k] in [[8, 8, 8], [3, 100, 40], [70, 90, 80]] {
        let count = 9;
        let a = Complexes::<f64>::new(count * m, k, Order::Row, 1);
        let b = Complexes::<f64>::new(count * k, n, Order::Row, 2);
        let run = |threads: usize, first: usize, count: usize| {
            set_num_threads(threads);
            let mut c = vec![0.0; 2 * count * m * n];
            let to = crate::SendPtr(c.as_mut_ptr());
            let item = |i: usize| {
                let at = first + i;
                let (a, b) = (a.data[2 * at * m * k..].as_ptr(), b.data[2 * at * k * n..].as_ptr());
                let product = Gemm::contiguous(m, n, k, a, b, to.at().wrapping_add(2 * i * m * n));
                ComplexGemm { product, conjugate: [false, true] }
            };
            // SAFETY: the matrices are inside their arrays, and those of the result are disjoint.
            unsafe { complex_gemm_batch(Isa::detected(), count, item) };
            c
        };
        let all = run(1, 0, count);
        [2, 3, 7].iter().for_each(|threads| assert!(run(*threads, 0, count) == all, "{threads} threads"));
        for at in 0..count {
            assert!(run(2, at, 1) == all[2 * at * m * n..2 * (at + 1) * m * n], "matrix {at}");
        }
        set_num_threads(1);
    }
}
