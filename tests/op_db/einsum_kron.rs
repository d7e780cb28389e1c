//! Products: `einsum`, `tensordot`, `kron`, `block_diag`, and chains of matrices. Numbers are small integers, so that sums are exact.

use super::linalg::{TYPES, tensors, whole};
use super::plain_linalg::inverse;
use super::reduce::counted;
use super::view::{build, int};
use crate::array::{Array, indices};
use crate::row::{Arg, FLOATS, NUMBERS, Row, WIDE_FLOATS, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, I64};

/// What an equation without an ellipsis means: every product of elements, added where its letters say.
fn einstein(inputs: &str, output: &str, all: &[Array]) -> Array {
    let parts: Vec<&[u8]> = inputs.split(',').map(str::as_bytes).collect();
    let mut letters: Vec<u8> = output.bytes().collect();
    parts.iter().copied().flatten().for_each(|l| {
        if !letters.contains(l) {
            letters.push(*l);
        }
    });
    let size = |letter: &u8| {
        let of = |(part, array): (&&[u8], &Array)| {
            part.iter().zip(&array.sizes).filter(|(l, _)| *l == letter).map(|(_, size)| *size).max()
        };
        parts.iter().zip(all).filter_map(of).max().unwrap_or(1)
    };
    let sizes: Vec<usize> =
        letters.iter().map(|l| if empty(*l, &parts, all) { 0 } else { size(l) }).collect();
    let mut made = build(&sizes[..output.len()], |_| 0.0);
    for i in indices(&sizes) {
        let factor = |(part, array): (&&[u8], &Array)| {
            let at = |(d, l): (usize, &u8)| {
                let dim = letters.iter().position(|x| x == l).unwrap();
                if array.sizes[d] == 1 { 0 } else { i[dim] }
            };
            array.at(&part.iter().enumerate().map(at).collect::<Vec<_>>())
        };
        let product: f64 = parts.iter().zip(all).map(factor).product();
        let at = super::index::row_major_offset(&made.sizes, &i[..output.len()]);
        made.data[at] += product;
    }
    made
}

fn empty(letter: u8, parts: &[&[u8]], all: &[Array]) -> bool {
    parts.iter().zip(all).any(|(p, a)| p.iter().zip(&a.sizes).any(|(l, size)| *l == letter && *size == 0))
}

/// An equation, the same without ellipsis and with an output, the operands' sizes, and a path.
type Equation = (&'static str, &'static str, &'static [&'static [usize]], &'static [i64]);

const EQUATIONS: &[Equation] = &[
    ("ij,jk->ik", "ij,jk->ik", &[&[3, 4], &[4, 2]], &[]),
    ("ij,jk", "ij,jk->ik", &[&[3, 4], &[4, 2]], &[]),
    ("ba", "ba->ab", &[&[2, 3]], &[]),
    ("ii->i", "ii->i", &[&[3, 3]], &[]),
    ("i,j->ij", "i,j->ij", &[&[3], &[2]], &[]),
    ("bij,bjk->bik", "bij,bjk->bik", &[&[2, 3, 2], &[2, 2, 2]], &[]),
    ("...ij, ...jk -> ...ik", "abij,bjk->abik", &[&[2, 2, 1, 2], &[2, 2, 3]], &[]),
    ("...i,...i->...", "abi,bi->ab", &[&[2, 1, 2], &[3, 2]], &[]),
    ("ij,jk,kl->il", "ij,jk,kl->il", &[&[2, 3], &[3, 2], &[2, 2]], &[]),
    ("ij,jk,kl->il", "ij,jk,kl->il", &[&[2, 3], &[3, 2], &[2, 2]], &[1, 2, 0, 1]),
    ("bn,anm,bm->ba", "bn,anm,bm->ba", &[&[2, 2], &[2, 2, 3], &[2, 3]], &[]),
    ("ij,ij->ij", "ij,ij->ij", &[&[1, 3], &[2, 3]], &[]),
    ("ijj,k->ki", "ijj,k->ki", &[&[2, 3, 3], &[2]], &[]),
    ("ij,jk->ik", "ij,jk->ik", &[&[2, 0], &[0, 3]], &[]),
    (",i->i", ",i->i", &[&[], &[3]], &[]),
];

fn equation(text: &str, shapes: &[&[usize]], path: &[i64]) -> Vec<Arg> {
    let operands = shapes.iter().zip(1..).map(|(sizes, seed)| whole(sizes, seed)).collect();
    vec![text.into(), Arg::Tensors(operands), if path.is_empty() { none() } else { ints(path) }]
}

