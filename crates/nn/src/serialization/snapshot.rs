//! Holds the tensors of a save: their guards exclude writers until the last byte is in the file.

use super::{COMPLEX_KEYS, code_of};
use crate::StateDict;
use flambeau_core::{
    Access, Device, Element, Error, ReadGuard, Result, ScalarType, Storage, StorageGuards, bail, ensure,
};
use flambeau_ops::tensor::accessor::TensorAccessor;
use flambeau_ops::{Tensor, dispatch_all_types, ops};

/// Tensors that are being saved, by name.
pub(super) type Entries<'a> = Vec<(&'a String, Entry)>;

/// A tensor that nobody writes to while it is being saved.
pub(super) struct Entry {
    pub(super) dtype: ScalarType,
    pub(super) code: &'static str,
    pub(super) sizes: Vec<i64>,
    elements: Box<dyn Bytes>,
}

/// All tensors as they are at one moment. From now on nobody can write to them.
pub(super) fn entries(tensors: &StateDict) -> Result<Entries<'_>> {
    // Handles of our own, whose geometry nobody changes.
    let handles: Vec<(&String, Tensor)> =
        tensors.iter().map(|(name, tensor)| named(name, detached_handle(tensor))).collect::<Result<_>>()?;
    let requests: Vec<(&Storage, Access)> =
        handles.iter().map(|(_, tensor)| (tensor.storage(), Access::Read)).collect();
    // All at once: whoever holds some and waits for others can only wait for so long. The entries hold guards of their own, which
    // can be had without waiting while these are held.
    let _guards = StorageGuards::acquire(&requests).map_err(|e| held(e, &handles))?;
    handles.iter().map(|(name, tensor)| named(name, Entry::new(tensor))).collect()
}

fn named<T>(name: &String, result: Result<T>) -> Result<(&String, T)> {
    match result {
        Ok(value) => Ok((name, value)),
        Err(error) => Err(error.context(format!("`{name}`"))),
    }
}

/// The error with the name of the tensor that it is about.
fn held(error: Error, handles: &[(&String, Tensor)]) -> Error {
    let single = |(name, tensor): &(&String, Tensor)| {
        ReadGuard::acquire(tensor.storage()).err().map(|e| e.context(format!("`{name}`")))
    };
    handles.iter().find_map(single).unwrap_or(error)
}

fn detached_handle(tensor: &Tensor) -> Result<Tensor> {
    // safetensors files are little endian; so are all machines that this was tested on.
    ensure!(
        cfg!(target_endian = "little"),
        NotImplemented,
        "files are little endian and this machine is not"
    );
    ensure!(
        tensor.device() == Device::CPU,
        Device,
        "expected a tensor on the host but got one on {}",
        tensor.device()
    );
    tensor.detach()
}

impl Entry {
    fn new(tensor: &Tensor) -> Result<Self> {
        let mut sizes = tensor.sizes().to_vec();
        let code = match tensor.dtype() {
            dtype if COMPLEX_KEYS.iter().any(|(complex, _)| *complex == dtype) => {
                sizes.push(2);
                code_of(dtype.to_real())?
            }
            dtype => code_of(dtype)?,
        };
        let flat = flat(tensor)?;
        let elements = dispatch_all_types!(stored, flat.dtype(), "save", T => {
            flat.accessor::<T, 1>().map(|accessor| Box::new(accessor) as Box<dyn Bytes>)
        })?;
        Ok(Entry { dtype: tensor.dtype(), code, sizes, elements })
    }

    /// The elements, one after another.
    pub(super) fn bytes(&self) -> Result<&[u8]> {
        self.elements.bytes()
    }
}

/// The elements in a row, those of a view with gaps copied; bools as 0 and 1, whatever their bytes are, and complex numbers as parts.
fn flat(tensor: &Tensor) -> Result<Tensor> {
    let tensor = match tensor.dtype() {
        dtype if dtype.is_complex() => ops::view_as_real(&tensor.contiguous()?)?,
        ScalarType::Bool => tensor.view_dtype(ScalarType::U8)?.ne_scalar(0)?,
        _ => tensor.contiguous()?,
    };
    let dense = tensor.contiguous()?;
    dense.view(&[dense.geometry().numel()])
}

/// Elements in a row, as bytes.
trait Bytes {
    fn bytes(&self) -> Result<&[u8]>;
}

impl<T: Element> Bytes for TensorAccessor<T, 1> {
    fn bytes(&self) -> Result<&[u8]> {
        match self.as_slice() {
            Some(elements) => Ok(bytemuck::cast_slice(elements)),
            None => bail!(Internal, "the elements of a contiguous tensor have gaps"),
        }
    }
}
