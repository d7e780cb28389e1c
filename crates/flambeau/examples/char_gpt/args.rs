//! The options of the command line.

use clap::Parser;
use flambeau::Result;
use flambeau::core::ensure;
use std::path::PathBuf;

/// Trains a character-level GPT on text, and writes some of its own.
///
/// Without arguments it reads this repository's docs/ and takes a minute or two on two cores. Ctrl-C saves and stops, a second
/// one stops at once. `--resume` with the same options goes on as if nothing had happened, to the last bit; a larger `--steps`
/// trains for longer.
#[derive(Parser, Debug, Clone)]
#[command(name = "char_gpt", args_override_self = true)]
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
    #[arg(long, default_value_t = 1500)]
    pub(crate) steps: u64,
    /// Sequences a step.
    #[arg(long, default_value_t = 16)]
    pub(crate) batch: usize,
    /// Characters a sequence.
    #[arg(long, default_value_t = 64)]
    pub(crate) context: usize,
    /// Transformer blocks.
    #[arg(long, default_value_t = 4)]
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
    #[arg(long, default_value_t = 3e-3)]
    pub(crate) lr: f64,
    /// Seed of weights, data order and samples.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads; 0 means as many as there are cores. The result is the same for every number.
    #[arg(long, default_value_t = 0)]
    pub(crate) threads: usize,
    /// Processes that train together; each computes a part of the micro-batches of a step.
    #[arg(long, default_value_t = 1)]
    pub(crate) ranks: usize,
    /// Parts of a step's sequences, whose gradients are averaged; a power of two times --ranks, which is the default. The result is the
    /// same for every number of ranks.
    #[arg(long)]
    pub(crate) micro_batches: Option<usize>,
    /// Steps between checkpoints and measurements of the held-out loss.
    #[arg(long, default_value_t = 100)]
    pub(crate) every: u64,
    /// Characters to write at the end.
    #[arg(long, default_value_t = 400)]
    pub(crate) sample: usize,
    /// What the sample begins with; the first character of the text unless given.
    #[arg(long)]
    pub(crate) prompt: Option<String>,
}

/// Sizes above this are slips of the finger, and their products would overflow.
const LARGEST: usize = 1 << 20;

impl Args {
    /// Checks what the model does not check itself.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option.
    pub(crate) fn check(&self) -> Result<()> {
        let sizes = [
            ("batch", self.batch),
            ("context", self.context),
            ("layers", self.layers),
            ("width", self.width),
            ("heads", self.heads),
        ];
        for (name, size) in sizes {
            ensure!(
                (1..=LARGEST).contains(&size),
                InvalidArgument,
                "expected --{name} from 1 to {LARGEST} but got {size}"
            );
        }
        for (name, count) in [("steps", self.steps), ("every", self.every)] {
            ensure!(count > 0, InvalidArgument, "expected --{name} of at least 1 but got 0");
        }
        let (ranks, parts) = (self.ranks, self.micro_batches());
        ensure!(
            (1..=LARGEST).contains(&ranks)
                && parts.is_multiple_of(ranks)
                && (parts / ranks).is_power_of_two(),
            InvalidArgument,
            "expected --micro-batches of a power of two times --ranks, {ranks}, but got {parts}"
        );
        ensure!(
            self.batch.is_multiple_of(parts),
            InvalidArgument,
            "expected a --batch that {parts} micro-batches divide but got {}",
            self.batch
        );
        Ok(())
    }

    /// Parts of a step's sequences.
    pub(crate) fn micro_batches(&self) -> usize {
        self.micro_batches.unwrap_or(self.ranks)
    }

    /// The options that decide what is learnt, by name: a checkpoint goes on only with the same.
    pub(crate) fn settings(&self) -> [(&'static str, String); 9] {
        [
            ("layers", self.layers.to_string()),
            ("width", self.width.to_string()),
            ("heads", self.heads.to_string()),
            ("context", self.context.to_string()),
            ("batch", self.batch.to_string()),
            ("micro-batches", self.micro_batches().to_string()),
            ("dropout", self.dropout.to_string()),
            ("lr", self.lr.to_string()),
            ("seed", self.seed.to_string()),
        ]
    }
}
