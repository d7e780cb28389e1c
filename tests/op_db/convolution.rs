//! Convolutions, also transposed, and their derivatives: sums over all products that the definition names.
//!
//! Tensors hold small integers, so that sums are exact whatever their order.

use super::linalg::{TYPES, tensors};
use crate::array::{Array, indices};
use crate::row::{Arg, FLOATS, Row, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_ops::dispatch::Value;

/// Stride, padding and dilation of every spatial dimension, and groups.
#[derive(Clone, Copy)]
struct Window {
    stride: usize,
    padding: usize,
    dilation: usize,
    groups: usize,
}

/// Sizes of the image and the weight as the plain convolution sees them: filters, channels of a group, kernel.
struct Case {
    x: &'static [usize],
    w: &'static [usize],
    window: Window,
}

const fn window(stride: usize, padding: usize, dilation: usize, groups: usize) -> Window {
    Window { stride, padding, dilation, groups }
}

/// Small ones, whose derivatives are compared with differences, and larger ones.
const CASES: &[Case] = &[
    Case { x: &[1, 2, 3, 3], w: &[2, 2, 2, 2], window: window(1, 1, 1, 1) },
    Case { x: &[1, 1, 3, 2], w: &[2, 1, 1, 2], window: window(1, 0, 1, 1) },
    Case { x: &[2, 2, 5], w: &[2, 1, 2], window: window(2, 0, 2, 2) },
    Case { x: &[2, 4, 6, 5], w: &[3, 4, 3, 3], window: window(1, 1, 1, 1) },
    Case { x: &[2, 4, 6, 5], w: &[4, 1, 2, 2], window: window(2, 0, 1, 4) },
    Case { x: &[2, 4, 7, 9], w: &[6, 2, 2, 3], window: window(2, 2, 2, 2) },
    Case { x: &[0, 2, 4, 4], w: &[3, 2, 3, 3], window: window(1, 0, 1, 1) },
    Case { x: &[1, 1, 2, 2, 3], w: &[2, 1, 2, 1, 2], window: window(1, 0, 1, 1) },
    Case { x: &[1, 2, 2, 1, 3], w: &[2, 1, 1, 1, 2], window: window(2, 1, 1, 2) },
    Case { x: &[2, 4, 5, 4, 6], w: &[4, 2, 2, 3, 2], window: window(2, 1, 1, 2) },
    Case { x: &[1, 3, 4, 6, 5], w: &[2, 3, 2, 2, 2], window: window(1, 1, 2, 1) },
    Case { x: &[2, 3, 3, 1, 1], w: &[2, 3, 2, 1, 1], window: window(1, 0, 1, 1) },
    Case { x: &[2, 2, 2, 4, 3], w: &[3, 2, 1, 1, 1], window: window(1, 0, 1, 1) },
];

impl Case {
    /// Batch, filters, and what fits.
    fn output(&self) -> Vec<usize> {
        let Window { stride, padding, dilation, .. } = self.window;
        let fits = |(x, k): (&usize, &usize)| (x + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
        [vec![self.x[0], self.w[0]], self.x[2..].iter().zip(&self.w[2..]).map(fits).collect()].concat()
    }

    fn arguments(&self) -> [Arg; 3] {
        let Window { stride, padding, dilation, .. } = self.window;
        [stride, padding, dilation].map(|n| ints(&vec![n as i64; self.x.len() - 2]))
    }

    /// For `convolution` and its derivatives.
    fn geometry(&self, transposed: bool) -> Vec<Arg> {
        let rest =
            vec![transposed.into(), ints(&vec![0; self.x.len() - 2]), (self.window.groups as i64).into()];
        [self.arguments().to_vec(), rest].concat()
    }
}

/// Calls `f` with the indices in output, input and weight of every product.
fn each(
    x: &[usize],
    w: &[usize],
    y: &[usize],
    window: Window,
    mut f: impl FnMut(&[usize], &[usize], &[usize]),
) {
    let filters = w[0] / window.groups;
    for (o, k) in indices(y).flat_map(|o| indices(&w[1..]).map(move |k| (o.clone(), k))) {
        let coordinate =
            |d: usize| (o[d + 2] * window.stride + k[d + 1] * window.dilation).checked_sub(window.padding);
        let Some(position) = (0..x.len() - 2).map(coordinate).collect::<Option<Vec<usize>>>() else {
            continue;
        };
        if position.iter().zip(&x[2..]).all(|(coordinate, size)| coordinate < size) {
            let channel = o[1] / filters * w[1] + k[0];
            f(&o, &[&[o[0], channel], &position[..]].concat(), &[&[o[1]], &k[..]].concat());
        }
    }
}

fn flat(sizes: &[usize], i: &[usize]) -> usize {
    sizes.iter().zip(i).fold(0, |n, (size, i)| n * size + i)
}

fn zeros(sizes: &[usize]) -> Array {
    Array::new(sizes, vec![0.0; sizes.iter().product()])
}

fn convolved(x: &Array, w: &Array, y: &[usize], window: Window) -> Array {
    let mut made = zeros(y);
    each(&x.sizes, &w.sizes, y, window, |o, i, k| made.data[flat(y, o)] += x.at(i) * w.at(k));
    made
}

/// The transpose of a convolution: what its output is made of, spread over its input.
fn spread(y: &Array, w: &Array, x: &[usize], window: Window) -> Array {
    let mut made = zeros(x);
    each(x, &w.sizes, &y.sizes, window, |o, i, k| made.data[flat(x, i)] += y.at(o) * w.at(k));
    made
}

/// The derivative with respect to the weight.
fn correlated(y: &Array, x: &Array, w: &[usize], window: Window) -> Array {
    let mut made = zeros(w);
    each(&x.sizes, w, &y.sizes, window, |o, i, k| made.data[flat(w, k)] += y.at(o) * x.at(i));
    made
}

fn with_bias(y: Array, bias: Option<&Array>) -> Array {
    let Some(bias) = bias else { return y };
    let sizes = y.sizes.clone();
    let value = |(i, v): (Vec<usize>, f64)| v + bias.data[i[1]];
    Array::new(&sizes, indices(&sizes).zip(y.data).map(value).collect())
}

/// The sums over all but the channels.
fn channel_sums(y: &Array) -> Array {
    let mut made = zeros(&y.sizes[1..2]);
    indices(&y.sizes).zip(&y.data).for_each(|(i, v)| made.data[i[1]] += v);
    made
}

fn numbers(a: &Arg) -> usize {
    match a {
        Arg::Value(Value::Ints(list)) => list[0] as usize,
        other => other.number() as usize,
    }
}

fn window_of(a: &[Arg], groups: &Arg) -> Window {
    window(numbers(&a[0]), numbers(&a[1]), numbers(&a[2]), numbers(groups))
}

fn output(x: &[usize], w: &[usize], window: Window) -> Vec<usize> {
    let Window { stride, padding, dilation, .. } = window;
    let fits = |(x, k): (&usize, &usize)| (x + 2 * padding - dilation * (k - 1) - 1) / stride + 1;
    [vec![x[0], w[0]], x[2..].iter().zip(&w[2..]).map(fits).collect()].concat()
}

/// The image that a transposed convolution makes of `y`: as small as it can be.
fn image(y: &[usize], w: &[usize], window: Window) -> Vec<usize> {
    let Window { stride, padding, dilation, groups } = window;
    let size = |(y, k): (&usize, &usize)| (y - 1) * stride + dilation * (k - 1) + 1 - 2 * padding;
    [vec![y[0], w[1] * groups], y[2..].iter().zip(&w[2..]).map(size).collect()].concat()
}

fn plain(name: &'static str, rank: usize) -> Row {
    let cases = CASES.iter().filter(|case| case.x.len() == rank);
    cases
        .fold(row(name).types(TYPES), |row, case| {
            let call = [tensors(&[case.x, case.w, &case.w[..1]]), case.arguments().to_vec()].concat();
            row.sample([call, vec![(case.window.groups as i64).into()]].concat())
        })
        .reference(|a| {
            let (x, w, window) = (a[0].array(), a[1].array(), window_of(&a[3..], &a[6]));
            vec![with_bias(convolved(x, w, &output(&x.sizes, &w.sizes, window), window), a[2].optional())]
        })
}

fn general() -> Row {
    let start = row("convolution").types(FLOATS);
    let forwards = CASES.iter().fold(start, |row, case| {
        row.sample([tensors(&[case.x, case.w, &case.w[..1]]), case.geometry(false)].concat())
    });
    let unbiased = [tensors(&[CASES[0].x, CASES[0].w]), vec![none()], CASES[0].geometry(false)].concat();
    let transposed =
        CASES.iter().filter(|case| case.x[0] != 0).fold(forwards.sample(unbiased), |row, case| {
            let filters = [case.w[1] * case.window.groups];
            row.sample([tensors(&[&case.output(), case.w, &filters]), case.geometry(true)].concat())
        });
    transposed.reference(|a| {
        let (x, w, window) = (a[0].array(), a[1].array(), window_of(&a[3..], &a[8]));
        let made = if a[6].flag() {
            spread(x, w, &image(&x.sizes, &w.sizes, window), window)
        } else {
            convolved(x, w, &output(&x.sizes, &w.sizes, window), window)
        };
        vec![with_bias(made, a[2].optional())]
    })
}

fn transposed(name: &'static str, rank: usize) -> Row {
    let cases = CASES.iter().filter(|case| case.x.len() == rank && case.x[0] != 0);
    cases
        .fold(row(name).types(FLOATS), |row, case| {
            let filters = [case.w[1] * case.window.groups];
            let [stride, padding, dilation] = case.arguments();
            let more = ints(&vec![0; rank - 2]);
            let geometry = vec![stride, padding, more, (case.window.groups as i64).into(), dilation];
            row.sample([tensors(&[&case.output(), case.w, &filters]), geometry].concat())
        })
        .reference(|a| {
            let (y, w) = (a[0].array(), a[1].array());
            let window = window(numbers(&a[3]), numbers(&a[4]), numbers(&a[7]), numbers(&a[6]));
            vec![with_bias(spread(y, w, &image(&y.sizes, &w.sizes, window), window), a[2].optional())]
        })
}

fn flags() -> Arg {
    Arg::Value(Value::Bools(vec![true; 3]))
}

fn backward() -> Row {
    CASES
        .iter()
        .fold(row("convolution_backward").types(FLOATS), |row, case| {
            let call = [tensors(&[&case.output(), case.x, case.w]), vec![ints(&[case.w[0] as i64])]].concat();
            row.sample([call, case.geometry(false), vec![flags()]].concat())
        })
        .reference(|a| {
            let [g, x, w] = [0, 1, 2].map(|n| a[n].array());
            let window = window_of(&a[4..], &a[9]);
            vec![spread(g, w, &x.sizes, window), correlated(g, x, &w.sizes, window), channel_sums(g)]
        })
}

/// The derivatives of [`backward`]'s results, of gradients `ggI`, `ggW` and `ggb`.
fn double_backward() -> Row {
    CASES
        .iter()
        .filter(|case| case.x[0] != 0)
        .fold(row("_convolution_double_backward").types(FLOATS), |row, case| {
            let call = tensors(&[case.x, case.w, &case.w[..1], &case.output(), case.w, case.x]);
            row.sample([call, case.geometry(false), vec![flags()]].concat())
        })
        .reference(|a| {
            let [ggx, ggw, ggb, g, w, x] = [0, 1, 2, 3, 4, 5].map(|n| a[n].array());
            let (window, y) = (window_of(&a[6..], &a[11]), &g.sizes);
            let both = convolved(ggx, w, y, window).zip(&convolved(x, ggw, y, window), |p, q| p + q);
            vec![
                with_bias(both, Some(ggb)),
                spread(g, ggw, &x.sizes, window),
                correlated(g, ggx, &w.sizes, window),
            ]
        })
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let bad = [
        tensors(&[&[1, 2, 5, 5], &[3, 3, 3, 3]]),
        vec![none(), ints(&[1]), ints(&[1]), ints(&[1]), 1i64.into()],
    ];
    vec![
        plain("conv1d", 3),
        plain("conv2d", 4).refuses(
            bad.concat(),
            ErrorKind::Shape,
            "to have 3 channels, but got 2 channels instead",
        ),
        plain("conv3d", 5),
        transposed("conv_transpose2d.input", 4),
        transposed("conv_transpose3d.input", 5),
        general(),
        backward(),
        double_backward(),
    ]
}
