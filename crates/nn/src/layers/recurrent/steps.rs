//! What one step of each kind of recurrent network computes.

use super::each;
use flambeau_core::Result;
use flambeau_ops::native::nn::recurrent;
use flambeau_ops::{Tensor, ops};

/// A step of a recurrent network that leaves so many states; the first is its output.
pub trait Step<const STATES: usize>: Send + Sync + std::fmt::Debug + 'static {
    /// How errors name it.
    const NAME: &'static str;
    /// How many gates the rows of its weights are for.
    const GATES: i64;

    /// The states after a step, where `x` is the input times its weight, with its bias.
    ///
    /// # Errors
    /// `Shape` for sizes that do not fit.
    fn step(
        x: &Tensor,
        states: &[Tensor; STATES],
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<[Tensor; STATES]>;
}

/// `tanh(W x + U h)`.
#[derive(Debug)]
pub struct ElmanTanh;

impl Step<1> for ElmanTanh {
    const NAME: &'static str = "Rnn";
    const GATES: i64 = 1;

    fn step(x: &Tensor, [h]: &[Tensor; 1], weight: &Tensor, bias: Option<&Tensor>) -> Result<[Tensor; 1]> {
        Ok([ops::tanh(&(x + ops::linear(h, weight, bias)?)?)?])
    }
}

/// `relu(W x + U h)`.
#[derive(Debug)]
pub struct ElmanRelu;

impl Step<1> for ElmanRelu {
    const NAME: &'static str = "ReluRnn";
    const GATES: i64 = 1;

    fn step(x: &Tensor, [h]: &[Tensor; 1], weight: &Tensor, bias: Option<&Tensor>) -> Result<[Tensor; 1]> {
        Ok([ops::relu(&(x + ops::linear(h, weight, bias)?)?)?])
    }
}

/// Hochreiter and Schmidhuber, 1997, with the forget gate of Gers et al., 2000.
#[derive(Debug)]
pub struct LstmStep;

impl Step<2> for LstmStep {
    const NAME: &'static str = "Lstm";
    const GATES: i64 = 4;

    fn step(
        x: &Tensor,
        [h, memory]: &[Tensor; 2],
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<[Tensor; 2]> {
        recurrent::lstm_gates(&(x + ops::linear(h, weight, bias)?)?, memory)
    }
}

/// Cho et al., 2014, with the reset after the product, as PyTorch and cuDNN have it.
#[derive(Debug)]
pub struct GruStep;

impl Step<1> for GruStep {
    const NAME: &'static str = "Gru";
    const GATES: i64 = 3;

    fn step(x: &Tensor, [h]: &[Tensor; 1], weight: &Tensor, bias: Option<&Tensor>) -> Result<[Tensor; 1]> {
        Ok([recurrent::gru_gates(x, &ops::linear(h, weight, bias)?, h)?])
    }
}

/// States of zeros of the input's type and device.
pub(super) fn zero_state<const N: usize>(input: &Tensor, sizes: [Vec<i64>; N]) -> Result<[Tensor; N]> {
    each(&sizes, |sizes| Tensor::zeros(sizes, (input.dtype(), input.device())))
}
