//! `diff`, `trapezoid`, `gradient`, distances, covariance.

use super::linalg::{TYPES, whole};
use super::unary::float_of;
use super::view::{build, int, sliced, wrap};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, Row, WIDE_FLOATS, ints, none, number, row};
use flambeau_core::ScalarType::{Bool, F64, I64};
use flambeau_core::{ErrorKind, Scalar};
use flambeau_ops::dispatch::Value;

/// Numbers with a fraction.
fn some(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -3.0..3.0, seed)
}

/// Neighbours along `dim` through `f`.
fn neighbours(x: &Array, dim: usize, f: impl Fn(f64, f64) -> f64) -> Array {
    let n = x.sizes[dim].saturating_sub(1);
    sliced(x, dim, 0, n, 1).zip(&sliced(x, dim, usize::from(n > 0), n, 1), f)
}

fn diffs() -> Vec<Row> {
    let call = |sizes: &[usize], n: i64, dim: i64| {
        vec![whole(sizes, 1).into(), n.into(), dim.into(), none(), none()]
    };
    let both: Vec<Arg> = vec![
        whole(&[2, 3], 1).into(),
        1i64.into(),
        1i64.into(),
        whole(&[2, 1], 2).into(),
        whole(&[2, 2], 3).into(),
    ];
    vec![
        row("diff")
            .types(TYPES)
            .ulps(0.0)
            .sample(call(&[5], 1, 0))
            .sample(call(&[3, 4], 2, -1))
            .sample(call(&[3, 4], 9, 0))
            .sample(call(&[3, 4], 0, 0))
            .reference(|a| {
                let (x, d) = (a[0].array(), wrap(&a[2], a[0].array().sizes.len()));
                let times = int(&a[1]).min(x.sizes[d] as i64);
                vec![(0..times).fold(x.clone(), |x, _| neighbours(&x, d, |a, b| b - a))]
            })
            .refuses(call(&[], 1, 0), ErrorKind::Shape, "at least one-dimensional")
            .refuses(call(&[3], -1, 0), ErrorKind::InvalidArgument, "non-negative"),
        row("diff").types(TYPES).ulps(0.0).sample(both).reference(|a| {
            let parts = [a[3].array(), a[0].array(), a[4].array()];
            let at = |i: &[usize]| match i[1] {
                0 => parts[0].at(&[i[0], 0]),
                1..=3 => parts[1].at(&[i[0], i[1] - 1]),
                _ => parts[2].at(&[i[0], i[1] - 4]),
            };
            vec![neighbours(&build(&[2, 6], at), 1, |a, b| b - a)]
        }),
        row("diff")
            .types(&[Bool])
            .not_differentiable()
            .sample(vec![whole(&[5], 1).into(), 1i64.into(), 0i64.into(), none(), none()])
            .reference(|a| {
                vec![neighbours(&a[0].array().map(|x| f64::from(x != 0.0)), 0, |a, b| f64::from(a != b))]
            }),
    ]
}

/// Twice the areas between neighbours, whose positions `x` gives.
fn areas(y: &Array, dim: usize, x: impl Fn(usize) -> f64) -> Array {
    let sums = neighbours(y, dim, |a, b| a + b);
    build(&sums.sizes, |i| sums.at(i) * (x(i[dim] + 1) - x(i[dim])))
}

fn running(x: &Array, dim: usize) -> Array {
    build(&x.sizes, |i| {
        let mut at = i.to_vec();
        (0..=i[dim])
            .map(|n| {
                at[dim] = n;
                x.at(&at)
            })
            .sum()
    })
}

