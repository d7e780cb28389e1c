//! Transforms against sums in double words, for lengths around everything that the algorithms distinguish.

use crate::{
    Direction, Float, Shape, complex_in_place, complex_to_complex, complex_to_real, real_to_complex,
};
use flambeau_vectorized::{CpuCapability, override_cpu_capability};
use std::f64::consts::TAU;

type C = [f64; 2];

/// Numbers without a pattern, in -1 to 1, that a f32 holds.
fn draw(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((((state >> 33) as f64 / f64::from(1u32 << 31)) * 2.0 - 1.0) as f32)
    };
    (0..count).map(|_| next()).collect()
}

fn pairs(count: usize, seed: u64) -> Vec<C> {
    draw(2 * count, seed).chunks(2).map(|part| [part[0], part[1]]).collect()
}

/// A sum with the rounding errors of its terms added up separately (Neumaier).
fn exact_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + lost
}

/// The definition.
fn direct(x: &[C], direction: Direction) -> Vec<C> {
    let n = x.len();
    let sign = if direction == Direction::Forward { -1.0 } else { 1.0 };
    let roots: Vec<C> = (0..n)
        .map(|k| {
            let (sin, cos) = (TAU * k as f64 / n as f64).sin_cos();
            [cos, sign * sin]
        })
        .collect();
    (0..n)
        .map(|k| {
            let root = |j: usize| roots[(j as u128 * k as u128 % n as u128) as usize];
            [
                exact_sum((0..n).flat_map(|j| [x[j][0] * root(j)[0], -x[j][1] * root(j)[1]])),
                exact_sum((0..n).flat_map(|j| [x[j][0] * root(j)[1], x[j][1] * root(j)[0]])),
            ]
        })
        .collect()
}

/// The error in the Euclidean norm, in units of the last bit of a f64 (or of `eps`).
fn error(got: &[C], expected: &[C], eps: f64) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = C>| values.map(|[a, b]| a * a + b * b).sum::<f64>().sqrt();
    let difference = norm(&mut got.iter().zip(expected).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]));
    difference / (norm(&mut expected.iter().copied()) * eps).max(1e-300)
}

fn lengths() -> Vec<usize> {
    let around = [
        81, 97, 100, 101, 120, 125, 127, 128, 129, 143, 169, 210, 243, 256, 257, 337, 360, 500, 512, 641,
        1000, 1009, 1024,
    ];
    (1..=70).chain(around).collect()
}

fn to_f32(x: &[C]) -> Vec<[f32; 2]> {
    x.iter().map(|[a, b]| [*a as f32, *b as f32]).collect()
}

fn to_f64<T: Float + Into<f64>>(x: &[[T; 2]]) -> Vec<C> {
    x.iter().map(|[a, b]| [(*a).into(), (*b).into()]).collect()
}

/// Primes are computed by convolutions of up to four times the length.
const BOUND: f64 = 10.0;

#[test]
fn complex_rows_are_transformed() {
    for n in lengths() {
        for direction in [Direction::Forward, Direction::Backward] {
            let x = pairs(n, n as u64);
            let expected = direct(&x, direction);
            let shape = Shape::contiguous(&[n]);
            let mut out = vec![[0.0; 2]; n];
            complex_to_complex(&x, &shape, &mut out, 0, direction, 1.0).unwrap();
            assert!(error(&out, &expected, f64::EPSILON) < BOUND, "{n} {direction:?}");
            let mut out = vec![[0.0f32; 2]; n];
            complex_to_complex(&to_f32(&x), &shape, &mut out, 0, direction, 1.0).unwrap();
            assert!(error(&to_f64(&out), &expected, f32::EPSILON.into()) < BOUND, "{n} {direction:?} f32");
        }
    }
}

#[test]
fn real_rows_are_transformed() {
    for n in lengths() {
        let x = draw(n, 1000 + n as u64);
        let expected = direct(&x.iter().map(|x| [*x, 0.0]).collect::<Vec<_>>(), Direction::Forward);
        let shape = Shape::contiguous(&[n]);
        for all in [false, true] {
            let count = if all { n } else { n / 2 + 1 };
            let mut out = vec![[0.0; 2]; count];
            real_to_complex(&x, &shape, &mut out, 0, all, 1.0).unwrap();
            assert!(error(&out, &expected[..count], f64::EPSILON) < BOUND, "{n} {all}");
            assert!(out[0][1] == 0.0 && (n % 2 == 1 || out[n / 2][1] == 0.0), "{n} {all}");
        }
    }
}

