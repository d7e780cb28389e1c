//! Fourier transforms of real numbers and their relatives, against the definition. Transforms of complex numbers are in `tests/complex`.

use super::factory::options;
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, Check, Row, WIDE_FLOATS, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Bool, Complex64, F16, F32, F64, I8, I16, I32, I64, U8};
use flambeau_ops::dispatch::Value;
use std::f64::consts::TAU;

/// Integers become complex numbers in single precision.
const TYPES: &[ScalarType] = &[Bool, U8, I8, I16, I32, I64, F32, F64];

fn to_complex(dtype: ScalarType) -> ScalarType {
    to_real(dtype).to_complex()
}

fn to_real(dtype: ScalarType) -> ScalarType {
    if dtype.is_integral(true) { F32 } else { dtype }
}

type C = [f64; 2];

/// An array of complex numbers.
#[derive(Clone)]
struct Complex {
    sizes: Vec<usize>,
    data: Vec<C>,
}

impl Complex {
    fn of_real(array: &Array) -> Self {
        Complex { sizes: array.sizes.clone(), data: array.data.iter().map(|x| [*x, 0.0]).collect() }
    }

    fn parts(&self) -> Array {
        Array::new(&[&self.sizes[..], &[2]].concat(), self.data.iter().flatten().copied().collect())
    }

    fn real(&self) -> Array {
        Array::new(&self.sizes, self.data.iter().map(|z| z[0]).collect())
    }

    fn map(&self, f: impl Fn(C) -> C) -> Self {
        Complex { sizes: self.sizes.clone(), data: self.data.iter().map(|z| f(*z)).collect() }
    }

    /// Rows along a dimension, replaced by what `f` makes of each.
    fn along(&self, dim: usize, size: usize, f: impl Fn(&[C]) -> Vec<C>) -> Self {
        let mut sizes = self.sizes.clone();
        sizes[dim] = size;
        let offset =
            |sizes: &[usize], index: &[usize]| sizes.iter().zip(index).fold(0, |at, (size, i)| at * size + i);
        let mut data = vec![[0.0; 2]; sizes.iter().product()];
        let mut outer = self.sizes.clone();
        outer[dim] = 1;
        for mut index in indices(&outer) {
            let mut at = |sizes: &[usize], i: usize| {
                index[dim] = i;
                offset(sizes, &index)
            };
            let row: Vec<C> = (0..self.sizes[dim]).map(|i| self.data[at(&self.sizes, i)]).collect();
            for (i, value) in f(&row).into_iter().enumerate() {
                data[at(&sizes, i)] = value;
            }
        }
        Complex { sizes, data }
    }

    /// Cut, or padded with zeros.
    fn resized(&self, dim: usize, size: usize) -> Self {
        self.along(dim, size, |row| (0..size).map(|i| row.get(i).copied().unwrap_or([0.0; 2])).collect())
    }

    fn transformed(&self, dim: usize, forward: bool) -> Self {
        self.along(dim, self.sizes[dim], |row| direct(row, forward))
    }
}

/// The definition.
fn direct(x: &[C], forward: bool) -> Vec<C> {
    let n = x.len();
    let sum = |k: usize| {
        x.iter().enumerate().fold([0.0; 2], |sum, (j, z)| {
            let (sin, cos) = (TAU * ((j * k) % n) as f64 / n as f64).sin_cos();
            let sin = if forward { -sin } else { sin };
            [sum[0] + z[0] * cos - z[1] * sin, sum[1] + z[0] * sin + z[1] * cos]
        })
    };
    (0..n).map(sum).collect()
}

/// The whole of a Hermitian row of length `n`, of which there are the elements up to the middle.
fn whole(half: &[C], n: usize) -> Vec<C> {
    let value = |k: usize| match k {
        0 => [half[0][0], 0.0],
        k if 2 * k == n => [half[k][0], 0.0],
        k if k <= n / 2 => half[k],
        k => [half[n - k][0], -half[n - k][1]],
    };
    (0..n).map(value).collect()
}

