//! `grid_sample`: images sampled at the points of a grid, as sums over all pixels by their interpolation weights.

use super::linalg::whole;
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, FLOATS, Row, WIDE_FLOATS, ints, row};
use flambeau_core::ErrorKind;
use flambeau_ops::dispatch::Value;

const LINEAR: i64 = 0;
const NEAREST: i64 = 1;
const CUBIC: i64 = 2;
const BORDER: i64 = 1;
const REFLECTION: i64 = 2;

/// Interpolation, padding, whether corners are aligned.
type How = (i64, i64, bool);

/// Mirrored at both ends until it lies between them, and the sign that its derivative has then.
fn folded(mut coordinate: f64, low: f64, high: f64) -> (f64, f64) {
    let mut sign = 1.0;
    while high > low && (coordinate < low || coordinate > high) {
        coordinate = if coordinate < low { 2.0 * low - coordinate } else { 2.0 * high - coordinate };
        sign = -sign;
    }
    if high > low { (coordinate, sign) } else { (0.0, 0.0) }
}

/// A coordinate after padding (clipped or reflected), and the derivative.
fn padded(coordinate: f64, n: usize, (_, padding, align): How) -> (f64, f64) {
    let last = n as f64 - 1.0;
    let (coordinate, sign) = match padding {
        BORDER => (coordinate, 1.0),
        REFLECTION if align => folded(coordinate, 0.0, last),
        REFLECTION => folded(coordinate, -0.5, last + 0.5),
        _ => return (coordinate, 1.0),
    };
    let inside = coordinate > 0.0 && coordinate < last;
    (coordinate.max(0.0).min(last), if inside { sign } else { 0.0 })
}

/// The kernel at the distance `t`, or its derivative of `order`.
fn kernel(interpolation: i64, t: f64, order: i64) -> f64 {
    let (a, s, sign) = (-0.75, t.abs(), t.signum());
    match (interpolation, order) {
        (NEAREST, 0) => f64::from(t.abs() < 1e-12),
        (LINEAR, 0) => (1.0 - s).max(0.0),
        (LINEAR, 1) if s < 1.0 => -sign,
        (CUBIC, 0) if s <= 1.0 => (a + 2.0) * s.powi(3) - (a + 3.0) * s.powi(2) + 1.0,
        (CUBIC, 0) if s < 2.0 => a * (s - 1.0) * (s - 2.0).powi(2),
        (CUBIC, 1) if s <= 1.0 => sign * (3.0 * (a + 2.0) * s * s - 2.0 * (a + 3.0) * s),
        (CUBIC, 1) if s < 2.0 => sign * a * (3.0 * s - 4.0) * (s - 2.0),
        _ => 0.0,
    }
}

/// The weight of the pixel `p` of `n` for the coordinate `at` of the grid.
fn along(how: How, at: f64, n: usize, p: usize, order: i64) -> f64 {
    let (interpolation, _, align) = how;
    let last = n as f64 - 1.0;
    let (coordinate, scale) = if align {
        ((at + 1.0) * last / 2.0, last / 2.0)
    } else {
        ((at + 1.0) * n as f64 / 2.0 - 0.5, n as f64 / 2.0)
    };
    if interpolation != CUBIC {
        let (coordinate, slope) = padded(coordinate, n, how);
        let coordinate = if interpolation == NEAREST { coordinate.round_ties_even() } else { coordinate };
        return kernel(interpolation, coordinate - p as f64, order) * (scale * slope).powi(order as i32);
    }
    let first = coordinate.floor();
    let near = (-1..3).map(|k| first + f64::from(k)).filter(|v| padded(*v, n, how).0 == p as f64);
    near.map(|v| kernel(CUBIC, coordinate - v, order)).sum::<f64>() * scale.powi(order as i32)
}

/// The interpolation weight of the pixel `p` at the point `o` (image, channel, position) of the grid.
fn weight(how: How, grid: &Array, o: &[usize], sizes: &[usize], p: &[usize], orders: &[i64]) -> f64 {
    let dims = sizes.len() - 2;
    let at = |d: usize| grid.at(&[&[o[0]], &o[2..], &[dims - 1 - d]].concat());
    (0..dims).map(|d| along(how, at(d), sizes[d + 2], p[d], orders[d])).product()
}