fn arrays(arg: &Arg) -> &[Array] {
    if let Arg::Tensors(all) = arg { all } else { &[] }
}

fn letters() -> Vec<Row> {
    let refuse = |row: Row, text: &str, shapes: &[&[usize]], kind, says| {
        row.refuses(equation(text, shapes, &[]), kind, says)
    };
    let mut rows: Vec<Row> = EQUATIONS
        .iter()
        .map(|(text, plain, shapes, path)| {
            let (inputs, output) = plain.split_once("->").unwrap();
            row("einsum")
                .types(TYPES)
                .ulps(0.0)
                .sample(equation(text, shapes, path))
                .reference(move |a| vec![einstein(inputs, output, arrays(&a[1]))])
        })
        .collect();
    let bad = ErrorKind::InvalidArgument;
    let sums = row("einsum").types(FLOATS).ulps(0.0).sample(equation("ij->", &[&[3, 4]], &[]));
    let sums = sums.reference(|a| vec![einstein("ij", "", arrays(&a[1]))]);
    let sums = refuse(sums, "ij,jk", &[&[2, 3], &[2, 3]], ErrorKind::Shape, "does not broadcast");
    let sums = refuse(sums, "ij", &[&[2, 3, 4]], ErrorKind::Shape, "does not match the number of dimensions");
    let sums = refuse(sums, "ij->ik", &[&[2, 3]], bad, "does not appear in the equation");
    let sums = refuse(sums, "ij->ii", &[&[2, 3]], bad, "appears more than once");
    let sums = refuse(sums, "i1", &[&[2, 3]], bad, "invalid subscript");
    let sums = refuse(sums, "i..", &[&[2, 3]], bad, "not part of any ellipsis");
    let sums = refuse(sums, "i,j", &[&[2]], bad, "fewer operands");
    let sums = refuse(sums, "ii", &[&[2, 3]], ErrorKind::Shape, "sizes don't match");
    rows.push(sums);
    rows
}

fn exact(name: &'static str) -> Row {
    row(name).types(TYPES).ulps(0.0)
}

fn pairs() -> Vec<Row> {
    let dot = |shapes: &[&[usize]], a: &[i64], b: &[i64]| [tensors(shapes), vec![ints(a), ints(b)]].concat();
    let plain = |inputs: &'static str, output: &'static str| {
        move |a: &[Arg]| vec![einstein(inputs, output, &[a[0].array().clone(), a[1].array().clone()])]
    };
    let block = |a: &[Arg]| {
        let (x, y) = (a[0].array().expand(&[2, 2]), a[1].array().clone());
        vec![build(&[4, 6], |i| x.at(&[i[0] / 2, i[1] / 3]) * y.at(&[i[0] % 2, i[1] % 3]))]
    };
    vec![
        exact("tensordot")
            .sample(dot(&[&[2, 3, 4], &[4, 3, 2]], &[1, -1], &[1, 0]))
            .reference(plain("abc,cbd", "ad"))
            .refuses(
                dot(&[&[2, 3], &[2, 3]], &[0], &[1]),
                ErrorKind::Shape,
                "contracted dimensions need to match",
            )
            .refuses(dot(&[&[2, 3], &[2, 3]], &[0], &[]), ErrorKind::InvalidArgument, "same length"),
        exact("tensordot").sample(dot(&[&[2], &[3]], &[], &[])).reference(plain("a,b", "ab")),
        exact("tensordot").sample(dot(&[&[2, 1], &[3, 2]], &[1], &[0])).reference(plain("ab,bc", "ac")),
        exact("inner").sample(tensors(&[&[2, 3], &[4, 3]])).reference(plain("ab,cb", "ac")).refuses(
            tensors(&[&[2, 3], &[2]]),
            ErrorKind::Shape,
            "last dimension must match",
        ),
        exact("inner").sample(tensors(&[&[], &[3]])).reference(plain(",a", "a")),
        exact("inner").sample(tensors(&[&[3], &[3]])).reference(plain("a,a", "")),
        exact("kron").sample(tensors(&[&[2, 2], &[2, 3]])).sample(tensors(&[&[2], &[2, 3]])).reference(
            move |a| {
                if a[0].array().sizes.len() == 2 {
                    return block(a);
                }
                let (x, y) = (a[0].array(), a[1].array());
                vec![build(&[2, 6], |i| x.data[i[1] / 3] * y.at(&[i[0], i[1] % 3]))]
            },
        ),
        cross("linalg_cross", (-2i64).into()),
        cross("cross", none()),
        row("linalg_vecdot")
            .types(FLOATS)
            .ulps(0.0)
            .sample([tensors(&[&[2, 3], &[1, 3]]), vec![(-1i64).into()]].concat())
            .reference(plain("ab,cb", "a"))
            .refuses(
                vec![Arg::Typed(whole(&[2], 0), I64), Arg::Typed(whole(&[2], 0), I64), 0i64.into()],
                ErrorKind::Dtype,
                "floating point",
            ),
    ]
}

