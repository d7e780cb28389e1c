//! Operators that read and write elements by indices and masks; embeddings.

use super::view::{build, int, some, wrap};
use crate::array::{Array, indices};
use crate::row::{ALL, Arg, Check, FLOATS, NUMBERS, Row, WIDE_FLOATS, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{Bool, F16, F32, I16, I32, I64};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;

pub(super) fn t(sizes: &[usize]) -> Arg {
    some(sizes).into()
}

/// Numbers whose sums are exact in every type.
pub(super) fn small(sizes: &[usize]) -> Array {
    Array::fill(sizes, 0.0..4.0, 7).map(f64::floor)
}

/// Indices, as i64.
fn ix(sizes: &[usize], values: &[i64]) -> Arg {
    Arg::Typed(Array::new(sizes, values.iter().map(|i| *i as f64).collect()), I64)
}

fn mask(sizes: &[usize], values: &[i64]) -> Arg {
    Arg::Typed(Array::new(sizes, values.iter().map(|i| *i as f64).collect()), Bool)
}

pub(super) fn moves(
    name: &'static str,
    samples: Vec<Vec<Arg>>,
    f: impl Fn(&[Arg]) -> Array + Send + Sync + 'static,
) -> Row {
    let start = row(name).types(ALL).ulps(0.0);
    samples.into_iter().fold(start, Row::sample).reference(move |args| vec![f(args)])
}

/// `i` with the index at dimension `d` replaced by what `index` holds there.
pub(super) fn named(index: &Array, i: &[usize], d: usize) -> Vec<usize> {
    let mut at = i.to_vec();
    if let Some(component) = at.get_mut(d) {
        *component = index.at(i) as usize;
    }
    at
}

pub(super) fn row_major_offset(sizes: &[usize], at: &[usize]) -> usize {
    sizes.iter().zip(at).fold(0, |n, (size, i)| n * size + i)
}

/// `self` with `f(old, new)` at the elements that `index` names.
fn scattered(a: &[Arg], source: impl Fn(&[usize]) -> f64, f: impl Fn(f64, f64) -> f64) -> Array {
    let (mut made, index) = (a[0].array().clone(), a[2].array());
    let d = wrap(&a[1], made.sizes.len());
    for i in indices(&index.sizes) {
        let n = row_major_offset(&made.sizes, &named(index, &i, d));
        made.data[n] = f(made.data[n], source(&i));
    }
    made
}

/// The same for a vector of indices that name slices.
fn scattered_slices(a: &[Arg], source: impl Fn(&[usize]) -> f64, f: impl Fn(f64, f64) -> f64) -> Array {
    let (mut made, index) = (a[0].array().clone(), a[2].array());
    let d = wrap(&a[1], made.sizes.len());
    let mut sizes = made.sizes.clone();
    sizes[d] = index.data.len();
    for i in indices(&sizes) {
        let mut at = i.clone();
        at[d] = (index.data[i[d]] as i64).rem_euclid(made.sizes[d] as i64) as usize;
        let n = row_major_offset(&made.sizes, &at);
        made.data[n] = f(made.data[n], source(&i));
    }
    made
}

fn sum_types(row: Row) -> Row {
    row.types(NUMBERS)
}

fn gathers() -> Vec<Row> {
    let index = || ix(&[2, 3], &[2, 0, 1, 0, 0, 2]);
    let gather = |a: &[Arg]| {
        let index = a[2].array();
        build(&index.sizes, |i| a[0].array().at(&named(index, i, wrap(&a[1], i.len()))))
    };
    let calls = || {
        vec![
            vec![t(&[3, 4]), 0i64.into(), index(), false.into()],
            vec![t(&[2, 5]), (-1i64).into(), index(), false.into()],
            vec![t(&[]), 0i64.into(), ix(&[], &[0]), false.into()],
            vec![t(&[3]), 0i64.into(), ix(&[0], &[]), false.into()],
        ]
    };
    let along =
        |a: &[Arg]| build(&[2, 3], |i| a[0].array().at(&[i[0], a[1].array().at(&[0, i[1]]) as usize]));
    vec![
        moves("gather", calls(), gather)
            .refuses(
                vec![t(&[3]), 0i64.into(), ix(&[1], &[3]), false.into()],
                ErrorKind::InvalidArgument,
                "index 3 is out of bounds for dimension 0 with size 3",
            )
            .refuses(
                vec![t(&[3]), 0i64.into(), ix(&[1], &[-1]), false.into()],
                ErrorKind::InvalidArgument,
                "index -1",
            )
            .refuses(vec![t(&[3]), 0i64.into(), t(&[1]), false.into()], ErrorKind::Dtype, "for index")
            .refuses(
                vec![t(&[3]), 0i64.into(), ix(&[1, 1], &[0]), false.into()],
                ErrorKind::Shape,
                "same number of dimensions",
            ),
        moves("take_along_dim", vec![vec![t(&[2, 4]), ix(&[1, 3], &[3, 0, 3]), 1i64.into()]], along),
        sum_types(moves(
            "gather_backward",
            vec![vec![small(&[2, 3]).into(), t(&[3, 4]), 0i64.into(), index(), false.into()]],
            |a| {
                let zeros = Arg::Tensor(build(&[3, 4], |_| 0.0));
                scattered(&[zeros, a[2].clone(), a[3].clone()], |i| a[0].array().at(i), |x, y| x + y)
            },
        )),
        moves(
            "value_selecting_reduction_backward",
            vec![vec![t(&[2]), 1i64.into(), ix(&[2], &[2, 0]), crate::row::ints(&[2, 3]), false.into()]],
            |a| {
                build(&[2, 3], |i| {
                    if a[2].array().data[i[0]] as usize == i[1] { a[0].array().data[i[0]] } else { 0.0 }
                })
            },
        ),
    ]
}

fn scatters() -> Vec<Row> {
    let index = || ix(&[2, 3], &[2, 0, 1, 0, 0, 2]);
    let with = |rest: Vec<Arg>| vec![[vec![small(&[3, 4]).into(), 0i64.into(), index()], rest].concat()];
    let src = || Arg::Tensor(small(&[2, 4]).map(|x| x + 1.0));
    let from = |a: &[Arg]| {
        let src = a[3].array().clone();
        move |i: &[usize]| src.at(i)
    };
    let far = || vec![t(&[3]), 0i64.into(), ix(&[1], &[3]), t(&[1])];
    // No element of one is equal to one of the other.
    let counted = |sizes: &[usize], from: f64| {
        let count: usize = sizes.iter().product();
        Arg::from(Array::new(sizes, (0..count).map(|i| (i * 5 % count * 2) as f64 + from).collect()))
    };
    let two = |reduce: &str| {
        vec![vec![
            counted(&[3, 4], 2.0),
            0i64.into(),
            index(),
            counted(&[2, 4], 1.0),
            reduce.into(),
            true.into(),
        ]]
    };
    let product = || {
        let own = small(&[3, 4]).map(|x| x + 1.0).into();
        vec![vec![own, 0i64.into(), index(), src(), "prod".into(), false.into()]]
    };
    vec![
        moves("scatter.src", with(vec![src()]), move |a| scattered(a, from(a), |_, y| y)).refuses(
            far(),
            ErrorKind::InvalidArgument,
            "index 3 is out of bounds for dimension 0 with size 3",
        ),
        moves("scatter.value", with(vec![number(3)]), |a| scattered(a, |_| 3.0, |_, y| y))
            .types(&[I16, F16, F32]),
        sum_types(moves("scatter.reduce", with(vec![src(), "add".into()]), move |a| {
            scattered(a, from(a), |x, y| x + y)
        })),
        sum_types(moves("scatter.value_reduce", with(vec![number(3), "multiply".into()]), |a| {
            scattered(a, |_| 3.0, |x, y| x * y)
        })),
        sum_types(moves("scatter_add", with(vec![src()]), move |a| scattered(a, from(a), |x, y| x + y)))
            .refuses(far(), ErrorKind::InvalidArgument, "scatter_add: index 3"),
        sum_types(moves("scatter_reduce.two", two("amax"), move |a| scattered(a, from(a), f64::max))),
        sum_types(moves("scatter_reduce.two", two("amin"), move |a| scattered(a, from(a), f64::min))),
        sum_types(moves("scatter_reduce.two", product(), move |a| {
            let ones = Arg::Tensor(scattered(a, |_| 1.0, |_, y| y));
            scattered(&[ones, a[1].clone(), a[2].clone()], from(a), |x, y| x * y)
        })),
    ]
}

fn slices() -> Vec<Row> {
    let index = || ix(&[3], &[2, 0, 2]);
    let base = |rest: Vec<Arg>| vec![[vec![small(&[2, 4]).into(), 1i64.into(), index()], rest].concat()];
    let source = || Arg::Tensor(small(&[2, 3]).map(|x| x + 1.0));
    let from = |a: &[Arg]| {
        let src = a[3].array().clone();
        move |i: &[usize]| src.at(i)
    };
    let select = |a: &[Arg]| build(&[2, 3], |i| a[0].array().at(&[i[0], a[2].array().data[i[1]] as usize]));
    vec![
        moves("index_select", vec![vec![t(&[2, 4]), (-1i64).into(), index()]], select).refuses(
            vec![t(&[3]), 0i64.into(), ix(&[1], &[5])],
            ErrorKind::Index,
            "index 5 is out of bounds for dimension 0 with size 3",
        ),
        moves(
            "index_select",
            vec![vec![t(&[4, 5]), 0i64.into(), Arg::Typed(Array::new(&[2], vec![3.0, 1.0]), I32)]],
            |a| build(&[2, 5], |i| a[0].array().at(&[[3, 1][i[0]], i[1]])),
        ),
        sum_types(moves(
            "index_select_backward",
            vec![vec![small(&[2, 3]).into(), crate::row::ints(&[2, 4]), 1i64.into(), index()]],
            |a| {
                let zeros = Arg::Tensor(build(&[2, 4], |_| 0.0));
                scattered_slices(&[zeros, a[2].clone(), a[3].clone()], |i| a[0].array().at(i), |x, y| x + y)
            },
        )),
        sum_types(moves("index_add", base(vec![source(), number(2)]), move |a| {
            scattered_slices(a, from(a), |x, y| x + 2.0 * y)
        }))
        .refuses(
            vec![t(&[3]), 0i64.into(), ix(&[1], &[3]), t(&[1]), number(1)],
            ErrorKind::InvalidArgument,
            "index 3 is out of bounds for dimension 0 with size 3",
        ),
        moves("index_copy", base(vec![source()]), move |a| scattered_slices(a, from(a), |_, y| y)),
        moves("index_fill.int_Scalar", base(vec![number(3)]), |a| scattered_slices(a, |_| 3.0, |_, y| y))
            .types(&[I16, F16, F32]),
        moves(
            "index_fill.int_Tensor",
            vec![vec![t(&[2, 4]), 1i64.into(), ix(&[2], &[-1, 0]), t(&[])]],
            |a| scattered_slices(a, |_| a[3].array().data[0], |_, y| y),
        ),
        row("one_hot")
            .types(&[I64])
            .not_differentiable()
            .sample(vec![ix(&[2, 2], &[0, 2, 1, 0]), 3i64.into()])
            .reference(|a| vec![build(&[2, 2, 3], |i| f64::from(a[0].array().at(&i[..2]) as usize == i[2]))]),
    ]
}

/// A list of indices, some of which are not given.
fn list(indices: &[Option<Arg>]) -> Arg {
    let tensor = |arg: &Arg| match arg {
        Arg::Typed(a, dtype) => crate::call::tensor(a, *dtype),
        other => crate::call::tensor(other.array(), I64),
    };
    let all: Vec<Option<Tensor>> = indices.iter().map(|i| i.as_ref().map(tensor)).collect();
    Arg::Value(Value::OptionalTensors(all))
}

fn advanced() -> Vec<Row> {
    let side_by_side = || list(&[None, Some(ix(&[2, 1], &[0, -1])), Some(ix(&[3], &[1, 0, 1]))]);
    let apart = || list(&[Some(ix(&[2], &[1, 0])), None, Some(ix(&[2], &[3, 0]))]);
    let masked = || list(&[Some(mask(&[2, 3], &[1, 0, 0, 1, 1, 0]))]);
    let x = |rest: Vec<Arg>| vec![[vec![small(&[2, 3, 4]).into()], rest].concat()];
    let source_index = |i: &[usize]| (i[0], [0, 2][i[1]], [1, 0, 1][i[2]]);
    vec![
        moves("index.Tensor", x(vec![side_by_side()]), move |a| {
            build(&[2, 2, 3], |i| a[0].array().at(&[source_index(i).0, source_index(i).1, source_index(i).2]))
        }),
        moves("index.Tensor", x(vec![apart()]), |a| {
            build(&[2, 3], |i| a[0].array().at(&[[1, 0][i[0]], i[1], [3, 0][i[0]]]))
        }),
        moves("index.Tensor", x(vec![masked()]), |a| {
            build(&[3, 4], |i| a[0].array().at(&[[0, 1, 1][i[0]], [0, 0, 1][i[0]], i[1]]))
        })
        .refuses(
            vec![t(&[3]), list(&[Some(ix(&[1], &[-4]))])],
            ErrorKind::Index,
            "index -4 is out of bounds for dimension 0 with size 3",
        )
        .refuses(
            vec![t(&[3]), list(&[Some(mask(&[2], &[1, 0]))])],
            ErrorKind::Index,
            "The shape of the mask [2]",
        ),
        moves("index_put", x(vec![side_by_side(), small(&[2, 3]).into(), false.into()]), move |a| {
            let mut made = a[0].array().clone();
            for i in indices(&[2, 2, 3]) {
                let (p, q, r) = source_index(&i);
                made.data[(p * 3 + q) * 4 + r] = a[2].array().at(&i[1..]);
            }
            made
        }),
        sum_types(moves(
            "index_put",
            x(vec![side_by_side(), small(&[2, 3]).into(), true.into()]),
            move |a| {
                let mut made = a[0].array().clone();
                for i in indices(&[2, 2, 3]) {
                    let (p, q, r) = source_index(&i);
                    made.data[(p * 3 + q) * 4 + r] += a[2].array().at(&i[1..]);
                }
                made
            },
        )),
        moves("take", vec![vec![t(&[2, 3]), ix(&[2, 2], &[5, 0, -1, 2])]], |a| {
            let x = &a[0].array().data;
            Array::new(&[2, 2], vec![x[5], x[0], x[5], x[2]])
        })
        .refuses(vec![t(&[3]), ix(&[1], &[3])], ErrorKind::Index, "index 3 is out of bounds"),
        sum_types(moves(
            "put",
            vec![vec![small(&[2, 3]).into(), ix(&[3], &[5, 0, -1]), small(&[3]).into(), true.into()]],
            |a| {
                let (mut made, from) = (a[0].array().clone(), &a[2].array().data);
                made.data[5] += from[0] + from[2];
                made.data[0] += from[1];
                made
            },
        )),
    ]
}

fn masks() -> Vec<Row> {
    let values = "the size of the result depends on values, which Meta has not";
    let x = || Arg::Tensor(small(&[2, 3]));
    let m = || mask(&[3], &[1, 0, 1]);
    let nonzero = |a: &[Arg]| {
        let x = a[0].array();
        let rows: Vec<Vec<usize>> = indices(&x.sizes).filter(|i| x.at(i) != 0.0).collect();
        Array::new(&[rows.len(), x.sizes.len()], rows.concat().iter().map(|i| *i as f64).collect())
    };
    let found = |name| {
        moves(name, vec![vec![x()]], nonzero)
            .gives(|_| I64)
            .not_differentiable()
            .skip(Check::Variants, values)
    };
    let chosen =
        |x: &Array| -> Vec<f64> { (0..x.data.len()).filter(|i| i % 3 != 1).map(|i| x.data[i]).collect() };
    vec![
        found("nonzero"),
        found("argwhere"),
        row("nonzero_numpy")
            .types(ALL)
            .ulps(0.0)
            .gives(|_| I64)
            .not_differentiable()
            .skip(Check::Variants, values)
            .sample(vec![x()])
            .reference(move |a| {
                let all = nonzero(a);
                (0..2).map(|d| super::view::selected(&all, 1, d)).collect()
            }),
        moves("masked_select", vec![vec![x(), m()]], move |a| Array::new(&[4], chosen(a[0].array())))
            .skip(Check::Variants, values)
            .refuses(vec![t(&[3]), t(&[3])], ErrorKind::Dtype, "BoolTensor"),
        moves("masked_select_backward", vec![vec![t(&[4]), x(), m()]], |a| {
            build(&[2, 3], |i| if i[1] == 1 { 0.0 } else { a[0].array().data[i[0] * 2 + i[1] / 2] })
        }),
        moves("masked_scatter", vec![vec![x(), m(), t(&[5])]], |a| {
            build(&[2, 3], |i| {
                if i[1] == 1 { a[0].array().at(i) } else { a[2].array().data[i[0] * 2 + i[1] / 2] }
            })
        })
        .refuses(
            vec![t(&[3]), mask(&[3], &[1, 1, 1]), t(&[2])],
            ErrorKind::InvalidArgument,
            "(2 < 3)",
        ),
        moves("masked_scatter_backward", vec![vec![x(), m(), crate::row::ints(&[5])]], move |a| {
            Array::new(&[5], [chosen(a[0].array()), vec![0.0]].concat())
        })
        .skip(Check::Variants, values),
    ]
}

fn tables() -> Vec<Row> {
    let index = || ix(&[2, 2], &[0, 2, 2, 1]);
    let call =
        |grad: Arg, padding: i64, scale: bool| vec![grad, index(), 4i64.into(), padding.into(), scale.into()];
    let backward = |a: &[Arg]| {
        let (padding, scale) = (int(&a[3]), a[4].flag());
        build(&[4, 3], |w| {
            let named: Vec<Vec<usize>> = indices(&[2, 2])
                .filter(|i| a[1].array().at(i) as usize == w[0] && w[0] as i64 != padding)
                .collect();
            let sum: f64 = named.iter().map(|i| a[0].array().at(&[i[0], i[1], w[1]])).sum();
            if scale { sum / named.len().max(1) as f64 } else { sum }
        })
    };
    let rest = |sparse: bool| vec![(-1i64).into(), false.into(), sparse.into()];
    vec![
        moves("embedding", vec![[vec![t(&[4, 3]), index()], rest(false)].concat()], |a| {
            build(&[2, 2, 3], |i| a[0].array().at(&[a[1].array().at(&i[..2]) as usize, i[2]]))
        })
        .refuses(
            [vec![t(&[4, 3]), ix(&[1], &[4])], rest(false)].concat(),
            ErrorKind::Index,
            "index 4 is out of bounds for dimension 0 with size 4",
        ),
        moves(
            "embedding_dense_backward",
            vec![call(t(&[2, 2, 3]), -1, false), call(t(&[2, 2, 3]), 2, false)],
            backward,
        )
        .types(FLOATS)
        .ulps(1.0),
        moves("embedding_dense_backward", vec![call(t(&[2, 2, 3]), -1, true)], backward)
            .types(WIDE_FLOATS)
            .ulps(1.0),
        moves(
            "embedding_backward",
            vec![[call(t(&[2, 2, 3]), -1, false), vec![false.into()]].concat()],
            backward,
        )
        .types(FLOATS)
        .ulps(1.0),
    ]
}

/// The rows.
pub fn rows() -> Vec<Row> {
    let all = [gathers(), scatters(), slices(), advanced(), masks(), tables()];
    all.into_iter().flatten().collect()
}
