//! Tests of products against a naive one in f64 (or in wrapping integers), for every instruction set the machine has.
#![expect(unsafe_code, reason = "the products under test take raw memory")]

mod complex;

use half::{bf16, f16};

use super::*;
use flambeau_parallel::set_num_threads;
use std::sync::{Mutex, PoisonError};

/// An element, its error bounds, and how the reference sees it.
trait Sample: GemmElement<Scalar: Number> + PartialEq + std::fmt::Debug {
    /// Of rounding a result, and of each accumulation.
    const ROUND: f64;
    const SUM: f64;
    fn sample(index: usize) -> Self;
    fn value(self) -> f64;
    /// `alpha * sum a b + beta c` exactly, for integers.
    fn exact(_: &[(Self, Self)], _: Self::Scalar, _: Self::Scalar, _: Self) -> Option<Self> {
        None
    }
}

trait Number: Copy {
    fn of(value: i32) -> Self;
    fn value(self) -> f64;
}

macro_rules! floats {
    ($($t:ty: $scalar:ty, $round:expr, $sum:expr, |$x:ident| $from:expr, |$y:ident| $to:expr;)*) => {$(
        impl Sample for $t {
            const ROUND: f64 = $round;
            const SUM: f64 = $sum;
            fn sample(index: usize) -> Self {
                let hash = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let $x = hash as f64 / (1u64 << 23) as f64 - 1.0;
                $from
            }
            fn value(self) -> f64 {
                let $y = self;
                $to
            }
        }
    )*};
}
floats! {
    f32: f32, 0.0, f32::EPSILON as f64, |x| x as f32, |x| f64::from(x);
    f64: f64, 0.0, f64::EPSILON, |x| x, |x| x;
    bf16: f32, 1.0 / 256.0, f32::EPSILON as f64, |x| bf16::from_f64(x), |x| x.to_f64();
    f16: f32, 1.0 / 2048.0, f32::EPSILON as f64, |x| f16::from_f64(x), |x| x.to_f64();
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Sample for $t {
            const ROUND: f64 = 0.0;
            const SUM: f64 = 0.0;
            fn sample(index: usize) -> Self {
                (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) as $t
            }
            fn value(self) -> f64 {
                self as f64
            }
            fn exact(row: &[(Self, Self)], alpha: Self::Scalar, beta: Self::Scalar, c: Self) -> Option<Self> {
                let sum = row.iter().fold(0, |s: $t, (a, b)| s.wrapping_add(a.wrapping_mul(*b)));
                Some((alpha as $t).wrapping_mul(sum).wrapping_add((beta as $t).wrapping_mul(c)))
            }
        }
    )*};
}
integers!(i8 u8 i16 i32 i64);

macro_rules! numbers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn of(value: i32) -> Self {
                value as Self
            }
            fn value(self) -> f64 {
                self as f64
            }
        }
    )*};
}
numbers!(f32 f64 i32 i64);

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug)]
enum Order {
    Row,
    Column,
    /// Rows that end before the next begins.
    Padded,
    /// No dimension has stride 1.
    Spread,
}

impl Order {
    /// The strides of a matrix, and how many elements it spans: to the last element and no further, so that a sanitizer sees a read
    /// beyond it.
    fn placement(self, rows: usize, columns: usize) -> ([usize; 2], usize) {
        let strides = match self {
            Order::Row => [columns, 1],
            Order::Column => [1, rows],
            Order::Padded => [columns + 3, 1],
            Order::Spread => [2 * columns + 1, 2],
        };
        let reach = |len: usize, stride: usize| len.saturating_sub(1) * stride;
        let len = reach(rows, strides[0]) + reach(columns, strides[1]) + usize::from(rows * columns > 0);
        (strides, len)
    }
}

const ORDERS: [Order; 4] = [Order::Row, Order::Column, Order::Padded, Order::Spread];

struct Matrix<T> {
    data: Vec<T>,
    strides: [isize; 2],
}

impl<T: Sample> Matrix<T> {
    fn new(rows: usize, columns: usize, order: Order, seed: usize) -> Self {
        let (strides, len) = order.placement(rows, columns);
        Self { data: (0..len).map(|i| T::sample(seed + i)).collect(), strides: strides.map(|s| s as isize) }
    }

