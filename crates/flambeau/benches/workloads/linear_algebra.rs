//! The second table: workloads of Fourier transforms, decompositions and complex numbers.

use super::Workload;
use super::data::fill_as;
use flambeau::{Result, ScalarType, Tensor, ops};

use ScalarType::{Complex64, Complex128, F32, F64};

pub(super) fn workloads() -> Vec<Workload> {
    [transforms(), decompositions(), elementwise(), products()].into_iter().flatten().collect()
}

/// The name of a type in names of workloads.
fn label(dtype: ScalarType) -> &'static str {
    match dtype {
        F32 => "f32",
        F64 => "f64",
        Complex64 => "c64",
        _ => "c128",
    }
}

/// Numbers with parts in [-1, 1).
fn random(sizes: &[i64], seed: u32, dtype: ScalarType) -> Result<Tensor> {
    if !dtype.is_complex() {
        return fill_as(sizes, seed, dtype);
    }
    let parts: Vec<i64> = sizes.iter().copied().chain([2]).collect();
    ops::view_as_complex(&fill_as(&parts, seed, dtype.to_real())?)
}

const LINES: [[i64; 2]; 10] = [
    [4096, 8],
    [1024, 64],
    [64, 1000],
    [64, 1009],
    [64, 1024],
    [16, 4096],
    [1, 65536],
    [1, 99991],
    [1, 100_000],
    [1, 1 << 20],
];

fn transforms() -> Vec<Workload> {
    let mut all = vec![];
    for real in [F32, F64] {
        let complex = real.to_complex();
        for [rows, n] in LINES {
            let name = |kind: &str| format!("fft.{kind}_{}.{rows}x{n}", label(real));
            let of = move |dtype, size| move || random(&[rows, size], 1, dtype);
            all.push(Workload::of(name("c2c"), of(complex, n), |x| ops::fft_fft(x, None, -1, None)));
            all.push(Workload::of(name("r2c"), of(real, n), |x| ops::fft_rfft(x, None, -1, None)));
            all.push(Workload::new(name("c2r"), move || {
                let x = random(&[rows, n / 2 + 1], 1, complex)?;
                Ok(move || ops::fft_irfft(&x, Some(n), -1, None))
            }));
        }
        for [rows, n] in [[512, 512], [500, 500], [64, 4096]] {
            let name = |kind: &str| format!("fft.{kind}_{}.{rows}x{n}", label(real));
            let of = move |dtype| move || random(&[rows, n], 1, dtype);
            all.push(Workload::of(name("c2c2"), of(complex), |x| ops::fft_fft2(x, None, &[-2, -1], None)));
            all.push(Workload::of(name("r2c2"), of(real), |x| ops::fft_rfft2(x, None, &[-2, -1], None)));
            all.push(Workload::of(name("rows"), of(complex), |x| ops::fft_fft(x, None, 0, None)));
        }
    }
    all
}

/// Matrices with pivots that differ from matrix to matrix: random numbers, and a larger one in each row, further to the right in each
/// matrix.
fn matrices(count: i64, n: i64, dtype: ScalarType) -> Result<Tensor> {
    let large = 2.0 * (n as f64).sqrt();
    let mut pivots = vec![0f64; (count * n * n) as usize];
    for (matrix, pivots) in pivots.chunks_exact_mut((n * n) as usize).enumerate() {
        for row in 0..n as usize {
            pivots[row * n as usize + (row + matrix + 1) % n as usize] = large;
        }
    }
    let sizes = [count, n, n];
    let sizes = &sizes[usize::from(count == 1)..];
    random(sizes, 1, dtype)?.add(&Tensor::from_vec(pivots, sizes)?.to(dtype)?)
}

/// Hermitian matrices, positive definite.
fn hermitian(count: i64, n: i64, dtype: ScalarType) -> Result<Tensor> {
    let a = matrices(count, n, dtype)?;
    let adjoint = ops::conj(&ops::transpose_int(&a, -2, -1)?)?;
    let one = ops::eye(n, Some(dtype), None, None, None)?;
    ops::clone(&a.matmul(&adjoint)?.add(&one)?, None)
}

