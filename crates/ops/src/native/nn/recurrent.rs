//! Recurrent networks: `rnn_tanh`, `rnn_relu`, `gru` and `lstm` through padded and packed sequences, and their single steps.
//!
//! A step sees its input and the states that the step before has left. What depends on inputs alone is one product for all steps.

mod cell_rows;
mod factor;
mod fill;
mod gates;
mod gru;
mod layer;
mod layer_backward;
mod lstm;
mod pass;
mod slopes;
mod steps;

pub use gru::{fused_gru_cell, fused_gru_cell_backward, gru_workspace_backward};
pub use layer::recurrent_layer;
pub use layer_backward::recurrent_layer_backward;
pub use lstm::{fused_lstm_cell, fused_lstm_cell_backward, lstm_workspace_backward};

use crate::{Tensor, ops};
use flambeau_core::{MemoryFormat, Result, bail, ensure};
use pass::Pass;
use smallvec::{SmallVec, smallvec};

/// What a step leaves: what it shows, and for `lstm` what it remembers.
type States = SmallVec<[Tensor; 2]>;

/// A kind of network.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tanh,
    Relu,
    Gru,
    Lstm,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Tanh => "rnn_tanh",
            Kind::Relu => "rnn_relu",
            Kind::Gru => "gru",
            Kind::Lstm => "lstm",
        }
    }

    /// The number by which `_recurrent_layer` knows it, as cuDNN does.
    fn mode(self) -> i64 {
        match self {
            Kind::Relu => 0,
            Kind::Tanh => 1,
            Kind::Lstm => 2,
            Kind::Gru => 3,
        }
    }

    fn of_mode(mode: i64) -> Option<Self> {
        [Kind::Relu, Kind::Tanh, Kind::Lstm, Kind::Gru].into_iter().find(|kind| kind.mode() == mode)
    }

    /// How many sums of the size of a state a step computes.
    fn gates(self) -> i64 {
        match self {
            Kind::Tanh | Kind::Relu => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }

    /// How many tensors a step leaves.
    fn states(self) -> usize {
        if self == Kind::Lstm { 2 } else { 1 }
    }

    /// The states after a step. The biases of both products are in `of_input` already, except for `gru`.
    fn step(self, of_input: &Tensor, states: &[Tensor], weights: &Weights<'_>) -> Result<States> {
        let shown = &states[0];
        if self == Kind::Gru {
            let of_state = ops::linear(shown, weights.hidden, weights.hidden_bias)?;
            return Ok(smallvec![gru::step(of_input, &of_state, shown)?]);
        }
        let of_state = ops::linear(shown, weights.hidden, None)?;
        let mut made: States = match self {
            Kind::Tanh => smallvec![ops::tanh(&(of_input + of_state)?)?],
            Kind::Relu => smallvec![ops::relu(&(of_input + of_state)?)?],
            _ => lstm::step(of_input, &of_state, &states[1])?.into_iter().collect(),
        };
        if let Some(weight) = weights.projection {
            made[0] = ops::linear(&made[0], weight, None)?;
        }
        Ok(made)
    }
}

/// The parameters of one layer in one direction.
struct Weights<'a> {
    input: &'a Tensor,
    hidden: &'a Tensor,
    input_bias: Option<&'a Tensor>,
    hidden_bias: Option<&'a Tensor>,
    /// Of what is shown, for `lstm`: Sak et al., 2014.
    projection: Option<&'a Tensor>,
}

impl<'a> Weights<'a> {
    /// In PyTorch's order: weights of input and state, their biases, a projection.
    fn of(params: &'a [Tensor], has_biases: bool) -> Self {
        let after = if has_biases { 4 } else { 2 };
        let bias = |nr: usize| params.get(nr).filter(|_| has_biases);
        Weights {
            input: &params[0],
            hidden: &params[1],
            input_bias: bias(2),
            hidden_bias: bias(3),
            projection: params.get(after),
        }
    }

