//! The leaf operators of sparse tensors, against sums over the elements of patterns.

use super::view::build;
use crate::array::Array;
use crate::row::{Arg, Check, FLOATS, Row, WIDE_FLOATS, ints, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::{self, BF16, F16, F32, F64, I32, I64};

/// Types of sums of a few small integers, which are exact in all of them.
const SUMS: &[ScalarType] = &[I32, I64, F16, BF16, F32, F64];
const INDICES: &[ScalarType] = &[I64];
const OF_VALUES: &str = "the size of the result depends on values, which Meta has not";

/// The pattern of a matrix: pointers, columns, and the number of columns. Row 1 is empty.
type Pattern = (&'static [i64], &'static [i64], usize);
const FIRST: Pattern = (&[0, 2, 2, 5, 6], &[1, 4, 0, 2, 4, 3], 5);
const SECOND: Pattern = (&[0, 1, 3, 3, 4, 6], &[2, 0, 1, 2, 0, 2], 3);
const SQUARE: Pattern = (&[0, 2, 4, 6], &[0, 1, 1, 2, 0, 2], 3);

fn longs(values: &[i64]) -> Arg {
    Arg::Typed(Array::new(&[values.len()], values.iter().map(|v| *v as f64).collect()), I64)
}

fn small(sizes: &[usize], seed: u64) -> Arg {
    Array::fill(sizes, 0.0..4.0, seed).map(f64::floor).into()
}

fn around_one(sizes: &[usize], seed: u64) -> Arg {
    Array::fill(sizes, 1.0..2.0, seed).into()
}

/// `(row, column, position)` of each element.
fn elements(crow: &Array, col: &Array) -> Vec<(usize, usize, usize)> {
    let rows = crow.data.windows(2).enumerate();
    rows.flat_map(|(row, ends)| (ends[0] as usize..ends[1] as usize).map(move |at| (row, at)))
        .map(|(row, at)| (row, col.data[at] as usize, at))
        .collect()
}

fn array(values: Vec<usize>) -> Array {
    Array::new(&[values.len()], values.iter().map(|v| *v as f64).collect())
}

/// The stable order of coordinates, the groups of equal ones in it, and the group of each.
fn order(a: &[Arg]) -> Vec<Array> {
    let indices = a[0].array();
    let count = indices.sizes[1];
    let key = |at: usize| (0..indices.sizes[0]).map(|d| indices.at(&[d, at]) as i64).collect::<Vec<_>>();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|at| key(*at));
    let (mut starts, mut groups) = (vec![], vec![0; count]);
    for (n, at) in order.iter().enumerate() {
        if n == 0 || key(order[n - 1]) != key(*at) {
            starts.push(n);
        }
        groups[*at] = starts.len() - 1;
    }
    starts.push(count);
    vec![array(order), array(starts), array(groups)]
}

/// The distinct coordinates, and the sums of their values.
fn coalesced(a: &[Arg]) -> Vec<Array> {
    let (indices, values) = (a[0].array(), a[1].array());
    let ordered = order(&[a[0].clone(), a[2].clone()]);
    let (order, starts) = (&ordered[0].data, &ordered[1].data);
    let groups = starts.len() - 1;
    let positions =
        |group: usize| (starts[group] as usize..starts[group + 1] as usize).map(|at| order[at] as usize);
    let sums = build(&[&[groups], &values.sizes[1..]].concat(), |i| {
        positions(i[0]).map(|at| values.at(&[&[at], &i[1..]].concat())).sum()
    });
    let first = |group: usize| positions(group).next().unwrap_or_default();
    vec![build(&[indices.sizes[0], groups], |i| indices.at(&[i[0], first(i[1])])), sums]
}