fn integrals() -> Vec<Row> {
    let start = |name| row(name).types(WIDE_FLOATS).ulps(4.0).terms(20.0);
    let total = |twice: Array, d: usize| vec![twice.reduce(&[d], false, |v| v.iter().sum::<f64>() / 2.0)];
    let so_far = |twice: Array, d: usize| vec![running(&twice, d).map(|x| x / 2.0)];
    let samples = |row: Row, rest: &dyn Fn(usize) -> Arg| {
        [(&[5][..], 0i64), (&[3, 4], -2), (&[3, 4], 1)].into_iter().fold(row, |row, (sizes, dim)| {
            let n = sizes[if dim < 0 { 0 } else { dim as usize }];
            row.sample(vec![some(sizes, 1).into(), rest(n), dim.into()])
        })
    };
    let positions = |n: usize| Arg::from(some(&[n], 4));
    let step = |_: usize| number(0.5);
    let dim = |a: &[Arg]| wrap(&a[2], a[0].array().sizes.len());
    let over = move |a: &[Arg]| {
        let x = a[1].array().clone();
        areas(a[0].array(), dim(a), move |n| x.data[n])
    };
    let even = move |a: &[Arg]| areas(a[0].array(), dim(a), |n| n as f64 * a[1].number());
    let uneven = vec![some(&[3], 1).into(), some(&[4], 1).into(), 0i64.into()];
    let refuse =
        |row: Row| row.refuses(uneven.clone(), ErrorKind::Shape, "one `x` value for each sample point");
    let mut rows = vec![];
    for name in ["trapezoid.x", "trapz.x"] {
        rows.push(refuse(samples(start(name), &positions).reference(move |a| total(over(a), dim(a)))));
    }
    rows.push(samples(start("trapezoid.dx"), &step).reference(move |a| total(even(a), dim(a))));
    rows.push(samples(start("trapz.dx"), &|_| 0.5.into()).reference(move |a| total(even(a), dim(a))));
    rows.push(refuse(
        samples(start("cumulative_trapezoid.x"), &positions).reference(move |a| so_far(over(a), dim(a))),
    ));
    rows.push(samples(start("cumulative_trapezoid.dx"), &step).reference(move |a| so_far(even(a), dim(a))));
    rows
}

/// The slope at `x` of the polynomial of lowest degree through the points: Lagrange's.
fn slope(points: &[(f64, f64)], x: f64) -> f64 {
    let term = |i: usize| {
        let (xi, yi) = points[i];
        let others: Vec<f64> = (0..points.len()).filter(|j| *j != i).map(|j| points[j].0).collect();
        let below: f64 = others.iter().map(|xj| xi - xj).product();
        let above: f64 = (0..others.len())
            .map(|k| (0..others.len()).filter(|j| *j != k).map(|j| x - others[j]).product::<f64>())
            .sum();
        yi * above / below
    };
    (0..points.len()).map(term).sum()
}

/// Slopes along `dim` at the positions `x`.
fn slopes(y: &Array, dim: usize, edge: usize, x: impl Fn(usize) -> f64) -> Array {
    let n = y.sizes[dim];
    build(&y.sizes, |i| {
        let point = |k: usize| {
            let mut at = i.to_vec();
            at[dim] = k;
            (x(k), y.at(&at))
        };
        let used = match i[dim] {
            0 => 0..edge + 1,
            at if at == n - 1 => n - 1 - edge..n,
            at => at - 1..at + 2,
        };
        slope(&used.map(point).collect::<Vec<_>>(), x(i[dim]))
    })
}

/// A list of numbers as an argument.
fn numbers(values: &[f64]) -> Arg {
    Arg::Value(Value::Scalars(values.iter().map(|value| Scalar::Float(*value)).collect()))
}

