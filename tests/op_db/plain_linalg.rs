//! References of linear algebra in float64, by textbook methods: elimination, reflections, and Jacobi's rotations.

use crate::array::Array;

/// The matrices of the last two dimensions.
pub(super) fn matrices(a: &Array) -> Vec<Array> {
    let (batch, sizes) = a.sizes.split_at(a.sizes.len() - 2);
    let count = sizes.iter().product::<usize>();
    (0..batch.iter().product())
        .map(|at: usize| Array::new(sizes, a.data[at * count..(at + 1) * count].to_vec()))
        .collect()
}

/// Results of equal sizes, one for each matrix of `a`, in its batch dimensions.
pub(super) fn stacked(a: &Array, parts: &[Array], sizes: &[usize]) -> Array {
    let batch = &a.sizes[..a.sizes.len() - 2];
    Array::new(&[batch, sizes].concat(), parts.iter().flat_map(|part| part.data.clone()).collect())
}

/// `f` of each matrix.
pub(super) fn each(a: &Array, sizes: &[usize], f: impl Fn(&Array) -> Array) -> Array {
    stacked(a, &matrices(a).iter().map(f).collect::<Vec<_>>(), sizes)
}

pub(super) fn build(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Array {
    Array::new(&[rows, columns], (0..rows * columns).map(|at| f(at / columns, at % columns)).collect())
}

pub(super) fn identity(rows: usize, columns: usize) -> Array {
    build(rows, columns, |i, j| f64::from(u8::from(i == j)))
}

/// The transposes of the last two dimensions.
pub(super) fn transposed(a: &Array) -> Array {
    let rank = a.sizes.len();
    let mut dims: Vec<usize> = (0..rank).collect();
    dims.swap(rank - 2, rank - 1);
    a.permute(&dims)
}

fn at(a: &Array, i: usize, j: usize) -> f64 {
    a.data[i * a.sizes[1] + j]
}

fn set(a: &mut Array, i: usize, j: usize, value: f64) {
    let columns = a.sizes[1];
    a.data[i * columns + j] = value;
}

/// The packed factors and the pivots, from 1.
pub(super) fn lu(a: &Array, pivoting: bool) -> (Array, Vec<f64>) {
    let (mut a, mut pivots) = (a.clone(), vec![]);
    let (rows, columns) = (a.sizes[0], a.sizes[1]);
    for k in 0..rows.min(columns) {
        let larger = |x: &usize, y: &usize| at(&a, *x, k).abs().total_cmp(&at(&a, *y, k).abs());
        let pivot = if pivoting { (k..rows).rev().max_by(larger).unwrap_or(k) } else { k };
        pivots.push(pivot as f64 + 1.0);
        for j in 0..columns {
            let (x, y) = (at(&a, k, j), at(&a, pivot, j));
            set(&mut a, k, j, y);
            set(&mut a, pivot, j, x);
        }
        for i in k + 1..rows {
            let factor = at(&a, i, k) / at(&a, k, k);
            set(&mut a, i, k, factor);
            for j in k + 1..columns {
                let value = at(&a, i, j) - factor * at(&a, k, j);
                set(&mut a, i, j, value);
            }
        }
    }
    (a, pivots)
}

/// `P`, `L` and `U`.
pub(super) fn unpacked(factors: &Array, pivots: &[f64]) -> [Array; 3] {
    let (rows, columns) = (factors.sizes[0], factors.sizes[1]);
    let count = rows.min(columns);
    let mut order: Vec<usize> = (0..rows).collect();
    pivots.iter().enumerate().for_each(|(row, pivot)| order.swap(row, *pivot as usize - 1));
    let p = build(rows, rows, |i, j| f64::from(u8::from(order[j] == i)));
    let below = |i: usize, j: usize| if i > j { at(factors, i, j) } else { f64::from(u8::from(i == j)) };
    let above = |i: usize, j: usize| if i <= j { at(factors, i, j) } else { 0.0 };
    [p, build(rows, count, below), build(count, columns, above)]
}

pub(super) fn det(a: &Array) -> f64 {
    let (factors, pivots) = lu(a, true);
    let sign = pivots.iter().zip(1..).filter(|(pivot, row)| **pivot as usize != *row).count();
    (0..a.sizes[0]).map(|i| at(&factors, i, i)).product::<f64>() * if sign % 2 == 0 { 1.0 } else { -1.0 }
}

/// By elimination of all other rows.
pub(super) fn inverse(a: &Array) -> Array {
    let n = a.sizes[0];
    let mut wide = build(n, 2 * n, |i, j| if j < n { at(a, i, j) } else { f64::from(u8::from(i + n == j)) });
    for k in 0..n {
        let larger = |x: &usize, y: &usize| at(&wide, *x, k).abs().total_cmp(&at(&wide, *y, k).abs());
        let pivot = (k..n).max_by(larger).unwrap_or(k);
        for j in 0..2 * n {
            let (x, y) = (at(&wide, k, j), at(&wide, pivot, j));
            set(&mut wide, k, j, y);
            set(&mut wide, pivot, j, x);
        }
        let divisor = at(&wide, k, k);
        (0..2 * n).for_each(|j| {
            let value = at(&wide, k, j) / divisor;
            set(&mut wide, k, j, value);
        });
        for i in (0..n).filter(|i| *i != k) {
            let factor = at(&wide, i, k);
            for j in 0..2 * n {
                let value = at(&wide, i, j) - factor * at(&wide, k, j);
                set(&mut wide, i, j, value);
            }
        }
    }
    build(n, n, |i, j| at(&wide, i, n + j))
}

/// The lower factor.
pub(super) fn cholesky(a: &Array) -> Array {
    let n = a.sizes[0];
    let mut l = build(n, n, |_, _| 0.0);
    for i in 0..n {
        for j in 0..=i {
            let rest = at(a, i, j) - (0..j).map(|k| at(&l, i, k) * at(&l, j, k)).sum::<f64>();
            let value = if i == j { rest.sqrt() } else { rest / at(&l, j, j) };
            set(&mut l, i, j, value);
        }
    }
    l
}

/// LAPACK's `geqrf`: R with the vectors of reflectors below its diagonal, and `tau`.
pub(super) fn reflectors(a: &Array) -> (Array, Vec<f64>) {
    let (mut a, mut taus) = (a.clone(), vec![]);
    let (rows, columns) = (a.sizes[0], a.sizes[1]);
    for k in 0..rows.min(columns) {
        let alpha = at(&a, k, k);
        let tail: f64 = (k + 1..rows).map(|i| at(&a, i, k).powi(2)).sum();
        if tail == 0.0 {
            taus.push(0.0);
            continue;
        }
        let beta = -(alpha * alpha + tail).sqrt().copysign(alpha);
        let tau = (beta - alpha) / beta;
        taus.push(tau);
        for i in k + 1..rows {
            let value = at(&a, i, k) / (alpha - beta);
            set(&mut a, i, k, value);
        }
        set(&mut a, k, k, beta);
        for j in k + 1..columns {
            let sum = at(&a, k, j) + (k + 1..rows).map(|i| at(&a, i, k) * at(&a, i, j)).sum::<f64>();
            for i in k..rows {
                let v = if i == k { 1.0 } else { at(&a, i, k) };
                let value = at(&a, i, j) - tau * v * sum;
                set(&mut a, i, j, value);
            }
        }
    }
    (a, taus)
}

/// The square product of the reflectors below the diagonal of `a`.
pub(super) fn product_of_reflectors(a: &Array, tau: &[f64]) -> Array {
    let rows = a.sizes[0];
    tau.iter().enumerate().fold(identity(rows, rows), |q, (k, tau)| {
        let v = |i: usize| {
            if i == k {
                1.0
            } else if i > k {
                at(a, i, k)
            } else {
                0.0
            }
        };
        q.matmul(&build(rows, rows, |i, j| f64::from(u8::from(i == j)) - tau * v(i) * v(j)))
    })
}

/// U, the singular values in descending order, and V, of a matrix with at least as many rows as columns: one-sided Jacobi rotations
/// make its columns orthogonal.
fn tall_svd(a: &Array) -> (Array, Vec<f64>, Array) {
    let (rows, columns) = (a.sizes[0], a.sizes[1]);
    let (mut u, mut v) = (a.clone(), identity(columns, columns));
    let dot = |a: &Array, p: usize, q: usize| (0..rows).map(|i| at(a, i, p) * at(a, i, q)).sum::<f64>();
    for _ in 0..40 {
        for p in 0..columns {
            for q in p + 1..columns {
                let (x, y, z) = (dot(&u, p, p), dot(&u, q, q), dot(&u, p, q));
                if z.abs() <= 1e-17 * (x * y).sqrt() || z == 0.0 {
                    continue;
                }
                let half = (y - x) / (2.0 * z);
                let t = 1f64.copysign(half) / (half.abs() + half.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                for (matrix, count) in [(&mut u, rows), (&mut v, columns)] {
                    for i in 0..count {
                        let (a, b) = (at(matrix, i, p), at(matrix, i, q));
                        set(matrix, i, p, c * a - c * t * b);
                        set(matrix, i, q, c * t * a + c * b);
                    }
                }
            }
        }
    }
    let norms: Vec<f64> = (0..columns).map(|j| dot(&u, j, j).sqrt()).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|a, b| norms[*b].total_cmp(&norms[*a]));
    let left = build(rows, columns, |i, j| at(&u, i, order[j]) / norms[order[j]].max(f64::MIN_POSITIVE));
    let right = build(columns, columns, |i, j| at(&v, i, order[j]));
    (left, order.iter().map(|j| norms[*j]).collect(), right)
}

/// The same of any matrix.
pub(super) fn svd(a: &Array) -> (Array, Vec<f64>, Array) {
    if a.sizes[0] >= a.sizes[1] {
        return tall_svd(a);
    }
    let (u, values, v) = tall_svd(&transposed(a));
    (v, values, u)
}

/// The eigenvalues of a symmetric matrix in ascending order. Jacobi's rotations from both sides make it diagonal, with an error of some
/// units in the last digit of the norm; the Rayleigh quotients of the vectors, in twice the precision, are right to the last digit.
pub(super) fn eigenvalues(a: &Array) -> Vec<f64> {
    let original = a;
    let (n, mut a) = (a.sizes[0], a.clone());
    let mut vectors = identity(n, n);
    for _ in 0..12 {
        for p in 0..n {
            for q in p + 1..n {
                if at(&a, p, q) == 0.0 {
                    continue;
                }
                let half = (at(&a, q, q) - at(&a, p, p)) / (2.0 * at(&a, p, q));
                let t = 1f64.copysign(half) / (half.abs() + half.hypot(1.0));
                let (c, s) = (1.0 / t.hypot(1.0), t / t.hypot(1.0));
                let entry = |i: usize, j: usize| match (i == j, (i, j)) {
                    (true, _) => {
                        if i == p || i == q {
                            c
                        } else {
                            1.0
                        }
                    }
                    (_, pair) if pair == (p, q) => s,
                    (_, pair) if pair == (q, p) => -s,
                    _ => 0.0,
                };
                let rotation = build(n, n, entry);
                a = transposed(&rotation).matmul(&a).matmul(&rotation);
                vectors = vectors.matmul(&rotation);
                set(&mut a, p, q, 0.0);
                set(&mut a, q, p, 0.0);
            }
        }
    }
    let column = |j: usize| (0..n).map(|i| at(&vectors, i, j)).collect::<Vec<_>>();
    let mut values: Vec<f64> = (0..n).map(|j| rayleigh_quotient(original, &column(j))).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The sum of products as an unevaluated sum of two numbers, with the errors of all operations: Ogita, Rump and Oishi, "Accurate sum and
/// dot product" (2005).
fn precise_dot(x: &[f64], y: &[f64]) -> [f64; 2] {
    x.iter().zip(y).fold([0.0; 2], |[sum, rest], (x, y)| {
        let product = x * y;
        let next = sum + product;
        let old = next - sum;
        [next, rest + x.mul_add(*y, -product) + ((sum - (next - old)) + (product - old))]
    })
}

fn rayleigh_quotient(a: &Array, x: &[f64]) -> f64 {
    let [high, low] = {
        let rows: Vec<[f64; 2]> = a.data.chunks(x.len()).map(|row| precise_dot(row, x)).collect();
        [0, 1].map(|part| rows.iter().map(|row| row[part]).collect::<Vec<_>>())
    };
    let (sum, size) = (precise_dot(x, &high), precise_dot(x, x));
    let rest = sum[1] + precise_dot(x, &low)[0];
    (sum[0] + rest) / (size[0] + size[1])
}

/// The pseudoinverse, where singular values up to `tolerance` count as 0.
pub(super) fn pseudoinverse(a: &Array, tolerance: impl Fn(&[f64]) -> f64) -> Array {
    let (u, values, v) = svd(a);
    let smallest = tolerance(&values);
    let count = values.len();
    let scaled =
        build(a.sizes[1], count, |i, j| if values[j] > smallest { at(&v, i, j) / values[j] } else { 0.0 });
    scaled.matmul(&transposed(&u))
}

/// The exponential by its series, after halving and before squaring.
pub(super) fn exponential(a: &Array) -> Array {
    let n = a.sizes[0];
    let small = a.map(|x| x / 256.0);
    let (mut sum, mut term) = (identity(n, n), identity(n, n));
    for k in 1..20 {
        term = term.matmul(&small).map(|x| x / f64::from(k));
        sum = sum.zip(&term, |a, b| a + b);
    }
    (0..8).fold(sum, |power, _| power.matmul(&power))
}

/// The lower or the upper triangle.
pub(super) fn triangle(a: &Array, upper: bool, unit: bool) -> Array {
    build(a.sizes[0], a.sizes[1], |i, j| match (i == j, if upper { i < j } else { i > j }) {
        (true, _) if unit => 1.0,
        (true, _) | (_, true) => at(a, i, j),
        _ => 0.0,
    })
}
