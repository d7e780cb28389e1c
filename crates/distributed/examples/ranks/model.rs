//! A small training whose steps are micro-batches that the ranks share, with checkpoints that all ranks write.

use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::{Result, manual_seed};
use flambeau_distributed::checkpoint::{self, Shard, ShardedState};
use flambeau_distributed::{
    DataParallelOptions, DistributedDataParallel, ProcessGroup, ZeroRedundancyOptimizer,
};
use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
use flambeau_nn::{Forward, Linear, Module};
use flambeau_ops::Tensor;
use std::path::Path;

/// Two layers.
#[derive(Module)]
pub(crate) struct Net {
    first: Linear,
    second: Linear,
}

impl Net {
    pub(crate) fn new(inputs: i64, hidden: i64) -> Result<Net> {
        Ok(Net { first: Linear::new(inputs, hidden)?, second: Linear::new(hidden, 3)? })
    }
}

impl Forward for Net {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(input)?.tanh()?)
    }
}

const STEPS: usize = 6;
const MICRO_BATCHES: usize = 4;

/// Micro-batch `number` of a step.
fn micro_batch(step: usize, number: usize) -> Result<Tensor> {
    let value = |i: usize| (((i * 37 + number * 101 + step * 1009) % 211) as f32 / 105.0 - 1.0) * 3.0;
    Tensor::from_vec((0..5 * 20).map(value).collect(), &[5, 20])
}

type Zero = ZeroRedundancyOptimizer<AdamW>;

/// Trains, and saves a checkpoint after each step to a folder, if there is one; begins with the last checkpoint. The parameters afterwards,
/// as text.
pub(crate) fn train(group: &ProcessGroup, folder: Option<&Path>) -> Result<String> {
    manual_seed(7);
    let options = DataParallelOptions {
        bucket_bytes: 4000,
        first_bucket_bytes: 1000,
        deterministic_micro_batches: true,
        ..Default::default()
    };
    let model = DistributedDataParallel::new(Net::new(20, 40)?, group.clone(), options)?;
    let make = |params| AdamW::new(params, AdamOptions::default().lr(0.01));
    let mut optimizer = Zero::new(model.parameters(), group.clone(), make)?;
    let first = match folder.filter(|folder| folder.exists()) {
        Some(folder) => resume(folder, model.module(), &mut optimizer)?,
        None => 0,
    };
    let own = MICRO_BATCHES / group.size();
    for step in first..STEPS {
        optimizer.zero_grad()?;
        for number in 0..own {
            let unsynchronized = (number + 1 < own).then(|| model.no_sync());
            let output = model.forward(&micro_batch(step, group.rank() * own + number)?)?;
            output.mul(&output)?.mean()?.backward()?;
            drop(unsynchronized);
        }
        optimizer.step()?;
        if let Some(folder) = folder {
            save(group, folder, model.module(), &optimizer, step + 1)?;
        }
    }
    let _unrecorded = no_grad();
    let bits = |x: Vec<f32>| x.iter().map(|x| format!("{:08x}", x.to_bits())).collect::<String>();
    let parameters = model.module().named_parameters();
    parameters.iter().map(|(name, x)| Ok(format!("{name} {}\n", bits(x.to_vec()?)))).collect()
}

fn save(group: &ProcessGroup, folder: &Path, model: &Net, optimizer: &Zero, step: usize) -> Result<()> {
    let mut state = ShardedState::new();
    for (part, tensors) in [("model", model.state_dict()?), ("optimizer", optimizer.state_dict()?)] {
        tensors.iter().for_each(|(name, x)| drop(state.insert(format!("{part}.{name}"), Shard::whole(x))));
    }
    checkpoint::save(group, folder, &state, &[("step".to_owned(), step.to_string())].into())
}

/// Reads the last checkpoint, and returns the number of its step.
fn resume(folder: &Path, model: &Net, optimizer: &mut Zero) -> Result<usize> {
    if !folder.join("index.safetensors").exists() {
        return Ok(0);
    }
    let (state, notes) = checkpoint::load_all(folder)?;
    let part = |part: &str| {
        let named =
            state.iter().filter_map(|(name, x)| Some((name.strip_prefix(part)?.to_owned(), x.clone())));
        named.collect()
    };
    model.load_state_dict(&part("model."))?;
    optimizer.load_state_dict(&part("optimizer."))?;
    Ok(notes.get("step").and_then(|step| step.parse().ok()).unwrap_or(0))
}
