//! Window functions, and transforms of windows of a signal, against formulas.

use super::factory::options;
use crate::array::Array;
use crate::row::{Arg, Check, Row, WIDE_FLOATS, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Complex64, F16, F32, F64, I64};
use flambeau_ops::dispatch::Value;
use std::f64::consts::{PI, TAU};

/// The modified Bessel function of order 0, by its series.
fn i0(x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..200 {
        term *= x * x / 4.0 / f64::from(k * k);
        sum += term;
    }
    sum
}

/// The weight of point `n` of `steps`, with the parameters behind `periodic`.
type Weight = fn(f64, f64, &[f64]) -> f64;

fn bartlett(n: f64, steps: f64, _: &[f64]) -> f64 {
    1.0 - (2.0 * n / steps - 1.0).abs()
}

fn blackman(n: f64, steps: f64, _: &[f64]) -> f64 {
    0.42 - 0.5 * (2.0 * PI * n / steps).cos() + 0.08 * (4.0 * PI * n / steps).cos()
}

fn hamming(n: f64, steps: f64, given: &[f64]) -> f64 {
    let (alpha, beta) = (given.first().unwrap_or(&0.54), given.get(1).unwrap_or(&0.46));
    alpha - beta * (2.0 * PI * n / steps).cos()
}

fn hann(n: f64, steps: f64, _: &[f64]) -> f64 {
    0.5 - 0.5 * (2.0 * PI * n / steps).cos()
}

fn kaiser(n: f64, steps: f64, given: &[f64]) -> f64 {
    let beta = given.first().unwrap_or(&12.0);
    i0(beta * (1.0 - (2.0 * n / steps - 1.0).powi(2)).max(0.0).sqrt()) / i0(*beta)
}

/// How much larger the relative error of a weight is than that of the numbers it is computed from: the slope of a Bessel function of `beta`
/// is nearly `beta` times its value.
fn condition(name: &str, parameters: &[f64]) -> f64 {
    if name.starts_with("kaiser") { *parameters.first().unwrap_or(&12.0) } else { 0.0 }
}

/// `window_length, periodic, parameters, options`; without `periodic` it is.
fn window(name: &'static str, with_periodic: bool, parameters: &[f64], weight: Weight) -> Vec<Row> {
    let after: Vec<Arg> = parameters.iter().map(|x| (*x).into()).collect();
    let given = parameters.to_vec();
    let call = |length: i64, periodic: bool, dtype| {
        let periodic = if with_periodic { vec![periodic.into()] } else { vec![] };
        [vec![length.into()], periodic, after.clone(), options(dtype)].concat()
    };
    type TypeOfResult = fn(ScalarType) -> ScalarType;
    let types: [(_, TypeOfResult); 3] = [(None, |t| t), (Some(F64), |_| F64), (Some(F16), |_| F16)];
    let made = types.map(|(dtype, gives)| {
        let given = given.clone();
        [0i64, 1, 2, 3, 8, 17, 300]
            .iter()
            .flat_map(|length| [true, false].map(|periodic| call(*length, periodic, dtype)))
            .fold(
                row(name)
                    .types(&[F32])
                    .gives(gives)
                    .not_differentiable()
                    .ulps(4.0 + condition(name, parameters))
                    .terms(1.0),
                Row::sample,
            )
            .reference(move |a| {
                let length = a[0].number() as usize;
                let steps = if !with_periodic || a[1].flag() { length as f64 } else { length as f64 - 1.0 };
                let value = |n: usize| if length == 1 { 1.0 } else { weight(n as f64, steps, &given) };
                vec![Array::new(&[length], (0..length).map(value).collect())]
            })
            .refuses(call(-1, true, None), ErrorKind::InvalidArgument, "requires non-negative window_length")
            .refuses(call(4, true, Some(I64)), ErrorKind::Dtype, "expects floating point dtypes")
    });
    made.into()
}

