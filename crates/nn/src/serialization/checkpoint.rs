//! Checkpoints: everything that training needs to resume where it stopped.

use super::checksum::checksum;
use super::{Metadata, entries, load, write};
use crate::StateDict;
use crate::data::Position;
use flambeau_core::{Error, ErrorKind, GeneratorState, Result};
use std::path::Path;
use std::str::FromStr;

/// Model, optimiser, step, generators and position in the data, in one safetensors file. The model's tensors are named
/// `model.` and the name, so that other programs can pick them out.
///
/// ```
/// use flambeau_core::Generator;
/// use flambeau_nn::optim::{Optimizer, Sgd, SgdOptions};
/// use flambeau_nn::serialization::Checkpoint;
/// use flambeau_nn::{Linear, Module};
/// let path = std::env::temp_dir().join(format!("flambeau-checkpoint-{}.safetensors", std::process::id()));
/// let model = Linear::new(2, 1)?;
/// let mut sgd = Sgd::new(model.parameters(), SgdOptions::default())?;
/// let checkpoint = Checkpoint {
///     model: model.state_dict()?,
///     optimizer: sgd.state_dict()?,
///     step: 100,
///     generator: Some(Generator::default_cpu().state()),
///     ..Default::default()
/// };
/// checkpoint.save(&path)?;
///
/// let checkpoint = Checkpoint::load(&path)?;
/// model.load_state_dict(&checkpoint.model)?;
/// sgd.load_state_dict(&checkpoint.optimizer)?;
/// assert_eq!(checkpoint.step, 100);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Checkpoint {
    /// [`Module::state_dict`](crate::Module::state_dict).
    pub model: StateDict,
    /// [`Optimizer::state_dict`](crate::optim::Optimizer::state_dict).
    pub optimizer: StateDict,
    /// Steps taken.
    pub step: u64,
    /// The generator that the model draws from.
    pub generator: Option<GeneratorState>,
    /// Where the loader stands.
    pub data: Option<Position>,
    /// Whatever else should be known.
    pub metadata: Metadata,
}

impl Checkpoint {
    /// Writes it to `path`; a failure leaves the file of before as it was.
    ///
    /// # Errors
    /// Those of [`save`](super::save).
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        self.write(path).map_err(|e| e.context(format!("saving {}", path.display())))
    }

    fn write(&self, path: &Path) -> Result<()> {
        let named = |part: &'static str| {
            move |(name, tensor): (&String, _)| (format!("{part}.{name}"), Clone::clone(tensor))
        };
        let model = self.model.iter().map(named("model"));
        let tensors = model.chain(self.optimizer.iter().map(named("optimizer"))).collect::<StateDict>();
        let (entries, mut metadata) = (entries(&tensors)?, self.all_metadata());
        metadata.insert(CHECKSUM.to_string(), checksum(&entries, &metadata)?.to_string());
        write(path, entries, &metadata, &|| Ok(()))
    }

    /// Reads one.
    ///
    /// # Errors
    /// Those of [`load`]; `Io` naming what a checkpoint should have and the file has not, and for a file whose checksum says
    /// that it is not what was saved.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (tensors, metadata) = load(path)?;
        Self::from_parts(tensors, metadata).map_err(|e| e.context(format!("loading {}", path.display())))
    }

    fn all_metadata(&self) -> Metadata {
        let mut metadata: Metadata =
            self.metadata.iter().map(|(key, value)| (format!("notes.{key}"), value.clone())).collect();
        let mut note = |key: &str, value: u64| drop(metadata.insert(key.to_string(), value.to_string()));
        note("version", VERSION);
        note("step", self.step);
        let mut generator = |key: &str, state: &GeneratorState| {
            note(&format!("{key}.seed"), state.seed);
            note(&format!("{key}.offset"), state.offset);
        };
        self.generator.iter().for_each(|state| generator("generator", state));
        let data_generator = self.data.and_then(|data| data.generator);
        data_generator.iter().for_each(|state| generator("data.generator", state));
        if let Some(data) = &self.data {
            note("data.epoch", data.epoch);
            note("data.batch", data.batch);
        }
        metadata
    }

    fn from_parts(tensors: StateDict, mut metadata: Metadata) -> Result<Self> {
        let version = required(&metadata, "version")?;
        flambeau_core::ensure!(
            version == VERSION,
            Io,
            "expected a checkpoint of version {VERSION} but got {version}"
        );
        let expected = required(&metadata, CHECKSUM)?;
        metadata.remove(CHECKSUM);
        flambeau_core::ensure!(
            checksum(&entries(&tensors)?, &metadata)? == expected,
            Io,
            "the file is damaged: its checksum is not that of what it holds"
        );
        let mut checkpoint = Checkpoint { step: required(&metadata, "step")?, ..Default::default() };
        checkpoint.generator = generator(&metadata, "generator")?;
        if let Some(epoch) = number(&metadata, "data.epoch")? {
            let batch = required(&metadata, "data.batch")?;
            checkpoint.data =
                Some(Position { epoch, batch, generator: generator(&metadata, "data.generator")? });
        }
        for (key, value) in metadata {
            if let Some(key) = key.strip_prefix("notes.") {
                checkpoint.metadata.insert(key.to_string(), value);
            }
        }
        for (name, tensor) in tensors {
            match name.split_once('.') {
                Some(("model", name)) => checkpoint.model.insert(name.to_string(), tensor),
                Some(("optimizer", name)) => checkpoint.optimizer.insert(name.to_string(), tensor),
                _ => {
                    return Err(fault(format!(
                        "expected tensors of a model or an optimiser but got `{name}`"
                    )));
                }
            };
        }
        Ok(checkpoint)
    }
}

/// The note that holds the checksum of everything else.
const CHECKSUM: &str = "checksum";
/// The keys of the metadata, and the names of the tensors.
const VERSION: u64 = 1;

fn generator(metadata: &Metadata, key: &str) -> Result<Option<GeneratorState>> {
    let Some(seed) = number(metadata, &format!("{key}.seed"))? else { return Ok(None) };
    Ok(Some(GeneratorState { seed, offset: required(metadata, &format!("{key}.offset"))? }))
}

fn required(metadata: &Metadata, key: &str) -> Result<u64> {
    number(metadata, key)?
        .ok_or_else(|| fault(format!("expected a checkpoint with a note `{key}`, which is not there")))
}

fn number(metadata: &Metadata, key: &str) -> Result<Option<u64>> {
    let parse = |text: &String| {
        u64::from_str(text)
            .map_err(|_| fault(format!("expected a number for the note `{key}` but got {text:?}")))
    };
    metadata.get(key).map(parse).transpose()
}

fn fault(message: String) -> Error {
    Error::new(ErrorKind::Io, message)
}
