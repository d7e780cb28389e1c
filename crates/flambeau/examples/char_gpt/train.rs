//! The training loop: steps, measurements, and checkpoints.

mod checkpoint;
mod micro_batches;

use super::args::Args;
use super::bigram;
use super::model::Gpt;
use super::plot::{self, Point};
use super::text::{Text, sequences};
use flambeau::core::ensure;
use flambeau::nn::Module;
use flambeau::nn::optim::{
    AdamOptions, AdamW, ClipGradNorm, LinearWarmupCosine, Optimizer, Scheduler, clip_grad_norm_,
};
use flambeau::{Autograd, Generator, Result, Tensor, no_grad};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use micro_batches::MicroBatches;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Everything that a checkpoint restores.
pub(crate) struct Training {
    args: Args,
    text: Text,
    pub(crate) model: Gpt,
    optimizer: AdamW,
    scheduler: Scheduler<LinearWarmupCosine>,
    /// How a step is shared among ranks, if it is more than one micro-batch.
    shared: Option<MicroBatches>,
    points: Vec<Point>,
    /// Losses since the last measurement.
    recent: Vec<f64>,
    step: u64,
    /// The held-out loss of the bigram model.
    pub(crate) bigram: f64,
}

/// Gradients longer than this are cut.
const LONGEST_GRADIENT: f64 = 1.0;
/// How much of the mean squared gradient is kept.
const BETA2: f64 = 0.99;
/// How much weights shrink, times the rate.
const WEIGHT_DECAY: f64 = 0.1;
/// One step in so many warms up.
const WARMUP: u64 = 20;
/// By what the rate is divided at the end.
const LOWEST_RATE: f64 = 20.0;
/// Of a long held-out text so many sequences are measured.
const MEASURED: usize = 256;

impl Training {
    /// From the beginning, or from the checkpoint in `--out`.
    ///
    /// # Errors
    /// `Io` for a checkpoint that is missing, damaged or made with other options.
    pub(crate) fn new(args: Args, text: Text) -> Result<Self> {
        flambeau::manual_seed(args.seed);
        let model = Gpt::new(&args, text.alphabet.len())?;
        let options = AdamOptions::default().lr(args.lr).beta2(BETA2).weight_decay(WEIGHT_DECAY);
        let mut optimizer = AdamW::new(model.parameters(), options)?;
        let schedule =
            LinearWarmupCosine { warmup: args.steps / WARMUP, total: args.steps, min: args.lr / LOWEST_RATE };
        let scheduler = Scheduler::new(schedule, &mut optimizer)?;
        let bigram = bigram::held_out_loss(&text);
        let shared = MicroBatches::new(&args, &model.parameters())?;
        let (points, recent) = (Vec::new(), Vec::new());
        let mut training =
            Training { args, text, model, optimizer, scheduler, shared, points, recent, step: 0, bigram };
        if training.args.resume {
            training.restore(schedule)?;
        }
        Ok(training)
    }

