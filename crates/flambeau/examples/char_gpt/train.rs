//! Training: steps, measurements, checkpoints, and going on from one.

use crate::args::Args;
use crate::model::Gpt;
use crate::plot::{self, Point};
use crate::text::Text;
use flambeau::nn::Module;
use flambeau::nn::optim::{AdamOptions, AdamW, LinearWarmupCosine, Optimizer, Scheduler, clip_grad_norm_};
use flambeau::nn::serialization::{Checkpoint, Notes};
use flambeau::{Autograd, Error, ErrorKind, Generator, Result, Tensor, no_grad};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Everything a checkpoint must bring back.
pub(crate) struct Training {
    args: Args,
    text: Text,
    pub(crate) model: Gpt,
    optimizer: AdamW,
    scheduler: Scheduler<LinearWarmupCosine>,
    points: Vec<Point>,
    /// Losses since the last measurement.
    recent: Vec<f64>,
    step: u64,
}

/// Gradients longer than this are cut.
const LONGEST_GRADIENT: f64 = 1.0;
/// Sequences of the held-out text that are measured.
const MEASURED: usize = 64;

impl Training {
    /// From the beginning, or from the checkpoint in `--out`.
    ///
    /// # Errors
    /// `Io` for a checkpoint that is missing, damaged or of another model.
    pub(crate) fn new(args: Args, text: Text) -> Result<Self> {
        flambeau::manual_seed(args.seed);
        let model = Gpt::new(&args, text.alphabet.len())?;
        let options = AdamOptions { lr: args.lr, weight_decay: 0.1, ..Default::default() };
        let mut optimizer = AdamW::new(model.parameters(), options)?;
        let schedule = LinearWarmupCosine { warmup: args.steps / 20, total: args.steps, min: args.lr / 20.0 };
        let scheduler = Scheduler::new(schedule, &mut optimizer)?;
        let mut training = Training {
            args,
            text,
            model,
            optimizer,
            scheduler,
            points: Vec::new(),
            recent: Vec::new(),
            step: 0,
        };
        if training.args.resume {
            training.restore(schedule)?;
        }
        Ok(training)
    }

    /// Trains until the last step or until `stop` is set; saves at every measurement and at the end.
    ///
    /// # Errors
    /// Those of the operators, and `Io` where a file cannot be written.
    pub(crate) fn run(&mut self, stop: &Arc<AtomicBool>, bigram: f64) -> Result<()> {
        let bar = progress_bar(self.args.steps, self.step);
        let characters = (self.args.batch * self.args.context) as f64;
        while self.step < self.args.steps && !stop.load(Ordering::Relaxed) {
            let loss = self.train_step()?;
            self.recent.push(loss);
            bar.inc(1);
            bar.set_message(format!("loss {loss:.3}, {:.0} tokens/s", bar.per_sec() * characters));
            if self.step.is_multiple_of(self.args.every) || self.step == self.args.steps {
                self.measure()?;
                self.save(bigram)?;
            }
        }
        self.save(bigram)?;
        bar.abandon();
        Ok(())
    }

    fn train_step(&mut self) -> Result<f64> {
        self.model.train(true);
        let (text, next) = self.batch()?;
        let loss = self.model.loss(&text, &next)?;
        self.optimizer.zero_grad()?;
        loss.backward()?;
        clip_grad_norm_(&self.model.parameters(), LONGEST_GRADIENT, 2.0)?;
        self.optimizer.step()?;
        self.scheduler.step(&mut self.optimizer)?;
        self.step += 1;
        Ok(loss.item::<f32>()? as f64)
    }

    /// Sequences from random places of the text, and the same one character on.
    fn batch(&self) -> Result<(Tensor, Tensor)> {
        let (count, context) = (self.args.batch, self.args.context);
        let random = Generator::default_cpu().reserve_words(count as i64, 2)?;
        let places = (self.text.train.len() - context) as u64;
        let starts: Vec<usize> = (0..count as u64).map(|i| (random.word64(i) % places) as usize).collect();
        sequences(&self.text.train, &starts, context)
    }

    /// The held-out loss, and the mean training loss since the measurement before.
    fn measure(&mut self) -> Result<()> {
        self.model.eval();
        let _unrecorded = no_grad();
        let context = self.args.context;
        let last = self.text.held_out.len() - context - 1;
        let count = MEASURED.min(last / context + 1);
        let starts: Vec<usize> =
            (0..count).map(|i| i * last / count.max(2).saturating_sub(1).max(1)).collect();
        let (text, next) = sequences(&self.text.held_out, &starts, context)?;
        let held_out = self.model.loss(&text, &next)?.item::<f32>()? as f64;
        let train = self.recent.iter().sum::<f64>() / self.recent.len().max(1) as f64;
        self.recent.clear();
        self.points.push(Point { step: self.step, train, held_out });
        Ok(())
    }

