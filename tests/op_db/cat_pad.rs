//! Copies: converted, concatenated, repeated, reversed, padded.

use super::view::{build, int, reshaped, some};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, FLOATS, Row, ints, none, number, row};
use flambeau_core::ScalarType::{self, F32, I64};
use flambeau_core::{Device, ErrorKind, MemoryFormat};
use flambeau_ops::dispatch::Value;

/// Why there is no result on Meta.
const BY_VALUES: &str = "the size of the result depends on values, which Meta has not";

fn t(sizes: &[usize]) -> Arg {
    some(sizes).into()
}

fn list(all: &[&[usize]]) -> Arg {
    Arg::Tensors(all.iter().map(|s| some(s)).collect())
}

fn arrays(arg: &Arg) -> &[Array] {
    if let Arg::Tensors(list) = arg { list } else { &[] }
}

/// Concatenation.
fn joined(all: &[Array], dim: usize) -> Array {
    let mut sizes = all[0].sizes.clone();
    sizes[dim] = all.iter().map(|a| a.sizes[dim]).sum();
    build(&sizes, |i| {
        let (mut at, mut which) = (i.to_vec(), 0);
        while at[dim] >= all[which].sizes[dim] {
            at[dim] -= all[which].sizes[dim];
            which += 1;
        }
        all[which].at(&at)
    })
}

fn moves(
    name: &'static str,
    samples: Vec<Vec<Arg>>,
    f: impl Fn(&[Arg]) -> Array + Send + Sync + 'static,
) -> Row {
    let start = row(name).types(ALL).ulps(0.0);
    samples.into_iter().fold(start, Row::sample).reference(move |args| vec![f(args)])
}

fn with_sizes(array: &Array, before: usize, after: usize) -> Array {
    let sizes = [vec![1; before], array.sizes.clone(), vec![1; after]].concat();
    reshaped(array, &sizes)
}

fn joins() -> Vec<Row> {
    let three: &[&[usize]] = &[&[2, 3], &[2, 1], &[2, 0]];
    let cats = || vec![vec![list(three), 1i64.into()], vec![list(&[&[3], &[0], &[2]]), (-1i64).into()]];
    let cat = |a: &[Arg]| {
        let all: Vec<Array> = arrays(&a[0]).iter().filter(|x| x.sizes != [0]).cloned().collect();
        joined(&all, all[0].sizes.len() - 1)
    };
    let rows = |a: &[Arg]| {
        let all: Vec<Array> = arrays(&a[0])
            .iter()
            .map(|x| if x.sizes.len() < 2 { with_sizes(x, 1, 0) } else { x.clone() })
            .collect();
        joined(&all, 0)
    };
    vec![
        moves("cat", cats(), cat)
            .refuses(
                vec![list(&[&[2, 3], &[3, 3]]), 1i64.into()],
                ErrorKind::Shape,
                "Expected size 2 but got size 3",
            )
            .refuses(vec![list(&[&[], &[3]]), 0i64.into()], ErrorKind::Shape, "zero-dimensional")
            .refuses(vec![list(&[]), 0i64.into()], ErrorKind::InvalidArgument, "cat: expected a tensor"),
        moves("concat", cats(), cat),
        moves("concatenate", cats(), cat),
        moves(
            "stack",
            vec![vec![list(&[&[2, 3], &[2, 3]]), (-2i64).into()], vec![list(&[&[], &[]]), 0i64.into()]],
            |a| {
                let all = arrays(&a[0]);
                let d = if all[0].sizes.is_empty() { 0 } else { 1 };
                let apart: Vec<Array> = all
                    .iter()
                    .map(|x| {
                        let mut sizes = x.sizes.clone();
                        sizes.insert(d, 1);
                        reshaped(x, &sizes)
                    })
                    .collect();
                joined(&apart, d)
            },
        )
        .refuses(vec![list(&[&[2], &[3]]), 0i64.into()], ErrorKind::Shape, "[3] at entry 1"),
        moves("hstack", vec![vec![list(&[&[2], &[3]])]], |a| joined(arrays(&a[0]), 0)),
        moves("hstack", vec![vec![list(&[&[2, 1], &[2, 3]])]], |a| joined(arrays(&a[0]), 1)),
        moves("vstack", vec![vec![list(&[&[3], &[2, 3]])]], rows),
        moves("row_stack", vec![vec![list(&[&[3], &[2, 3]])]], rows),
        moves("dstack", vec![vec![list(&[&[2, 3], &[2, 3]])]], |a| {
            joined(&arrays(&a[0]).iter().map(|x| with_sizes(x, 0, 1)).collect::<Vec<_>>(), 2)
        }),
        moves("column_stack", vec![vec![list(&[&[2], &[2, 3]])]], |a| {
            let all = arrays(&a[0]);
            joined(&[with_sizes(&all[0], 0, 1), all[1].clone()], 1)
        }),
        moves("atleast_1d", vec![vec![t(&[])]], |a| with_sizes(a[0].array(), 1, 0)),
        moves("atleast_2d", vec![vec![t(&[3])]], |a| with_sizes(a[0].array(), 1, 0)),
        moves("atleast_3d", vec![vec![t(&[3, 2])]], |a| with_sizes(a[0].array(), 0, 1)),
    ]
}

