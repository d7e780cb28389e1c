//! A step as several micro-batches, which the ranks share. The result is the same for every number of ranks, since gradients are added in a
//! fixed binary tree.

use super::args::Args;
use flambeau::distributed::{DataParallelOptions, ProcessGroup, ReduceOp, Reducer};
use flambeau::{Autograd, Result, Tensor};
use std::ops::Range;

/// How the pictures of a step are divided.
pub(crate) struct MicroBatches {
    count: usize,
    /// What averages gradients, if a step is more than one micro-batch.
    shared: Option<(ProcessGroup, Reducer)>,
}

impl MicroBatches {
    /// The processes that a launcher started are the ranks.
    ///
    /// # Errors
    /// Those of connecting.
    pub(crate) fn new(args: &Args, parameters: &[Tensor]) -> Result<Self> {
        let count = args.micro_batches();
        if count == 1 {
            return Ok(MicroBatches { count, shared: None });
        }
        let group = if args.ranks > 1 { ProcessGroup::from_env()? } else { ProcessGroup::single()? };
        let options = DataParallelOptions { deterministic_micro_batches: true, ..Default::default() };
        let reducer = Reducer::new(parameters, group.clone(), options)?;
        Ok(MicroBatches { count, shared: Some((group, reducer)) })
    }

    /// Whether this process is the one that tests the model and reports.
    pub(crate) fn is_first_rank(&self) -> bool {
        self.shared.as_ref().is_none_or(|(group, _)| group.rank() == 0)
    }

    /// Computes the gradients of a step, and returns its mean loss; `loss` is that of some pictures.
    ///
    /// # Errors
    /// Those of the operators, and of other ranks.
    pub(crate) fn backward(
        &self,
        pictures: &Tensor,
        digits: &Tensor,
        loss: impl Fn(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<f64> {
        let Some((group, reducer)) = &self.shared else {
            let loss = loss(pictures, digits)?;
            loss.backward()?;
            return Ok(f64::from(loss.item::<f32>()?));
        };
        let (each, total) = (self.count / group.size(), pictures.size(0)?);
        let own = group.rank() * each..(group.rank() + 1) * each;
        let mut losses = vec![0.0f64; self.count];
        for number in own.clone() {
            reducer.set_sync(number + 1 == own.end);
            let Range { start, end } = self.part(number, total);
            let part = |all: &Tensor| all.narrow(0, start, end - start);
            // The mean of the means is that of all pictures, also where the micro-batches of the last step differ in size.
            let share = (end - start) as f64 * self.count as f64 / total as f64;
            let loss = loss(&part(pictures)?, &part(digits)?)?.mul_scalar(share)?;
            loss.backward()?;
            losses[number] = f64::from(loss.item::<f32>()?);
        }
        // Each loss is added to zeros, which changes no bit.
        let losses = Tensor::from_vec(losses, &[self.count as i64])?;
        group.all_reduce(&losses, ReduceOp::Sum)?.wait()?;
        Ok(losses.to_vec::<f64>()?.iter().sum::<f64>() / self.count as f64)
    }

    /// The pictures of a micro-batch, of `total`.
    fn part(&self, number: usize, total: i64) -> Range<i64> {
        let start = |number: usize| number as i64 * total / self.count as i64;
        start(number)..start(number + 1)
    }
}