fn gradients() -> Vec<Row> {
    let start = |name| row(name).types(WIDE_FLOATS).ulps(30.0).terms(20.0);
    let y = || Arg::from(some(&[3, 4], 1));
    let edge = |a: &Arg| int(a) as usize;
    let positions = |n: usize| {
        let mut x = some(&[n], 11);
        x.data.sort_by(f64::total_cmp);
        x
    };
    let listed = || Arg::Tensors(vec![positions(3), positions(4)]);
    let at = |arg: &Arg, which: usize| {
        let Arg::Tensors(all) = arg else { panic!("expected positions") };
        let x = all[which].clone();
        move |n: usize| x.data[n]
    };
    vec![
        start("gradient.scalarint")
            .sample(vec![y(), none(), none(), 1i64.into()])
            .reference(move |a| (0..2).map(|d| slopes(a[0].array(), d, edge(&a[3]), |n| n as f64)).collect())
            .refuses(vec![y(), none(), none(), 3i64.into()], ErrorKind::InvalidArgument, "edge_order")
            .refuses(
                vec![some(&[1], 1).into(), none(), none(), 1i64.into()],
                ErrorKind::Shape,
                "edge_order+1",
            ),
        start("gradient.scalarint")
            .sample(vec![y(), number(0.5), (-1i64).into(), 2i64.into()])
            .reference(move |a| vec![slopes(a[0].array(), 1, edge(&a[3]), |n| n as f64 * 0.5)]),
        start("gradient.scalararray").sample(vec![y(), number(2.0), ints(&[1, 0]), 1i64.into()]).reference(
            move |a| [1, 0].map(|d| slopes(a[0].array(), d, edge(&a[3]), |n| n as f64 * 2.0)).to_vec(),
        ),
        start("gradient.scalarrayint")
            .sample(vec![y(), numbers(&[2.0, 0.5]), none(), 1i64.into()])
            .reference(move |a| {
                let steps = [2.0, 0.5];
                (0..2).map(|d| slopes(a[0].array(), d, edge(&a[3]), |n| n as f64 * steps[d])).collect()
            }),
        start("gradient.scalarrayarray")
            .sample(vec![y(), numbers(&[2.0]), ints(&[1]), 2i64.into()])
            .reference(move |a| vec![slopes(a[0].array(), 1, edge(&a[3]), |n| n as f64 * 2.0)])
            .refuses(
                vec![y(), numbers(&[2.0]), ints(&[1, 0]), 1i64.into()],
                ErrorKind::InvalidArgument,
                "expected spacing",
            ),
        start("gradient.array")
            .sample(vec![y(), ints(&[1]), 2i64.into()])
            .reference(move |a| vec![slopes(a[0].array(), 1, edge(&a[2]), |n| n as f64)]),
        start("gradient.tensorarrayint")
            .sample(vec![y(), listed(), none(), 1i64.into()])
            .reference(move |a| (0..2).map(|d| slopes(a[0].array(), d, edge(&a[3]), at(&a[1], d))).collect())
            .refuses(
                vec![y(), Arg::Tensors(vec![positions(4)]), 0i64.into(), 1i64.into()],
                ErrorKind::Shape,
                "coordinate tensor",
            ),
        start("gradient.tensorarray")
            .sample(vec![y(), listed(), ints(&[0, 1]), 2i64.into()])
            .reference(move |a| (0..2).map(|d| slopes(a[0].array(), d, edge(&a[3]), at(&a[1], d))).collect()),
    ]
}

/// The p-norm of numbers.
pub(super) fn norm(x: impl Iterator<Item = f64>, p: f64) -> f64 {
    let x: Vec<f64> = x.map(f64::abs).collect();
    match p {
        0.0 => x.iter().filter(|x| **x != 0.0).count() as f64,
        f64::INFINITY => x.iter().copied().fold(0.0, f64::max),
        p => x.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
    }
}

fn distance(a: &Array, b: &Array, [i, j]: [usize; 2], p: f64) -> f64 {
    let m = a.sizes[a.sizes.len() - 1];
    norm((0..m).map(|k| a.data[i * m + k] - b.data[j * m + k]), p)
}

