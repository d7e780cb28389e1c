//! Fourier transforms of complex numbers: values against the definition, layouts, threads, special values, derivatives.

use crate::{C, COMPLEX, c, draw, eps, numbers, reals, tensor};
use flambeau_autograd::Autograd;
use flambeau_autograd::gradcheck::GradCheck;
use flambeau_core::{MemoryFormat, ScalarType};
use flambeau_ops::{Result, Tensor, ops, parallel};
use std::f64::consts::TAU;

/// The definition.
fn direct(x: &[C], forward: bool) -> Vec<C> {
    let n = x.len();
    let sum = |k: usize| {
        x.iter().enumerate().fold(c(0.0, 0.0), |sum, (j, z)| {
            let (sin, cos) = (TAU * ((j * k) % n) as f64 / n as f64).sin_cos();
            sum + *z * c(cos, if forward { -sin } else { sin })
        })
    };
    (0..n).map(sum).collect()
}

fn norm(values: impl Iterator<Item = C>) -> f64 {
    values.map(|z| z.re * z.re + z.im * z.im).sum::<f64>().sqrt()
}

/// Fails where the Euclidean distance is more than `bound` units of the last digit of the norm.
fn expect_near(what: &str, got: &[C], expected: &[C], dtype: ScalarType, bound: f64) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let distance = norm(got.iter().zip(expected).map(|(a, b)| *a - *b));
    let error = distance / (norm(expected.iter().copied()) * eps(dtype)).max(1e-300);
    assert!(error <= bound, "{what} in {dtype}: off by {error:.1}");
}

/// Primes have a larger error, since they are computed by convolutions.
const BOUND: f64 = 10.0;

fn lengths() -> impl Iterator<Item = usize> {
    (1..=70).chain([97, 100, 127, 128, 210, 256, 257, 360, 509, 512, 1000, 1009])
}

#[test]
fn values_are_those_of_the_definition() {
    for n in lengths() {
        let values = draw(n, n as u64);
        for dtype in COMPLEX {
            let x = tensor(&values, &[n as i64], dtype);
            let size = n as f64;
            let scaled =
                |values: Vec<C>, by: f64| values.iter().map(|z| c(z.re * by, z.im * by)).collect::<Vec<_>>();
            let (forward, backward) = (direct(&values, true), direct(&values, false));
            for (norm, by) in [
                (None, [1.0, 1.0 / size]),
                (Some("ortho"), [1.0 / size.sqrt(); 2]),
                (Some("forward"), [1.0 / size, 1.0]),
            ] {
                let got = numbers(&ops::fft_fft(&x, None, -1, norm).unwrap());
                expect_near(&format!("fft of {n}"), &got, &scaled(forward.clone(), by[0]), dtype, BOUND);
                let got = numbers(&ops::fft_ifft(&x, None, -1, norm).unwrap());
                expect_near(&format!("ifft of {n}"), &got, &scaled(backward.clone(), by[1]), dtype, BOUND);
            }
        }
    }
}

/// The whole of a transform of real numbers, of which there are the elements up to the middle: what is not real at its ends is dropped.
fn whole(half: &[C], n: usize) -> Vec<C> {
    let value = |k: usize| match k {
        0 => c(half[0].re, 0.0),
        k if 2 * k == n => c(half[k].re, 0.0),
        k if k <= n / 2 => half[k],
        k => half[n - k].conj(),
    };
    (0..n).map(value).collect()
}

#[test]
fn halves_of_transforms_become_real() {
    for n in lengths() {
        let values = draw(n / 2 + 1, 200 + n as u64);
        for dtype in COMPLEX {
            let half = tensor(&values, &[n as i64 / 2 + 1], dtype);
            for forward in [true, false] {
                let function = if forward { ops::fft_hfft } else { ops::fft_irfft };
                let made =
                    function(&half, Some(n as i64), -1, Some(if forward { "backward" } else { "forward" }))
                        .unwrap();
                assert_eq!(made.dtype(), dtype.to_real());
                let got: Vec<C> = reals(&made).iter().map(|x| c(*x, 0.0)).collect();
                expect_near(
                    &format!("half of {n}"),
                    &got,
                    &direct(&whole(&values, n), forward),
                    dtype,
                    BOUND,
                );
            }
        }
    }
}