    fn at(&self, i: usize, j: usize) -> T {
        self.data[i * self.strides[0] as usize + j * self.strides[1] as usize]
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    m: usize,
    n: usize,
    k: usize,
    orders: [Order; 3],
    alpha: i32,
    beta: i32,
}

impl Case {
    fn operands<T: Sample>(&self) -> [Matrix<T>; 3] {
        [(self.m, self.k), (self.k, self.n), (self.m, self.n)]
            .into_iter()
            .zip(self.orders)
            .enumerate()
            .map(|(i, ((rows, columns), order))| Matrix::new(rows, columns, order, 100_000 * i))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap_or_else(|_| unreachable!())
    }

    fn run<T: Sample>(&self, isa: Isa, operands: &mut [Matrix<T>; 3]) {
        self.run_with(isa, operands, None);
    }

    fn run_with<T: Sample>(&self, isa: Isa, [a, b, c]: &mut [Matrix<T>; 3], addend: Option<Addend<T>>) {
        let g = Gemm {
            m: self.m,
            n: self.n,
            k: self.k,
            a: a.data.as_ptr(),
            a_strides: a.strides,
            b: b.data.as_ptr(),
            b_strides: b.strides,
            c: c.data.as_mut_ptr(),
            c_strides: c.strides,
            alpha: T::Scalar::of(self.alpha),
            beta: T::Scalar::of(self.beta),
            addend,
        };
        // SAFETY: the set is available and the matrices own what their strides lead to.
        unsafe { gemm(isa, &g) }
    }

    /// The product, every element compared; elements of C's memory outside the matrix must not change.
    fn check<T: Sample>(&self, isa: Isa) {
        let mut operands = self.operands::<T>();
        let before = self.operands::<T>();
        self.run(isa, &mut operands);
        let [a, b, c] = &operands;
        let mut inside = vec![false; c.data.len()];
        for i in 0..self.m {
            for j in 0..self.n {
                inside[i * c.strides[0] as usize + j * c.strides[1] as usize] = true;
                let row: Vec<_> = (0..self.k).map(|p| (a.at(i, p), b.at(p, j))).collect();
                self.compare(&row, before[2].at(i, j), c.at(i, j), (i, j, isa));
            }
        }
        for (i, inside) in inside.into_iter().enumerate() {
            assert!(inside || c.data[i] == before[2].data[i], "{self:?} {isa:?} wrote outside C");
        }
    }

    fn compare<T: Sample>(&self, row: &[(T, T)], old: T, got: T, at: (usize, usize, Isa)) {
        let (alpha, beta) = (T::Scalar::of(self.alpha), T::Scalar::of(self.beta));
        if let Some(expected) = T::exact(row, alpha, beta, old) {
            assert_eq!(got, expected, "{self:?} at {at:?}");
            return;
        }
        let (alpha, beta) = (alpha.value(), beta.value());
        let products = row.iter().map(|(a, b)| a.value() * b.value());
        let expected = alpha * products.clone().sum::<f64>() + beta * old.value();
        let size = alpha.abs() * products.map(f64::abs).sum::<f64>() + (beta * old.value()).abs();
        let bound = (row.len() + 3) as f64 * T::SUM * size + T::ROUND * expected.abs();
        let error = (got.value() - expected).abs();
        assert!(error <= bound, "{self:?} at {at:?}: expected {expected}, got {got:?}, error {error:e}");
    }
}

fn sets() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.is_available())
}

fn on_all_sets<T: Sample>(cases: &[Case]) {
    for isa in sets() {
        for case in cases {
            case.check::<T>(isa);
        }
    }
}

const ROW: [Order; 3] = [Order::Row; 3];

/// Every combination of sizes around the edges of tiles, and of layouts.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [1, 2, 5, 6, 7, 8, 11, 12, 13, 16, 17, 31, 32, 33, 49, 65, 130];
    for (i, m) in sizes.into_iter().enumerate() {
        for (j, n) in sizes.into_iter().enumerate() {
            let k = sizes[(5 * i + 3 * j) % sizes.len()];
            let orders = [ORDERS[(i + j) % 4], ORDERS[(i + 2 * j + i / 4) % 4], ORDERS[(i * 3 + j / 4) % 4]];
            cases.push(Case { m, n, k, orders, alpha: 1 + (j % 3) as i32, beta: (i % 3) as i32 - 1 });
        }
    }
    for a in ORDERS {
        for b in ORDERS {
            for c in ORDERS {
                cases.push(Case { m: 19, n: 37, k: 21, orders: [a, b, c], alpha: 2, beta: 3 });
            }
        }
    }
    cases
}