    /// The last measured held-out loss.
    pub(crate) fn held_out_loss(&self) -> Option<f64> {
        self.points.last().map(|p| p.held_out)
    }

    /// Text that goes on from `prompt`, each character drawn by its likelihood.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) fn sample(&self, prompt: &str, length: usize) -> Result<String> {
        self.model.eval();
        let mut numbers: Vec<i64> = prompt.chars().filter_map(|c| self.text.number(c)).collect();
        if numbers.is_empty() {
            numbers.push(0);
        }
        let generator = Generator::new(self.args.seed);
        for _ in 0..length {
            let likelihoods: Vec<f32> = self.model.next(&numbers)?.to_vec()?;
            let mut left = generator.reserve(1).word(0) as f32 / u32::MAX as f32;
            let drawn = likelihoods.iter().position(|p| {
                left -= p;
                left <= 0.0
            });
            numbers.push(drawn.unwrap_or(likelihoods.len() - 1) as i64);
        }
        Ok(self.text.characters(&numbers))
    }

    /// How far it came.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    fn checkpoint_path(&self) -> PathBuf {
        self.args.out.join("checkpoint.safetensors")
    }

    fn save(&self, bigram: f64) -> Result<()> {
        std::fs::create_dir_all(&self.args.out)
            .map_err(|e| Error::from(e).context(self.args.out.display()))?;
        let checkpoint = Checkpoint {
            model: self.model.state_dict()?,
            optimizer: self.optimizer.state_dict()?,
            step: self.step,
            generator: Some(Generator::default_cpu().state()),
            data: None,
            notes: self.notes(),
        };
        checkpoint.save(self.checkpoint_path())?;
        plot::write(&self.args.out, &self.points, bigram)
    }

    fn restore(&mut self, schedule: LinearWarmupCosine) -> Result<()> {
        let path = self.checkpoint_path();
        let checkpoint = Checkpoint::load(&path)?;
        self.check_alphabet(&checkpoint.notes).map_err(|e| e.context(path.display()))?;
        self.model.load_state_dict(&checkpoint.model)?;
        self.optimizer.load_state_dict(&checkpoint.optimizer)?;
        self.step = checkpoint.step;
        let bases = self.scheduler.bases().to_vec();
        self.scheduler = Scheduler::resume(schedule, bases, self.step, &mut self.optimizer)?;
        if let Some(state) = checkpoint.generator {
            Generator::default_cpu().set_state(state);
        }
        self.points = read_points(checkpoint.notes.get("points").map_or("", String::as_str));
        self.recent = read_numbers(checkpoint.notes.get("recent").map_or("", String::as_str));
        Ok(())
    }

    /// What is saved beside tensors: the alphabet, and the losses so far as bits.
    fn notes(&self) -> Notes {
        let bits = |x: f64| x.to_bits().to_string();
        let point = |p: &Point| format!("{} {} {}", p.step, bits(p.train), bits(p.held_out));
        let points: Vec<String> = self.points.iter().map(point).collect();
        let recent: Vec<String> = self.recent.iter().map(|x| bits(*x)).collect();
        [
            ("alphabet".to_string(), self.text.alphabet.iter().collect()),
            ("points".to_string(), points.join("\n")),
            ("recent".to_string(), recent.join(" ")),
        ]
        .into()
    }

    fn check_alphabet(&self, notes: &Notes) -> Result<()> {
        let here: String = self.text.alphabet.iter().collect();
        match notes.get("alphabet") {
            Some(there) if *there == here => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Io,
                "expected a checkpoint trained on this text but its characters differ",
            )),
        }
    }
}

fn sequences(text: &[i64], starts: &[usize], context: usize) -> Result<(Tensor, Tensor)> {
    let sizes = [starts.len() as i64, context as i64];
    let cut = |shift: usize| -> Result<Tensor> {
        let numbers = starts.iter().flat_map(|s| &text[s + shift..s + shift + context]).copied().collect();
        Tensor::from_vec(numbers, &sizes)
    };
    Ok((cut(0)?, cut(1)?))
}

fn read_numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|bits| bits.parse().ok()).map(f64::from_bits).collect()
}

fn read_points(text: &str) -> Vec<Point> {
    let point = |line: &str| {
        let (step, rest) = line.split_once(' ')?;
        let [train, held_out] = read_numbers(rest).try_into().ok()?;
        Some(Point { step: step.parse().ok()?, train, held_out })
    };
    text.lines().filter_map(point).collect()
}

fn progress_bar(steps: u64, done: u64) -> ProgressBar {
    let template = "{bar:32} {pos}/{len} steps, {msg}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style).with_position(done).with_message("starting")
}