fn windows() -> Vec<Row> {
    [
        window("bartlett_window", false, &[], bartlett),
        window("bartlett_window.periodic", true, &[], bartlett),
        window("blackman_window", false, &[], blackman),
        window("blackman_window.periodic", true, &[], blackman),
        window("hamming_window", false, &[], hamming),
        window("hamming_window.periodic", true, &[], hamming),
        window("hamming_window.periodic_alpha", true, &[0.6], hamming),
        window("hamming_window.periodic_alpha_beta", true, &[0.6, 0.25], hamming),
        window("hann_window", false, &[], hann),
        window("hann_window.periodic", true, &[], hann),
        window("kaiser_window", false, &[], kaiser),
        window("kaiser_window.periodic", true, &[], kaiser),
        window("kaiser_window.beta", true, &[3.5], kaiser),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn some(sizes: &[usize]) -> Array {
    Array::fill(sizes, -3.0..3.0, sizes.len() as u64)
}

/// The parts of `sum(x[j] exp(-2 pi i j k / n))`.
fn element(x: &[f64], k: usize) -> [f64; 2] {
    let n = x.len();
    x.iter().enumerate().fold([0.0; 2], |sum, (j, x)| {
        let (sin, cos) = (TAU * (j * k % n) as f64 / n as f64).sin_cos();
        [sum[0] + x * cos, sum[1] - x * sin]
    })
}

/// Weights of length `n_fft` around the middle.
fn weights(window: Option<&Array>, win_length: usize, n_fft: usize) -> Vec<f64> {
    let before = (n_fft - win_length) / 2;
    let weight = |i: usize| match (i >= before && i < before + win_length, window) {
        (false, _) => 0.0,
        (true, Some(window)) => window.data[i - before],
        (true, None) => 1.0,
    };
    (0..n_fft).map(weight).collect()
}

fn length_or(arg: &Arg, default: usize) -> usize {
    if matches!(arg, Arg::Value(Value::None)) { default } else { arg.number() as usize }
}

/// The sizes of signals as a batch: their number and length.
fn batch(x: &Array) -> [usize; 2] {
    let length = *x.sizes.last().unwrap_or(&1);
    [x.data.len() / length.max(1), length]
}

/// `self, n_fft, hop_length, win_length, window, .., normalized, onesided, return_complex, align_to_window`; signals are already padded.
fn stft(a: &[Arg], x: &Array, rest: &[Arg]) -> Array {
    let n_fft = a[1].number() as usize;
    let (hop, win_length) = (length_or(&a[2], n_fft / 4), length_or(&a[3], n_fft));
    let weights = weights(a[4].optional(), win_length, n_fft);
    let count = if matches!(rest[1], Arg::Value(Value::Bool(false))) { n_fft } else { n_fft / 2 + 1 };
    let factor = if rest[0].flag() { 1.0 / (n_fft as f64).sqrt() } else { 1.0 };
    let [signals, length] = batch(x);
    let frames = 1 + (length - n_fft) / hop;
    let mut data = vec![];
    for signal in x.data.chunks(length) {
        for k in 0..count {
            for frame in 0..frames {
                let weighted: Vec<f64> =
                    signal[frame * hop..][..n_fft].iter().zip(&weights).map(|(x, w)| x * w).collect();
                data.extend(element(&weighted, k).map(|part| part * factor));
            }
        }
    }
    let before: &[usize] = if x.sizes.len() == 1 { &[] } else { &[signals] };
    Array::new(&[before, &[count, frames, 2]].concat(), data)
}

/// Signals with `count` elements more at both ends.
fn padded(x: &Array, count: usize, mode: &str) -> Array {
    let length = batch(x)[1] as i64;
    let source = |i: i64| match mode {
        "reflect" if i < 0 => Some(-i),
        "reflect" if i >= length => Some(2 * (length - 1) - i),
        "replicate" => Some(i.clamp(0, length - 1)),
        "circular" => Some(i.rem_euclid(length)),
        _ => (0..length).contains(&i).then_some(i),
    };
    let range = -(count as i64)..length + count as i64;
    let row = |signal: &[f64]| {
        range.clone().map(|i| source(i).map_or(0.0, |i| signal[i as usize])).collect::<Vec<f64>>()
    };
    let data: Vec<f64> = x.data.chunks(length as usize).flat_map(row).collect();
    let mut sizes = x.sizes.clone();
    sizes.pop();
    sizes.push(range.count());
    Array::new(&sizes, data)
}

fn text(arg: &Arg) -> String {
    match arg {
        Arg::Value(Value::Str(text)) => text.clone(),
        other => panic!("expected a text but got {other:?}"),
    }
}

fn transforms() -> Vec<Row> {
    let reason = "tests/complex compares the derivatives by both parts";
    let start = |name| {
        let row = row(name).types(WIDE_FLOATS).gives(ScalarType::to_complex).ulps(4.0).terms(40.0);
        [Check::Gradients, Check::SecondGradients, Check::Tangents]
            .into_iter()
            .fold(row, |row, check| row.skip(check, reason))
    };
    let given = |sizes: &[usize], n_fft: i64, hop: Option<i64>, win: Option<i64>, window: bool| {
        let length = win.unwrap_or(n_fft) as usize;
        let window = if window { Array::fill(&[length], 0.5..2.0, 3).into() } else { none() };
        vec![some(sizes).into(), n_fft.into(), hop.into(), win.into(), window]
    };
    let rest = |normalized: bool, onesided: Option<bool>| {
        vec![normalized.into(), onesided.into(), true.into(), none()]
    };
    let plain = start("stft")
        .sample([given(&[20], 8, None, None, false), rest(false, None)].concat())
        .sample([given(&[2, 20], 7, Some(3), Some(5), true), rest(true, Some(false))].concat())
        .sample([given(&[3, 16], 16, Some(5), None, true), rest(false, Some(true))].concat())
        .sample([given(&[12], 1, Some(1), None, false), rest(false, None)].concat())
        .reference(|a| vec![stft(a, a[0].array(), &a[5..])])
        .refuses(
            [given(&[20], 8, Some(0), None, false), rest(false, None)].concat(),
            ErrorKind::InvalidArgument,
            "expected hop_length > 0",
        )
        .refuses(
            [given(&[20], 30, None, None, false), rest(false, None)].concat(),
            ErrorKind::InvalidArgument,
            "expected 0 < n_fft < 20",
        )
        .refuses(
            [given(&[20], 8, None, Some(9), false), rest(false, None)].concat(),
            ErrorKind::InvalidArgument,
            "expected 0 < win_length <= n_fft",
        )
        .refuses(
            [given(&[2, 2, 20], 8, None, None, false), rest(false, None)].concat(),
            ErrorKind::Shape,
            "expected a 1D or 2D tensor",
        )
        .refuses(
            [given(&[20], 8, None, None, false), vec![false.into(), none(), none(), none()]].concat(),
            ErrorKind::InvalidArgument,
            "stft requires the return_complex parameter be given for real inputs",
        );
    let centered = ["reflect", "constant", "replicate", "circular"]
        .into_iter()
        .fold(start("stft.center"), |row, mode| {
            row.sample(
                [
                    given(&[2, 20], 8, Some(3), Some(6), true),
                    vec![true.into(), mode.into()],
                    rest(true, None),
                ]
                .concat(),
            )
        })
        .sample(
            [given(&[20], 8, None, None, false), vec![false.into(), "reflect".into()], rest(false, None)]
                .concat(),
        )
        .reference(|a| {
            let count = if a[5].flag() { a[1].number() as usize / 2 } else { 0 };
            vec![stft(a, &padded(a[0].array(), count, &text(&a[6])), &a[7..])]
        })
        .refuses(
            [given(&[20], 8, None, None, false), vec![true.into(), "mirror".into()], rest(false, None)]
                .concat(),
            ErrorKind::InvalidArgument,
            "expected a pad_mode",
        );
    vec![plain, centered, istft_row()]
}

/// `self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex` of frequencies by windows, which are
/// real numbers here.
fn istft(a: &[Arg]) -> Array {
    let x = a[0].array();
    let n_fft = a[1].number() as usize;
    let (hop, win_length) = (length_or(&a[2], n_fft / 4), length_or(&a[3], n_fft));
    let weights = weights(a[4].optional(), win_length, n_fft);
    let (count, frames) = (x.sizes[x.sizes.len() - 2], x.sizes[x.sizes.len() - 1]);
    let divisor = if a[6].flag() { (n_fft as f64).sqrt() } else { n_fft as f64 };
    let total = n_fft + hop * (frames - 1);
    let start = if a[5].flag() { n_fft / 2 } else { 0 };
    let length = length_or(&a[8], total - 2 * start);
    let mut data = vec![];
    for spectra in x.data.chunks(count * frames) {
        let (mut sums, mut envelope) = (vec![0.0; total], vec![0.0; total]);
        for frame in 0..frames {
            // The whole of a Hermitian transform whose half is real is symmetric.
            let whole: Vec<f64> = (0..n_fft).map(|k| spectra[k.min(n_fft - k) * frames + frame]).collect();
            for (i, weight) in weights.iter().enumerate() {
                sums[frame * hop + i] += element(&whole, i)[0] / divisor * weight;
                envelope[frame * hop + i] += weight * weight;
            }
        }
        data.extend((start..start + length).map(|i| if i < total { sums[i] / envelope[i] } else { 0.0 }));
    }
    let before: &[usize] = if x.sizes.len() == 2 { &[] } else { &x.sizes[..1] };
    Array::new(&[before, &[length]].concat(), data)
}

fn istft_row() -> Row {
    let reason = "tests/complex compares the derivatives by both parts";
    let start = row("istft").types(&[F32]).ulps(4.0).terms(20.0);
    let start = [Check::Gradients, Check::SecondGradients, Check::Tangents]
        .into_iter()
        .fold(start, |row, check| row.skip(check, reason));
    let call = |sizes: &[usize],
                n_fft: i64,
                hop: Option<i64>,
                window: Option<f64>,
                flags: [Option<bool>; 3],
                length: Option<i64>| {
        let window = window
            .map_or_else(none, |from| Arg::Typed(Array::fill(&[n_fft as usize], from..from + 1.5, 3), F32));
        let flags: [Arg; 3] = flags.map(Into::into);
        [
            vec![Arg::Typed(some(sizes), Complex64), n_fft.into(), hop.into(), none(), window],
            flags.to_vec(),
            vec![length.into(), false.into()],
        ]
        .concat()
    };
    let plain = [Some(true), Some(false), None];
    start
        .sample(call(&[5, 4], 8, None, None, plain, None))
        .sample(call(&[2, 5, 4], 8, Some(3), Some(0.5), plain, Some(9)))
        .sample(call(&[2, 4, 5], 7, Some(2), Some(0.5), [Some(false), Some(true), Some(true)], Some(20)))
        .sample(call(&[8, 3], 8, Some(4), Some(0.5), [Some(false), Some(true), Some(false)], None))
        .reference(|a| vec![istft(a)])
        .refuses(
            call(&[4, 3], 8, None, None, plain, None),
            ErrorKind::Shape,
            "expected the frequency dimension",
        )
        .refuses(
            call(&[5, 3], 8, Some(9), None, plain, None),
            ErrorKind::InvalidArgument,
            "expected 0 < hop_length <= win_length",
        )
        .refuses(call(&[5, 0], 8, None, None, plain, None), ErrorKind::Shape, "input tensor cannot be empty")
        .refuses(
            [
                call(&[5, 3], 8, None, None, plain, None)[..4].to_vec(),
                vec![Arg::Typed(Array::new(&[8], vec![0.0; 8]), F32)],
                call(&[5, 3], 8, None, None, plain, None)[5..].to_vec(),
            ]
            .concat(),
            ErrorKind::InvalidArgument,
            "window overlap add min",
        )
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [windows(), transforms()].into_iter().flatten().collect()
}
