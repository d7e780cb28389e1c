//! Pixel shuffles, resizing, padding, and pooling along one dimension.

use super::linalg::whole;
use super::reduce::distinct;
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, FLOATS, NUMBERS, Row, WIDE_FLOATS, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::F64;
use flambeau_ops::dispatch::Value;

fn t(sizes: &[usize]) -> Arg {
    super::view::some(sizes).into()
}

fn shuffles() -> Vec<Row> {
    let moves = |name, sample: Vec<Arg>, f: fn(&Array) -> Array| {
        row(name).types(ALL).ulps(0.0).sample(sample).reference(move |a| vec![f(a[0].array())])
    };
    let bad = ErrorKind::InvalidArgument;
    fn dealt(x: &Array) -> Array {
        build(&[1, 6, 2], |i| x.at(&[0, i[1] % 2 * 3 + i[1] / 2, i[2]]))
    }
    let groups = || vec![t(&[1, 6, 2]), 2i64.into()];
    vec![
        moves("pixel_shuffle", vec![t(&[1, 8, 2, 1]), 2i64.into()], |x| {
            build(&[1, 2, 4, 2], |i| x.at(&[0, i[1] * 4 + i[2] % 2 * 2 + i[3] % 2, i[2] / 2, i[3] / 2]))
        })
        .refuses(vec![t(&[6, 2, 2]), 2i64.into()], bad, "divisible by the square"),
        moves("pixel_unshuffle", vec![t(&[2, 4, 2]), 2i64.into()], |x| {
            build(&[8, 2, 1], |i| x.at(&[i[0] / 4, i[1] * 2 + i[0] / 2 % 2, i[2] * 2 + i[0] % 2]))
        })
        .refuses(vec![t(&[2, 3, 2]), 2i64.into()], bad, "divisible by downscale_factor"),
        moves("channel_shuffle", groups(), |x| if x.sizes[0] == 0 { x.clone() } else { dealt(x) })
            .sample(vec![t(&[0, 6, 2]), 2i64.into()])
            .refuses(vec![t(&[1, 5, 2]), 2i64.into()], bad, "divisible by groups"),
        moves("native_channel_shuffle", groups(), dealt),
    ]
}

/// The pixel of element `k` of a patch, if it lies in the image: for kernel 2x2, dilation (1, 2), padding (1, 0),
/// stride (2, 1).
fn pixel(k: usize, block: [usize; 2]) -> [i64; 2] {
    let (y, x) = ((k / 2) as i64, (k % 2) as i64);
    [block[0] as i64 * 2 + y - 1, block[1] as i64 + 2 * x]
}

fn inside(at: [i64; 2], size: [usize; 2]) -> bool {
    (0..2).all(|d| (0..size[d] as i64).contains(&at[d]))
}

fn columns() -> Vec<Row> {
    let how = || [[2, 2], [1, 2], [1, 0], [2, 1]].map(|pair: [i64; 2]| ints(&pair)).to_vec();
    // An image of 3 by 4: 2 rows of 2 blocks.
    let of = |x: &Array, n: usize, c: usize, k: usize, b: usize| {
        let at = pixel(k, [b / 2, b % 2]);
        if inside(at, [3, 4]) { x.at(&[n, c, at[0] as usize, at[1] as usize]) } else { 0.0 }
    };
    vec![
        row("im2col")
            .types(FLOATS)
            .ulps(0.0)
            .sample([vec![whole(&[2, 2, 3, 4], 1).into()], how()].concat())
            .reference(move |a| vec![build(&[2, 8, 4], |i| of(a[0].array(), i[0], i[1] / 4, i[1] % 4, i[2]))])
            .refuses([vec![t(&[1, 1, 1, 1])], how()].concat(), ErrorKind::Shape, "sliding blocks"),
        row("col2im")
            .types(FLOATS)
            .ulps(0.0)
            .sample([vec![whole(&[1, 8, 4], 1).into(), ints(&[3, 4])], how()].concat())
            .reference(|a| {
                let mut made = build(&[1, 2, 3, 4], |_| 0.0);
                for i in indices(&[8, 4]) {
                    let at = pixel(i[0] % 4, [i[1] / 2, i[1] % 2]);
                    if inside(at, [3, 4]) {
                        made.data[(i[0] / 4 * 3 + at[0] as usize) * 4 + at[1] as usize] +=
                            a[0].array().at(&[0, i[0], i[1]]);
                    }
                }
                vec![made]
            })
            .refuses(
                [vec![t(&[1, 8, 5]), ints(&[3, 4])], how()].concat(),
                ErrorKind::Shape,
                "sliding blocks",
            ),
    ]
}

