//! Random numbers: their distributions, and that they depend on seed and index alone.

use super::harness::{FLOATS, numbers, tensor};
use flambeau_core::{ErrorKind, Generator, ScalarType};
use flambeau_ops::{Result, Tensor, ops, parallel};
use std::sync::Mutex;

/// The thread count belongs to the process.
static THREADS: Mutex<()> = Mutex::new(());

fn filled(
    sizes: &[i64],
    dtype: ScalarType,
    fill: impl Fn(&Tensor, Option<&Generator>) -> Result<()>,
) -> Tensor {
    let generator = Generator::new(42);
    let t = Tensor::empty(sizes, dtype).unwrap();
    fill(&t, Some(&generator)).unwrap();
    t
}

type Fill = (&'static str, fn(&Tensor, Option<&Generator>) -> Result<()>);
const FILLS: [Fill; 5] = [
    ("uniform_", |t, g| ops::uniform_(t, -1.0, 3.0, g)),
    ("normal_", |t, g| ops::normal_(t, 2.0, 3.0, g)),
    ("exponential_", |t, g| ops::exponential_(t, 0.5, g)),
    ("random_", |t, g| ops::random__from(t, -3, Some(100), g)),
    ("bernoulli_", |t, g| ops::bernoulli__float(t, 0.3, g)),
];

#[test]
fn values_depend_on_seed_and_index_alone() {
    let _lock = THREADS.lock().unwrap();
    let before = parallel::num_threads();
    for (name, fill) in FILLS {
        for dtype in FLOATS {
            parallel::set_num_threads(1);
            let alone = numbers(&filled(&[300, 331], dtype, fill));
            parallel::set_num_threads(4);
            assert_eq!(
                alone,
                numbers(&filled(&[300, 331], dtype, fill)),
                "{name} of {dtype} on four threads"
            );
            let generator = Generator::new(42);
            let transposed = Tensor::empty(&[331, 300], dtype).unwrap().t().unwrap();
            fill(&transposed, Some(&generator)).unwrap();
            assert_eq!(alone, numbers(&transposed), "{name} of {dtype} in another layout");
            let shorter = numbers(&filled(&[1001], dtype, fill));
            assert_eq!(alone[..1001], shorter, "{name} of {dtype} in another size");
            let mut next = Tensor::empty(&[1001], dtype).unwrap();
            fill(&next, Some(&generator)).unwrap();
            assert_ne!(alone[..1001], numbers(&next), "{name} of {dtype} moves on");
            next = Tensor::empty(&[0], dtype).unwrap();
            fill(&next, Some(&generator)).unwrap();
        }
    }
    parallel::set_num_threads(before);
}

/// Mean and variance of n numbers lie within five standard errors; n is a million.
#[test]
fn moments_are_those_of_the_distributions() {
    let n = 1_000_000f64;
    // Name, mean, variance, fourth central moment.
    let expected = [
        (1.0, 16.0 / 12.0, 256.0 / 80.0),
        (2.0, 9.0, 243.0),
        (2.0, 4.0, 144.0),
        (48.0, 883.999, 1.407e6),
        (0.3, 0.21, 0.0777),
    ];
    for ((name, fill), (mean, variance, fourth)) in FILLS.into_iter().zip(expected) {
        for dtype in [ScalarType::F32, ScalarType::F64] {
            let values = numbers(&filled(&[1_000_000], dtype, fill));
            let average = values.iter().sum::<f64>() / n;
            let spread = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            assert!(
                (average - mean).abs() < 5.0 * (variance / n).sqrt(),
                "{name} of {dtype}: mean {average}"
            );
            let error = ((fourth - variance * variance).abs() / n).sqrt();
            assert!(
                (spread - variance).abs() < 5.0 * error + 1e-3 * variance,
                "{name} of {dtype}: variance {spread}"
            );
        }
    }
}

/// Kolmogorov and Smirnov: the maximum distance to the distribution stays below 1.95 / sqrt(n), as it does 999 times of 1000.
#[test]
fn distributions_are_met_everywhere() {
    let n = 200_000;
    let cases: [(usize, fn(f64) -> f64); 3] = [
        (0, |x| (x + 1.0) / 4.0),
        (1, |x| super::reference::normal_cdf((x - 2.0) / 3.0)),
        (2, |x| 1.0 - (-0.5 * x).exp()),
    ];
    for (which, cdf) in cases {
        for dtype in [ScalarType::F32, ScalarType::F64] {
            let mut values = numbers(&filled(&[n], dtype, FILLS[which].1));
            values.sort_by(f64::total_cmp);
            let distance = |(i, x): (usize, &f64)| (cdf(*x) - (i as f64 + 0.5) / n as f64).abs();
            let max_distance = values.iter().enumerate().map(distance).fold(0.0, f64::max);
            assert!(max_distance < 1.95 / (n as f64).sqrt(), "{} of {dtype}: {max_distance}", FILLS[which].0);
        }
    }
}

#[test]
fn ranges_are_half_open_and_bounds_are_checked() {
    for dtype in FLOATS {
        let values = numbers(&filled(&[100_000], dtype, |t, g| ops::uniform_(t, 0.0, 1.0, g)));
        assert!(values.iter().all(|x| (0.0..1.0).contains(x)), "{dtype}");
        let normal = numbers(&filled(&[100_001], dtype, |t, g| ops::normal_(t, 0.0, 1.0, g)));
        assert!(normal.iter().all(|x| x.is_finite()), "{dtype}");
    }
    let dice = filled(&[10_000], ScalarType::U8, |t, g| ops::random__from(t, 1, Some(7), g));
    let mut seen = dice.to_vec::<u8>().unwrap();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    let wide = filled(&[1000], ScalarType::I64, |t, g| ops::random__from(t, i64::MIN, None, g))
        .to_vec::<i64>()
        .unwrap();
    assert!(wide.iter().any(|x| *x < -(1 << 62)) && wide.iter().any(|x| *x > 1 << 62));
    let f = Tensor::from([1.0f32]);
    let i = Tensor::from([1i64]);
    let error = |r: Result<&Tensor>| r.map(drop).unwrap_err();
    assert!(ops::uniform_(&f, 1.0, 0.0, None).unwrap_err().message().contains("from=1 > to=0"));
    assert!(ops::normal_(&f, 0.0, -1.0, None).unwrap_err().message().contains("std >= 0.0"));
    assert!(ops::exponential_(&f, 0.0, None).unwrap_err().message().contains("lambda > 0.0"));
    assert!(ops::random__from(&f, 3, Some(3), None).unwrap_err().message().contains("from=3 >= to=3"));
    assert!(
        ops::random__from(&Tensor::from([1u8]), 0, Some(300), None)
            .unwrap_err()
            .message()
            .contains("to - 1 is out of bounds")
    );
    assert_eq!(ops::uniform_(&i, 0.0, 1.0, None).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(ops::normal_(&i, 0.0, 1.0, None).unwrap_err().kind(), ErrorKind::NotImplemented);
    assert_eq!(ops::bernoulli__float(&f, 2.0, None).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(error(f.bernoulli_tensor_(&Tensor::from([1.5f32]))).kind(), ErrorKind::InvalidArgument);
    assert_eq!(error(f.bernoulli_tensor_(&Tensor::from([1i64]))).kind(), ErrorKind::NotImplemented);
}

#[test]
fn permutations_hold_every_number_once() {
    for n in [0i64, 1, 2, 100] {
        let generator = Generator::new(3);
        let order = ops::randperm_generator(n, Some(&generator), None, None, None, None).unwrap();
        let mut values = order.to_vec::<i64>().unwrap();
        values.sort_unstable();
        assert_eq!(values, (0..n).collect::<Vec<_>>());
    }
    let mut firsts = [0u32; 5];
    let generator = Generator::new(5);
    for _ in 0..10_000 {
        let order =
            ops::randperm_generator(5, Some(&generator), Some(ScalarType::U8), None, None, None).unwrap();
        firsts[order.to_vec::<u8>().unwrap()[0] as usize] += 1;
    }
    assert!(firsts.iter().all(|count| (1800..2200).contains(count)), "{firsts:?}");
    assert!(ops::randperm(-1, None, None, None, None).is_err());
    assert!(ops::randperm(300, Some(ScalarType::U8), None, None, None).is_err());
}

#[test]
fn multinomial_draws_by_weight() {
    let weights = tensor(&[0.0, 1.0, 3.0, 0.0, 6.0, 0.0], &[6], ScalarType::F32);
    let generator = Generator::new(9);
    let draws = ops::multinomial(&weights, 100_000, true, Some(&generator)).unwrap().to_vec::<i64>().unwrap();
    let share = |k: i64| draws.iter().filter(|d| **d == k).count() as f64 / 100_000.0;
    for (k, p) in [0.0, 0.1, 0.3, 0.0, 0.6, 0.0].into_iter().enumerate() {
        assert!((share(k as i64) - p).abs() < 0.008, "{k}: {}", share(k as i64));
    }
    let rows = weights.expand(&[20_000, 6]).unwrap();
    let pairs = ops::multinomial(&rows, 2, false, Some(&generator)).unwrap();
    assert_eq!(pairs.sizes(), [20_000, 2]);
    let pairs = pairs.to_vec2::<i64>().unwrap();
    assert!(pairs.iter().all(|p| p[0] != p[1] && weights.to_vec::<f32>().unwrap()[p[0] as usize] > 0.0));
    // The second is 4 after 1 or 2 came first: 0.1 * 6/9 + 0.3 * 6/7.
    let second = pairs.iter().filter(|p| p[1] == 4).count() as f64 / 20_000.0;
    assert!((second - (0.1 * 6.0 / 9.0 + 0.3 * 6.0 / 7.0)).abs() < 0.02, "{second}");
    let message = |values: &[f64], n: i64| {
        let t = tensor(values, &[values.len() as i64], ScalarType::F32);
        ops::multinomial(&t, n, false, None).unwrap_err().to_string()
    };
    assert!(
        message(&[1.0, -1.0], 1).contains("element < 0") && message(&[f64::NAN, 0.0], 1).contains("`nan`")
    );
    assert!(message(&[0.0, 0.0], 1).contains("sum of probabilities <= 0"));
    assert!(
        message(&[1.0, 0.0], 3).contains("without replacement")
            && message(&[1.0], 0).contains("n_sample <= 0")
    );
}

#[test]
fn dropout_keeps_the_mean() {
    let x = Tensor::ones(&[100_000], ScalarType::F32).unwrap();
    let (y, mask) = ops::native_dropout(&x, 0.25, Some(true)).unwrap();
    let (y, mask) = (y.to_vec::<f32>().unwrap(), mask.to_vec::<bool>().unwrap());
    assert!(y.iter().zip(&mask).all(|(y, kept)| *y == if *kept { 4.0 / 3.0 } else { 0.0 }));
    let kept = mask.iter().filter(|k| **k).count() as f64 / 1e5;
    assert!((kept - 0.75).abs() < 0.007, "{kept}");
    assert!(ops::dropout(&x, 0.5, false).unwrap().is_same(&x));
    assert!(ops::dropout(&x, 1.0, true).unwrap().to_vec::<f32>().unwrap().iter().all(|y| *y == 0.0));
    assert!(ops::dropout(&x, 2.0, true).unwrap_err().message().contains("between 0 and 1, but got 2"));
    let mask = Tensor::from([true, false]);
    let g = ops::native_dropout_backward(&Tensor::from([3.0f32, 5.0]), &mask, 2.0).unwrap();
    assert_eq!(g.to_vec::<f32>().unwrap(), [6.0, 0.0]);
    let same = ops::native_dropout(&x, 0.5, Some(false)).unwrap();
    assert!(ops::equal(&same.0, &x).unwrap() && same.1.to_vec::<bool>().unwrap().iter().all(|kept| *kept));
}
