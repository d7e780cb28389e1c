//! A step as several micro-batches, which the ranks share.

use super::super::args::Args;
use flambeau::distributed::{DataParallelOptions, ProcessGroup, ReduceOp, Reducer};
use flambeau::{Autograd, Generator, Result, Tensor, manual_seed};
use std::ops::Range;

/// Averages the gradients of micro-batches in a fixed binary tree, so that the result is the same for every number of ranks.
pub(super) struct MicroBatches {
    group: ProcessGroup,
    reducer: Reducer,
    count: usize,
}

impl MicroBatches {
    /// `None` where a step is one micro-batch. The processes that a launcher started are the ranks.
    pub(super) fn new(args: &Args, parameters: &[Tensor]) -> Result<Option<Self>> {
        let count = args.micro_batches();
        if count == 1 {
            return Ok(None);
        }
        let group = if args.ranks > 1 { ProcessGroup::from_env()? } else { ProcessGroup::single()? };
        let options = DataParallelOptions { deterministic_micro_batches: true, ..Default::default() };
        let reducer = Reducer::new(parameters, group.clone(), options)?;
        Ok(Some(MicroBatches { group, reducer, count }))
    }

    /// The micro-batches of this rank.
    fn own(&self) -> Range<usize> {
        let each = self.count / self.group.size();
        self.group.rank() * each..(self.group.rank() + 1) * each
    }

    /// Computes the gradients of a step, and returns the mean loss. Each micro-batch has random numbers of its own, so that it does not
    /// matter which rank computes it.
    pub(super) fn backward(
        &self,
        seed: u64,
        step: u64,
        loss: impl Fn(usize) -> Result<Tensor>,
    ) -> Result<f64> {
        let before = Generator::default_cpu().state();
        let (own, mut losses) = (self.own(), vec![0.0f64; self.count]);
        for number in own.clone() {
            self.reducer.set_sync(number + 1 == own.end);
            let draw = step.wrapping_mul(self.count as u64).wrapping_add(number as u64);
            manual_seed(seed.rotate_left(32) ^ draw);
            let loss = loss(number)?;
            loss.backward()?;
            losses[number] = f64::from(loss.item::<f32>()?);
        }
        Generator::default_cpu().set_state(before);
        // Each loss is added to zeros, which changes no bit.
        let losses = Tensor::from_vec(losses, &[self.count as i64])?;
        self.group.all_reduce(&losses, ReduceOp::Sum)?.wait()?;
        Ok(losses.to_vec::<f64>()?.iter().sum::<f64>() / self.count as f64)
    }

    pub(super) fn is_first_rank(&self) -> bool {
        self.group.rank() == 0
    }

    pub(super) fn any_rank(&self, condition: bool) -> Result<bool> {
        let flag = Tensor::from([u8::from(condition)]);
        self.group.all_reduce(&flag, ReduceOp::Max)?.wait()?;
        Ok(flag.item::<u8>()? != 0)
    }
}