#[test]
fn f32_matches_at_all_edges() {
    on_all_sets::<f32>(&cases());
}

#[test]
fn f64_matches_at_all_edges() {
    on_all_sets::<f64>(&cases());
}

#[test]
fn half_precision_matches_at_all_edges() {
    on_all_sets::<bf16>(&cases());
    on_all_sets::<f16>(&cases());
}

#[test]
fn integers_match_and_wrap() {
    on_all_sets::<i8>(&cases());
    on_all_sets::<u8>(&cases());
    on_all_sets::<i16>(&cases());
    on_all_sets::<i32>(&cases());
    on_all_sets::<i64>(&cases());
}

/// Larger than blocks: several blocks of k, of rows and of columns, packed and not.
#[test]
fn large_products_match() {
    let shapes = [
        (130, 70, 1100),
        (30, 2100, 20),
        (270, 290, 530),
        (1, 3000, 700),
        (3000, 1, 700),
        (5, 40, 1100),
        // Strips that blocks pack: rows of B a page apart, and a B that exceeds a cache.
        (40, 1100, 70),
        (100, 1000, 530),
        // Elements of a row of A that are less and more than a page apart.
        (300, 100, 130),
        (1100, 40, 40),
    ];
    for (m, n, k) in shapes {
        for orders in
            [ROW, [Order::Column, Order::Column, Order::Padded], [Order::Row, Order::Column, Order::Spread]]
        {
            let case = Case { m, n, k, orders, alpha: 1, beta: 1 };
            on_all_sets::<f32>(&[case]);
            on_all_sets::<bf16>(&[case]);
        }
        on_all_sets::<i32>(&[Case { m, n, k, orders: ROW, alpha: 3, beta: 2 }]);
    }
    // Long rows of A, which the first tiles pack.
    on_all_sets::<f32>(&[Case { m: 128, n: 780, k: 1040, orders: ROW, alpha: 1, beta: 1 }]);
}

/// Shapes that are not computed in tiles: dots, short columns, tall operands, few columns.
const WITHOUT_TILES: [(usize, usize, usize); 11] = [
    (1, 1, 700),
    (1, 1, 70_001),
    (1, 2000, 3),
    (2000, 1, 4),
    (1, 700, 5),
    (700, 1, 8),
    (5, 7, 5003),
    (16, 15, 2100),
    (1, 9, 4100),
    (700, 5, 4),
    (301, 12, 16),
];

#[test]
fn products_without_tiles_match() {
    for (m, n, k) in WITHOUT_TILES {
        for a in ORDERS {
            for b in ORDERS {
                let case = Case { m, n, k, orders: [a, b, Order::Row], alpha: 1, beta: 0 };
                on_all_sets::<f32>(&[case]);
                on_all_sets::<bf16>(&[Case { alpha: 2, beta: -1, ..case }]);
                on_all_sets::<i64>(&[Case { orders: [a, b, Order::Spread], alpha: 3, beta: 2, ..case }]);
            }
        }
        on_all_sets::<f64>(&[Case { m, n, k, orders: ROW, alpha: 1, beta: 1 }]);
        on_all_sets::<u8>(&[Case { m, n, k, orders: ROW, alpha: 1, beta: 1 }]);
    }
}

/// Every height of a tile, widths around a register's, and k around what an instruction takes, in one slab and in two.
#[test]
fn pairs_in_tiles_match() {
    let transposed = [Order::Column, Order::Column, Order::Padded];
    for m in 1..=66 {
        let (n, k) = (14 + m % 5 + m % 2 * 16, [62, 64, 65, 96][m % 4]);
        for orders in [ROW, transposed, [Order::Row, Order::Column, Order::Spread]] {
            on_all_sets::<bf16>(&[Case {
                m,
                n,
                k,
                orders,
                alpha: 1 + (m % 2) as i32,
                beta: (m % 3) as i32 - 1,
            }]);
        }
    }
    for k in [4096, 4128, 4131] {
        for orders in [ROW, transposed] {
            on_all_sets::<bf16>(&[Case { m: 45, n: 40, k, orders, alpha: 1, beta: 1 }]);
        }
    }
}

