//! Converts arguments to the types that operators take.

use super::accepts::{is_index, of_python_type, scalar_of};
use super::bind::Arguments;
use super::signature::Kind;
use crate::binding::Passed;
use crate::errors::raise;
use crate::tensor::tensor_in;
use crate::types::{PyDevice, PyDtype, PyGenerator, PyLayout, PyMemoryFormat, dtype_named};
use flambeau_core::{Device, DimVec, Generator, Layout, MemoryFormat, Scalar, ScalarType, fallible};
use flambeau_ops::Tensor;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use smallvec::SmallVec;
use std::ops::Deref;

/// A tensor that was given, or one made of a number that was.
pub(crate) enum TensorRef<'a> {
    Given(&'a Tensor),
    Made(Tensor),
}

impl Deref for TensorRef<'_> {
    type Target = Tensor;

    #[inline]
    fn deref(&self) -> &Tensor {
        match self {
            TensorRef::Given(tensor) => tensor,
            TensorRef::Made(tensor) => tensor,
        }
    }
}

impl Passed for TensorRef<'_> {
    type As<'s>
        = &'s Tensor
    where
        Self: 's;

    #[inline(always)]
    fn passed(&self) -> &Tensor {
        self
    }
}

/// The number of elements from which an operator releases the interpreter's lock: releasing and taking it costs about a tenth of the
/// sum of two tensors of this size.
pub(crate) const LARGE: i64 = 4096;

type Value<'a, 'py> = &'a Bound<'py, PyAny>;

impl<'a, 'py> Arguments<'a, 'py> {
    /// A value that binding has checked to be present.
    #[inline]
    pub(crate) fn value(&self, index: usize) -> PyResult<Value<'a, 'py>> {
        match self.values[index] {
            Some(value) => Ok(value),
            None => Err(self.missing(index)),
        }
    }

    #[cold]
    fn missing(&self, index: usize) -> PyErr {
        PyTypeError::new_err(format!("argument '{}' must not be None", self.parameters[index].name))
    }

    /// `read` of an index whose value was given, `None` where it is absent.
    #[inline]
    pub(crate) fn given<T>(
        &self,
        index: usize,
        read: impl FnOnce(&Self, usize) -> PyResult<T>,
    ) -> PyResult<Option<T>> {
        if self.values[index].is_some() { read(self, index).map(Some) } else { Ok(None) }
    }

