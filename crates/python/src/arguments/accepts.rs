//! Whether a value is of a type that a parameter takes: a check of exact types, which never raises and calls no Python code.

use super::signature::Kind;
use crate::tensor::{PyTensor, tensor_in};
use crate::types::{
    PyDevice, PyDtype, PyGenerator, PyLayout, PyMemoryFormat, dtype_named, is_python_number_type,
};
use flambeau_autograd::Autograd;
use flambeau_core::{Scalar, ScalarType, default_dtype};
use flambeau_ops::Tensor;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Whether a parameter of this kind takes the value.
#[inline]
pub(super) fn accepts(kind: Kind, value: &Bound<'_, PyAny>) -> bool {
    match kind {
        Kind::Tensor => tensor_in(value).is_some(),
        Kind::TensorOrNumber => tensor_in(value).is_some() || is_number(value),
        Kind::Scalar => is_number(value),
        Kind::Scalars => all(value, is_number),
        Kind::Int => is_index(value),
        Kind::Float => is_float(value),
        Kind::Floats => all(value, is_float),
        Kind::Boolean => {
            value.is_instance_of::<PyBool>() || numpy_name(value).is_some_and(|name| name.starts_with("bool"))
        }
        Kind::Ints(size) => (size > 0 && is_index(value)) || all(value, is_index),
        Kind::Tensors => all(value, |item| tensor_in(item).is_some()),
        Kind::OptionalTensors => all(value, |item| item.is_none() || tensor_in(item).is_some()),
        Kind::String => value.is_instance_of::<PyString>(),
        Kind::Dtype => {
            value.is_instance_of::<PyDtype>()
                || is_python_number_type(value)
                || names_dtype(value) == Some(true)
        }
        Kind::Device => value.is_instance_of::<PyDevice>() || names_dtype(value) == Some(false),
        Kind::Layout => value.is_instance_of::<PyLayout>(),
        Kind::MemoryFormat => value.is_instance_of::<PyMemoryFormat>(),
        Kind::Generator => value.is_instance_of::<PyGenerator>(),
    }
}

/// A real number that is no truth value.
fn is_float(value: &Bound<'_, PyAny>) -> bool {
    !value.is_instance_of::<PyBool>() && is_number(value) && !is_complex(value)
}

/// A complex number: Python's, NumPy's, or a tensor of one.
fn is_complex(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyComplex>()
        || single(value).is_some_and(|tensor| tensor.is_complex())
        || numpy_name(value).is_some_and(|name| name.starts_with("complex"))
}

/// Whether a text is the name of a dtype; another text is taken for that of a device.
fn names_dtype(value: &Bound<'_, PyAny>) -> Option<bool> {
    Some(dtype_named(value.cast::<PyString>().ok()?.to_str().ok()?).is_some())
}

/// Whether it is a list or a tuple of which each item passes.
fn all(value: &Bound<'_, PyAny>, passes: impl Fn(&Bound<'_, PyAny>) -> bool) -> bool {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return tuple.iter_borrowed().all(|item| passes(&item));
    }
    value.cast::<PyList>().is_ok_and(|list| list.iter().all(|item| passes(&item)))
}

/// An integer: Python's, NumPy's, or a tensor of one; a bool is none.
#[inline]
pub(crate) fn is_index(value: &Bound<'_, PyAny>) -> bool {
    if value.is_exact_instance_of::<PyInt>() {
        return true;
    }
    if value.is_instance_of::<PyBool>() {
        return false;
    }
    value.is_instance_of::<PyInt>()
        || single(value).is_some_and(|tensor| tensor.dtype().is_integral(false))
        || numpy_name(value).is_some_and(|name| name.starts_with("int") || name.starts_with("uint"))
}

/// A number: Python's or NumPy's, or a tensor of one element that requires no gradient.
#[inline]
pub(crate) fn is_number(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<PyFloat>()
        || value.is_instance_of::<PyInt>()
        || single(value).is_some()
        || value.is_instance_of::<PyComplex>()
        || numpy_name(value).is_some()
}