#[test]
fn empty_dimensions_scale_c_or_do_nothing() {
    for (m, n, k) in [(0, 5, 3), (5, 0, 3), (5, 7, 0), (0, 0, 0), (1, 1, 0), (40, 300, 0)] {
        for beta in [0, 1, -2] {
            let case = Case { m, n, k, orders: ROW, alpha: 2, beta };
            on_all_sets::<f32>(&[case]);
            on_all_sets::<bf16>(&[case]);
            on_all_sets::<i64>(&[case]);
        }
    }
}

/// With an addend the bits are those of a C that held it.
fn adds_as_c_does<T: Sample>(case: Case) {
    for isa in sets() {
        let Case { m, n, .. } = case;
        let rows = [Order::Row, Order::Column, Order::Padded, Order::Spread];
        let whole = rows.map(|order| Matrix::<T>::new(m, n, order, 7));
        let repeated = [[0, 1], [1, 0], [0, 2], [0, 0]].map(|strides: [isize; 2]| {
            let len = m * strides[0] as usize + n * strides[1] as usize + 1;
            Matrix { data: (0..len).map(T::sample).collect(), strides }
        });
        for addend in whole.iter().chain(&repeated) {
            let [mut copied, mut given] = [case.operands::<T>(), case.operands::<T>()];
            let [row, column] = copied[2].strides.map(|stride| stride as usize);
            for i in 0..m {
                for j in 0..n {
                    copied[2].data[i * row + j * column] = addend.at(i, j);
                }
            }
            case.run(isa, &mut copied);
            let first = addend.data.as_ptr();
            case.run_with(isa, &mut given, Some(Addend { first, strides: addend.strides }));
            for i in 0..m {
                for j in 0..n {
                    let (expected, got) = (copied[2].at(i, j), given[2].at(i, j));
                    assert_eq!(got, expected, "{case:?} {isa:?} {:?} at {i}, {j}", addend.strides);
                }
            }
        }
    }
}

#[test]
fn an_addend_counts_as_if_c_held_it() {
    for (m, n, k) in [(1, 9, 4), (9, 1, 4), (3, 3, 0), (13, 33, 7), (30, 70, 600), (40, 2100, 70)] {
        for order in ORDERS {
            for beta in [0, 1, -2] {
                let case = Case { m, n, k, orders: [Order::Row, Order::Row, order], alpha: 2, beta };
                adds_as_c_does::<f32>(case);
                adds_as_c_does::<bf16>(case);
                adds_as_c_does::<i64>(case);
            }
        }
    }
}

#[test]
fn beta_zero_does_not_read_c() {
    for isa in sets() {
        for order in ORDERS {
            for (m, n, k) in [(13, 33, 7), (1, 9, 4), (9, 1, 4), (3, 3, 0), (30, 30, 600)] {
                let case = Case { m, n, k, orders: [Order::Row, Order::Row, order], alpha: 1, beta: 0 };
                let mut operands = case.operands::<f32>();
                operands[2].data.fill(f32::NAN);
                case.run(isa, &mut operands);
                let c = &operands[2];
                assert!((0..m).all(|i| (0..n).all(|j| c.at(i, j).is_finite())), "{case:?} {isa:?}");
            }
        }
    }
}

/// A NaN or an infinity reaches its row or column, and nothing else.
fn special_values<T: Sample>(special: T, same: impl Fn(f64) -> bool) {
    for isa in sets() {
        for (m, n, k) in [(13, 35, 9), (1, 20, 40), (20, 1, 40), (64, 64, 64)] {
            let case = Case { m, n, k, orders: ROW, alpha: 1, beta: 0 };
            let mut operands = case.operands::<T>();
            let (row, p) = (m - 1, k / 2);
            operands[0].data[row * k + p] = special;
            case.run(isa, &mut operands);
            for i in 0..m {
                for j in 0..n {
                    let value = operands[2].at(i, j).value();
                    assert_eq!(same(value), i == row, "{case:?} {isa:?} ({i}, {j}): {value}");
                }
            }
        }
    }
}

#[test]
fn nan_and_infinity_propagate() {
    special_values(f32::NAN, f64::is_nan);
    special_values(f64::INFINITY, f64::is_infinite);
    special_values(bf16::NAN, f64::is_nan);
    special_values(bf16::NEG_INFINITY, f64::is_infinite);
    special_values(f16::NAN, f64::is_nan);
    special_values(f16::INFINITY, f64::is_infinite);
}

