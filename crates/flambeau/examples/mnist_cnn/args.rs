//! The options of the command line.

use clap::Parser;
use flambeau::core::ensure;
use flambeau::{Device, Result};
use std::path::PathBuf;

/// Trains a small convolutional network to read digits.
///
/// Give all four files of MNIST (http://yann.lecun.com/exdb/mnist, unpacked), or none: then digits are drawn, shifted, slanted and
/// made noisy.
#[derive(Parser, Debug, Clone)]
#[command(name = "mnist_cnn")]
pub(crate) struct Args {
    /// Pictures to train on: train-images-idx3-ubyte.
    #[arg(long, requires_all = ["labels", "test_images", "test_labels"])]
    pub(crate) images: Option<PathBuf>,
    /// Their digits: train-labels-idx1-ubyte.
    #[arg(long, requires = "images")]
    pub(crate) labels: Option<PathBuf>,
    /// Pictures held out: t10k-images-idx3-ubyte.
    #[arg(long, requires = "images")]
    pub(crate) test_images: Option<PathBuf>,
    /// Their digits: t10k-labels-idx1-ubyte.
    #[arg(long, requires = "images")]
    pub(crate) test_labels: Option<PathBuf>,
    /// How many digits to draw to train on; a sixth as many are held out.
    #[arg(long, default_value_t = 12000)]
    pub(crate) drawn: usize,
    /// Passes over the pictures.
    #[arg(long, default_value_t = 6)]
    pub(crate) epochs: u64,
    /// Pictures a step.
    #[arg(long, default_value_t = 64)]
    pub(crate) batch: usize,
    /// Learning rate at first; it falls to 0 along half a wave.
    #[arg(long, default_value_t = 2e-3)]
    pub(crate) lr: f64,
    /// Seed of weights, order and drawn digits.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Where to train: "cpu", or a device that a linked crate registers.
    #[arg(long, default_value_t = Device::CPU)]
    pub(crate) device: Device,
    /// Threads; 0 means as many as there are cores. The result is the same for every number.
    #[arg(long, default_value_t = 0)]
    pub(crate) threads: usize,
    /// Processes that share the steps.
    #[arg(long, default_value_t = 1)]
    pub(crate) ranks: usize,
    /// Parts of a step's pictures, whose gradients are averaged; a power of two times --ranks, which is the default. The result is the
    /// same for every number of ranks.
    #[arg(long)]
    pub(crate) micro_batches: Option<usize>,
}

/// Of ranks and micro-batches; larger numbers are mistakes.
const LARGEST: usize = 1024;

impl Args {
    /// Checks what neither the model nor the loader checks.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.drawn > 0, InvalidArgument, "expected --drawn of at least 1 but got 0");
        ensure!(self.batch > 0, InvalidArgument, "expected --batch of at least 1 but got 0");
        let (ranks, parts) = (self.ranks, self.micro_batches());
        ensure!(
            (1..=LARGEST).contains(&ranks)
                && (1..=LARGEST).contains(&parts)
                && parts.is_multiple_of(ranks)
                && (parts / ranks).is_power_of_two(),
            InvalidArgument,
            "expected --micro-batches of a power of two times --ranks, {ranks}, but got {parts}"
        );
        Ok(())
    }

    /// Into how many parts a step is divided.
    pub(crate) fn micro_batches(&self) -> usize {
        self.micro_batches.unwrap_or(self.ranks)
    }

    /// Checks that no micro-batch is empty, of so many pictures to train on.
    ///
    /// # Errors
    /// `InvalidArgument` naming the option.
    pub(crate) fn check_steps(&self, pictures: usize) -> Result<()> {
        let last = match pictures % self.batch {
            0 => self.batch,
            rest => rest,
        };
        let parts = self.micro_batches();
        ensure!(
            self.batch >= parts && last >= parts,
            InvalidArgument,
            "expected steps of at least {parts} pictures, the --micro-batches, but got steps of {} and a last one of {last}",
            self.batch
        );
        Ok(())
    }
}
