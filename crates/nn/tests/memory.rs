//! Tests that a thousand training steps take no more memory than a hundred. It is a program of its own, since it reads the memory
//! of the process.

use flambeau_autograd::{Autograd, live_nodes};
use flambeau_core::allocator::{Allocator, CpuAllocator, MemoryStats};
use flambeau_core::{Result, ScalarType, manual_seed};
use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
use flambeau_ops::ops::options::LinearOptions;
use flambeau_ops::{Tensor, ops};

/// A convolution and two layers, trained on other random data at each step.
struct Training {
    parameters: Vec<Tensor>,
    optimizer: AdamW,
}

impl Training {
    fn new() -> Result<Self> {
        let sizes: [&[i64]; 5] = [&[8, 1, 3, 3], &[32, 8 * 6 * 6], &[32], &[10, 32], &[10]];
        let parameters = sizes.map(|sizes| Tensor::randn(sizes, ScalarType::F32)?.mul_scalar(0.1));
        let parameters = parameters.into_iter().collect::<Result<Vec<_>>>()?;
        for parameter in &parameters {
            parameter.requires_grad_(true)?;
        }
        let optimizer = AdamW::new(parameters.clone(), AdamOptions::default())?;
        Ok(Training { parameters, optimizer })
    }

    fn step(&mut self) -> Result<()> {
        let [filter, w, b, v, c] = &self.parameters[..] else { unreachable!("five parameters") };
        let x = Tensor::randn(&[16, 1, 8, 8], ScalarType::F32)?;
        let ids = Tensor::randint(0, 10, &[16], ScalarType::I64)?;
        self.optimizer.zero_grad()?;
        let h = ops::conv2d(&x, filter, None, &[1, 1], &[0, 0], &[1, 1], 1)?.relu()?.flatten(1, -1)?;
        let h = Tensor::linear_with(&h, w, LinearOptions::new().bias(b))?.tanh()?;
        let logits = Tensor::linear_with(&h, v, LinearOptions::new().bias(c))?;
        let loss = ops::nll_loss(&logits.log_softmax(1)?, &ids, None, 1, -100)?;
        loss.backward()?;
        self.optimizer.step()
    }
}

/// Pages of this process that are in memory, in bytes.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split(' ').nth(1)?.parse::<usize>().ok()? * 4096)
}

fn state() -> (MemoryStats, i64, Option<usize>) {
    let state = (CpuAllocator.memory_stats(), live_nodes(), resident());
    CpuAllocator.reset_peak();
    state
}

#[test]
fn a_thousand_steps_take_the_memory_of_a_hundred() {
    manual_seed(1);
    let mut training = Training::new().unwrap();
    (0..100).try_for_each(|_| training.step()).unwrap();
    let (early, nodes, resident_early) = state();
    (100..1000).try_for_each(|_| training.step()).unwrap();
    let (late, nodes_late, resident_late) = state();
    println!(
        "after 100 steps {early:?}, {resident_early:?} resident; after 1000 {late:?}, {resident_late:?} resident"
    );
    assert_eq!(late.live_bytes, early.live_bytes);
    assert_eq!(late.allocations - late.frees, early.allocations - early.frees);
    assert!(late.allocations > 9 * early.allocations, "the steps allocate, or this shows nothing");
    assert!(late.peak_bytes <= early.peak_bytes && late.cached_bytes <= early.cached_bytes);
    assert_eq!(nodes_late, nodes);
    if let (Some(early), Some(late)) = (resident_early, resident_late) {
        assert!(late < early + (1 << 20), "{early} bytes resident after 100 steps, {late} after 1000");
    }
}