#[test]
fn every_f16_is_upcast_exactly() {
    for bits in 0..=u16::MAX {
        let half = f16::from_bits(bits);
        let (got, expected) = (Element::widen(half), half.to_f32_const());
        assert!(got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()), "{bits:#x}");
    }
}

/// Against the `half` crate, for numbers around every rounding boundary of both types.
#[test]
fn f32_is_narrowed_to_nearest_even() {
    for upper in 0..=u16::MAX {
        for lower in [0, 1, 0x0fff, 0x1000, 0x1001, 0x2000, 0x3000, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff] {
            let x = f32::from_bits(u32::from(upper) << 16 | lower);
            let (got, expected) = (<f16 as Element>::narrow(x), f16::from_f32_const(x));
            assert!(
                got.to_bits() == expected.to_bits() || (got.is_nan() && x.is_nan()),
                "f16 of {x:e}: {got:e}"
            );
            let (got, expected) = (<bf16 as Element>::narrow(x), bf16::from_f32(x));
            assert!(
                got.to_bits() == expected.to_bits() || (got.is_nan() && x.is_nan()),
                "bf16 of {x:e}: {got:e}"
            );
        }
    }
}

fn same_bits<T: Sample>(case: Case) {
    for isa in sets() {
        // The number of threads is one for the whole process.
        static SETTING: Mutex<()> = Mutex::new(());
        let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
        set_num_threads(1);
        let mut serial = case.operands::<T>();
        case.run(isa, &mut serial);
        for threads in [2, 3] {
            set_num_threads(threads);
            let mut split = case.operands::<T>();
            case.run(isa, &mut split);
            assert!(serial[2].data == split[2].data, "{case:?} {isa:?} on {threads} threads");
        }
    }
}

#[test]
fn the_thread_count_changes_no_bit() {
    let shapes =
        [(128, 128, 128), (260, 300, 520), (2000, 16, 64), (16, 2000, 300), (1, 2000, 700), (900, 1, 999)];
    for (m, n, k) in shapes.into_iter().chain(WITHOUT_TILES) {
        for orders in [ROW, [Order::Row, Order::Column, Order::Row], [Order::Column, Order::Row, Order::Row]]
        {
            let case = Case { m, n, k, orders, alpha: 1, beta: 1 };
            same_bits::<f32>(case);
            same_bits::<bf16>(case);
        }
    }
}

/// A row of a product does not depend on how many there are: products of few rows take another path than those of many.
fn rows_do_not_depend_on_their_number<T: Sample>() {
    for isa in sets() {
        for (n, k) in [(16, 8), (8, 4), (16, 1), (3, 7), (17, 30), (32, 32), (5, 64)] {
            for b in ORDERS {
                let orders = [Order::Row, b, Order::Row];
                let (few, many) = ([4, 700])
                    .map(|m| Case { m, n, k, orders, alpha: 1, beta: 1 })
                    .map(|case| {
                        let mut operands = case.operands::<T>();
                        case.run(isa, &mut operands);
                        operands[2].data[..4 * n].to_vec()
                    })
                    .into();
                assert!(few == many, "{n} x {k} {b:?} {isa:?}");
            }
        }
    }
}

#[test]
fn few_rows_are_those_of_many() {
    rows_do_not_depend_on_their_number::<f32>();
    rows_do_not_depend_on_their_number::<f64>();
    rows_do_not_depend_on_their_number::<i32>();
}

#[test]
fn batches_compute_every_product() {
    for (count, size) in [(0, 4), (1, 5), (100, 7), (9, 65), (2, 260)] {
        let data: Vec<f32> = (0..count.max(1) * size * size).map(f32::sample).collect();
        let mut c = vec![0f32; data.len()];
        let target = c.as_mut_ptr() as usize;
        let item = |i: usize| {
            let (a, b) = (data[i * size * size..].as_ptr(), data.as_ptr());
            Gemm::contiguous(size, size, size, a, b, (target as *mut f32).wrapping_add(i * size * size))
        };
        // SAFETY: `count` matrices of `size * size` lie in each vector.
        unsafe { gemm_batch(Isa::detected(), count, item) };
        for i in 0..count {
            let mut single = vec![0f32; size * size];
            let g = Gemm { c: single.as_mut_ptr(), ..item(i) };
            // SAFETY: as above.
            unsafe { gemm(Isa::detected(), &g) };
            assert!(single == c[i * size * size..][..size * size], "product {i} of {count}");
        }
    }
}
