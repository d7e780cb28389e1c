//! Products of matrices and vectors.
//!
//! Tensors hold small integers, so that sums of products are exact whatever their order.

use crate::array::Array;
use crate::row::{Arg, Row, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, *};

/// Types that hold the sums here exactly.
pub(super) const TYPES: &[ScalarType] = &[I16, I32, I64, F16, BF16, F32, F64];

/// Integers from -2 to 2.
pub(super) fn whole(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -2.5..2.5, seed).map(f64::round)
}

pub(super) fn tensors(shapes: &[&[usize]]) -> Vec<Arg> {
    shapes.iter().zip(1..).map(|(sizes, seed)| whole(sizes, seed).into()).collect()
}

/// The products of two batches of matrices.
fn product(a: &Array, b: &Array) -> Array {
    let (r, batch) = (a.sizes.len() - 2, &a.sizes[..a.sizes.len() - 2]);
    let [m, k, n] = [a.sizes[r], a.sizes[r + 1], b.sizes[r + 1]];
    let count = batch.iter().product::<usize>();
    let at = |i: usize, row: usize, column: usize| -> f64 {
        (0..k).map(|p| a.data[(i * m + row) * k + p] * b.data[(i * k + p) * n + column]).sum()
    };
    let elements = (0..count).flat_map(|i| (0..m).flat_map(move |r| (0..n).map(move |c| (i, r, c))));
    Array::new(&[batch, &[m, n]].concat(), elements.map(|(i, r, c)| at(i, r, c)).collect())
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
        refused(
            samples(
                row("_linear"),
                &[&[&[3, 4], &[5, 4], &[5]], &[&[2, 3, 40], &[7, 40], &[7]], &[&[0, 3], &[2, 3], &[2]]],
                &[],
            )
            .sample([tensors(&[&[2, 3, 1, 4], &[1, 4]]), vec![none()]].concat())
            .reference(|a| {
                let (x, w) = (a[0].array(), a[1].array());
                let sizes = [&x.sizes[..x.sizes.len() - 1], &w.sizes[..1]].concat();
                let plain = reshaped(&product(&flat(x), &transposed(w)), &sizes);
                vec![a[2].optional().map_or(plain.clone(), |bias| plain.zip(bias, |p, b| p + b))]
            }),
            &[&[3, 4], &[5, 3], &[5]],
            &[],
            "_linear",
        ),
        refused(
            samples(
                row("_linear_weight_backward"),
                &[&[&[3, 5], &[3, 4]], &[&[2, 3, 7], &[2, 3, 40]], &[&[0, 2], &[0, 3]], &[&[4, 0], &[4, 2]]],
                &[],
            )
            .reference(|a| vec![product(&transposed(&flat(a[0].array())), &flat(a[1].array()))]),
            &[&[3, 5], &[2, 4]],
            &[],
            "as many rows",
        ),
    ]
}

/// All rows as one matrix.
fn flat(x: &Array) -> Array {
    let last = x.sizes.last().copied().unwrap_or(1);
    Array::new(&[x.sizes[..x.sizes.len() - 1].iter().product(), last], x.data.clone())
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

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    products()
}