#[test]
fn spectra_are_transformed_to_real_rows() {
    for n in lengths() {
        let x = draw(n, 2000 + n as u64);
        let half = pairs(n / 2 + 1, 3000 + n as u64);
        // The imaginary parts of the first and the middle element are not read.
        let mut all = half.clone();
        all[0][1] = 0.0;
        if n % 2 == 0 {
            all[n / 2][1] = 0.0;
        }
        all.extend((n / 2 + 1..n).map(|k| [half[n - k][0], -half[n - k][1]]));
        let expected = direct(&all[..n], Direction::Backward);
        let mut out = vec![0.0; n];
        complex_to_real(&half, &Shape::contiguous(&[n / 2 + 1]), &mut out, n, 0, 1.0).unwrap();
        let got: Vec<C> = out.iter().map(|x| [*x, 0.0]).collect();
        assert!(error(&got, &expected, f64::EPSILON) < BOUND, "{n}");
        let mut spectrum = vec![[0.0; 2]; n / 2 + 1];
        real_to_complex(&x, &Shape::contiguous(&[n]), &mut spectrum, 0, false, 1.0).unwrap();
        complex_to_real(&spectrum, &Shape::contiguous(&[n / 2 + 1]), &mut out, n, 0, 1.0 / n as f64).unwrap();
        let largest = out.iter().zip(&x).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest < 20.0 * f64::EPSILON, "{n}: {largest}");
    }
}

#[test]
fn factors_and_long_rows() {
    for n in [4096, 4099, 10_007] {
        let x = pairs(n, 7);
        let expected: Vec<C> =
            direct(&x, Direction::Forward).iter().map(|[a, b]| [a * 0.25, b * 0.25]).collect();
        let mut out = x.clone();
        complex_in_place(&mut out, &[n], 0, Direction::Forward, 0.25).unwrap();
        assert!(error(&out, &expected, f64::EPSILON) < BOUND, "{n}");
    }
}

/// The elements of dimension `dim` at each index of the others, in row-major order.
fn rows_of<E: Copy>(elements: &[E], shape: &Shape, dim: usize) -> Vec<Vec<E>> {
    let others: Vec<usize> = (0..shape.sizes().len()).filter(|other| *other != dim).collect();
    let count: usize = others.iter().map(|other| shape.sizes()[*other]).product();
    (0..count)
        .map(|mut row| {
            let mut offset = 0;
            for other in others.iter().rev() {
                offset += row % shape.sizes()[*other] * shape.strides()[*other];
                row /= shape.sizes()[*other];
            }
            (0..shape.sizes()[dim]).map(|index| elements[offset + index * shape.strides()[dim]]).collect()
        })
        .collect()
}

/// A row has the same bits in any array, along any dimension, out of place and in place, with any number of threads.
#[test]
fn a_row_has_the_same_bits_anywhere() {
    let layouts: &[(&[usize], &[usize])] = &[
        (&[7, 12], &[12, 1]),
        (&[7, 12], &[1, 7]),
        (&[7, 12], &[40, 3]),
        (&[3, 35, 40], &[1400, 40, 1]),
        (&[3, 35, 40], &[1, 3, 105]),
        (&[5, 6, 9], &[0, 9, 1]),
        (&[2, 1, 64, 33], &[2112, 2112, 33, 1]),
        (&[300, 16], &[16, 1]),
        (&[16, 300], &[300, 1]),
    ];
    for (sizes, strides) in layouts {
        let shape = Shape::strided(sizes, strides);
        let x = pairs(shape.reach(), 11);
        let parts: Vec<f64> = x.iter().map(|[re, _]| *re).collect();
        for dim in 0..sizes.len() {
            for threads in [1, 2, 3, 7] {
                flambeau_parallel::set_num_threads(threads);
                check_rows(&x, &parts, &shape, dim);
            }
        }
    }
}

