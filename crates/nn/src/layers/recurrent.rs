//! Recurrent networks: each step sees its input and what the step before has left.

mod steps;

use super::{check_positive, parameter, parameter_if};
use crate::functional;
use crate::{Module, Training, Visitor, VisitorMut, init};
use flambeau_core::{Result, ensure};
use flambeau_ops::Tensor;
use std::marker::PhantomData;
use steps::zero_state;

pub use steps::{ElmanRelu, ElmanTanh, GruStep, LstmStep, Step};

/// `h = tanh(W x + U h)`: Elman, "Finding structure in time", 1990.
pub type Rnn = Recurrent<ElmanTanh, 1>;
/// [`Rnn`] with `relu` instead of `tanh`.
pub type ReluRnn = Recurrent<ElmanRelu, 1>;
/// A gated recurrent unit: Cho et al., 2014.
pub type Gru = Recurrent<GruStep, 1>;
/// Long short-term memory: Hochreiter and Schmidhuber, 1997. Its states are what it shows and what it remembers.
pub type Lstm = Recurrent<LstmStep, 2>;
/// A step of [`Rnn`].
pub type RnnCell = RecurrentCell<ElmanTanh, 1>;
/// A step of [`Gru`].
pub type GruCell = RecurrentCell<GruStep, 1>;
/// A step of [`Lstm`].
pub type LstmCell = RecurrentCell<LstmStep, 2>;

options! {
    /// Options of [`Recurrent`].
    RecurrentOptions {
        /// Layers, each of which sees the outputs of the one before.
        num_layers: i64 = 1,
        /// Whether biases are added.
        bias: bool = true,
        /// The probability of dropout between layers.
        dropout: f64 = 0.0,
        /// Whether each layer goes through the sequence in both directions.
        bidirectional: bool = false,
        /// What the shown state is projected to; for [`Lstm`], Sak et al., 2014.
        proj_size: Option<i64> = None,
    }
}

/// Layers of steps through a sequence, in one direction or both: `[batch, length, input]` to `[batch, length, hidden]`, and the
/// states after the last step, each `[layers and directions, batch, hidden]`. Names of parameters are PyTorch's.
///
/// ```
/// use flambeau_nn::{Lstm, Module, RecurrentOptions};
/// use flambeau_ops::Tensor;
/// let lstm = Lstm::with_options(3, 5, RecurrentOptions::default().num_layers(2).bidirectional(true))?;
/// lstm.requires_grad_(false)?;
/// let (output, [hidden, memory]) = lstm.forward(&Tensor::ones(&[4, 7, 3], ())?)?;
/// assert_eq!(output.sizes(), &[4, 7, 10]);
/// assert_eq!((hidden.sizes(), memory.sizes()), (&[4, 4, 5][..], &[4, 4, 5][..]));
/// assert_eq!(lstm.named_parameters()[4].0, "weight_ih_l0_reverse");
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Recurrent<S, const STATES: usize> {
    /// One for each layer and direction.
    passes: Vec<Pass>,
    input_size: i64,
    /// Of each state.
    sizes: [i64; STATES],
    options: RecurrentOptions,
    training: Training,
    step: PhantomData<S>,
}

/// One layer in one direction.
#[derive(Debug)]
struct Pass {
    /// What its parameters' names end in: `_l0_reverse`.
    suffix: String,
    weights: Weights,
    weight_hr: Option<Tensor>,
}