fn coordinates() -> Vec<Row> {
    let pairs = |values: &[i64]| {
        let values: Vec<f64> = values.iter().map(|v| *v as f64).collect();
        Arg::Typed(Array::new(&[2, values.len() / 2], values), I64)
    };
    let sums = |a: &[Arg]| {
        let (values, starts) = (a[0].array(), a[2].array());
        let at = |n: usize| a[1].optional().map_or(n, |order| order.data[n] as usize);
        let sizes = [&[starts.data.len() - 1], &values.sizes[1..]].concat();
        vec![build(&sizes, |i| {
            let range = starts.data[i[0]] as usize..starts.data[i[0] + 1] as usize;
            range.map(|n| values.at(&[&[at(n)], &i[1..]].concat())).sum()
        })]
    };
    let (starts, groups) = (|| longs(&[0, 1, 2, 4]), || longs(&[2, 1, 2, 0]));
    let start = || row("_segment_sum").types(SUMS);
    vec![
        row("_coo_order")
            .types(INDICES)
            .ulps(0.0)
            .gives(|_| I64)
            .not_differentiable()
            .skip(Check::Variants, OF_VALUES)
            .sample(vec![pairs(&[1, 0, 1, 0, 2, 1, 2, 0]), ints(&[2, 3])])
            .sample(vec![pairs(&[0, 0, 1, 1, 2, 0]), ints(&[2, 3])])
            .sample(vec![pairs(&[9999, 1, 5000, 0, 99_999, 7]), ints(&[10_000, 100_000])])
            .sample(vec![pairs(&[]), ints(&[2, 3])])
            .reference(order)
            .refuses(vec![pairs(&[0, 3]), ints(&[1, 3])], ErrorKind::Index, "index 3 is out of bounds"),
        row("_coo_coalesced")
            .types(SUMS)
            .gives(|_| I64)
            .skip(Check::Variants, OF_VALUES)
            .sample(vec![pairs(&[1, 0, 1, 0, 2, 1, 2, 0]), small(&[4], 1), ints(&[2, 3])])
            .sample(vec![pairs(&[0, 0, 1, 1, 2, 0]), small(&[3, 2], 2), ints(&[2, 3])])
            .sample(vec![pairs(&[9999, 1, 5000, 0, 99_999, 7]), small(&[3], 3), ints(&[10_000, 100_000])])
            .sample(vec![pairs(&[]), small(&[0, 2], 4), ints(&[2, 3])])
            .reference(coalesced)
            .refuses(
                vec![pairs(&[0, 3]), small(&[1], 1), ints(&[1, 3])],
                ErrorKind::Index,
                "index 3 is out of bounds",
            )
            .refuses(
                vec![pairs(&[0, 2]), small(&[2], 1), ints(&[1, 3])],
                ErrorKind::Shape,
                "a row of values for each of 1 coordinates",
            ),
        start()
            .sample(vec![small(&[4], 1), longs(&[3, 1, 0, 2]), starts(), groups()])
            .sample(vec![small(&[4, 3], 2), longs(&[3, 1, 0, 2]), starts(), groups()])
            .sample(vec![small(&[4, 2, 2], 3), none(), starts(), longs(&[0, 1, 2, 2])])
            .sample(vec![small(&[0, 2], 4), none(), longs(&[0]), longs(&[])])
            .reference(sums)
            .refuses(
                vec![small(&[4], 1), longs(&[3, 1, 0, 4]), starts(), groups()],
                ErrorKind::Index,
                "index 4 is out of bounds",
            )
            .refuses(
                vec![small(&[4], 1), none(), longs(&[0, 3, 2, 4]), groups()],
                ErrorKind::InvalidArgument,
                "pointers that ascend",
            ),
    ]
}

/// The softmax of each column in each segment of rows.
fn softmax(a: &[Arg]) -> Vec<Array> {
    let (values, starts, log) = (a[0].array(), a[1].array(), a[2].flag());
    let segment_of = |row: usize| starts.data.iter().rposition(|start| *start <= row as f64).unwrap_or(0);
    vec![build(&values.sizes, |i| {
        let at = segment_of(i[0]);
        let rows = starts.data[at] as usize..starts.data[at + 1] as usize;
        let all: Vec<f64> = rows.map(|row| values.at(&[&[row], &i[1..]].concat())).collect();
        let largest = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all.iter().map(|x| (x - largest).exp()).sum();
        let shifted = values.at(i) - largest;
        if log { shifted - sum.ln() } else { shifted.exp() / sum }
    })]
}

