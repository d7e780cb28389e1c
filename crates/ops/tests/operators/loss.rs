//! Losses against plain f64 formulas, in every reduction, and their gradients against differences.

use crate::support::*;
use flambeau_core::{Complex, Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops};

type Loss = fn(&Tensor, &Tensor, i64) -> Result<Tensor>;
type Formula = fn(f64, f64) -> f64;

/// Operator, formula, whether arguments are probabilities.
const LOSSES: &[(&str, Loss, Formula, bool)] = &[
    ("mse", ops::mse_loss, |x, t| (x - t) * (x - t), false),
    ("l1", ops::l1_loss, |x, t| (x - t).abs(), false),
    (
        "smooth_l1",
        |x, t, r| ops::smooth_l1_loss(x, t, r, 0.3),
        |x, t| {
            let d = (x - t).abs();
            if d < 0.3 { d * d / 0.6 } else { d - 0.15 }
        },
        false,
    ),
    (
        "huber",
        |x, t, r| ops::huber_loss(x, t, r, 0.3),
        |x, t| {
            let d = (x - t).abs();
            if d <= 0.3 { d * d / 2.0 } else { 0.3 * (d - 0.15) }
        },
        false,
    ),
    (
        "bce",
        |x, t, r| ops::binary_cross_entropy(x, t, None, r),
        |x, t| -(t * x.ln().max(-100.0) + (1.0 - t) * (1.0 - x).ln().max(-100.0)),
        true,
    ),
    (
        "bce logits",
        |x, t, r| ops::binary_cross_entropy_with_logits(x, t, None, None, r),
        |x, t| (1.0 + x.exp()).ln() - t * x,
        false,
    ),
    ("kl_div", |x, t, r| ops::kl_div(x, t, r, false), |x, t| t * (t.ln() - x), true),
    ("kl_div log", |x, t, r| ops::kl_div(x, t, r, true), |x, t| t.exp() * (t - x), false),
];

fn probabilities(sizes: &[i64], dtype: ScalarType, seed: u64) -> Tensor {
    let n: i64 = sizes.iter().product();
    let data: Vec<f64> = noise(n as usize, seed).iter().map(|x| 0.5 + 0.45 * x).collect();
    cast(&Tensor::from_vec(data, sizes).unwrap(), dtype)
}

#[test]
fn margin_losses_agree_with_their_formula() {
    for classes in [3, 40] {
        let x = sample(&[9, classes], ScalarType::F64, 3);
        let targets: Vec<i64> = (0..9).map(|i| i * 7 % classes).collect();
        let target = Tensor::from_vec(targets.clone(), &[9]).unwrap();
        for p in [1, 2] {
            let got = ops::multi_margin_loss(&x, &target, Scalar::Int(p), Scalar::Float(0.5), None, 0);
            let loss = |(row, target): (&[f64], &i64)| {
                let right = row[*target as usize];
                let behind = |x: &f64| (0.5 - right + x).max(0.0).powi(p as i32);
                (total(row.iter().map(behind)) - behind(&right)) / classes as f64
            };
            let want: Vec<f64> = values(&x).chunks(classes as usize).zip(&targets).map(loss).collect();
            assert_close(&values(&got.unwrap()), &want, |_| 1e-13, &format!("{classes} {p}"));
        }
    }
}

#[test]
fn every_loss_agrees_with_its_formula() {
    for dtype in [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64] {
        for (name, op, formula, probable) in LOSSES {
            let make = |seed| {
                if *probable { probabilities(&[7, 33], dtype, seed) } else { sample(&[7, 33], dtype, seed) }
            };
            let (x, t) = (make(1), make(2));
            let each: Vec<f64> = values(&x).iter().zip(values(&t)).map(|(x, t)| formula(*x, t)).collect();
            let eps = epsilon(dtype);
            let what = format!("{name} {dtype}");
            assert_close(
                &values(&op(&x, &t, 0).unwrap()),
                &each,
                |i| 8.0 * eps * (each[i].abs() + 1.0),
                &what,
            );
            let (sum, size): (f64, f64) = (total(each.iter().copied()), total(each.iter().map(|x| x.abs())));
            assert_close(&values(&op(&x, &t, 2).unwrap()), &[sum], |_| 8.0 * eps * size, &what);
            assert_close(
                &values(&op(&x, &t, 1).unwrap()),
                &[sum / 231.0],
                |_| 8.0 * eps * size / 231.0,
                &what,
            );
            assert!(op(&x, &t, 3).is_err());
        }
    }
}

