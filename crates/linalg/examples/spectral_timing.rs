//! Times spectral decompositions of single matrices and of batches on one thread, in microseconds for each matrix. Arguments: the
//! largest number of rows, what the names of workloads contain, and the smallest number of rows.
//!
//! `cargo run --release -p flambeau-linalg --example spectral_timing 256 eigh`

use flambeau_core::Complex;
use flambeau_linalg::{
    Field, MatrixMut, Real, SpectralInLanes, eig, hermitian, hermitian_batch, svd, svd_batch,
};
use std::{ops::RangeInclusive, time::Instant};

/// Which workloads run.
struct Selection {
    rows: RangeInclusive<usize>,
    name: String,
}

/// Numbers between -1 and 1.
fn random<T: Field>(count: usize) -> Vec<T> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| T::from_parts(T::Real::from_f64(next()), T::Real::from_f64(next()))).collect()
}

/// The seconds that this thread has run, where Linux tells them; else those since `start`.
fn processor_time(start: &Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanoseconds.map_or(start.elapsed().as_secs_f64(), |count| count * 1e-9)
}

fn square<T: Field>(elements: &mut [T], n: usize) -> MatrixMut<'_, T> {
    MatrixMut::new(elements, n, n, n)
}

impl Selection {
    /// Prints the mean time of calls for `count` matrices of `n` rows, of which each call gets a copy.
    fn time<T: Clone>(
        &self,
        name: &str,
        [n, count]: [usize; 2],
        input: &[T],
        mut call: impl FnMut(&mut [T]),
    ) {
        if !self.rows.contains(&n) || !name.contains(&self.name) {
            return;
        }
        let mut copy = input.to_vec();
        call(&mut copy);
        let start = Instant::now();
        let begin = processor_time(&start);
        let mut calls = 0;
        while calls < 2 || start.elapsed().as_secs_f64() < 0.4 {
            copy.clone_from_slice(input);
            call(&mut copy);
            calls += 1;
        }
        let seconds = (processor_time(&start) - begin) / f64::from(calls);
        println!("{name} {count} x {n}: {:.2}", seconds * 1e6 / count as f64);
    }

    fn symmetric<T: Field>(&self, kind: &str, n: usize) {
        let (a, mut values, sizes) = (random::<T>(n * n), vec![0.0; n], [n, 1]);
        self.time(&format!("eigh_{kind}"), sizes, &a, |a| {
            assert!(hermitian(square(a, n), &mut values, true).is_ok());
        });
        self.time(&format!("eigvalsh_{kind}"), sizes, &a, |a| {
            assert!(hermitian(square(a, n), &mut values, false).is_ok());
        });
    }

    fn singular<T: Field<Real = f64>>(&self, kind: &str, n: usize) {
        let (a, mut values, sizes) = (random::<T>(n * n), vec![0.0; n], [n, 1]);
        let (mut u, mut v) = (a.clone(), a.clone());
        self.time(&format!("svd_{kind}"), sizes, &a, |a| {
            assert!(svd(square(a, n), &mut values, Some((square(&mut u, n), square(&mut v, n)))).is_ok());
        });
        self.time(&format!("svdvals_{kind}"), sizes, &a, |a| {
            assert!(svd(square(a, n), &mut values, None).is_ok());
        });
    }

    fn general<T: Field>(&self, kind: &str, n: usize) {
        let (a, sizes) = (random::<T>(n * n), [n, 1]);
        let (mut values, mut vectors) = (vec![T::Complex::ZERO; n], vec![T::Complex::ZERO; n * n]);
        self.time(&format!("eig_{kind}"), sizes, &a, |a| {
            assert!(eig(square(a, n), &mut values, Some(square(&mut vectors, n))).is_ok());
        });
        self.time(&format!("eigvals_{kind}"), sizes, &a, |a| {
            assert!(eig(square(a, n), &mut values, None).is_ok());
        });
    }

    fn batch<T: SpectralInLanes>(&self, kind: &str, n: usize) {
        const COUNT: usize = 100;
        let a = random::<T>(COUNT * n * n);
        let (mut values, mut results) = (vec![0.0; COUNT * n], vec![Ok(()); COUNT]);
        self.time(&format!("eigh_{kind}"), [n, COUNT], &a, |a| {
            hermitian_batch(a, n, &mut values, true, &mut results);
        });
        let (mut u, mut v) = (a.clone(), a.clone());
        self.time(&format!("svd_{kind}"), [n, COUNT], &a, |a| {
            svd_batch(a, [n, n], &mut values, Some((&mut u, n, &mut v)), &mut results);
        });
        let (mut values, mut vectors) = (vec![T::Complex::ZERO; n], vec![T::Complex::ZERO; n * n]);
        self.time(&format!("eig_{kind}"), [n, COUNT], &a, |a| {
            for a in a.chunks_exact_mut(n * n) {
                assert!(eig(square(a, n), &mut values, Some(square(&mut vectors, n))).is_ok());
            }
        });
    }
}

fn main() {
    flambeau_parallel::set_num_threads(1);
    let mut arguments = std::env::args().skip(1);
    let largest = arguments.next().and_then(|x| x.parse().ok()).unwrap_or(256);
    let name = arguments.next().unwrap_or_default();
    let smallest = arguments.next().and_then(|x| x.parse().ok()).unwrap_or(0);
    let selection = Selection { rows: smallest..=largest, name };
    for n in [4, 8, 10, 11, 12, 14, 16, 24, 32] {
        selection.batch::<f64>("f64", n);
        selection.batch::<Complex<f64>>("c128", n);
    }
    for n in [64, 256, 1000] {
        selection.symmetric::<f32>("f32", n);
        selection.symmetric::<f64>("f64", n);
        selection.symmetric::<Complex<f32>>("c64", n);
        selection.symmetric::<Complex<f64>>("c128", n);
        selection.singular::<f64>("f64", n);
        selection.singular::<Complex<f64>>("c128", n);
        selection.general::<f32>("f32", n);
        selection.general::<f64>("f64", n);
        selection.general::<Complex<f32>>("c64", n);
        selection.general::<Complex<f64>>("c128", n);
    }
}
