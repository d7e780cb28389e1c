//! Trains a small convolutional network on images of digits: MNIST's files, or digits drawn here if none are given.

mod args;
mod digits;
mod idx;
mod model;
#[cfg(test)]
mod tests;
mod train;

pub(crate) use args::Args;
use clap::Parser;
use digits::Digits;
use flambeau::nn::Module;
use flambeau::{Generator, Result};
use std::process::ExitCode;
use std::time::Instant;
use train::Learnt;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Trains, and says what that came to.
pub(crate) fn run(args: &Args) -> Result<Learnt> {
    args.check()?;
    if args.threads > 0 {
        flambeau::set_num_threads(args.threads);
    }
    let (train, held_out) = pictures(args)?;
    println!("{} pictures to train on, {} held out", train.len(), held_out.len());
    flambeau::manual_seed(args.seed);
    let mut model = model::network(train.height, train.width)?;
    model.to_device(args.device)?;
    println!("model: {} parameters", model.parameter_count());
    let begin = Instant::now();
    let learnt = train::run(args, &model, train, &held_out)?;
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
        println!("no files given: digits are drawn");
        let generator = Generator::new(args.seed);
        return Ok((digits::draw(args.drawn, &generator)?, digits::draw(args.drawn / 6 + 1, &generator)?));
    };
    let (train, test) = (idx::read(images, labels)?, idx::read(test_images, test_labels)?);
    train.check_same_size(&test).map_err(|e| e.context(test_images.display()))?;
    Ok((train, test))
}