/// Sizes and strides in one storage.
const LAYOUTS: &[(&[i64], &[i64])] = &[
    (&[5, 12], &[12, 1]),
    (&[5, 12], &[1, 5]),
    (&[5, 6], &[24, 2]),
    (&[4, 6], &[0, 1]),
    (&[4, 6], &[1, 0]),
    (&[3, 4, 5], &[20, 5, 1]),
    (&[3, 4, 5], &[1, 15, 3]),
    (&[3, 1, 40], &[100, 7, 2]),
    (&[40, 3], &[3, 1]),
];

type Function = fn(&Tensor, i64) -> Result<Tensor>;

/// Transforms along one dimension.
const ALONG: &[(&str, Function)] = &[
    ("fft", |x, dim| ops::fft_fft(x, None, dim, None)),
    ("ifft", |x, dim| ops::fft_ifft(x, None, dim, Some("ortho"))),
    ("fft of real", |x, dim| ops::fft_fft(&ops::real(x)?, None, dim, None)),
    ("rfft", |x, dim| ops::fft_rfft(&ops::imag(x)?, None, dim, None)),
    ("hfft", |x, dim| ops::fft_hfft(x, Some(9), dim, None)),
    ("irfft", |x, dim| ops::fft_irfft(x, Some(8), dim, None)),
    ("longer", |x, dim| ops::fft_fft(x, Some(50), dim, None)),
    ("shorter", |x, dim| ops::fft_fft(x, Some(1), dim, None)),
    ("all", |x, _| ops::fft_fftn(x, None, None, None)),
    ("two", |x, _| ops::fft_ifft2(x, None, &[-2, -1], None)),
    ("real, all", |x, _| ops::fft_rfftn(&ops::real(x)?, None, None, None)),
    ("to real, all", |x, _| ops::fft_irfftn(x, None, None, None)),
];

/// The bits of a result depend neither on the layout of the input nor on the number of threads.
#[test]
fn bits_are_the_same_in_every_layout_and_on_every_number_of_threads() {
    for (sizes, strides) in LAYOUTS {
        let storage = tensor(&draw(500, 3), &[500], ScalarType::Complex64);
        let x = ops::as_strided(&storage, sizes, strides, Some(7)).unwrap();
        let dense = ops::contiguous(&x, MemoryFormat::Contiguous).unwrap();
        for dim in 0..sizes.len() as i64 {
            for (name, f) in ALONG.iter().filter(|_| sizes[dim as usize] > 1) {
                parallel::set_num_threads(1);
                let expected = f(&dense, dim).unwrap();
                for threads in [1, 2, 3, 7] {
                    parallel::set_num_threads(threads);
                    let same = ops::equal(&f(&x, dim).unwrap(), &expected).unwrap();
                    assert!(same, "{name} of {sizes:?} {strides:?} along {dim} on {threads} threads");
                }
            }
        }
    }
    let large = tensor(&draw(300 * 130, 5), &[300, 130], ScalarType::Complex64);
    for dim in [0, 1] {
        for (name, f) in ALONG {
            parallel::set_num_threads(1);
            let expected = f(&large, dim).unwrap();
            for threads in [2, 3, 7] {
                parallel::set_num_threads(threads);
                assert!(
                    ops::equal(&f(&large, dim).unwrap(), &expected).unwrap(),
                    "{name} on {threads} threads"
                );
            }
        }
    }
}

#[test]
fn nan_remains_in_its_row() {
    for n in [1, 2, 5, 8, 15, 64, 101] {
        for dtype in COMPLEX {
            let mut values = draw(5 * n, 9);
            values[2 * n + n / 2] = c(f64::NAN, 0.0);
            let x = tensor(&values, &[5, n as i64], dtype);
            for (name, f) in ALONG.iter().filter(|(name, _)| ["fft", "ifft", "fft of real"].contains(name)) {
                for along in [f(&x, 1).unwrap(), ops::t(&f(&ops::t(&x).unwrap(), 0).unwrap()).unwrap()] {
                    let has_nan: Vec<bool> = numbers(&along)
                        .chunks(n)
                        .map(|row| row.iter().any(|z| z.re.is_nan() || z.im.is_nan()))
                        .collect();
                    assert_eq!(has_nan, [false, false, true, false, false], "{name} of {n}");
                }
            }
        }
    }
}

