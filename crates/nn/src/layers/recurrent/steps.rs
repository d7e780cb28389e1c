//! The operators that each kind of recurrent network calls.

use super::RecurrentOptions;
use flambeau_core::{Error, ErrorKind, Result};
use flambeau_ops::{Tensor, ops};

/// A kind of recurrent network that has so many states; the first is its output.
pub trait Step<const STATES: usize>: Send + Sync + std::fmt::Debug + 'static {
    /// How errors name it.
    const NAME: &'static str;
    /// How many gates the rows of its weights are for.
    const GATES: i64;

    /// The outputs of all steps of `[batch, length, input]`, and the states after the last one of each layer and direction. `params` are in
    /// PyTorch's order: for each layer and direction weights of input and state, their biases, a projection.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    fn sequence(
        input: &Tensor,
        states: &[Tensor; STATES],
        params: &[Tensor],
        options: &RecurrentOptions,
        train: bool,
    ) -> Result<(Tensor, [Tensor; STATES])>;

    /// The states after one step, from weights and biases of input and state.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    fn step(
        input: &Tensor,
        states: &[Tensor; STATES],
        weights: [&Tensor; 2],
        biases: [Option<&Tensor>; 2],
    ) -> Result<[Tensor; STATES]>;
}

macro_rules! steps {
    ($($(#[$doc:meta])* $step:ident $name:literal $gates:literal $sequence:ident $cell:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $step;

        impl Step<1> for $step {
            const NAME: &'static str = $name;
            const GATES: i64 = $gates;

            fn sequence(
                input: &Tensor, [h]: &[Tensor; 1], params: &[Tensor], options: &RecurrentOptions, train: bool,
            ) -> Result<(Tensor, [Tensor; 1])> {
                let (layers, dropout) = (options.num_layers, options.dropout);
                let (output, end) = ops::$sequence(
                    input, h, params, options.bias, layers, dropout, train, options.bidirectional, true,
                )?;
                Ok((output, [end]))
            }

            fn step(
                input: &Tensor, [h]: &[Tensor; 1], [w_ih, w_hh]: [&Tensor; 2], [b_ih, b_hh]: [Option<&Tensor>; 2],
            ) -> Result<[Tensor; 1]> {
                Ok([ops::$cell(input, h, w_ih, w_hh, b_ih, b_hh)?])
            }
        }
    )*};
}

steps! {
    /// `tanh(W x + U h)`.
    ElmanTanh "Rnn" 1 rnn_tanh_input rnn_tanh_cell;
    /// `relu(W x + U h)`.
    ElmanRelu "ReluRnn" 1 rnn_relu_input rnn_relu_cell;
    /// Cho et al., 2014, with the reset after the product, as PyTorch and cuDNN have it.
    GruStep "Gru" 3 gru_input gru_cell;
}

/// Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000.
#[derive(Debug)]
pub struct LstmStep;

impl Step<2> for LstmStep {
    const NAME: &'static str = "Lstm";
    const GATES: i64 = 4;

    fn sequence(
        input: &Tensor,
        states: &[Tensor; 2],
        params: &[Tensor],
        options: &RecurrentOptions,
        train: bool,
    ) -> Result<(Tensor, [Tensor; 2])> {
        let (layers, dropout) = (options.num_layers, options.dropout);
        let (output, hidden, memory) = ops::lstm_input(
            input,
            states,
            params,
            options.bias,
            layers,
            dropout,
            train,
            options.bidirectional,
            true,
        )?;
        Ok((output, [hidden, memory]))
    }

    fn step(
        input: &Tensor,
        states: &[Tensor; 2],
        [w_ih, w_hh]: [&Tensor; 2],
        [b_ih, b_hh]: [Option<&Tensor>; 2],
    ) -> Result<[Tensor; 2]> {
        ops::lstm_cell(input, states, w_ih, w_hh, b_ih, b_hh).map(Into::into)
    }
}

/// States of zeros of the input's type and device.
pub(super) fn zero_state<const N: usize>(input: &Tensor, sizes: [Vec<i64>; N]) -> Result<[Tensor; N]> {
    let zeros = |sizes: &Vec<i64>| Tensor::zeros(sizes, (input.dtype(), input.device()));
    let made = sizes.iter().map(zeros).collect::<Result<Vec<Tensor>>>()?;
    made.try_into().map_err(|_| Error::new(ErrorKind::Internal, "states were lost"))
}
