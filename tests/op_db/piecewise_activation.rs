//! Activation functions that are defined piecewise: shrinkage, hard sigmoids, gates, and slopes that are learned or random.

use super::special as f;
use crate::array::Array;
use crate::row::{Arg, FLOATS, NUMBERS, Row, none, number, row};
use flambeau_core::ErrorKind;

fn hardsigmoid(x: f64) -> f64 {
    f::lesser(f::greater(x + 3.0, 0.0), 6.0) / 6.0
}

fn celu(x: f64, alpha: f64) -> f64 {
    if x < 0.0 { alpha * (x / alpha).exp_m1() } else { x }
}

fn selu(x: f64) -> f64 {
    let (alpha, scale) = (1.673_263_242_354_377_2, 1.050_700_987_355_480_5);
    scale * if x < 0.0 { alpha * x.exp_m1() } else { x }
}

fn forward() -> Vec<Row> {
    let smooth = |name, ulps, rest: &[Arg], f: fn(f64) -> f64| {
        row(name).types(FLOATS).ulps(ulps).unary(-6.0..6.0, rest, f)
    };
    let x = || Arg::Tensor(Array::fill(&[3], 0.0..1.0, 0));
    vec![
        smooth("hardshrink", 0.0, &[number(0.75)], |x| if x.abs() <= 0.75 { 0.0 } else { x }),
        smooth("softshrink", 0.5, &[number(0.75)], |x| {
            if x.is_nan() { x } else { (x.abs() - 0.75).max(0.0).copysign(x) }
        })
        .refuses(vec![x(), number(-1)], ErrorKind::InvalidArgument, "lambda"),
        smooth("hardsigmoid", 1.5, &[], hardsigmoid).terms(0.5),
        smooth("hardswish", 2.5, &[], |x| x * f::lesser(f::greater(x + 3.0, 0.0), 6.0) / 6.0).terms(0.5),
        smooth("celu", 4.0, &[number(1.5)], |x| celu(x, 1.5)),
        smooth("celu", 6.0, &[number(-1.5)], |x| celu(x, -1.5)).refuses(
            vec![x(), number(0)],
            ErrorKind::InvalidArgument,
            "alpha cannot be 0",
        ),
        smooth("selu", 3.0, &[], selu),
        row("relu6")
            .types(NUMBERS)
            .ulps(0.0)
            .unary(-3.0..9.0, &[], |x| if x.is_nan() { x } else { x.clamp(0.0, 6.0) }),
    ]
}

fn backward() -> Vec<Row> {
    let gate = |name, rest: &[Arg], open: fn(f64) -> bool| {
        let start = row(name).types(FLOATS).ulps(0.0);
        start.binary([-2.0..2.0, -5.0..5.0], rest, move |g, x| if open(x) { g } else { 0.0 })
    };
    let slope = |name, f: fn(f64, f64) -> f64| {
        row(name).types(FLOATS).ulps(2.0).terms(1.0).binary([-2.0..2.0, -5.0..5.0], &[], f)
    };
    vec![
        gate("hardshrink_backward", &[number(0.75)], |x| x.is_nan() || x.abs() > 0.75),
        gate("softshrink_backward", &[number(0.75)], |x| x.is_nan() || x.abs() > 0.75),
        slope("hardsigmoid_backward", |g, x| if x > -3.0 && x < 3.0 { g / 6.0 } else { 0.0 }),
        slope("hardswish_backward", |g, x| match x {
            x if x <= -3.0 => 0.0,
            x if x >= 3.0 => g,
            x => g * (x / 3.0 + 0.5),
        }),
    ]
}

/// The two halves of an array along a dimension.
fn halves(x: &Array, dim: usize) -> [Array; 2] {
    let mut sizes = x.sizes.clone();
    sizes[dim] /= 2;
    let half = |start: usize| {
        let element = |mut index: Vec<usize>| {
            index[dim] += start;
            x.at(&index)
        };
        Array::new(&sizes, crate::array::indices(&sizes).map(element).collect())
    };
    [half(0), half(sizes[dim])]
}

fn joined(a: &Array, b: &Array, dim: usize) -> Array {
    let mut sizes = a.sizes.clone();
    sizes[dim] *= 2;
    let element = |mut index: Vec<usize>| {
        let from = if index[dim] < a.sizes[dim] { a } else { b };
        index[dim] %= a.sizes[dim].max(1);
        from.at(&index)
    };
    Array::new(&sizes, crate::array::indices(&sizes).map(element).collect())
}

fn gates() -> Vec<Row> {
    let calls: [(&[usize], i64); 5] = [(&[6], -1), (&[2, 4], 1), (&[4, 3], 0), (&[2, 6, 2], 1), (&[2, 0], 1)];
    let wrapped_dim = |a: &[Arg], at: usize| a[at].dims(a[at - 1].array().sizes.len())[0];
    let some = |sizes: &[usize], seed| Arg::Tensor(Array::fill(sizes, -3.0..3.0, seed));
    let glu = calls.iter().fold(row("glu").types(FLOATS).ulps(3.0), |row, (sizes, dim)| {
        row.sample(vec![some(sizes, 1), (*dim).into()])
    });
    let back =
        calls.iter().fold(row("glu_backward").types(FLOATS).ulps(6.0).terms(1.0), |row, (sizes, dim)| {
            let mut half = sizes.to_vec();
            half[dim.rem_euclid(sizes.len() as i64) as usize] /= 2;
            row.sample(vec![some(&half, 2), some(sizes, 1), (*dim).into()])
        });
    vec![
        glu.reference(move |a| {
            let [x, gate] = halves(a[0].array(), wrapped_dim(a, 1));
            vec![x.zip(&gate, |x, g| x * f::sigmoid(g))]
        })
        .refuses(vec![some(&[3], 1), 0i64.into()], ErrorKind::Shape, "must be even")
        .refuses(vec![some(&[], 1), 0i64.into()], ErrorKind::Shape, "0-dimensional"),
        back.reference(move |a| {
            let dim = wrapped_dim(a, 2);
            let [x, gate] = halves(a[1].array(), dim);
            let of_x = a[0].array().zip(&gate, |grad, g| grad * f::sigmoid(g));
            let slope = x.zip(&gate, |x, g| x * f::sigmoid(g) * f::sigmoid(-g));
            vec![joined(&of_x, &a[0].array().zip(&slope, |grad, s| grad * s), dim)]
        }),
    ]
}