fn borders() -> Vec<Row> {
    let source_index = |mirror: bool, at: i64, size: i64| match () {
        () if !mirror => at.clamp(0, size - 1),
        () if at < 0 => -at,
        () if at >= size => 2 * size - 2 - at,
        () => at,
    };
    let make = |name: &'static str, sizes: &[usize], padding: &'static [i64], mirror: bool| {
        row(name)
            .types(NUMBERS)
            .ulps(0.0)
            .sample(vec![t(sizes), ints(padding)])
            .reference(move |a| {
                let x = a[0].array();
                let rank = x.sizes.len();
                let before = |d: usize| padding.get(2 * (rank - 1 - d)).copied().unwrap_or(0);
                let behind = |d: usize| padding.get(2 * (rank - 1 - d) + 1).copied().unwrap_or(0);
                let sizes: Vec<usize> =
                    (0..rank).map(|d| (x.sizes[d] as i64 + before(d) + behind(d)) as usize).collect();
                let from = |d: usize, at: usize| {
                    source_index(mirror, at as i64 - before(d), x.sizes[d] as i64) as usize
                };
                vec![build(&sizes, |i| {
                    x.at(&i.iter().enumerate().map(|(d, at)| from(d, *at)).collect::<Vec<_>>())
                })]
            })
            .refuses(vec![t(sizes), ints(&[1])], ErrorKind::InvalidArgument, "padding size is expected")
    };
    vec![
        make("reflection_pad1d", &[2, 4], &[3, 2], true).refuses(
            vec![t(&[2, 3]), ints(&[3, 0])],
            ErrorKind::InvalidArgument,
            "Padding size should be less",
        ),
        make("reflection_pad2d", &[1, 2, 3, 4], &[1, 2, 2, 0], true),
        make("reflection_pad3d", &[1, 2, 3, 2], &[1, 0, 2, 1, 1, 1], true),
        make("reflection_pad1d", &[1, 2, 4], &[-1, 2], true),
        make("replication_pad1d", &[2, 3], &[4, 2], false),
        make("replication_pad2d", &[2, 3, 2], &[1, 2, 2, -1], false),
        // Rows whose inner elements are copied together.
        make("reflection_pad2d", &[1, 2, 3, 12], &[2, 1, 1, 1], true),
        make("replication_pad2d", &[2, 3, 12], &[-1, 2, 0, 1], false),
        make("replication_pad3d", &[1, 1, 2, 3, 2], &[1, 0, 0, 2, 1, 3], false),
    ]
}

/// Windows of a line: start, and the elements that lie in it.
fn windows(n: usize, k: usize, stride: usize, pad: usize, step: usize, count: usize) -> Vec<Vec<usize>> {
    let window = |w: usize| {
        (0..k)
            .map(move |j| (w * stride + j * step) as i64 - pad as i64)
            .filter(move |at| (0..n as i64).contains(at))
            .map(|at| at as usize)
    };
    (0..count).map(|w| window(w).collect()).collect()
}

fn parts(n: usize, count: usize) -> Vec<Vec<usize>> {
    (0..count).map(|p| (p * n / count..((p + 1) * n).div_ceil(count)).collect()).collect()
}

