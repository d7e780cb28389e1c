//! Products, convolutions and pooling.
//!
//! Tensors hold small integers, so that sums of products are exact whatever their order. Convolutions and pooling have
//! references in the tests of the operators' crate, which know windows; here they are checked for everything else.

use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, *};
use flambeau_ops::dispatch::Value;

/// Types that hold the sums here exactly.
const TYPES: &[ScalarType] = &[I16, I32, I64, F16, BF16, F32, F64];

/// Integers from -2 to 2.
fn whole(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -2.5..2.5, seed).map(f64::round)
}

fn tensors(shapes: &[&[usize]]) -> Vec<Arg> {
    shapes.iter().zip(1..).map(|(sizes, seed)| whole(sizes, seed).into()).collect()
}

fn flags(values: &[bool]) -> Arg {
    Arg::Value(Value::Bools(values.to_vec()))
}

/// The products of two batches of matrices.
fn product(a: &Array, b: &Array) -> Array {
    let (r, batch) = (a.sizes.len() - 2, &a.sizes[..a.sizes.len() - 2]);
    let [m, k, n] = [a.sizes[r], a.sizes[r + 1], b.sizes[r + 1]];
    let count = batch.iter().product::<usize>();
    let at = |i: usize, row: usize, column: usize| -> f64 {
        (0..k).map(|p| a.data[(i * m + row) * k + p] * b.data[(i * k + p) * n + column]).sum()
    };
    let places = (0..count).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c))));
    Array::new(&[batch, &[m, n]].concat(), places.map(|(i, r, c)| at(i, r, c)).collect())
}

fn reshaped(a: &Array, sizes: &[usize]) -> Array {
    Array::new(sizes, a.data.clone())
}

/// `beta * self + alpha * product`, the two numbers last in `args`.
fn added(args: &[Arg], product: &Array) -> Array {
    let (beta, alpha) = (args[3].number(), args[4].number());
    args[0].array().expand(&product.sizes).zip(product, |c, p| beta * c + alpha * p)
}

/// A column of a vector.
fn column(a: &Array) -> Array {
    reshaped(a, &[a.data.len(), 1])
}

fn transposed(a: &Array) -> Array {
    let (m, n) = (a.sizes[0], a.sizes[1]);
    Array::new(&[n, m], (0..m * n).map(|i| a.data[i % m * n + i / m]).collect())
}

fn samples(row: Row, shapes: &[&[&[usize]]], rest: &[Arg]) -> Row {
    shapes.iter().fold(row.types(TYPES), |row, s| row.sample([tensors(s), rest.to_vec()].concat()))
}

