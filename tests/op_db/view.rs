//! Views, and the operators of their derivatives.

use crate::array::{Array, indices};
use crate::row::{ALL, Arg, Check, FLOATS, Row, ints, none, row};
use flambeau_core::{ErrorKind, ScalarType};

/// An array by its elements.
pub fn build(sizes: &[usize], f: impl Fn(&[usize]) -> f64) -> Array {
    Array::new(sizes, indices(sizes).map(|i| f(&i)).collect())
}

/// A fixed array of these sizes.
pub fn some(sizes: &[usize]) -> Array {
    Array::fill(sizes, -9.0..9.0, sizes.len() as u64)
}

/// A dimension counted from the front.
pub fn wrap(arg: &Arg, rank: usize) -> usize {
    arg.dims(rank)[0]
}

/// An integer argument.
pub fn int(arg: &Arg) -> i64 {
    arg.number() as i64
}

/// The same elements in other sizes.
pub fn reshaped(array: &Array, sizes: &[usize]) -> Array {
    Array::new(sizes, array.data.clone())
}

/// Indices `start`, `start + step`, ... of one dimension.
pub fn sliced(array: &Array, dim: usize, start: usize, count: usize, step: usize) -> Array {
    let mut sizes = array.sizes.clone();
    sizes[dim] = count;
    build(&sizes, |i| {
        let mut at = i.to_vec();
        at[dim] = start + i[dim] * step;
        array.at(&at)
    })
}

/// One index of a dimension, which goes away.
pub fn selected(array: &Array, dim: usize, index: usize) -> Array {
    let mut sizes = array.sizes.clone();
    sizes.remove(dim);
    build(&sizes, |i| {
        let mut at = i.to_vec();
        at.insert(dim, index);
        array.at(&at)
    })
}

/// Elements whose indices in two dimensions are `offset` apart.
fn diagonal(array: &Array, offset: i64, a: usize, b: usize) -> Array {
    let (below, right) = ((-offset).max(0) as usize, offset.max(0) as usize);
    let length = array.sizes[a].saturating_sub(below).min(array.sizes[b].saturating_sub(right));
    let kept: Vec<usize> = (0..array.sizes.len()).filter(|d| *d != a && *d != b).collect();
    let mut sizes: Vec<usize> = kept.iter().map(|d| array.sizes[*d]).collect();
    sizes.push(length);
    build(&sizes, |i| {
        let mut at = vec![0; array.sizes.len()];
        kept.iter().zip(i).for_each(|(d, x)| at[*d] = *x);
        (at[a], at[b]) = (i[kept.len()] + below, i[kept.len()] + right);
        array.at(&at)
    })
}

/// Zeros of `sizes` except where `number(index)` is the number of an element of `part`, which stands there.
fn put_back(sizes: &[usize], numbers: &Array, part: &Array, base: Option<&Array>) -> Array {
    let mut made = base.cloned().unwrap_or_else(|| build(sizes, |_| 0.0));
    numbers.data.iter().zip(&part.data).for_each(|(n, value)| made.data[*n as usize] += value);
    made
}

/// The number of each element in row-major order.
fn numbered(sizes: &[usize]) -> Array {
    Array::new(sizes, (0..sizes.iter().product::<usize>()).map(|n| n as f64).collect())
}

fn moves(
    name: &'static str,
    samples: Vec<Vec<Arg>>,
    f: impl Fn(&[Arg]) -> Array + Send + Sync + 'static,
) -> Row {
    let start = row(name).types(ALL).ulps(0.0);
    samples.into_iter().fold(start, Row::sample).reference(move |args| vec![f(args)])
}

fn lists(
    name: &'static str,
    samples: Vec<Vec<Arg>>,
    f: impl Fn(&[Arg]) -> Vec<Array> + Send + Sync + 'static,
) -> Row {
    samples.into_iter().fold(row(name).types(ALL).ulps(0.0), Row::sample).reference(f)
}

fn pieces(array: &Array, dim: usize, bounds: &[usize]) -> Vec<Array> {
    bounds.windows(2).map(|b| sliced(array, dim, b[0], b[1] - b[0], 1)).collect()
}

/// A tensor argument of these sizes.
fn t(sizes: &[usize]) -> Arg {
    some(sizes).into()
}

fn sized(args: &[Arg], sizes: &[i64]) -> Array {
    reshaped(args[0].array(), &sizes.iter().map(|s| *s as usize).collect::<Vec<_>>())
}