fn check_rows(x: &[C], parts: &[f64], shape: &Shape, dim: usize) {
    let n = shape.sizes()[dim];
    let alone = Shape::contiguous(&[n]);
    let mut out = vec![[0.0; 2]; shape.elements()];
    complex_to_complex(x, shape, &mut out, dim, Direction::Forward, 0.5).unwrap();
    let written = Shape::contiguous(shape.sizes());
    for (got, row) in rows_of(&out, &written, dim).iter().zip(rows_of(x, shape, dim)) {
        let mut expected = vec![[0.0; 2]; n];
        complex_to_complex(&row, &alone, &mut expected, 0, Direction::Forward, 0.5).unwrap();
        assert_eq!(*got, expected, "{shape:?} {dim}");
    }
    let before = out.clone();
    complex_in_place(&mut out, shape.sizes(), dim, Direction::Backward, 1.0).unwrap();
    let mut apart = vec![[0.0; 2]; out.len()];
    complex_to_complex(&before, &written, &mut apart, dim, Direction::Backward, 1.0).unwrap();
    assert_eq!(out, apart, "{shape:?} {dim}");

    let halved = Shape::contiguous(&shape.with_size(dim, n / 2 + 1));
    let mut spectra = vec![[0.0; 2]; halved.elements()];
    real_to_complex(parts, shape, &mut spectra, dim, false, 1.0).unwrap();
    let mut back = vec![0.0; shape.elements()];
    complex_to_real(&spectra, &halved, &mut back, n, dim, 1.0).unwrap();
    let all = rows_of(&spectra, &halved, dim);
    let restored = rows_of(&back, &written, dim);
    for ((row, spectrum), restored) in rows_of(parts, shape, dim).iter().zip(all).zip(restored) {
        let mut expected = vec![[0.0; 2]; n / 2 + 1];
        real_to_complex(row, &alone, &mut expected, 0, false, 1.0).unwrap();
        assert_eq!(spectrum, expected, "{shape:?} {dim}");
        let mut expected = vec![0.0; n];
        complex_to_real(&spectrum, &Shape::contiguous(&[n / 2 + 1]), &mut expected, n, 0, 1.0).unwrap();
        assert_eq!(restored, expected, "{shape:?} {dim}");
    }
}

#[test]
fn nan_and_infinity_remain_in_their_row() {
    for n in [1, 2, 3, 8, 9, 64, 100, 101] {
        for value in [f64::NAN, f64::INFINITY] {
            let mut x = pairs(5 * n, 5);
            x[2 * n + n / 2][0] = value;
            let mut out = vec![[0.0; 2]; 5 * n];
            complex_to_complex(&x, &Shape::contiguous(&[5, n]), &mut out, 1, Direction::Forward, 1.0)
                .unwrap();
            let finite: Vec<bool> =
                out.chunks(n).map(|row| row.iter().flatten().all(|x| x.is_finite())).collect();
            assert_eq!(finite, [true, true, false, true, true], "{n}");
        }
    }
}

#[test]
fn arrays_without_elements_are_left_alone() {
    let mut out: Vec<[f64; 2]> = vec![];
    complex_to_complex(&[], &Shape::contiguous(&[0, 4]), &mut out, 1, Direction::Forward, 1.0).unwrap();
    real_to_complex(&[], &Shape::contiguous(&[3, 4, 0]), &mut out, 1, false, 1.0).unwrap();
    complex_to_real(&[], &Shape::contiguous(&[3, 0, 5]), &mut Vec::<f64>::new(), 8, 2, 1.0).unwrap();
}