fn products() -> Vec<Row> {
    let factors = [number(2), number(-3)];
    let refused = |row: Row, shapes: &[&[usize]], rest: &[Arg], says| {
        row.refuses([tensors(shapes), rest.to_vec()].concat(), ErrorKind::Shape, says)
    };
    let vector_product = |a: &Array, v: &Array| reshaped(&product(a, &column(v)), &[a.sizes[0]]);
    vec![
        refused(
            samples(
                row("mm"),
                &[&[&[3, 4], &[4, 5]], &[&[17, 9], &[9, 33]], &[&[2, 0], &[0, 3]], &[&[1, 40], &[40, 1]]],
                &[],
            )
            .reference(|a| vec![product(a[0].array(), a[1].array())]),
            &[&[2, 3], &[2, 3]],
            &[],
            "mm",
        ),
        refused(
            samples(row("bmm"), &[&[&[3, 2, 4], &[3, 4, 5]], &[&[0, 2, 4], &[0, 4, 5]]], &[])
                .reference(|a| vec![product(a[0].array(), a[1].array())]),
            &[&[2, 3], &[3, 2]],
            &[],
            "bmm",
        ),
        refused(
            samples(
                row("addmm"),
                &[&[&[5], &[3, 4], &[4, 5]], &[&[3, 5], &[3, 4], &[4, 5]], &[&[3, 1], &[3, 0], &[0, 5]]],
                &factors,
            )
            .reference(|a| vec![added(a, &product(a[1].array(), a[2].array()))]),
            &[&[4], &[3, 4], &[4, 5]],
            &factors,
            "addmm",
        ),
        samples(
            row("baddbmm"),
            &[&[&[5], &[3, 2, 4], &[3, 4, 5]], &[&[3, 2, 5], &[3, 2, 4], &[3, 4, 5]]],
            &factors,
        )
        .reference(|a| vec![added(a, &product(a[1].array(), a[2].array()))]),
        samples(
            row("addbmm"),
            &[&[&[5], &[3, 2, 4], &[3, 4, 5]], &[&[2, 5], &[3, 2, 4], &[3, 4, 5]]],
            &factors,
        )
        .reference(|a| {
            let sum = product(a[1].array(), a[2].array()).reduce(&[0], false, |v| v.iter().sum());
            vec![added(a, &sum)]
        }),
        refused(
            samples(row("mv"), &[&[&[3, 4], &[4]], &[&[5, 40], &[40]], &[&[3, 0], &[0]]], &[])
                .reference(move |a| vec![vector_product(a[0].array(), a[1].array())]),
            &[&[2, 2], &[3]],
            &[],
            "mv",
        ),
        samples(row("addmv"), &[&[&[3], &[3, 4], &[4]], &[&[], &[3, 4], &[4]]], &factors)
            .reference(move |a| vec![added(a, &vector_product(a[1].array(), a[2].array()))]),
        samples(row("addr"), &[&[&[3, 4], &[3], &[4]], &[&[4], &[3], &[4]]], &factors)
            .reference(|a| vec![added(a, &column(a[1].array()).zip(a[2].array(), |x, y| x * y))]),
        inner("dot"),
        inner("vdot"),
        outer("outer"),
        outer("ger"),
        samples(row("matmul"), &[&[&[2, 3, 4], &[2, 4, 5]], &[&[3, 4], &[4, 5]]], &[])
            .reference(|a| vec![product(a[0].array(), a[1].array())]),
        samples(row("linear"), &[&[&[3, 4], &[5, 4], &[5]], &[&[3, 4], &[5, 4], &[1]]], &[]).reference(|a| {
            let plain = product(a[0].array(), &transposed(a[1].array()));
            vec![plain.zip(a[2].array(), |p, b| p + b)]
        }),
    ]
}

fn inner(name: &'static str) -> Row {
    samples(row(name), &[&[&[5], &[5]], &[&[0], &[0]], &[&[40], &[40]]], &[])
        .reference(|a| {
            vec![a[0].array().zip(a[1].array(), |x, y| x * y).reduce(&[], false, |v| v.iter().sum())]
        })
        .refuses(tensors(&[&[2], &[3]]), ErrorKind::Shape, "inconsistent tensor size")
}

fn outer(name: &'static str) -> Row {
    samples(row(name), &[&[&[3], &[4]], &[&[0], &[2]]], &[])
        .reference(|a| vec![column(a[0].array()).zip(a[1].array(), |x, y| x * y)])
        .refuses(tensors(&[&[2, 2], &[3]]), ErrorKind::Shape, "outer")
}

/// Stride, padding, dilation, whether transposed, output padding, groups.
fn geometry(stride: i64, padding: i64, dilation: i64, transposed: bool, groups: i64) -> Vec<Arg> {
    vec![ints(&[stride]), ints(&[padding]), ints(&[dilation]), transposed.into(), ints(&[0]), groups.into()]
}