    /// The products of all inputs, with the biases that are added to them.
    fn of_inputs(&self, kind: Kind, x: &Tensor) -> Result<Tensor> {
        match (self.input_bias, self.hidden_bias) {
            (bias, _) if kind == Kind::Gru => ops::linear(x, self.input, bias),
            (Some(a), Some(b)) => ops::linear(x, self.input, Some(&(a + b)?)),
            (a, b) => ops::linear(x, self.input, a.or(b)),
        }
    }
}

/// A network of several layers, in one direction or both.
struct Network<'a> {
    kind: Kind,
    /// For each layer and direction.
    passes: Vec<Weights<'a>>,
    directions: usize,
    dropout: f64,
    train: bool,
}

impl<'a> Network<'a> {
    fn new(
        kind: Kind,
        params: &'a [Tensor],
        has_biases: bool,
        num_layers: i64,
        (dropout, train, bidirectional): (f64, bool, bool),
    ) -> Result<Self> {
        let name = kind.name();
        let directions = if bidirectional { 2 } else { 1 };
        let passes = usize::try_from(num_layers).unwrap_or_default().saturating_mul(directions);
        let minimum = if has_biases { 4 } else { 2 };
        let each = params.len().checked_div(passes).unwrap_or_default();
        let has_projection = kind == Kind::Lstm && each == minimum + 1;
        ensure!(
            passes > 0
                && passes.checked_mul(each) == Some(params.len())
                && (each == minimum || has_projection),
            InvalidArgument(name, "params"),
            "expected {minimum} parameters for each of {num_layers} layers and {directions} directions but got {}",
            params.len()
        );
        let passes = params.chunks(each).map(|params| Weights::of(params, has_biases)).collect();
        Ok(Network { kind, passes, directions, dropout, train })
    }

    /// Refuses states of other sizes than `[layers and directions, batch, size]`.
    fn check(&self, states: &[Tensor], batch: i64) -> Result<()> {
        let (name, count) = (self.kind.name(), self.kind.states());
        ensure!(
            states.len() == count,
            InvalidArgument(name, "hx"),
            "expected {count} states but got {}",
            states.len()
        );
        let passes = self.passes.len() as i64;
        for state in states {
            ensure!(
                state.dim() == 3 && state.sizes()[..2] == [passes, batch],
                Shape(name, "hx"),
                "expected hidden states of sizes [{passes}, {batch}, size] but got {:?}",
                state.sizes()
            );
        }
        Ok(())
    }

