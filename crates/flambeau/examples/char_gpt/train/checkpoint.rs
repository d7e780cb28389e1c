//! Saves checkpoints, and resumes training from them.

use super::{Point, Training, plot};
use flambeau::core::{bail, ensure};
use flambeau::nn::Module;
use flambeau::nn::optim::{LinearWarmupCosine, Optimizer, Scheduler};
use flambeau::nn::serialization::{Checkpoint, Metadata};
use flambeau::{Error, ErrorKind, Generator, Result};
use std::path::PathBuf;
use std::str::FromStr;

impl Training {
    fn checkpoint_path(&self) -> PathBuf {
        self.args.out.join("checkpoint.safetensors")
    }

    /// Makes the folder of `--out`, so that one that cannot be made is known of before training.
    pub(super) fn make_folder(&self) -> Result<()> {
        let fault = |e| Error::from(e).context(format!("--out {}", self.args.out.display()));
        std::fs::create_dir_all(&self.args.out).map_err(fault)
    }

    /// Writes the checkpoint, which replaces the previous one only when it is complete, and the loss curve.
    pub(super) fn save(&self) -> Result<()> {
        let checkpoint = Checkpoint {
            model: self.model.state_dict()?,
            optimizer: self.optimizer.state_dict()?,
            step: self.step,
            generator: Some(Generator::default_cpu().state()),
            data: None,
            metadata: self.metadata(),
        };
        checkpoint.save(self.checkpoint_path())?;
        plot::write(&self.args.out, &self.points, self.bigram)
    }

    /// Reads the checkpoint in `--out`.
    pub(super) fn restore(&mut self, schedule: LinearWarmupCosine) -> Result<()> {
        let path = self.checkpoint_path();
        let checkpoint = Checkpoint::load(&path)?;
        self.apply(&checkpoint, schedule).map_err(|e| e.context(path.display()))
    }

    fn apply(&mut self, checkpoint: &Checkpoint, schedule: LinearWarmupCosine) -> Result<()> {
        for (name, here) in self.args.settings() {
            let there = setting(&checkpoint.metadata, name)?;
            ensure!(here == there, Io, "made with --{name} {there}, which cannot go on with {here}");
        }
        let fingerprint = self.text.fingerprint().to_string();
        ensure!(
            setting(&checkpoint.metadata, "text")? == fingerprint,
            Io,
            "made from another text than {}",
            self.args.text.display()
        );
        let Some(generator) = checkpoint.generator else { bail!(Io, "expected the state of a generator") };
        self.model.load_state_dict(&checkpoint.model)?;
        self.optimizer.load_state_dict(&checkpoint.optimizer)?;
        self.step = checkpoint.step;
        let bases = self.scheduler.bases().to_vec();
        self.scheduler = Scheduler::resume(schedule, bases, self.step, &mut self.optimizer)?;
        Generator::default_cpu().set_state(generator);
        self.points = setting(&checkpoint.metadata, "points")?.lines().map(point).collect::<Result<_>>()?;
        self.recent = numbers(setting(&checkpoint.metadata, "recent")?)?;
        Ok(())
    }

    /// What is saved beside tensors: the options, which text it was, and the losses so far as bits.
    fn metadata(&self) -> Metadata {
        let bits = |x: f64| x.to_bits().to_string();
        let point = |p: &Point| format!("{} {} {}", p.step, bits(p.train), bits(p.held_out));
        let points: Vec<String> = self.points.iter().map(point).collect();
        let recent: Vec<String> = self.recent.iter().map(|x| bits(*x)).collect();
        let mut metadata: Metadata =
            self.args.settings().map(|(name, value)| (name.to_string(), value)).into();
        metadata.insert("text".to_string(), self.text.fingerprint().to_string());
        metadata.insert("points".to_string(), points.join("\n"));
        metadata.insert("recent".to_string(), recent.join(" "));
        metadata
    }
}

fn setting<'a>(metadata: &'a Metadata, name: &str) -> Result<&'a str> {
    match metadata.get(name) {
        Some(note) => Ok(note),
        None => bail!(Io, "expected a checkpoint of this program but it has no note `{name}`"),
    }
}

fn number(text: &str) -> Result<u64> {
    let fault = |_| Error::new(ErrorKind::Io, format!("expected a number but got {text:?}"));
    u64::from_str(text).map_err(fault)
}

fn numbers(text: &str) -> Result<Vec<f64>> {
    text.split_whitespace().map(|bits| number(bits).map(f64::from_bits)).collect()
}

fn point(line: &str) -> Result<Point> {
    let mut parts = line.split(' ');
    let (Some(step), Some(train), Some(held_out), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        bail!(Io, "expected a step and two losses but got {line:?}");
    };
    let loss = |bits| number(bits).map(f64::from_bits);
    Ok(Point { step: number(step)?, train: loss(train)?, held_out: loss(held_out)? })
}
