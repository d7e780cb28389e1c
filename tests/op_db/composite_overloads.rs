//! Overloads that are composites of another operator: arguments in another form, padding by name, random numbers of tensors.

use super::index::{moves, small, t};
use super::view::build;
use crate::array::{Array, indices};
use crate::row::{Arg, Check, FLOATS, INTEGERS, NUMBERS, Row, WIDE_FLOATS, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{F32, I64};

const REPEATED: &str = "results whose number depends on the values have no Meta kernel";

/// A whole number as a tensor without dimensions.
fn at(index: i64) -> Arg {
    Arg::Typed(Array::scalar(index as f64), I64)
}

fn positions(list: &[f64]) -> Arg {
    Arg::Typed(Array::new(&[list.len()], list.to_vec()), I64)
}

/// Columns `from..to` of a matrix.
fn columns(x: &Array, from: usize, to: usize) -> Array {
    build(&[x.sizes[0], to - from], |i| x.at(&[i[0], from + i[1]]))
}

fn cuts() -> Vec<Row> {
    let x = || t(&[2, 7]);
    vec![
        moves("narrow.Tensor", vec![vec![x(), 1i64.into(), at(-3), 2i64.into()]], |a| {
            columns(a[0].array(), 4, 6)
        })
        .skip(Check::Variants, REPEATED)
        .refuses(
            vec![x(), 1i64.into(), t(&[1]), 2i64.into()],
            ErrorKind::InvalidArgument,
            "0-dim integral",
        ),
        row("tensor_split.tensor_indices_or_sections")
            .types(NUMBERS)
            .ulps(0.0)
            .skip(Check::Variants, REPEATED)
            .sample(vec![x(), positions(&[1.0, 4.0]), 1i64.into()])
            .reference(|a| {
                [(0, 1), (1, 4), (4, 7)].iter().map(|(from, to)| columns(a[0].array(), *from, *to)).collect()
            })
            .refuses(vec![x(), t(&[2]), 1i64.into()], ErrorKind::InvalidArgument, "int64"),
        row("where")
            .types(NUMBERS)
            .gives(|_| I64)
            .skip(Check::Variants, REPEATED)
            .not_differentiable()
            .sample(vec![Array::new(&[2, 2], vec![0.0, 3.0, 1.0, 0.0]).into()])
            .reference(|_| [[0.0, 1.0], [1.0, 0.0]].map(|at| Array::new(&[2], at.to_vec())).to_vec()),
    ]
}

fn pairs() -> Vec<Row> {
    let extreme = |name, f: fn(f64, f64) -> f64| {
        moves(name, vec![vec![t(&[3, 4]), small(&[4]).map(|x| x + 0.5).into()]], move |a| {
            a[0].array().zip(&a[1].array().expand(&[3, 4]), f)
        })
        .types(FLOATS)
    };
    let bits = |name, f: fn(i64, i64) -> i64| {
        moves(name, vec![vec![number(6), small(&[3, 4]).into()]], move |a| {
            a[1].array().map(|x| f(6, x as i64) as f64)
        })
        .types(INTEGERS)
    };
    vec![
        extreme("max.other", f64::max),
        extreme("min.other", f64::min),
        bits("bitwise_and.Scalar_Tensor", |a, b| a & b),
        bits("bitwise_or.Scalar_Tensor", |a, b| a | b),
        bits("bitwise_xor.Scalar_Tensor", |a, b| a ^ b),
        row("bucketize.Scalar")
            .types(&[F32])
            .gives(|_| I64)
            .not_differentiable()
            .sample(vec![
                number(3),
                Array::new(&[4], vec![1.0, 3.0, 3.0, 5.0]).into(),
                false.into(),
                true.into(),
            ])
            .reference(|_| vec![Array::scalar(3.0)]),
    ]
}

/// The convolution of `x` with `w`, one group, with as much padding as keeps the size; an odd element is added behind.
fn same(x: &Array, w: &Array, dilation: i64) -> Array {
    let spatial = x.sizes.len() - 2;
    let mut sizes = x.sizes.clone();
    sizes[1] = w.sizes[0];
    build(&sizes, |o| {
        indices(&w.sizes[1..])
            .map(|k| {
                let mut from = vec![o[0], k[0]];
                for d in 0..spatial {
                    let before = dilation * (w.sizes[d + 2] as i64 - 1) / 2;
                    let at = o[d + 2] as i64 + dilation * k[d + 1] as i64 - before;
                    if at < 0 || at >= x.sizes[d + 2] as i64 {
                        return 0.0;
                    }
                    from.push(at as usize);
                }
                x.at(&from) * w.at(&[vec![o[1]], k].concat())
            })
            .sum()
    })
}

fn convolutions() -> Vec<Row> {
    let padded = |name, x: &[usize], w: &[usize], dilation: i64| {
        let call = |padding: &str, stride: i64| {
            let list = |value: i64| ints(&vec![value; x.len() - 2]);
            let arrays = [small(x).map(|v| v - 2.0).into(), small(w).map(|v| v - 1.0).into(), none()];
            [arrays.to_vec(), vec![list(stride), padding.into(), list(dilation), 1i64.into()]].concat()
        };
        row(name)
            .types(FLOATS)
            .sample(call("same", 1))
            .reference(move |a| vec![same(a[0].array(), a[1].array(), dilation)])
            .refuses(call("same", 2), ErrorKind::InvalidArgument, "strided")
            .refuses(call("some", 1), ErrorKind::InvalidArgument, "Invalid padding string")
    };
    // The transpose: each element of `y` adds `w`, times itself, to where it came from.
    let transpose = |a: &[Arg]| {
        let (y, w) = (a[0].array(), a[1].array());
        let mut made = build(&[1, w.sizes[1], 2 * (y.sizes[2] - 1) + w.sizes[2]], |_| 0.0);
        let width = made.sizes[2];
        for i in indices(&y.sizes) {
            for k in indices(&w.sizes[1..]) {
                made.data[k[0] * width + 2 * i[2] + k[1]] += y.at(&i) * w.at(&[i[1], k[0], k[1]]);
            }
        }
        made
    };
    let one = |value: i64| ints(&[value]);
    let call = [
        vec![small(&[1, 2, 5]).into(), small(&[2, 3, 4]).map(|v| v - 1.0).into(), none()],
        vec![one(2), one(0), one(0), 1i64.into(), one(1)],
    ];
    vec![
        padded("conv1d.padding", &[1, 2, 7], &[3, 2, 4], 1),
        padded("conv2d.padding", &[1, 2, 5, 6], &[2, 2, 2, 3], 2),
        padded("conv3d.padding", &[1, 2, 3, 4, 3], &[2, 2, 2, 1, 3], 1),
        row("conv_transpose1d").types(FLOATS).sample(call.concat()).reference(move |a| vec![transpose(a)]),
    ]
}

fn random() -> Vec<Row> {
    const DRAWS: usize = 4000;
    // Of a mean of 5 and a deviation of 2, the mean of so many lies within 5 of its own deviations.
    let near = |results: &[Array]| {
        let mean = results[0].data.iter().sum::<f64>() / DRAWS as f64;
        let far = (mean - 5.0).abs() > 5.0 * 2.0 / (DRAWS as f64).sqrt();
        if far { Err(format!("expected a mean of 5 but got {mean}")) } else { Ok(()) }
    };
    let all = |value: f64| Arg::Constant(build(&[DRAWS], |_| value));
    let draws = |name, mean: Arg, std: Arg| {
        row(name)
            .types(WIDE_FLOATS)
            .not_differentiable()
            .sample(vec![mean, std, none()])
            .property(move |_, results| near(results))
    };
    vec![
        draws("normal.Tensor_float", all(5.0), 2.0.into()),
        draws("normal.float_Tensor", 5.0.into(), all(2.0)).refuses(
            vec![5.0.into(), all(-2.0), none()],
            ErrorKind::InvalidArgument,
            "std >= 0.0",
        ),
        draws("normal.Tensor_Tensor", all(5.0), all(2.0)),
    ]
}

fn sets() -> Vec<Row> {
    let rows = || Arg::Tensor(Array::new(&[4, 2], vec![3.0, 1.0, 0.0, 2.0, 0.0, 2.0, 3.0, 1.0]));
    let of = |sizes: &[usize], data: &[f64]| Array::new(sizes, data.to_vec());
    let set = |name, more: &[Arg], made: [Array; 3]| {
        row(name)
            .types(NUMBERS)
            .ulps(0.0)
            .skip(Check::Variants, REPEATED)
            .not_differentiable()
            .sample([vec![rows(), 0i64.into()], more.to_vec(), vec![true.into(), true.into()]].concat())
            .reference(move |_| made.to_vec())
            .refuses(
                [vec![t(&[0, 0]), 0i64.into()], more.to_vec(), vec![true.into(), true.into()]].concat(),
                ErrorKind::InvalidArgument,
                "0 sized dimensions",
            )
    };
    vec![
        set(
            "unique_dim",
            &[true.into()],
            [of(&[2, 2], &[0.0, 2.0, 3.0, 1.0]), of(&[4], &[1.0, 0.0, 0.0, 1.0]), of(&[2], &[2.0, 2.0])],
        ),
        set(
            "unique_dim_consecutive",
            &[],
            [
                of(&[3, 2], &[3.0, 1.0, 0.0, 2.0, 3.0, 1.0]),
                of(&[4], &[0.0, 1.0, 1.0, 2.0]),
                of(&[3], &[1.0, 2.0, 1.0]),
            ],
        ),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [cuts(), pairs(), convolutions(), random(), sets()].into_iter().flatten().collect()
}
