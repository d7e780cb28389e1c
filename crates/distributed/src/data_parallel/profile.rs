//! Measures what one rank computes in a step, for the simulator.

use super::DataParallelOptions;
use super::buckets::lists;
use crate::simulate::Profile;
use flambeau_autograd::Autograd;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Measures a step of one rank: `forward` returns the loss, and `step` is that of the optimizer. Buckets are those of the options, and the
/// profile says when each would be full. The first step of a program is longer than others; measure a later one.
///
/// # Errors
/// Those of the functions and of the backward pass.
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_distributed::data_parallel::profile;
/// use flambeau_distributed::simulate::{Network, Strategy, simulate};
/// use flambeau_ops::Tensor;
/// let w = Tensor::from([1.0f32, 2.0]).with_requires_grad(true)?;
/// let measured = profile(std::slice::from_ref(&w), &Default::default(), || w.sum(), || Ok(()))?;
/// assert_eq!(measured.backward.len(), 1);
/// println!("{:?}", simulate(&measured, Network::ETHERNET, 16, Strategy::DataParallel));
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn profile(
    params: &[Tensor],
    options: &DataParallelOptions,
    forward: impl FnOnce() -> Result<Tensor>,
    step: impl FnOnce() -> Result<()>,
) -> Result<Profile> {
    let begin = Instant::now();
    let loss = forward()?;
    let forward = begin.elapsed().as_secs_f64();
    // Seconds of the backward pass after which each gradient was there.
    let arrived = Arc::new(Mutex::new(vec![0.0f64; params.len()]));
    let begin = Instant::now();
    let hook = |(number, param): (usize, &Tensor)| {
        let arrived = arrived.clone();
        param.register_post_accumulate_grad_hook(move |_| {
            arrived.lock()[number] = begin.elapsed().as_secs_f64();
            Ok(())
        })
    };
    let hooks: Vec<_> = params.iter().enumerate().map(hook).collect::<Result<_>>()?;
    let outcome = loss.backward();
    hooks.iter().for_each(flambeau_autograd::HookHandle::remove);
    outcome?;
    let begin = Instant::now();
    step()?;
    let optimizer = begin.elapsed().as_secs_f64();
    let (arrived, mut before, mut backward) = (arrived.lock(), 0.0, Vec::new());
    for list in lists(params, options) {
        // A bucket is sent after those before it.
        let full = list.iter().map(|param| arrived[*param]).fold(before, f64::max);
        let bytes: usize = list.iter().map(|param| params[*param].nbytes()).sum();
        backward.push((full - before, bytes as f64));
        before = full;
    }
    Ok(Profile { forward, backward, optimizer })
}
