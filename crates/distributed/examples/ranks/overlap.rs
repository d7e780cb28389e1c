//! Communication beside the backward pass: with messages that are delayed a step takes about the longer of both.

use crate::job::{self, Job};
use flambeau_autograd::Autograd;
use flambeau_core::{Result, ensure, error};
use flambeau_distributed::simulate::Network;
use flambeau_distributed::{DataParallelOptions, ProcessGroup, Reducer};
use flambeau_ops::Tensor;
use std::time::{Duration, Instant};

pub(crate) const COMPUTE: &str = "FLAMBEAU_RANKS_COMPUTE";
pub(crate) const MESSAGE: &str = "FLAMBEAU_RANKS_MESSAGE_TIME";

/// How many gradients there are, each a bucket of its own.
pub(crate) const GRADIENTS: usize = 16;
/// Seconds of computation for each gradient, and of each message: the one, then the other is the longer.
const CASES: [(f64, f64); 2] = [(0.08, 0.05), (0.05, 0.08)];
/// How often a step is measured that is too long: other programs may have delayed it.
const TRIES: usize = 5;
/// How much longer than the greater of computation and communication a step may take.
const LIMIT: f64 = 1.10;

pub(crate) fn run(_: bool) -> Result<String> {
    let mut texts = Vec::new();
    for (compute, message) in CASES {
        let job = Job::new("overlap", 2).set(COMPUTE, compute).set(MESSAGE, message);
        let (compute, messages) = (compute * GRADIENTS as f64, message * GRADIENTS as f64);
        let step = shortest(&job, compute.max(messages) * LIMIT)?;
        let ratio = step / compute.max(messages);
        ensure!(
            ratio <= LIMIT,
            Internal,
            "computation {compute:.2} s, communication {messages:.2} s: a step takes {step:.3} s"
        );
        texts.push(format!("{compute:.2} s and {messages:.2} s take {step:.3} s, {ratio:.3} of the longer"));
    }
    Ok(format!("computation and communication of {}", texts.join("; ")))
}

/// The shortest step of some jobs, until one is short enough.
pub(crate) fn shortest(job: &Job<'_>, enough: f64) -> Result<f64> {
    let mut found = f64::INFINITY;
    for _ in 0..TRIES {
        found = found.min(longest(&job.run()?)?);
        if found <= enough {
            break;
        }
    }
    Ok(found)
}

/// The longest of the times that the ranks have reported.
fn longest(reports: &[String]) -> Result<f64> {
    let times = reports
        .iter()
        .map(|report| report.trim().parse().map_err(|_| error!(Internal, "no time: {report:?}")));
    times.collect::<Result<Vec<f64>>>().map(|times| times.into_iter().fold(0.0, f64::max))
}

pub(crate) fn rank() -> Result<()> {
    let network = Network { latency: job::number(MESSAGE)?, bandwidth: f64::INFINITY };
    let mut options = job::options(60.0);
    options.network = Some(network);
    let group = job::group(options)?;
    let rank = group.rank();
    let seconds = shortest_step(group, &[1; GRADIENTS], job::number(COMPUTE)?)?;
    job::report(rank, &seconds.to_string())
}

/// Parameters whose gradients are computed one after another, each of so many elements and in so many seconds.
pub(crate) struct Chain(pub(crate) Vec<Tensor>);

impl Chain {
    pub(crate) fn new(counts: &[i64], compute: f64) -> Result<Chain> {
        let leaf =
            |count: &i64| Tensor::ones(&[*count], flambeau_core::ScalarType::F32)?.with_requires_grad(true);
        let leaves: Vec<Tensor> = counts.iter().map(leaf).collect::<Result<_>>()?;
        let sleep = move |_: &Tensor| {
            std::thread::sleep(Duration::from_secs_f64(compute));
            Ok(None)
        };
        leaves.iter().try_for_each(|leaf| leaf.register_hook(sleep).map(drop))?;
        Ok(Chain(leaves))
    }

    /// The gradient of each parameter needs that of the one after it.
    pub(crate) fn loss(&self) -> Result<Tensor> {
        let chain = |product: Result<Tensor>, leaf: &Tensor| product?.mul(&leaf.sum()?);
        self.0.iter().fold(Ok(Tensor::from([1.0f32])), chain)?.sum()
    }
}

/// Each gradient is a bucket of its own.
pub(crate) fn single_buckets() -> DataParallelOptions {
    DataParallelOptions { bucket_bytes: 1, first_bucket_bytes: 1, ..Default::default() }
}

/// The shortest of some backward passes.
pub(crate) fn shortest_step(group: ProcessGroup, counts: &[i64], compute: f64) -> Result<f64> {
    let chain = Chain::new(counts, compute)?;
    let barrier = group.clone();
    let _reducer = Reducer::new(&chain.0, group, single_buckets())?;
    let mut shortest = f64::INFINITY;
    for _ in 0..3 {
        let loss = chain.loss()?;
        barrier.barrier()?.wait()?;
        let begin = Instant::now();
        loss.backward()?;
        shortest = shortest.min(begin.elapsed().as_secs_f64());
    }
    Ok(shortest)
}