    #[inline]
    pub(crate) fn tensor(&self, index: usize) -> PyResult<TensorRef<'a>> {
        let value = self.value(index)?;
        match tensor_in(value) {
            Some(tensor) => {
                if tensor.numel() >= LARGE {
                    self.large.set(true);
                }
                Ok(TensorRef::Given(tensor))
            }
            None => Tensor::wrapped_number(scalar_of(value)?).map(TensorRef::Made).map_err(raise),
        }
    }

    #[inline]
    pub(crate) fn tensor_or_number(&self, index: usize) -> PyResult<TensorRef<'a>> {
        self.tensor(index)
    }

    pub(crate) fn tensors(&self, index: usize) -> PyResult<Vec<Tensor>> {
        let read = |item: &Bound<'py, PyAny>| match tensor_in(item) {
            Some(tensor) => Ok(tensor.clone()),
            None => Err(PyTypeError::new_err("expected a Tensor")),
        };
        let tensors: Vec<Tensor> = items(self.value(index)?, read)?;
        if tensors.iter().any(|tensor| tensor.numel() >= LARGE) {
            self.large.set(true);
        }
        Ok(tensors)
    }

    /// Several tensors to be written, if they were given.
    pub(crate) fn out_tensors(&self, index: usize, count: usize) -> PyResult<Option<Vec<Tensor>>> {
        if self.values[index].is_none() {
            return Ok(None);
        }
        let tensors = self.tensors(index)?;
        if tensors.len() != count {
            let message = format!("expected a tuple of {count} tensors for 'out' but got {}", tensors.len());
            return Err(PyTypeError::new_err(message));
        }
        Ok(Some(tensors))
    }

    /// Refuses an `out` whose type or device is not the one that a factory's arguments `dtype` and `device` request.
    pub(crate) fn agree(&self, out: &Tensor) -> PyResult<()> {
        let refuse = |what, requested: String, got: String| {
            let message = format!("{what} {requested} does not match {what} of out parameter ({got})");
            Err(pyo3::exceptions::PyRuntimeError::new_err(message))
        };
        let value = |name| {
            let index = self.parameters.iter().position(|parameter| parameter.name == name);
            index.and_then(|index| self.values[index])
        };
        let dtype = value("dtype").map(dtype_of).transpose()?;
        let device = value("device").map(device_of).transpose()?;
        match (dtype, device) {
            (Some(dtype), _) if dtype != out.dtype() => {
                refuse("dtype", dtype.to_string(), out.dtype().to_string())
            }
            (_, Some(device)) if device != out.device() => {
                refuse("device", device.to_string(), out.device().to_string())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn optional_tensors(&self, index: usize) -> PyResult<Vec<Option<Tensor>>> {
        items(self.value(index)?, |item| Ok(tensor_in(item).cloned()))
    }

    #[inline]
    pub(crate) fn scalar(&self, index: usize) -> PyResult<Scalar> {
        scalar_of(self.value(index)?)
    }

    pub(crate) fn scalars(&self, index: usize) -> PyResult<Vec<Scalar>> {
        items(self.value(index)?, scalar_of)
    }

    /// Integers; a single one stands for as many as the parameter says.
    #[inline]
    pub(crate) fn ints(&self, index: usize) -> PyResult<DimVec> {
        let value = self.value(index)?;
        let ints = match self.unpacked {
            Some(unpacked) if matches!(self.parameters[index].kind, Kind::Ints(_)) => {
                unpacked.iter().map(|item| item.extract::<i64>()).collect::<PyResult<DimVec>>()?
            }
            _ => self.read_ints(index, value)?,
        };
        if ints.iter().try_fold(1i64, |product, &n| product.checked_mul(n)).is_none_or(|n| n >= LARGE) {
            self.large.set(true);
        }
        Ok(ints)
    }

    fn read_ints(&self, index: usize, value: Value<'a, 'py>) -> PyResult<DimVec> {
        match self.parameters[index].kind {
            Kind::Ints(size) if size > 0 && is_index(value) => {
                Ok(SmallVec::from_elem(value.extract()?, usize::from(size)))
            }
            _ => ints_of(value),
        }
    }

    pub(crate) fn floats(&self, index: usize) -> PyResult<Vec<f64>> {
        items(self.value(index)?, |item| scalar_of(item).map(|number| number.to_f64()))
    }

    pub(crate) fn generator(&self, index: usize) -> PyResult<&'a Generator> {
        Ok(&self.value(index)?.cast::<PyGenerator>()?.get().0)
    }
}

macro_rules! plain {
    ($($name:ident: $ty:ty = $read:expr;)*) => {
        impl<'a, 'py> Arguments<'a, 'py> {$(
            #[inline]
            pub(crate) fn $name(&self, index: usize) -> PyResult<$ty> {
                let read: fn(Value<'a, 'py>) -> PyResult<$ty> = $read;
                read(self.value(index)?)
            }
        )*}
    };
}

plain! {
    int: i64 = |value| value.extract();
    float: f64 = |value| value.extract();
    boolean: bool = |value| value.is_truthy();
    string: &'a str = |value| value.cast::<PyString>()?.to_str();
    dtype: ScalarType = |value| dtype_of(value);
    device: Device = |value| device_of(value);
    layout: Layout = |value| Ok(value.cast::<PyLayout>()?.get().0);
    memory_format: MemoryFormat = |value| Ok(value.cast::<PyMemoryFormat>()?.get().0);
}

/// The items of a list or tuple, each read.
fn items<'py, T>(
    value: &Bound<'py, PyAny>,
    read: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>,
) -> PyResult<Vec<T>> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        let mut values = fallible::with_capacity(tuple.len()).map_err(raise)?;
        for item in tuple.iter_borrowed() {
            values.push(read(&item)?);
        }
        return Ok(values);
    }
    let list = value.cast::<PyList>()?;
    let mut values = fallible::with_capacity(list.len()).map_err(raise)?;
    for item in list.iter() {
        fallible::push(&mut values, read(&item)?).map_err(raise)?; // Reading may run code that lengthens the list.
    }
    Ok(values)
}

/// A list or tuple of integers.
pub(crate) fn ints_of(value: &Bound<'_, PyAny>) -> PyResult<DimVec> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        ensure_room(tuple.len())?;
        return tuple.iter_borrowed().map(|item| item.extract::<i64>()).collect();
    }
    let list = value.cast::<PyList>()?;
    ensure_room(list.len())?;
    list.iter().map(|item| item.extract::<i64>()).collect()
}

/// An error, before a long list of integers is read, if there is no memory for it.
fn ensure_room(count: usize) -> PyResult<()> {
    // Twice, since the list grows by doubling.
    if count < 1024 { Ok(()) } else { fallible::ensure_room(4 * count * size_of::<i64>()).map_err(raise) }
}

/// A type of elements: `flambeau.float32`, `"float32"`, `float`.
pub(crate) fn dtype_of(value: &Bound<'_, PyAny>) -> PyResult<ScalarType> {
    if let Ok(dtype) = value.cast::<PyDtype>() {
        return Ok(dtype.get().0);
    }
    if let Some(dtype) = of_python_type(value) {
        return Ok(dtype);
    }
    let name = value.cast::<PyString>()?.to_str()?;
    dtype_named(name)
        .ok_or_else(|| PyTypeError::new_err(format!("expected the name of a dtype but got '{name}'")))
}

/// A device: `flambeau.device("cpu")` or its name.
pub(crate) fn device_of(value: &Bound<'_, PyAny>) -> PyResult<Device> {
    if let Ok(device) = value.cast::<PyDevice>() {
        return device.get().device();
    }
    value.cast::<PyString>()?.to_str()?.parse().map_err(raise)
}