/// What a function of `torch.fft` computes.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    All,
    ToHalf,
    FromHalf,
}

fn list(arg: &Arg) -> Option<Vec<i64>> {
    match arg {
        Arg::Value(Value::Ints(values)) => Some(values.clone()),
        Arg::Value(Value::Int(value)) => Some(vec![*value]),
        _ => None,
    }
}

/// `self, n or s, dim, norm`.
fn expected(a: &[Arg], kind: Kind, forward: bool) -> Array {
    let mut x = Complex::of_real(a[0].array());
    let rank = x.sizes.len();
    let given = list(&a[1]);
    let dims: Vec<usize> = match (list(&a[2]), &given) {
        (Some(_), _) => a[2].dims(rank),
        (None, Some(s)) => (rank - s.len()..rank).collect(),
        (None, None) => (0..rank).collect(),
    };
    let last = dims.len() - 1;
    let mut sizes: Vec<usize> = dims.iter().map(|dim| x.sizes[*dim]).collect();
    if kind == Kind::FromHalf {
        sizes[last] = 2 * (sizes[last] - 1);
    }
    for (size, given) in sizes.iter_mut().zip(given.unwrap_or_default()) {
        *size = if given == -1 { *size } else { given as usize };
    }
    for (at, dim) in dims.iter().enumerate() {
        let is_half = kind == Kind::FromHalf && at == last;
        x = x.resized(*dim, if is_half { sizes[at] / 2 + 1 } else { sizes[at] });
        if is_half {
            x = x.along(*dim, sizes[at], |row| whole(row, sizes[at]));
        }
        x = x.transformed(*dim, forward);
        if kind == Kind::ToHalf && at == last {
            x = x.resized(*dim, sizes[at] / 2 + 1);
        }
    }
    let count = sizes.iter().product::<usize>() as f64;
    let divisor = match &a[3] {
        Arg::Value(Value::Str(norm)) if norm == "ortho" => count.sqrt(),
        Arg::Value(Value::Str(norm)) if norm == "forward" => {
            if forward {
                count
            } else {
                1.0
            }
        }
        _ => {
            if forward {
                1.0
            } else {
                count
            }
        }
    };
    let x = x.map(|[re, im]| [re / divisor, im / divisor]);
    if kind == Kind::FromHalf { x.real() } else { x.parts() }
}

fn some(sizes: &[usize]) -> Array {
    Array::fill(sizes, 0.0..5.0, sizes.iter().sum::<usize>() as u64)
}

fn without_derivatives(row: Row) -> Row {
    let reason = "tests/complex compares the derivatives by both parts";
    [Check::Gradients, Check::SecondGradients, Check::Tangents]
        .into_iter()
        .fold(row, |row, check| row.skip(check, reason))
}

/// A row whose result is complex unless it is made from one half.
fn start(name: &'static str, kind: Kind, forward: bool) -> Row {
    let row =
        row(name).types(TYPES).ulps(4.0).terms(64.0).reference(move |a| vec![expected(a, kind, forward)]);
    if kind == Kind::FromHalf { row.gives(to_real) } else { without_derivatives(row.gives(to_complex)) }
}

