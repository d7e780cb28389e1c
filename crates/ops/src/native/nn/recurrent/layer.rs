//! `_recurrent_layer`: all steps of a layer in one direction, with what a backward pass needs of them.

use super::gates::{check_type, suit_kernel};
use super::steps::{Layer, steps_of};
use super::{Kind, States, each, rows_of};
use crate::structured::TensorSpec;
use crate::{Tensor, ops};
use flambeau_core::{DimVec, MemoryFormat, Result, bail, ensure, fallible};
use std::ops::Range;

const NAME: &str = "_recurrent_layer";

/// The sequences of a call: how many there are, and the rows of each step.
pub(super) struct Sequences {
    pub(super) kind: Kind,
    pub(super) batch: usize,
    pub(super) hidden: usize,
    /// The number of rows.
    pub(super) total: usize,
    /// In the order of computation.
    pub(super) steps: Vec<Range<usize>>,
    pub(super) backwards: bool,
}

impl Sequences {
    /// Of states `hx`.
    ///
    /// # Errors
    /// For a `mode` that does not exist, and sizes that rise.
    pub(super) fn new(
        name: &str,
        hx: &Tensor,
        batch_sizes: &[i64],
        mode: i64,
        backwards: bool,
    ) -> Result<Self> {
        let Some(kind) = Kind::of_mode(mode) else {
            bail!(InvalidArgument(name, "mode"), "expected 0, 1, 2 or 3 but got {mode}")
        };
        let [batch, hidden] = *hx.sizes() else {
            bail!(Shape(name, "hx"), "expected a matrix of states but got sizes {:?}", hx.sizes())
        };
        ensure!(hidden > 0, Shape(name, "hx"), "expected states of at least one element");
        let falls = batch_sizes.windows(2).all(|pair| pair[0] >= pair[1]);
        let total = batch_sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size));
        ensure!(
            falls
                && batch_sizes.last().is_some_and(|size| *size > 0)
                && batch_sizes.first() == Some(&batch)
                && total.is_some(),
            InvalidArgument(name, "batch_sizes"),
            "expected sizes that fall from {batch}, above 0, but got {batch_sizes:?}"
        );
        let (batch, hidden, total) = (batch as usize, hidden as usize, total.unwrap_or(0) as usize);
        let steps = steps_of(batch_sizes.iter().map(|size| *size as usize), backwards)?;
        Ok(Sequences { kind, batch, hidden, total, steps, backwards })
    }

    /// Refuses a tensor of other sizes than `rows` rows of `parts` times the size of a state.
    pub(super) fn check(
        &self,
        name: &str,
        which: &str,
        tensor: &Tensor,
        rows: usize,
        parts: i64,
    ) -> Result<()> {
        let columns = (self.hidden as i64).checked_mul(parts);
        ensure!(
            matches!(*tensor.sizes(), [r, c] if r == rows as i64 && Some(c) == columns),
            Shape(name, which),
            "expected {rows} rows of {parts} times {} elements but got sizes {:?}",
            self.hidden,
            tensor.sizes()
        );
        Ok(())
    }

    /// Refuses a weight that is not `[gates * hidden, hidden]`.
    pub(super) fn check_weight(&self, name: &str, weight: &Tensor) -> Result<()> {
        let (hidden, gates) = (self.hidden as i64, self.kind.gates());
        ensure!(
            matches!(*weight.sizes(), [rows, columns] if Some(rows) == hidden.checked_mul(gates) && columns == hidden),
            Shape(name, "weight"),
            "expected {gates} gates for states of {hidden} elements but got sizes {:?}",
            weight.sizes()
        );
        Ok(())
    }

    /// Refuses cell states of networks other than `lstm`, cell states of other sizes than hidden states, and a lack of them.
    pub(super) fn check_memory(&self, name: &str, cx: Option<&Tensor>) -> Result<()> {
        ensure!(
            cx.is_some() == (self.kind == Kind::Lstm),
            InvalidArgument(name, "cx"),
            "expected cell states for `lstm`, and none for other networks"
        );
        cx.map_or(Ok(()), |cx| self.check(name, "cx", cx, self.batch, 1))
    }

    /// Part of the rows that are saved of each step: the memory, and what the derivative of the cell is computed from.
    pub(super) fn saved_parts(&self) -> [i64; 2] {
        match self.kind {
            Kind::Tanh | Kind::Relu => [0, 0],
            Kind::Gru => [0, 5],
            Kind::Lstm => [1, 4],
        }
    }

    /// The states before each step, in the order of rows: those of `all` after the step before, and of `first` for sequences that begin.
    pub(super) fn before(&self, first: &Tensor, all: &Tensor) -> Result<Tensor> {
        let mut before = 0..0;
        let mut of_steps = fallible::with_capacity(self.steps.len())?;
        for rows in &self.steps {
            let known = before.len().min(rows.len());
            of_steps.push([(all, before.start..before.start + known), (first, known..rows.len())]);
            before = rows.clone();
        }
        if self.backwards {
            of_steps.reverse();
        }
        // Adjacent rows are one part.
        let mut parts: Vec<(&Tensor, Range<usize>)> = fallible::with_capacity(2 * of_steps.len())?;
        for (of, rows) in of_steps.into_iter().flatten().filter(|(_, rows)| !rows.is_empty()) {
            match parts.last_mut() {
                Some((last, to)) if std::ptr::eq(*last, of) && to.end == rows.start => to.end = rows.end,
                _ => parts.push((of, rows)),
            }
        }
        let mut tensors = fallible::with_capacity(parts.len())?;
        for (of, rows) in &parts {
            tensors.push(rows_at(of, rows)?);
        }
        ops::cat(&tensors, 0)
    }

    /// What was computed for each step, in the order of computation, as rows.
    pub(super) fn joined(&self, mut of_steps: Vec<Tensor>) -> Result<Tensor> {
        if self.backwards {
            of_steps.reverse();
        }
        ops::cat(&of_steps, 0)
    }
}