fn sampled(x: &Array, grid: &Array, how: How, orders: &[i64]) -> Array {
    let dims = x.sizes.len() - 2;
    build(&[&x.sizes[..2], &grid.sizes[1..=dims]].concat(), |o| {
        let counts = |p: &Vec<usize>| weight(how, grid, o, &x.sizes, p, orders);
        indices(&x.sizes[2..]).map(|p| counts(&p) * x.at(&[&o[..2], &p[..]].concat())).sum()
    })
}

fn spread(g: &Array, grid: &Array, sizes: &[usize], how: How, orders: &[i64]) -> Array {
    build(sizes, |i| {
        let points = indices(&g.sizes[2..]).map(|o| [&i[..2], &o[..]].concat());
        points.map(|o| weight(how, grid, &o, sizes, &i[2..], orders) * g.at(&o)).sum()
    })
}

/// The gradient of the grid: innermost dimension first.
fn for_grid(g: &Array, x: &Array, grid: &Array, how: How, orders: &[i64]) -> Array {
    let dims = orders.len();
    let slopes: Vec<Array> = (0..dims)
        .map(|d| {
            let mut orders = orders.to_vec();
            orders[d] += 1;
            sampled(x, grid, how, &orders)
        })
        .collect();
    build(&grid.sizes, |i| {
        let index_of = |c: usize| [&[i[0], c], &i[1..=dims]].concat();
        (0..x.sizes[1]).map(|c| g.at(&index_of(c)) * slopes[dims - 1 - i[dims + 1]].at(&index_of(c))).sum()
    })
}

/// Sizes of image and grid.
type Shapes = (&'static [usize], &'static [usize]);
const PLANES: &[Shapes] = &[(&[1, 1, 3, 2], &[1, 2, 1, 2]), (&[2, 2, 3, 4], &[2, 2, 3, 2])];
const VOLUMES: &[Shapes] = &[(&[1, 1, 2, 3, 2], &[1, 1, 2, 1, 3]), (&[2, 2, 3, 2, 4], &[2, 2, 1, 2, 3])];

/// Points inside of the image and somewhat outside, none where a derivative jumps.
fn grid(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -1.7..1.7, 40 + seed)
}

/// Every interpolation with every padding.
fn combinations(dims: usize) -> Vec<How> {
    // Of volumes, whose cubic samples have many neighbours, every other combination with those.
    let step = if dims == 2 { 1 } else { 2 };
    (0..3)
        .flat_map(move |kind| {
            (0..3)
                .step_by(if kind == CUBIC { step } else { 1 })
                .flat_map(move |pad| [true, false].map(|a| (kind, pad, a)))
        })
        .collect()
}

fn how_args(how: How) -> Vec<Arg> {
    vec![how.0.into(), how.1.into(), how.2.into()]
}

fn how_of(a: &[Arg]) -> How {
    (a[0].number() as i64, a[1].number() as i64, a[2].flag())
}

fn list(a: &Arg) -> Vec<i64> {
    match a {
        Arg::Value(Value::Ints(list)) => list.clone(),
        other => panic!("expected numbers but got {other:?}"),
    }
}

fn shapes(dims: usize) -> &'static [Shapes] {
    if dims == 2 { PLANES } else { VOLUMES }
}

/// Samples of all shapes of so many dimensions with these combinations of interpolation and padding, made by `call`.
fn samples_of(
    row: Row,
    dims: usize,
    combinations: impl Iterator<Item = How>,
    call: impl Fn(Shapes, How, u64) -> Vec<Arg>,
) -> Row {
    combinations.zip(0..).fold(row, |row, (how, seed)| {
        shapes(dims).iter().fold(row, |row, shapes| row.sample(call(*shapes, how, seed)))
    })
}

/// Every `step`-th combination, and all shapes, of these numbers of dimensions.
fn samples(row: Row, dims: &[usize], step: usize, call: impl Fn(Shapes, How, u64) -> Vec<Arg>) -> Row {
    dims.iter()
        .fold(row, |row, dims| samples_of(row, *dims, combinations(*dims).into_iter().step_by(step), &call))
}

