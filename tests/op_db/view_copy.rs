//! The `_copy` forms of views, splitting and unstacking, and factories of indices, powers and permuted memory.

use super::factory::UNSET;
use super::index::{moves, t};
use super::view::{build, int, reshaped, selected, sliced};
use crate::array::Array;
use crate::row::{ALL, Arg, Check, Row, ints, none, number, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{F32, F64, I64};

fn lists(
    name: &'static str,
    sample: Vec<Arg>,
    f: impl Fn(&Array) -> Vec<Array> + Send + Sync + 'static,
) -> Row {
    row(name).types(ALL).ulps(0.0).sample(sample).reference(move |a| f(a[0].array()))
}

fn pieces(x: &Array, dim: usize, bounds: &[usize]) -> Vec<Array> {
    bounds.windows(2).map(|b| sliced(x, dim, b[0], b[1] - b[0], 1)).collect()
}

fn copies() -> Vec<Row> {
    let i = |n: i64| Arg::from(n);
    let memory = "it looks at memory, whatever the strides";
    let by_strides = |name, before: Vec<Arg>, f: fn(&[Arg]) -> Array| {
        moves(name, vec![[before, vec![ints(&[2, 3]), ints(&[1, 2]), i(3)]].concat()], f)
            .skip(Check::Layouts, memory)
    };
    vec![
        moves("alias_copy", vec![vec![t(&[3, 2])]], |a| a[0].array().clone()),
        moves("detach_copy", vec![vec![t(&[3, 2])]], |a| a[0].array().clone()).not_differentiable(),
        by_strides("as_strided_copy", vec![t(&[12])], |a| {
            build(&[2, 3], |i| a[0].array().data[3 + i[0] + 2 * i[1]])
        })
        .skip(Check::Gradients, memory)
        .skip(Check::SecondGradients, memory),
        by_strides("as_strided_scatter", vec![t(&[12]), t(&[2, 3])], |a| {
            let mut made = a[0].array().clone();
            crate::array::indices(&[2, 3]).for_each(|i| made.data[3 + i[0] + 2 * i[1]] = a[1].array().at(&i));
            made
        })
        .refuses(
            vec![t(&[12]), t(&[3]), ints(&[2, 3]), ints(&[1, 2]), i(3)],
            ErrorKind::Shape,
            "size equal to the slice",
        )
        .skip(Check::Gradients, memory)
        .skip(Check::SecondGradients, memory),
        moves("diagonal_copy", vec![vec![t(&[3, 4]), i(1), i(0), i(1)]], |a| {
            build(&[3], |i| a[0].array().at(&[i[0], i[0] + 1]))
        }),
        moves("expand_copy", vec![vec![t(&[3, 1]), ints(&[2, -1, 4]), false.into()]], |a| {
            a[0].array().expand(&[2, 3, 4])
        }),
        moves("narrow_copy", vec![vec![t(&[5, 7]), i(1), i(-3), i(2)]], |a| sliced(a[0].array(), 1, 4, 2, 1)),
        moves("permute_copy", vec![vec![t(&[2, 3, 4]), ints(&[2, 0, -2])]], |a| {
            a[0].array().permute(&[2, 0, 1])
        }),
        moves("select_copy.int", vec![vec![t(&[3, 4]), i(1), i(-2)]], |a| selected(a[0].array(), 1, 2)),
        moves("slice_copy.Tensor", vec![vec![t(&[5, 7]), i(1), i(1), i(-1), i(2)]], |a| {
            sliced(a[0].array(), 1, 1, 3, 2)
        }),
        moves("squeeze_copy", vec![vec![t(&[1, 3, 1])]], |a| reshaped(a[0].array(), &[3])),
        moves("squeeze_copy.dim", vec![vec![t(&[1, 3, 1]), i(-1)]], |a| reshaped(a[0].array(), &[1, 3])),
        moves("squeeze_copy.dims", vec![vec![t(&[1, 3, 1]), ints(&[0, 1])]], |a| {
            reshaped(a[0].array(), &[3, 1])
        }),
        moves("t_copy", vec![vec![t(&[2, 3])]], |a| a[0].array().permute(&[1, 0])),
        moves("transpose_copy.int", vec![vec![t(&[2, 3, 4]), i(0), i(-1)]], |a| {
            a[0].array().permute(&[2, 1, 0])
        }),
        moves("unfold_copy", vec![vec![t(&[7, 2]), i(0), i(3), i(2)]], |a| {
            build(&[3, 2, 3], |i| a[0].array().at(&[i[0] * 2 + i[2], i[1]]))
        }),
        moves("unsqueeze_copy", vec![vec![t(&[3, 2]), i(-2)]], |a| reshaped(a[0].array(), &[3, 1, 2])),
        moves("view_copy", vec![vec![t(&[2, 6]), ints(&[3, 4])]], |a| reshaped(a[0].array(), &[3, 4]))
            .skip(Check::Layouts, "whether a view exists depends on the strides")
            .skip(Check::Gradients, "odd strides are refused, as they should be")
            .skip(Check::SecondGradients, "odd strides are refused, as they should be"),
        lists("split_copy.Tensor", vec![t(&[2, 7]), i(3), i(1)], |x| pieces(x, 1, &[0, 3, 6, 7])),
        lists("split_with_sizes_copy", vec![t(&[2, 7]), ints(&[2, 0, 5]), i(1)], |x| {
            pieces(x, 1, &[0, 2, 2, 7])
        }),
        lists("unbind_copy.int", vec![t(&[2, 7]), i(0)], |x| (0..2).map(|n| selected(x, 0, n)).collect()),
    ]
}

fn cuts() -> Vec<Row> {
    let i = |n: i64| Arg::from(n);
    let named = |name, other, dim: usize, flat: &'static [usize]| {
        let sizes = [2, 4, 6];
        let half = sizes[dim] / 2;
        let low = vec![t(flat), i(1)];
        [
            lists(name, vec![t(&sizes), i(2)], move |x| pieces(x, dim, &[0, half, 2 * half]))
                .refuses(
                    vec![t(&sizes), i(5)],
                    ErrorKind::InvalidArgument,
                    "not divisible by the split_size 5",
                )
                .refuses(low, ErrorKind::Shape, "requires a tensor with at least"),
            lists(other, vec![t(&sizes), ints(&[1])], move |x| pieces(x, dim, &[0, 1, 2 * half])),
        ]
    };
    let mut rows = vec![
        lists("unsafe_split.Tensor", vec![t(&[2, 7]), i(3), i(1)], |x| pieces(x, 1, &[0, 3, 6, 7])),
        lists("unsafe_split_with_sizes", vec![t(&[2, 7]), ints(&[2, 5]), i(-1)], |x| {
            pieces(x, 1, &[0, 2, 7])
        }),
        lists("unsafe_chunk", vec![t(&[2, 7]), i(3), i(1)], |x| pieces(x, 1, &[0, 3, 6, 7])),
        lists("hsplit.int", vec![t(&[4]), i(2)], |x| pieces(x, 0, &[0, 2, 4])),
    ];
    rows.extend(named("hsplit.int", "hsplit.array", 1, &[]));
    rows.extend(named("vsplit.int", "vsplit.array", 0, &[3]));
    rows.extend(named("dsplit.int", "dsplit.array", 2, &[3, 3]));
    rows
}