fn distances() -> Vec<Row> {
    let start = |name| row(name).types(WIDE_FLOATS).ulps(8.0).terms(8.0);
    let pair = |a: &[usize], b: &[usize]| -> Vec<Arg> { vec![some(a, 1).into(), some(b, 2).into()] };
    let all = |a: &[Arg], p: f64| {
        let (x, y) = (a[0].array(), a[1].array());
        let (r, m) = (y.sizes[y.sizes.len() - 2], x.sizes[0]);
        vec![build(&[m, r], |i| distance(x, y, [i[0], i[1]], p))]
    };
    let norms_of_all = |name| {
        [1.0, 2.0, 3.0, f64::INFINITY, 0.0]
            .into_iter()
            .fold(start(name), |row, p| row.sample([pair(&[3, 2], &[2, 2]), vec![p.into(), none()]].concat()))
    };
    let norms_of_pairs = |name| {
        [1.0, 2.0, f64::INFINITY]
            .into_iter()
            .fold(start(name), |row, p| row.sample(vec![some(&[4, 3], 1).into(), p.into()]))
            .reference(|a| {
                let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
                let x = a[0].array();
                vec![build(&[6], |i| distance(x, x, pairs[i[0]], a[1].number()))]
            })
    };
    let dist = [1.0, 2.0]
        .into_iter()
        .fold(start("dist"), |row, p| row.sample([pair(&[2, 3], &[3]), vec![number(p)]].concat()));
    let renorm =
        |p: f64, dim: i64, most: f64| vec![some(&[3, 4], 1).into(), number(p), dim.into(), number(most)];
    vec![
        norms_of_all("cdist")
            .sample([pair(&[30, 3], &[2, 3]), vec![2.0.into(), none()]].concat())
            .sample([pair(&[3, 3], &[2, 3]), vec![2.0.into(), 1i64.into()]].concat())
            .terms(64.0)
            .reference(move |a| all(a, a[2].number()))
            .refuses(
                [pair(&[3, 2], &[2, 3]), vec![2.0.into(), none()]].concat(),
                ErrorKind::Shape,
                "same number of columns",
            )
            .refuses([pair(&[2], &[2]), vec![2.0.into(), none()]].concat(), ErrorKind::Shape, "at least 2D"),
        start("cdist").sample([pair(&[2, 2, 2], &[3, 2]), vec![1.0.into(), none()]].concat()).reference(
            |a| {
                vec![build(&[2, 2, 3], |i| {
                    distance(a[0].array(), a[1].array(), [i[0] * 2 + i[1], i[2]], 1.0)
                })]
            },
        ),
        start("_euclidean_dist").terms(64.0).sample(pair(&[3, 2], &[2, 2])).reference(move |a| all(a, 2.0)),
        norms_of_all("_cdist_forward").reference(move |a| all(a, a[2].number())),
        norms_of_pairs("_pdist_forward"),
        norms_of_pairs("pdist").refuses(
            vec![some(&[3], 1).into(), 2.0.into()],
            ErrorKind::Shape,
            "2D tensors",
        ),
        dist.reference(|a| {
            let difference = a[0].array().zip(a[1].array(), |x, y| x - y);
            vec![Array::scalar(norm(difference.data.into_iter(), a[2].number()))]
        }),
        start("renorm")
            .sample(renorm(2.0, 0, 3.0))
            .sample(renorm(1.0, -1, 4.0))
            .reference(|a| {
                let (x, d) = (a[0].array(), wrap(&a[2], 2));
                let norms = x.reduce(&[1 - d], true, |v| norm(v.iter().copied(), a[1].number()));
                let most = a[3].number();
                vec![x.zip(&norms, |x, n| if n > most { x * most / (n + 1e-7) } else { x })]
            })
            .refuses(renorm(0.0, 0, 1.0), ErrorKind::InvalidArgument, "non-positive-norm")
            .refuses(renorm(2.0, 0, -1.0), ErrorKind::InvalidArgument, "maxnorm"),
        row("_local_scalar_dense")
            .types(ALL)
            .gives(|t| match t {
                Bool => Bool,
                t if t.is_floating_point() => F64,
                _ => I64,
            })
            .ulps(0.0)
            .not_differentiable()
            .skip(Check::Variants, "a number has elements, which a meta tensor has not")
            .sample(vec![some(&[1, 1], 1).into()])
            .sample(vec![Array::scalar(1.0).into()])
            .reference(|a| vec![Array::scalar(a[0].array().data[0])])
            .refuses(vec![some(&[2], 1).into()], ErrorKind::Shape, "element"),
        row("sum_to_size")
            .types(FLOATS)
            .ulps(0.0)
            .sample(vec![whole(&[2, 3, 4], 1).into(), ints(&[3, 1])])
            .sample(vec![whole(&[2, 3, 4], 1).into(), ints(&[2, 3, 4])])
            .reference(|a| {
                let x = a[0].array();
                if a[1].dims(0).len() == 3 {
                    return vec![x.clone()];
                }
                vec![x.reduce(&[0, 2], true, |v| v.iter().sum()).reduce(&[0], false, |v| v[0])]
            })
            .refuses(vec![whole(&[2, 3], 1).into(), ints(&[2])], ErrorKind::Shape, "not expandable"),
    ]
}