fn arrangements() -> Vec<Row> {
    let tiled = |a: &[Arg], sizes: &[usize], times: &[usize]| {
        let x = reshaped(a[0].array(), sizes);
        let whole: Vec<usize> = sizes.iter().zip(times).map(|(s, n)| s * n).collect();
        build(&whole, |i| x.at(&i.iter().zip(sizes).map(|(i, s)| i % s).collect::<Vec<_>>()))
    };
    let counts = || Arg::Typed(Array::new(&[3], vec![2.0, 0.0, 1.0]), I64);
    let rotated = |a: &[Arg], k: i64| {
        let x = a[0].array();
        let (m, n) = (x.sizes[0], x.sizes[1]);
        match k {
            1 => build(&[n, m], |i| x.at(&[i[1], n - 1 - i[0]])),
            2 => build(&[m, n], |i| x.at(&[m - 1 - i[0], n - 1 - i[1]])),
            3 => build(&[n, m], |i| x.at(&[m - 1 - i[1], i[0]])),
            _ => x.clone(),
        }
    };
    vec![
        moves("repeat", vec![vec![t(&[2, 3]), ints(&[2, 1, 3])]], move |a| tiled(a, &[1, 2, 3], &[2, 1, 3])),
        moves("tile", vec![vec![t(&[2, 3]), ints(&[2])]], move |a| tiled(a, &[2, 3], &[1, 2])),
        row("repeat_interleave.Tensor")
            .types(&[I64])
            .skip(Check::Variants, BY_VALUES)
            .sample(vec![counts(), none()])
            .not_differentiable()
            .reference(|_| vec![Array::new(&[3], vec![0.0, 0.0, 2.0])]),
        moves("repeat_interleave.self_Tensor", vec![vec![t(&[2, 3]), counts(), 1i64.into(), none()]], |a| {
            build(&[2, 3], |i| a[0].array().at(&[i[0], [0, 0, 2][i[1]]]))
        })
        .skip(Check::Variants, BY_VALUES),
        moves("repeat_interleave.self_int", vec![vec![t(&[2, 3]), 2i64.into(), 0i64.into(), none()]], |a| {
            build(&[4, 3], |i| a[0].array().at(&[i[0] / 2, i[1]]))
        }),
        moves("flip", vec![vec![t(&[2, 3, 4]), ints(&[0, -1])]], |a| {
            build(&[2, 3, 4], |i| a[0].array().at(&[1 - i[0], i[1], 3 - i[2]]))
        })
        .refuses(vec![t(&[2]), ints(&[0, 0])], ErrorKind::InvalidArgument, "appears multiple times"),
        moves("fliplr", vec![vec![t(&[2, 3])]], |a| build(&[2, 3], |i| a[0].array().at(&[i[0], 2 - i[1]]))),
        moves("flipud", vec![vec![t(&[2, 3])]], |a| build(&[2, 3], |i| a[0].array().at(&[1 - i[0], i[1]]))),
        moves("roll", vec![vec![t(&[3, 4]), ints(&[1, -6]), ints(&[0, 1])]], |a| {
            build(&[3, 4], |i| a[0].array().at(&[(i[0] + 2) % 3, (i[1] + 6) % 4]))
        }),
        moves("roll", vec![vec![t(&[3, 4]), ints(&[5]), ints(&[])]], |a| {
            let x = a[0].array();
            Array::new(&x.sizes, (0..12).map(|i| x.data[(i + 7) % 12]).collect())
        }),
        moves("rot90", (-1..4i64).map(|k| vec![t(&[2, 3]), k.into(), ints(&[0, 1])]).collect(), move |a| {
            rotated(a, int(&a[1]).rem_euclid(4))
        }),
        moves("constant_pad_nd", vec![vec![t(&[3, 4]), ints(&[1, 2, -1, 1]), number(3)]], |a| {
            let inside = |i: &[usize]| (0..2).contains(&i[0]) && (1..5).contains(&i[1]);
            build(&[3, 7], |i| if inside(i) { a[0].array().at(&[i[0] + 1, i[1] - 1]) } else { 3.0 })
        })
        .types(&[ScalarType::I16, ScalarType::F16, F32])
        .refuses(
            vec![t(&[3]), ints(&[-2, -2]), number(0)],
            ErrorKind::InvalidArgument,
            "negative output size",
        ),
        moves("diag", vec![vec![t(&[2]), 1i64.into()]], |a| {
            build(&[3, 3], |i| if i[1] == i[0] + 1 { a[0].array().at(&i[..1]) } else { 0.0 })
        }),
        moves("diag", vec![vec![t(&[2, 3]), 1i64.into()]], |a| {
            build(&[2], |i| a[0].array().at(&[i[0], i[0] + 1]))
        }),
        moves("diagflat", vec![vec![t(&[1, 2]), 0i64.into()]], |a| {
            build(&[2, 2], |i| if i[1] == i[0] { a[0].array().data[i[0]] } else { 0.0 })
        }),
        grids("meshgrid", vec![list(&[&[2], &[], &[3]])], |all| {
            let at = [0, 1, 2].map(|d| build(&[2, 1, 3], |i| all[d].data[i[d]]));
            at.to_vec()
        }),
        grids("meshgrid.indexing", vec![list(&[&[2], &[3]]), "xy".into()], |all| {
            vec![build(&[3, 2], |i| all[0].data[i[1]]), build(&[3, 2], |i| all[1].data[i[0]])]
        }),
    ]
}

