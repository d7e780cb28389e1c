//! The training loop, and the accuracy on held-out digits.

use super::args::Args;
use super::digits::Digits;
use super::micro_batches::MicroBatches;
use super::model::Network;
use flambeau::nn::data::DataLoader;
use flambeau::nn::functional::{self, CrossEntropy};
use flambeau::nn::optim::{Adam, AdamOptions, CosineAnnealing, Optimizer, Scheduler};
use flambeau::nn::{Forward, Module};
use flambeau::{Device, Generator, Result, no_grad};
use indicatif::{ProgressBar, ProgressStyle};

/// Pictures that are looked at at once when nothing is learnt.
const AT_ONCE: usize = 500;

/// What training came to.
#[derive(Debug, PartialEq)]
pub(crate) struct Learnt {
    /// How many of the digits held out are recognised at the end.
    pub(crate) right: usize,
    /// The mean loss of each epoch.
    pub(crate) losses: Vec<f64>,
}

/// Trains on `train`, and counts at the end how many of `held_out` are recognised, on the first rank.
///
/// # Errors
/// Those of the operators.
pub(crate) fn run(
    args: &Args,
    model: &Network,
    train: Digits,
    held_out: &Digits,
    shared: &MicroBatches,
) -> Result<Learnt> {
    let count = train.len();
    let order = Generator::default_cpu().clone();
    let loader = DataLoader::new(train.into_dataset()?).batch_size(args.batch)?.shuffle(order);
    let steps = args.epochs * loader.len() as u64;
    let options = AdamOptions::default().lr(args.lr);
    let mut optimizer = Adam::new(model.parameters(), options)?;
    let mut scheduler = Scheduler::new(CosineAnnealing { period: steps, min: 0.0 }, &mut optimizer)?;
    let is_first = shared.is_first_rank();
    let tested = || if is_first { recognised(model, held_out, args.device) } else { Ok(0) };
    let mut learnt = Learnt { right: tested()?, losses: vec![] };
    let bar = if is_first { progress_bar(steps) } else { ProgressBar::hidden() };
    for epoch in 1..=args.epochs {
        let mut sum = 0.0;
        for batch in loader.iter()? {
            let [pictures, digits] = &batch?[..] else { continue };
            let (pictures, digits) = (pictures.to(args.device)?, digits.to(args.device)?);
            optimizer.zero_grad()?;
            let loss = shared.backward(&pictures, &digits, |pictures, digits| {
                functional::cross_entropy(&model.forward(pictures)?, digits, CrossEntropy::default())
            })?;
            optimizer.step()?;
            scheduler.step(&mut optimizer)?;
            sum += loss * pictures.size(0)? as f64;
            bar.inc(1);
            bar.set_message(format!("loss {loss:.3}"));
        }
        learnt.right = tested()?;
        learnt.losses.push(sum / count as f64);
        if !is_first {
            continue;
        }
        bar.suspend(|| {
            let share = super::percent(learnt.right, held_out);
            println!("epoch {epoch}  training loss {:.4}  held out {share:.2}% right", sum / count as f64);
        });
    }
    bar.abandon();
    Ok(learnt)
}

/// How many digits the model recognises.
fn recognised(model: &Network, digits: &Digits, device: Device) -> Result<usize> {
    let _unrecorded = no_grad();
    let mut right = 0;
    for first in (0..digits.len()).step_by(AT_ONCE) {
        let (pictures, labels) = digits.tensors(first..digits.len().min(first + AT_ONCE))?;
        let said = model.forward(&pictures.to(device)?)?.argmax_dim(1)?.to_vec::<i64>()?;
        right += said.iter().zip(labels.to_vec::<i64>()?).filter(|(said, label)| **said == *label).count();
    }
    Ok(right)
}

fn progress_bar(steps: u64) -> ProgressBar {
    let template = "{bar:32} {pos}/{len} steps, {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style).with_message("starting")
}
