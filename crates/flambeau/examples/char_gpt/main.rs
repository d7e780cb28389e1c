//! Trains a character GPT on real text: by default this repository's docs, or any file or folder given with `--text`.

mod args;
mod bigram;
mod model;
mod plot;
#[cfg(test)]
mod tests;
mod text;
mod train;

use args::Args;
use clap::Parser;
use flambeau::distributed::{Environment, launch};
use flambeau::nn::Module;
use flambeau::{Error, ErrorKind, Result};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
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
    args.check()?;
    let stop = stop_at_ctrl_c()?;
    if args.ranks > 1 && Environment::from_env().is_err() {
        return launch(args.ranks, 0, &this_program);
    }
    if args.threads > 0 {
        flambeau::set_num_threads(args.threads);
    }
    let text = Text::read(&args.text, args.context)?;
    let about = format!(
        "text: {} characters to train on, {} held out, {} different",
        text.train.len(),
        text.held_out.len(),
        text.alphabet.len()
    );
    let mut training = Training::new(args.clone(), text)?;
    training.prompt()?;
    if !training.is_first_rank() {
        return training.run(&stop);
    }
    println!("{about}\nmodel: {} parameters", training.model.parameter_count());
    println!("bigram model: held-out loss {:.4} nats a character", training.bigram);
    let (begin, first) = (Instant::now(), training.step());
    training.run(&stop)?;
    println!("{} steps in {:.1} s", training.step() - first, begin.elapsed().as_secs_f64());
    finish(&args, &training, &stop)
}

/// This program with its arguments, for one rank.
fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_else(|_| "char_gpt".into()));
    command.args(std::env::args_os().skip(1));
    command
}

/// Set by Ctrl-C; a second one ends the program without saving.
fn stop_at_ctrl_c() -> Result<Arc<AtomicBool>> {
    /// What shells say of a program that Ctrl-C ended.
    const INTERRUPTED: i32 = 130;
    let stop = Arc::new(AtomicBool::new(false));
    let interrupted = stop.clone();
    let handler = move || {
        if interrupted.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED);
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|e| Error::new(ErrorKind::Internal, format!("Ctrl-C cannot be listened to: {e}")))?;
    Ok(stop)
}

fn finish(args: &Args, training: &Training, stop: &AtomicBool) -> Result<()> {
    if training.step() < args.steps {
        println!("saved at step {}; go on with --resume", training.step());
        return Ok(());
    }
    println!("---\n{}\n---", training.sample(stop)?);
    if let Some(last) = training.points().last() {
        println!(
            "held-out loss: {:.4} nats a character; bigram model: {:.4}",
            last.held_out, training.bigram
        );
    }
    println!("checkpoint and loss curve: {}", args.out.display());
    Ok(())
}