/// Short rows, as many as fill vectors and blocks of them and some more, in layouts that are read and written by vectors, by blocks, in
/// fours and one by one: each has the bits that it has alone, for every instruction set.
#[test]
fn short_rows_have_the_same_bits_in_every_layout() {
    for n in 1..=33 {
        let mut alone: Vec<Vec<u64>> = vec![];
        for set in CpuCapability::available() {
            let _guard = override_cpu_capability(set);
            let mut all = vec![];
            for count in [1, 15, 16, 64, 66, 130] {
                for (sizes, strides, dim) in [
                    (vec![count, n], vec![n, 1], 1),
                    (vec![n, count], vec![count, 1], 0),
                    (vec![count, n], vec![1, count], 1),
                    (vec![count, n], vec![n + 3, 1], 1),
                    (vec![count, n, 4], vec![4 * n, 4, 1], 1),
                    (vec![3, n, count], vec![1, 3, 3 * n], 1),
                ] {
                    let shape = Shape::strided(&sizes, &strides);
                    let x = pairs(shape.reach(), n as u64);
                    let parts: Vec<f64> = x.iter().map(|[re, _]| *re).collect();
                    check_rows(&x, &parts, &shape, dim);
                }
                all.push(bits_of_rows::<f32>(n, count));
                all.push(bits_of_rows::<f64>(n, count));
            }
            if alone.is_empty() {
                alone = all;
            } else if n <= 16 {
                // Longer rows are those of another crate.
                assert_eq!(all, alone, "{n} {}", set.name());
            }
        }
    }
}

/// Parts of short rows, which threads take, begin anywhere among the other dimensions.
#[test]
fn parts_of_short_rows_have_the_same_bits() {
    for (sizes, dim) in [([11_000, 3, 4], 1), ([3, 1571, 7], 0), ([13, 1700, 2], 2)] {
        let shape = Shape::contiguous(&sizes);
        let x = pairs(shape.elements(), 3);
        let transformed = |threads| {
            flambeau_parallel::set_num_threads(threads);
            let mut out = vec![[0.0; 2]; x.len()];
            complex_to_complex(&x, &shape, &mut out, dim, Direction::Backward, 1.0).unwrap();
            out
        };
        let out = transformed(3);
        assert_eq!(out, transformed(1));
        let rows = rows_of(&x, &shape, dim).into_iter().zip(rows_of(&out, &shape, dim));
        for (row, got) in rows.step_by(97) {
            let mut alone = vec![[0.0; 2]; row.len()];
            let shape = Shape::contiguous(&[row.len()]);
            complex_to_complex(&row, &shape, &mut alone, 0, Direction::Backward, 1.0).unwrap();
            assert_eq!(got, alone);
        }
    }
}

/// The bits of transforms of all kinds of rows.
fn bits_of_rows<T: Float + Into<f64>>(n: usize, count: usize) -> Vec<u64> {
    let x: Vec<T> = draw(2 * n * count, 77).into_iter().map(T::from_f64).collect();
    let z: Vec<[T; 2]> = x.chunks(2).map(|part| [part[0], part[1]]).collect();
    let (shape, half) = (Shape::contiguous(&[count, n]), Shape::contiguous(&[count, n / 2 + 1]));
    let mut outputs = vec![];
    for direction in [Direction::Forward, Direction::Backward] {
        let mut out = vec![[T::ZERO; 2]; n * count];
        complex_to_complex(&z, &shape, &mut out, 1, direction, 0.3).unwrap();
        outputs.push(out);
    }
    for all in [false, true] {
        let mut out = vec![[T::ZERO; 2]; count * if all { n } else { n / 2 + 1 }];
        real_to_complex(&x, &shape, &mut out, 1, all, 0.3).unwrap();
        outputs.push(out);
    }
    let mut out = vec![T::ZERO; n * count];
    complex_to_real(&outputs[2], &half, &mut out, n, 1, 0.3).unwrap();
    let parts = outputs.concat().into_iter().flatten().chain(out);
    parts.map(|part| Into::<f64>::into(part).to_bits()).collect()
}

/// The errors of short rows are a fraction of those that are allowed to longer ones, in both precisions and kinds.
#[test]
fn short_rows_are_accurate() {
    for n in 1..=33 {
        for seed in 0..20 {
            let x = pairs(n, 100 * n as u64 + seed);
            for direction in [Direction::Forward, Direction::Backward] {
                let expected = direct(&x, direction);
                let mut out = vec![[0.0f32; 2]; n];
                complex_to_complex(&to_f32(&x), &Shape::contiguous(&[n]), &mut out, 0, direction, 1.0)
                    .unwrap();
                let error = error(&to_f64(&out), &expected, f32::EPSILON.into());
                assert!(error < 1.0, "{n} {direction:?}: {error}");
            }
        }
    }
}