fn lines() -> Vec<Row> {
    let i = |n: i64| ints(&[n]);
    let most = |x: &Array, windows: &[Vec<usize>]| {
        let best = |row: usize, w: usize| {
            windows[w].iter().copied().max_by(|a, b| x.at(&[row, *a]).total_cmp(&x.at(&[row, *b]))).unwrap()
        };
        let sizes = [x.sizes[0], windows.len()];
        vec![build(&sizes, |i| x.at(&[i[0], best(i[0], i[1])])), build(&sizes, |i| best(i[0], i[1]) as f64)]
    };
    let mean = |x: &Array, windows: &[Vec<usize>], divisor: &dyn Fn(usize) -> f64| {
        let sum = |i: &[usize]| windows[i[1]].iter().map(|at| x.at(&[i[0], *at])).sum::<f64>();
        vec![build(&[x.sizes[0], windows.len()], |i| sum(i) / divisor(i[1]))]
    };
    let x = || Arg::from(distinct(&[2, 7], 0));
    let pool = || vec![x(), i(3), i(2), i(1), i(2), false.into()];
    let pooled = move |a: &[Arg]| most(a[0].array(), &windows(7, 3, 2, 1, 2, 3));
    let average = |include: bool| vec![x(), i(3), i(2), i(1), false.into(), include.into()];
    let shape = |row: Row, rest: Vec<Arg>| {
        row.refuses([vec![t(&[3])], rest].concat(), ErrorKind::Shape, "Expected 2D or 3D (batch mode) tensor")
    };
    vec![
        shape(row("max_pool1d").types(FLOATS).ulps(0.0), pool()[1..].to_vec())
            .sample(pool())
            .reference(move |a| vec![pooled(a).remove(0)]),
        row("max_pool1d_with_indices").types(FLOATS).ulps(0.0).sample(pool()).reference(pooled),
        shape(row("avg_pool1d").types(FLOATS).ulps(1.0), average(true)[1..].to_vec())
            .sample(average(true))
            .sample(average(false))
            .reference(move |a| {
                let all = windows(7, 3, 2, 1, 1, 4);
                let count = |w: usize| if a[5].flag() { 3.0 } else { all[w].len() as f64 };
                mean(a[0].array(), &all, &count)
            }),
        row("adaptive_avg_pool1d").types(FLOATS).ulps(1.0).sample(vec![x(), i(3)]).reference(move |a| {
            let all = parts(7, 3);
            mean(a[0].array(), &all, &|w| all[w].len() as f64)
        }),
        shape(row("adaptive_max_pool1d").types(FLOATS).ulps(0.0), vec![i(2)])
            .sample(vec![x(), i(3)])
            .sample(vec![x(), i(7)])
            .reference(move |a| most(a[0].array(), &parts(7, a[1].dims(9)[0]))),
    ]
}

/// One dimension resized: for each new element which old ones it is made of, and how much of each.
fn resized(x: &Array, dim: usize, size: usize, weights: impl Fn(f64, i64) -> Vec<(i64, f64)>) -> Array {
    let mut sizes = x.sizes.clone();
    let n = std::mem::replace(&mut sizes[dim], size) as i64;
    build(&sizes, |i| {
        let part = |(at, weight): (i64, f64)| {
            let mut from = i.to_vec();
            from[dim] = at.clamp(0, n - 1) as usize;
            weight * x.at(&from)
        };
        weights(i[dim] as f64, n).into_iter().map(part).sum()
    })
}

fn hat(t: f64) -> f64 {
    (1.0 - t.abs()).max(0.0)
}

/// Keys' kernel with a = -3/4.
fn keys(t: f64) -> f64 {
    let (a, t) = (-0.75, t.abs());
    match t {
        t if t <= 1.0 => (a + 2.0) * t.powi(3) - (a + 3.0) * t.powi(2) + 1.0,
        t if t < 2.0 => a * t.powi(3) - 5.0 * a * t.powi(2) + 8.0 * a * t - 4.0 * a,
        _ => 0.0,
    }
}