fn cross(name: &'static str, dim: Arg) -> Row {
    let sample = |shapes: &[&[usize]]| [tensors(shapes), vec![dim.clone()]].concat();
    exact(name)
        .sample(sample(&[&[3, 2], &[3, 2]]))
        .sample(sample(&[&[3, 1], &[3, 2]]))
        .reference(|a| {
            let (x, y) = (a[0].array().expand(&[3, 2]), a[1].array().expand(&[3, 2]));
            let at = |t: &Array, row: usize, i: &[usize]| t.at(&[row % 3, i[1]]);
            vec![build(&[3, 2], |i| {
                let (p, q) = (i[0] + 1, i[0] + 2);
                at(&x, p, i) * at(&y, q, i) - at(&x, q, i) * at(&y, p, i)
            })]
        })
        .refuses(sample(&[&[2, 2], &[2, 2]]), ErrorKind::Shape, "3")
}

fn sum_of(t: ScalarType) -> ScalarType {
    if t.is_integral(true) { I64 } else { t }
}

fn blocks() -> Vec<Row> {
    let list =
        |shapes: &[&[usize]]| vec![Arg::Tensors(shapes.iter().zip(1..).map(|(s, n)| whole(s, n)).collect())];
    let choose = |r: i64, again: bool| vec![counted(&[4], 1).into(), r.into(), again.into()];
    vec![
        exact("trace")
            .gives(sum_of)
            .sample(tensors(&[&[3, 4]]))
            .sample(tensors(&[&[0, 2]]))
            .reference(|a| {
                let x = a[0].array();
                let n = x.sizes[0].min(x.sizes[1]);
                vec![Array::scalar((0..n).map(|i| x.at(&[i, i])).sum())]
            })
            .refuses(tensors(&[&[3]]), ErrorKind::Shape, "expected a matrix"),
        exact("block_diag")
            .sample(list(&[&[2, 2], &[3], &[], &[1, 2]]))
            .reference(|a| {
                let starts = [(0, 0), (2, 2), (3, 5), (4, 6)];
                let mut made = build(&[5, 8], |_| 0.0);
                for (block, (top, left)) in arrays(&a[0]).iter().zip(starts) {
                    let columns = block.sizes.last().copied().unwrap_or(1);
                    for (n, value) in block.data.iter().enumerate() {
                        made.data[(top + n / columns) * 8 + left + n % columns] = *value;
                    }
                }
                vec![made]
            })
            .refuses(list(&[&[1, 1, 1]]), ErrorKind::Shape, "2 or fewer dimensions"),
        exact("cartesian_prod")
            .sample(list(&[&[2], &[3]]))
            .reference(|a| {
                let all = arrays(&a[0]);
                vec![build(
                    &[6, 2],
                    |i| if i[1] == 0 { all[0].data[i[0] / 3] } else { all[1].data[i[0] % 3] },
                )]
            })
            .refuses(list(&[&[2, 2], &[2]]), ErrorKind::Shape, "Expect a 1D vector"),
        exact("combinations")
            .sample(choose(2, false))
            .sample(choose(2, true))
            .sample(choose(5, false))
            .reference(|a| {
                let (x, r, again) = (a[0].array(), int(&a[1]) as usize, a[2].flag());
                let rises = |i: &[usize]| i.windows(2).all(|w| w[0] < w[1] || (again && w[0] == w[1]));
                let kept: Vec<Vec<usize>> = indices(&vec![4; r]).filter(|i| rises(i)).collect();
                vec![build(&[kept.len(), r], |i| x.data[kept[i[0]][i[1]]])]
            })
            .refuses(choose(-1, false), ErrorKind::InvalidArgument, "non-negative"),
    ]
}

