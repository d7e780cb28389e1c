//! ZeRO: the state of an optimizer is shared by the ranks. The library's own counts of live bytes are compared.

use crate::job::{self, Job};
use crate::model::Net;
use flambeau_autograd::Autograd;
use flambeau_core::allocator::{Allocator, CpuAllocator};
use flambeau_core::{Result, ensure, error};
use flambeau_distributed::{DistributedDataParallel, ProcessGroup, ZeroRedundancyOptimizer};
use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
use flambeau_nn::{Forward, Module};
use flambeau_ops::Tensor;
use std::time::Duration;

/// The largest share of the state that a rank of two may have: half, and the difference of the sizes of single parameters.
const LIMIT: f64 = 0.55;

pub(crate) fn run(_: bool) -> Result<String> {
    let mut shares = Vec::new();
    for report in Job::new("memory", 2).run()? {
        let numbers: Vec<f64> = report.split(' ').filter_map(|number| number.parse().ok()).collect();
        let [whole, sharded] = numbers[..] else {
            return Err(error!(Internal, "a rank reported {report:?}"));
        };
        let share = sharded / whole;
        ensure!(share <= LIMIT, Internal, "a rank has {sharded} of {whole} bytes of state");
        shares.push(format!("{:.1} of {:.1} MB", sharded / 1e6, whole / 1e6));
    }
    Ok(format!("ZeRO: the ranks have {} of the optimizer's state", shares.join(" and ")))
}

pub(crate) fn rank() -> Result<()> {
    let group = job::group(job::options(60.0))?;
    let whole = state_bytes(&group, false)?;
    let sharded = state_bytes(&group, true)?;
    job::report(group.rank(), &format!("{whole} {sharded}"))
}

/// By how many bytes the memory in use shrinks when an optimizer is dropped that has made a step.
fn state_bytes(group: &ProcessGroup, sharded: bool) -> Result<usize> {
    // The hidden weights of both layers are about as large, so that two ranks can share them.
    let net = Wide { first: Net::new(700, 1000)?, second: Net::new(700, 1000)? };
    let model = DistributedDataParallel::new(net, group.clone(), Default::default())?;
    let make = |params| AdamW::new(params, AdamOptions::default());
    let mut optimizer: Box<dyn Optimizer> = match sharded {
        true => Box::new(ZeroRedundancyOptimizer::new(model.parameters(), group.clone(), make)?),
        false => Box::new(make(model.parameters())?),
    };
    model.forward(&Tensor::ones(&[2, 700], flambeau_core::ScalarType::F32)?)?.sum()?.backward()?;
    optimizer.step()?;
    let with_state = settled();
    drop(optimizer);
    Ok(with_state.saturating_sub(settled()))
}

/// The bytes in use once threads that communicate have freed what they have sent and received.
fn settled() -> usize {
    let live = || CpuAllocator.memory_stats().live_bytes;
    let (mut bytes, mut same) = (live(), 0);
    while same < 20 {
        std::thread::sleep(Duration::from_millis(5));
        let now = live();
        same = if now == bytes { same + 1 } else { 0 };
        bytes = now;
    }
    bytes
}

/// Two networks side by side.
#[derive(Module)]
struct Wide {
    first: Net,
    second: Net,
}

impl Forward for Wide {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.first.forward(input)?.add(&self.second.forward(input)?)
    }
}