fn softmaxes() -> Vec<Row> {
    let values = |sizes: &[usize], seed: u64| -> Arg { Array::fill(sizes, -3.0..3.0, seed).into() };
    let starts = || longs(&[0, 2, 2, 5, 6]);
    vec![
        row("_segment_softmax")
            .types(FLOATS)
            .ulps(8.0)
            // Of logarithms, as of those of softmax: the difference from the maximum is rounded, up to half an ulp of 4.
            .terms(4.0)
            .sample(vec![values(&[6], 1), starts(), false.into()])
            .sample(vec![values(&[6], 2), starts(), true.into()])
            .sample(vec![values(&[6, 3], 3), starts(), false.into()])
            .sample(vec![values(&[6, 3], 4), starts(), true.into()])
            .sample(vec![values(&[0, 3], 5), longs(&[0]), false.into()])
            .reference(softmax)
            .refuses(
                vec![values(&[6], 1), longs(&[0, 7]), false.into()],
                ErrorKind::InvalidArgument,
                "pointers that ascend",
            ),
    ]
}

/// The pointers of selected rows, and the positions of their elements.
fn selected_rows(a: &[Arg]) -> Vec<Array> {
    let (crow, index) = (a[0].array(), a[1].array());
    let positions = |row: &f64| crow.data[*row as usize] as usize..crow.data[*row as usize + 1] as usize;
    let ends = index.data.iter().scan(0, |end, row| {
        *end += positions(row).len();
        Some(*end)
    });
    vec![
        array(std::iter::once(0).chain(ends).collect()),
        array(index.data.iter().flat_map(positions).collect()),
    ]
}

/// The rows and columns of some elements, in this order, as a matrix in compressed rows: pointers, columns, values.
fn compressed(count: usize, elements: &[(usize, usize, f64)]) -> Vec<Array> {
    let below = |row: usize| elements.iter().filter(|element| element.0 < row).count();
    let values = elements.iter().map(|element| element.2).collect();
    vec![
        array((0..=count).map(below).collect()),
        array(elements.iter().map(|element| element.1).collect()),
        Array::new(&[elements.len()], values),
    ]
}

/// The elements of a matrix in compressed rows, with their values.
fn valued(a: &[Arg]) -> Vec<(usize, usize, f64)> {
    let all = elements(a[0].array(), a[1].array());
    all.into_iter().map(|(row, column, at)| (row, column, a[2].array().data[at])).collect()
}

/// The transpose, by sorting.
fn transposed(a: &[Arg]) -> Vec<Array> {
    let mut all: Vec<_> = valued(a).into_iter().map(|(row, column, x)| (column, row, x)).collect();
    all.sort_by_key(|element| (element.0, element.1));
    compressed(a[3].number() as usize, &all)
}

/// The selected rows, one after the other.
fn selected(a: &[Arg]) -> Vec<Array> {
    let (all, index) = (valued(a), &a[3].array().data);
    let of_row = |(at, row): (usize, &f64)| {
        let own = all.iter().filter(|element| element.0 == *row as usize);
        own.map(|element| (at, element.1, element.2)).collect::<Vec<_>>()
    };
    compressed(index.len(), &index.iter().enumerate().flat_map(of_row).collect::<Vec<_>>())
}

/// The sum, by sorting and adding neighbours.
fn added(a: &[Arg]) -> Vec<Array> {
    let mut all = [valued(a), valued(&a[3..])].concat();
    all.sort_by_key(|element| (element.0, element.1));
    let mut sums: Vec<(usize, usize, f64)> = vec![];
    for (row, column, x) in all {
        match sums.last_mut() {
            Some(last) if (last.0, last.1) == (row, column) => last.2 += x,
            _ => sums.push((row, column, x)),
        }
    }
    compressed(a[0].array().data.len() - 1, &sums)
}