fn output(x: &[usize], grid: &[usize]) -> Vec<usize> {
    [&x[..2], &grid[1..grid.len() - 1]].concat()
}

fn forwards() -> Vec<Row> {
    let plain = |name: &'static str, dims: &[usize], step: usize| {
        let start = row(name).types(FLOATS).ulps(2.0).terms(8.0);
        samples(start, dims, step, |(x, g), how, seed| {
            [vec![whole(x, seed).into(), grid(g, seed).into()], how_args(how)].concat()
        })
        .reference(|a| {
            let (x, g) = (a[0].array(), a[1].array());
            vec![sampled(x, g, how_of(&a[2..]), &vec![0; x.sizes.len() - 2])]
        })
    };
    let bad = |x: &[usize], g: &[usize], how: How| {
        [vec![whole(x, 1).into(), grid(g, 1).into()], how_args(how)].concat()
    };
    let linear = (LINEAR, 0, false);
    vec![
        plain("grid_sampler", &[2, 3], 5),
        plain("grid_sampler_2d", &[2], 1)
            .refuses(bad(&[1, 1, 2, 2], &[2, 1, 1, 2], linear), ErrorKind::Shape, "same batch size")
            .refuses(bad(&[1, 1, 2, 2], &[1, 1, 1, 3], linear), ErrorKind::Shape, "in last dimension")
            .refuses(bad(&[1, 1, 2], &[1, 1, 1], linear), ErrorKind::Shape, "expected 4D input")
            .refuses(bad(&[1, 1, 0, 2], &[1, 1, 1, 2], linear), ErrorKind::Shape, "non-empty spatial"),
        plain("grid_sampler_3d", &[3], 1).refuses(
            bad(&[1, 1, 2, 2, 2], &[1, 1, 1, 1, 3], (3, 0, false)),
            ErrorKind::InvalidArgument,
            "interpolation_mode",
        ),
        large(),
    ]
}

/// Worth several threads; the reference takes one channel for all.
fn large() -> Row {
    let x = build(&[1, 64, 3, 4], |i| ((i[2] * 4 + i[3]) * 7 % 5) as f64);
    let call = [vec![x.into(), grid(&[1, 30, 30, 2], 3).into()], how_args((LINEAR, 0, true))].concat();
    row("grid_sampler_2d").types(WIDE_FLOATS).ulps(2.0).terms(8.0).sample(call).reference(|a| {
        let one = build(&[1, 1, 3, 4], |i| a[0].array().at(i));
        let first = sampled(&one, a[1].array(), (LINEAR, 0, true), &[0, 0]);
        vec![build(&[1, 64, 30, 30], |i| first.at(&[0, 0, i[2], i[3]]))]
    })
}

/// The orders that have a kernel above, of so many dimensions.
fn orders(dims: usize) -> Vec<Vec<i64>> {
    let all = indices(&vec![2; dims]).map(|o| o.iter().map(|n| *n as i64).collect());
    all.collect()
}

/// Makes a sample of shapes, a combination of options, a seed and orders.
type Derived<'a> = &'a dyn Fn(Shapes, How, u64, &[i64]) -> Vec<Arg>;