fn reshapes() -> Vec<Row> {
    let requested_sizes = |args: &[Arg]| match &args[1] {
        Arg::Value(flambeau_ops::dispatch::Value::Ints(sizes)) => sized(args, sizes),
        other => reshaped(args[0].array(), &other.array().sizes),
    };
    let lists = || {
        vec![
            vec![t(&[2, 6]), ints(&[3, 4])],
            vec![t(&[4]), ints(&[2, 1, 2])],
            vec![t(&[]), ints(&[1, 1])],
            vec![t(&[0, 3]), ints(&[3, 0])],
        ]
    };
    let odd = "whether a view exists depends on the strides";
    let pairs = || vec![vec![t(&[2, 6]), t(&[3, 4])], vec![t(&[1]), t(&[])]];
    vec![
        moves("reshape", lists(), requested_sizes),
        moves("view", lists(), requested_sizes).skip(Check::Layouts, odd),
        // Of another type the bytes are something else, which Python's tests hold against NumPy.
        moves("view.dtype", vec![vec![t(&[2, 3]), Arg::OwnType]], |a| a[0].array().clone())
            .not_differentiable()
            .refuses(vec![t(&[]), ScalarType::F64.into()], ErrorKind::Shape, "cannot be 0")
            .refuses(
                vec![t(&[2, 3]), ScalarType::F64.into()],
                ErrorKind::Shape,
                "size(-1) must be divisible by 2",
            ),
        moves("reshape_as", pairs(), requested_sizes),
        moves("view_as", pairs(), requested_sizes).skip(Check::Layouts, odd),
        moves("ravel", vec![vec![t(&[2, 3])], vec![t(&[])]], |a| sized(a, &[a[0].array().data.len() as i64])),
        moves("flatten.using_ints", vec![vec![t(&[2, 3, 4]), 0i64.into(), (-2i64).into()]], |a| {
            sized(a, &[6, 4])
        }),
        moves("unflatten.int", vec![vec![t(&[2, 6]), (-1i64).into(), ints(&[2, -1])]], |a| {
            sized(a, &[2, 2, 3])
        }),
        moves("squeeze", vec![vec![t(&[1, 3, 1])]], |a| sized(a, &[3])),
        moves("squeeze.dim", vec![vec![t(&[1, 3, 1]), (-1i64).into()]], |a| sized(a, &[1, 3])),
        moves("squeeze.dims", vec![vec![t(&[1, 3, 1]), ints(&[0, 1])]], |a| sized(a, &[3, 1])),
        moves("unsqueeze", vec![vec![t(&[3, 2]), (-2i64).into()]], |a| sized(a, &[3, 1, 2])),
        moves("alias", vec![vec![t(&[3, 2])]], |a| a[0].array().clone()),
        moves("detach", vec![vec![t(&[3, 2])]], |a| a[0].array().clone()).not_differentiable(),
    ]
}

fn permutations() -> Vec<Row> {
    let flip = |a: &[Arg]| a[0].array().permute(&(0..a[0].array().sizes.len()).rev().collect::<Vec<_>>());
    let last_two = || vec![vec![t(&[2, 3, 4])]];
    let swap = || vec![vec![t(&[2, 3, 4]), 0i64.into(), (-1i64).into()]];
    let one = || vec![vec![t(&[2, 3, 4]), 0i64.into(), (-1i64).into()]];
    let two = || vec![vec![t(&[2, 3, 4]), ints(&[0, 1]), ints(&[-1, 0])]];
    vec![
        moves("permute", vec![vec![t(&[2, 3, 4]), ints(&[2, 0, -2])]], |a| a[0].array().permute(&[2, 0, 1])),
        moves("transpose.int", swap(), flip_ends),
        moves("swapaxes", swap(), flip_ends),
        moves("swapdims", swap(), flip_ends),
        moves("t", vec![vec![t(&[2, 3])], vec![t(&[3])]], flip),
        moves("numpy_T", vec![vec![t(&[2, 3, 4])], vec![t(&[])]], flip),
        moves("mT", last_two(), |a| a[0].array().permute(&[0, 2, 1])),
        moves("adjoint", last_two(), |a| a[0].array().permute(&[0, 2, 1])),
        moves("movedim.int", one(), |a| a[0].array().permute(&[1, 2, 0])),
        moves("moveaxis.int", one(), |a| a[0].array().permute(&[1, 2, 0])),
        moves("movedim.intlist", two(), |a| a[0].array().permute(&[1, 2, 0])),
        moves("moveaxis.intlist", two(), |a| a[0].array().permute(&[1, 2, 0])),
    ]
}

