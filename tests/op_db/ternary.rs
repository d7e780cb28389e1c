//! Pointwise operators with three arguments, `where`, `clamp`, and triangles of matrices.

use super::special as f;
use super::view::{build, int};
use crate::array::Array;
use crate::row::{ALL, Arg, FLOATS, NUMBERS, PAIRS, Row, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{Bool, F32};

/// From the nearer end, as it must be for weights 0 and 1 to give the ends.
fn interpolated(from: f64, to: f64, w: f64) -> f64 {
    if w.abs() < 0.5 { from + w * (to - from) } else { to - (to - from) * (1.0 - w) }
}

fn formulas() -> Vec<Row> {
    let of = |n: usize| Arg::Tensor(Array::fill(&[n], 1.0..2.0, n as u64));
    vec![
        row("lerp.Tensor")
            .types(FLOATS)
            .ulps(2.0)
            .terms(5.0)
            .ternary([1.0..5.0, 1.0..5.0, 0.0..1.0], &[], interpolated)
            .refuses(vec![of(3), of(4), of(1)], ErrorKind::Shape, "lerp"),
        row("lerp.Scalar").types(FLOATS).ulps(2.0).terms(5.0).binary(
            [1.0..5.0, 1.0..5.0],
            &[number(0.3)],
            |a, b| interpolated(a, b, 0.3),
        ),
        row("addcmul")
            .ulps(2.0)
            .ternary([1.0..9.0, 1.0..5.0, 1.0..5.0], &[number(2)], |x, a, b| x + 2.0 * a * b)
            .refuses(vec![of(3), of(4), of(1), number(1)], ErrorKind::Shape, "addcmul"),
        row("addcdiv").types(FLOATS).ulps(2.0).ternary(
            [1.0..9.0, 1.0..5.0, 1.0..5.0],
            &[number(2)],
            |x, a, b| x + 2.0 * (a / b),
        ),
    ]
}

fn limits() -> Vec<Row> {
    let wide = || -9.0..9.0;
    let exact = |name| row(name).ulps(0.0);
    let nothing = vec![Array::fill(&[3], 0.0..1.0, 0).into(), none(), none()];
    vec![
        exact("clamp")
            .unary(wide(), &[number(-2), number(3)], |x| f::lesser(f::greater(x, -2.0), 3.0))
            .refuses(nothing, ErrorKind::InvalidArgument, "At least one of 'min' or 'max'"),
        exact("clamp").unary(wide(), &[none(), number(3)], |x| f::lesser(x, 3.0)),
        exact("clamp").unary(wide(), &[number(2), none()], |x| f::greater(x, 2.0)),
        exact("clamp")
            .types(FLOATS)
            .unary(wide(), &[number(2.5), number(-1.5)], |x| f::lesser(f::greater(x, 2.5), -1.5)),
        exact("clamp.Tensor")
            .ternary([wide(), -4.0..0.0, 0.0..4.0], &[], |x, a, b| f::lesser(f::greater(x, a), b)),
        exact("clamp.Tensor").binary([wide(), wide()], &[none()], f::greater),
        exact("clamp.Tensor").binary([wide(), wide()], &[none()], f::lesser).arranged(&[0, 2, 1]),
        exact("clamp_min").unary(wide(), &[number(2)], |x| f::greater(x, 2.0)),
        exact("clamp_max").unary(wide(), &[number(2)], |x| f::lesser(x, 2.0)),
        exact("clamp_min.Tensor").binary([wide(), wide()], &[], f::greater),
        exact("clamp_max.Tensor").binary([wide(), wide()], &[], f::lesser),
    ]
}

/// A mask of these sizes.
fn mask(sizes: &[usize]) -> Arg {
    Arg::Typed(Array::fill(sizes, 0.0..2.0, 9).map(f64::floor), Bool)
}

/// A mask and what it chooses from, in all shapes that broadcast; the second tensor is the last argument.
fn masked(row: Row, args: impl Fn(Arg, Arg, Arg) -> Vec<Arg>) -> Row {
    PAIRS.iter().zip(0..).fold(row.ulps(0.0), |row, ((a, b), seed)| {
        let tensor = |sizes, seed| Arg::Tensor(Array::fill(sizes, -9.0..9.0, seed));
        row.sample(args(mask(a), tensor(b, seed), tensor(a, 50 + seed)))
    })
}

fn chosen(mask: &Array, yes: &Array, no: &Array) -> Vec<Array> {
    let sizes = crate::array::broadcast(&crate::array::broadcast(&mask.sizes, &yes.sizes), &no.sizes);
    let [mask, yes, no] = [mask, yes, no].map(|a| a.expand(&sizes));
    vec![build(&sizes, |i| if mask.at(i) != 0.0 { yes.at(i) } else { no.at(i) })]
}

fn choices() -> Vec<Row> {
    let of = |arg: &Arg| Array::scalar(arg.number());
    let fill = |a: &[Arg], value: Array| chosen(a[1].array(), &value, a[0].array());
    let ones = |n: usize| Arg::Tensor(Array::fill(&[n], 1.0..2.0, 0));
    vec![
        masked(row("where.self").types(ALL), |m, a, b| vec![m, a, b])
            .reference(|a| chosen(a[0].array(), a[1].array(), a[2].array()))
            .refuses(vec![ones(3), ones(3), ones(3)], ErrorKind::Dtype, "boolean"),
        masked(row("where.ScalarSelf").types(FLOATS), |m, a, _| vec![m, number(2.5), a])
            .reference(move |a| chosen(a[0].array(), &of(&a[1]), a[2].array())),
        masked(row("where.ScalarOther").types(FLOATS), |m, a, _| vec![m, a, number(2.5)])
            .reference(move |a| chosen(a[0].array(), a[1].array(), &of(&a[2]))),
        masked(row("where.Scalar").types(&[F32]), |m, _, _| vec![m, number(1.5), number(2.5)])
            .reference(move |a| chosen(a[0].array(), &of(&a[1]), &of(&a[2])))
            .not_differentiable(),
        masked(row("masked_fill.Scalar").types(NUMBERS), |m, a, _| vec![a, m, number(3)])
            .reference(move |a| fill(a, of(&a[2])))
            .refuses(vec![ones(3), ones(3), number(1)], ErrorKind::Dtype, "boolean masks"),
        masked(row("masked_fill.Tensor").types(ALL), |m, a, _| vec![a, m, Array::scalar(3.0).into()])
            .reference(move |a| fill(a, a[2].array().clone()))
            .refuses(vec![ones(3), mask(&[3]), ones(2)], ErrorKind::Shape, "0-dimensional value tensor"),
    ]
}

fn triangles() -> Vec<Row> {
    let triangle = |name, keeps: fn(i64, i64) -> bool| {
        let shapes: &[&[usize]] = &[&[3, 4], &[4, 3], &[2, 3, 3], &[0, 3], &[1, 1], &[3, 1], &[17, 17]];
        let start = row(name).types(ALL).ulps(0.0).refuses(
            vec![Array::fill(&[3], 0.0..1.0, 0).into(), 0i64.into()],
            ErrorKind::Shape,
            "at least 2 dimensions",
        );
        let samples = shapes.iter().flat_map(|s| [-1i64, 0, 2].map(|diagonal| (s, diagonal)));
        samples
            .fold(start, |row, (s, diagonal)| {
                row.sample(vec![Array::fill(s, 1.0..9.0, 4).into(), diagonal.into()])
            })
            .reference(move |a| {
                let (x, diagonal) = (a[0].array(), int(&a[1]));
                let r = x.sizes.len() - 2;
                let kept = |i: &[usize]| keeps(i[r + 1] as i64 - i[r] as i64, diagonal);
                vec![build(&x.sizes, |i| if kept(i) { x.at(i) } else { 0.0 })]
            })
    };
    vec![
        triangle("tril", |right, diagonal| right <= diagonal),
        triangle("triu", |right, diagonal| right >= diagonal),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [formulas(), limits(), choices(), triangles()].into_iter().flatten().collect()
}
