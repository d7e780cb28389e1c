//! Trains a character GPT on real text: by default this repository's docs, or any file or folder given with `--text`.

mod args;
mod bigram;
mod model;
mod plot;
mod text;
mod train;

use args::Args;
use clap::Parser;
use flambeau::nn::Module;
use flambeau::{Error, ErrorKind, Result};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use text::Text;
use train::Training;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<()> {
    if args.threads > 0 {
        flambeau::set_num_threads(args.threads);
    }
    let text = Text::read(&args.text, args.context)?;
    println!(
        "text: {} characters to train on, {} held out, {} different",
        text.train.len(),
        text.held_out.len(),
        text.alphabet.len()
    );
    let bigram = bigram::held_out_loss(&text.train, &text.held_out, text.alphabet.len());
    let mut training = Training::new(args.clone(), text)?;
    println!("model: {} parameters", training.model.parameter_count());

    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    ctrlc::set_handler(move || asked.store(true, Ordering::Relaxed))
        .map_err(|e| Error::new(ErrorKind::Internal, format!("Ctrl-C: {e}")))?;
    training.run(&stop, bigram)?;

    if training.step() < args.steps {
        println!("saved at step {}; go on with --resume", training.step());
        return Ok(());
    }
    if let Some(loss) = training.held_out_loss() {
        println!("held-out loss: {loss:.4} nats a character; bigram model: {bigram:.4}");
    }
    println!("---\n{}\n---", training.sample(&args.prompt, args.sample)?);
    println!("checkpoint and loss curve: {}", args.out.display());
    Ok(())
}