fn flip_ends(a: &[Arg]) -> Array {
    a[0].array().permute(&[2, 1, 0])
}

fn expansions() -> Vec<Row> {
    let to = |a: &[Arg]| a[0].array().expand(&[2, 3, 4]);
    vec![
        moves("expand", vec![vec![t(&[3, 1]), ints(&[2, -1, 4]), false.into()]], to),
        moves("expand_as", vec![vec![t(&[3, 1]), t(&[2, 3, 4])]], to)
            .skip(Check::Layouts, "only the sizes of `other` matter"),
        moves("broadcast_to", vec![vec![t(&[3, 1]), ints(&[2, 3, 4])]], to),
        lists("broadcast_tensors", vec![vec![Arg::Tensors(vec![some(&[3, 1]), some(&[2, 1, 4])])]], |a| {
            let Arg::Tensors(all) = &a[0] else { return vec![] };
            all.iter().map(|x| x.expand(&[2, 3, 4])).collect()
        }),
    ]
}

fn parts() -> Vec<Row> {
    let select = |a: &[Arg]| {
        let x = a[0].array();
        let d = wrap(&a[1], x.sizes.len());
        selected(x, d, int(&a[2]).rem_euclid(x.sizes[d] as i64) as usize)
    };
    let whole =
        |dim: i64, start: Arg, end: Arg, step: i64| vec![t(&[5, 7]), dim.into(), start, end, step.into()];
    vec![
        moves(
            "select.int",
            vec![vec![t(&[3, 4]), 1i64.into(), (-2i64).into()], vec![t(&[3]), 0i64.into(), 2i64.into()]],
            select,
        )
        .refuses(vec![t(&[3]), 0i64.into(), 3i64.into()], ErrorKind::Index, "index 3 out of range"),
        moves("slice.Tensor", vec![whole(1, 1i64.into(), (-1i64).into(), 2)], |a| {
            sliced(a[0].array(), 1, 1, 3, 2)
        }),
        moves("slice.Tensor", vec![whole(0, none(), none(), 3)], |a| sliced(a[0].array(), 0, 0, 2, 3)),
        moves("slice.Tensor", vec![whole(0, 4i64.into(), 2i64.into(), 1)], |a| {
            sliced(a[0].array(), 0, 4, 0, 1)
        }),
        moves("narrow", vec![vec![t(&[5, 7]), 1i64.into(), (-3i64).into(), 2i64.into()]], |a| {
            sliced(a[0].array(), 1, 4, 2, 1)
        })
        .refuses(
            vec![t(&[3]), 0i64.into(), 2i64.into(), 2i64.into()],
            ErrorKind::InvalidArgument,
            "exceeds dimension size (3)",
        ),
        moves(
            "diagonal",
            vec![
                vec![t(&[3, 4]), 0i64.into(), 0i64.into(), 1i64.into()],
                vec![t(&[3, 4]), (-1i64).into(), 0i64.into(), 1i64.into()],
                vec![t(&[3, 2, 4]), 1i64.into(), 0i64.into(), (-1i64).into()],
                vec![t(&[3, 4]), 9i64.into(), 0i64.into(), 1i64.into()],
            ],
            |a| {
                let x = a[0].array();
                diagonal(x, int(&a[1]), wrap(&a[2], x.sizes.len()), wrap(&a[3], x.sizes.len()))
            },
        ),
        moves("unfold", vec![vec![t(&[7, 2]), 0i64.into(), 3i64.into(), 2i64.into()]], |a| {
            build(&[3, 2, 3], |i| a[0].array().at(&[i[0] * 2 + i[2], i[1]]))
        })
        .refuses(
            vec![t(&[3]), 0i64.into(), 4i64.into(), 1i64.into()],
            ErrorKind::InvalidArgument,
            "maximum size",
        ),
        moves("as_strided", vec![vec![t(&[12]), ints(&[2, 3]), ints(&[1, 2]), 3i64.into()]], |a| {
            build(&[2, 3], |i| a[0].array().data[3 + i[0] + 2 * i[1]])
        })
        .skip(Check::Layouts, "it looks at memory, whatever the strides"),
    ]
}