/// The covariance of two rows, with the weight of each sample and the divisor.
fn covariance(x: &Array, y: &Array, w: &[f64], divisor: f64) -> f64 {
    let total: f64 = w.iter().sum();
    let mean = |x: &Array| x.data.iter().zip(w).map(|(x, w)| x * w).sum::<f64>() / total;
    let (mx, my) = (mean(x), mean(y));
    x.data.iter().zip(&y.data).zip(w).map(|((x, y), w)| w * (x - mx) * (y - my)).sum::<f64>() / divisor
}

fn matrix(x: &Array, w: &[f64], divisor: f64) -> Array {
    let n = x.sizes[1];
    let line = |r: usize| Array::new(&[n], x.data[r * n..(r + 1) * n].to_vec());
    build(&[x.sizes[0]; 2], |i| covariance(&line(i[0]), &line(i[1]), w, divisor))
}

fn covariances() -> Vec<Row> {
    let start = |name| row(name).ulps(8.0).terms(8.0);
    let plain = |c: i64| vec![some(&[2, 5], 1).into(), c.into(), none(), none()];
    let often = [1.0, 2.0, 0.0, 3.0, 1.0];
    let much = [0.5, 1.0, 2.0, 0.25, 1.5];
    let weighted = vec![
        some(&[2, 5], 1).into(),
        1i64.into(),
        Arg::Typed(Array::new(&[5], often.to_vec()), I64),
        Arg::Typed(Array::new(&[5], much.to_vec()), F64),
    ];
    let cube = vec![some(&[2, 2, 2], 1).into(), 1i64.into(), none(), none()];
    vec![
        start("cov")
            .types(WIDE_FLOATS)
            .sample(plain(1))
            .sample(plain(0))
            .reference(|a| vec![matrix(a[0].array(), &[1.0; 5], 5.0 - a[1].number())])
            .refuses(cube, ErrorKind::Shape, "two or fewer dimensions"),
        start("cov")
            .types(&[I64])
            .gives(float_of)
            .not_differentiable()
            .sample(vec![whole(&[6], 1).into(), 1i64.into(), none(), none()])
            .reference(|a| vec![Array::scalar(covariance(a[0].array(), a[0].array(), &[1.0; 6], 5.0))]),
        start("cov")
            .types(&[F64])
            .skip(Check::Variants, "the weights are added up and read, and Meta has no values")
            .sample(weighted)
            .reference(move |a| {
                let w: Vec<f64> = often.iter().zip(much).map(|(f, a)| f * a).collect();
                let total: f64 = w.iter().sum();
                let lost = w.iter().zip(much).map(|(w, a)| w * a).sum::<f64>() / total;
                vec![matrix(a[0].array(), &w, total - lost)]
            }),
        start("corrcoef")
            .types(WIDE_FLOATS)
            .sample(vec![some(&[3, 5], 1).into()])
            .skip(
                Check::Gradients,
                "the diagonal is 1 and stands on the clamp's edge, where differences see both sides",
            )
            .skip(Check::SecondGradients, "as for first gradients")
            .reference(|a| {
                let c = matrix(a[0].array(), &[1.0; 5], 4.0);
                vec![build(&[3, 3], |i| c.at(i) / (c.at(&[i[0], i[0]]) * c.at(&[i[1], i[1]])).sqrt())]
            }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [diffs(), integrals(), gradients(), distances(), covariances()].into_iter().flatten().collect()
}