type Backward = fn(&Tensor, &Tensor, &Tensor, i64) -> Result<Tensor>;

/// On both sides of the limit below which no tensor of all losses is made, nothing but that changes.
#[test]
fn a_reduced_loss_is_the_sum_of_all_losses() {
    for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::BF16] {
        for count in [1, 7, 64, 255, 256, 257, 1000] {
            for (name, loss, _, _) in LOSSES {
                let [x, t] = [1, 2].map(|seed| probabilities(&[count], dtype, seed));
                let each = loss(&x, &t, 0).unwrap();
                let sum = ops::sum_dim_intlist(&each, None, false, None).unwrap();
                let mean = ops::mean_dim(&each, None, false, None).unwrap();
                let what = format!("{name} of {count} {dtype}");
                assert_eq!(values(&loss(&x, &t, 2).unwrap()), values(&sum), "{what}");
                assert_eq!(values(&loss(&x, &t, 1).unwrap()), values(&mean), "{what}");
            }
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    let backwards: &[(Loss, Backward, bool)] = &[
        (ops::mse_loss, ops::mse_loss_backward, false),
        (
            |x, t, r| ops::smooth_l1_loss(x, t, r, 0.3),
            |g, x, t, r| ops::smooth_l1_loss_backward(g, x, t, r, 0.3),
            false,
        ),
        (ops::l1_loss, |g, x, t, r| ops::smooth_l1_loss_backward(g, x, t, r, 0.0), false),
        (
            |x, t, r| ops::huber_loss(x, t, r, 0.3),
            |g, x, t, r| ops::huber_loss_backward(g, x, t, r, 0.3),
            false,
        ),
        (
            |x, t, r| ops::binary_cross_entropy(x, t, None, r),
            |g, x, t, r| ops::binary_cross_entropy_backward(g, x, t, None, r),
            true,
        ),
    ];
    for (i, (loss, backward, probable)) in backwards.iter().enumerate() {
        let make = |seed| {
            if *probable {
                probabilities(&[4, 5], ScalarType::F64, seed)
            } else {
                sample(&[4, 5], ScalarType::F64, seed)
            }
        };
        let (x, t) = (make(1), make(2));
        for reduction in 0..3 {
            let g = sample(if reduction == 0 { &[4, 5] } else { &[] }, ScalarType::F64, 3);
            let total = |x: &Tensor| -> f64 {
                values(&loss(x, &t, reduction).unwrap()).iter().zip(values(&g)).map(|(a, b)| a * b).sum()
            };
            check_gradient(
                &x,
                &backward(&g, &x, &t, reduction).unwrap(),
                total,
                &format!("loss {i}, reduction {reduction}"),
            );
        }
    }
}

fn check_gradient(x: &Tensor, gradient: &Tensor, loss: impl Fn(&Tensor) -> f64, what: &str) {
    let (data, step) = (values(x), 1e-6);
    let want: Vec<f64> = (0..data.len())
        .map(|i| {
            let moved = |by: f64| {
                let mut d = data.clone();
                d[i] += by;
                loss(&Tensor::from_vec(d, x.sizes()).unwrap())
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        })
        .collect();
    assert_close(&values(gradient), &want, |i| 1e-7 * (1.0 + want[i].abs()), what);
}

#[test]
fn boundary_points() {
    let t = |data: Vec<f64>| {
        let n = data.len() as i64;
        Tensor::from_vec(data, &[n]).unwrap()
    };
    assert_eq!(
        values(&ops::binary_cross_entropy(&t(vec![0.0, 1.0]), &t(vec![1.0, 0.0]), None, 0).unwrap()),
        [100.0, 100.0]
    );
    assert!(ops::binary_cross_entropy(&t(vec![1.5]), &t(vec![1.0]), None, 0).is_err());
    assert!(ops::binary_cross_entropy(&t(vec![f64::NAN]), &t(vec![1.0]), None, 0).is_err());
    assert_eq!(values(&ops::kl_div(&t(vec![5.0]), &t(vec![0.0]), 0, false).unwrap()), [0.0]);
    let logits =
        ops::binary_cross_entropy_with_logits(&t(vec![1000.0, -1000.0]), &t(vec![0.0, 1.0]), None, None, 0)
            .unwrap();
    assert_eq!(values(&logits), [1000.0, 1000.0]);
    assert_eq!(
        values(&ops::smooth_l1_loss_backward(&t(vec![1.0]), &t(vec![2.0]), &t(vec![2.0]), 0, 0.0).unwrap()),
        [0.0]
    );
    assert!(ops::smooth_l1_loss(&t(vec![1.0]), &t(vec![1.0]), 1, -1.0).is_err());
    assert!(values(&ops::mse_loss(&t(vec![]), &t(vec![]), 1).unwrap())[0].is_nan());
    let weighted = ops::binary_cross_entropy_with_logits(
        &t(vec![0.5]),
        &t(vec![1.0]),
        Some(&t(vec![2.0])),
        Some(&t(vec![3.0])),
        2,
    )
    .unwrap();
    assert!((values(&weighted)[0] - 6.0 * (1.0 + (-0.5f64).exp()).ln()).abs() < 1e-14);
}

/// Samples by classes by positions, and a class for every sample and position; one of them is ignored.
fn classes() -> (Tensor, Tensor, Tensor) {
    let target: Vec<i64> = (0..12).map(|i| if i == 5 { -100 } else { i * 7 % 5 }).collect();
    let weight = ops::exp(&sample(&[5], ScalarType::F64, 2)).unwrap();
    (sample(&[3, 5, 4], ScalarType::F64, 1), Tensor::from_vec(target, &[3, 4]).unwrap(), weight)
}

fn cross_entropy(x: &[f64], target: &[i64], weight: &[f64], smoothing: f64) -> (Vec<f64>, f64) {
    let mut total = 0.0;
    let each = target.iter().enumerate().map(|(i, t)| {
        if *t == -100 {
            return 0.0;
        }
        let row: Vec<f64> = (0..5).map(|c| x[i / 4 * 20 + c * 4 + i % 4]).collect();
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        total += weight[*t as usize];
        let loss = |c: usize| -weight[c] * (row[c] - sum.ln());
        (1.0 - smoothing) * loss(*t as usize) + smoothing / 5.0 * (0..5).map(loss).sum::<f64>()
    });
    (each.collect(), total)
}

#[test]
fn cross_entropy_of_classes() {
    let (x, target, weight) = classes();
    for given in [Some(&weight), None] {
        let weights = given.map_or(vec![1.0; 5], values);
        for smoothing in [0.0, 0.2] {
            let (each, total) = cross_entropy(&values(&x), &ints(&target), &weights, smoothing);
            let sum: f64 = each.iter().sum();
            for (reduction, want) in [(0, each.clone()), (1, vec![sum / total]), (2, vec![sum])] {
                let got = ops::cross_entropy_loss(&x, &target, given, reduction, -100, smoothing).unwrap();
                assert_close(&values(&got), &want, |_| 1e-13, &format!("{reduction} {smoothing}"));
            }
        }
    }
}

#[test]
fn cross_entropy_of_probabilities_is_that_of_classes() {
    let (x, target, weight) = classes();
    let kept: Vec<i64> = ints(&target).iter().map(|t| (*t).max(0)).collect();
    let hot: Vec<f64> =
        (0..60).map(|i| f64::from(u8::from(kept[i / 20 * 4 + i % 4] == (i / 4 % 5) as i64))).collect();
    let (hot, kept) = (Tensor::from_vec(hot, &[3, 5, 4]).unwrap(), Tensor::from_vec(kept, &[3, 4]).unwrap());
    for reduction in [0, 2] {
        let by_class = ops::cross_entropy_loss(&x, &kept, Some(&weight), reduction, -100, 0.1).unwrap();
        let by_probability = ops::cross_entropy_loss(&x, &hot, Some(&weight), reduction, -100, 0.1).unwrap();
        assert_close(&values(&by_probability), &values(&by_class), |_| 1e-13, "probabilities");
    }
}

#[test]
fn nll_loss_and_its_gradient() {
    let x = sample(&[6, 5], ScalarType::F64, 1);
    let target = Tensor::from_vec(vec![0i64, 4, 2, -100, 1, 4], &[6]).unwrap();
    let weight = ops::exp(&sample(&[5], ScalarType::F64, 2)).unwrap();
    for reduction in 0..3 {
        let (_, total) = ops::nll_loss_forward(&x, &target, Some(&weight), reduction, -100).unwrap();
        let g = sample(if reduction == 0 { &[6] } else { &[] }, ScalarType::F64, 3);
        let loss = |x: &Tensor| -> f64 {
            let each = values(&ops::nll_loss(x, &target, Some(&weight), reduction, -100).unwrap());
            each.iter().zip(values(&g)).map(|(a, b)| a * b).sum()
        };
        let grad = ops::nll_loss_backward(&g, &x, &target, Some(&weight), reduction, -100, &total).unwrap();
        check_gradient(&x, &grad, loss, "nll_loss");
    }
    let bad = Tensor::from_vec(vec![0i64, 5, 0, 0, 0, 0], &[6]).unwrap();
    assert!(
        ops::nll_loss(&x, &bad, None, 1, -100).unwrap_err().message().contains("Target 5 is out of bounds")
    );
    assert!(ops::nll_loss(&x, &sample(&[6], ScalarType::F32, 1), None, 1, -100).is_err());
    let one = ops::nll_loss(
        &flambeau_ops::native::shape::view::select(&x, 0, 1).unwrap(),
        &Tensor::from_vec(vec![4i64], &[]).unwrap(),
        None,
        1,
        -100,
    )
    .unwrap();
    assert_eq!(values(&one), [-values(&x)[9]]);
}

/// Results are those of PyTorch 2.15.
#[test]
fn the_l1_loss_of_complex_numbers_and_integers_is_their_distance() {
    let x = Tensor::from([Complex::new(1.0f32, 2.0), Complex::new(3.0, -1.0)]);
    let t = Tensor::from([Complex::new(0.0f32, 0.5), Complex::new(1.0, 0.0)]);
    let distances = [3.25f32.sqrt(), 5.0f32.sqrt()];
    let found =
        |x: &Tensor, t: &Tensor, reduction| ops::l1_loss(x, t, reduction).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(found(&x, &t, 0), distances);
    assert_eq!(found(&x, &t, 1), [(distances[0] + distances[1]) / 2.0]);
    assert_eq!(found(&x, &t, 2), [distances[0] + distances[1]]);
    let real = Tensor::from([1.0f32, 3.0]);
    assert_eq!(found(&x, &real, 0), [2.0, 1.0]);
    assert_eq!(found(&real, &x, 2), [3.0]);
    let [a, b] = [Tensor::from([3i32, -2]), Tensor::from([5i32, 4])];
    assert_eq!(ops::l1_loss(&a, &b, 0).unwrap().to_vec::<i32>().unwrap(), [2, 6]);
    assert_eq!(ops::l1_loss(&a, &b, 2).unwrap().to_vec::<i64>().unwrap(), [8]);
    assert!(ops::l1_loss(&a, &b, 1).unwrap_err().message().contains("mean"));
    assert!(ops::l1_loss(&x, &t, 3).unwrap_err().message().contains("0 (none), 1 (mean) or 2 (sum)"));
}

#[test]
fn the_weights_of_cross_entropy_are_one_for_each_class() {
    let [x, target] = [Tensor::from([[1.0f32, 2.0, 3.0]]), Tensor::from([[0.2f32, 0.3, 0.5]])];
    let loss = |weight: &Tensor| ops::cross_entropy_loss(&x, &target, Some(weight), 1, -100, 0.0);
    assert!(loss(&Tensor::from([1.0f32, 2.0, 3.0])).is_ok());
    let error = loss(&Tensor::from([1.0f32])).unwrap_err();
    assert!(error.message().contains("all 3 classes"), "{error}");
}

#[test]
fn a_delta_of_nan_limits_no_gradient() {
    let [x, t] = [Tensor::from([3.0f32, -5.0]), Tensor::from([1.0f32, 1.0])];
    let gradient = |delta| {
        ops::huber_loss_backward(&Tensor::from([1.0f32, 1.0]), &x, &t, 0, delta)
            .unwrap()
            .to_vec::<f32>()
            .unwrap()
    };
    assert_eq!(gradient(4.0), [2.0, -4.0]);
    assert_eq!(gradient(f64::NAN), [2.0, -6.0]);
}

#[test]
fn samples_without_gradient_have_none_in_margin_losses_of_infinite_scores() {
    let (zero, target) = (Tensor::from([0.0f64]), Tensor::from([0i64]));
    for score in [f64::INFINITY, f64::NAN] {
        let x = Tensor::from_vec(vec![0.0, score], &[1, 2]).unwrap();
        for p in [1, 2].map(Scalar::Int) {
            let run =
                ops::_multi_margin_losses_backward(&zero, &x, &target, p, Scalar::Int(1), None).unwrap();
            assert_eq!(values(&run), [0.0, 0.0], "{score} {p:?}");
        }
    }
}