fn matrices() -> Vec<Row> {
    let (crow, col, columns) = FIRST;
    let other: Pattern = (&[0, 1, 3, 4, 6], &[4, 0, 1, 2, 1, 3], 5);
    let matrix = |pattern: Pattern, seed: u64| {
        vec![longs(pattern.0), longs(pattern.1), small(&[pattern.1.len()], seed)]
    };
    let empty = || vec![longs(&[0]), longs(&[]), small(&[0], 1)];
    let with = |start: Vec<Arg>, end: Vec<Arg>| [start, end].concat();
    let wide = || vec![longs(crow), longs(col), small(&[col.len()], 1)];
    let outside = |column: i64| vec![longs(crow), longs(&[1, 4, 0, 2, column, 3]), small(&[6], 1)];
    vec![
        row("_csr_transposed")
            .types(SUMS)
            .gives(|_| I64)
            .ulps(0.0)
            .sample(with(matrix(FIRST, 1), vec![(columns as i64).into()]))
            .sample(with(matrix(FIRST, 2), vec![9i64.into()]))
            .sample(with(empty(), vec![3i64.into()]))
            .reference(transposed)
            .refuses(with(wide(), vec![4i64.into()]), ErrorKind::Index, "index 4 is out of bounds")
            .refuses(with(outside(-1), vec![5i64.into()]), ErrorKind::Index, "index -1 is out of bounds"),
        row("_csr_select")
            .types(SUMS)
            .gives(|_| I64)
            .ulps(0.0)
            .skip(Check::Variants, OF_VALUES)
            .sample(with(matrix(FIRST, 1), vec![longs(&[2, 0, 1, 2])]))
            .sample(with(matrix(FIRST, 2), vec![longs(&[])]))
            .reference(selected)
            .refuses(with(wide(), vec![longs(&[4])]), ErrorKind::Index, "index 4 is out of bounds")
            .refuses(
                vec![longs(&[0, 5, 2, 6]), longs(col), small(&[6], 1), longs(&[1])],
                ErrorKind::InvalidArgument,
                "pointers that ascend",
            ),
        row("_csr_add")
            .types(SUMS)
            .gives(|_| I64)
            .skip(Check::Variants, OF_VALUES)
            .sample([matrix(FIRST, 1), matrix(other, 2), vec![(columns as i64).into()]].concat())
            .sample([matrix(FIRST, 3), matrix(FIRST, 4), vec![(columns as i64).into()]].concat())
            .sample([empty(), empty(), vec![3i64.into()]].concat())
            .reference(added)
            .refuses(
                [matrix(FIRST, 1), outside(5), vec![5i64.into()]].concat(),
                ErrorKind::Index,
                "index 5 is out of bounds",
            )
            .refuses(
                [matrix(FIRST, 1), outside(2), vec![5i64.into()]].concat(),
                ErrorKind::InvalidArgument,
                "columns that ascend",
            ),
    ]
}

fn selections() -> Vec<Row> {
    let (crow, count) = (|| longs(FIRST.0), FIRST.1.len() as i64);
    vec![
        row("_csr_select_rows")
            .types(INDICES)
            .ulps(0.0)
            .gives(|_| I64)
            .not_differentiable()
            .skip(Check::Variants, OF_VALUES)
            .sample(vec![crow(), longs(&[2, 0, 1, 2]), count.into()])
            .sample(vec![crow(), longs(&[]), count.into()])
            .reference(selected_rows)
            .refuses(vec![crow(), longs(&[4]), count.into()], ErrorKind::Index, "index 4 is out of bounds")
            .refuses(
                vec![longs(&[0, 5, 2, 6]), longs(&[1]), count.into()],
                ErrorKind::InvalidArgument,
                "pointers that ascend",
            ),
    ]
}

/// Parameters after a step of Adam for some of their rows.
fn adam(a: &[Arg]) -> Vec<Array> {
    let (mut params, means, squares) = (a[0].array().clone(), a[1].array(), a[2].array());
    let (rows, grad) = (a[3].array(), a[4].array());
    let [lr, beta1, beta2, eps, decay, step] = [5, 6, 7, 8, 9, 10].map(|at| a[at].number());
    let width = grad.data.len() / rows.data.len().max(1);
    for (at, row) in rows.data.iter().enumerate() {
        for column in 0..width {
            let of = *row as usize * width + column;
            let grad = grad.data[at * width + column] + decay * params.data[of];
            let mean = means.data[of] + (1.0 - beta1) * (grad - means.data[of]);
            let square = squares.data[of] + (1.0 - beta2) * (grad * grad - squares.data[of]);
            let rate = lr * (1.0 - beta2.powf(step)).sqrt() / (1.0 - beta1.powf(step));
            params.data[of] -= rate * mean / (square.sqrt() + eps);
        }
    }
    vec![params]
}

