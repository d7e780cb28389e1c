//! Softmax, scans and normalizations against a plain f64 reference, in every layout and floating point type.

use crate::support::*;
use flambeau_core::{Result, Scalar, ScalarType};
use flambeau_ops::{Tensor, ops, parallel};

const FLOATS: [ScalarType; 4] = [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64];
const SHAPES: [&[i64]; 8] =
    [&[1], &[37], &[3, 70], &[4, 9, 33], &[2, 5000], &[130, 3], &[9, 5, 4], &[2, 1100, 5]];

/// The values of a tensor with `f` applied to every row of dimension `dim`.
fn mapped(data: &[f64], sizes: &[i64], dim: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let n = sizes[dim] as usize;
    let inner: usize = sizes[dim + 1..].iter().product::<i64>() as usize;
    let mut out = vec![0.0; data.len()];
    for start in (0..data.len()).filter(|i| (i / inner).is_multiple_of(n)) {
        let row: Vec<f64> = (0..n).map(|i| data[start + i * inner]).collect();
        f(&row).into_iter().enumerate().for_each(|(i, y)| out[start + i * inner] = y);
    }
    out
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let sum = total(x.iter().map(|x| x.exp()));
    x.iter().map(|x| x.exp() / sum).collect()
}

fn log_softmax(x: &[f64]) -> Vec<f64> {
    let sum = total(x.iter().map(|x| x.exp()));
    x.iter().map(|x| x - sum.ln()).collect()
}

fn cumulative(x: &[f64], f: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    x.iter()
        .scan(None, |acc: &mut Option<f64>, x| {
            *acc = Some(acc.map_or(*x, |a| f(a, *x)));
            *acc
        })
        .collect()
}

#[test]
fn softmax_and_scans_agree_with_the_reference() {
    for dtype in FLOATS {
        for sizes in SHAPES {
            for (layout, t) in layouts(sizes, dtype, 3) {
                for dim in 0..sizes.len() {
                    let (x, what) = (values(&t), format!("{dtype} {sizes:?} {layout} along {dim}"));
                    let eps = epsilon(dtype).min(2f64.powi(-24)) * 16.0;
                    let close = |got: Tensor, want: Vec<f64>, name: &str| {
                        assert_eq!(got.dtype(), dtype);
                        let bound = |i: usize| {
                            (eps + epsilon(dtype)) * (want[i].abs() + eps)
                                + eps * f64::from(u8::from(name != "softmax"))
                        };
                        assert_close(&values(&got), &want, bound, &format!("{name} of {what}"));
                    };
                    let d = dim as i64;
                    close(ops::softmax_int(&t, d, None).unwrap(), mapped(&x, sizes, dim, softmax), "softmax");
                    close(
                        ops::log_softmax_int(&t, d, None).unwrap(),
                        mapped(&x, sizes, dim, log_softmax),
                        "log_softmax",
                    );
                    close(
                        ops::cumsum(&t, d, None).unwrap(),
                        mapped(&x, sizes, dim, |l| cumulative(l, |a, b| a + b)),
                        "cumsum",
                    );
                    close(
                        ops::cumprod(&t, d, None).unwrap(),
                        mapped(&x, sizes, dim, |l| cumulative(l, |a, b| a * b)),
                        "cumprod",
                    );
                }
            }
        }
    }
}

#[test]
fn gradients_of_softmax_agree_with_the_reference() {
    for (log, forward) in [(false, ops::_softmax as fn(&Tensor, i64, bool) -> _), (true, ops::_log_softmax)] {
        for sizes in SHAPES {
            for (layout, t) in layouts(sizes, ScalarType::F64, 3) {
                let grad = sample(sizes, ScalarType::F64, 8);
                for dim in 0..sizes.len() {
                    let y = forward(&t, dim as i64, false).unwrap();
                    let backward =
                        if log { ops::_log_softmax_backward_data } else { ops::_softmax_backward_data };
                    let got = values(&backward(&grad, &y, dim as i64, ScalarType::F64).unwrap());
                    let (g, y) = (values(&grad), values(&y));
                    let weights: Vec<f64> =
                        g.iter().zip(&y).map(|(g, y)| if log { *g } else { g * y }).collect();
                    let sums = mapped(&weights, sizes, dim, |l| vec![l.iter().sum(); l.len()]);
                    let want: Vec<f64> = (0..g.len())
                        .map(|i| if log { g[i] - y[i].exp() * sums[i] } else { (g[i] - sums[i]) * y[i] })
                        .collect();
                    assert_close(&got, &want, |_| 1e-13, &format!("{log} {layout} {sizes:?} {dim}"));
                }
            }
        }
    }
}

