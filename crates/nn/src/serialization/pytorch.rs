//! Reads files of `torch.save`: tensors in plain containers. Nothing in a file is executed.

mod archive;
mod build;
mod pickle;

use super::{StateDict, fault, of_reader};
use archive::Archive;
use build::Storages;
use flambeau_core::{Result, ScalarType, bail, ensure};
use flambeau_ops::Tensor;
use std::path::Path;

/// A value of a file: what state dicts, and checkpoints around them, are made of.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number in floating point.
    Float(f64),
    /// A text.
    Text(String),
    /// Values in a row that stays as it is.
    Tuple(Vec<Value>),
    /// Values in a row.
    List(Vec<Value>),
    /// Values by other values, in order.
    Dict(Vec<(Value, Value)>),
    /// The same, of Python's class of that name.
    OrderedDict {
        /// Values by other values, in order.
        entries: Vec<(Value, Value)>,
        /// What a state dict metadata beside its tensors: the versions of the modules.
        metadata: Option<Box<Value>>,
    },
    /// The sizes of a tensor.
    Size(Vec<i64>),
    /// A type of elements.
    Dtype(ScalarType),
    /// A tensor, in memory of the host. Those that shared a storage share it again.
    Tensor(Tensor),
    /// A tensor that was a parameter of a module.
    Parameter(Tensor),
}

/// The value in a file that `torch.save` of PyTorch 1.6 or later wrote.
///
/// Such a file is a zip archive of the elements of each storage and of a pickle, a program that puts them together. Here it
/// may put together tensors, numbers, texts, lists, tuples and dicts; a program that names anything else is refused with
/// this name in the error, and nothing that it names is looked up or called. Tensors of every device come to the
/// host.
///
/// # Errors
/// `Io` naming `path` where it cannot be read, is no such file, is cut short, was written by a machine of the other order of
/// bytes, or names something else; `NotImplemented` for types of elements that have no tensors here, `OutOfMemory`.
pub fn load_pytorch(path: impl AsRef<Path>) -> Result<Value> {
    let path = path.as_ref();
    read(path).map_err(|e| of_reader(e).context(format!("loading {}", path.display())))
}

/// The tensors by name in such a file: what `torch.save(model.state_dict(), path)` wrote.
///
/// ```no_run
/// use flambeau_nn::serialization::load_pytorch_state_dict;
/// use flambeau_nn::{Linear, Module};
/// let layer = Linear::new(2, 3)?;
/// layer.load_state_dict(&load_pytorch_state_dict("linear.pt")?)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// # Errors
/// Those of [`load_pytorch`], and `Io` for a value of another form.
pub fn load_pytorch_state_dict(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    load_pytorch(path)?.into_state_dict().map_err(|e| e.context(format!("loading {}", path.display())))
}

impl Value {
    /// Tensors by name, where it is those: a state dict, or the part of a checkpoint that is one.
    ///
    /// # Errors
    /// `Io` naming what is no name or no tensor.
    pub fn into_state_dict(self) -> Result<StateDict> {
        let (Value::Dict(entries) | Value::OrderedDict { entries, .. }) = self else {
            bail!(Io, "expected tensors by name but got {}", self.kind());
        };
        let entry = |(name, value): (Value, Value)| match (name, value) {
            (Value::Text(name), Value::Tensor(tensor) | Value::Parameter(tensor)) => Ok((name, tensor)),
            (Value::Text(name), other) => {
                bail!(Io, "expected a tensor for `{name}` but got {}", other.kind())
            }
            (other, _) => bail!(Io, "expected names but got {}", other.kind()),
        };
        entries.into_iter().map(entry).collect()
    }

    /// The entry of a dict by its name: `"model_state_dict"` of a checkpoint.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let (Value::Dict(entries) | Value::OrderedDict { entries, .. }) = self else { return None };
        let is_it = |(key, _): &&(Value, Value)| matches!(key, Value::Text(text) if text == name);
        entries.iter().rfind(is_it).map(|(_, value)| value)
    }

    /// What it is, in words.
    fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::Tuple(_) => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) | Value::OrderedDict { .. } => "a dict",
            Value::Size(_) => "sizes",
            Value::Dtype(_) => "a type of elements",
            Value::Tensor(_) | Value::Parameter(_) => "a tensor",
        }
    }
}

/// Longer programs are refused: a state dict's has some hundred bytes for a tensor.
const LONGEST_PROGRAM: u64 = 100_000_000;

fn read(path: &Path) -> Result<Value> {
    ensure!(
        cfg!(target_endian = "little"),
        NotImplemented,
        "files are little endian and this machine is not"
    );
    let mut archive = Archive::open(path)?;
    // Files of PyTorch before 2.1 do not say; they were written on little-endian machines but for a few.
    if archive.has("byteorder") {
        let order = archive.record("byteorder", 16)?;
        ensure!(
            order == b"little",
            Io,
            "expected elements in little-endian order but the file says {:?}",
            String::from_utf8_lossy(&order)
        );
    }
    let program = archive.record("data.pkl", LONGEST_PROGRAM)?;
    pickle::run(&program, Storages::new(archive)).map_err(|e| e.context("data.pkl"))
}