fn options() -> Vec<Arg> {
    vec![none(); 4]
}

fn triangles() -> Vec<Row> {
    let make = |name: &'static str, inside: fn(i64, i64) -> bool| {
        let cases = [(3i64, 4i64, 0i64), (4, 3, 1), (3, 3, -2), (2, 2, -9), (2, 2, 9), (0, 3, 0)];
        let start = row(name).types(&[F32]).gives(|_| I64).ulps(0.0).not_differentiable();
        let call = |r: i64, c: i64, o: i64| [vec![r.into(), c.into(), o.into()], options()].concat();
        let row = cases.into_iter().fold(start, |row, (r, c, o)| row.sample(call(r, c, o)));
        let row = row.refuses(call(-1, 2, 0), ErrorKind::InvalidArgument, "non-negative");
        row.reference(move |a| {
            let [rows, columns, offset] = [0, 1, 2].map(|n| int(&a[n]));
            let all = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
            let kept: Vec<(i64, i64)> = all.filter(|(r, c)| inside(c - r, offset)).collect();
            vec![build(
                &[2, kept.len()],
                |i| if i[0] == 0 { kept[i[1]].0 as f64 } else { kept[i[1]].1 as f64 },
            )]
        })
    };
    vec![make("tril_indices", |d, offset| d <= offset), make("triu_indices", |d, offset| d >= offset)]
}

fn powers() -> Vec<Row> {
    let ends = [(0.0, 1.0, 11i64, 10.0), (-3.0, 2.0, 17, 2.0), (1.0, 2.0, 1, 3.0), (1.0, 2.0, 0, 3.0)];
    let of_number = |x: f64| number(x);
    let of_tensor = |x: f64| Arg::Typed(Array::scalar(x), F64);
    let either = |a: &Arg| if let Arg::Typed(x, _) = a { x.data[0] } else { a.number() };
    let make = |name, first: fn(f64) -> Arg, second: fn(f64) -> Arg| {
        let start = row(name).types(&[F32]).ulps(2.0).not_differentiable();
        let call = |(from, to, steps, base): (f64, f64, i64, f64)| {
            [vec![first(from), second(to), steps.into(), base.into()], options()].concat()
        };
        ends.into_iter()
            .fold(start, |row, ends| row.sample(call(ends)))
            .reference(move |a| {
                let (from, to, n) = (either(&a[0]), either(&a[1]), int(&a[2]) as usize);
                let step = if n > 1 { (to - from) / (n - 1) as f64 } else { 0.0 };
                vec![build(&[n], |i| a[3].number().powf(from + i[0] as f64 * step))]
            })
            .refuses(
                call((0.0, 1.0, -1, 2.0)),
                ErrorKind::InvalidArgument,
                "number of steps must be non-negative",
            )
    };
    let host = "the ends are read from the tensors, whose values Meta has not";
    let read = |row: Row| row.skip(Check::Variants, host);
    vec![
        make("logspace", of_number, of_number),
        read(make("logspace.Tensor_Tensor", of_tensor, of_tensor)),
        read(make("logspace.Tensor_Scalar", of_tensor, of_number)),
        read(make("logspace.Scalar_Tensor", of_number, of_tensor)),
        row("empty_permuted")
            .types(&[F32])
            .unset(UNSET)
            .sample([vec![ints(&[2, 3, 4]), ints(&[2, 0, 1])], options()].concat())
            .property(|_, made| if made[0].sizes == [2, 3, 4] { Ok(()) } else { Err("sizes".into()) })
            .refuses(
                [vec![ints(&[2, 3]), ints(&[0])], options()].concat(),
                ErrorKind::InvalidArgument,
                "does not match the length of the physical_layout",
            ),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [copies(), cuts(), triangles(), powers()].into_iter().flatten().collect()
}
