//! Data parallel training: the same bits on 1, 2 and 4 ranks, and communication beside the backward pass.

use super::{on_ranks, options, start};
use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::Result;
use flambeau_distributed::simulate::Network;
use flambeau_distributed::{
    DataParallelOptions, DistributedDataParallel, Environment, ProcessGroup, ProcessGroupOptions, Reducer,
    ZeroRedundancyOptimizer,
};
use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
use flambeau_nn::{Forward, Linear, Module};
use flambeau_ops::Tensor;
use std::time::{Duration, Instant};

/// A network with two layers, whose parameters depend on the rank until they are synchronized.
struct Network2 {
    first: Linear,
    second: Linear,
}

impl Module for Network2 {
    fn visit(&self, visitor: &mut flambeau_nn::Visitor<'_>) {
        visitor.field("first", &self.first);
        visitor.field("second", &self.second);
    }

    fn visit_mut(&mut self, visitor: &mut flambeau_nn::VisitorMut<'_>) {
        visitor.field("first", &mut self.first);
        visitor.field("second", &mut self.second);
    }
}

impl Forward for Network2 {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.second.forward(&self.first.forward(input)?.tanh()?)
    }
}

/// Micro-batch `number` of a step.
fn micro_batch(step: usize, number: usize) -> Result<Tensor> {
    let values =
        (0..5 * 20).map(|i| (((i * 37 + number * 101 + step * 1009) % 211) as f32 / 105.0 - 1.0) * 3.0);
    Tensor::from_vec(values.collect(), &[5, 20])
}

const MICRO_BATCHES: usize = 4;

/// Trains with four micro-batches a step on all ranks together; the parameters afterwards, as text.
fn trained(group: &ProcessGroup, zero: bool) -> Result<String> {
    flambeau_core::manual_seed(group.rank() as u64);
    let options = DataParallelOptions {
        bucket_bytes: 4000,
        first_bucket_bytes: 1000,
        deterministic_micro_batches: true,
        ..Default::default()
    };
    if group.rank() == 0 {
        flambeau_core::manual_seed(7);
    }
    let model = Network2 { first: Linear::new(20, 40)?, second: Linear::new(40, 3)? };
    let model = DistributedDataParallel::new(model, group.clone(), options)?;
    let make = |params| AdamW::new(params, AdamOptions::default().lr(0.01));
    let mut optimizer: Box<dyn Optimizer> = match zero {
        true => Box::new(ZeroRedundancyOptimizer::new(model.parameters(), group.clone(), make)?),
        false => Box::new(make(model.parameters())?),
    };
    let own = MICRO_BATCHES / group.size();
    for step in 0..5 {
        optimizer.zero_grad()?;
        for number in 0..own {
            let unsynchronized = (number + 1 < own).then(|| model.no_sync());
            let output = model.forward(&micro_batch(step, group.rank() * own + number)?)?;
            output.mul(&output)?.mean()?.backward()?;
            drop(unsynchronized);
        }
        optimizer.step()?;
    }
    let _unrecorded = no_grad();
    let bits = |x: Vec<f32>| x.iter().map(|x| format!("{:08x}", x.to_bits())).collect::<String>();
    model.named_parameters().iter().map(|(name, x)| Ok(format!("{name} {}\n", bits(x.to_vec()?)))).collect()
}

#[test]
fn one_two_and_four_ranks_train_to_the_same_bits() {
    const NAME: &str = "training::one_two_and_four_ranks_train_to_the_same_bits";
    if std::env::var_os("RANK").is_some() {
        let group = ProcessGroup::from_environment(&Environment::from_env().unwrap(), options(30.0)).unwrap();
        let sharded = std::env::var("SHARDED").is_ok_and(|sharded| sharded == "1");
        let text = trained(&group, sharded).unwrap();
        return std::fs::write(format!("{}.{}", std::env::var("RESULT").unwrap(), group.rank()), text)
            .unwrap();
    }
    let alone = trained(&ProcessGroup::single().unwrap(), false).unwrap();
    let folder = std::env::temp_dir().join(format!("flambeau-ranks-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (size, sharded) in [(1, "0"), (2, "0"), (4, "0"), (2, "1")] {
        let result = folder.join(format!("{size}-{sharded}")).display().to_string();
        let environment = [("RESULT", result.clone()), ("SHARDED", sharded.to_owned())];
        for child in start(NAME, size, &environment) {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        for rank in 0..size {
            let text = std::fs::read_to_string(format!("{result}.{rank}")).unwrap();
            assert!(text == alone, "rank {rank} of {size}, sharded {sharded}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_model_that_differs_is_an_error() {
    on_ranks("training::a_model_that_differs_is_an_error", 2, options(20.0), &[0, 1], |group| {
        let model = Linear::new(3 + group.rank() as i64, 2).unwrap();
        let outcome = DistributedDataParallel::new(model, group.clone(), Default::default()).map(drop);
        if group.rank() == 1 {
            let e = outcome.unwrap_err();
            assert!(
                e.message().contains("expected the model of rank 0") && e.message().contains("[2, 4]"),
                "{e}"
            );
            group.abort("the models differ");
        } else {
            // Rank 0 may have sent all before rank 1 reports the difference.
            assert!(outcome.is_err() || group.barrier().and_then(|work| work.wait()).is_err());
        }
    });
}

/// How long one gradient is computed, and how long one message takes.
const COMPUTE: Duration = Duration::from_millis(100);
const MESSAGE: f64 = 0.05;
const GRADIENTS: u32 = 6;

#[test]
fn communication_overlaps_the_backward_pass() {
    let network = Some(Network { latency: MESSAGE, bandwidth: f64::INFINITY });
    let slow = ProcessGroupOptions { network, ..options(30.0) };
    on_ranks("training::communication_overlaps_the_backward_pass", 2, slow, &[0, 1], |group| {
        let leaf = |_| Tensor::from([1.0f32]).with_requires_grad(true).unwrap();
        let leaves: Vec<Tensor> = (0..GRADIENTS).map(leaf).collect();
        let compute = |_: &Tensor| {
            std::thread::sleep(COMPUTE);
            Ok(None)
        };
        leaves.iter().for_each(|leaf| drop(leaf.register_hook(compute).unwrap()));
        // Every gradient is a bucket of its own.
        let options = DataParallelOptions { bucket_bytes: 1, first_bucket_bytes: 1, ..Default::default() };
        let reducer = Reducer::new(&leaves, group, options).unwrap();
        assert_eq!(reducer.bucket_bytes(), [4; GRADIENTS as usize]);
        let step = |_| {
            let product =
                leaves[1..].iter().fold(leaves[0].clone(), |product, leaf| product.mul(leaf).unwrap());
            let begin = Instant::now();
            product.sum().unwrap().backward().unwrap();
            begin.elapsed()
        };
        let shortest = (0..3).map(step).min().unwrap();
        // All gradients, and the last message, which nothing hides. One after another they would take half as long again.
        let expected = COMPUTE * GRADIENTS + Duration::from_secs_f64(MESSAGE);
        assert!(
            shortest >= expected && shortest < expected.mul_f64(1.15),
            "{shortest:?} but {expected:?} expected"
        );
    });
}
