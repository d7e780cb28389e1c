//! Tensors by name in safetensors files, written so that a failure leaves the file of before; and what PyTorch saved.

mod atomic;
mod checkpoint;
mod checksum;
mod pytorch;

pub use checkpoint::Checkpoint;
pub use pytorch::{Value, load_pytorch, load_pytorch_state_dict};

use crate::StateDict;
use flambeau_core::{Element, Error, ErrorKind, Geometry, Result, ScalarType, bail, ensure, fallible};
use flambeau_ops::tensor::accessor::TensorAccessor;
use flambeau_ops::{Tensor, dispatch_all_types, ops};
use safetensors::tensor::{Dtype, Metadata, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Notes that are kept beside tensors.
pub type Notes = BTreeMap<String, String>;

/// Writes `tensors` and `notes` to `path` as a safetensors file, which PyTorch's `safetensors.torch.load_file` reads too. The
/// file is complete on the disk before it takes the place of the one of before, which a failure leaves as it was. Nobody can
/// write to the tensors meanwhile.
///
/// # Errors
/// `Io` naming `path`, `Busy` where an accessor of this thread is writing to a tensor.
///
/// ```
/// use flambeau_nn::serialization::{load, save};
/// use flambeau_nn::{Linear, Module};
/// let path = std::env::temp_dir().join(format!("flambeau-doc-{}.safetensors", std::process::id()));
/// let layer = Linear::new(2, 3)?;
/// save(&path, &layer.state_dict()?, &[("made by".to_string(), "a test".to_string())].into())?;
/// let (tensors, notes) = load(&path)?;
/// layer.load_state_dict(&tensors)?;
/// assert_eq!(notes["made by"], "a test");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn save(path: impl AsRef<Path>, tensors: &StateDict, notes: &Notes) -> Result<()> {
    let path = path.as_ref();
    entries(tensors)
        .and_then(|entries| write(path, entries, notes))
        .map_err(|e| e.context(format!("saving {}", path.display())))
}

/// The tensors and notes of a safetensors file, in memory of their own.
///
/// # Errors
/// `Io` naming `path` where it cannot be read, is cut short or is not a safetensors file; `NotImplemented` for types of
/// elements that have no tensors here, `OutOfMemory`.
pub fn load(path: impl AsRef<Path>) -> Result<(StateDict, Notes)> {
    let path = path.as_ref();
    read(path).map_err(|e| e.context(format!("loading {}", path.display())))
}

/// Tensors that are being saved, by name.
type Entries<'a> = Vec<(&'a String, Entry)>;

/// From now on nobody can write to them.
fn entries(tensors: &StateDict) -> Result<Entries<'_>> {
    let entry = |tensor, name: &String| Entry::new(tensor).map_err(|e| e.context(format!("`{name}`")));
    tensors.iter().map(|(name, tensor)| Ok((name, entry(tensor, name)?))).collect()
}

fn write(path: &Path, entries: Entries<'_>, notes: &Notes) -> Result<()> {
    let notes = (!notes.is_empty()).then(|| notes.clone().into_iter().collect());
    atomic::replace(path, |temporary| {
        safetensors::serialize_to_file(entries, notes, temporary).map_err(|e| wrong(e.to_string(), e))
    })
}

/// A tensor that nobody writes to while it is being saved.
struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Box<dyn Bytes>,
}

/// Elements in a row, as bytes.
trait Bytes {
    fn bytes(&self) -> Cow<'_, [u8]>;
}

impl<T: Element> Bytes for TensorAccessor<T, 1> {
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self.as_slice() {
            Some(elements) => Cow::Borrowed(bytemuck::cast_slice(elements)),
            None => {
                let elements: Vec<T> = self.iter().copied().collect();
                Cow::Owned(bytemuck::cast_slice(&elements).to_vec())
            }
        }
    }
}

impl Entry {
    fn new(tensor: &Tensor) -> Result<Self> {
        // safetensors files are little endian; so are all machines that this was tested on.
        ensure!(
            cfg!(target_endian = "little"),
            NotImplemented,
            "files are little endian and this machine is not"
        );
        let flat = ops::reshape(&tensor.detach()?, &[-1])?;
        let bytes = dispatch_all_types!(all, tensor.dtype(), "save", T => {
            flat.accessor::<T, 1>().map(|accessor| Box::new(accessor) as Box<dyn Bytes>)
        })?;
        let shape = tensor.sizes().iter().map(|size| *size as usize).collect();
        Ok(Entry { dtype: file_type(tensor.dtype())?, shape, bytes })
    }
}

impl View for Entry {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes.bytes()
    }

    fn data_len(&self) -> usize {
        self.bytes.bytes().len()
    }
}