fn optimizers() -> Vec<Row> {
    let call = |sizes: &[usize], rows: &[i64], decay: f64| {
        let grad_sizes = [&[rows.len()], &sizes[1..]].concat();
        let numbers = [0.01, 0.9, 0.99, 1e-8, decay, 3.0].map(Arg::from);
        let tensors = [
            around_one(sizes, 1),
            around_one(sizes, 2),
            around_one(sizes, 3),
            longs(rows),
            around_one(&grad_sizes, 4),
        ];
        tensors.into_iter().chain(numbers).collect::<Vec<Arg>>()
    };
    vec![
        row("_sparse_adam_")
            .types(WIDE_FLOATS)
            .ulps(8.0)
            .not_differentiable()
            .sample(call(&[5, 3], &[0, 3], 0.0))
            .sample(call(&[5, 3], &[4], 0.1))
            .sample(call(&[6], &[1, 2, 5], 0.0))
            .reference(adam)
            .refuses(call(&[5, 3], &[0, 5], 0.0), ErrorKind::Index, "index 5 is out of bounds")
            .refuses(call(&[5, 3], &[3, 3], 0.0), ErrorKind::InvalidArgument, "distinct rows"),
    ]
}

fn pointers() -> Vec<Row> {
    let integers = |name| row(name).types(INDICES).ulps(0.0).gives(|_| I64).not_differentiable();
    let (crow, col, columns) = FIRST;
    vec![
        integers("_convert_indices_from_coo_to_csr")
            .sample(vec![longs(&[0, 0, 2, 2, 2, 3]), 4i64.into(), false.into()])
            .sample(vec![longs(&[]), 3i64.into(), false.into()])
            .reference(|a| {
                let below = |row: usize| a[0].array().data.iter().filter(|r| **r < row as f64).count();
                vec![array((0..=a[1].number() as usize).map(below).collect())]
            })
            .refuses(
                vec![longs(&[0, 4]), 4i64.into(), false.into()],
                ErrorKind::Index,
                "index 4 is out of bounds",
            )
            .refuses(
                vec![longs(&[1, 0]), 4i64.into(), false.into()],
                ErrorKind::InvalidArgument,
                "ascending",
            ),
        integers("_convert_indices_from_csr_to_coo")
            .sample(vec![longs(crow), longs(col), false.into(), false.into()])
            .sample(vec![longs(crow), longs(col), false.into(), true.into()])
            .reference(|a| {
                let all = elements(a[0].array(), a[1].array());
                vec![build(&[2, all.len()], |i| {
                    let (row, column, _) = all[i[1]];
                    (if (i[0] == 0) == a[3].flag() { column } else { row }) as f64
                })]
            }),
        integers("_csr_transpose")
            .sample(vec![longs(crow), longs(col), (columns as i64).into()])
            .sample(vec![longs(&[0]), longs(&[]), 3i64.into()])
            .reference(|a| {
                let mut all = elements(a[0].array(), a[1].array());
                all.sort_by_key(|(row, column, _)| (*column, *row));
                let below = |column: usize| all.iter().filter(|element| element.1 < column).count();
                vec![
                    array((0..=a[2].number() as usize).map(below).collect()),
                    array(all.iter().map(|element| element.0).collect()),
                    array(all.iter().map(|element| element.2).collect()),
                ]
            })
            .refuses(
                vec![longs(crow), longs(col), 4i64.into()],
                ErrorKind::Index,
                "index 4 is out of bounds",
            ),
    ]
}