fn derived() -> Vec<Row> {
    let start = |name| row(name).types(WIDE_FLOATS).ulps(4.0).terms(64.0);
    // Each order with some of the combinations; together the orders cover all combinations.
    let each_order = |name, call: Derived<'_>| {
        [2, 3].into_iter().fold(start(name), |row, dims| {
            let all = orders(dims);
            all.iter().enumerate().fold(row, |row, (n, orders)| {
                let combinations = combinations(dims).into_iter().skip(n).step_by(all.len());
                samples_of(row, dims, combinations, |shapes, how, seed| call(shapes, how, seed, orders))
            })
        })
    };
    vec![
        each_order("_grid_sample", &|(x, g), how, seed, orders| {
            [vec![whole(x, seed).into(), grid(g, seed).into(), ints(orders)], how_args(how)].concat()
        })
        .reference(|a| vec![sampled(a[0].array(), a[1].array(), how_of(&a[3..]), &list(&a[2]))]),
        each_order("_grid_sample_transposed", &|(x, g), how, seed, orders| {
            let sizes: Vec<i64> = x.iter().map(|size| *size as i64).collect();
            let tensors = vec![whole(&output(x, g), seed).into(), grid(g, seed).into()];
            [tensors, vec![ints(&sizes), ints(orders)], how_args(how)].concat()
        })
        .reference(|a| {
            let sizes: Vec<usize> = list(&a[2]).iter().map(|size| *size as usize).collect();
            vec![spread(a[0].array(), a[1].array(), &sizes, how_of(&a[4..]), &list(&a[3]))]
        }),
        samples(start("_grid_sample_grid_backward"), &[2, 3], 5, |(x, g), how, seed| {
            let tensors = vec![whole(&output(x, g), 7).into(), whole(x, seed).into(), grid(g, seed).into()];
            [tensors, vec![ints(&vec![0; x.len() - 2])], how_args(how)].concat()
        })
        .reference(|a| {
            let [g, x, grid] = [0, 1, 2].map(|n| a[n].array());
            vec![for_grid(g, x, grid, how_of(&a[4..]), &list(&a[3]))]
        }),
    ]
}

fn backwards() -> Vec<Row> {
    let plain = |name: &'static str, dims: usize| {
        let start = row(name).types(WIDE_FLOATS).ulps(4.0).terms(64.0);
        samples(start, &[dims], 4, |(x, g), how, seed| {
            let tensors = vec![whole(&output(x, g), 7).into(), whole(x, seed).into(), grid(g, seed).into()];
            [tensors, how_args(how), vec![Arg::Value(Value::Bools(vec![true; 2]))]].concat()
        })
        .reference(move |a| {
            let ([g, x, grid], how) = ([0, 1, 2].map(|n| a[n].array()), how_of(&a[3..]));
            let orders = vec![0; dims];
            vec![spread(g, grid, &x.sizes, how, &orders), for_grid(g, x, grid, how, &orders)]
        })
    };
    vec![plain("grid_sampler_2d_backward", 2), plain("grid_sampler_3d_backward", 3)]
}

/// The coordinate of point `i` of `n`.
fn coordinate(i: usize, n: usize, align: bool) -> f64 {
    match (n, align) {
        (1, _) => 0.0,
        (_, true) => 2.0 * i as f64 / (n as f64 - 1.0) - 1.0,
        (_, false) => (2.0 * i as f64 + 1.0) / n as f64 - 1.0,
    }
}

fn affine() -> Row {
    let sizes: [&[i64]; 3] = [&[2, 1, 3, 2], &[1, 2, 1, 4], &[2, 1, 2, 1, 3]];
    let call = |sizes: &[i64], align: bool| {
        let dims = sizes.len() - 2;
        vec![whole(&[sizes[0] as usize, dims, dims + 1], 5).into(), ints(sizes), align.into()]
    };
    let start = row("affine_grid_generator").types(FLOATS).ulps(2.0).terms(8.0);
    let filled =
        sizes.into_iter().fold(start, |row, sizes| row.sample(call(sizes, true)).sample(call(sizes, false)));
    filled
        .reference(|a| {
            let (theta, sizes, align) = (a[0].array(), list(&a[1]), a[2].flag());
            let spatial: Vec<usize> = sizes[2..].iter().map(|size| *size as usize).collect();
            let dims = spatial.len();
            vec![build(&[&[sizes[0] as usize], &spatial[..], &[dims]].concat(), |i| {
                let at = |j: usize| coordinate(i[dims - j], spatial[dims - 1 - j], align);
                let moved: f64 = (0..dims).map(|j| theta.at(&[i[0], i[dims + 1], j]) * at(j)).sum();
                moved + theta.at(&[i[0], i[dims + 1], dims])
            })]
        })
        .refuses(
            vec![whole(&[1, 2, 2], 1).into(), ints(&[1, 1, 2, 2]), true.into()],
            ErrorKind::Shape,
            "affine matrices",
        )
        .refuses(
            vec![whole(&[1, 2, 3], 1).into(), ints(&[1, 1, 2]), true.into()],
            ErrorKind::InvalidArgument,
            "needs 4d",
        )
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [forwards(), derived(), backwards(), vec![affine()]].into_iter().flatten().collect()
}
