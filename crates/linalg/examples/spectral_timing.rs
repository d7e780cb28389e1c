//! Times spectral decompositions of single matrices and of batches, one thread: `cargo run --release -p flambeau-linalg --example
//! spectral_timing`.

use flambeau_core::Complex;
use flambeau_linalg::{
    Failure, Field, MatrixMut, SpectralInLanes, eig, hermitian, hermitian_batch, svd, svd_batch,
};
use std::time::Instant;

/// Numbers between -1 and 1.
fn random<T: Field<Real = f64>>(count: usize) -> Vec<T> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| T::from_parts(next(), next())).collect()
}

/// The shortest time of a call, in microseconds.
fn time<T: Clone>(input: &[T], mut call: impl FnMut(&mut [T])) -> f64 {
    let mut best = f64::INFINITY;
    let start = Instant::now();
    let mut calls = 0;
    while calls < 3 || (calls < 200 && start.elapsed().as_secs_f64() < 0.5) {
        let mut copy = input.to_vec();
        let begin = Instant::now();
        call(&mut copy);
        best = best.min(begin.elapsed().as_secs_f64());
        calls += 1;
    }
    best * 1e6
}

fn single<T: Field<Real = f64>>(name: &str, n: usize) -> Result<(), Failure> {
    let a = random::<T>(n * n);
    let mut result = Ok(());
    let mut values = vec![0.0; n];
    let with = time(&a, |a| result = hermitian(MatrixMut::new(a, n, n, n), &mut values, true));
    let without = time(&a, |a| result = hermitian(MatrixMut::new(a, n, n, n), &mut values, false));
    println!("{name} {n}: eigh {with:.0} us, eigvalsh {without:.0} us");
    let (mut u, mut v) = (a.clone(), a.clone());
    let with = time(&a, |a| {
        let vectors = (MatrixMut::new(&mut u, n, n, n), MatrixMut::new(&mut v, n, n, n));
        result = svd(MatrixMut::new(a, n, n, n), &mut values, Some(vectors));
    });
    let without = time(&a, |a| result = svd(MatrixMut::new(a, n, n, n), &mut values, None));
    println!("{name} {n}: svd {with:.0} us, svdvals {without:.0} us");
    let (mut values, mut vectors) = (vec![Complex::ZERO; n], vec![Complex::ZERO; n * n]);
    let with = time(&a, |a| {
        let vectors = MatrixMut::new(&mut vectors, n, n, n);
        result = eig(MatrixMut::new(a, n, n, n), &mut values, Some(vectors));
    });
    println!("{name} {n}: eig {with:.0} us");
    result
}

fn batch<T: SpectralInLanes>(name: &str, n: usize) {
    const COUNT: usize = 100;
    let a = random::<T>(COUNT * n * n);
    let (mut values, mut results) = (vec![0.0; COUNT * n], vec![Ok(()); COUNT]);
    let eigh = time(&a, |a| hermitian_batch(a, n, &mut values, true, &mut results)) / COUNT as f64;
    let (mut u, mut v) = (a.clone(), a.clone());
    let svd = time(&a, |a| svd_batch(a, [n, n], &mut values, Some((&mut u, n, &mut v)), &mut results));
    println!("{name} batch of {n}: eigh {eigh:.2} us, svd {:.2} us each", svd / COUNT as f64);
}

fn main() -> Result<(), Failure> {
    flambeau_parallel::set_num_threads(1);
    let largest = std::env::args().nth(1).and_then(|x| x.parse().ok()).unwrap_or(1000);
    for n in [8, 11, 16, 24, 32] {
        batch::<f64>("f64", n);
        batch::<Complex<f64>>("complex128", n);
    }
    for n in [64, 256, 1000].into_iter().filter(|n| *n <= largest) {
        single::<f64>("f64", n)?;
        single::<Complex<f64>>("complex128", n)?;
    }
    Ok(())
}
