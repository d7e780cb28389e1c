//! Operators that create tensors: constants, ranges, and uninitialized memory.

use crate::array::Array;
use crate::row::{ALL, Arg, NUMBERS, Row, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, Bool, F16, F32, F64, I32, I64};
use flambeau_ops::dispatch::Value;

/// Why a row has no values.
pub(super) const UNSET: &str = "memory that is not set has no values";

type Gives = fn(ScalarType) -> ScalarType;

/// Type, layout, device, pinned memory.
pub(super) fn options(dtype: Option<ScalarType>) -> Vec<Arg> {
    vec![dtype.map_or_else(none, |dtype| Arg::from(Value::ScalarType(dtype))), none(), none(), none()]
}

/// The requested type, and the type of the result for inputs of a type.
const TYPES: [(Option<ScalarType>, Gives); 5] =
    [(None, |t| t), (Some(F64), |_| F64), (Some(F16), |_| F16), (Some(I32), |_| I32), (Some(Bool), |_| Bool)];

const SIZES: &[&[i64]] = &[&[], &[1], &[17], &[0], &[3, 4], &[2, 0, 3], &[300]];

fn sized(sizes: &[i64]) -> Vec<usize> {
    sizes.iter().map(|s| *s as usize).collect()
}

fn filled(sizes: &[usize], value: f64) -> Array {
    Array::new(sizes, vec![value; sizes.iter().product()])
}

fn list(arg: &Arg) -> Vec<usize> {
    match arg {
        Arg::Value(Value::Ints(sizes)) => sized(sizes),
        other => panic!("expected sizes but got {other:?}"),
    }
}

/// `size, after, options` in every requested type; `value` is given the arguments.
fn constant(
    name: &'static str,
    after: &[Arg],
    types: &[(Option<ScalarType>, Gives)],
    value: f64,
) -> Vec<Row> {
    let call = |sizes: &[i64], dtype| [vec![ints(sizes)], after.to_vec(), options(dtype)].concat();
    let made = |(dtype, gives): &(Option<ScalarType>, Gives)| {
        let start = row(name).types(&[F32]).gives(*gives).not_differentiable();
        SIZES
            .iter()
            .fold(start, |row, sizes| row.sample(call(sizes, *dtype)))
            .reference(move |a| vec![filled(&list(&a[0]), value)])
            .refuses(call(&[-1], *dtype), ErrorKind::Shape, "expected sizes of at least 0")
    };
    types.iter().map(made).collect()
}

