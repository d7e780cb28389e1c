//! Pooling: the greatest and the mean of windows, and their derivatives.

use super::linalg::{TYPES, tensors, whole};
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, FLOATS, Row, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;
use flambeau_ops::dispatch::Value;

/// Sizes, and kernel, stride and padding of both dimensions.
type Call = (&'static [usize], [i64; 2], [i64; 2], [i64; 2]);

const WINDOWS: &[Call] = &[
    (&[1, 2, 4, 4], [3, 3], [2, 2], [1, 1]),
    (&[2, 1, 3, 4], [2, 1], [1, 2], [0, 0]),
    (&[1, 2, 7, 8], [3, 2], [2, 3], [1, 1]),
    (&[0, 2, 4, 4], [2, 2], [2, 2], [0, 0]),
];

/// Numbers of which no two are equal, in every type.
fn distinct(sizes: &[usize]) -> Array {
    let count = sizes.iter().product::<usize>();
    Array::new(sizes, (0..count).map(|i| (i * 37 % 127) as f64 - 60.0).collect())
}

fn pair(a: &Arg) -> [usize; 2] {
    match a {
        Arg::Value(Value::Ints(list)) => [list[0] as usize, list[1] as usize],
        other => panic!("expected two sizes but got {other:?}"),
    }
}

/// Kernel, stride, padding.
type Window = [[usize; 2]; 3];

fn pooled(x: &[usize], [kernel, stride, padding]: Window) -> Vec<usize> {
    let fits = |d: usize| (x[d + 2] + 2 * padding[d] - kernel[d]) / stride[d] + 1;
    vec![x[0], x[1], fits(0), fits(1)]
}

/// The places in the plane, in order, of the window at `o`.
fn window(x: &[usize], [kernel, stride, padding]: Window, o: &[usize]) -> Vec<[usize; 2]> {
    let place =
        |d: usize, k: usize| (o[d + 2] * stride[d] + k).checked_sub(padding[d]).filter(|p| *p < x[d + 2]);
    let all = indices(&kernel).map(|k| Some([place(0, k[0])?, place(1, k[1])?]));
    all.flatten().collect()
}

fn told(a: &[Arg]) -> Window {
    [pair(&a[0]), pair(&a[1]), pair(&a[2])]
}

/// The greatest of each window, and its place in the plane.
fn greatest(x: &Array, told: Window) -> Vec<Array> {
    let best = |o: &[usize]| {
        let at = |p: &[usize; 2]| x.at(&[o[0], o[1], p[0], p[1]]);
        let places = window(&x.sizes, told, o);
        places.into_iter().reduce(|best, p| if at(&p) > at(&best) { p } else { best }).unwrap_or_default()
    };
    let sizes = pooled(&x.sizes, told);
    let value = |o: &[usize]| {
        let [y, z] = best(o);
        x.at(&[o[0], o[1], y, z])
    };
    let place = |o: &[usize]| {
        let [y, z] = best(o);
        (y * x.sizes[3] + z) as f64
    };
    vec![build(&sizes, value), build(&sizes, place)]
}

fn maxima() -> Vec<Row> {
    let rest = || vec![ints(&[1, 1]), false.into()];
    let calls = |name| {
        WINDOWS.iter().fold(row(name).types(TYPES).ulps(0.0), |row, (x, kernel, stride, padding)| {
            let window = [kernel, stride, padding].map(|list| ints(list)).to_vec();
            row.sample([vec![distinct(x).into()], window, rest()].concat())
        })
    };
    let backward =
        WINDOWS.iter().fold(row("max_pool2d_with_indices_backward").types(FLOATS), |row, (x, k, s, p)| {
            let list = [k, s, p].map(|list| ints(list)).to_vec();
            let places = greatest(&distinct(x), told(&list)).remove(1);
            let grad = whole(&places.sizes, 2).into();
            row.sample(
                [vec![grad, Arg::Constant(distinct(x))], list, rest(), vec![Arg::Typed(places, I64)]]
                    .concat(),
            )
        });
    let padded = [vec![whole(&[1, 1, 4, 4], 1).into(), ints(&[2]), ints(&[]), ints(&[2])], rest()].concat();
    vec![
        calls("max_pool2d").reference(|a| greatest(a[0].array(), told(&a[1..]))[..1].to_vec()),
        calls("max_pool2d_with_indices").reference(|a| greatest(a[0].array(), told(&a[1..]))).refuses(
            padded,
            ErrorKind::InvalidArgument,
            "pad should be at most half",
        ),
        backward.reference(|a| {
            let (g, places, mut made) = (a[0].array(), a[7].array(), a[1].array().map(|_| 0.0));
            let plane = made.sizes[2] * made.sizes[3];
            for (n, i) in indices(&g.sizes).enumerate() {
                made.data[(i[0] * made.sizes[1] + i[1]) * plane + places.data[n] as usize] += g.data[n];
            }
            vec![made]
        }),
    ]
}

/// By how much each place counts in the window at `o`: padding counts as zeros, or not.
fn share(x: &[usize], told: Window, padded: bool, o: &[usize]) -> f64 {
    let [kernel, stride, padding] = told;
    let reach =
        |d: usize| (o[d + 2] * stride[d] + kernel[d]).min(x[d + 2] + 2 * padding[d]) - o[d + 2] * stride[d];
    1.0 / if padded { reach(0) * reach(1) } else { window(x, told, o).len() } as f64
}

/// `kernel, stride, padding, ceil_mode, count_include_pad, divisor_override` after the tensors.
fn mean_calls(row: Row, before: impl Fn(&[usize], &[usize]) -> Vec<Arg>) -> Row {
    WINDOWS.iter().zip(0..).fold(row.types(FLOATS).terms(2.0), |row, ((x, k, s, p), seed)| {
        let list = [k, s, p].map(|list| ints(list)).to_vec();
        let rest = vec![false.into(), (seed % 2 == 0).into(), none()];
        row.sample([before(x, &pooled(x, told(&list))), list, rest].concat())
    })
}

fn means() -> Vec<Row> {
    vec![
        mean_calls(row("avg_pool2d"), |x, _| vec![whole(x, 1).into()]).reference(|a| {
            let (x, told, padded) = (a[0].array(), told(&a[1..]), a[5].flag());
            let sum = |o: &[usize]| -> f64 {
                window(&x.sizes, told, o).iter().map(|p| x.at(&[o[0], o[1], p[0], p[1]])).sum()
            };
            vec![build(&pooled(&x.sizes, told), |o| sum(o) * share(&x.sizes, told, padded, o))]
        }),
        mean_calls(row("avg_pool2d_backward"), |x, y| vec![whole(y, 2).into(), Arg::Constant(whole(x, 1))])
            .ulps(2.0)
            .reference(|a| {
                let (g, told, padded, mut made) =
                    (a[0].array(), told(&a[2..]), a[6].flag(), a[1].array().map(|_| 0.0));
                let sizes = made.sizes.clone();
                for o in indices(&g.sizes) {
                    let part = g.at(&o) * share(&sizes, told, padded, &o);
                    for [y, z] in window(&sizes, told, &o) {
                        made.data[((o[0] * sizes[1] + o[1]) * sizes[2] + y) * sizes[3] + z] += part;
                    }
                }
                vec![made]
            }),
    ]
}

/// The places of `size` that output `o` of `count` is the mean of: from `floor(o size / count)` to before
/// `ceil((o + 1) size / count)`.
fn part(o: usize, size: usize, count: usize) -> std::ops::Range<usize> {
    o * size / count..((o + 1) * size).div_ceil(count)
}

fn adaptive() -> Vec<Row> {
    let shapes: [(&[usize], [usize; 2]); 4] =
        [(&[1, 2, 4, 5], [3, 2]), (&[1, 1, 3, 3], [3, 3]), (&[2, 1, 2, 2], [3, 5]), (&[1, 2, 7, 8], [3, 1])];
    let forward = |name| {
        shapes
            .iter()
            .fold(row(name).types(FLOATS).terms(2.0), |row, (x, to)| {
                row.sample(vec![whole(x, 1).into(), ints(&to.map(|n| n as i64))])
            })
            .reference(|a| {
                let (x, to) = (a[0].array(), pair(&a[1]));
                let mean = |o: &[usize]| {
                    let [ys, zs] = [0, 1].map(|d| part(o[d + 2], x.sizes[d + 2], to[d]));
                    let places: Vec<f64> = ys
                        .flat_map(|y| zs.clone().map(move |z| [y, z]))
                        .map(|[y, z]| x.at(&[o[0], o[1], y, z]))
                        .collect();
                    places.iter().sum::<f64>() / places.len() as f64
                };
                vec![build(&[x.sizes[0], x.sizes[1], to[0], to[1]], mean)]
            })
    };
    let backward = shapes.iter().fold(row("_adaptive_avg_pool2d_backward").types(FLOATS), |row, (x, to)| {
        let grad = tensors(&[&[x[0], x[1], to[0], to[1]]]);
        row.sample([grad, vec![Arg::Constant(whole(x, 1))]].concat())
    });
    vec![
        forward("adaptive_avg_pool2d"),
        forward("_adaptive_avg_pool2d"),
        backward.ulps(2.0).terms(2.0).reference(|a| {
            let (g, mut made) = (a[0].array(), a[1].array().map(|_| 0.0));
            let sizes = made.sizes.clone();
            for o in indices(&g.sizes) {
                let [ys, zs] = [0, 1].map(|d| part(o[d + 2], sizes[d + 2], g.sizes[d + 2]));
                let share = g.at(&o) / (ys.len() * zs.len()) as f64;
                for [y, z] in ys.flat_map(|y| zs.clone().map(move |z| [y, z])) {
                    made.data[((o[0] * sizes[1] + o[1]) * sizes[2] + y) * sizes[3] + z] += share;
                }
            }
            vec![made]
        }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [maxima(), means(), adaptive()].into_iter().flatten().collect()
}
