//! The names that a pickle may use, and the values that they create: tensors, storages, sizes, dtypes, ordered dicts.

use super::archive::Archive;
use super::fault;
use super::pickle::{Id, Object, Objects};
use crate::serialization::elements;
use flambeau_autograd::Autograd;
use flambeau_core::{Error, ErrorKind, Geometry, Layout, Result, ScalarType, TensorImpl, bail, ensure};
use flambeau_ops::Tensor;
use std::collections::HashMap;

/// What may be named: a function, by what it does here, or a type of storage.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    Size,
    RebuildTensor,
    RebuildTypedTensor,
    RebuildParameter,
    RebuildSparseTensor,
    GetLayout,
    Storage(ScalarType),
}

const GLOBALS: [(&str, Global); 21] = [
    ("collections.OrderedDict", Global::OrderedDict),
    ("torch.Size", Global::Size),
    // The name before PyTorch 0.4 knew gradients, and the one since.
    ("torch._utils._rebuild_tensor", Global::RebuildTensor),
    ("torch._utils._rebuild_tensor_v2", Global::RebuildTensor),
    // For the types that have no kind of storage of their own.
    ("torch._utils._rebuild_tensor_v3", Global::RebuildTypedTensor),
    ("torch._utils._rebuild_parameter", Global::RebuildParameter),
    ("torch._utils._rebuild_sparse_tensor", Global::RebuildSparseTensor),
    ("torch.serialization._get_layout", Global::GetLayout),
    ("torch.FloatStorage", Global::Storage(ScalarType::F32)),
    ("torch.DoubleStorage", Global::Storage(ScalarType::F64)),
    ("torch.HalfStorage", Global::Storage(ScalarType::F16)),
    ("torch.BFloat16Storage", Global::Storage(ScalarType::BF16)),
    ("torch.LongStorage", Global::Storage(ScalarType::I64)),
    ("torch.IntStorage", Global::Storage(ScalarType::I32)),
    ("torch.ShortStorage", Global::Storage(ScalarType::I16)),
    ("torch.CharStorage", Global::Storage(ScalarType::I8)),
    ("torch.ByteStorage", Global::Storage(ScalarType::U8)),
    ("torch.storage.UntypedStorage", Global::Storage(ScalarType::U8)),
    ("torch.BoolStorage", Global::Storage(ScalarType::Bool)),
    ("torch.ComplexFloatStorage", Global::Storage(ScalarType::Complex64)),
    ("torch.ComplexDoubleStorage", Global::Storage(ScalarType::Complex128)),
];
/// The layouts by the names that files have for them.
const LAYOUTS: [(&str, Layout); 6] = [
    ("torch.strided", Layout::Strided),
    ("torch.sparse_coo", Layout::SparseCoo),
    ("torch.sparse_csr", Layout::SparseCsr),
    ("torch.sparse_csc", Layout::SparseCsc),
    ("torch.sparse_bsr", Layout::SparseBsr),
    ("torch.sparse_bsc", Layout::SparseBsc),
];
/// PyTorch's own bound on dimensions where it counts.
const MOST_DIMENSIONS: usize = 64;

/// What a program names, if it is one of the few things that it may.
pub(super) fn global(name: &str) -> Result<Object> {
    if let Some((_, global)) = GLOBALS.iter().find(|(known, _)| *known == name) {
        return Ok(Object::Global(*global));
    }
    let dtype = ScalarType::WORKING.iter().find(|dtype| name.strip_prefix("torch.") == Some(dtype.name()));
    if let Some(dtype) = dtype {
        return Ok(Object::Dtype(*dtype));
    }
    let is_storage = name.starts_with("torch.") && name.ends_with("Storage");
    ensure!(!is_storage, NotImplemented, "`{name}` has elements of a type that no tensors have here");
    bail!(Io, "expected tensors and plain values but the file names `{name}`, which is not looked up")
}