fn convolutions() -> Vec<Row> {
    let call = |shapes: &[&[usize]], geometry: Vec<Arg>| [tensors(shapes), geometry].concat();
    let plain = |groups: i64| vec![ints(&[1]), ints(&[1]), ints(&[1]), groups.into()];
    let image: &[usize] = &[2, 4, 6, 5];
    let bad = [tensors(&[&[1, 2, 5, 5], &[3, 3, 3, 3]]), vec![none()], plain(1)].concat();
    let backward = |x: &[usize], w: &[usize], y: &[usize], filters: i64, geometry: Vec<Arg>| {
        [tensors(&[y, x, w]), vec![ints(&[filters])], geometry, vec![flags(&[true, true, true])]].concat()
    };
    let double = |x: &[usize], w: &[usize], y: &[usize], filters: usize, geometry: Vec<Arg>| {
        [tensors(&[x, w, &[filters], y, w, x]), geometry, vec![flags(&[true, true, true])]].concat()
    };
    vec![
        row("conv1d").types(TYPES).sample([tensors(&[&[2, 4, 9], &[6, 2, 3], &[6]]), plain(2)].concat()),
        row("conv2d")
            .types(TYPES)
            .sample([tensors(&[image, &[6, 2, 3, 3], &[6]]), plain(2)].concat())
            .refuses(bad, ErrorKind::Shape, "to have 3 channels, but got 2 channels instead"),
        row("conv_transpose2d.input").types(FLOATS).sample(
            [
                tensors(&[image, &[4, 3, 3, 2], &[6]]),
                vec![ints(&[2]), ints(&[1]), ints(&[1]), 2i64.into(), ints(&[1])],
            ]
            .concat(),
        ),
        row("convolution")
            .types(FLOATS)
            .sample(call(&[image, &[3, 4, 3, 3], &[3]], geometry(1, 1, 1, false, 1)))
            .sample(call(&[image, &[4, 1, 2, 2], &[4]], geometry(2, 0, 1, false, 4)))
            .sample(call(&[image, &[4, 2, 2, 3], &[4]], geometry(2, 1, 1, true, 2)))
            .sample(call(&[&[2, 4, 9], &[6, 2, 3], &[6]], geometry(1, 0, 2, false, 2))),
        row("convolution_backward")
            .types(FLOATS)
            .sample(backward(image, &[3, 4, 3, 3], &[2, 3, 6, 5], 3, geometry(1, 1, 1, false, 1)))
            .sample(backward(image, &[4, 1, 2, 2], &[2, 4, 3, 2], 4, geometry(2, 0, 1, false, 4)))
            .sample(backward(&[2, 4, 9], &[6, 2, 3], &[2, 6, 5], 6, geometry(1, 0, 2, false, 2))),
        row("_convolution_double_backward").types(FLOATS).sample(double(
            image,
            &[3, 4, 3, 3],
            &[2, 3, 6, 5],
            3,
            geometry(1, 1, 1, false, 1),
        )),
    ]
}

/// Numbers of which no two are equal, in every type.
fn distinct(sizes: &[usize]) -> Array {
    let count = sizes.iter().product::<usize>();
    Array::new(sizes, (0..count).map(|i| (i * 37 % 127) as f64 - 60.0).collect())
}

fn pooling() -> Vec<Row> {
    let image: &[usize] = &[1, 2, 7, 8];
    let small: &[usize] = &[1, 2, 4, 4];
    let max = || vec![ints(&[3, 3]), ints(&[2, 2]), ints(&[1, 1]), ints(&[1, 1]), false.into()];
    let mean = || vec![ints(&[3, 3]), ints(&[2, 2]), ints(&[1, 1]), false.into(), true.into(), none()];
    let first = |x: Array, rest: Vec<Arg>| [vec![x.into()], rest].concat();
    let places = Array::new(small, (0..32).map(|i| f64::from(i * 7 % 56)).collect());
    vec![
        row("max_pool2d").types(TYPES).sample(first(distinct(image), max())),
        row("max_pool2d_with_indices").types(TYPES).sample(first(distinct(image), max())).refuses(
            vec![whole(image, 1).into(), ints(&[2]), ints(&[]), ints(&[2]), ints(&[1]), false.into()],
            ErrorKind::InvalidArgument,
            "pad should be at most half",
        ),
        row("max_pool2d_with_indices_backward")
            .types(FLOATS)
            .sample([tensors(&[small, image]), max(), vec![Arg::Typed(places, I64)]].concat()),
        row("avg_pool2d").types(FLOATS).sample(first(whole(image, 1), mean())),
        row("avg_pool2d_backward").types(FLOATS).sample([tensors(&[small, image]), mean()].concat()),
        row("adaptive_avg_pool2d").types(FLOATS).sample(first(whole(image, 1), vec![ints(&[3, 2])])),
        row("_adaptive_avg_pool2d").types(FLOATS).sample(first(whole(image, 1), vec![ints(&[3, 2])])),
        row("_adaptive_avg_pool2d_backward").types(FLOATS).sample(tensors(&[small, image])),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [products(), convolutions(), pooling()].into_iter().flatten().collect()
}
