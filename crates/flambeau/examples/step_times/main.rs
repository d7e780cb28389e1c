//! Times training steps of usual models: those of `tests/parity/python/models/training.py`, which PyTorch and our Python run.

mod networks;
mod steps;

use clap::Parser;
use flambeau::core::ensure;
use flambeau::{Result, Tensor, manual_seed, set_num_threads};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Times training steps of a model, and prints them with the last loss as JSON.
#[derive(Parser, Debug, Clone)]
#[command(name = "step_times")]
struct Args {
    /// resnet18, vit_tiny, gpt, lstm, unet, vae or gcn.
    #[arg(long)]
    only: String,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How long steps are taken, after some that warm up.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Steps before those that are timed, and the smallest number of these.
const WARM_UP: usize = 3;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok((times, loss)) => {
            println!("{{\"times\": {times:?}, \"loss\": {loss:?}}}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// The seconds of each step, and the last loss.
fn run(args: &Args) -> Result<(Vec<f64>, f32)> {
    ensure!(
        args.seconds.is_finite() && args.seconds >= 0.0,
        InvalidArgument,
        "expected a number of seconds but got {}",
        args.seconds
    );
    set_num_threads(args.threads);
    manual_seed(0);
    let mut step = steps::of(&args.only)?;
    for _ in 0..WARM_UP {
        step()?;
    }
    let end = Instant::now() + Duration::from_secs_f64(args.seconds);
    let (mut times, mut loss) = (vec![], Tensor::from(f32::NAN));
    while Instant::now() < end || times.len() < WARM_UP {
        let start = Instant::now();
        loss = step()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok((times, loss.item()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lower_the_loss() {
        for name in steps::NAMES {
            manual_seed(0);
            let mut step = steps::of(name).unwrap();
            let losses: Vec<f32> = (0..4).map(|_| step().unwrap().item().unwrap()).collect();
            assert!(losses[3] < losses[0] && losses[3].is_finite(), "{name}: {losses:?}");
        }
    }

    #[test]
    fn an_unknown_model_is_an_error() {
        let message = steps::of("gpt5").err().unwrap().to_string();
        assert!(message.contains("gpt5") && message.contains("resnet18"), "{message}");
    }
}