/// A new image by a kernel that reaches `reach` elements far.
fn smooth(
    x: &Array,
    sizes: &[usize],
    align: bool,
    scale: Option<f64>,
    (kernel, reach): (fn(f64) -> f64, i64),
) -> Array {
    sizes.iter().enumerate().fold(x.clone(), |x, (d, size)| {
        resized(&x, d + 2, *size, |at, n| {
            let coordinate = match align {
                true => at * (n - 1) as f64 / (*size as f64 - 1.0).max(1.0),
                false => (at + 0.5) * scale.map_or(n as f64 / *size as f64, |s| 1.0 / s) - 0.5,
            };
            let first = coordinate.floor() as i64;
            (1 - reach..=reach).map(|k| (first + k, kernel(coordinate - (first + k) as f64))).collect()
        })
    })
}

fn sizes_of(a: &Arg) -> Vec<usize> {
    a.dims(0)
}

fn sizings() -> Vec<Row> {
    let images: [&[usize]; 3] = [&[1, 2, 4], &[1, 2, 3, 4], &[1, 1, 2, 3, 2]];
    let requested: [&[i64]; 3] = [&[7], &[5, 2], &[3, 2, 5]];
    let nearest = |x: &Array, sizes: &[usize], middle: f64| {
        sizes.iter().enumerate().fold(x.clone(), |x, (d, size)| {
            resized(&x, d + 2, *size, |at, n| vec![(((at + middle) * n as f64 / *size as f64) as i64, 1.0)])
        })
    };
    let double = |x: &Array, n: usize| x.sizes[2..].iter().map(|s| s * 2).take(n).collect::<Vec<_>>();
    let twice = |n: usize| Arg::from(Value::Floats(vec![2.0; n]));
    let mut rows = vec![];
    for (n, middle, name, vec) in [
        (0, 0.0, "upsample_nearest1d", "upsample_nearest1d.vec"),
        (1, 0.0, "upsample_nearest2d", "upsample_nearest2d.vec"),
        (2, 0.0, "upsample_nearest3d", "upsample_nearest3d.vec"),
        (0, 0.5, "_upsample_nearest_exact1d", "_upsample_nearest_exact1d.vec"),
        (1, 0.5, "_upsample_nearest_exact2d", "_upsample_nearest_exact2d.vec"),
        (2, 0.5, "_upsample_nearest_exact3d", "_upsample_nearest_exact3d.vec"),
    ] {
        let scales = vec![none(); n + 1];
        rows.push(
            row(name)
                .types(FLOATS)
                .ulps(0.0)
                .sample([vec![t(images[n]), ints(requested[n])], scales.clone()].concat())
                .reference(move |a| vec![nearest(a[0].array(), &sizes_of(&a[1]), middle)])
                .refuses(
                    [vec![t(&[2]), ints(requested[n])], scales].concat(),
                    ErrorKind::Shape,
                    "data tensor expected",
                ),
        );
        rows.push(
            row(vec)
                .types(FLOATS)
                .ulps(0.0)
                .sample(vec![t(images[n]), none(), twice(n + 1)])
                .reference(move |a| vec![nearest(a[0].array(), &double(a[0].array(), n + 1), middle)])
                .refuses(vec![t(images[n]), none(), none()], ErrorKind::InvalidArgument, "exactly one"),
        );
    }
    type Kernel = (fn(f64) -> f64, i64);
    let kinds: [(&str, &str, usize, Kernel); 4] = [
        ("upsample_linear1d", "upsample_linear1d.vec", 0, (hat, 1)),
        ("upsample_bilinear2d", "upsample_bilinear2d.vec", 1, (hat, 1)),
        ("upsample_trilinear3d", "upsample_trilinear3d.vec", 2, (hat, 1)),
        ("upsample_bicubic2d", "upsample_bicubic2d.vec", 1, (keys, 2)),
    ];
    for (name, vec, n, kernel) in kinds {
        let scales = vec![none(); n + 1];
        let call =
            |align: bool| [vec![t(images[n]), ints(requested[n]), align.into()], scales.clone()].concat();
        let start = |name| row(name).types(WIDE_FLOATS).ulps(8.0).terms(9.0);
        rows.push(
            start(name)
                .sample(call(false))
                .sample(call(true))
                .reference(move |a| vec![smooth(a[0].array(), &sizes_of(&a[1]), a[2].flag(), None, kernel)])
                .refuses(
                    [vec![t(images[n]), ints(&[0; 3][..n + 1]), false.into()], scales].concat(),
                    ErrorKind::InvalidArgument,
                    "greater than 0",
                ),
        );
        rows.push(
            start(vec)
                .types(&[F64])
                .sample(vec![t(images[n]), none(), false.into(), twice(n + 1)])
                .reference(move |a| {
                    vec![smooth(a[0].array(), &double(a[0].array(), n + 1), false, Some(2.0), kernel)]
                }),
        );
    }
    rows
}