/// `n`, `dim` and `norm` of a transform of one dimension.
fn along(name: &'static str, kind: Kind, forward: bool) -> Row {
    let call = |sizes: &[usize], n: Option<i64>, dim: i64, norm: &str| {
        let norm = if norm.is_empty() { none() } else { norm.into() };
        vec![some(sizes).into(), n.into(), dim.into(), norm]
    };
    let first = if kind == Kind::FromHalf { 2 } else { 1 };
    let lengths = [1usize, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 25, 31, 64];
    lengths
        .iter()
        .filter(|length| **length >= first)
        .fold(start(name, kind, forward), |row, length| row.sample(call(&[*length], None, -1, "")))
        .sample(call(&[3, 5], None, 0, "ortho"))
        .sample(call(&[3, 5], Some(4), 1, "forward"))
        .sample(call(&[3, 5], Some(7), -2, "backward"))
        .sample(call(&[2, 3, 4], Some(3), 1, ""))
        .sample(call(&[2, 3, 34], Some(1), 0, "ortho"))
        .sample(call(&[0, 4], None, 1, ""))
        .refuses(
            call(&[3], Some(0), -1, ""),
            ErrorKind::InvalidArgument,
            "Invalid number of data points (0) specified",
        )
        .refuses(call(&[2, 0], None, 1, ""), ErrorKind::InvalidArgument, "Invalid number of data points (")
        .refuses(call(&[3], None, 1, ""), ErrorKind::Index, "imension out of range")
        .refuses(call(&[], None, -1, ""), ErrorKind::Index, "but tensor has no dimensions")
        .refuses(
            call(&[3], None, 0, "unit"),
            ErrorKind::InvalidArgument,
            "Invalid normalization mode: \"unit\"",
        )
        .refuses(
            vec![Arg::Typed(some(&[3]), F16), none(), (-1i64).into(), none()],
            ErrorKind::NotImplemented,
            "Unsupported dtype",
        )
}

/// `s`, `dim` and `norm` of a transform of several dimensions, or of two.
fn over(name: &'static str, kind: Kind, forward: bool, plane: bool) -> Row {
    let call = |sizes: &[usize], s: Option<&[i64]>, dim: Option<&[i64]>, norm: &str| {
        let norm = if norm.is_empty() { none() } else { norm.into() };
        let dims = dim.or(plane.then_some(&[-2, -1]));
        vec![some(sizes).into(), s.map_or_else(none, ints), dims.map_or_else(none, ints), norm]
    };
    let row = start(name, kind, forward)
        .sample(call(&[3, 4], None, None, ""))
        .sample(call(&[4, 3], None, None, "ortho"))
        .sample(call(&[3, 5], Some(&[4, 7]), None, "forward"))
        .sample(call(&[3, 5], Some(&[2, 4]), Some(&[1, 0]), "backward"))
        .sample(call(&[2, 3, 4], Some(&[-1, 6]), Some(&[2, 0]), ""))
        .sample(call(&[2, 3, 4], None, Some(&[0, -1]), "ortho"))
        .sample(call(&[0, 3, 4], None, Some(&[1, 2]), ""))
        .refuses(
            call(&[3, 4], None, Some(&[1, -1]), ""),
            ErrorKind::InvalidArgument,
            "FFT dims must be unique",
        )
        .refuses(
            call(&[3, 4], Some(&[1]), Some(&[0, 1]), ""),
            ErrorKind::InvalidArgument,
            "must have the same length",
        )
        .refuses(
            call(&[3, 4], Some(&[0, 2]), Some(&[0, 1]), ""),
            ErrorKind::InvalidArgument,
            "Invalid number of data points (0)",
        );
    if plane {
        return row;
    }
    row.sample(call(&[5], None, None, ""))
        .sample(call(&[2, 3, 4], None, None, ""))
        .sample(call(&[2, 3, 4], Some(&[3]), None, ""))
        .sample(call(&[2, 3, 4], None, Some(&[1]), ""))
        .refuses(
            call(&[3], Some(&[1, 2]), None, ""),
            ErrorKind::InvalidArgument,
            "but input tensor only has 1 dimensions",
        )
}

