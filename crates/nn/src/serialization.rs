//! Tensors by name in safetensors files, replaced atomically, so that a failure leaves the previous file; and files of PyTorch.
//!
//! - **Writing.** A save takes the guards of all its tensors at once and holds them until the last byte is written. It writes to a file
//!   with a random name that no other program can have created, synchronizes that with the disk, gives it the permissions of the file
//!   that it replaces, and renames it.
//! - **Reading.** A reader compares the sizes that a file declares with the file's length before it allocates, so that memory is
//!   proportional to the length. Names in files of PyTorch are looked up in tables of what may be created, never in modules.
//!
//! The Python module uses the same writer and readers.

mod atomic;
mod checkpoint;
mod checksum;
mod header;
mod pytorch;
mod snapshot;

pub use checkpoint::Checkpoint;
pub use pytorch::{Value, load_pytorch, load_pytorch_state_dict};

use crate::StateDict;
use flambeau_core::{Error, ErrorKind, Result, ScalarType, ensure, fallible};
use flambeau_ops::{Tensor, dispatch_all_types, ops};
use snapshot::{Entries, entries};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

/// Text saved beside tensors, by key: the `__metadata__` of the safetensors format.
pub type Metadata = BTreeMap<String, String>;

/// Writes `tensors` and `metadata` to `path` as a safetensors file, which PyTorch's `safetensors.torch.load_file` reads too. The
/// file is written completely before it replaces the previous one, whose permissions it gets, and which stays as it was if this
/// fails. The tensors are saved as they are at one moment: nobody can write to them meanwhile.
///
/// # Errors
/// `Io` naming `path`, `Busy` where an accessor of this thread is writing to a tensor, `OutOfMemory` for the copy of a tensor that is
/// not contiguous, `Device` for tensors that are not on the host.
///
/// ```
/// use flambeau_nn::serialization::{load, save};
/// use flambeau_nn::{Linear, Module};
/// let path = std::env::temp_dir().join(format!("flambeau-doc-{}.safetensors", std::process::id()));
/// let layer = Linear::new(2, 3)?;
/// save(&path, &layer.state_dict()?, &[("made by".to_string(), "a test".to_string())].into())?;
/// let (tensors, metadata) = load(&path)?;
/// layer.load_state_dict(&tensors)?;
/// assert_eq!(metadata["made by"], "a test");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn save(path: impl AsRef<Path>, tensors: &StateDict, metadata: &Metadata) -> Result<()> {
    save_unless(path, tensors, metadata, &|| Ok(()))
}

/// The same, unless `interrupted`, which is called from time to time, returns an error; then `path` stays as it was.
///
/// # Errors
/// Those of [`save`], and that of `interrupted`.
pub fn save_unless(
    path: impl AsRef<Path>,
    tensors: &StateDict,
    metadata: &Metadata,
    interrupted: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let path = path.as_ref();
    entries(tensors)
        .and_then(|entries| write(path, entries, metadata, interrupted))
        .map_err(|e| e.context(format!("saving {}", path.display())))
}

/// The tensors and metadata of a safetensors file, in memory of their own.
///
/// # Errors
/// `Io` naming `path` where it cannot be read, is cut short or is not a safetensors file; `NotImplemented` for types of
/// elements that have no tensors here, `OutOfMemory`.
pub fn load(path: impl AsRef<Path>) -> Result<(StateDict, Metadata)> {
    let path = path.as_ref();
    read(path).map_err(|e| e.context(format!("loading {}", path.display())))
}

/// Bytes that are written between two calls of `interrupted`.
const PIECE: usize = 1 << 24;

fn write(
    path: &Path,
    mut entries: Entries<'_>,
    metadata: &Metadata,
    interrupted: &dyn Fn() -> Result<()>,
) -> Result<()> {
    // Large elements first, so that all lie at multiples of their size.
    entries.sort_by_key(|(name, entry)| (std::cmp::Reverse(entry.dtype.size()), *name));
    let mut metadata = metadata.clone();
    for (dtype, key) in COMPLEX_KEYS {
        let of_type = entries.iter().filter(|(_, entry)| entry.dtype == dtype);
        let names: Vec<&str> = of_type.map(|(name, _)| name.as_str()).collect();
        if !names.is_empty() {
            metadata.insert(key.to_string(), header::json(&names)?);
        }
    }
    // The guards are released before the file is synchronised to the disk.
    atomic::replace(path, move |file| {
        let mut file = BufWriter::new(file);
        header::write(&mut file, &entries, &metadata)?;
        for (_, entry) in &entries {
            for piece in entry.bytes()?.chunks(PIECE) {
                interrupted()?;
                file.write_all(piece)?;
            }
        }
        interrupted()?;
        Ok(file.flush()?)
    })
}

/// The types that tensors have both here and in files.
const TYPES: [(ScalarType, &str); 17] = [
    (ScalarType::Bool, "BOOL"),
    (ScalarType::U8, "U8"),
    (ScalarType::I8, "I8"),
    (ScalarType::I16, "I16"),
    (ScalarType::I32, "I32"),
    (ScalarType::I64, "I64"),
    (ScalarType::F16, "F16"),
    (ScalarType::BF16, "BF16"),
    (ScalarType::F32, "F32"),
    (ScalarType::F64, "F64"),
    (ScalarType::Complex64, "C64"),
    (ScalarType::U16, "U16"),
    (ScalarType::U32, "U32"),
    (ScalarType::U64, "U64"),
    (ScalarType::F8E4M3FN, "F8_E4M3"),
    (ScalarType::F8E5M2, "F8_E5M2"),
    (ScalarType::F8E8M0FNU, "F8_E8M0"),
];