/// The types that tensors have both here and in files.
const TYPES: [(ScalarType, Dtype); 10] = [
    (ScalarType::Bool, Dtype::BOOL),
    (ScalarType::U8, Dtype::U8),
    (ScalarType::I8, Dtype::I8),
    (ScalarType::I16, Dtype::I16),
    (ScalarType::I32, Dtype::I32),
    (ScalarType::I64, Dtype::I64),
    (ScalarType::F16, Dtype::F16),
    (ScalarType::BF16, Dtype::BF16),
    (ScalarType::F32, Dtype::F32),
    (ScalarType::F64, Dtype::F64),
];

fn file_type(dtype: ScalarType) -> Result<Dtype> {
    let found = TYPES.iter().find(|(ours, _)| *ours == dtype);
    found.map(|(_, theirs)| *theirs).ok_or_else(|| {
        Error::new(ErrorKind::NotImplemented, format!("tensors of {dtype} cannot be saved yet"))
    })
}

fn scalar_type(dtype: Dtype) -> Result<ScalarType> {
    let found = TYPES.iter().find(|(_, theirs)| *theirs == dtype);
    found.map(|(ours, _)| *ours).ok_or_else(|| {
        Error::new(ErrorKind::NotImplemented, format!("tensors of {dtype:?} cannot be loaded yet"))
    })
}

/// Longer headers are refused, as the format says.
const LONGEST_HEADER: u64 = 100_000_000;

fn read(path: &Path) -> Result<(StateDict, Notes)> {
    ensure!(
        cfg!(target_endian = "little"),
        NotImplemented,
        "files are little endian and this machine is not"
    );
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let metadata = header(&mut file, size)?;
    let mut tensors = StateDict::new();
    // Every byte of the data belongs to one tensor, in this order: the header was checked for that.
    for name in metadata.offset_keys() {
        let Some(info) = metadata.info(&name) else { bail!(Internal, "a tensor of the header has gone") };
        let sizes = sizes_of(&info.shape).map_err(|e| e.context(format!("`{name}`")))?;
        let tensor = scalar_type(info.dtype).and_then(|dtype| elements(&mut file, &sizes, dtype));
        tensors.insert(name.clone(), tensor.map_err(|e| e.context(format!("`{name}`")))?);
    }
    Ok((tensors, metadata.metadata().clone().unwrap_or_default().into_iter().collect()))
}

/// The header, which must account for every byte of the file.
fn header(file: &mut File, size: u64) -> Result<Metadata> {
    ensure!(
        size >= 8,
        Io,
        "expected a file of at least 8 bytes but got {size}: it is cut short or no safetensors file"
    );
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    ensure!(
        length <= LONGEST_HEADER,
        Io,
        "expected a header but got one of {length} bytes: this is no safetensors file"
    );
    ensure!(
        length <= size - 8,
        Io,
        "expected a header of {length} bytes but the file ends after {size}: it is cut short"
    );
    let mut text = fallible::filled(0, length as usize)?;
    file.read_exact(&mut text)?;
    let metadata: Metadata = serde_json::from_slice(&text)
        .map_err(|e| wrong(format!("expected a safetensors header but got something else: {e}"), e))?;
    let expected = (8 + length).saturating_add(metadata.data_len() as u64);
    ensure!(expected == size, Io, "expected {expected} bytes, as the header says, but got {size}");
    Ok(metadata)
}

/// Sizes whose strides can be told, even where a size of 0 leaves no elements.
fn sizes_of(shape: &[usize]) -> Result<Vec<i64>> {
    let longest = shape.iter().try_fold(1usize, |product, size| product.checked_mul((*size).max(1)));
    ensure!(
        longest.is_some_and(|product| i64::try_from(product).is_ok()),
        Io,
        "expected sizes whose product is below 2^63 but got {shape:?}"
    );
    Ok(shape.iter().map(|size| *size as i64).collect())
}

/// The next elements of the file.
fn elements(file: &mut File, sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    let count = Geometry::contiguous(sizes)?.numel();
    if dtype == ScalarType::Bool {
        let mut bytes = fallible::filled(0u8, count as usize)?;
        file.read_exact(&mut bytes)?;
        ensure!(bytes.iter().all(|byte| *byte < 2), Io, "expected bools of 0 and 1 but got another byte");
        return Tensor::from_vec(fallible::collect(bytes.iter().map(|byte| *byte == 1))?, sizes);
    }
    dispatch_all_types!(numbers, dtype, "load", T => {
        let mut values = fallible::filled(<T as bytemuck::Zeroable>::zeroed(), count as usize)?;
        file.read_exact(bytemuck::cast_slice_mut(&mut values))?;
        Tensor::from_vec(values, sizes)
    })
}

fn wrong(message: String, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::with_source(ErrorKind::Io, message, source)
}