fn functions() -> Vec<Row> {
    use Kind::{All, FromHalf, ToHalf};
    vec![
        along("fft_fft", All, true),
        along("fft_ifft", All, false),
        along("fft_rfft", ToHalf, true),
        along("fft_irfft", FromHalf, false),
        along("fft_hfft", FromHalf, true),
        along("fft_ihfft", ToHalf, false),
        over("fft_fft2", All, true, true),
        over("fft_ifft2", All, false, true),
        over("fft_rfft2", ToHalf, true, true),
        over("fft_irfft2", FromHalf, false, true),
        over("fft_hfft2", FromHalf, true, true),
        over("fft_ihfft2", ToHalf, false, true),
        over("fft_fftn", All, true, false),
        over("fft_ifftn", All, false, false),
        over("fft_rfftn", ToHalf, true, false),
        over("fft_irfftn", FromHalf, false, false),
        over("fft_hfftn", FromHalf, true, false),
        over("fft_ihfftn", ToHalf, false, false),
    ]
}

/// The kernels: `self, dims, normalization` and one argument more. In the reference it is `self, s, dims, norm`.
fn kernels() -> Vec<Row> {
    let norm = |normalization: &Arg, forward: bool| match (normalization.number() as i64, forward) {
        (1, _) => Arg::from("ortho"),
        (0, true) | (2, false) => Arg::from("backward"),
        _ => Arg::from("forward"),
    };
    let complex = |sizes: &[usize]| Arg::Typed(some(sizes), Complex64);
    let start = |name| row(name).ulps(4.0).terms(64.0);
    let r2c = start("_fft_r2c").types(WIDE_FLOATS).gives(ScalarType::to_complex).reference(move |a| {
        let kind = if a[3].flag() { Kind::ToHalf } else { Kind::All };
        vec![expected(&[a[0].clone(), none(), a[1].clone(), norm(&a[2], true)], kind, true)]
    });
    let r2c =
        [(&[6][..], &[0i64][..], 0i64), (&[3, 5], &[1], 1), (&[4, 3], &[1, 0], 2), (&[2, 3, 4], &[0, -1], 0)]
            .into_iter()
            .flat_map(|(sizes, dims, norm)| {
                [true, false].map(|half| vec![some(sizes).into(), ints(dims), norm.into(), half.into()])
            })
            .fold(r2c, Row::sample)
            .refuses(
                vec![some(&[3]).into(), ints(&[]), 0i64.into(), true.into()],
                ErrorKind::InvalidArgument,
                "at least one axis",
            )
            .refuses(
                vec![some(&[3]).into(), ints(&[0]), 3i64.into(), true.into()],
                ErrorKind::InvalidArgument,
                "normalization",
            )
            .refuses(
                vec![complex(&[3]), ints(&[0]), 0i64.into(), true.into()],
                ErrorKind::Dtype,
                "real floating point",
            );
    let c2r = start("_fft_c2r").types(&[F32]).reference(move |a| {
        let mut s = vec![-1; a[1].dims(9).len()];
        if let Some(last) = s.last_mut() {
            *last = a[3].number() as i64;
        }
        vec![expected(&[a[0].clone(), ints(&s), a[1].clone(), norm(&a[2], false)], Kind::FromHalf, false)]
    });
    let c2r = [
        (&[4][..], &[0i64][..], 2i64, 6i64),
        (&[4], &[0], 0, 7),
        (&[3, 5], &[0, 1], 1, 8),
        (&[3, 5], &[1, 0], 2, 5),
    ]
    .into_iter()
    .map(|(sizes, dims, norm, n)| vec![complex(sizes), ints(dims), norm.into(), n.into()])
    .fold(c2r, Row::sample)
    .refuses(
        vec![complex(&[3]), ints(&[0]), 0i64.into(), 6i64.into()],
        ErrorKind::Shape,
        "expected dimension 0 of size 4",
    )
    .refuses(vec![some(&[3]).into(), ints(&[0]), 0i64.into(), 4i64.into()], ErrorKind::Dtype, "complex");
    let c2c = start("_fft_c2c").types(&[F32]).gives(ScalarType::to_complex).reference(move |a| {
        if a[1].dims(9).is_empty() {
            return vec![Complex::of_real(a[0].array()).parts()];
        }
        let forward = a[3].flag();
        vec![expected(&[a[0].clone(), none(), a[1].clone(), norm(&a[2], forward)], Kind::All, forward)]
    });
    let c2c =
        [(&[5][..], &[0i64][..], 0i64), (&[3, 5], &[], 0), (&[4, 3], &[1, 0], 2), (&[2, 3, 4], &[0, -1], 1)]
            .into_iter()
            .flat_map(|(sizes, dims, norm)| {
                [true, false].map(|forward| vec![complex(sizes), ints(dims), norm.into(), forward.into()])
            })
            .fold(c2c, Row::sample)
            .refuses(
                vec![some(&[3]).into(), ints(&[0]), 0i64.into(), true.into()],
                ErrorKind::Dtype,
                "complex",
            );
    [r2c, c2r, c2c].into_iter().map(without_derivatives).collect()
}