impl<S: Step<STATES>, const STATES: usize> Recurrent<S, STATES> {
    /// One layer in one direction, uniform between `±1/√hidden`.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes below 1, `OutOfMemory`.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::with_options(input_size, hidden_size, RecurrentOptions::default())
    }

    /// As [`new`](Self::new), with the settings of `options`.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes below 1, a dropout outside 0 to 1 and projections that do not fit.
    pub fn with_options(input_size: i64, hidden_size: i64, options: RecurrentOptions) -> Result<Self> {
        check(input_size, hidden_size, &options, STATES).map_err(|e| e.context(S::NAME))?;
        let shown = options.proj_size.unwrap_or(hidden_size);
        let directions = if options.bidirectional { 2 } else { 1 };
        let mut passes = Vec::new();
        for index in 0..options.num_layers * directions {
            let (layer, backwards) = (index / directions, index % directions == 1);
            let width = if layer == 0 { input_size } else { directions * shown };
            passes.push(Pass {
                suffix: format!("_l{layer}{}", if backwards { "_reverse" } else { "" }),
                weights: Weights::new(S::GATES * hidden_size, width, shown, options.bias)?,
                weight_hr: options.proj_size.map(|size| parameter(&[size, hidden_size])).transpose()?,
            });
        }
        let mut sizes = [hidden_size; STATES];
        sizes[0] = shown;
        let made =
            Recurrent { passes, input_size, sizes, options, training: Training::new(), step: PhantomData };
        draw(&made, hidden_size)?;
        Ok(made)
    }

    /// The outputs of all steps, and the states after the last, from states of zeros.
    ///
    /// # Errors
    /// `Shape` for an input of other sizes.
    pub fn forward(&self, input: &Tensor) -> Result<(Tensor, [Tensor; STATES])> {
        let count = self.passes.len() as i64;
        let states = zero_state(input, self.sizes.map(|size| vec![count, batch_of(input), size]))?;
        self.forward_from(input, &states)
    }

    /// The same from states that another call has left.
    ///
    /// # Errors
    /// `Shape` for an input or states of other sizes.
    pub fn forward_from(
        &self,
        input: &Tensor,
        states: &[Tensor; STATES],
    ) -> Result<(Tensor, [Tensor; STATES])> {
        self.check_sizes(input, states)?;
        S::sequence(input, states, &self.params(), &self.options, self.training.is_training())
    }

    /// In the order of the operators.
    fn params(&self) -> Vec<Tensor> {
        let of_pass = |Pass { weights, weight_hr, .. }: &Pass| {
            let Weights { weight_ih, weight_hh, bias_ih, bias_hh } = weights.clone();
            [Some(weight_ih), Some(weight_hh), bias_ih, bias_hh, weight_hr.clone()]
        };
        self.passes.iter().flat_map(of_pass).flatten().collect()
    }

    fn check_sizes(&self, input: &Tensor, states: &[Tensor; STATES]) -> Result<()> {
        ensure!(
            input.dim() == 3 && input.size(2)? == self.input_size,
            Shape,
            "{}: expected an input of sizes [batch, length, {}] but got {:?}",
            S::NAME,
            self.input_size,
            input.sizes()
        );
        ensure!(input.size(1)? > 0, Shape, "{}: expected a sequence of at least one step", S::NAME);
        for (state, size) in states.iter().zip(self.sizes) {
            let expected = [self.passes.len() as i64, batch_of(input), size];
            ensure!(
                state.sizes() == expected,
                Shape,
                "{}: expected a state of sizes {expected:?} but got {:?}",
                S::NAME,
                state.sizes()
            );
        }
        Ok(())
    }
}

impl<S: Step<STATES>, const STATES: usize> Module for Recurrent<S, STATES> {
    // As in PyTorch, names end in the layer and the direction: `weight_hh_l0_reverse`.
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for Pass { suffix, weights, weight_hr, .. } in &self.passes {
            visitor.field(&format!("weight_ih{suffix}"), &weights.weight_ih);
            visitor.field(&format!("weight_hh{suffix}"), &weights.weight_hh);
            visitor.field(&format!("bias_ih{suffix}"), &weights.bias_ih);
            visitor.field(&format!("bias_hh{suffix}"), &weights.bias_hh);
            visitor.field(&format!("weight_hr{suffix}"), weight_hr);
        }
        visitor.field("training", &self.training);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        for Pass { suffix, weights, weight_hr, .. } in &mut self.passes {
            visitor.field(&format!("weight_ih{suffix}"), &mut weights.weight_ih);
            visitor.field(&format!("weight_hh{suffix}"), &mut weights.weight_hh);
            visitor.field(&format!("bias_ih{suffix}"), &mut weights.bias_ih);
            visitor.field(&format!("bias_hh{suffix}"), &mut weights.bias_hh);
            visitor.field(&format!("weight_hr{suffix}"), weight_hr);
        }
    }
}

/// The parameters of a step.
#[derive(Clone, Debug, Module)]
struct Weights {
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Option<Tensor>,
    bias_hh: Option<Tensor>,
}