/// `out` of other strides, of a wider type, and the input itself.
#[test]
fn results_are_written_to_out() {
    let x = tensor(&draw(12, 1), &[3, 4], ScalarType::Complex64);
    let expected = numbers(&ops::fft_fft(&x, None, 0, None).unwrap());
    let columns = ops::t(&tensor(&draw(12, 2), &[4, 3], ScalarType::Complex64)).unwrap();
    ops::_fft_c2c_out(&x, &[0], 0, true, &columns).unwrap();
    assert_eq!((numbers(&columns), columns.strides()), (expected.clone(), &[1, 3][..]));
    let wide = tensor(&[], &[0], ScalarType::Complex128);
    ops::fft_fft_out(&x, None, 0, None, &wide).unwrap();
    assert_eq!(numbers(&wide), expected);
    let error = ops::fft_fft_out(&x, None, 0, None, &Tensor::from([0.0f32])).unwrap_err().to_string();
    assert!(error.contains("can't be cast"), "{error}");
    ops::_fft_c2c_out(&x, &[0], 0, true, &x).unwrap();
    assert_eq!(numbers(&x), expected);
}

type Differentiable = fn(&[Tensor]) -> Result<Tensor>;

const OF_COMPLEX: &[(&str, Differentiable)] = &[
    ("fft", |x| ops::fft_fft(&x[0], None, 0, None)),
    ("fft, longer", |x| ops::fft_fft(&x[0], Some(4), -1, Some("ortho"))),
    ("ifft, shorter", |x| ops::fft_ifft(&x[0], Some(2), -1, None)),
    ("irfft, even", |x| ops::fft_irfft(&x[0], None, 1, None)),
    ("irfft, odd", |x| ops::fft_irfft(&x[0], Some(5), 1, Some("forward"))),
    ("irfft of one element", |x| ops::fft_irfft(&x[0], Some(1), 1, None)),
    ("irfft of two elements", |x| ops::fft_irfft(&x[0], Some(2), 1, None)),
    ("hfft", |x| ops::fft_hfft(&x[0], Some(4), 0, None)),
    ("fftn", |x| ops::fft_fftn(&x[0], Some(&[3, 2]), None, None)),
    ("ifft2", |x| ops::fft_ifft2(&x[0], None, &[-1, -2], None)),
    ("irfftn", |x| ops::fft_irfftn(&x[0], None, None, None)),
    ("irfft2, first last", |x| ops::fft_irfft2(&x[0], Some(&[2, 3]), &[1, 0], Some("ortho"))),
    ("hfftn", |x| ops::fft_hfftn(&x[0], None, None, None)),
    ("along none", |x| ops::fft_fftn(&x[0], None, Some(&[]), None)),
    ("fftshift", |x| ops::fft_fftshift(&x[0], None)),
    ("ifftshift", |x| ops::fft_ifftshift(&x[0], Some(&[1]))),
];

const OF_REAL: &[(&str, Differentiable)] = &[
    ("fft", |x| ops::fft_fft(&x[0], None, 1, None)),
    ("ifft", |x| ops::fft_ifft(&x[0], None, 0, Some("ortho"))),
    ("rfft, odd", |x| ops::fft_rfft(&x[0], None, 1, None)),
    ("rfft, even", |x| ops::fft_rfft(&x[0], Some(4), 1, Some("forward"))),
    ("ihfft", |x| ops::fft_ihfft(&x[0], Some(5), -1, None)),
    ("irfft", |x| ops::fft_irfft(&x[0], None, -1, None)),
    ("fft2", |x| ops::fft_fft2(&x[0], None, &[0, 1], None)),
    ("rfft2", |x| ops::fft_rfft2(&x[0], None, &[-2, -1], None)),
    ("rfftn", |x| ops::fft_rfftn(&x[0], Some(&[4, 2]), Some(&[1, 0]), Some("ortho"))),
    ("ihfftn", |x| ops::fft_ihfftn(&x[0], None, None, None)),
    ("stft", |x| {
        let window = Tensor::from([0.5, 1.0]);
        ops::stft_center(
            &x[0],
            2,
            Some(1),
            None,
            Some(&window),
            true,
            "reflect",
            false,
            None,
            Some(true),
            None,
        )
    }),
    ("stft of parts", |x| ops::stft(&x[0], 3, Some(1), Some(2), None, true, Some(false), Some(false), None)),
    ("istft", |x| {
        let spectra = ops::complex(&x[0], &ops::mul_tensor(&x[0], &x[0])?)?;
        ops::istft(&spectra, 2, Some(1), None, None, true, false, None, None, false)
    }),
];