    /// Trains until the last step or until `stop` is set; saves at every measurement and at the end.
    ///
    /// # Errors
    /// Those of the operators, and `Io` where a file cannot be written.
    pub(crate) fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        self.make_folder()?;
        let bar = progress_bar(self.args.steps, self.step);
        if !self.is_first_rank() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let (begin, first) = (Instant::now(), self.step);
        let characters = (self.args.batch * self.args.context) as f64;
        while self.step < self.args.steps {
            let loss = self.train_step()?;
            let rate = (self.step - first) as f64 * characters / begin.elapsed().as_secs_f64();
            bar.inc(1);
            bar.set_message(format!("loss {loss:.3}, {rate:.0} tokens/s"));
            let stopped = self.any_rank(stop.load(Ordering::Relaxed))?;
            let due = self.step.is_multiple_of(self.args.every) || self.step == self.args.steps;
            if due {
                let Point { step, train, held_out } = self.measure()?;
                if self.is_first_rank() {
                    bar.suspend(|| {
                        println!("step {step:5}  training loss {train:.4}  held out {held_out:.4}")
                    });
                }
            }
            if (due || stopped) && self.is_first_rank() {
                self.save()?;
            }
            if stopped {
                break;
            }
        }
        bar.abandon();
        Ok(())
    }

    fn train_step(&mut self) -> Result<f64> {
        self.model.train(true);
        let starts = self.starts()?;
        self.optimizer.zero_grad()?;
        let loss = match &self.shared {
            None => {
                let loss = self.loss(&starts)?;
                loss.backward()?;
                f64::from(loss.item::<f32>()?)
            }
            Some(shared) => {
                let part = starts.len() / self.args.micro_batches();
                shared.backward(self.args.seed, self.step, |number| {
                    self.loss(&starts[number * part..][..part])
                })?
            }
        };
        let length = clip_grad_norm_(&self.model.parameters(), LONGEST_GRADIENT, ClipGradNorm::default())?;
        let length = length.item::<f64>()?;
        let step = self.step + 1;
        ensure!(
            loss.is_finite() && length.is_finite(),
            InvalidArgument,
            "step {step} has a loss of {loss} and a gradient of length {length}: try a smaller --lr"
        );
        self.optimizer.step()?;
        self.scheduler.step(&mut self.optimizer)?;
        self.step = step;
        self.recent.push(loss);
        Ok(loss)
    }

    /// The loss on the sequences that begin at these positions of the text.
    fn loss(&self, starts: &[usize]) -> Result<Tensor> {
        let (text, next) = sequences(&self.text.train, starts, self.args.context)?;
        self.model.loss(&text, &next)
    }

    /// Whether this process prints and saves.
    pub(crate) fn is_first_rank(&self) -> bool {
        self.shared.as_ref().is_none_or(MicroBatches::is_first_rank)
    }

    /// Whether the condition holds on any rank.
    fn any_rank(&self, condition: bool) -> Result<bool> {
        self.shared.as_ref().map_or(Ok(condition), |shared| shared.any_rank(condition))
    }

    /// Random positions of the text, where the sequences of a step begin.
    fn starts(&self) -> Result<Vec<usize>> {
        let (count, context) = (self.args.batch, self.args.context);
        let random = Generator::default_cpu().reserve_words(count as i64, 2)?;
        let positions = (self.text.train.len() - context) as u64;
        Ok((0..count as u64).map(|i| (random.word64(i) % positions) as usize).collect())
    }

    /// The held-out loss, and the mean training loss since the measurement before.
    fn measure(&mut self) -> Result<Point> {
        let train = self.recent.iter().sum::<f64>() / self.recent.len().max(1) as f64;
        let held_out = self.held_out_loss()?;
        let step = self.step;
        ensure!(
            held_out.is_finite(),
            InvalidArgument,
            "the held-out loss after step {step} is {held_out}: try a smaller --lr"
        );
        let point = Point { step, train, held_out };
        self.recent.clear();
        self.points.push(point);
        Ok(point)
    }

    /// Over sequences side by side, which are the whole held-out text but for less than one at its end, or spread over it if
    /// there are very many.
    fn held_out_loss(&self) -> Result<f64> {
        self.model.eval();
        let _unrecorded = no_grad();
        let context = self.args.context;
        let whole = (self.text.held_out.len() - 1) / context;
        let count = whole.min(MEASURED);
        let starts: Vec<usize> = (0..count).map(|i| i * whole / count * context).collect();
        let mut sum = 0.0;
        for starts in starts.chunks(self.args.batch) {
            let (text, next) = sequences(&self.text.held_out, starts, context)?;
            sum += f64::from(self.model.loss(&text, &next)?.item::<f32>()?) * starts.len() as f64;
        }
        Ok(sum / count as f64)
    }

    /// The measurements so far.
    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }

    /// What the sample begins with.
    ///
    /// # Errors
    /// `InvalidArgument` for characters that the text has not.
    pub(crate) fn prompt(&self) -> Result<Vec<i64>> {
        match self.args.prompt.as_deref() {
            None | Some("") => Ok(self.text.train[..1].to_vec()),
            Some(prompt) => self.text.numbers(prompt).map_err(|e| e.context("--prompt")),
        }
    }

    /// Text that goes on from the prompt, each character drawn by its likelihood, until `stop` is set.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) fn sample(&self, stop: &AtomicBool) -> Result<String> {
        self.model.eval();
        let mut numbers = self.prompt()?;
        let random = Generator::new(self.args.seed).reserve_words(self.args.sample as i64, 1)?;
        for i in 0..self.args.sample as u64 {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let likelihoods: Vec<f32> = self.model.next(&numbers)?.to_vec()?;
            numbers.push(drawn(&likelihoods, random.word(i)));
        }
        Ok(self.text.characters(&numbers))
    }

    /// How far it came.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }
}

/// Samples an index by the inverse of the cumulative distribution: the first whose cumulative likelihood exceeds `random / 2^32`.
fn drawn(likelihoods: &[f32], random: u32) -> i64 {
    let mut left = f64::from(random) / f64::from(u32::MAX);
    let index = likelihoods.iter().position(|p| {
        left -= f64::from(*p);
        left < 0.0
    });
    // Rounding may leave the sum just below 1.
    index.unwrap_or(likelihoods.len() - 1) as i64
}

fn progress_bar(steps: u64, done: u64) -> ProgressBar {
    let template = "{bar:32} {pos}/{len} steps, {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps).with_style(style).with_position(done).with_message("starting");
    bar.reset_eta();
    bar
}
