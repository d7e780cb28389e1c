//! Random numbers against the stream that they are made of, one number at a time.

use crate::support::*;
use flambeau_core::{Generator, Philox, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

/// Sizes around those of blocks of four numbers, of tiles, and of parts for several threads.
const SIZES: [usize; 10] = [1, 3, 4, 5, 255, 256, 257, 513, 1023, 70_000];

fn filled(
    n: usize,
    dtype: ScalarType,
    fill: impl Fn(&Tensor, &Generator) -> flambeau_core::Result<()>,
) -> Vec<f64> {
    let (t, generator) = (sample(&[n as i64], dtype, 1), Generator::new(7));
    // Not from the beginning of the stream.
    generator.reserve(5);
    fill(&t, &generator).unwrap();
    values(&t)
}

fn stream() -> Philox {
    let generator = Generator::new(7);
    generator.reserve(5);
    generator.reserve(1 << 40)
}

#[test]
fn integers_are_products_of_the_words() {
    for n in SIZES {
        for count in [1i64, 7, 1 << 32, (1 << 32) + 1, 1 << 52] {
            let got = filled(n, ScalarType::I64, |t, g| ops::random__from(t, -3, Some(count - 3), Some(g)));
            let product =
                |i: usize| ((u128::from(stream().word64(i as u64)) * count as u128) >> 64) as f64 - 3.0;
            assert_eq!(got, (0..n).map(product).collect::<Vec<_>>(), "{n} below {count}");
        }
    }
}

#[test]
fn most_integers_of_64_bits_are_products_of_the_words() {
    for (to, count) in [(Some(i64::MAX), u128::from(u64::MAX)), (None, 1 << 64), (Some(0), 1 << 63)] {
        let got = filled(257, ScalarType::I64, |t, g| ops::random__from(t, i64::MIN, to, Some(g)));
        let product = |i: usize| ((u128::from(stream().word64(i as u64)) * count) >> 64) as u64;
        let from_lowest = |step: u64| i64::MIN.wrapping_add(step as i64) as f64;
        assert_eq!(got, (0..257).map(product).map(from_lowest).collect::<Vec<_>>(), "below {to:?}");
    }
}

#[test]
fn uniform_numbers_are_the_high_bits_of_the_words() {
    for n in SIZES {
        let got = filled(n, ScalarType::F32, |t, g| ops::uniform_(t, 0.0, 1.0, Some(g)));
        let want = |i: usize| f64::from(stream().word(i as u64) >> 8) / f64::from(1 << 24);
        assert_eq!(got, (0..n).map(want).collect::<Vec<_>>(), "{n} of f32");
        let got = filled(n, ScalarType::F64, |t, g| ops::uniform_(t, 0.0, 1.0, Some(g)));
        let want = |i: usize| (stream().word64(i as u64) >> 11) as f64 / (1u64 << 53) as f64;
        assert_eq!(got, (0..n).map(want).collect::<Vec<_>>(), "{n} of f64");
    }
}

#[test]
fn normal_numbers_are_pairs_of_uniform_ones() {
    for n in SIZES {
        let got = filled(n, ScalarType::F32, |t, g| ops::normal_(t, 0.0, 1.0, Some(g)));
        for (i, got) in got.iter().enumerate() {
            let uniform = |k: usize| (f64::from(stream().word((i / 2 * 2 + k) as u64)) + 0.5) / 2f64.powi(32);
            let (radius, angle) = ((-2.0 * uniform(0).ln()).sqrt(), std::f64::consts::TAU * uniform(1));
            let want = radius * if i % 2 == 0 { angle.cos() } else { angle.sin() };
            assert!((got - want).abs() < 4e-6 * (1.0 + want.abs()), "{i} of {n}: {got} {want}");
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_number() {
    let run = |threads: usize| {
        parallel::set_num_threads(threads);
        [ScalarType::F32, ScalarType::F64]
            .map(|dtype| filled(70_001, dtype, |t, g| ops::normal_(t, 1.0, 2.0, Some(g))))
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one, two);
}

#[test]
fn normal_numbers_have_the_type_of_their_mean() {
    let (mean, std) = (Tensor::from([1.0f32, 2.0]), Tensor::from([0i8, 0]));
    assert_eq!(ops::normal_tensor_tensor(&mean, &std, None).unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert!(ops::normal_tensor_tensor(&std, &mean, None).unwrap_err().message().contains("not implemented"));
    let below = Tensor::from([0.0f32, -1.0]);
    assert!(ops::normal_tensor_tensor(&mean, &below, None).unwrap_err().message().contains(">= 0.0"));
}
