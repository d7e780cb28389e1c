//! `embedding_bag`: rows of a table, reduced bag by bag, and the gradients of the table and the factors.

use super::linalg::whole;
use super::view::build;
use crate::array::Array;
use crate::row::{Arg, FLOATS, Row, WIDE_FLOATS, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;
use flambeau_ops::dispatch::Value;

/// Indices into a table, where bags begin, and the index that does not count.
struct Bags {
    rows: usize,
    columns: usize,
    indices: Vec<usize>,
    offsets: Vec<usize>,
    padding: i64,
}

/// With an empty bag, repeated indices and one large enough for several threads.
fn cases() -> Vec<Bags> {
    let bags = |rows, columns, indices: &[usize], offsets: &[usize], padding| Bags {
        rows,
        columns,
        indices: indices.to_vec(),
        offsets: offsets.to_vec(),
        padding,
    };
    let many: Vec<usize> = (0..900).map(|i| i * 7 % 50).collect();
    vec![
        bags(4, 2, &[1, 0, 3, 1, 1], &[0, 2, 2], -1),
        bags(3, 2, &[2, 0, 2, 1], &[0, 1], 0),
        bags(2, 3, &[0, 1], &[0, 2], -1),
        bags(50, 90, &many, &(0..300).map(|b| 3 * b).collect::<Vec<_>>(), 7),
    ]
}

impl Bags {
    fn longs(values: &[usize]) -> Arg {
        Arg::Typed(Array::new(&[values.len()], values.iter().map(|v| *v as f64).collect()), I64)
    }

    fn range(&self, bag: usize) -> std::ops::Range<usize> {
        self.offsets[bag]..self.offsets.get(bag + 1).copied().unwrap_or(self.indices.len())
    }

    /// The positions among the indices that belong to a bag, without padding.
    fn positions(&self, bag: usize) -> Vec<usize> {
        self.range(bag).filter(|position| self.indices[*position] as i64 != self.padding).collect()
    }

    fn offset2bag(&self) -> Array {
        let bag = |position: usize| (0..self.offsets.len()).find(|bag| self.range(*bag).contains(&position));
        build(&[self.indices.len()], |i| bag(i[0]).unwrap_or(0) as f64)
    }

    fn sizes(&self) -> Array {
        build(&[self.offsets.len()], |i| self.positions(i[0]).len() as f64)
    }

    /// The row of the maximum of each bag and column.
    fn argmax(&self, table: &Array) -> Array {
        build(&[self.offsets.len(), self.columns], |i| {
            let value = |row: usize| table.at(&[row, i[1]]);
            let rows = self.positions(i[0]).into_iter().map(|position| self.indices[position]);
            rows.reduce(|best, row| if value(row) > value(best) { row } else { best }).unwrap_or(0) as f64
        })
    }

    /// What the operator gives in each mode.
    fn bagged(&self, table: &Array, scale: Option<&Array>, mode: usize) -> Vec<Array> {
        let argmax = self.argmax(table);
        let element = |i: &[usize]| {
            let positions = self.positions(i[0]);
            let factor = |position: usize| scale.map_or(1.0, |scale| scale.data[position]);
            let sum: f64 = positions.iter().map(|p| table.at(&[self.indices[*p], i[1]]) * factor(*p)).sum();
            match mode {
                _ if positions.is_empty() => 0.0,
                0 => sum,
                1 => sum / positions.len() as f64,
                _ => table.at(&[argmax.at(i) as usize, i[1]]),
            }
        };
        let out = build(&[self.offsets.len(), self.columns], element);
        let last = if mode == 2 { argmax } else { self.sizes() };
        vec![out, self.offset2bag(), self.sizes(), last]
    }

    /// The gradient of the table.
    fn backward(&self, grad: &Array, table: &Array, scale: Option<&Array>, mode: usize) -> Array {
        let mut made = Array::new(&[self.rows, self.columns], vec![0.0; self.rows * self.columns]);
        let argmax = self.argmax(table);
        for bag in 0..self.offsets.len() {
            let positions = self.positions(bag);
            for column in 0..self.columns {
                let g = grad.at(&[bag, column]);
                if mode == 2 && !positions.is_empty() {
                    made.data[argmax.at(&[bag, column]) as usize * self.columns + column] += g;
                }
                for position in positions.iter().filter(|_| mode != 2) {
                    let count = if mode == 1 { positions.len() as f64 } else { 1.0 };
                    let factor = scale.map_or(1.0, |scale| scale.data[*position]) / count;
                    made.data[self.indices[*position] * self.columns + column] += g * factor;
                }
            }
        }
        made
    }

    /// From the arguments of a call that begins with table, indices and offsets.
    fn of(a: &[Arg], padding: i64) -> Bags {
        let list = |arg: &Arg| arg.array().data.iter().map(|v| *v as usize).collect();
        let [rows, columns] = [0, 1].map(|d| a[0].array().sizes[d]);
        Bags { rows, columns, indices: list(&a[1]), offsets: list(&a[2]), padding }
    }
}

/// Different in every row of a column, so that the maximum is unique.
fn table(bags: &Bags) -> Array {
    build(&[bags.rows, bags.columns], |i| ((i[0] * 5 + i[1] * 3) % 53) as f64 - 20.0)
}

/// All modes, `sum` with and without factors.
fn modes(bags: &Bags) -> Vec<(i64, Arg)> {
    let count = bags.indices.len();
    vec![(0, none()), (0, whole(&[count], 3).into()), (1, none()), (2, none())]
}

fn call(bags: &Bags, (mode, scale): (i64, Arg)) -> Vec<Arg> {
    let tensors = vec![table(bags).into(), Bags::longs(&bags.indices), Bags::longs(&bags.offsets)];
    [tensors, vec![false.into(), mode.into(), false.into(), scale, false.into()]].concat()
}

fn forwards() -> Vec<Row> {
    let samples = |row: Row, padded: bool| {
        cases().iter().fold(row, |row, bags| {
            let rest = if padded { vec![bags.padding.into()] } else { vec![] };
            modes(bags)
                .into_iter()
                .fold(row, |row, mode| row.sample([call(bags, mode), rest.clone()].concat()))
        })
    };
    let results = |a: &[Arg], padding: i64| {
        Bags::of(a, padding).bagged(a[0].array(), a[6].optional(), a[4].number() as usize)
    };
    let start = |name| row(name).types(FLOATS).terms(64.0);
    let bad = |indices: &[usize], offsets: &[usize], mode: i64, scale: Arg| {
        let bags =
            Bags { rows: 3, columns: 2, indices: indices.to_vec(), offsets: offsets.to_vec(), padding: -1 };
        call(&bags, (mode, scale))
    };
    let invalid = ErrorKind::InvalidArgument;
    vec![
        samples(start("embedding_bag"), false)
            .reference(move |a| results(a, -1))
            .refuses(bad(&[0, 3], &[0], 0, none()), invalid, "idx < num_embeddings")
            .refuses(bad(&[0, 1], &[1], 0, none()), invalid, "offsets[0] has to be 0")
            .refuses(bad(&[0, 1], &[0, 3], 0, none()), invalid, "can not be greater")
            .refuses(bad(&[0, 1], &[0], 3, none()), invalid, "mode has to be")
            .refuses(bad(&[0, 1], &[0], 1, whole(&[2], 3).into()), invalid, "only supported for mode='sum'"),
        samples(start("_embedding_bag"), true).reference(move |a| results(a, a[8].number() as i64)),
        samples(start("_embedding_bag_forward_only"), true)
            .reference(move |a| results(a, a[8].number() as i64)),
        cases()
            .iter()
            .filter(|bags| bags.padding >= 0)
            .fold(start("embedding_bag.padding_idx"), |row, bags| {
                row.sample([call(bags, (0, none())), vec![(bags.padding - bags.rows as i64).into()]].concat())
            })
            .sample([call(&cases()[0], (1, none())), vec![none()]].concat())
            .reference(move |a| {
                let rows = a[0].array().sizes[0] as i64;
                let none = matches!(a[8], Arg::Value(Value::None));
                results(a, if none { -1 } else { a[8].number() as i64 + rows })
            })
            .refuses(
                [call(&cases()[0], (0, none())), vec![4i64.into()]].concat(),
                invalid,
                "padding_idx must be within",
            ),
        included(start("_embedding_bag")),
    ]
}

/// Where the end of the last bag is given too.
fn included(row: Row) -> Row {
    let bags = || cases().remove(0);
    let mut args = [call(&bags(), (1, none())), vec![(-1i64).into()]].concat();
    args[2] = Bags::longs(&[bags().offsets, vec![bags().indices.len()]].concat());
    args[7] = true.into();
    row.sample(args).reference(move |a| bags().bagged(a[0].array(), None, 1))
}

fn backwards() -> Vec<Row> {
    let sample = |bags: &Bags, (mode, scale): (i64, Arg), name: &str| {
        let grad = whole(&[bags.offsets.len(), bags.columns], 8).into();
        let typed = |array| Arg::Typed(array, I64);
        let last = if mode == 2 { bags.argmax(&table(bags)) } else { bags.sizes() };
        let offsets = if name.contains("dense") { vec![] } else { vec![Bags::longs(&bags.offsets)] };
        let sparse = if name.contains("dense") { vec![] } else { vec![false.into()] };
        let found = vec![typed(bags.offset2bag()), typed(bags.sizes()), typed(last)];
        let numbers = vec![(bags.rows as i64).into(), false.into(), mode.into()];
        let rest = vec![scale, bags.padding.into()];
        [vec![grad, Bags::longs(&bags.indices)], offsets, found, numbers, sparse, rest].concat()
    };
    let rows_of = |name: &'static str| {
        let start = row(name).types(WIDE_FLOATS).terms(256.0);
        let filled = cases().iter().fold(start, |row, bags| {
            modes(bags).into_iter().fold(row, |row, mode| row.sample(sample(bags, mode, name)))
        });
        let (of_mode, of_scale) = if name.contains("dense") { (7, 8) } else { (8, 10) };
        filled.reference(move |a| {
            let named = |bags: &Bags| bags.indices.len() == a[1].array().data.len();
            let bags = cases().into_iter().find(named).unwrap_or_else(|| panic!("no such bags"));
            let (mode, scale) = (a[of_mode].number() as usize, a[of_scale].optional());
            vec![bags.backward(a[0].array(), &table(&bags), scale, mode)]
        })
    };
    let factors = cases().into_iter().fold(
        row("_embedding_bag_per_sample_weights_backward").types(WIDE_FLOATS).terms(4096.0),
        |row, bags| {
            let grad = whole(&[bags.offsets.len(), bags.columns], 8).into();
            let lists = vec![Bags::longs(&bags.indices), Bags::longs(&bags.offsets)];
            let rest = vec![Arg::Typed(bags.offset2bag(), I64), 0i64.into(), bags.padding.into()];
            row.sample([vec![grad, table(&bags).into()], lists, rest].concat())
        },
    );
    vec![
        rows_of("_embedding_bag_backward"),
        rows_of("_embedding_bag_dense_backward"),
        factors.reference(|a| {
            let (g, bags) = (a[0].array(), Bags::of(&a[1..], a[6].number() as i64));
            let bag_of = bags.offset2bag();
            vec![build(&[bags.indices.len()], |i| {
                let (row, bag) = (bags.indices[i[0]], bag_of.data[i[0]] as usize);
                let product = |c: usize| g.at(&[bag, c]) * a[1].array().at(&[row, c]);
                if row as i64 == bags.padding { 0.0 } else { (0..bags.columns).map(product).sum() }
            })]
        }),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    forwards().into_iter().chain(backwards()).collect()
}