    /// Whether all sizes belong together, and there are no projections, so that a kernel can compute all steps of a pass.
    fn is_plain(&self, begin: &[Tensor]) -> bool {
        let Some([_, batch, hidden]) = begin.first().map(|state| state.sizes()) else { return false };
        let (batch, hidden) = (*batch, *hidden);
        let Some(gates) = hidden.checked_mul(self.kind.gates()) else { return false };
        let fits = |of: &Weights<'_>| {
            of.hidden.sizes() == [gates, hidden]
                && matches!(*of.input.sizes(), [rows, _] if rows == gates)
                && [of.input_bias, of.hidden_bias].iter().flatten().all(|bias| bias.sizes() == [gates])
                && of.projection.is_none()
        };
        batch > 0
            && hidden > 0
            && begin.iter().all(|state| state.sizes().last() == Some(&hidden))
            && self.passes.iter().all(fits)
    }

    /// The outputs of all steps, and the states after the last one: `x` is `[length, batch, size]`, or of packed sequences `[all, size]`.
    fn run(&self, x: &Tensor, begin: &[Tensor], batch_sizes: Option<&[i64]>) -> Result<(Tensor, States)> {
        let mut operands: SmallVec<[Option<&Tensor>; 16]> = begin.iter().map(Some).collect();
        for of in &self.passes {
            operands.extend([Some(of.input), Some(of.hidden), of.input_bias, of.hidden_bias]);
        }
        let is_plain = self.is_plain(begin);
        if is_plain && gates::suit_kernel(x, &operands) {
            let states = each(begin, |state| ops::clone(state, Some(MemoryFormat::Contiguous)))?;
            let output =
                self.run_layers(x, |pass, x, index| pass.in_kernel(x, &states, index, batch_sizes))?;
            return Ok((output, states));
        }
        let is_operator = is_plain && gates::suit_operator(x, &operands);
        let mut ends: SmallVec<[Vec<Tensor>; 2]> = begin.iter().map(|_| Vec::new()).collect();
        let output = self.run_layers(x, |pass, x, index| {
            let states = each(begin, |state| state.select(0, index as i64))?;
            let (output, end) = match batch_sizes {
                _ if is_operator => pass.in_operator(x, &states, batch_sizes)?,
                None => pass.padded(x, states)?,
                Some(sizes) => pass.packed(x, states, sizes)?,
            };
            ends.iter_mut().zip(end).for_each(|(ends, end)| ends.push(end));
            Ok(output)
        })?;
        let ends = ends.iter().map(|ends| ops::stack(ends, 0)).collect::<Result<States>>()?;
        // The operator has saved its output, which callers may write in place.
        let is_saved = is_operator && self.directions == 1;
        Ok((if is_saved { ops::clone(&output, None)? } else { output }, ends))
    }

    /// The outputs of the last layer, where `run` computes those of one layer in one direction, whose index it gets.
    fn run_layers(
        &self,
        x: &Tensor,
        mut run: impl FnMut(&Pass<'_>, &Tensor, usize) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut x = x.clone();
        for (layer, passes) in self.passes.chunks(self.directions).enumerate() {
            if layer > 0 && self.dropout > 0.0 {
                x = ops::dropout(&x, self.dropout, self.train)?;
            }
            let mut outputs: SmallVec<[Tensor; 2]> = SmallVec::new();
            for (direction, weights) in passes.iter().enumerate() {
                let pass = Pass { kind: self.kind, weights, backwards: direction == 1 };
                outputs.push(run(&pass, &x, layer * self.directions + direction)?);
            }
            x = if let [only] = &outputs[..] { only.clone() } else { ops::cat(&outputs, -1)? };
        }
        Ok(x)
    }
}

