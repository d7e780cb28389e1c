//! Pooling over two and three dimensions: the maximum and the mean of windows, and their derivatives.

use super::linalg::{TYPES, whole};
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, FLOATS, Row, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;
use flambeau_ops::dispatch::Value;

/// Sizes, and kernel, stride and padding of all dimensions.
type Call = (&'static [usize], &'static [i64], &'static [i64], &'static [i64]);

/// The last of each list is large enough for several threads.
const PLANES: &[Call] = &[
    (&[1, 2, 4, 4], &[3, 3], &[2, 2], &[1, 1]),
    (&[2, 1, 3, 4], &[2, 1], &[1, 2], &[0, 0]),
    (&[1, 2, 7, 8], &[3, 2], &[2, 3], &[1, 1]),
    (&[0, 2, 4, 4], &[2, 2], &[2, 2], &[0, 0]),
    (&[3, 40, 12, 12], &[3, 3], &[2, 2], &[1, 1]),
];
const VOLUMES: &[Call] = &[
    (&[1, 2, 2, 3, 2], &[2, 2, 1], &[1, 2, 1], &[1, 0, 0]),
    (&[2, 1, 1, 2, 3], &[1, 2, 2], &[1, 1, 1], &[0, 1, 1]),
    (&[1, 2, 5, 4, 7], &[3, 2, 3], &[2, 1, 3], &[1, 1, 0]),
    (&[0, 2, 4, 4, 4], &[2, 2, 2], &[2, 2, 2], &[0, 0, 0]),
    (&[2, 40, 6, 6, 6], &[2, 2, 2], &[2, 2, 2], &[0, 0, 0]),
];

fn calls(dims: usize) -> &'static [Call] {
    if dims == 2 { PLANES } else { VOLUMES }
}

/// Numbers of which no two in a window are equal, in every type.
fn distinct(sizes: &[usize]) -> Array {
    let count = sizes.iter().product::<usize>();
    Array::new(sizes, (0..count).map(|i| (i * 37 % 127) as f64 - 60.0).collect())
}

fn list(a: &Arg) -> Vec<usize> {
    match a {
        Arg::Value(Value::Ints(list)) => list.iter().map(|n| *n as usize).collect(),
        other => panic!("expected sizes but got {other:?}"),
    }
}

/// Kernel, stride, padding.
type Window = [Vec<usize>; 3];

fn told(a: &[Arg]) -> Window {
    [list(&a[0]), list(&a[1]), list(&a[2])]
}

fn pooled(x: &[usize], [kernel, stride, padding]: &Window) -> Vec<usize> {
    let fits = |d: usize| (x[d + 2] + 2 * padding[d] - kernel[d]) / stride[d] + 1;
    [vec![x[0], x[1]], (0..kernel.len()).map(fits).collect()].concat()
}

/// The indices, image and channel first, in order, of the elements in the window at `o`.
fn window(x: &[usize], [kernel, stride, padding]: &Window, o: &[usize]) -> Vec<Vec<usize>> {
    let coordinate =
        |d: usize, k: usize| (o[d + 2] * stride[d] + k).checked_sub(padding[d]).filter(|p| *p < x[d + 2]);
    let inside =
        |k: Vec<usize>| k.iter().enumerate().map(|(d, k)| coordinate(d, *k)).collect::<Option<Vec<_>>>();
    indices(kernel).filter_map(inside).map(|index| [&o[..2], &index[..]].concat()).collect()
}

/// The row-major offset of an index in its channel, which is what pooling returns as index.
fn offset_in_channel(sizes: &[usize], index: &[usize]) -> usize {
    sizes[2..].iter().zip(&index[2..]).fold(0, |n, (size, p)| n * size + p)
}

/// The maximum of the elements of each output, and its offset in the channel.
fn max_and_offset(x: &Array, sizes: &[usize], elements: impl Fn(&[usize]) -> Vec<Vec<usize>>) -> Vec<Array> {
    let best = |o: &[usize]| {
        let better = |best: Vec<usize>, p: Vec<usize>| if x.at(&p) > x.at(&best) { p } else { best };
        elements(o).into_iter().reduce(better).unwrap_or_default()
    };
    vec![build(sizes, |o| x.at(&best(o))), build(sizes, |o| offset_in_channel(&x.sizes, &best(o)) as f64)]
}

fn max_of_windows(x: &Array, told: &Window) -> Vec<Array> {
    max_and_offset(x, &pooled(&x.sizes, told), |o| window(&x.sizes, told, o))
}

