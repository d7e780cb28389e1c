//! Operators that exist only in place: they write all elements, or change the geometry of a tensor.

use super::view::{build, reshaped, some};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, PAIRS, Row, ints, none, number, row};
use flambeau_core::ErrorKind;

fn t(sizes: &[usize]) -> Arg {
    some(sizes).into()
}

fn writes() -> Vec<Row> {
    let shapes: [&[usize]; 6] = [&[], &[1], &[17], &[0], &[3, 4], &[1000]];
    let all = |name, rest: &[Arg], value: f64| {
        shapes
            .into_iter()
            .fold(row(name).types(NUMBERS).ulps(0.0), |row, sizes| {
                row.sample([vec![t(sizes)], rest.to_vec()].concat())
            })
            .reference(move |a| vec![a[0].array().map(|_| value)])
    };
    let fits = |(to, from): &&(&[usize], &[usize])| crate::array::broadcast(to, from) == *to;
    let copies = PAIRS.iter().filter(fits).zip(0..).fold(
        row("copy_").types(ALL).ulps(0.0),
        |row, ((to, from), seed)| {
            row.sample(vec![t(to), Array::fill(from, -9.0..9.0, seed).into(), false.into()])
        },
    );
    vec![
        copies.reference(|a| vec![a[1].array().expand(&a[0].array().sizes)]).refuses(
            vec![t(&[3]), t(&[4]), false.into()],
            ErrorKind::Shape,
            "copy_",
        ),
        all("fill_.Scalar", &[number(3)], 3.0),
        all("zero_", &[], 0.0).types(ALL),
    ]
}

fn geometries() -> Vec<Row> {
    let moves = |name, samples: Vec<Vec<Arg>>, f: fn(&[Arg]) -> Array| {
        samples.into_iter().fold(row(name).types(ALL).ulps(0.0), Row::sample).reference(move |a| vec![f(a)])
    };
    let far = |rest: &[Arg]| [vec![t(&[2, 3])], rest.to_vec()].concat();
    let kept = |sizes: &[usize], dims: &[usize]| -> Vec<usize> {
        (0..sizes.len()).filter(|d| sizes[*d] != 1 || !dims.contains(d)).map(|d| sizes[d]).collect()
    };
    let squeezed = move |a: &[Arg]| {
        let x = a[0].array();
        let dims = a.get(1).map_or_else(|| (0..x.sizes.len()).collect(), |dims| dims.dims(x.sizes.len()));
        vec![reshaped(x, &kept(&x.sizes, &dims))]
    };
    let range = ErrorKind::Index;
    let says = "dimension out of range";
    vec![
        row("squeeze_").types(ALL).sample(vec![t(&[2, 1, 3, 1])]).sample(vec![t(&[])]).reference(squeezed),
        row("squeeze_.dim")
            .types(ALL)
            .sample(vec![t(&[2, 1, 3]), 1i64.into()])
            .sample(vec![t(&[2, 1, 3]), (-1i64).into()])
            .reference(squeezed)
            .refuses(far(&[2i64.into()]), range, says),
        row("squeeze_.dims").types(ALL).sample(vec![t(&[1, 2, 1]), ints(&[0, -1])]).reference(squeezed),
        moves("unsqueeze_", vec![vec![t(&[2, 3]), 1i64.into()]], |a| reshaped(a[0].array(), &[2, 1, 3]))
            .refuses(far(&[3i64.into()]), range, says),
        moves("t_", vec![vec![t(&[2, 3])], vec![t(&[4])]], |a| {
            let x = a[0].array();
            if x.sizes.len() == 2 { x.permute(&[1, 0]) } else { x.clone() }
        })
        .refuses(vec![t(&[2, 3, 4])], ErrorKind::Shape, "t_"),
        moves("transpose_", vec![vec![t(&[2, 3, 4]), 0i64.into(), (-1i64).into()]], |a| {
            a[0].array().permute(&[2, 1, 0])
        })
        .refuses(far(&[0i64.into(), 2i64.into()]), range, says),
        moves("as_strided_", vec![vec![t(&[12]), ints(&[2, 3]), ints(&[1, 2]), 3i64.into()]], |a| {
            build(&[2, 3], |i| a[0].array().data[3 + i[0] + 2 * i[1]])
        })
        .skip(Check::Layouts, MEMORY),
    ]
}

