//! What the command line says.

use clap::Parser;
use std::path::PathBuf;

/// Trains a character-level GPT on text, and writes some of its own.
///
/// Without arguments it reads this repository's docs/ and takes about two minutes on two cores. Ctrl-C saves and stops; `--resume`
/// goes on bit for bit as if nothing had happened.
#[derive(Parser, Debug, Clone)]
#[command(name = "char_gpt")]
pub(crate) struct Args {
    /// A text file, or a folder whose text files (.md .txt .rs .toml .yaml .py) are read in order of their names.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"), hide_default_value = true)]
    pub(crate) text: PathBuf,
    /// Where checkpoint.safetensors, loss.csv and loss.svg are written.
    #[arg(long, default_value = "out/char_gpt")]
    pub(crate) out: PathBuf,
    /// Goes on from the checkpoint in --out.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Training steps in all.
    #[arg(long, default_value_t = 600)]
    pub(crate) steps: u64,
    /// Sequences a step.
    #[arg(long, default_value_t = 16)]
    pub(crate) batch: usize,
    /// Characters a sequence.
    #[arg(long, default_value_t = 64)]
    pub(crate) context: usize,
    /// Transformer blocks.
    #[arg(long, default_value_t = 3)]
    pub(crate) layers: usize,
    /// Width of the model; a multiple of --heads.
    #[arg(long, default_value_t = 128)]
    pub(crate) width: usize,
    /// Attention heads.
    #[arg(long, default_value_t = 4)]
    pub(crate) heads: usize,
    /// Part of activations dropped in training.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) dropout: f64,
    /// Learning rate after warm-up.
    #[arg(long, default_value_t = 2e-3)]
    pub(crate) lr: f64,
    /// Seed of weights, data order and samples.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads; 0 means as many as there are cores.
    #[arg(long, default_value_t = 0)]
    pub(crate) threads: usize,
    /// Steps between checkpoints and measurements of the held-out loss.
    #[arg(long, default_value_t = 100)]
    pub(crate) every: u64,
    /// Characters to write at the end.
    #[arg(long, default_value_t = 400)]
    pub(crate) sample: usize,
    /// What the sample begins with.
    #[arg(long, default_value = "The ")]
    pub(crate) prompt: String,
}