fn frequencies() -> Vec<Row> {
    let counts = [0i64, 1, 2, 5, 8, 300];
    let made = |name: &'static str, value: fn(i64, i64) -> i64, count: fn(i64) -> i64| {
        [(None, F32), (Some(F64), F64), (Some(F16), F16)].map(|(dtype, result)| {
            let gives: fn(ScalarType) -> ScalarType = match result {
                F64 => |_| F64,
                F16 => |_| F16,
                _ => |t| t,
            };
            counts
                .iter()
                .flat_map(|n| [1.0, 0.125].map(|d| [vec![(*n).into(), d.into()], options(dtype)].concat()))
                .fold(row(name).types(&[F32]).gives(gives).not_differentiable().ulps(1.5), Row::sample)
                .reference(move |a| {
                    let (n, d) = (a[0].number() as i64, a[1].number());
                    let data: Vec<f64> = (0..count(n)).map(|k| value(k, n) as f64 / (n as f64 * d)).collect();
                    vec![Array::new(&[data.len()], data)]
                })
                .refuses(
                    [vec![(-1i64).into(), 1.0.into()], options(None)].concat(),
                    ErrorKind::InvalidArgument,
                    "not negative",
                )
                .refuses(
                    [vec![4i64.into(), 1.0.into()], options(Some(I64))].concat(),
                    ErrorKind::Dtype,
                    "floating point or complex",
                )
        })
    };
    let wrapped = |k: i64, n: i64| if k < (n + 1) / 2 { k } else { k - n };
    [made("fft_fftfreq", wrapped, |n| n), made("fft_rfftfreq", |k, _| k, |n| n / 2 + 1)]
        .into_iter()
        .flatten()
        .collect()
}

fn shifts() -> Vec<Row> {
    let made = |name: &'static str, rounded_up: usize| {
        let shapes = [&[1][..], &[5], &[6], &[0], &[3, 4], &[2, 3, 4]];
        shapes
            .into_iter()
            .map(|sizes| vec![some(sizes).into(), none()])
            .chain([vec![some(&[2, 3, 5]).into(), ints(&[-1, 0])], vec![some(&[3, 4]).into(), ints(&[1])]])
            .fold(row(name).types(ALL).ulps(0.0), Row::sample)
            .reference(move |a| {
                let x = a[0].array();
                let rank = x.sizes.len();
                let dims = if list(&a[1]).is_some() { a[1].dims(rank) } else { (0..rank).collect() };
                let moved = |index: Vec<usize>| {
                    let source = index.iter().zip(&x.sizes).enumerate().map(|(dim, (i, size))| {
                        let by = if dims.contains(&dim) { (size + rounded_up) / 2 } else { 0 };
                        (i + size - by) % size
                    });
                    x.at(&source.collect::<Vec<_>>())
                };
                vec![Array::new(&x.sizes, indices(&x.sizes).map(moved).collect())]
            })
            .refuses(vec![some(&[3]).into(), ints(&[2])], ErrorKind::Index, "imension out of range")
    };
    vec![made("fft_fftshift", 0), made("fft_ifftshift", 1)]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [functions(), kernels(), frequencies(), shifts()].into_iter().flatten().collect()
}