const MEMORY: &str = "it looks at memory, whatever the strides";

/// Elements keep their location in memory; what is added is not set, so only smaller sizes have values.
fn sizes() -> Vec<Row> {
    let first = |a: &Array, sizes: &[usize]| Array::new(sizes, a.data[..sizes.iter().product()].to_vec());
    let start = |name| row(name).types(ALL).ulps(0.0).not_differentiable().skip(Check::Layouts, MEMORY);
    vec![
        start("resize_")
            .sample(vec![t(&[3, 4]), ints(&[2, 5]), none()])
            .sample(vec![t(&[3, 4]), ints(&[12]), none()])
            .sample(vec![t(&[3, 4]), ints(&[]), none()])
            .sample(vec![t(&[3, 4]), ints(&[0, 7]), none()])
            .reference(move |a| {
                let crate::row::Arg::Value(flambeau_ops::dispatch::Value::Ints(sizes)) = &a[1] else {
                    return vec![];
                };
                vec![first(a[0].array(), &sizes.iter().map(|s| *s as usize).collect::<Vec<_>>())]
            })
            .refuses(vec![t(&[3]), ints(&[-2]), none()], ErrorKind::Shape, "expected sizes of at least 0"),
        start("resize_as_")
            .sample(vec![t(&[3, 4]), t(&[2, 5]), none()])
            .sample(vec![t(&[3, 4]), t(&[]), none()])
            .reference(move |a| vec![first(a[0].array(), &a[1].array().sizes)]),
    ]
}

/// The parameter after a step of Adam.
fn adam(a: &[Arg]) -> Vec<Array> {
    let [param, mean, square, grad] = [0, 1, 2, 3].map(|at| a[at].array());
    let [rate, beta1, beta2, eps, correction, kept, decay] = [4, 5, 6, 7, 8, 9, 10].map(|at| a[at].number());
    let sign = if a[11].flag() { -1.0 } else { 1.0 };
    let moved = |at: usize| {
        let grad = sign * grad.data[at] + decay * param.data[at];
        let mean = beta1 * mean.data[at] + (1.0 - beta1) * grad;
        let square = beta2 * square.data[at] + (1.0 - beta2) * grad * grad;
        kept * param.data[at] - rate * mean / (square.sqrt() / correction + eps)
    };
    vec![Array::new(&param.sizes, (0..param.data.len()).map(moved).collect())]
}

fn optimizers() -> Vec<Row> {
    let call = |sizes: [&[usize]; 4], numbers: [f64; 7], maximize: bool| {
        let tensors = sizes.iter().zip(1..).map(|(sizes, seed)| Array::fill(sizes, 1.0..2.0, seed).into());
        tensors.chain(numbers.map(Arg::from)).chain([maximize.into()]).collect::<Vec<Arg>>()
    };
    let plain = [0.01, 0.9, 0.99, 1e-3, 0.5, 1.0, 0.0];
    let [decoupled, decayed] =
        [[0.01, 0.9, 0.99, 1e-3, 0.5, 0.875, 0.0], [0.01, 0.9, 0.99, 1e-3, 0.5, 1.0, 0.125]];
    let shapes: [&[usize]; 6] = [&[], &[1], &[17], &[0], &[3, 4], &[1000]];
    let start = row("_adam_step_").types(FLOATS).ulps(4.0).not_differentiable();
    let all = shapes.into_iter().fold(start, |row, sizes| row.sample(call([sizes; 4], plain, false)));
    vec![
        all.sample(call([&[5, 3]; 4], decoupled, false))
            .sample(call([&[5, 3]; 4], decayed, true))
            .reference(adam)
            .refuses(call([&[3], &[3], &[3], &[4]], plain, false), ErrorKind::Shape, "the sizes of `self`")
            .refuses(call([&[3], &[1], &[3], &[3]], plain, false), ErrorKind::Shape, "the sizes of `self`"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [writes(), geometries(), sizes(), optimizers()].into_iter().flatten().collect()
}