/// Each element of `g` at its offset, among zeros, in channels of `sizes`.
fn put_back(g: &Array, offsets: &Array, sizes: &[usize]) -> Array {
    let mut made = Array::new(sizes, vec![0.0; sizes.iter().product()]);
    let channel = sizes[2..].iter().product::<usize>();
    for (n, i) in indices(&g.sizes).enumerate() {
        made.data[(i[0] * sizes[1] + i[1]) * channel + offsets.data[n] as usize] += g.data[n];
    }
    made
}

/// The names of both numbers of dimensions.
fn named(names: [&'static str; 2], dims: usize) -> &'static str {
    names[dims - 2]
}

fn maxima(dims: usize) -> Vec<Row> {
    let rest = || vec![ints(&vec![1; dims]), false.into()];
    let samples = |names| {
        let start = row(named(names, dims)).types(TYPES).ulps(0.0);
        calls(dims).iter().fold(start, |row, (x, kernel, stride, padding)| {
            let window = [kernel, stride, padding].map(|list| ints(list)).to_vec();
            row.sample([vec![distinct(x).into()], window, rest()].concat())
        })
    };
    let backward = row(named(["max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"], dims));
    let backward = calls(dims).iter().fold(backward.types(FLOATS), |row, (x, k, s, p)| {
        let list = [k, s, p].map(|list| ints(list)).to_vec();
        let offsets = max_of_windows(&distinct(x), &told(&list)).remove(1);
        let grad = whole(&offsets.sizes, 2).into();
        let tensors = vec![grad, Arg::Constant(distinct(x))];
        row.sample([tensors, list, rest(), vec![Arg::Typed(offsets, I64)]].concat())
    });
    let padded = vec![whole(&vec![4; dims + 2], 1).into(), ints(&[2]), ints(&[]), ints(&[2])];
    let flat = vec![whole(&vec![4; dims], 1).into(), ints(&[2]), ints(&[]), ints(&[0])];
    vec![
        samples(["max_pool2d", "max_pool3d"])
            .reference(|a| max_of_windows(a[0].array(), &told(&a[1..]))[..1].to_vec()),
        samples(["max_pool2d_with_indices", "max_pool3d_with_indices"])
            .reference(|a| max_of_windows(a[0].array(), &told(&a[1..])))
            .refuses([padded, rest()].concat(), ErrorKind::InvalidArgument, "pad should be at most half")
            .refuses([flat, rest()].concat(), ErrorKind::Shape, "batch mode"),
        backward.reference(|a| vec![put_back(a[0].array(), a[7].array(), &a[1].array().sizes)]),
    ]
}

/// The weight of each element in the mean of the window at `o`: padding counts as zeros, or not.
fn share(x: &[usize], told: &Window, padded: bool, o: &[usize]) -> f64 {
    let [kernel, stride, padding] = told;
    let reach =
        |d: usize| (o[d + 2] * stride[d] + kernel[d]).min(x[d + 2] + 2 * padding[d]) - o[d + 2] * stride[d];
    1.0 / if padded { (0..kernel.len()).map(reach).product() } else { window(x, told, o).len() } as f64
}

/// `kernel, stride, padding, ceil_mode, count_include_pad, divisor_override` after the tensors.
fn mean_calls(row: Row, dims: usize, before: impl Fn(&[usize], &[usize]) -> Vec<Arg>) -> Row {
    calls(dims).iter().zip(0..).fold(row.types(FLOATS).terms(2.0), |row, ((x, k, s, p), seed)| {
        let list = [k, s, p].map(|list| ints(list)).to_vec();
        let rest = vec![false.into(), (seed % 2 == 0).into(), none()];
        row.sample([before(x, &pooled(x, &told(&list))), list, rest].concat())
    })
}

/// Each element of `g` distributed over the elements of its window, in an array of `sizes`.
fn shared_out(g: &Array, sizes: &[usize], elements: impl Fn(&[usize]) -> (Vec<Vec<usize>>, f64)) -> Array {
    let mut made = Array::new(sizes, vec![0.0; sizes.iter().product()]);
    for o in indices(&g.sizes) {
        let (elements, share) = elements(&o);
        for p in elements {
            let flat = sizes.iter().zip(&p).fold(0, |n, (size, p)| n * size + p);
            made.data[flat] += g.at(&o) * share;
        }
    }
    made
}

fn means(dims: usize) -> Vec<Row> {
    let zero = || {
        let call = vec![whole(&vec![4; dims + 2], 1).into(), ints(&[2]), ints(&[]), ints(&[0]), false.into()];
        [call, vec![true.into(), 0i64.into()]].concat()
    };
    vec![
        mean_calls(row(named(["avg_pool2d", "avg_pool3d"], dims)), dims, |x, _| vec![whole(x, 1).into()])
            .reference(|a| {
                let (x, told, padded) = (a[0].array(), told(&a[1..]), a[5].flag());
                let sum = |o: &[usize]| window(&x.sizes, &told, o).iter().map(|p| x.at(p)).sum::<f64>();
                let mean = |o: &[usize]| sum(o) * share(&x.sizes, &told, padded, o);
                vec![build(&pooled(&x.sizes, &told), mean)]
            })
            .refuses(zero(), ErrorKind::InvalidArgument, "divisor must be not zero"),
        mean_calls(row(named(["avg_pool2d_backward", "avg_pool3d_backward"], dims)), dims, |x, y| {
            vec![whole(y, 2).into(), Arg::Constant(whole(x, 1))]
        })
        .ulps(2.0)
        .reference(|a| {
            let (told, padded, sizes) = (told(&a[2..]), a[6].flag(), &a[1].array().sizes);
            let elements = |o: &[usize]| (window(sizes, &told, o), share(sizes, &told, padded, o));
            vec![shared_out(a[0].array(), sizes, elements)]
        }),
    ]
}

/// The indices of `size` that output `o` of `count` is made of: from `floor(o size / count)` to before
/// `ceil((o + 1) size / count)`.
fn part(o: usize, size: usize, count: usize) -> std::ops::Range<usize> {
    o * size / count..((o + 1) * size).div_ceil(count)
}

/// The indices of the elements of output `o` of an adaptive pooling to the sizes `to`.
fn parts(x: &[usize], to: &[usize], o: &[usize]) -> Vec<Vec<usize>> {
    let along: Vec<_> = to.iter().enumerate().map(|(d, count)| part(o[d + 2], x[d + 2], *count)).collect();
    let lengths: Vec<usize> = along.iter().map(|range| range.len()).collect();
    let index_of = |k: Vec<usize>| k.iter().zip(&along).map(|(k, range)| range.start + k).collect::<Vec<_>>();
    indices(&lengths).map(|k| [&o[..2], &index_of(k)[..]].concat()).collect()
}

type Shapes = &'static [(&'static [usize], &'static [i64])];

fn adaptive(dims: usize) -> Vec<Row> {
    let shapes: Shapes = if dims == 2 {
        &[
            (&[1, 2, 4, 5], &[3, 2]),
            (&[1, 1, 3, 3], &[3, 3]),
            (&[2, 1, 2, 2], &[3, 5]),
            (&[1, 2, 7, 8], &[3, 1]),
            (&[2, 40, 24, 24], &[5, 5]),
        ]
    } else {
        &[
            (&[1, 2, 2, 3, 2], &[2, 2, 1]),
            (&[1, 1, 2, 2, 2], &[3, 1, 2]),
            (&[2, 1, 5, 4, 7], &[3, 4, 2]),
            (&[2, 40, 8, 9, 8], &[3, 2, 5]),
        ]
    };
    let forward = |names| {
        let start = row(named(names, dims)).types(FLOATS).terms(2.0);
        shapes.iter().fold(start, |row, (x, to)| row.sample(vec![whole(x, 1).into(), ints(to)])).reference(
            |a| {
                let (x, to) = (a[0].array(), list(&a[1]));
                let mean = |o: &[usize]| {
                    let elements = parts(&x.sizes, &to, o);
                    elements.iter().map(|p| x.at(p)).sum::<f64>() / elements.len() as f64
                };
                vec![build(&[&x.sizes[..2], &to].concat(), mean)]
            },
        )
    };
    let output = |x: &[usize], to: &[i64]| -> Vec<usize> {
        x[..2].iter().copied().chain(to.iter().map(|n| *n as usize)).collect()
    };
    let backward = row(named(["_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"], dims));
    let backward = shapes.iter().fold(backward.types(FLOATS), |row, (x, to)| {
        row.sample(vec![whole(&output(x, to), 2).into(), Arg::Constant(whole(x, 1))])
    });
    vec![
        forward(["adaptive_avg_pool2d", "adaptive_avg_pool3d"]),
        forward(["_adaptive_avg_pool2d", "_adaptive_avg_pool3d"]),
        backward.ulps(2.0).terms(2.0).reference(|a| {
            let (g, sizes) = (a[0].array(), &a[1].array().sizes);
            let elements = |o: &[usize]| {
                let all = parts(sizes, &g.sizes[2..], o);
                let share = 1.0 / all.len() as f64;
                (all, share)
            };
            vec![shared_out(g, sizes, elements)]
        }),
        adaptive_max(dims, shapes),
        adaptive_max_backward(dims, shapes),
    ]
}

fn max_of_parts(x: &Array, to: &[usize]) -> Vec<Array> {
    max_and_offset(x, &[&x.sizes[..2], to].concat(), |o| parts(&x.sizes, to, o))
}

fn adaptive_max(dims: usize, shapes: Shapes) -> Row {
    let start = row(named(["adaptive_max_pool2d", "adaptive_max_pool3d"], dims)).types(FLOATS).ulps(0.0);
    shapes
        .iter()
        .fold(start, |row, (x, to)| row.sample(vec![distinct(x).into(), ints(to)]))
        .reference(|a| max_of_parts(a[0].array(), &list(&a[1])))
        .refuses(
            vec![distinct(&vec![2; dims + 2]).into(), ints(&[1])],
            ErrorKind::InvalidArgument,
            "output_size must be",
        )
        .refuses(vec![distinct(&vec![2; dims]).into(), ints(&vec![1; dims])], ErrorKind::Shape, "batch mode")
}

fn adaptive_max_backward(dims: usize, shapes: Shapes) -> Row {
    let start = row(named(["adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"], dims));
    let wrong = vec![
        whole(&vec![1; dims + 2], 1).into(),
        distinct(&vec![2; dims + 2]).into(),
        Arg::Typed(whole(&vec![1; dims + 1], 1).map(|_| 0.0), I64),
    ];
    shapes
        .iter()
        .fold(start.types(FLOATS).terms(2.0), |row, (x, to)| {
            let offsets = max_of_parts(&distinct(x), &list(&ints(to))).remove(1);
            let grad = whole(&offsets.sizes, 2).into();
            row.sample(vec![grad, Arg::Constant(distinct(x)), Arg::Typed(offsets, I64)])
        })
        .reference(|a| vec![put_back(a[0].array(), a[2].array(), &a[1].array().sizes)])
        .refuses(wrong, ErrorKind::Shape, "indices")
}

/// Offsets in channels of `sizes`, no two the same, for elements of `own`.
fn scattered(own: &[usize], sizes: &[usize]) -> Array {
    let channel = sizes.iter().product::<usize>();
    let count = own[2..].iter().product::<usize>();
    let offset_of = |i: &[usize]| (offset_in_channel(own, i) * (channel / count) + i[1]) % channel;
    build(own, |i| offset_of(i) as f64)
}

fn unpools() -> Vec<Row> {
    let planes: [(&[usize], &[usize]); 3] =
        [(&[1, 2, 2, 2], &[3, 4]), (&[2, 1, 3, 2], &[6, 4]), (&[3, 40, 8, 8], &[16, 16])];
    let volumes: [(&[usize], &[usize]); 2] = [(&[1, 2, 1, 2, 2], &[2, 3, 4]), (&[2, 2, 2, 3, 2], &[4, 6, 4])];
    let start = |name| row(name).types(FLOATS).ulps(0.0);
    let call = |own: &[usize], sizes: &[usize]| {
        let list: Vec<i64> = sizes.iter().map(|size| *size as i64).collect();
        vec![distinct(own).into(), Arg::Typed(scattered(own, sizes), I64), ints(&list)]
    };
    let steps = |n: i64| vec![ints(&[n; 3]), ints(&[0; 3])];
    let reference = |a: &[Arg]| {
        let sizes = [&a[0].array().sizes[..2], &list(&a[2])].concat();
        vec![put_back(a[0].array(), a[1].array(), &sizes)]
    };
    let far =
        vec![distinct(&[1, 1, 1]).into(), Arg::Typed(Array::new(&[1, 1, 1], vec![9.0]), I64), ints(&[2, 2])];
    let thin = call(&[1, 2, 1, 2, 2], &[2, 3, 4]);
    vec![
        planes
            .iter()
            .fold(start("max_unpool2d"), |row, (own, sizes)| row.sample(call(own, sizes)))
            .reference(reference)
            .refuses(far, ErrorKind::InvalidArgument, "out of bounds")
            .refuses(call(&[1, 2], &[2, 2]), ErrorKind::Shape, "3d or 4d"),
        volumes
            .iter()
            .fold(start("max_unpool3d"), |row, (own, sizes)| {
                row.sample([call(own, sizes), steps(2)].concat())
            })
            .reference(reference)
            .refuses([thin, steps(0)].concat(), ErrorKind::InvalidArgument, "strides should be greater"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let both = [2, 3].into_iter().flat_map(|dims| [maxima(dims), means(dims), adaptive(dims)]);
    both.chain([unpools()]).flatten().collect()
}