#[test]
fn scans_of_integers_wrap_in_i64() {
    let t = sample(&[5, 40], ScalarType::I8, 3);
    let got = ops::cumsum(&t, -1, None).unwrap();
    assert_eq!(values(&got), mapped(&values(&t), &[5, 40], 1, |l| cumulative(l, |a, b| a + b)));
    assert_eq!(got.dtype(), ScalarType::I64);
    let bytes = ops::cumsum(&t, 0, Some(ScalarType::U8)).unwrap();
    let want = mapped(&values(&t), &[5, 40], 0, |l| cumulative(l, |a, b| a + b));
    assert_eq!(values(&bytes), want.iter().map(|x| f64::from(*x as i64 as u8)).collect::<Vec<_>>());
    let x = sample(&[6, 7], ScalarType::F32, 4);
    let want = values(&ops::cumprod(&x, 0, None).unwrap());
    ops::cumprod_(&x, 0, None).unwrap();
    assert_eq!(values(&x), want);
    assert!(ops::cumsum(&t, 2, None).is_err());
}

/// The name of a scan, the operator, and the one in place.
type Scan = (&'static str, fn(&Tensor, i64) -> Result<Tensor>, fn(&Tensor, i64) -> Result<()>);

/// Rows have the same bits side by side, strided and in place as each of them has alone.
#[test]
fn scans_of_rows_have_the_bits_of_each_row_alone() {
    let shapes: [&[i64]; 9] = [
        &[7, 17, 3],
        &[300, 3, 4],
        &[150, 4],
        &[2, 40, 70],
        &[3, 2, 90],
        &[33, 2],
        &[90, 5, 7],
        &[5, 9, 1],
        &[70, 33],
    ];
    let scans: [Scan; 2] = [
        ("cumsum", |t, d| ops::cumsum(t, d, None), |t, d| ops::cumsum_(t, d, None)),
        ("cumprod", |t, d| ops::cumprod(t, d, None), |t, d| ops::cumprod_(t, d, None)),
    ];
    for dtype in FLOATS.into_iter().chain([ScalarType::I64]) {
        for (sizes, (name, scan, scan_in_place)) in shapes.iter().flat_map(|s| scans.map(|scan| (*s, scan))) {
            for dim in 0..sizes.len() {
                for (layout, t) in layouts(sizes, dtype, 5) {
                    let alone = |row: &Vec<f64>| {
                        let row = Tensor::from_vec(row.clone(), &[row.len() as i64]).unwrap();
                        values(&scan(&cast(&row, dtype), 0).unwrap())
                    };
                    let want: Vec<_> = rows_of(&values(&t), sizes, &[dim]).iter().map(alone).collect();
                    let check = |got: &Tensor, how: &str| {
                        let got = rows_of(&values(got), sizes, &[dim]);
                        assert!(got == want, "{name} of {dtype} {sizes:?} {layout} along {dim}, {how}");
                    };
                    check(&scan(&t, dim as i64).unwrap(), "as a result");
                    if layout != "expanded" {
                        scan_in_place(&t, dim as i64).unwrap();
                        check(&t, "in place");
                    }
                }
            }
        }
    }
}

/// Sums of f32 are computed eight at a time: an infinity or NaN changes those after it, and none before.
#[test]
fn cumulative_sums_have_nan_and_infinities_from_their_index_on() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let strange: [&[f32]; 6] =
        [&[nan], &[inf], &[-inf], &[inf, -inf], &[f32::MAX, f32::MAX, f32::MIN], &[-0.0]];
    for n in 1..=20 {
        for (values_there, at) in strange.iter().flat_map(|s| (0..n).map(move |at| (s, at))) {
            let mut x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 2.0).collect();
            x.iter_mut().skip(at).step_by(3).zip(*values_there).for_each(|(to, from)| *to = *from);
            let mut sum = 0.0;
            let want = x.iter().map(|x| {
                sum += f64::from(*x);
                sum as f32
            });
            let want: Vec<f32> = want.collect();
            let got = ops::cumsum(&Tensor::from_vec(x, &[n as i64]).unwrap(), 0, None).unwrap();
            for (i, (got, want)) in values(&got).into_iter().zip(want.into_iter().map(f64::from)).enumerate()
            {
                let close = got == want || (got - want).abs() <= 1e-6 * want.abs() + 1e-6;
                assert!(
                    close || got.is_nan() && want.is_nan(),
                    "{values_there:?} at {at} of {n}: {i}: {got} {want}"
                );
            }
        }
    }
}