fn grids(
    name: &'static str,
    sample: Vec<Arg>,
    f: impl Fn(&[Array]) -> Vec<Array> + Send + Sync + 'static,
) -> Row {
    row(name).types(ALL).ulps(0.0).sample(sample).reference(move |a| f(arrays(&a[0])))
}

fn conversions() -> Vec<Row> {
    let same = |a: &[Arg]| a[0].array().clone();
    let format: Arg = Value::MemoryFormat(MemoryFormat::Contiguous).into_arg();
    let dtype = || Value::ScalarType(F32).into_arg();
    let off = || [false, false].map(Arg::from);
    let to = |name, rest: Vec<Arg>| {
        let args = [vec![t(&[2, 3])], rest].concat();
        row(name)
            .types(FLOATS)
            .ulps(0.0)
            .gives(|_| F32)
            .sample(args)
            .reference(move |a| vec![a[0].array().clone()])
    };
    let all = [vec![dtype(), none(), none(), none()], off().to_vec(), vec![none()]].concat();
    let device = || Value::Device(Device::CPU).into_arg();
    vec![
        moves("contiguous", vec![vec![t(&[2, 3]), format]], same),
        moves("clone", vec![vec![t(&[2, 3]), none()]], same),
        to("to.dtype_layout", all),
        to("_to_copy", vec![dtype(), none(), none(), none(), false.into(), none()]),
        to("to.dtype", [vec![dtype()], off().to_vec(), vec![none()]].concat()),
        to("to.device", [vec![device(), dtype()], off().to_vec(), vec![none()]].concat())
            .skip(Check::Variants, "it reads values on the host, which Meta has not"),
        to("to.other", [vec![Arg::Typed(some(&[1]), F32)], off().to_vec(), vec![none()]].concat()),
        to("type_as", vec![Arg::Typed(some(&[1]), F32)]),
    ]
}

trait IntoArg {
    fn into_arg(self) -> Arg;
}

impl IntoArg for Value {
    fn into_arg(self) -> Arg {
        Arg::Value(self)
    }
}

/// The rows.
pub fn rows() -> Vec<Row> {
    [joins(), arrangements(), conversions()].into_iter().flatten().collect()
}