fn constants() -> Vec<Row> {
    // Of an integer, full makes integers.
    let whole: Gives = |_| I64;
    [
        constant("full", &[number(1)], &TYPES[1..], 1.0),
        constant("full", &[number(2.5)], &TYPES[..1], 2.5),
        constant("full", &[number(3)], &[(None, whole)], 3.0),
        constant("ones", &[], &TYPES, 1.0),
        constant("zeros", &[], &TYPES, 0.0),
        vec![
            row("scalar_tensor")
                .types(&[F32])
                .not_differentiable()
                .sample([vec![number(2.5)], options(None)].concat())
                .sample([vec![number(7)], options(None)].concat())
                .reference(|a| vec![Array::scalar(a[0].number())]),
        ],
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn identities() -> Vec<Row> {
    let matrix = |n: usize, m: usize| super::view::build(&[n, m], |i| f64::from(i[0] == i[1]));
    let start = |name| row(name).types(&[F32]).not_differentiable();
    let square = [0i64, 1, 3, 17]
        .into_iter()
        .fold(start("eye"), |row, n| row.sample([vec![n.into()], options(None)].concat()));
    let shapes = [(3i64, 4i64), (4, 3), (0, 3), (1, 1)];
    let any = shapes
        .into_iter()
        .fold(start("eye.m"), |row, (n, m)| row.sample([vec![n.into(), m.into()], options(None)].concat()));
    let size = |a: &Arg| a.number() as usize;
    let negative = [vec![(-1i64).into()], options(None)].concat();
    vec![
        square.reference(move |a| vec![matrix(size(&a[0]), size(&a[0]))]).refuses(
            negative,
            ErrorKind::InvalidArgument,
            "greater or equal to 0",
        ),
        any.reference(move |a| vec![matrix(size(&a[0]), size(&a[1]))]),
    ]
}

fn some(sizes: &[usize]) -> Arg {
    Array::fill(sizes, 1.0..9.0, 1).into()
}

/// As another tensor: `self, after, options, memory format`, and `self, size, after, options`.
fn alike() -> Vec<Row> {
    let shapes: [&[usize]; 5] = [&[], &[17], &[0], &[2, 3, 4], &[2, 3, 4, 5]];
    let like = |name, after: &[Arg]| {
        shapes.into_iter().fold(row(name).types(ALL).not_differentiable(), |row, sizes| {
            row.sample([vec![some(sizes)], after.to_vec(), options(None), vec![none()]].concat())
        })
    };
    let new = |name, after: &[Arg]| {
        SIZES.iter().fold(row(name).types(ALL).not_differentiable(), |row, sizes| {
            row.sample([vec![some(&[2]), ints(sizes)], after.to_vec(), options(None)].concat())
        })
    };
    let as_first = |value: f64| move |a: &[Arg]| vec![a[0].array().map(|_| value)];
    let as_sizes = |value: f64| move |a: &[Arg]| vec![filled(&list(&a[1]), value)];
    vec![
        like("zeros_like", &[]).reference(as_first(0.0)),
        like("ones_like", &[]).reference(as_first(1.0)),
        like("full_like", &[number(3)]).types(NUMBERS).reference(as_first(3.0)),
        new("new_zeros", &[]).reference(as_sizes(0.0)),
        new("new_ones", &[]).reference(as_sizes(1.0)),
        new("new_full", &[number(3)]).types(NUMBERS).reference(as_sizes(3.0)),
        like("empty_like", &[]).unset(UNSET).property(|a, made| has_sizes(&made[0], &a[0].array().sizes)),
        new("new_empty", &[]).unset(UNSET).property(|a, made| has_sizes(&made[0], &list(&a[1]))),
    ]
}

fn has_sizes(made: &Array, sizes: &[usize]) -> Result<(), String> {
    if made.sizes == sizes {
        Ok(())
    } else {
        Err(format!("expected sizes {sizes:?} but got {:?}", made.sizes))
    }
}

fn unset() -> Vec<Row> {
    let start = |name| row(name).types(&[F32]).unset(UNSET);
    let strided = [(&[3, 4][..], &[1, 3][..]), (&[2], &[5]), (&[], &[]), (&[0, 3], &[3, 1])];
    let strided = |row: Row, before: &[Arg]| {
        strided.iter().fold(row, |row, (sizes, strides)| {
            row.sample([before.to_vec(), vec![ints(sizes), ints(strides)], options(None)].concat())
        })
    };
    let empty = SIZES.iter().fold(start("empty.memory_format"), |row, sizes| {
        row.sample([vec![ints(sizes)], options(None), vec![none()]].concat())
    });
    let uneven = [vec![ints(&[2, 3]), ints(&[1])], options(None)].concat();
    vec![
        empty.property(|a, made| has_sizes(&made[0], &list(&a[0]))).refuses(
            [vec![ints(&[-1])], options(None), vec![none()]].concat(),
            ErrorKind::Shape,
            "expected sizes of at least 0",
        ),
        strided(start("empty_strided"), &[]).property(|a, made| has_sizes(&made[0], &list(&a[0]))).refuses(
            uneven,
            ErrorKind::Shape,
            "as many strides as sizes",
        ),
        strided(start("new_empty_strided").types(ALL), &[some(&[2])])
            .property(|a, made| has_sizes(&made[0], &list(&a[1]))),
    ]
}

/// Numbers from `start` to before `end`, `step` apart.
fn range(start: f64, end: f64, step: f64) -> Array {
    let count = ((end - start) / step).ceil() as usize;
    Array::new(&[count], (0..count).map(|i| start + i as f64 * step).collect())
}

fn ranges() -> Vec<Row> {
    let start = |name, gives: Gives| row(name).types(&[F32]).gives(gives).ulps(0.0).not_differentiable();
    let whole: Gives = |_| I64;
    let same: Gives = |t| t;
    let call = |numbers: &[Arg]| [numbers.to_vec(), options(None)].concat();
    let zero_step = call(&[number(0), number(3), number(0)]);
    vec![
        start("arange", whole)
            .sample(call(&[number(17)]))
            .sample(call(&[number(0)]))
            .reference(|a| vec![range(0.0, a[0].number(), 1.0)])
            .refuses(call(&[number(-1)]), ErrorKind::InvalidArgument, "inconsistent with step sign"),
        start("arange", same)
            .sample(call(&[number(4.5)]))
            .reference(|a| vec![range(0.0, a[0].number(), 1.0)]),
        start("arange.start", whole)
            .sample(call(&[number(-3), number(30)]))
            .reference(|a| vec![range(a[0].number(), a[1].number(), 1.0)]),
        start("arange.start_step", whole)
            .sample(call(&[number(20), number(-7), number(-3)]))
            .sample(call(&[number(5), number(5), number(1)]))
            .reference(|a| vec![range(a[0].number(), a[1].number(), a[2].number())])
            .refuses(zero_step, ErrorKind::InvalidArgument, "step must be nonzero"),
        start("arange.start_step", same)
            .sample(call(&[number(-1.5), number(4), number(0.25)]))
            .sample(call(&[number(0.1), number(9.9), number(0.7)]))
            .reference(|a| vec![range(a[0].number(), a[1].number(), a[2].number())]),
    ]
}

/// `steps` numbers, both ends included.
fn spaced(start: f64, end: f64, steps: usize) -> Array {
    let at =
        |i: usize| if steps == 1 { start } else { start + (end - start) * i as f64 / (steps - 1) as f64 };
    Array::new(&[steps], (0..steps).map(at).collect())
}

fn spacings() -> Vec<Row> {
    let ends: [(f64, f64, i64); 6] =
        [(0.0, 1.0, 11), (-3.0, 5.0, 17), (2.5, -2.5, 64), (1.0, 2.0, 1), (1.0, 2.0, 0), (4.0, 4.0, 3)];
    let of_number = |x: f64| number(x);
    let of_tensor = |x: f64| Arg::Typed(Array::scalar(x), F32);
    let either = |a: &Arg| if let Arg::Typed(x, _) = a { x.data[0] } else { a.number() };
    let make = |name, first: fn(f64) -> Arg, second: fn(f64) -> Arg| {
        let start = row(name).types(&[F32]).terms(5.0).not_differentiable();
        ends.iter()
            .fold(start, |row, (from, to, steps)| {
                row.sample([vec![first(*from), second(*to), (*steps).into()], options(None)].concat())
            })
            .reference(move |a| vec![spaced(either(&a[0]), either(&a[1]), a[2].number() as usize)])
            .refuses(
                [vec![first(0.0), second(1.0), (-1i64).into()], options(None)].concat(),
                ErrorKind::InvalidArgument,
                "number of steps must be non-negative",
            )
    };
    let host = "the ends are read from the tensors, whose values Meta has not";
    let read = |row: Row| row.skip(crate::row::Check::Variants, host);
    vec![
        make("linspace", of_number, of_number),
        read(make("linspace.Tensor_Tensor", of_tensor, of_tensor)),
        read(make("linspace.Tensor_Scalar", of_tensor, of_number)),
        read(make("linspace.Scalar_Tensor", of_number, of_tensor)),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [constants(), identities(), alike(), unset(), ranges(), spacings()].into_iter().flatten().collect()
}
