//! Batch normalization by the statistics of all ranks. PyTorch's `SyncBatchNorm`.

use crate::functional::all_reduce;
use crate::group::ProcessGroup;
use flambeau_autograd::no_grad;
use flambeau_core::{Result, ScalarType, bail, ensure};
use flambeau_nn::functional::{Mode, RunningNorm, batch_norm};
use flambeau_nn::{ChannelNormOptions, Forward, Module, Training};
use flambeau_ops::Tensor;
use flambeau_ops::ops::options::SumOptions;

/// Normalizes each channel over the batches of all ranks and all positions, then scales and shifts. `[n, channels, ..]` to the same. All
/// ranks run it, and the backward pass, in which they meet again. In evaluation it uses the moving statistics of this rank, which are those
/// of all.
///
/// The variance is that of differences from the mean, so that channels whose mean is large lose no digits.
#[derive(Module)]
pub struct SyncBatchNorm {
    /// `[channels]`.
    pub weight: Option<Tensor>,
    /// `[channels]`.
    pub bias: Option<Tensor>,
    /// `[channels]`: the moving mean.
    #[module(buffer)]
    pub running_mean: Option<Tensor>,
    /// `[channels]`: the moving variance.
    #[module(buffer)]
    pub running_var: Option<Tensor>,
    /// Batches that training has seen: one i64.
    #[module(buffer)]
    pub num_batches_tracked: Option<Tensor>,
    #[module(skip)]
    options: ChannelNormOptions,
    #[module(skip)]
    group: ProcessGroup,
    training: Training,
}

impl SyncBatchNorm {
    /// For inputs with so many channels on each rank of a group.
    ///
    /// # Errors
    /// `InvalidArgument` for less than one channel, `OutOfMemory`.
    pub fn new(channels: i64, group: ProcessGroup, options: ChannelNormOptions) -> Result<Self> {
        let local = flambeau_nn::BatchNorm1d::with_options(channels, options.clone())?;
        Ok(SyncBatchNorm {
            weight: local.weight.clone(),
            bias: local.bias.clone(),
            running_mean: local.running_mean.clone(),
            running_var: local.running_var.clone(),
            num_batches_tracked: local.num_batches_tracked.clone(),
            options,
            group,
            training: Training::new(),
        })
    }

    /// Normalizes by the statistics of all ranks, and moves the moving ones.
    fn train(&self, input: &Tensor) -> Result<Tensor> {
        let dims: Vec<i64> = (0..input.dim() as i64).filter(|dim| *dim != 1).collect();
        let channels = input.sizes()[1];
        let count = Tensor::full(&[1], (input.numel() / channels.max(1)) as f64, ScalarType::F64)?;
        self.group.all_reduce(&count, crate::ReduceOp::Sum)?.wait()?;
        let count = count.item::<f64>()?;
        ensure!(
            count > 1.0,
            InvalidArgument,
            "SyncBatchNorm: expected more than one value for each channel on all ranks"
        );
        let sum = |x: &Tensor| {
            let sum = x.sum_with(SumOptions::new().dim(&dims).keepdim(true))?;
            all_reduce(&self.group, &sum)?.div_scalar(count)
        };
        let mean = sum(input)?;
        let centred = input.sub(&mean)?;
        let var = sum(&centred.mul(&centred)?)?;
        self.update(&mean, &var, count)?;
        let shape: Vec<i64> = (0..input.dim()).map(|dim| if dim == 1 { channels } else { 1 }).collect();
        let mut output = centred.mul(&var.add_scalar(self.options.eps)?.rsqrt()?)?;
        if let Some(weight) = &self.weight {
            output = output.mul(&weight.view(&shape)?)?;
        }
        if let Some(bias) = &self.bias {
            output = output.add(&bias.view(&shape)?)?;
        }
        Ok(output)
    }

    fn update(&self, mean: &Tensor, var: &Tensor, count: f64) -> Result<()> {
        let _unrecorded = no_grad();
        let (Some(running_mean), Some(running_var), Some(batches)) =
            (&self.running_mean, &self.running_var, &self.num_batches_tracked)
        else {
            return Ok(());
        };
        batches.add_scalar_(1)?;
        let momentum = match self.options.momentum {
            Some(momentum) => momentum,
            None => 1.0 / batches.item::<i64>()? as f64,
        };
        let unbiased = var.detach()?.mul_scalar(count / (count - 1.0))?;
        for (running, new) in [(running_mean, mean.detach()?), (running_var, unbiased)] {
            let new = new.view(running.sizes())?.to_dtype(running.dtype())?;
            running.mul_scalar_(1.0 - momentum)?.add_(&new.mul_scalar(momentum)?)?;
        }
        Ok(())
    }
}

impl Forward for SyncBatchNorm {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let channels = self.weight.as_ref().or(self.running_mean.as_ref()).map(Tensor::numel);
        let found = input.sizes().get(1).copied();
        if found.is_none() || channels.is_some_and(|channels| Some(channels) != found) {
            bail!(
                Shape,
                "SyncBatchNorm: expected an input of sizes [n, {channels:?}, ..] but got {:?}",
                input.sizes()
            );
        }
        if self.training.is_training() || self.running_mean.is_none() {
            return self.train(input);
        }
        let options = RunningNorm {
            running_mean: self.running_mean.clone(),
            running_var: self.running_var.clone(),
            weight: self.weight.clone(),
            bias: self.bias.clone(),
            momentum: 0.0,
            eps: self.options.eps,
        };
        batch_norm(input, Mode::Evaluation, options)
    }
}