/// The keys of metadata with the names, as a JSON list, of tensors of complex types. The format has no code for these types: tensors are
/// saved in the type of the parts, with a last dimension for the two.
const COMPLEX_KEYS: [(ScalarType, &str); 2] =
    [(ScalarType::Complex128, "flambeau.complex128"), (ScalarType::Complex32, "flambeau.complex32")];

fn code_of(dtype: ScalarType) -> Result<&'static str> {
    let found = TYPES.iter().find(|(ours, _)| *ours == dtype);
    found.map(|(_, theirs)| *theirs).ok_or_else(|| {
        Error::new(ErrorKind::NotImplemented, format!("tensors of {dtype} cannot be saved yet"))
    })
}

fn scalar_type(code: &str) -> Result<ScalarType> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == code);
    found.map(|(ours, _)| *ours).ok_or_else(|| {
        let message = format!("the elements are of type {code}, of which there are no tensors");
        Error::new(ErrorKind::NotImplemented, message)
    })
}

fn read(path: &Path) -> Result<(StateDict, Metadata)> {
    ensure!(
        cfg!(target_endian = "little"),
        NotImplemented,
        "files are little endian and this machine is not"
    );
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    contents(&mut file, size).map_err(|e| of_reader(e).context("not a whole safetensors file"))
}

fn contents(file: &mut File, size: u64) -> Result<(StateDict, Metadata)> {
    let header = header::read(file, size)?;
    let mut tensors = StateDict::new();
    // The elements lie one after another in this order.
    for (name, info) in header.tensors {
        let tensor = info.checked().and_then(|(dtype, sizes)| elements(file, &sizes, dtype));
        let tensor = tensor.map_err(|e| e.context(format!("`{name}`")))?;
        tensors.insert(name, tensor);
    }
    let mut metadata = header.metadata;
    for (_, key) in COMPLEX_KEYS {
        let Some(names) = metadata.remove(key) else { continue };
        let names: Vec<String> = serde_json::from_str(&names).map_err(|e| fault(e.to_string()))?;
        for name in names {
            let tensor = tensors.get_mut(&name).ok_or_else(|| fault(format!("`{name}` is missing")))?;
            *tensor = ops::view_as_complex(tensor).map_err(|e| e.context(format!("`{name}`")))?;
        }
    }
    Ok((tensors, metadata))
}

/// The next elements of a file that is known to have as many, read directly into a tensor's memory.
fn elements(file: &mut File, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    if dtype == ScalarType::Bool {
        let bytes = elements(file, sizes, ScalarType::U8)?;
        let is_bool =
            bytes.view(&[bytes.geometry().numel()])?.accessor::<u8, 1>()?.iter().all(|byte| *byte < 2);
        ensure!(is_bool, Io, "expected bools of 0 and 1 but got another byte");
        return bytes.view_dtype(dtype);
    }
    if dtype.is_complex() {
        let parts: Vec<i64> = sizes.iter().copied().chain([2]).collect();
        return ops::view_as_complex(&elements(file, &parts, dtype.to_real())?);
    }
    let unit = unit_of(dtype);
    if unit != dtype {
        return elements(file, sizes, unit)?.view_dtype(dtype);
    }
    let tensor = Tensor::empty(sizes, dtype)?;
    dispatch_all_types!(numbers, dtype, "load", T => {
        let flat = tensor.view(&[tensor.geometry().numel()])?;
        let mut accessor = flat.accessor_mut::<T, 1>()?;
        match accessor.as_mut_slice() {
            Some(elements) => Ok(file.read_exact(bytemuck::cast_slice_mut(elements))?),
            None => Err(Error::new(ErrorKind::Internal, "the elements of a new tensor have gaps")),
        }
    })?;
    Ok(tensor)
}

/// The type of the same size whose elements are read, for a type of which any bytes are an element; others stay.
fn unit_of(dtype: ScalarType) -> ScalarType {
    match dtype {
        ScalarType::U16 => ScalarType::I16,
        ScalarType::U32 => ScalarType::I32,
        ScalarType::U64 => ScalarType::I64,
        dtype if dtype.is_float8() => ScalarType::U8,
        other => other,
    }
}

/// Bytes of a file that is known to have as many.
fn bytes(file: &mut File, count: u64) -> Result<Vec<u8>> {
    let count =
        usize::try_from(count).map_err(|_| fault(format!("{count} bytes are more than memory has")))?;
    let mut bytes = fallible::filled(0, count)?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// An error about a file's contents.
fn fault(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Io, message)
}

/// An error that a file's contents caused in another function, as an `Io` error about the file.
fn of_reader(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Io | ErrorKind::NotImplemented | ErrorKind::OutOfMemory => error,
        _ => Error::with_source(ErrorKind::Io, error.message().to_string(), error),
    }
}