#[test]
fn extremes_do_not_overflow() {
    let inf = f64::INFINITY;
    let t = Tensor::from_vec(vec![1000.0, 1000.0, -inf, 0.0, -inf, -inf], &[3, 2]).unwrap();
    let got = values(&ops::softmax_int(&t, 1, None).unwrap());
    assert_eq!(got[..4], [0.5, 0.5, 0.0, 1.0]);
    assert!(got[4].is_nan() && got[5].is_nan());
    assert_eq!(ops::softmax_int(&sample(&[0, 3], ScalarType::F32, 1), 1, None).unwrap().sizes(), &[0, 3]);
    assert_eq!(
        values(&ops::softmax_int(&Tensor::from_vec(vec![3.0f32], &[]).unwrap(), 0, None).unwrap()),
        [1.0]
    );
    let t = sample(&[3], ScalarType::I32, 1);
    assert!(ops::softmax_int(&t, 0, None).is_err() && ops::softmax_int(&t, 0, Some(ScalarType::F32)).is_ok());
}

fn normalized(x: &[f64], eps: f64) -> Vec<f64> {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let var = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
    x.iter().map(|x| (x - mean) / (var + eps).sqrt()).collect()
}

#[test]
fn layer_and_rms_norm_agree_with_the_reference() {
    for dtype in FLOATS {
        for (layout, t) in layouts(&[6, 5, 33], dtype, 3) {
            for axis in [1, 2] {
                let shape = &[6i64, 5, 33][axis..];
                let n: i64 = shape.iter().product();
                let (w, b) = (sample(shape, dtype, 5), sample(shape, dtype, 6));
                let (x, wv, bv) = (values(&t), values(&w), values(&b));
                let eps = 40.0 * epsilon(dtype);
                let row = |i: usize| &x[i / n as usize * n as usize..][..n as usize];
                let at = |i: usize| i % n as usize;
                let want: Vec<f64> =
                    (0..x.len()).map(|i| normalized(row(i), 1e-5)[at(i)] * wv[at(i)] + bv[at(i)]).collect();
                let got = ops::layer_norm(&t, shape, Some(&w), Some(&b), 1e-5, true).unwrap();
                assert_close(&values(&got), &want, |_| eps, &format!("layer_norm {dtype} {layout} {axis}"));
                let plain = ops::layer_norm(&t, shape, None, None, 1e-5, true).unwrap();
                let want: Vec<f64> = (0..x.len()).map(|i| normalized(row(i), 1e-5)[at(i)]).collect();
                assert_close(
                    &values(&plain),
                    &want,
                    |_| eps,
                    &format!("plain layer_norm {dtype} {layout} {axis}"),
                );
                let rms = |l: &[f64]| (l.iter().map(|x| x * x).sum::<f64>() / l.len() as f64 + 1e-6).sqrt();
                let want: Vec<f64> = (0..x.len()).map(|i| x[i] / rms(row(i)) * wv[at(i)]).collect();
                let got = ops::rms_norm(&t, shape, Some(&w), Some(1e-6)).unwrap();
                assert_close(&values(&got), &want, |_| eps, &format!("rms_norm {dtype} {layout} {axis}"));
            }
        }
    }
    let t = sample(&[3, 4], ScalarType::F32, 1);
    assert!(ops::layer_norm(&t, &[3], None, None, 1e-5, true).is_err());
    assert!(ops::layer_norm(&t, &[], None, None, 1e-5, true).is_err());
    assert_eq!(
        ops::native_layer_norm(&meta(&[3, 4], ScalarType::F32), &[4], None, None, 1e-5).unwrap().1.sizes(),
        &[3, 1]
    );
}