impl Global {
    pub(super) fn name(self) -> &'static str {
        GLOBALS.iter().find(|(_, global)| *global == self).map_or("", |(name, _)| name)
    }

    /// What calling it makes.
    pub(super) fn call(self, arguments: &[Id], objects: &Objects) -> Result<Object> {
        let argument = |nr: usize| arguments.get(nr).map(|id| &objects[*id]);
        match self {
            Global::OrderedDict if arguments.is_empty() => {
                Ok(Object::OrderedDict { entries: Vec::new(), metadata: None })
            }
            Global::Size => Ok(Object::Size(whole_numbers(argument(0), objects)?)),
            Global::RebuildTensor => rebuild_tensor(argument, objects, None),
            Global::RebuildTypedTensor => match argument(6) {
                Some(Object::Dtype(dtype)) => rebuild_tensor(argument, objects, Some(*dtype)),
                _ => bail!(Io, "expected the type of a tensor's elements"),
            },
            Global::RebuildParameter => rebuild_parameter(argument),
            Global::RebuildSparseTensor => rebuild_sparse_tensor(argument, objects),
            Global::GetLayout => layout(argument(0)),
            _ => bail!(Io, "expected no call of `{}` with {} arguments", self.name(), arguments.len()),
        }
    }
}

/// `(storage, offset, sizes, strides)`, then since version 2 whether it requires a gradient, and hooks, of which files have none; in
/// version 3 the type of the elements, that of the storage otherwise.
fn rebuild_tensor<'a>(
    argument: impl Fn(usize) -> Option<&'a Object>,
    objects: &Objects,
    dtype: Option<ScalarType>,
) -> Result<Object> {
    let (Some(Object::Storage(storage)), Some(Object::Int(offset))) = (argument(0), argument(1)) else {
        bail!(Io, "expected a tensor of a storage and an offset");
    };
    let dtype = dtype.unwrap_or(storage.dtype());
    let sizes = whole_numbers(argument(2), objects)?;
    let strides = whole_numbers(argument(3), objects)?;
    // Where there are no elements, or one in a dimension, nothing else bounds these.
    let is_far = |steps: &i64| steps.checked_mul(dtype.size() as i64).is_none();
    ensure!(
        !is_far(offset) && !strides.iter().any(is_far),
        Io,
        "expected strides and an offset in a storage but got {strides:?} and {offset}"
    );
    let geometry = Geometry::strided(&sizes, &strides, *offset)?;
    let tensor = Tensor::from_impl(TensorImpl::new(storage.storage().clone(), geometry, dtype)?);
    match argument(4) {
        None | Some(Object::Bool(false)) => {}
        Some(Object::Bool(true)) => drop(tensor.requires_grad_(true)?),
        Some(_) => bail!(Io, "expected a bool for `requires_grad`"),
    }
    no_hooks(argument(5))?;
    Ok(Object::Tensor(tensor))
}

/// `(tensor, requires_grad, hooks)`.
fn rebuild_parameter<'a>(argument: impl Fn(usize) -> Option<&'a Object>) -> Result<Object> {
    let (Some(Object::Tensor(tensor)), Some(Object::Bool(requires_grad))) = (argument(0), argument(1)) else {
        bail!(Io, "expected a parameter of a tensor and a bool");
    };
    no_hooks(argument(2))?;
    let tensor = tensor.detach()?;
    tensor.requires_grad_(*requires_grad)?;
    Ok(Object::Parameter(tensor))
}

fn layout(name: Option<&Object>) -> Result<Object> {
    let Some(Object::Text(name)) = name else { bail!(Io, "expected the name of a layout") };
    let known = LAYOUTS.iter().find(|(known, _)| known == name);
    known.map(|(_, layout)| Object::Layout(*layout)).ok_or_else(|| fault("expected the name of a layout"))
}