fn each(states: &[Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<States> {
    states.iter().map(f).collect()
}

fn rows_of(tensor: &Tensor, start: i64, end: i64) -> Result<Tensor> {
    ops::slice_tensor(tensor, 0, Some(start), Some(end), 1)
}

/// A padded batch through a network.
fn padded(
    network: &Network<'_>,
    input: &Tensor,
    hx: &[Tensor],
    batch_first: bool,
) -> Result<(Tensor, States)> {
    let name = network.kind.name();
    ensure!(
        input.dim() == 3,
        Shape(name, "input"),
        "expected an input of 3 dimensions but got one of sizes {:?}",
        input.sizes()
    );
    let x = if batch_first { ops::transpose_int(input, 0, 1)? } else { input.clone() };
    ensure!(x.size(0)? > 0, Shape(name, "input"), "Expected sequence length to be larger than 0 in RNN");
    network.check(hx, x.size(1)?)?;
    let (output, states) = network.run(&x, hx, None)?;
    Ok((if batch_first { ops::transpose_int(&output, 0, 1)? } else { output }, states))
}

/// Packed sequences through a network.
fn packed(
    network: &Network<'_>,
    data: &Tensor,
    batch_sizes: &Tensor,
    hx: &[Tensor],
) -> Result<(Tensor, States)> {
    let name = network.kind.name();
    let sizes = batch_sizes.to_vec::<i64>().map_err(|e| e.in_operator(name))?;
    let fits = sizes.windows(2).all(|pair| pair[0] >= pair[1]) && sizes.last().is_some_and(|size| *size > 0);
    let total: i64 = sizes.iter().fold(0, |sum, size| sum.saturating_add(*size));
    ensure!(
        batch_sizes.dim() == 1 && fits && data.dim() == 2 && data.size(0)? == total,
        InvalidArgument(name, "batch_sizes"),
        "expected sizes that fall, above 0, of all rows of data of sizes {:?}, but got {sizes:?}",
        data.sizes()
    );
    network.check(hx, sizes[0])?;
    network.run(data, hx, Some(&sizes))
}

/// The one state of a network that has one.
fn only(name: &str, mut states: States) -> Result<Tensor> {
    match states.pop() {
        Some(state) => Ok(state),
        None => bail!(Internal(name), "there is no state"),
    }
}

macro_rules! networks {
    ($($kind:ident $input:ident $data:ident $cell:ident $cell_name:literal;)*) => {$(
        /// The outputs of all steps, and the states after the last one of each layer and direction.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $input(
            input: &Tensor, hx: &Tensor, params: &[Tensor], has_biases: bool, num_layers: i64, dropout: f64,
            train: bool, bidirectional: bool, batch_first: bool,
        ) -> Result<(Tensor, Tensor)> {
            let options = (dropout, train, bidirectional);
            let network = Network::new(Kind::$kind, params, has_biases, num_layers, options)?;
            let (output, states) = padded(&network, input, std::slice::from_ref(hx), batch_first)?;
            Ok((output, only(Kind::$kind.name(), states)?))
        }

        /// The same of packed sequences.
        #[expect(clippy::too_many_arguments, reason = "the schema's")]
        pub fn $data(
            data: &Tensor, batch_sizes: &Tensor, hx: &Tensor, params: &[Tensor], has_biases: bool, num_layers: i64,
            dropout: f64, train: bool, bidirectional: bool,
        ) -> Result<(Tensor, Tensor)> {
            let options = (dropout, train, bidirectional);
            let network = Network::new(Kind::$kind, params, has_biases, num_layers, options)?;
            let (output, states) = packed(&network, data, batch_sizes, std::slice::from_ref(hx))?;
            Ok((output, only(Kind::$kind.name(), states)?))
        }

        /// The state after a step from `[batch, size]` or `[size]`.
        pub fn $cell(
            input: &Tensor, hx: &Tensor, w_ih: &Tensor, w_hh: &Tensor, b_ih: Option<&Tensor>, b_hh: Option<&Tensor>,
        ) -> Result<Tensor> {
            let states = cell(Kind::$kind, input, std::slice::from_ref(hx), [w_ih, w_hh], [b_ih, b_hh])?;
            only($cell_name, states)
        }
    )*};
}

networks! {
    Tanh rnn_tanh_input rnn_tanh_data rnn_tanh_cell "rnn_tanh_cell";
    Relu rnn_relu_input rnn_relu_data rnn_relu_cell "rnn_relu_cell";
    Gru gru_input gru_data gru_cell "gru_cell";
}

/// One step.
fn cell(
    kind: Kind,
    input: &Tensor,
    hx: &[Tensor],
    [w_ih, w_hh]: [&Tensor; 2],
    [b_ih, b_hh]: [Option<&Tensor>; 2],
) -> Result<States> {
    let count = kind.states();
    ensure!(
        hx.len() == count,
        InvalidArgument(kind.name(), "hx"),
        "expected {count} states but got {}",
        hx.len()
    );
    let weights =
        Weights { input: w_ih, hidden: w_hh, input_bias: b_ih, hidden_bias: b_hh, projection: None };
    kind.step(&weights.of_inputs(kind, input)?, hx, &weights)
}

/// As [`gru_input`], of long short-term memory: what it shows and what it remembers.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn lstm_input(
    input: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let network = Network::new(Kind::Lstm, params, has_biases, num_layers, (dropout, train, bidirectional))?;
    let (output, states) = padded(&network, input, hx, batch_first)?;
    Ok((output, states[0].clone(), states[1].clone()))
}

/// As [`gru_data`], of long short-term memory.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn lstm_data(
    data: &Tensor,
    batch_sizes: &Tensor,
    hx: &[Tensor],
    params: &[Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    let network = Network::new(Kind::Lstm, params, has_biases, num_layers, (dropout, train, bidirectional))?;
    let (output, states) = packed(&network, data, batch_sizes, hx)?;
    Ok((output, states[0].clone(), states[1].clone()))
}

/// The states after a step of long short-term memory.
pub fn lstm_cell(
    input: &Tensor,
    hx: &[Tensor],
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let states = cell(Kind::Lstm, input, hx, [w_ih, w_hh], [b_ih, b_hh])?;
    Ok((states[0].clone(), states[1].clone()))
}