#[test]
fn batch_and_group_norm_agree_with_the_reference() {
    for (layout, t) in layouts(&[3, 4, 35], ScalarType::F64, 3) {
        let (w, b) = (sample(&[4], ScalarType::F64, 5), sample(&[4], ScalarType::F64, 6));
        let (x, wv, bv) = (values(&t), values(&w), values(&b));
        let mean = sample(&[4], ScalarType::F64, 7);
        let var = ops::add_scalar(&sample(&[4], ScalarType::F64, 8), 2.0.into(), 1.into()).unwrap();
        let (mv, vv) = (values(&mean), values(&var));
        let channel = |i: usize| i / 35 % 4;
        let eval =
            ops::batch_norm(&t, Some(&w), Some(&b), Some(&mean), Some(&var), false, 0.1, 1e-5, true).unwrap();
        let want: Vec<f64> = (0..x.len())
            .map(|i| {
                let c = channel(i);
                (x[i] - mv[c]) / (vv[c] + 1e-5).sqrt() * wv[c] + bv[c]
            })
            .collect();
        assert_close(&values(&eval), &want, |_| 1e-13, layout);
        let trained =
            ops::batch_norm(&t, Some(&w), None, Some(&mean), Some(&var), true, 0.1, 1e-5, true).unwrap();
        let rows = rows_of(&x, &[3, 4, 35], &[0, 2]);
        for (c, row) in rows.iter().enumerate() {
            let m = row.iter().sum::<f64>() / 105.0;
            let unbiased = row.iter().map(|x| (x - m).powi(2)).sum::<f64>() / 104.0;
            assert!((values(&mean)[c] - (0.9 * mv[c] + 0.1 * m)).abs() < 1e-14);
            assert!((values(&var)[c] - (0.9 * vv[c] + 0.1 * unbiased)).abs() < 1e-14);
            let want: Vec<f64> = normalized(row, 1e-5).iter().map(|y| y * wv[c]).collect();
            let got: Vec<f64> =
                (0..x.len()).filter(|i| channel(*i) == c).map(|i| values(&trained)[i]).collect();
            assert_close(&got, &want, |_| 1e-13, layout);
        }
        let grouped = ops::group_norm(&t, 2, Some(&w), Some(&b), 1e-5, true).unwrap();
        let want: Vec<f64> = (0..x.len())
            .map(|i| normalized(&x[i / 70 * 70..][..70], 1e-5)[i % 70] * wv[channel(i)] + bv[channel(i)])
            .collect();
        assert_close(&values(&grouped), &want, |_| 1e-13, layout);
    }
    assert!(ops::group_norm(&sample(&[2, 3], ScalarType::F32, 1), 2, None, None, 1e-5, true).is_err());
}

/// Channels that fit L2 are normalized right after their moments, others in two passes: shapes on both sides of the limits.
#[test]
fn channels_of_any_length_are_normalized_alike() {
    for sizes in [&[3, 16, 16, 16][..], &[3, 15, 16, 16], &[3, 16, 255], &[2, 17, 5003], &[20, 16, 4096]] {
        for dtype in FLOATS {
            let (w, b) = (sample(&sizes[1..2], dtype, 5), sample(&sizes[1..2], dtype, 6));
            let every_layout = sizes.iter().product::<i64>() < 20_000;
            let tensors = if every_layout {
                layouts(sizes, dtype, 3)
            } else {
                vec![("contiguous", sample(sizes, dtype, 3))]
            };
            for (layout, t) in tensors {
                let (x, wv, bv, what) =
                    (values(&t), values(&w), values(&b), format!("{dtype} {sizes:?} {layout}"));
                let (y, mean, rstd) =
                    ops::native_batch_norm(&t, Some(&w), Some(&b), None, None, true, 0.1, 1e-5).unwrap();
                let plain = ops::native_batch_norm(&t, None, None, None, None, true, 0.1, 1e-5).unwrap().0;
                let (y, plain, mean, rstd) = (values(&y), values(&plain), values(&mean), values(&rstd));
                let inner = sizes[2..].iter().product::<i64>() as usize;
                let (channels, eps) = (sizes[1] as usize, epsilon(dtype) * 16.0 + 1e-13);
                for c in 0..channels {
                    let own: Vec<usize> = (0..x.len()).filter(|i| i / inner % channels == c).collect();
                    let row: Vec<f64> = own.iter().map(|&i| x[i]).collect();
                    let (count, normal) = (row.len() as f64, normalized(&row, 1e-5));
                    let m = total(row.iter().copied()) / count;
                    let variance = total(row.iter().map(|x| (x - m).powi(2))) / count;
                    let want: Vec<f64> = normal.iter().map(|n| n * wv[c] + bv[c]).collect();
                    let of_channel = |all: &[f64]| own.iter().map(|&i| all[i]).collect::<Vec<_>>();
                    assert_close(&of_channel(&y), &want, |_| eps, &what);
                    assert_close(&of_channel(&plain), &normal, |_| eps, &what);
                    assert_close(&[mean[c], rstd[c]], &[m, 1.0 / (variance + 1e-5).sqrt()], |_| eps, &what);
                }
            }
        }
    }
}