/// A tensor without dimensions that requires no gradient: it is accepted as its number.
fn single<'a>(value: &'a Bound<'_, PyAny>) -> Option<&'a Tensor> {
    tensor_in(value).filter(|tensor| tensor.dim() == 0 && !tensor.requires_grad())
}

/// The name of the type of a NumPy number: `float32`, `int64`, `bool_`.
fn numpy_name(value: &Bound<'_, PyAny>) -> Option<String> {
    let class = value.get_type();
    if class.is(PyTensor::type_object(value.py())) {
        return None;
    }
    let module = class.module().ok()?;
    if module.to_str().ok()? != "numpy" {
        return None;
    }
    let name = class.name().ok()?.to_str().ok()?.to_owned();
    let number = ["int", "uint", "float", "bool", "longlong", "ulonglong", "complex"];
    number.iter().any(|kind| name.starts_with(kind)).then_some(name)
}

/// The number that [`is_number`] saw.
pub(crate) fn scalar_of(value: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if value.is_exact_instance_of::<PyFloat>() {
        return value.extract().map(Scalar::Float);
    }
    if value.is_exact_instance_of::<PyInt>() {
        return value.extract().map(Scalar::Int).or_else(|error| unsigned(value, error));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Scalar::Bool(flag.is_true()));
    }
    if let Some(tensor) = tensor_in(value) {
        return tensor.item_scalar().map_err(crate::errors::raise);
    }
    if let Ok(number) = value.cast::<PyComplex>() {
        return Ok(Scalar::Complex(number.real(), number.imag()));
    }
    match numpy_name(value) {
        Some(name) if name.starts_with("complex") => {
            let part = |name: &str| value.getattr(name)?.extract::<f64>();
            Ok(Scalar::Complex(part("real")?, part("imag")?))
        }
        Some(name) if name.starts_with("bool") => Ok(Scalar::Bool(value.is_truthy()?)),
        Some(name) if name.starts_with("float") => value.extract().map(Scalar::Float),
        None if value.is_instance_of::<PyFloat>() => value.extract().map(Scalar::Float),
        _ => value.extract().map(Scalar::Int).or_else(|error| unsigned(value, error)),
    }
}

/// An integer that is too large for i64, unless it is so for u64 too.
#[cold]
fn unsigned(value: &Bound<'_, PyAny>, error: PyErr) -> PyResult<Scalar> {
    value.extract::<u64>().map(Scalar::from).map_err(|_| error)
}

/// The element type that a number has: NumPy's scalars have their own.
pub(crate) fn dtype_of_number(value: &Bound<'_, PyAny>, number: Scalar) -> ScalarType {
    let plain = value.is_exact_instance_of::<PyFloat>() || value.is_exact_instance_of::<PyInt>();
    let named = || dtype_named(numpy_name(value)?.trim_end_matches('_'));
    let own = if plain { None } else { named() };
    own.unwrap_or_else(|| match number {
        Scalar::Bool(_) => ScalarType::Bool,
        number if number.is_floating_point() => default_dtype(),
        number if number.is_complex() => default_dtype().to_complex(),
        _ => ScalarType::I64,
    })
}

/// The type of element that Python's own types of numbers are.
pub(super) fn of_python_type(value: &Bound<'_, PyAny>) -> Option<ScalarType> {
    let py = value.py();
    if value.is(py.get_type::<PyFloat>()) {
        Some(ScalarType::F64)
    } else if value.is(py.get_type::<PyComplex>()) {
        Some(ScalarType::Complex128)
    } else if value.is(py.get_type::<PyBool>()) {
        Some(ScalarType::Bool)
    } else {
        value.is(py.get_type::<PyInt>()).then_some(ScalarType::I64)
    }
}
