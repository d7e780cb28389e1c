//! A layer in one direction: all steps by one kernel or one operator, or by a product and a cell for each.

use super::steps::{Layer, steps_of};
use super::{Kind, States, Weights, each, rows_of};
use crate::{Tensor, ops};
use flambeau_core::{Result, fallible};

/// One layer in one direction.
pub(super) struct Pass<'a> {
    pub(super) kind: Kind,
    pub(super) weights: &'a Weights<'a>,
    pub(super) backwards: bool,
}

impl Pass<'_> {
    /// All steps by one kernel, from part `index` of the states, which becomes that after the last steps.
    pub(super) fn in_kernel(
        &self,
        x: &Tensor,
        states: &[Tensor],
        index: usize,
        batch_sizes: Option<&[i64]>,
    ) -> Result<Tensor> {
        let products = self.weights.of_inputs(self.kind, x)?;
        let (batch, hidden) = (states[0].size(1)? as usize, states[0].size(2)? as usize);
        let steps = match batch_sizes {
            Some(sizes) => steps_of(sizes.iter().map(|size| *size as usize), self.backwards)?,
            None => steps_of((0..products.size(0)?).map(|_| batch), self.backwards)?,
        };
        let (weight, bias) = (self.weights.hidden, self.bias_of_state());
        Layer { kind: self.kind, weight, bias, batch, hidden, steps }.run(&products, states, index, None)
    }

    /// What is added to the product of the state: for `gru`, which resets their sum.
    fn bias_of_state(&self) -> Option<&Tensor> {
        self.weights.hidden_bias.filter(|_| self.kind == Kind::Gru)
    }

    /// All steps by one operator, whose history is one node.
    pub(super) fn in_operator(
        &self,
        x: &Tensor,
        begin: &[Tensor],
        batch_sizes: Option<&[i64]>,
    ) -> Result<(Tensor, States)> {
        let products = self.weights.of_inputs(self.kind, x)?;
        let (rows, batch, hidden) = (products.size(0)?, begin[0].size(0)?, begin[0].size(1)?);
        let (gates, sizes) = match batch_sizes {
            Some(sizes) => (products, fallible::to_vec(sizes)?),
            None => {
                (ops::reshape(&products, &[-1, products.size(-1)?])?, fallible::filled(batch, rows as usize)?)
            }
        };
        let (output, shown, memory, _, _) = ops::_recurrent_layer(
            &gates,
            self.weights.hidden,
            self.bias_of_state(),
            &begin[0],
            begin.get(1),
            &sizes,
            self.kind.mode(),
            self.backwards,
        )?;
        let output = if batch_sizes.is_none() { ops::view(&output, &[rows, batch, hidden])? } else { output };
        Ok((output, [shown, memory].into_iter().take(begin.len()).collect()))
    }

    pub(super) fn padded(&self, x: &Tensor, mut states: States) -> Result<(Tensor, States)> {
        let mut steps = ops::unbind_int(&self.weights.of_inputs(self.kind, x)?, 0)?;
        self.reverse_if_backwards(&mut steps);
        let mut outputs = fallible::with_capacity(steps.len())?;
        for step in &steps {
            states = self.kind.step(step, &states, self.weights)?;
            outputs.push(states[0].clone());
        }
        self.reverse_if_backwards(&mut outputs);
        Ok((ops::stack(&outputs, 0)?, states))
    }

    /// A step has as many rows as sequences are that long. Forwards, the rows of sequences that end are set aside. Backwards, each sequence
    /// begins with its own last step.
    pub(super) fn packed(&self, x: &Tensor, begin: States, batch_sizes: &[i64]) -> Result<(Tensor, States)> {
        let products = self.weights.of_inputs(self.kind, x)?;
        let mut steps = ops::split_with_sizes(&products, batch_sizes, 0)?;
        self.reverse_if_backwards(&mut steps);
        let mut rows = steps.first().map_or(Ok(0), |step| step.size(0))?;
        let mut states = each(&begin, |state| rows_of(state, 0, rows))?;
        let (mut outputs, mut ended): (Vec<Tensor>, Vec<States>) = (Vec::new(), Vec::new());
        for step in &steps {
            let count = step.size(0)?;
            if count < rows {
                ended.push(each(&states, |state| rows_of(state, count, rows))?);
                states = each(&states, |state| rows_of(state, 0, count))?;
            } else if count > rows {
                let joined = |(state, begin): (&Tensor, &Tensor)| {
                    ops::cat(&[state.clone(), rows_of(begin, rows, count)?], 0)
                };
                states = states.iter().zip(&begin).map(joined).collect::<Result<States>>()?;
            }
            rows = count;
            states = self.kind.step(step, &states, self.weights)?;
            outputs.push(states[0].clone());
        }
        self.reverse_if_backwards(&mut outputs);
        ended.reverse();
        let last = |nr: usize| {
            let parts: Vec<Tensor> =
                std::iter::once(&states).chain(&ended).map(|of| of[nr].clone()).collect();
            ops::cat(&parts, 0)
        };
        Ok((ops::cat(&outputs, 0)?, (0..states.len()).map(last).collect::<Result<States>>()?))
    }

    fn reverse_if_backwards<T>(&self, items: &mut [T]) {
        if self.backwards {
            items.reverse();
        }
    }
}