fn splits() -> Vec<Row> {
    let x = |rest: Vec<Arg>| vec![[vec![t(&[2, 7])], rest].concat()];
    vec![
        lists("split.Tensor", x(vec![3i64.into(), 1i64.into()]), |a| pieces(a[0].array(), 1, &[0, 3, 6, 7])),
        lists("split.sizes", x(vec![ints(&[2, 0, 5]), 1i64.into()]), |a| {
            pieces(a[0].array(), 1, &[0, 2, 2, 7])
        }),
        lists("split_with_sizes", x(vec![ints(&[2, 5]), (-1i64).into()]), |a| {
            pieces(a[0].array(), 1, &[0, 2, 7])
        })
        .refuses(
            vec![t(&[4]), ints(&[1, 2]), 0i64.into()],
            ErrorKind::InvalidArgument,
            "sum exactly to 4",
        ),
        lists("chunk", x(vec![3i64.into(), 1i64.into()]), |a| pieces(a[0].array(), 1, &[0, 3, 6, 7])),
        lists("tensor_split.sections", x(vec![3i64.into(), 1i64.into()]), |a| {
            pieces(a[0].array(), 1, &[0, 3, 5, 7])
        }),
        lists("tensor_split.indices", x(vec![ints(&[1, 4]), 1i64.into()]), |a| {
            pieces(a[0].array(), 1, &[0, 1, 4, 7])
        }),
        lists("unbind.int", x(vec![0i64.into()]), |a| (0..2).map(|i| selected(a[0].array(), 0, i)).collect()),
    ]
}

fn backwards() -> Vec<Row> {
    vec![
        moves("select_backward", vec![vec![t(&[3]), ints(&[3, 4]), 1i64.into(), (-1i64).into()]], |a| {
            put_back(&[3, 4], &selected(&numbered(&[3, 4]), 1, 3), a[0].array(), None)
        }),
        moves(
            "slice_backward",
            vec![vec![t(&[3, 2]), ints(&[3, 5]), 1i64.into(), 1i64.into(), 5i64.into(), 3i64.into()]],
            |a| put_back(&[3, 5], &sliced(&numbered(&[3, 5]), 1, 1, 2, 3), a[0].array(), None),
        ),
        moves(
            "diagonal_backward",
            vec![vec![t(&[3]), ints(&[3, 4]), 1i64.into(), 0i64.into(), 1i64.into()]],
            |a| put_back(&[3, 4], &diagonal(&numbered(&[3, 4]), 1, 0, 1), a[0].array(), None),
        ),
        moves(
            "unfold_backward",
            vec![vec![t(&[3, 3]), ints(&[7]), 0i64.into(), 3i64.into(), 2i64.into()]],
            |a| {
                let offsets = build(&[3, 3], |i| (i[0] * 2 + i[1]) as f64);
                put_back(&[7], &offsets, a[0].array(), None)
            },
        )
        .types(FLOATS)
        .ulps(1.0),
        moves("diag_embed", vec![vec![t(&[2, 3]), (-1i64).into(), 0i64.into(), 2i64.into()]], |a| {
            build(&[4, 2, 4], |i| if i[0] == i[2] + 1 { a[0].array().at(&[i[1], i[2]]) } else { 0.0 })
        }),
        moves("select_scatter", vec![vec![t(&[3, 4]), t(&[3]), 1i64.into(), 2i64.into()]], |a| {
            build(&[3, 4], |i| if i[1] == 2 { a[1].array().at(&i[..1]) } else { a[0].array().at(i) })
        })
        .refuses(
            vec![t(&[3, 4]), t(&[4]), 1i64.into(), 2i64.into()],
            ErrorKind::Shape,
            "slice size = [3]",
        ),
        moves(
            "slice_scatter",
            vec![vec![t(&[3, 4]), t(&[3, 2]), 1i64.into(), 1i64.into(), 3i64.into(), 1i64.into()]],
            |a| {
                let inside = |i: &[usize]| (1..3).contains(&i[1]);
                build(&[3, 4], |i| {
                    if inside(i) { a[1].array().at(&[i[0], i[1] - 1]) } else { a[0].array().at(i) }
                })
            },
        ),
        moves(
            "diagonal_scatter",
            vec![vec![t(&[3, 4]), t(&[3]), 1i64.into(), 0i64.into(), 1i64.into()]],
            |a| {
                build(
                    &[3, 4],
                    |i| if i[1] == i[0] + 1 { a[1].array().at(&i[..1]) } else { a[0].array().at(i) },
                )
            },
        ),
    ]
}

/// The rows.
pub fn rows() -> Vec<Row> {
    [reshapes(), permutations(), expansions(), parts(), splits(), backwards()].into_iter().flatten().collect()
}