impl Weights {
    fn new(rows: i64, input: i64, hidden: i64, bias: bool) -> Result<Self> {
        Ok(Weights {
            weight_ih: parameter(&[rows, input])?,
            weight_hh: parameter(&[rows, hidden])?,
            bias_ih: parameter_if(bias, &[rows])?,
            bias_hh: parameter_if(bias, &[rows])?,
        })
    }
}

/// One step of a recurrent network: `[batch, input]` and states `[batch, hidden]` to states. Names of parameters are PyTorch's.
///
/// ```
/// use flambeau_nn::{LstmCell, Module};
/// use flambeau_ops::Tensor;
/// let cell = LstmCell::new(3, 5)?;
/// cell.requires_grad_(false)?;
/// let x = Tensor::ones(&[2, 3], ())?;
/// let states = cell.forward(&x)?;
/// let [hidden, memory] = cell.forward_from(&x, &states)?;
/// assert_eq!((hidden.sizes(), memory.sizes()), (&[2, 5][..], &[2, 5][..]));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug)]
pub struct RecurrentCell<S, const STATES: usize> {
    weights: Weights,
    hidden_size: i64,
    step: PhantomData<S>,
}

impl<S: Step<STATES>, const STATES: usize> RecurrentCell<S, STATES> {
    /// With biases, uniform between `±1/√hidden`.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes below 1, `OutOfMemory`.
    pub fn new(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::made(input_size, hidden_size, true)
    }

    /// The same without biases.
    ///
    /// # Errors
    /// Those of [`new`](Self::new).
    pub fn without_bias(input_size: i64, hidden_size: i64) -> Result<Self> {
        Self::made(input_size, hidden_size, false)
    }

    fn made(input_size: i64, hidden_size: i64, bias: bool) -> Result<Self> {
        check(input_size, hidden_size, &RecurrentOptions::default(), STATES)
            .map_err(|e| e.context(S::NAME))?;
        let weights = Weights::new(S::GATES * hidden_size, input_size, hidden_size, bias)?;
        draw(&weights, hidden_size)?;
        Ok(RecurrentCell { weights, hidden_size, step: PhantomData })
    }

    /// The states after a step from states of zeros.
    ///
    /// # Errors
    /// `Shape` for an input of other sizes.
    pub fn forward(&self, input: &Tensor) -> Result<[Tensor; STATES]> {
        let sizes = vec![batch_of(input), self.hidden_size];
        self.forward_from(input, &zero_state(input, std::array::from_fn(|_| sizes.clone()))?)
    }

    /// The states after a step from these.
    ///
    /// # Errors
    /// `Shape` for an input or states of other sizes.
    pub fn forward_from(&self, input: &Tensor, states: &[Tensor; STATES]) -> Result<[Tensor; STATES]> {
        let Weights { weight_ih, weight_hh, bias_ih, bias_hh } = &self.weights;
        S::step(input, states, [weight_ih, weight_hh], [bias_ih.as_ref(), bias_hh.as_ref()])
    }
}

impl<S: Step<STATES>, const STATES: usize> Module for RecurrentCell<S, STATES> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.weights.visit(visitor);
    }

    fn visit_mut(&mut self, visitor: &mut VisitorMut<'_>) {
        self.weights.visit_mut(visitor);
    }
}

fn batch_of(input: &Tensor) -> i64 {
    input.sizes().first().copied().unwrap_or_default()
}

fn draw(module: &dyn Module, hidden_size: i64) -> Result<()> {
    let bound = 1.0 / (hidden_size as f64).sqrt();
    module.parameters().iter().try_for_each(|tensor| init::uniform_(tensor, -bound, bound))
}

fn check(input: i64, hidden: i64, options: &RecurrentOptions, states: usize) -> Result<()> {
    check_positive("input_size", input)?;
    check_positive("hidden_size", hidden)?;
    check_positive("num_layers", options.num_layers)?;
    functional::check_probability("dropout", options.dropout)?;
    let fits = |size| states == 2 && (1..hidden).contains(&size);
    ensure!(
        options.proj_size.is_none_or(fits),
        InvalidArgument,
        "expected a proj_size of Lstm from 1 to below {hidden} but got {:?}",
        options.proj_size
    );
    Ok(())
}