fn learned() -> Vec<Row> {
    let some = |sizes: &[usize], seed| Arg::Tensor(Array::fill(sizes, -3.0..3.0, seed));
    let calls: [(&[usize], &[usize]); 6] =
        [(&[], &[1]), (&[5], &[1]), (&[2, 3], &[3]), (&[2, 3, 2], &[3]), (&[2, 3], &[]), (&[0, 3], &[3])];
    let prelu = calls
        .iter()
        .fold(row("prelu").types(FLOATS).ulps(1.0), |row, (x, w)| row.sample(vec![some(x, 1), some(w, 2)]));
    let of_channel = |x: &Array, w: &Array| {
        let mut sizes = vec![1; x.sizes.len()];
        if w.data.len() > 1 {
            sizes[1] = w.data.len();
        }
        Array::new(&sizes, w.data.clone())
    };
    let lower = |x: f64, w: f64| if x > 0.0 { x } else { x * w };
    let both: [&[usize]; 4] = [&[5], &[17], &[2, 3], &[0]];
    let back = both.iter().fold(row("_prelu_kernel_backward").types(FLOATS).ulps(1.0), |row, sizes| {
        row.sample(vec![some(sizes, 1), some(sizes, 2), some(sizes, 3)])
    });
    vec![
        prelu
            .reference(move |a| {
                let (x, w) = (a[0].array(), a[1].array());
                vec![x.zip(&of_channel(x, w), lower)]
            })
            .refuses(vec![some(&[2, 3], 1), some(&[2], 1)], ErrorKind::Shape, "channel size = 3")
            .refuses(vec![some(&[2], 1), some(&[1, 1], 1)], ErrorKind::Shape, "ndim = 2"),
        row("_prelu_kernel").types(FLOATS).ulps(1.0).binary([-3.0..3.0, -2.0..2.0], &[], lower),
        back.reference(|a| {
            let [g, x, w] = [0, 1, 2].map(|i| a[i].array());
            let by_input = g.zip(&x.zip(w, |x, w| if x > 0.0 { 1.0 } else { w }), |g, s| g * s);
            vec![by_input, g.zip(x, |g, x| if x > 0.0 { 0.0 } else { g * x })]
        }),
    ]
}

/// Slopes that are drawn, each between the limits, and their middle outside training.
fn drawn() -> Vec<Row> {
    let some = |sizes: &[usize], seed| Arg::Tensor(Array::fill(sizes, -3.0..3.0, seed));
    let limits = [number(0.25), number(0.75)];
    let shapes: [&[usize]; 4] = [&[], &[17], &[3, 4], &[0]];
    let calls = |name, with_noise: bool| {
        shapes.iter().flat_map(|sizes| [(sizes, true), (sizes, false)]).fold(
            row(name).types(FLOATS),
            |row, (sizes, training)| {
                let noise = Arg::Constant(Array::fill(sizes, 0.0..1.0, 9));
                let first = if with_noise { vec![some(sizes, 1), noise] } else { vec![some(sizes, 1)] };
                row.sample([first, limits.to_vec(), vec![training.into(), none()]].concat())
            },
        )
    };
    let holds = |a: &[Arg], results: &[Array]| {
        let training = a[a.len() - 2].flag();
        let near = |y: f64, x: f64| (y - x).abs() <= 2f64.powi(-7) * x.abs();
        let right = |x: f64, y: f64| match x {
            x if x > 0.0 => y == x,
            x if training => near(y / x, (y / x).clamp(0.25, 0.75)),
            x => near(y, x / 2.0),
        };
        let stray = a[0].array().data.iter().zip(&results[0].data).find(|(x, y)| !right(**x, **y));
        stray.map_or(Ok(()), |stray| Err(format!("training {training}: {stray:?}")))
    };
    let back = |training: bool, f: fn(f64, f64, f64) -> f64| {
        shapes
            .iter()
            .fold(row("rrelu_with_noise_backward").types(FLOATS).ulps(1.0), |row, sizes| {
                let noise = Arg::Constant(Array::fill(sizes, 0.25..0.75, 3));
                let first = vec![some(sizes, 1), some(sizes, 2), noise];
                row.sample([first, limits.to_vec(), vec![training.into(), false.into()]].concat())
            })
            .reference(move |a| {
                let [g, x, noise] = [0, 1, 2].map(|i| &a[i].array().data);
                let data = (0..g.len()).map(|i| f(g[i], x[i], noise[i])).collect();
                vec![Array::new(&a[0].array().sizes, data)]
            })
    };
    let refused = |row: Row| {
        row.refuses(
            vec![some(&[3], 1), number(0.5), number(0.25), true.into(), none()],
            ErrorKind::InvalidArgument,
            "Lower bound",
        )
    };
    vec![
        refused(calls("rrelu", false).property(holds)),
        calls("rrelu_with_noise", true).property(holds),
        back(true, |g, _, noise| g * noise),
        back(false, |g, x, _| if x > 0.0 { g } else { g / 2.0 }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [forward(), backward(), gates(), learned(), drawn()].into_iter().flatten().collect()
}