fn products() -> Vec<Row> {
    let (crow, col, columns) = FIRST;
    let times = |a: &[Arg]| {
        let all = elements(a[0].array(), a[1].array());
        let (values, dense) = (a[2].array(), a[3].array());
        vec![build(&[a[0].array().data.len() - 1, dense.sizes[1]], |i| {
            let row = all.iter().filter(|element| element.0 == i[0]);
            row.map(|(_, column, at)| values.data[*at] * dense.at(&[*column, i[1]])).sum()
        })]
    };
    let sampled = |a: &[Arg]| {
        let (x, y) = (a[2].array(), a[3].array());
        let inner = |(row, column, _): (usize, usize, usize)| {
            (0..x.sizes[1]).map(|k| x.at(&[row, k]) * y.at(&[column, k])).sum()
        };
        let all = elements(a[0].array(), a[1].array());
        vec![Array::new(&[all.len()], all.into_iter().map(inner).collect())]
    };
    let sample = |width: usize, seed: u64| {
        vec![longs(crow), longs(col), small(&[col.len()], seed), small(&[columns, width], seed + 1)]
    };
    let matrices = |width: usize, seed: u64| {
        vec![longs(crow), longs(col), small(&[4, width], seed), small(&[columns, width], seed + 1)]
    };
    vec![
        row("_csr_mm")
            .types(SUMS)
            .sample(sample(1, 1))
            .sample(sample(3, 2))
            .sample(sample(70, 3))
            .sample(sample(0, 4))
            .reference(times)
            .refuses(
                vec![longs(crow), longs(col), small(&[6], 1), small(&[4, 2], 2)],
                ErrorKind::Index,
                "index 4 is out of bounds",
            )
            .refuses(
                vec![longs(&[0, 2, 1, 5, 6]), longs(col), small(&[6], 1), small(&[5, 2], 2)],
                ErrorKind::InvalidArgument,
                "pointers that ascend",
            ),
        row("_csr_sampled_mm")
            .types(SUMS)
            .sample(matrices(1, 1))
            .sample(matrices(19, 2))
            .sample(matrices(0, 3))
            .reference(sampled)
            .refuses(
                vec![longs(crow), longs(&[1, 4, 0, 2, 5, 3]), small(&[4, 2], 1), small(&[5, 2], 2)],
                ErrorKind::Index,
                "index 5 is out of bounds",
            ),
    ]
}

/// The positions of the product of two patterns, row by row.
fn product_pattern(a: &[&Array]) -> Vec<Vec<usize>> {
    let (first, second) = (elements(a[0], a[1]), elements(a[2], a[3]));
    let of_row = |row: usize| {
        let middles = first.iter().filter(|element| element.0 == row).map(|element| element.1);
        let mut columns: Vec<usize> = middles
            .flat_map(|middle| second.iter().filter(move |other| other.0 == middle).map(|other| other.1))
            .collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    };
    (0..a[0].data.len() - 1).map(of_row).collect()
}