fn power(x: &Array, n: i64) -> Array {
    let one = build(&x.sizes, |i| f64::from(i[0] == i[1]));
    (0..n).fold(one, |made, _| made.matmul(x))
}

fn matrices() -> Vec<Row> {
    let powers = |name: &'static str| {
        let start = [1i64, 2, 3, 5]
            .into_iter()
            .fold(exact(name), |row, n| row.sample(vec![whole(&[2, 2], 3).into(), n.into()]));
        start.reference(|a| vec![power(a[0].array(), int(&a[1]))]).refuses(
            vec![whole(&[2, 3], 0).into(), 2i64.into()],
            ErrorKind::Shape,
            "square",
        )
    };
    let list =
        |shapes: &[&[usize]]| vec![Arg::Tensors(shapes.iter().zip(1..).map(|(s, n)| whole(s, n)).collect())];
    let chain = |name: &'static str| {
        exact(name)
            .sample(list(&[&[2, 3], &[3, 1], &[1, 3], &[3, 2]]))
            .sample(list(&[&[2, 3], &[3, 2]]))
            .reference(|a| {
                let all = arrays(&a[0]);
                vec![all[1..].iter().fold(all[0].clone(), |made, next| made.matmul(next))]
            })
    };
    let columns = |n: Arg, rest: &[Arg]| [vec![whole(&[3], 2).into(), n], rest.to_vec()].concat();
    let wide = |t: ScalarType| if t.is_integral(true) { I64 } else { t };
    vec![
        powers("linalg_matrix_power"),
        powers("matrix_power"),
        row("linalg_matrix_power")
            .types(WIDE_FLOATS)
            .ulps(40.0)
            .terms(1.0)
            .sample(vec![Array::new(&[2, 2], vec![2.0, 1.0, -0.5, 3.0]).into(), (-1i64).into()])
            .sample(vec![Array::new(&[2, 2], vec![2.0, 1.0, -0.5, 3.0]).into(), (-3i64).into()])
            .reference(|a| vec![power(&inverse(a[0].array()), -int(&a[1]))]),
        exact("matrix_power")
            .not_differentiable()
            .sample(vec![whole(&[2, 2], 3).into(), 0i64.into()])
            .reference(|a| vec![power(a[0].array(), 0)]),
        chain("linalg_multi_dot").refuses(
            list(&[&[2, 3], &[2, 3]]),
            ErrorKind::Shape,
            "cannot be multiplied",
        ),
        chain("chain_matmul").refuses(list(&[&[2]]), ErrorKind::Shape, "expected 2"),
        exact("linalg_multi_dot").sample(list(&[&[3], &[3, 2], &[2]])).reference(|a| {
            let [x, m, y] = arrays(&a[0]) else { return vec![] };
            vec![Array::scalar((0..6).map(|n| x.data[n / 2] * m.data[n] * y.data[n % 2]).sum())]
        }),
        row("vander")
            .types(NUMBERS)
            .ulps(0.0)
            .gives(wide)
            .sample(columns(none(), &[false.into()]))
            .sample(columns(4i64.into(), &[true.into()]))
            .reference(|a| {
                let n = if matches!(a[1], Arg::Value(flambeau_ops::dispatch::Value::None)) {
                    3
                } else {
                    int(&a[1]) as usize
                };
                let exponent = |c: usize| if a[2].flag() { c } else { n - 1 - c };
                vec![build(&[3, n], |i| a[0].array().data[i[0]].powi(exponent(i[1]) as i32))]
            })
            .types(TYPES)
            .refuses(columns((-1i64).into(), &[false.into()]), ErrorKind::InvalidArgument, "non-negative"),
        row("vander")
            .types(TYPES)
            .gives(wide)
            .not_differentiable()
            .sample(columns(1i64.into(), &[true.into()]))
            .reference(|_| vec![build(&[3, 1], |_| 1.0)]),
        row("linalg_vander")
            .types(TYPES)
            .ulps(0.0)
            .gives(wide)
            .sample(vec![whole(&[2, 3], 2).into(), 4i64.into()])
            .reference(|a| vec![build(&[2, 3, 4], |i| a[0].array().at(&i[..2]).powi(i[2] as i32))])
            .refuses(columns(1i64.into(), &[]), ErrorKind::InvalidArgument, "greater than 1"),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    [letters(), pairs(), blocks(), matrices()].into_iter().flatten().collect()
}
