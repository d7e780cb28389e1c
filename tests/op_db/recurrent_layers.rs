//! All steps of a layer of a recurrent network from the products of its inputs, and their derivative, sequence by sequence.

use crate::array::Array;
use crate::row::{Arg, Row, WIDE_FLOATS, ints, none, row};
use flambeau_core::ErrorKind;

const RELU: i64 = 0;
const TANH: i64 = 1;
const LSTM: i64 = 2;
const GRU: i64 = 3;

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn gates(mode: i64) -> usize {
    match mode {
        LSTM => 4,
        GRU => 3,
        _ => 1,
    }
}

/// The parts of the size of a state that are saved of each step: of the memory, and of the cell.
fn saved(mode: i64) -> [usize; 2] {
    match mode {
        LSTM => [1, 4],
        GRU => [0, 5],
        _ => [0, 0],
    }
}

/// The steps of a call, from its arguments after the tensors.
struct Steps {
    sizes: Vec<usize>,
    mode: i64,
    reverse: bool,
}

impl Steps {
    fn of(args: &[Arg]) -> Self {
        Steps { sizes: args[0].dims(0), mode: args[1].number() as i64, reverse: args[2].flag() }
    }

    fn total(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// The number and the first row of each step, in the order of computation.
    fn order(&self) -> Vec<(usize, usize)> {
        let first = |t: usize| self.sizes[..t].iter().sum::<usize>();
        let mut order: Vec<(usize, usize)> = (0..self.sizes.len()).map(|t| (t, first(t))).collect();
        if self.reverse {
            order.reverse();
        }
        order
    }

    /// The row of sequence `b` in the step before, for each step in the order of computation; none where the sequence begins.
    fn row_before(&self, at: usize, b: usize) -> Option<usize> {
        let (t, first) = self.order()[at.checked_sub(1)?];
        (b < self.sizes[t]).then_some(first + b)
    }
}

/// An array of rows, or of no elements without columns.
fn rows_array(rows: Vec<Vec<f64>>) -> Array {
    let columns = rows.first().map_or(0, Vec::len);
    if columns == 0 {
        return Array::new(&[0], vec![]);
    }
    Array::new(&[rows.len(), columns], rows.concat())
}

fn row_of(array: &Array, row: usize) -> Vec<f64> {
    let columns = array.sizes[1];
    array.data[row * columns..][..columns].to_vec()
}

/// The rows of a state, or empty ones where there is none.
fn state_of(arg: &Arg, batch: usize) -> Vec<Vec<f64>> {
    (0..batch).map(|b| arg.optional().map_or(vec![], |state| row_of(state, b))).collect()
}

/// What is shown and remembered after a step, and what is saved of it.
fn cell(mode: i64, x: &[f64], h: &[f64], shown: &[f64], memory: &[f64]) -> [Vec<f64>; 3] {
    let n = shown.len();
    let gate = |of: &[f64], nr: usize, i: usize| of[nr * n + i];
    let sum = |nr: usize, i: usize| gate(x, nr, i) + gate(h, nr, i);
    let of_gates = |nonlinear: &dyn Fn(usize, usize) -> f64, count: usize| -> Vec<f64> {
        (0..count * n).map(|at| nonlinear(at / n, at % n)).collect()
    };
    match mode {
        LSTM => {
            let y = of_gates(&|nr, i| if nr == 2 { sum(nr, i).tanh() } else { sigmoid(sum(nr, i)) }, 4);
            let after: Vec<f64> = (0..n).map(|i| y[n + i] * memory[i] + y[i] * y[2 * n + i]).collect();
            [(0..n).map(|i| y[3 * n + i] * after[i].tanh()).collect(), after, y]
        }
        GRU => {
            let new = |i: usize| (gate(x, 2, i) + sigmoid(sum(0, i)) * gate(h, 2, i)).tanh();
            let y = of_gates(
                &|nr, i| match nr {
                    0 | 1 => sigmoid(sum(nr, i)),
                    2 => new(i),
                    3 => shown[i],
                    _ => gate(h, 2, i),
                },
                5,
            );
            [(0..n).map(|i| (1.0 - y[n + i]) * y[2 * n + i] + y[n + i] * shown[i]).collect(), vec![], y]
        }
        TANH => [(0..n).map(|i| sum(0, i).tanh()).collect(), vec![], vec![]],
        _ => [(0..n).map(|i| sum(0, i).max(0.0)).collect(), vec![], vec![]],
    }
}

/// The outputs, the states at the end, and what is saved.
fn layer(args: &[Arg]) -> Vec<Array> {
    let (x, weight, hx) = (args[0].array(), args[1].array(), args[3].array());
    let (steps, [batch, n]) = (Steps::of(&args[5..]), [hx.sizes[0], hx.sizes[1]]);
    let (mut shown, mut memory) = (state_of(&args[3], batch), state_of(&args[4], batch));
    let mut made = vec![[vec![], vec![], vec![]]; steps.total()];
    for (t, first) in steps.order() {
        for b in 0..steps.sizes[t] {
            let product = |r: usize| (0..n).map(|j| weight.at(&[r, j]) * shown[b][j]).sum::<f64>();
            let bias = |r: usize| args[2].optional().map_or(0.0, |bias| bias.data[r]);
            let h: Vec<f64> = (0..weight.sizes[0]).map(|r| product(r) + bias(r)).collect();
            let after = cell(steps.mode, &row_of(x, first + b), &h, &shown[b], &memory[b]);
            (shown[b], memory[b]) = (after[0].clone(), after[1].clone());
            made[first + b] = after;
        }
    }
    let of = |nr: usize| rows_array(made.iter().map(|row| row[nr].clone()).collect());
    vec![of(0), rows_array(shown), rows_array(memory), of(1), of(2)]
}

/// The gradients of the products of input and state, of the state that is kept and of the memory before, from those after a step.
fn cell_backward(
    mode: i64,
    [shown, memory, of_saved]: [&[f64]; 3],
    [output, cells, y]: [&[f64]; 3],
    before: &[f64],
) -> [Vec<f64>; 4] {
    let n = output.len();
    let extra = |nr: usize, i: usize| of_saved.get(nr * n + i).copied().unwrap_or(0.0);
    let gate = |nr: usize, i: usize| y[nr * n + i];
    let slope = |nr: usize, i: usize| gate(nr, i) * (1.0 - gate(nr, i));
    let tanh_slope = |nr: usize, i: usize| 1.0 - gate(nr, i) * gate(nr, i);
    let of_gates = |f: &dyn Fn(usize, usize) -> f64, count: usize| -> Vec<f64> {
        (0..count * n).map(|at| f(at / n, at % n)).collect()
    };
    match mode {
        LSTM => {
            let tanh = |i: usize| cells[i].tanh();
            let of_memory = |i: usize| memory[i] + shown[i] * gate(3, i) * (1.0 - tanh(i) * tanh(i));
            let by = of_gates(
                &|nr, i| match nr {
                    0 => (of_memory(i) * gate(2, i) + extra(0, i)) * slope(0, i),
                    1 => (of_memory(i) * before[i] + extra(1, i)) * slope(1, i),
                    2 => (of_memory(i) * gate(0, i) + extra(2, i)) * tanh_slope(2, i),
                    _ => (shown[i] * tanh(i) + extra(3, i)) * slope(3, i),
                },
                4,
            );
            [by.clone(), by, vec![0.0; n], (0..n).map(|i| of_memory(i) * gate(1, i)).collect()]
        }
        GRU => {
            let new = |i: usize| (shown[i] * (1.0 - gate(1, i)) + extra(2, i)) * tanh_slope(2, i);
            let by = |last: &dyn Fn(usize) -> f64| {
                of_gates(
                    &|nr, i| match nr {
                        0 => (new(i) * gate(4, i) + extra(0, i)) * slope(0, i),
                        1 => (shown[i] * (gate(3, i) - gate(2, i)) + extra(1, i)) * slope(1, i),
                        _ => last(i),
                    },
                    3,
                )
            };
            let kept = (0..n).map(|i| shown[i] * gate(1, i) + extra(3, i)).collect();
            [by(&new), by(&|i| new(i) * gate(0, i) + extra(4, i)), kept, vec![]]
        }
        TANH => {
            let by: Vec<f64> = (0..n).map(|i| shown[i] * (1.0 - output[i] * output[i])).collect();
            [by.clone(), by, vec![0.0; n], vec![]]
        }
        _ => {
            let by: Vec<f64> = (0..n).map(|i| if output[i] > 0.0 { shown[i] } else { 0.0 }).collect();
            [by.clone(), by, vec![0.0; n], vec![]]
        }
    }
}

/// The gradients of the products, the weight, the bias and the states.
fn layer_backward(args: &[Arg]) -> Vec<Array> {
    let (weight, hx, output) = (args[5].array(), args[6].array(), args[8].array());
    let (steps, [batch, n]) = (Steps::of(&args[11..]), [hx.sizes[0], hx.sizes[1]]);
    let is_lstm = steps.mode == LSTM;
    let start = |nr: usize| match args[nr].optional() {
        Some(grad) => (0..batch).map(|b| row_of(grad, b)).collect(),
        None => vec![vec![0.0; n]; batch],
    };
    let (mut shown, mut memory): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (start(1), start(2));
    let row_or = |arg: &Arg, row: usize| match arg.optional() {
        Some(all) if all.sizes.len() == 2 => row_of(all, row),
        _ => vec![],
    };
    let mut of_input = vec![vec![]; steps.total()];
    let (mut of_weight, mut of_bias) = (vec![0.0; weight.data.len()], vec![0.0; weight.sizes[0]]);
    for (at, (t, first)) in steps.order().into_iter().enumerate().rev() {
        for b in 0..steps.sizes[t] {
            let row = first + b;
            let plus = |a: &[f64], other: Vec<f64>| -> Vec<f64> {
                a.iter().enumerate().map(|(i, a)| a + other.get(i).copied().unwrap_or(0.0)).collect()
            };
            let grad = plus(&shown[b], row_or(&args[0], row));
            let of_memory = plus(&memory[b], row_or(&args[3], row));
            let before = |all: &Arg, first: &Arg| match steps.row_before(at, b) {
                Some(row) => row_or(all, row),
                None => row_or(first, b),
            };
            let (shown_before, memory_before) = (before(&args[8], &args[6]), before(&args[9], &args[7]));
            let [by_input, by_state, kept, by_memory] = cell_backward(
                steps.mode,
                [&grad, &of_memory, &row_or(&args[4], row)],
                [&row_of(output, row), &row_or(&args[9], row), &row_or(&args[10], row)],
                &memory_before,
            );
            for (r, by) in by_state.iter().enumerate() {
                of_bias[r] += by;
                (0..n).for_each(|j| of_weight[r * n + j] += by * shown_before[j]);
            }
            let product =
                |j: usize| by_state.iter().enumerate().map(|(r, by)| by * weight.at(&[r, j])).sum::<f64>();
            shown[b] = (0..n).map(|j| kept[j] + product(j)).collect();
            if is_lstm {
                memory[b] = by_memory;
            }
            of_input[row] = by_input;
        }
    }
    let of_memory = if is_lstm { rows_array(memory) } else { Array::new(&[0], vec![]) };
    vec![
        rows_array(of_input),
        Array::new(&weight.sizes, of_weight),
        Array::new(&[of_bias.len()], of_bias),
        rows_array(shown),
        of_memory,
    ]
}

fn fill(sizes: &[usize], seed: u64) -> Array {
    Array::fill(sizes, -1.0..1.0, seed)
}

/// The arguments after the tensors.
fn options(mode: i64, sizes: &[i64], reverse: bool) -> Vec<Arg> {
    vec![ints(sizes), mode.into(), reverse.into()]
}

fn call(mode: i64, sizes: &[i64], n: usize, reverse: bool, has_bias: bool) -> Vec<Arg> {
    let (total, batch) = (sizes.iter().sum::<i64>() as usize, sizes[0] as usize);
    let rows = gates(mode) * n;
    let tensors = vec![
        fill(&[total, rows], 0).into(),
        fill(&[rows, n], 1).into(),
        if has_bias { fill(&[rows], 2).into() } else { none() },
        fill(&[batch, n], 3).into(),
        if mode == LSTM { fill(&[batch, n], 4).into() } else { none() },
    ];
    [tensors, options(mode, sizes, reverse)].concat()
}

/// `grads` says which gradients there are: of the output, the states, and what is saved.
fn backward_call(mode: i64, sizes: &[i64], n: usize, reverse: bool, grads: [bool; 5]) -> Vec<Arg> {
    let (total, batch) = (sizes.iter().sum::<i64>() as usize, sizes[0] as usize);
    let (rows, [cells, of_cell]) = (gates(mode) * n, saved(mode));
    let saved_rows = |parts: usize, seed: u64| match parts {
        0 => Array::new(&[0], vec![]),
        // What sigmoid returns, and nearly what tanh does.
        _ => Array::fill(&[total, parts * n], 0.1..0.9, seed),
    };
    let grad = |nr: usize, array: Array| if grads[nr] { array.into() } else { none() };
    let tensors = vec![
        grad(0, fill(&[total, n], 0)),
        grad(1, fill(&[batch, n], 1)),
        grad(2, if cells > 0 { fill(&[batch, n], 2) } else { Array::new(&[0], vec![]) }),
        grad(3, saved_rows(cells, 3)),
        grad(4, saved_rows(of_cell, 4)),
        fill(&[rows, n], 5).into(),
        fill(&[batch, n], 6).into(),
        if cells > 0 { fill(&[batch, n], 7).into() } else { none() },
        fill(&[total, n], 8).into(),
        saved_rows(cells, 9).into(),
        saved_rows(of_cell, 10).into(),
    ];
    [tensors, options(mode, sizes, reverse), vec![vec![true; 5].into()]].concat()
}

fn forward_row() -> Row {
    let mut rising = call(TANH, &[2, 2, 1], 3, false, false);
    rising[5] = ints(&[2, 1, 2]);
    let mut without_memory = call(LSTM, &[2], 3, false, false);
    without_memory[4] = none();
    let mut unknown = call(TANH, &[2], 3, false, false);
    unknown[6] = 4.into();
    let mut made = row("_recurrent_layer").types(WIDE_FLOATS).ulps(16.0).terms(4.0);
    // Its rows are so many that larger states are worth several threads.
    made = made.sample(call(TANH, &[64; 4], 2, false, true));
    for mode in [RELU, TANH, LSTM, GRU] {
        made = made
            .sample(call(mode, &[2, 2, 2], 3, false, true))
            .sample(call(mode, &[3, 2, 1], 2, true, false))
            .sample(call(mode, &[3, 3, 1], 2, false, false))
            .sample(call(mode, &[2, 1], 1, mode == GRU, false))
            .sample(call(mode, &[1], 1, false, true))
            .sample(call(mode, &[4, 4], 17, true, true))
            .sample(call(mode, &[1, 1], 1, false, false))
            .sample(call(mode, &[2, 1], 1, true, true));
    }
    made.reference(layer)
        .refuses(rising, ErrorKind::InvalidArgument, "sizes that fall")
        .refuses(without_memory, ErrorKind::InvalidArgument, "expected cell states")
        .refuses(unknown, ErrorKind::InvalidArgument, "expected 0, 1, 2 or 3")
}

fn backward_row() -> Row {
    let mut made = row("_recurrent_layer_backward").types(WIDE_FLOATS).ulps(16.0).terms(8.0);
    made = made.sample(backward_call(TANH, &[64; 4], 2, false, [true, false, false, false, false]));
    for mode in [RELU, TANH, LSTM, GRU] {
        let is_lstm = mode == LSTM;
        made = made
            .sample(backward_call(mode, &[2, 2, 2], 3, false, [true, true, is_lstm, false, false]))
            .sample(backward_call(mode, &[3, 2, 1], 2, true, [true, false, false, false, false]))
            .sample(backward_call(mode, &[3, 3, 1], 2, false, [false, true, false, is_lstm, mode > TANH]))
            .sample(backward_call(mode, &[2, 1], 1, false, [true, true, is_lstm, is_lstm, mode > TANH]))
            .sample(backward_call(mode, &[4, 4], 17, true, [true, true, is_lstm, false, false]))
            .sample(backward_call(mode, &[1, 1], 1, true, [true, true, is_lstm, is_lstm, mode > TANH]))
            .sample(backward_call(mode, &[1, 1], 1, false, [true, false, false, false, false]));
    }
    made.reference(layer_backward)
}

/// The rows.
pub(super) fn rows() -> Vec<Row> {
    vec![forward_row(), backward_row()]
}
