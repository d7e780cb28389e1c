//! Recurrent networks, against steps of each sequence by itself.

use super::special::sum;
use super::view::build;
use crate::array::Array;
use crate::row::{Arg, Check, Row, WIDE_FLOATS, none, row};
use flambeau_core::ErrorKind;
use flambeau_core::ScalarType::I64;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tanh,
    Relu,
    Gru,
    Lstm,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Tanh, Kind::Relu, Kind::Gru, Kind::Lstm];

    /// The operators of padded and of packed sequences, and of a step.
    fn names(self) -> [&'static str; 3] {
        match self {
            Kind::Tanh => ["rnn_tanh.input", "rnn_tanh.data", "rnn_tanh_cell"],
            Kind::Relu => ["rnn_relu.input", "rnn_relu.data", "rnn_relu_cell"],
            Kind::Gru => ["gru.input", "gru.data", "gru_cell"],
            Kind::Lstm => ["lstm.input", "lstm.data", "lstm_cell"],
        }
    }

    fn gates(self) -> usize {
        match self {
            Kind::Tanh | Kind::Relu => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    fn states(self) -> usize {
        if self == Kind::Lstm { 2 } else { 1 }
    }

    /// The states after a step from `states`.
    fn step(self, x: &[f64], states: &[Vec<f64>], of: &Weights<'_>) -> Vec<Vec<f64>> {
        let (of_input, of_state) =
            (product(of.params[0], x, of.bias(2)), product(of.params[1], &states[0], of.bias(3)));
        let hidden = of_input.len() / self.gates();
        let gate = |of: &[f64], nr: usize, i: usize| of[nr * hidden + i];
        let both = |nr: usize, i: usize| gate(&of_input, nr, i) + gate(&of_state, nr, i);
        match self {
            Kind::Tanh => vec![(0..hidden).map(|i| both(0, i).tanh()).collect()],
            Kind::Relu => vec![(0..hidden).map(|i| both(0, i).max(0.0)).collect()],
            Kind::Gru => {
                let next = |i: usize| {
                    let (reset, keep) = (sigmoid(both(0, i)), sigmoid(both(1, i)));
                    let new = (gate(&of_input, 2, i) + reset * gate(&of_state, 2, i)).tanh();
                    (1.0 - keep) * new + keep * states[0][i]
                };
                vec![(0..hidden).map(next).collect()]
            }
            Kind::Lstm => {
                let memory =
                    |i: usize| sigmoid(both(1, i)) * states[1][i] + sigmoid(both(0, i)) * both(2, i).tanh();
                let shown: Vec<f64> = (0..hidden).map(|i| sigmoid(both(3, i)) * memory(i).tanh()).collect();
                let shown = of.projection().map_or(shown.clone(), |weight| product(weight, &shown, None));
                vec![shown, (0..hidden).map(memory).collect()]
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// A matrix times a vector, with a bias.
fn product(weight: &Array, x: &[f64], bias: Option<&Array>) -> Vec<f64> {
    let row = |r: usize| sum(x.iter().enumerate().map(|(j, x)| x * weight.at(&[r, j])));
    (0..weight.sizes[0]).map(|r| row(r) + bias.map_or(0.0, |bias| bias.at(&[r]))).collect()
}

/// The parameters of one layer in one direction.
struct Weights<'a> {
    params: Vec<&'a Array>,
    has_biases: bool,
}

impl<'a> Weights<'a> {
    fn bias(&self, nr: usize) -> Option<&'a Array> {
        self.params.get(nr).copied().filter(|_| self.has_biases)
    }

    fn projection(&self) -> Option<&'a Array> {
        self.params.get(if self.has_biases { 4 } else { 2 }).copied()
    }
}

/// A call of a network: the arguments after the sequences and their sizes.
struct Call<'a> {
    kind: Kind,
    begin: Vec<&'a Array>,
    passes: Vec<Weights<'a>>,
    directions: usize,
}

fn arrays(arg: &Arg) -> Vec<&Array> {
    match arg {
        Arg::Tensors(list) => list.iter().collect(),
        one => vec![one.array()],
    }
}

impl<'a> Call<'a> {
    /// `args` are the states, the parameters, `has_biases`, `num_layers`, dropout, `train` and `bidirectional`.
    fn of(kind: Kind, args: &'a [Arg]) -> Self {
        let (params, has_biases) = (arrays(&args[1]), args[2].flag());
        let directions = if args[6].flag() { 2 } else { 1 };
        let each = params.len() / (args[3].number() as usize * directions);
        let passes = params.chunks(each).map(|params| Weights { params: params.to_vec(), has_biases });
        Call { kind, begin: arrays(&args[0]), passes: passes.collect(), directions }
    }

    /// The outputs of the steps of sequence number `b`, and the states at the end of each pass.
    fn sequence(&self, b: usize, steps: Vec<Vec<f64>>) -> (Vec<Vec<f64>>, Vec<Vec<Vec<f64>>>) {
        let (mut x, mut ends) = (steps, Vec::new());
        for (layer, passes) in self.passes.chunks(self.directions).enumerate() {
            let mut outputs = vec![Vec::new(); x.len()];
            for (direction, weights) in passes.iter().enumerate() {
                let pass = layer * self.directions + direction;
                let of_pass = |state: &&Array| (0..state.sizes[2]).map(|i| state.at(&[pass, b, i])).collect();
                let mut states: Vec<Vec<f64>> = self.begin.iter().map(of_pass).collect();
                let mut order: Vec<usize> = (0..x.len()).collect();
                if direction == 1 {
                    order.reverse();
                }
                for t in order {
                    states = self.kind.step(&x[t], &states, weights);
                    outputs[t].extend(&states[0]);
                }
                ends.push(states);
            }
            x = outputs;
        }
        (x, ends)
    }

    /// The states after the last steps, of the ends of all sequences.
    fn last(&self, ends: &[Vec<Vec<Vec<f64>>>]) -> Vec<Array> {
        let state = |nr: usize| {
            let sizes = [self.passes.len(), ends.len(), ends[0][0][nr].len()];
            build(&sizes, |at| ends[at[1]][at[0]][nr][at[2]])
        };
        (0..self.kind.states()).map(state).collect()
    }
}

/// The results for padded sequences.
fn padded(kind: Kind, args: &[Arg]) -> Vec<Array> {
    let x = args[0].array();
    let first = args[8].flag();
    let x = if first { x.permute(&[1, 0, 2]) } else { x.clone() };
    let call = Call::of(kind, &args[1..]);
    let steps = |b: usize| -> Vec<Vec<f64>> {
        (0..x.sizes[0]).map(|t| (0..x.sizes[2]).map(|i| x.at(&[t, b, i])).collect()).collect()
    };
    let (outputs, ends): (Vec<_>, Vec<_>) = (0..x.sizes[1]).map(|b| call.sequence(b, steps(b))).unzip();
    let output = build(&[x.sizes[0], x.sizes[1], outputs[0][0].len()], |at| outputs[at[1]][at[0]][at[2]]);
    let output = if first { output.permute(&[1, 0, 2]) } else { output };
    [vec![output], call.last(&ends)].concat()
}

/// The results for packed sequences.
fn packed(kind: Kind, args: &[Arg]) -> Vec<Array> {
    let (data, sizes) = (args[0].array(), args[1].array());
    let call = Call::of(kind, &args[2..]);
    let sizes: Vec<usize> = sizes.data.iter().map(|size| *size as usize).collect();
    let row = |t: usize, b: usize| sizes[..t].iter().sum::<usize>() + b;
    let steps = |b: usize| -> Vec<Vec<f64>> {
        let lasts = |t: &usize| sizes[*t] > b;
        let step = |t: usize| (0..data.sizes[1]).map(|i| data.at(&[row(t, b), i])).collect();
        (0..sizes.len()).filter(lasts).map(step).collect()
    };
    let (outputs, ends): (Vec<_>, Vec<_>) = (0..sizes[0]).map(|b| call.sequence(b, steps(b))).unzip();
    let positions: Vec<[usize; 2]> =
        (0..sizes.len()).flat_map(|t| (0..sizes[t]).map(move |b| [t, b])).collect();
    let output = build(&[data.sizes[0], outputs[0][0].len()], |at| {
        let [t, b] = positions[at[0]];
        outputs[b][t][at[1]]
    });
    [vec![output], call.last(&ends)].concat()
}

/// The sizes of a network of so many layers.
#[derive(Clone, Copy)]
struct Sizes {
    input: usize,
    hidden: usize,
    projected: Option<usize>,
    layers: usize,
    directions: usize,
    has_biases: bool,
}

const PLAIN: Sizes =
    Sizes { input: 3, hidden: 2, projected: None, layers: 1, directions: 1, has_biases: true };

fn fill(sizes: &[usize], seed: usize) -> Array {
    Array::fill(sizes, -1.0..1.0, seed as u64)
}

fn states(kind: Kind, of: Sizes, batch: usize) -> Arg {
    let sizes = [of.projected.unwrap_or(of.hidden), of.hidden];
    let state = |nr: usize| fill(&[of.layers * of.directions, batch, sizes[nr]], 40 + nr);
    if kind == Kind::Lstm { Arg::Tensors(vec![state(0), state(1)]) } else { state(0).into() }
}

/// The states, the parameters and the options.
fn options(kind: Kind, of: Sizes, batch: usize) -> Vec<Arg> {
    let (rows, shown) = (kind.gates() * of.hidden, of.projected.unwrap_or(of.hidden));
    let mut params = Vec::new();
    for pass in 0..of.layers * of.directions {
        let width = if pass < of.directions { of.input } else { of.directions * shown };
        params.extend([fill(&[rows, width], 10 * pass + 1), fill(&[rows, shown], 10 * pass + 2)]);
        if of.has_biases {
            params.extend([fill(&[rows], 10 * pass + 3), fill(&[rows], 10 * pass + 4)]);
        }
        params.extend(of.projected.map(|size| fill(&[size, of.hidden], 10 * pass + 5)));
    }
    let flags = (of.has_biases, of.layers as i64, of.directions == 2);
    let params = Arg::Tensors(params);
    vec![
        states(kind, of, batch),
        params,
        flags.0.into(),
        flags.1.into(),
        0.0.into(),
        false.into(),
        flags.2.into(),
    ]
}

fn padded_call(kind: Kind, of: Sizes, [length, batch]: [usize; 2], first: bool) -> Vec<Arg> {
    let sizes = if first { [batch, length, of.input] } else { [length, batch, of.input] };
    [vec![fill(&sizes, 0).into()], options(kind, of, batch), vec![first.into()]].concat()
}

fn packed_call(kind: Kind, of: Sizes, sizes: &[usize]) -> Vec<Arg> {
    let data = fill(&[sizes.iter().sum(), of.input], 0);
    let batch_sizes = Array::new(&[sizes.len()], sizes.iter().map(|size| *size as f64).collect());
    [vec![data.into(), Arg::Typed(batch_sizes, I64)], options(kind, of, sizes[0])].concat()
}

fn cell_call(kind: Kind, batch: &[usize], biases: [bool; 2]) -> Vec<Arg> {
    let rows = kind.gates() * 2;
    let state = |nr: usize| fill(&[batch, &[2]].concat(), 40 + nr);
    let hx = if kind == Kind::Lstm { Arg::Tensors(vec![state(0), state(1)]) } else { state(0).into() };
    let bias = |nr: usize| if biases[nr] { fill(&[rows], 3 + nr).into() } else { none() };
    let x = fill(&[batch, &[3]].concat(), 0);
    vec![x.into(), hx, fill(&[rows, 3], 1).into(), fill(&[rows, 2], 2).into(), bias(0), bias(1)]
}

/// The states after a step of each row.
fn cell(kind: Kind, args: &[Arg]) -> Vec<Array> {
    let (x, hx) = (args[0].array(), arrays(&args[1]));
    let zeros = Array::new(&[args[2].array().sizes[0]], vec![0.0; args[2].array().sizes[0]]);
    let bias = |nr: usize| args[nr].optional().unwrap_or(&zeros);
    let params = vec![args[2].array(), args[3].array(), bias(4), bias(5)];
    let weights = Weights { params, has_biases: true };
    let row = |array: &Array, b: usize| {
        let width = array.sizes[array.sizes.len() - 1];
        array.data[b * width..][..width].to_vec()
    };
    let rows: usize = x.sizes[..x.sizes.len() - 1].iter().product();
    let stepped = |b: usize| {
        let states: Vec<Vec<f64>> = hx.iter().map(|state| row(state, b)).collect();
        kind.step(&row(x, b), &states, &weights)
    };
    let made: Vec<Vec<Vec<f64>>> = (0..rows).map(stepped).collect();
    let state = |nr: usize| Array::new(&hx[nr].sizes, made.iter().flat_map(|of| of[nr].clone()).collect());
    (0..kind.states()).map(state).collect()
}

fn rows_of(kind: Kind) -> [Row; 3] {
    let start = |name: &'static str| row(name).types(WIDE_FLOATS).ulps(8.0).terms(2.0);
    let [padded_name, packed_name, cell_name] = kind.names();
    let deep = Sizes { layers: 2, directions: 2, ..PLAIN };
    let bare = Sizes { has_biases: false, ..PLAIN };
    let mut of_padded = start(padded_name)
        .sample(padded_call(kind, PLAIN, [3, 2], false))
        .sample(padded_call(kind, deep, [2, 1], true))
        .sample(padded_call(kind, bare, [1, 3], true));
    let mut of_packed = start(packed_name)
        .skip(Check::Variants, "the sizes of batches are values, which Meta has not")
        .sample(packed_call(kind, PLAIN, &[3, 2, 2]))
        .sample(packed_call(kind, deep, &[2, 1]))
        .sample(packed_call(kind, bare, &[1]));
    if kind == Kind::Lstm {
        let projected = Sizes { projected: Some(1), ..deep };
        of_padded = of_padded.sample(padded_call(kind, projected, [2, 2], false));
        of_packed = of_packed.sample(packed_call(kind, projected, &[2, 1]));
    }
    let mut wrong = padded_call(kind, PLAIN, [3, 2], false);
    wrong[1] = states(kind, PLAIN, 3);
    let mut rising = packed_call(kind, PLAIN, &[3, 2, 2]);
    rising[1] = Arg::Typed(Array::new(&[3], vec![2.0, 2.0, 3.0]), I64);
    let mut few = padded_call(kind, PLAIN, [3, 2], false);
    few[2] = Arg::Tensors(vec![fill(&[2, 3], 1)]);
    [
        of_padded
            .reference(move |args| padded(kind, args))
            .refuses(wrong, ErrorKind::Shape, "expected hidden states")
            .refuses(few, ErrorKind::InvalidArgument, "parameters for each"),
        of_packed.reference(move |args| packed(kind, args)).refuses(
            rising,
            ErrorKind::InvalidArgument,
            "sizes that fall",
        ),
        start(cell_name)
            .sample(cell_call(kind, &[3], [true, true]))
            .sample(cell_call(kind, &[2], [false, false]))
            .sample(cell_call(kind, &[], [true, false]))
            .reference(move |args| cell(kind, args)),
    ]
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    Kind::ALL.into_iter().flat_map(rows_of).collect()
}