#[test]
fn a_channel_with_a_nan_spoils_no_other_and_an_empty_batch_gives_one() {
    let mut data = values(&sample(&[2, 16, 300], ScalarType::F64, 1));
    let own = |i: usize| i / 300 % 16 == 7;
    data[2 * 16 * 300 - 8 * 300 - 1] = f64::NAN;
    let t = Tensor::from_vec(data, &[2, 16, 300]).unwrap();
    let y = values(&ops::batch_norm(&t, None, None, None, None, true, 0.1, 1e-5, true).unwrap());
    assert!((0..y.len()).all(|i| y[i].is_nan() == own(i)));
    let nothing = sample(&[0, 16, 300], ScalarType::F32, 1);
    let y = ops::batch_norm(&nothing, None, None, None, None, true, 0.1, 1e-5, true).unwrap();
    assert_eq!(y.sizes(), nothing.sizes());
}

/// Compares a gradient with differences of `loss` in every element of `x`.
fn check_gradient(x: &Tensor, gradient: &Tensor, loss: impl Fn(&Tensor) -> f64, what: &str) {
    let (data, step) = (values(x), 1e-5);
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
    assert_close(&values(gradient), &want, |_| 1e-8, what);
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    values(a).iter().zip(values(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn gradients_of_normalizations_agree_with_differences() {
    let f = ScalarType::F64;
    let (x, g, all) = (sample(&[3, 4, 5], f, 1), sample(&[3, 4, 5], f, 2), [true; 3]);
    let (w, b) = (sample(&[4, 5], f, 3), sample(&[4, 5], f, 4));
    let layer = |x: &Tensor, w: &Tensor, b: &Tensor| {
        dot(&g, &ops::layer_norm(x, &[4, 5], Some(w), Some(b), 1e-3, true).unwrap())
    };
    let (_, mean, rstd) = ops::native_layer_norm(&x, &[4, 5], Some(&w), Some(&b), 1e-3).unwrap();
    let grads =
        ops::native_layer_norm_backward(&g, &x, &[4, 5], &mean, &rstd, Some(&w), Some(&b), all).unwrap();
    check_gradient(&x, &grads.0, |x| layer(x, &w, &b), "layer_norm, input");
    check_gradient(&w, &grads.1, |w| layer(&x, w, &b), "layer_norm, weight");
    check_gradient(&b, &grads.2, |b| layer(&x, &w, b), "layer_norm, bias");

    let rms = |x: &Tensor, w: &Tensor| dot(&g, &ops::rms_norm(x, &[4, 5], Some(w), Some(1e-3)).unwrap());
    let (_, rstd) = ops::_fused_rms_norm(&x, &[4, 5], Some(&w), Some(1e-3)).unwrap();
    let grads = ops::_fused_rms_norm_backward(&g, &x, &[4, 5], &rstd, Some(&w), [true; 2]).unwrap();
    check_gradient(&x, &grads.0, |x| rms(x, &w), "rms_norm, input");
    check_gradient(&w, &grads.1, |w| rms(&x, w), "rms_norm, weight");
}

/// Short rows, which are computed by operators on tensors, and longer ones.
#[test]
fn gradients_of_batch_and_group_norm_agree_with_differences() {
    for area in [5, 37] {
        check_channel_norms(area);
    }
}

fn check_channel_norms(area: i64) {
    let (f, all) = (ScalarType::F64, [true; 3]);
    let (x, g) = (sample(&[3, 4, area], f, 1), sample(&[3, 4, area], f, 2));
    let (w, b) = (sample(&[4], f, 3), sample(&[4], f, 4));
    let group = |x: &Tensor, w: &Tensor, b: &Tensor| {
        dot(&g, &ops::group_norm(x, 2, Some(w), Some(b), 1e-3, true).unwrap())
    };
    let (_, mean, rstd) = ops::native_group_norm(&x, Some(&w), Some(&b), 3, 4, area, 2, 1e-3).unwrap();
    let grads = ops::native_group_norm_backward(&g, &x, &mean, &rstd, Some(&w), 3, 4, area, 2, all).unwrap();
    check_gradient(&x, &grads.0, |x| group(x, &w, &b), "group_norm, input");
    check_gradient(&w, &grads.1, |w| group(&x, w, &b), "group_norm, weight");
    check_gradient(&b, &grads.2, |b| group(&x, &w, b), "group_norm, bias");

    let (rm, rv) = (sample(&[4], f, 5), ops::exp(&sample(&[4], f, 6)).unwrap());
    for train in [true, false] {
        let stats = || if train { (None, None) } else { (Some(&rm), Some(&rv)) };
        let batch = |x: &Tensor, w: &Tensor, b: &Tensor| {
            dot(
                &g,
                &ops::batch_norm(x, Some(w), Some(b), stats().0, stats().1, train, 0.1, 1e-3, true).unwrap(),
            )
        };
        let (_, m, s) =
            ops::native_batch_norm(&x, Some(&w), Some(&b), stats().0, stats().1, train, 0.1, 1e-3).unwrap();
        let grads = ops::native_batch_norm_backward(
            &g,
            &x,
            Some(&w),
            stats().0,
            stats().1,
            Some(&m),
            Some(&s),
            train,
            1e-3,
            all,
        )
        .unwrap();
        check_gradient(&x, &grads.0, |x| batch(x, &w, &b), "batch_norm, input");
        check_gradient(&w, &grads.1, |w| batch(&x, w, &b), "batch_norm, weight");
        check_gradient(&b, &grads.2, |b| batch(&x, &w, b), "batch_norm, bias");
    }
}

/// Rows that are computed together do not affect each other: one with NaN, infinities or numbers whose squares overflow leaves the others
/// as they are, and has a result of its own.
#[test]
fn norms_of_short_rows_keep_rows_apart() {
    for (dtype, huge) in [(ScalarType::F32, 1e25), (ScalarType::F64, 1e200), (ScalarType::BF16, 1e25)] {
        for (rows, n) in [(9, 2), (70, 5), (64, 32)] {
            let (x, w) = (sample(&[rows, n], dtype, 1), sample(&[n], dtype, 3));
            let norms = |x: &Tensor| {
                let layer = ops::native_layer_norm(x, &[n], Some(&w), Some(&w), 1e-3).unwrap().0;
                [layer, ops::_fused_rms_norm(x, &[n], Some(&w), None).unwrap().0].map(|t| values(&t))
            };
            let expected = norms(&x);
            for odd in [f64::NAN, f64::INFINITY, huge] {
                let changed = ops::clone(&x, None).unwrap();
                ops::fill__scalar(
                    &changed.select(0, rows / 2).unwrap().narrow(0, 0, 1).unwrap(),
                    Scalar::Float(odd),
                )
                .unwrap();
                let got = norms(&changed);
                let row = (rows / 2 * n) as usize..(rows / 2 * n + n) as usize;
                for (got, expected) in got.iter().zip(&expected) {
                    let others = |all: &[f64]| [&all[..row.start], &all[row.end..]].concat();
                    assert!(others(got) == others(expected), "{dtype}, {rows} rows of {n}, {odd}");
                    let is_finite = got[row.clone()].iter().all(|x| x.is_finite());
                    assert_eq!(
                        is_finite,
                        odd == huge,
                        "{dtype}, {rows} rows of {n}, {odd}: {:?}",
                        &got[row.clone()]
                    );
                }
            }
        }
    }
}

/// The gradient of a sum is one number, expanded: the result is that of the same gradient in memory.
#[test]
fn an_expanded_gradient_is_as_good_as_a_dense_one() {
    for dtype in [ScalarType::F32, ScalarType::F64] {
        for (rows, n) in [(1, 1), (3, 15), (70, 16), (5, 37), (66, 129), (2, 5000)] {
            let (x, w) = (sample(&[rows, n], dtype, 1), sample(&[n], dtype, 3));
            let (_, mean, rstd) = ops::native_layer_norm(&x, &[n], Some(&w), Some(&w), 1e-3).unwrap();
            let one = ops::expand(&sample(&[1], dtype, 2), &[rows, n], false).unwrap();
            let many = ops::clone(&one, Some(flambeau_core::MemoryFormat::Contiguous)).unwrap();
            for weight in [None, Some(&w)] {
                let back = |g: &Tensor| {
                    let r =
                        ops::native_layer_norm_backward(g, &x, &[n], &mean, &rstd, weight, weight, [true; 3]);
                    let (a, b, c) = r.unwrap();
                    [a, b, c].map(|t| values(&t).into_iter().map(f64::to_bits).collect::<Vec<_>>())
                };
                assert!(back(&one) == back(&many), "{dtype}, {rows} rows of {n}, {}", weight.is_some());
            }
        }
    }
}

fn batch_norm_gradient(x: &Tensor) -> Result<Tensor> {
    let (y, mean, rstd) = ops::native_batch_norm(x, None, None, None, None, true, 0.1, 1e-5)?;
    let (mean, rstd) = (Some(&mean), Some(&rstd));
    Ok(ops::native_batch_norm_backward(&y, x, None, None, None, mean, rstd, true, 1e-5, [true; 3])?.0)
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let t = sample(&[130, 70, 33], ScalarType::F32, 11);
    let long = sample(&[5, 33, 1001], ScalarType::F32, 12);
    let run = |threads: usize| {
        parallel::set_num_threads(threads);
        let all = [
            ops::softmax_int(&t, 1, None),
            ops::log_softmax_int(&t, 2, None),
            ops::cumsum(&t, 0, None),
            ops::layer_norm(&t, &[70, 33], None, None, 1e-5, true),
            ops::group_norm(&t, 7, None, None, 1e-5, true),
            ops::batch_norm(&t, None, None, None, None, true, 0.1, 1e-5, true),
            ops::batch_norm(&long, None, None, None, None, true, 0.1, 1e-5, true),
            ops::cumsum(&long, 0, None),
            ops::softmax_int(&long, 0, None),
            batch_norm_gradient(&long),
        ];
        all.into_iter().flat_map(|r| values(&r.unwrap())).map(f64::to_bits).collect::<Vec<_>>()
    };
    let one = run(1);
    assert!(run(2) == one && run(5) == one);
}

/// What equals the mean of its group is exactly the bias, however large the factor is.
#[test]
fn group_norm_of_equal_elements_is_the_bias() {
    let x = Tensor::from([[-8.478_374_f32, -8.478_374, 0.1, 0.1]]);
    let norm = |weight: Option<&Tensor>, bias: Option<&Tensor>| {
        values(&ops::group_norm(&x, 2, weight, bias, 1e-5, true).unwrap())
    };
    assert_eq!(norm(None, None), [0.0; 4]);
    let (weight, bias) = (Tensor::from([3.0f32, 0.7, 1e6, -2.0]), Tensor::from([1.0f32, -2.0, 3.0, 4.0]));
    assert_eq!(norm(Some(&weight), Some(&bias)), [1.0, -2.0, 3.0, 4.0]);
    let none = ops::empty_memory_format(&[0, 2], Some(ScalarType::F32), None, None, None, None).unwrap();
    assert!(ops::native_group_norm(&none, None, None, 0, 2, i64::MAX, 1, 1e-5).is_err());
}
