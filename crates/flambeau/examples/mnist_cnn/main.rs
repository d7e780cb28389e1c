//! Trains a small convolutional network on images of digits: MNIST's files, or digits drawn here if none are given.

mod args;
mod digits;
mod idx;
mod micro_batches;
mod model;
#[cfg(test)]
mod tests;
mod train;

pub(crate) use args::Args;
use clap::Parser;
use digits::Digits;
use flambeau::distributed::{Environment, launch};
use flambeau::nn::Module;
use flambeau::{Generator, Result};
use micro_batches::MicroBatches;
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use train::Learnt;

fn main() -> ExitCode {
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Trains, or starts the ranks that do.
fn start(args: &Args) -> Result<()> {
    args.check()?;
    if args.ranks > 1 && Environment::from_env().is_err() {
        return launch(args.ranks, 0, &this_program);
    }
    run(args).map(drop)
}

/// This program with its arguments, for one rank.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "mnist_cnn".into()));
    command.args(std::env::args_os().skip(1));
    command
}

/// Held by a training: those of one process draw from its generator of random numbers, so that there is one at a time.
static TRAINING: Mutex<()> = Mutex::new(());

/// Trains, and says what that came to. With several ranks the first one says it.
pub(crate) fn run(args: &Args) -> Result<Learnt> {
    args.check()?;
    let _alone = TRAINING.lock().unwrap_or_else(PoisonError::into_inner);
    if args.threads > 0 {
        flambeau::set_num_threads(args.threads);
    }
    let (train, held_out) = pictures(args)?;
    args.check_steps(train.len())?;
    flambeau::manual_seed(args.seed);
    let mut model = model::network(train.height, train.width)?;
    model.to_device(args.device)?;
    let shared = MicroBatches::new(args, &model.parameters())?;
    if !shared.is_first_rank() {
        return train::run(args, &model, train, &held_out, &shared);
    }
    if args.images.is_none() {
        println!("no files given: digits are drawn");
    }
    println!("{} pictures to train on, {} held out", train.len(), held_out.len());
    println!("model: {} parameters", model.parameter_count());
    let begin = Instant::now();
    let learnt = train::run(args, &model, train, &held_out, &shared)?;
    let right = learnt.right;
    println!("{} epochs in {:.1} s", args.epochs, begin.elapsed().as_secs_f64());
    println!("{right} of {} held-out digits recognised: {:.2}%", held_out.len(), percent(right, &held_out));
    Ok(learnt)
}

fn percent(right: usize, of: &Digits) -> f64 {
    100.0 * right as f64 / of.len() as f64
}

/// What to train on, and what is held out.
fn pictures(args: &Args) -> Result<(Digits, Digits)> {
    let [Some(images), Some(labels), Some(test_images), Some(test_labels)] =
        [&args.images, &args.labels, &args.test_images, &args.test_labels]
    else {
        let generator = Generator::new(args.seed);
        return Ok((digits::draw(args.drawn, &generator)?, digits::draw(args.drawn / 6 + 1, &generator)?));
    };
    let (train, test) = (idx::read(images, labels)?, idx::read(test_images, test_labels)?);
    train.check_same_size(&test).map_err(|e| e.context(test_images.display()))?;
    Ok((train, test))
}