fn sparse_products() -> Vec<Row> {
    let patterns = || [FIRST.0, FIRST.1, SECOND.0, SECOND.1].map(longs);
    let columns = || (SECOND.2 as i64).into();
    let values = |a: &[Arg]| {
        let (first, second) = (elements(a[0].array(), a[1].array()), elements(a[3].array(), a[4].array()));
        let term = |row: usize, column: usize| {
            let left = first.iter().filter(move |element| element.0 == row);
            left.map(|(_, middle, at)| {
                let right = second.iter().filter(|other| (other.0, other.1) == (*middle, column));
                right.map(|other| a[2].array().data[*at] * a[5].array().data[other.2]).sum::<f64>()
            })
            .sum::<f64>()
        };
        let all = elements(a[6].array(), a[7].array());
        vec![Array::new(&[all.len()], all.iter().map(|(row, column, _)| term(*row, *column)).collect())]
    };
    let call = |crow: &[i64], col: &[i64]| {
        let [crow1, col1, crow2, col2] = patterns();
        let (x, y) = (small(&[FIRST.1.len()], 1), small(&[SECOND.1.len()], 2));
        vec![crow1, col1, x, crow2, col2, y, longs(crow), longs(col), columns()]
    };
    let factors = |seed: u64, columns: Arg| {
        let [crow1, col1, crow2, col2] = patterns();
        let (x, y) = (small(&[FIRST.1.len()], seed), small(&[SECOND.1.len()], seed + 1));
        vec![crow1, col1, x, crow2, col2, y, columns]
    };
    vec![
        row("_csr_matmul_pattern")
            .types(INDICES)
            .ulps(0.0)
            .gives(|_| I64)
            .not_differentiable()
            .skip(Check::Variants, OF_VALUES)
            .sample([patterns().to_vec(), vec![columns()]].concat())
            .reference(|a| {
                let arrays: Vec<&Array> = a[..4].iter().map(Arg::array).collect();
                let rows = product_pattern(&arrays);
                let ends = rows.iter().scan(0, |end, row| {
                    *end += row.len();
                    Some(*end)
                });
                vec![array(std::iter::once(0).chain(ends).collect()), array(rows.concat())]
            })
            .refuses(
                [patterns().to_vec(), vec![2i64.into()]].concat(),
                ErrorKind::Index,
                "index 2 is out of bounds",
            ),
        row("_csr_matmul")
            .types(SUMS)
            .gives(|_| I64)
            .skip(Check::Variants, OF_VALUES)
            .sample(factors(1, columns()))
            .sample(factors(3, 99_999i64.into()))
            .sample(factors(5, 9_999_999i64.into()))
            .reference(move |a| {
                let arrays: Vec<&Array> = [0, 1, 3, 4].map(|at| a[at].array()).to_vec();
                let rows = product_pattern(&arrays);
                let ends = rows.iter().scan(0, |end, row| {
                    *end += row.len();
                    Some(*end)
                });
                let pattern = [array(std::iter::once(0).chain(ends).collect()), array(rows.concat())];
                let typed = pattern.clone().map(|list| Arg::Typed(list, I64));
                let product = values(&[&a[..6], &typed].concat());
                [pattern.to_vec(), product].concat()
            })
            .refuses(factors(1, 2i64.into()), ErrorKind::Index, "index 2 is out of bounds"),
        row("_csr_matmul_values")
            .types(SUMS)
            .sample(call(&[0, 3, 3, 5, 6], &[0, 1, 2, 1, 2, 2]))
            .sample(call(&[0, 1, 2, 2, 2], &[2, 0]))
            .reference(values),
    ]
}

/// Substitution in float64.
fn solved(a: &[Arg]) -> Vec<Array> {
    let (values, mut x) = (a[2].array(), a[3].array().clone());
    let (upper, unit) = (a[4].flag(), a[5].flag());
    let (size, width) = (x.sizes[0], x.sizes[1]);
    let all = elements(a[0].array(), a[1].array());
    for step in 0..size {
        let row = if upper { size - 1 - step } else { step };
        for j in 0..width {
            let read = all.iter().filter(|e| e.0 == row && e.1 != row && (e.1 > row) == upper);
            let known: f64 = read.map(|e| values.data[e.2] * x.at(&[e.1, j])).sum();
            let diagonal: f64 =
                all.iter().filter(|e| e.0 == row && e.1 == row).map(|e| values.data[e.2]).sum();
            x.data[row * width + j] = (x.data[row * width + j] - known) / if unit { 1.0 } else { diagonal };
        }
    }
    vec![x]
}

fn systems() -> Vec<Row> {
    let call = |upper: bool, unit: bool, seed: u64| {
        let values = around_one(&[SQUARE.1.len()], seed);
        vec![
            longs(SQUARE.0),
            longs(SQUARE.1),
            values,
            around_one(&[3, 2], seed + 1),
            upper.into(),
            unit.into(),
        ]
    };
    let flags = [(true, false), (true, true), (false, false), (false, true)];
    let start = row("_csr_solve").types(WIDE_FLOATS).terms(8.0);
    let filled =
        flags.iter().zip(1..).fold(start, |row, ((upper, unit), seed)| row.sample(call(*upper, *unit, seed)));
    vec![filled.reference(solved)]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    let families: [fn() -> Vec<Row>; 5] = [coordinates, pointers, products, sparse_products, systems];
    let more: [fn() -> Vec<Row>; 4] = [softmaxes, matrices, selections, optimizers];
    families.iter().chain(&more).flat_map(|family| family()).collect()
}