fn check(name: &str, f: Differentiable, input: Tensor) {
    input.requires_grad_(true).unwrap();
    let all = GradCheck { check_forward_ad: true, ..GradCheck::default() };
    let f = |x: &[Tensor]| Ok(vec![f(x)?]);
    all.check(f, std::slice::from_ref(&input)).unwrap_or_else(|e| panic!("{name}: {e}"));
    all.check_twice(f, &[input]).unwrap_or_else(|e| panic!("{name}, twice: {e}"));
}

#[test]
fn derivatives_are_right() {
    for (n, (name, f)) in OF_COMPLEX.iter().enumerate() {
        check(name, *f, tensor(&draw(6, n as u64), &[2, 3], ScalarType::Complex128));
    }
    for (n, (name, f)) in OF_REAL.iter().enumerate() {
        let values: Vec<f64> = draw(6, 50 + n as u64).iter().map(|z| z.re).collect();
        check(name, *f, Tensor::from_vec(values, &[2, 3]).unwrap());
    }
}

/// The short-time transform against transforms of windows, one by one.
#[test]
fn windows_of_a_signal_are_transformed() {
    let (length, n_fft, hop) = (23, 8, 3);
    let signal = draw(length, 4);
    let window: Vec<C> = draw(n_fft, 6);
    for dtype in COMPLEX {
        let x = tensor(&signal, &[length as i64], dtype);
        let weights = tensor(&window, &[n_fft as i64], dtype);
        let made =
            ops::stft(&x, n_fft as i64, Some(hop as i64), None, Some(&weights), false, None, None, None)
                .unwrap();
        let count = 1 + (length - n_fft) / hop;
        assert_eq!(made.sizes(), [n_fft as i64, count as i64]);
        let got = numbers(&ops::contiguous(&ops::t(&made).unwrap(), MemoryFormat::Contiguous).unwrap());
        for frame in 0..count {
            let weighted: Vec<C> = (0..n_fft).map(|i| signal[frame * hop + i] * window[i]).collect();
            expect_near("stft", &got[frame * n_fft..][..n_fft], &direct(&weighted, true), dtype, BOUND);
        }
        let back =
            ops::istft(&made, n_fft as i64, Some(hop as i64), None, None, false, false, None, None, true);
        assert_eq!(back.unwrap().sizes(), [(n_fft + hop * (count - 1)) as i64]);
    }
}

/// The inverse gives the signal back, whatever the window, padding, normalization and batch.
#[test]
fn signals_are_restored() {
    let parts: Vec<f64> = draw(60, 8).iter().map(|z| z.re).collect();
    let x = Tensor::from_vec(parts.clone(), &[2, 30]).unwrap();
    let window = ops::add_scalar(
        &ops::hann_window_periodic(6, true, Some(ScalarType::F64), None, None, None).unwrap(),
        0.1.into(),
        1.into(),
    )
    .unwrap();
    for pad_mode in ["reflect", "constant", "replicate", "circular"] {
        for normalized in [false, true] {
            for onesided in [None, Some(false)] {
                let made = ops::stft_center(
                    &x,
                    10,
                    Some(2),
                    Some(6),
                    Some(&window),
                    true,
                    pad_mode,
                    normalized,
                    onesided,
                    Some(true),
                    None,
                )
                .unwrap();
                let back = ops::istft(
                    &made,
                    10,
                    Some(2),
                    Some(6),
                    Some(&window),
                    true,
                    normalized,
                    onesided,
                    Some(30),
                    false,
                )
                .unwrap();
                assert_eq!(back.sizes(), [2, 30]);
                let largest = reals(&back).iter().zip(&parts).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(largest < 1e-13, "{pad_mode} {normalized} {onesided:?}: {largest}");
            }
        }
    }
}
