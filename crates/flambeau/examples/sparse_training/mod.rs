//! What the examples of sparse tensors share: options of their training, and the loop that prints, times and measures it.

use clap::Args;
use flambeau::core::allocator::{Allocator, CpuAllocator};
use flambeau::core::ensure;
use flambeau::prelude::*;
use std::process::ExitCode;
use std::time::Instant;

/// The options of every training.
#[derive(Args, Debug, Clone)]
pub(crate) struct Training {
    /// Steps of training.
    #[arg(long, default_value_t = 40)]
    pub(crate) steps: usize,
    /// Learning rate.
    #[arg(long, default_value_t = 1e-2)]
    pub(crate) lr: f64,
    /// Of everything that is drawn.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What a training came to: the losses of the first and the last step, what the last line said beside the loss, and the most bytes that a
/// step took beside those that were there before it.
#[derive(Debug)]
pub(crate) struct Outcome<T> {
    pub(crate) losses: [f32; 2],
    pub(crate) said: T,
    pub(crate) bytes: usize,
    pub(crate) milliseconds: f64,
}

impl<T> Outcome<T> {
    pub(crate) fn mebibytes(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20)
    }
}

/// Runs a program and prints its error.
pub(crate) fn exit_code<T>(outcome: Result<T>) -> ExitCode {
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Training {
    /// Requires sizes of at least 1, and steps, and seeds the generator.
    pub(crate) fn begin(&self, sizes: &[i64]) -> Result<()> {
        ensure!(
            self.steps > 0 && sizes.iter().all(|size| *size > 0),
            InvalidArgument,
            "expected sizes and steps of at least 1 but got {sizes:?} and {}",
            self.steps
        );
        flambeau::manual_seed(self.seed);
        Ok(())
    }

    /// Trains by `step`, which gives the loss and `T`. The first and every tenth step print the loss and what `say` tells of it.
    pub(crate) fn run<T>(
        &self,
        mut step: impl FnMut() -> Result<(Tensor, T)>,
        say: impl Fn(&T) -> Result<String>,
    ) -> Result<Outcome<T>> {
        let (mut first, mut bytes, begin) = (None, 0, Instant::now());
        for number in 1.. {
            let before = CpuAllocator.memory_stats().live_bytes;
            CpuAllocator.reset_peak();
            let (loss, said) = step()?;
            // The first step also makes the state of the optimizer.
            if number > 1 {
                bytes = CpuAllocator.memory_stats().peak_bytes.saturating_sub(before);
            }
            let loss = loss.item::<f32>()?;
            if number % 10 == 0 || number == 1 {
                println!("step {number}: loss {loss:.4}, {}", say(&said)?);
            }
            let losses = [*first.get_or_insert(loss), loss];
            if number == self.steps {
                let milliseconds = begin.elapsed().as_secs_f64() * 1e3 / self.steps as f64;
                return Ok(Outcome { losses, said, bytes, milliseconds });
            }
        }
        flambeau::core::bail!(Internal, "no step was the last one")
    }
}