/// Some rows.
pub(super) fn rows_at(tensor: &Tensor, rows: &Range<usize>) -> Result<Tensor> {
    rows_of(tensor, rows.start as i64, rows.end as i64)
}

/// `all` with other first rows.
pub(super) fn with_first_rows(all: &Tensor, first: &Tensor) -> Result<Tensor> {
    let (count, rows) = (first.size(0)?, all.size(0)?);
    if count == rows {
        return Ok(first.clone());
    }
    ops::cat(&[first.clone(), rows_of(all, count, rows)?], 0)
}

/// All outputs, the states after the last steps, and what is saved.
type Results = (Tensor, Tensor, Tensor, Tensor, Tensor);

/// What all steps show, the states after the last one of each sequence, and what the derivative is computed from: what is remembered after
/// each step, and what cells save. What a network of a mode does not have has no elements.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn recurrent_layer(
    input_gates: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    hx: &Tensor,
    cx: Option<&Tensor>,
    batch_sizes: &[i64],
    mode: i64,
    reverse: bool,
) -> Result<Results> {
    let others = [Some(weight), bias, Some(hx), cx];
    check_type(NAME, input_gates, &others)?;
    let sequences = Sequences::new(NAME, hx, batch_sizes, mode, reverse)?;
    sequences.check(NAME, "input_gates", input_gates, sequences.total, sequences.kind.gates())?;
    sequences.check_weight(NAME, weight)?;
    sequences.check_memory(NAME, cx)?;
    if let Some(bias) = bias {
        ensure!(
            bias.sizes() == &weight.sizes()[..1],
            Shape(NAME, "bias"),
            "expected a bias of {} elements but got sizes {:?}",
            weight.sizes()[0],
            bias.sizes()
        );
    }
    if hx.device().is_meta() {
        return without_values(&sequences, hx);
    }
    if !suit_kernel(input_gates, &others) {
        return composed(sequences, input_gates, [weight, hx], bias, cx);
    }
    let (total, [cells, gates]) = (sequences.total as i64, sequences.saved_parts());
    let saved = [saved_rows(hx, total, cells)?, saved_rows(hx, total, gates)?];
    let copy = |state: &Tensor| ops::clone(state, Some(MemoryFormat::Contiguous));
    let states = std::iter::once(hx).chain(cx).map(copy).collect::<Result<States>>()?;
    let Sequences { kind, batch, hidden, steps, .. } = sequences;
    let layer = Layer { kind, weight, bias, batch, hidden, steps };
    let output = layer.run(input_gates, &states, 0, Some([&saved[0], &saved[1]]))?;
    let [cells, workspace] = saved;
    Ok((output, states[0].clone(), last_memory(&states, hx)?, cells, workspace))
}