/// `(layout, parts)`. The parts of coordinates are `(indices, values, sizes)` and, in newer files, whether they are coalesced; those of
/// the other layouts `(compressed indices, plain indices, values, sizes)`. Indices are checked, since a file may have any.
fn rebuild_sparse_tensor<'a>(
    argument: impl Fn(usize) -> Option<&'a Object>,
    objects: &Objects,
) -> Result<Object> {
    let (Some(Object::Layout(layout)), Some(Object::Tuple(parts))) = (argument(0), argument(1)) else {
        bail!(Io, "expected a sparse tensor of a layout and a tuple of parts");
    };
    let tensor = |nr: usize| match parts.get(nr).map(|id| &objects[*id]) {
        Some(Object::Tensor(tensor)) => Ok(tensor),
        _ => Err(fault("expected indices and values of a sparse tensor")),
    };
    let part = |nr: usize| parts.get(nr).map(|id| &objects[*id]);
    let made = match layout {
        Layout::SparseCoo => {
            let is_coalesced = matches!(part(3), Some(Object::Bool(true))).then_some(true);
            let sizes = whole_numbers(part(2), objects)?;
            flambeau_sparse::sparse_coo_tensor(tensor(0)?, tensor(1)?, Some(&sizes), is_coalesced)?
        }
        layout => {
            let sizes = whole_numbers(part(3), objects)?;
            let [compressed, plain, values] = [tensor(0)?, tensor(1)?, tensor(2)?];
            flambeau_sparse::sparse_compressed_tensor(*layout, compressed, plain, values, Some(&sizes))?
        }
    };
    Ok(Object::Tensor(made))
}

/// Hooks are programs.
fn no_hooks(hooks: Option<&Object>) -> Result<()> {
    let none = match hooks {
        None | Some(Object::None) => true,
        Some(Object::OrderedDict { entries, .. }) => entries.is_empty(),
        Some(_) => false,
    };
    ensure!(none, Io, "expected a tensor without hooks");
    Ok(())
}

fn whole_numbers(tuple: Option<&Object>, objects: &Objects) -> Result<Vec<i64>> {
    if let Some(Object::Size(sizes)) = tuple {
        return Ok(sizes.clone());
    }
    let Some(Object::Tuple(items)) = tuple else { bail!(Io, "expected a tuple of whole numbers") };
    ensure!(
        items.len() <= MOST_DIMENSIONS,
        Io,
        "expected at most {MOST_DIMENSIONS} dimensions but got {}",
        items.len()
    );
    let number = |id: &Id| match objects[*id] {
        Object::Int(number) => Ok(number),
        _ => Err(fault("expected whole numbers")),
    };
    items.iter().map(number).collect()
}

/// The storages of an archive, each read on first use.
pub(super) struct Storages {
    archive: Archive,
    read: HashMap<String, Tensor>,
}

impl Storages {
    pub(super) fn new(archive: Archive) -> Self {
        Storages { archive, read: HashMap::new() }
    }

    /// All elements of the storage that a program describes: `("storage", type, key, device, count)`. The device does not
    /// matter: there is none but the host here.
    pub(super) fn described(&mut self, parts: &[Id], objects: &Objects) -> Result<Tensor> {
        let [kind, dtype, key, _device, count] = parts else {
            bail!(Io, "expected a storage described by 5 values")
        };
        let description = (&objects[*kind], &objects[*dtype], &objects[*key], &objects[*count]);
        match description {
            (
                Object::Text(kind),
                Object::Global(Global::Storage(dtype)),
                Object::Text(key),
                Object::Int(count),
            ) if kind == "storage" => self.storage(*dtype, key, *count),
            _ => bail!(Io, "expected the type, key and size of a storage"),
        }
    }

    fn storage(&mut self, dtype: ScalarType, key: &str, count: i64) -> Result<Tensor> {
        if let Some(storage) = self.read.get(key) {
            let same = storage.dtype() == dtype && storage.numel() == count;
            ensure!(same, Io, "storage {key} has two different descriptions");
            return Ok(storage.clone());
        }
        let named = |e: Error| e.context(format!("storage {key}"));
        let storage = self.elements(dtype, key, count).map_err(named)?;
        self.read.insert(key.to_string(), storage.clone());
        Ok(storage)
    }

    fn elements(&mut self, dtype: ScalarType, key: &str, count: i64) -> Result<Tensor> {
        let name = format!("data/{key}");
        let size = self.archive.size_of(&name)?;
        let expected = u64::try_from(count).ok().and_then(|count| count.checked_mul(dtype.size() as u64));
        if expected != Some(size) {
            let message = format!("expected {count} elements of {dtype} but the file has {size} bytes");
            return Err(Error::new(ErrorKind::Io, message));
        }
        elements(self.archive.reader(&name)?, &[count], dtype)
    }
}