type Make = fn(i64, i64, ScalarType) -> Result<Tensor>;
/// An operator on matrices and on right sides that have their sizes, or one column for each matrix of a batch.
type Decomposition = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// What is returned is the same for all libraries: neither vectors with a free sign nor values in any order.
const DECOMPOSITIONS: [(&str, Make, Decomposition); 10] = [
    ("cholesky", hermitian, |a, _| ops::linalg_cholesky(a, false)),
    ("lu", matrices, |a, _| Ok(ops::linalg_lu_factor(a, true)?.0)),
    ("solve", matrices, |a, b| ops::linalg_solve(a, b, true)),
    ("inv", matrices, |a, _| ops::linalg_inv(a)),
    ("det", matrices, |a, _| ops::linalg_det(a)),
    ("qr", matrices, |a, _| Ok(ops::linalg_qr(a, "reduced")?.1)),
    ("eigh", hermitian, |a, _| Ok(ops::linalg_eigh(a, "L")?.0)),
    ("svd", matrices, |a, _| Ok(ops::linalg_svd(a, false, None)?.1)),
    ("eig", matrices, |a, _| ops::linalg_eig(a)?.0.abs()?.sum()),
    ("lstsq", matrices, |a, b| Ok(ops::linalg_lstsq(a, b, None, None)?.0)),
];

/// How many matrices, and their rows. Those of 1000 are in f64 only.
const BATCHES: [[i64; 2]; 7] = [[1000, 4], [1000, 8], [1000, 16], [1000, 32], [1, 64], [1, 256], [1, 1000]];

fn decompositions() -> Vec<Workload> {
    let mut all = vec![];
    for (operator, make, call) in DECOMPOSITIONS {
        for dtype in [F32, F64, Complex128] {
            for [count, n] in BATCHES.into_iter().filter(|[_, n]| dtype == F64 || *n < 1000) {
                let name = format!("decomposition.{operator}_{}.{count}x{n}", label(dtype));
                all.push(Workload::new(name, move || {
                    let a = make(count, n, dtype)?;
                    let b = if count == 1 { vec![n, n] } else { vec![count, n, 1] };
                    let b = random(&b, 2, dtype)?;
                    Ok(move || call(&a, &b))
                }));
            }
        }
    }
    all
}

type Unary = fn(&Tensor) -> Result<Tensor>;

const UNARY: [(&str, Unary); 8] = [
    ("abs", |x| x.abs()),
    ("angle", |x| x.angle()),
    ("exp", |x| x.exp()),
    ("log", |x| x.log()),
    ("sqrt", |x| x.sqrt()),
    ("sin", |x| x.sin()),
    ("tanh", |x| x.tanh()),
    ("sum", |x| x.sum()),
];

type Binary = fn(&Tensor, &Tensor) -> Result<Tensor>;

const BINARY: [(&str, Binary); 3] =
    [("add", |a, b| a.add(b)), ("mul", |a, b| a.mul(b)), ("div", |a, b| a.div(b))];

fn elementwise() -> Vec<Workload> {
    let mut all = vec![];
    for dtype in [Complex64, Complex128] {
        for (size, n) in [("1e4", 10_000), ("1e6", 1_000_000)] {
            let name = |operator: &str| format!("complex.{operator}_{}.{size}", label(dtype));
            for (operator, call) in BINARY {
                all.push(Workload::new(name(operator), move || {
                    let (a, b) = (random(&[n], 1, dtype)?, random(&[n], 2, dtype)?);
                    Ok(move || call(&a, &b))
                }));
            }
            for (operator, call) in UNARY {
                all.push(Workload::of(name(operator), move || random(&[n], 1, dtype), call));
            }
        }
    }
    all
}

/// Sizes of the operands of products.
const PRODUCTS: [(&str, &[i64], &[i64]); 7] = [
    ("1000x8", &[1000, 8, 8], &[1000, 8, 8]),
    ("16", &[16, 16], &[16, 16]),
    ("64", &[64, 64], &[64, 64]),
    ("256", &[256, 256], &[256, 256]),
    ("1024", &[1024, 1024], &[1024, 1024]),
    ("1024x1024x1", &[1024, 1024], &[1024, 1]),
    ("1x1024x1024", &[1, 1024], &[1024, 1024]),
];

fn products() -> Vec<Workload> {
    let mut all = vec![];
    for dtype in [Complex64, Complex128] {
        for (size, a, b) in PRODUCTS {
            all.push(Workload::new(format!("complex.matmul_{}.{size}", label(dtype)), move || {
                let (a, b) = (random(a, 1, dtype)?, random(b, 2, dtype)?);
                Ok(move || a.matmul(&b))
            }));
        }
        all.push(Workload::new(format!("complex.matmul_{}.transposed_256", label(dtype)), move || {
            let (a, b) = (random(&[256, 256], 1, dtype)?.t()?, random(&[256, 256], 2, dtype)?.t()?);
            Ok(move || a.matmul(&b))
        }));
    }
    all
}