/// The second state, or nothing.
fn last_memory(states: &[Tensor], hx: &Tensor) -> Result<Tensor> {
    states.get(1).map_or_else(|| nothing(NAME, hx), |memory| Ok(memory.clone()))
}

/// A tensor without elements.
pub(super) fn nothing(name: &str, like: &Tensor) -> Result<Tensor> {
    TensorSpec::like(like, &[0]).allocate(name)
}

/// New rows of `parts` times the size of a state, or nothing.
fn saved_rows(state: &Tensor, rows: i64, parts: i64) -> Result<Tensor> {
    if parts == 0 {
        return nothing(NAME, state);
    }
    let Some(columns) = state.size(1)?.checked_mul(parts) else {
        bail!(Overflow(NAME), "{parts} parts of {} elements overflow a size", state.size(1)?)
    };
    TensorSpec::like(state, &DimVec::from_slice(&[rows, columns])).allocate(NAME)
}

fn without_values(sequences: &Sequences, hx: &Tensor) -> Result<Results> {
    let (total, [cells, gates]) = (sequences.total as i64, sequences.saved_parts());
    let state = || TensorSpec::like(hx, hx.sizes()).allocate(NAME);
    let memory = if cells > 0 { state() } else { nothing(NAME, hx) }?;
    Ok((
        saved_rows(hx, total, 1)?,
        state()?,
        memory,
        saved_rows(hx, total, cells)?,
        saved_rows(hx, total, gates)?,
    ))
}

/// The same by a product and a cell for each step.
fn composed(
    sequences: Sequences,
    input_gates: &Tensor,
    [weight, hx]: [&Tensor; 2],
    bias: Option<&Tensor>,
    cx: Option<&Tensor>,
) -> Result<Results> {
    let mut states: States = std::iter::once(hx).chain(cx).cloned().collect();
    let (mut outputs, mut cells, mut saved) = (Vec::new(), Vec::new(), Vec::new());
    for rows in &sequences.steps {
        let of_input = rows_at(input_gates, rows)?;
        let before = each(&states, |state| rows_at(state, &(0..rows.len())))?;
        let of_state = ops::linear(&before[0], weight, bias)?;
        let mut after = States::new();
        match sequences.kind {
            Kind::Tanh => after.push(ops::tanh(&(of_input + of_state)?)?),
            Kind::Relu => after.push(ops::relu(&(of_input + of_state)?)?),
            Kind::Gru => {
                let (state, of_cell) =
                    ops::_thnn_fused_gru_cell(&of_input, &of_state, &before[0], None, None)?;
                after.push(state);
                saved.push(of_cell);
            }
            Kind::Lstm => {
                let (shown, memory, of_cell) =
                    ops::_thnn_fused_lstm_cell(&of_input, &of_state, &before[1], None, None)?;
                cells.push(memory.clone());
                after.extend([shown, memory]);
                saved.push(of_cell);
            }
        }
        outputs.push(after[0].clone());
        for (state, after) in states.iter_mut().zip(&after) {
            *state = with_first_rows(state, after)?;
        }
    }
    let joined = |of: Vec<Tensor>| if of.is_empty() { nothing(NAME, hx) } else { sequences.joined(of) };
    let memory = last_memory(&states, hx)?;
    Ok((joined(outputs)?, states[0].clone(), memory, joined(cells)?, joined(saved)?))
}