/// The transpose of a linear map of arrays of `sizes`: the products of `grad` with what each element alone is mapped to.
fn transposed(grad: &Array, sizes: &[usize], map: impl Fn(&Array) -> Array) -> Array {
    build(sizes, |at| {
        let alone = map(&build(sizes, |i| f64::from(u8::from(i == at))));
        alone.data.iter().zip(&grad.data).map(|(x, grad)| x * grad).sum()
    })
}

/// What `_resample` computes of the modes 2, 3 and 4: its scales are 0, or the elements in front of an image of one dimension.
fn resampled(x: &Array, sizes: &[usize], mode: i64, align: bool) -> Array {
    match mode {
        2 => smooth(x, sizes, align, None, (hat, 1)),
        3 => smooth(x, sizes, align, None, (keys, 2)),
        _ => resized(x, 2, sizes[0], |at, _| vec![(at as i64 - 2, 1.0)]),
    }
}

fn resamplings() -> Vec<Row> {
    let images: [&[usize]; 3] = [&[1, 2, 4], &[1, 2, 3, 4], &[1, 1, 2, 3, 2]];
    let requested: [&[i64]; 3] = [&[7], &[5, 2], &[3, 2, 5]];
    let cases: [(usize, i64, bool); 5] =
        [(0, 2, false), (1, 2, true), (1, 3, false), (2, 2, false), (0, 4, false)];
    let how = |(n, mode, align): (usize, i64, bool)| {
        let scale = if mode == 4 { 2.0 } else { 0.0 };
        vec![mode.into(), align.into(), Arg::from(Value::Floats(vec![scale; n + 1]))]
    };
    let mode_of = |a: &[Arg]| match &a[2] {
        Arg::Value(Value::Int(mode)) => *mode,
        _ => 0,
    };
    let (mut forward, mut backward) = (
        row("_resample").types(WIDE_FLOATS).ulps(8.0).terms(9.0),
        row("_resample_transposed").types(WIDE_FLOATS).ulps(8.0).terms(27.0),
    );
    for case in cases {
        let (image, to) = (images[case.0], requested[case.0]);
        let made: Vec<usize> = image[..2].iter().copied().chain(to.iter().map(|n| *n as usize)).collect();
        let own: Vec<i64> = image.iter().map(|n| *n as i64).collect();
        forward = forward.sample([vec![t(image), ints(to)], how(case)].concat());
        backward = backward.sample([vec![t(&made), ints(&own)], how(case)].concat());
    }
    let bad = || vec![7i64.into(), false.into(), Arg::from(Value::Floats(vec![0.0]))];
    let refused = ErrorKind::InvalidArgument;
    vec![
        forward
            .reference(move |a| vec![resampled(a[0].array(), &a[1].dims(0), mode_of(a), a[3].flag())])
            .refuses([vec![t(&[1, 2, 4]), ints(&[7])], bad()].concat(), refused, "expected a mode"),
        backward
            .reference(move |a| {
                let to = a[0].array().sizes[2..].to_vec();
                let map = |x: &Array| resampled(x, &to, mode_of(a), a[3].flag());
                vec![transposed(a[0].array(), &a[1].dims(0), map)]
            })
            .refuses([vec![t(&[1, 2, 4]), ints(&[1, 2, 7])], bad()].concat(), refused, "expected a mode"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [shuffles(), columns(), borders(), lines(), sizings(), resamplings()].into_iter().flatten().collect()
}
