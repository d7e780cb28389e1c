//! Arguments and results between Python and [`Value`], by the types of a schema.

use super::schema::OperatorSchema;
use crate::arguments::{device_of, dtype_of, is_index, is_number, scalar_of, type_name};
use crate::call::IntoPython;
use crate::errors::raise;
use crate::objects;
use crate::tensor::{tensor_in, wrap};
use crate::types::{PyDevice, PyGenerator, PyLayout, PyMemoryFormat, dtype_object};
use flambeau_core::Scalar;
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_schema::{BaseType, Type};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// The arguments of a call from Python, every one in the order of the schema.
pub(super) fn arguments(
    schema: &OperatorSchema,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<Value>> {
    let positional = schema.schema.positional.len();
    if args.len() > positional {
        let message = format!("expected at most {positional} argument(s) but received {}", args.len());
        return refuse(schema, &message);
    }
    let mut named = 0;
    let mut values = Vec::with_capacity(schema.parameters.len());
    for (at, parameter) in schema.parameters.iter().enumerate() {
        let name = parameter.argument.name.as_str();
        let by_name = kwargs.map(|kwargs| kwargs.get_item(name)).transpose()?.flatten();
        named += usize::from(by_name.is_some());
        let given = if at < args.len() { Some(args.get_item(at)?) } else { None };
        values.push(match (given, by_name, &parameter.default) {
            (Some(_), Some(_), _) => return refuse(schema, &format!("got two values for argument '{name}'")),
            (Some(value), None, _) | (None, Some(value), _) => {
                match value_of(&value, &parameter.argument.ty)? {
                    Some(value) => value,
                    None => return mismatch(schema, name, &parameter.argument.ty, at, &value),
                }
            }
            (None, None, Some(default)) => default.clone(),
            (None, None, None) => return refuse(schema, &format!("is missing value for argument '{name}'")),
        });
    }
    match kwargs {
        Some(kwargs) if named < kwargs.len() => unknown_keyword(schema, kwargs),
        _ => Ok(values),
    }
}

fn refuse<T>(schema: &OperatorSchema, message: &str) -> PyResult<T> {
    Err(PyRuntimeError::new_err(format!("{} {message}. Declaration: {}", schema.called(), schema.schema)))
}

fn mismatch<T>(schema: &OperatorSchema, name: &str, ty: &Type, at: usize, value: &Object<'_>) -> PyResult<T> {
    let message = format!(
        "{} Expected a value of type '{ty}' for argument '{name}' but instead found type '{}'.\nPosition: {at}\nDeclaration: {}",
        schema.called(),
        type_name(value),
        schema.schema
    );
    Err(PyRuntimeError::new_err(message))
}

#[cold]
fn unknown_keyword<T>(schema: &OperatorSchema, kwargs: &Bound<'_, PyDict>) -> PyResult<T> {
    let is_known = |name: &str| schema.parameters.iter().any(|parameter| parameter.argument.name == name);
    for name in kwargs.keys() {
        let name: String = name.extract()?;
        if !is_known(&name) {
            return refuse(schema, &format!("got an unknown keyword argument '{name}'"));
        }
    }
    refuse(schema, "got an unknown keyword argument")
}

/// An argument of a type; `None` where it is of another one.
fn value_of(value: &Object<'_>, ty: &Type) -> PyResult<Option<Value>> {
    match ty {
        Type::Optional(inner) => match value.is_none() {
            true => Ok(Some(Value::None)),
            false => value_of(value, inner),
        },
        Type::List(inner, size) => list_of(value, inner, *size),
        Type::Base(base) => plain_value_of(value, *base),
        Type::Class(_) => Ok(None),
    }
}

fn plain_value_of(value: &Object<'_>, base: BaseType) -> PyResult<Option<Value>> {
    let is_int = || value.is_instance_of::<PyBool>() || is_index(value);
    Ok(Some(match base {
        BaseType::Tensor => match tensor_in(value) {
            Some(tensor) => Value::Tensor(tensor.clone()),
            None if is_number(value) => {
                Value::Tensor(Tensor::wrapped_number(scalar_of(value)?).map_err(raise)?)
            }
            None => return Ok(None),
        },
        BaseType::Scalar if is_number(value) => Value::Scalar(scalar_of(value)?),
        BaseType::Int | BaseType::SymInt | BaseType::DeviceIndex if is_int() => Value::Int(value.extract()?),
        BaseType::Float | BaseType::SymFloat if is_number(value) => match scalar_of(value)? {
            Scalar::Complex(..) => return Ok(None),
            number => Value::Float(number.to_f64()),
        },
        BaseType::Bool | BaseType::SymBool if value.is_instance_of::<PyBool>() => {
            Value::Bool(value.is_truthy()?)
        }
        BaseType::Str if value.is_instance_of::<PyString>() => Value::Str(value.extract()?),
        BaseType::ScalarType => match dtype_of(value) {
            Ok(dtype) => Value::ScalarType(dtype),
            Err(_) => return Ok(None),
        },
        BaseType::Device if value.is_instance_of::<PyDevice>() || value.is_instance_of::<PyString>() => {
            Value::Device(device_of(value)?)
        }
        BaseType::Layout => match value.cast::<PyLayout>() {
            Ok(layout) => Value::Layout(layout.get().0),
            Err(_) => return Ok(None),
        },
        BaseType::MemoryFormat => match value.cast::<PyMemoryFormat>() {
            Ok(format) => Value::MemoryFormat(format.get().0),
            Err(_) => return Ok(None),
        },
        BaseType::Generator => match value.cast::<PyGenerator>() {
            Ok(generator) => Value::Generator(generator.get().0.clone()),
            Err(_) => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// A list or tuple, or one item for a list of a given length. Lists of other lengths, such as an empty one for a stride, are left to the
/// operator.
fn list_of(value: &Object<'_>, inner: &Type, size: Option<u32>) -> PyResult<Option<Value>> {
    let items: Vec<Object<'_>> = match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.iter().collect(),
        (_, Ok(tuple)) => tuple.iter().collect(),
        _ if size.is_some() => {
            let is_single = value_of(value, inner)?.is_some();
            if !is_single {
                return Ok(None);
            }
            vec![value.clone(); size.unwrap_or(1) as usize]
        }
        _ => return Ok(None),
    };
    let (inner, optional) = match inner {
        Type::Optional(inner) => (&**inner, true),
        inner => (inner, false),
    };
    let Type::Base(base) = inner else { return Ok(None) };
    macro_rules! collected {
        ($variant:ident, $($pattern:pat => $item:expr),+) => {{
            let mut values = Vec::with_capacity(items.len());
            for item in &items {
                values.push(match plain_value_of(item, *base)? {
                    $(Some($pattern) => $item,)+
                    _ => return Ok(None),
                });
            }
            Value::$variant(values)
        }};
    }
    Ok(Some(match base {
        BaseType::Tensor if optional => {
            let mut tensors = Vec::with_capacity(items.len());
            for item in &items {
                match tensor_in(item) {
                    None if !item.is_none() => return Ok(None),
                    tensor => tensors.push(tensor.cloned()),
                }
            }
            Value::OptionalTensors(tensors)
        }
        BaseType::Tensor => collected!(Tensors, Value::Tensor(tensor) => tensor),
        BaseType::Int | BaseType::SymInt => collected!(Ints, Value::Int(value) => value),
        BaseType::Float => collected!(Floats, Value::Float(value) => value),
        BaseType::Bool => collected!(Bools, Value::Bool(value) => value),
        BaseType::Scalar => collected!(Scalars, Value::Scalar(value) => value),
        _ => return Ok(None),
    }))
}

/// A value as an object. A tensor that stands for a number is that number.
pub(super) fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Object<'py>> {
    Ok(match value {
        Value::Tensor(tensor) if tensor.is_wrapped_number() => {
            tensor.item_scalar().map_err(raise)?.into_python(py)?
        }
        Value::Tensor(tensor) => wrap(py, tensor.clone())?,
        Value::Tensors(list) => {
            objects::list(py, list.len(), |index| wrap(py, list[index].clone()))?.into_any()
        }
        Value::OptionalTensors(list) => {
            let item = |index: usize| match &list[index] {
                Some(tensor) => wrap(py, tensor.clone()),
                None => Ok(py.None().into_bound(py)),
            };
            objects::list(py, list.len(), item)?.into_any()
        }
        Value::Scalar(number) => (*number).into_python(py)?,
        Value::Scalars(list) => {
            objects::list(py, list.len(), |index| list[index].into_python(py))?.into_any()
        }
        Value::Int(value) => objects::int(py, *value)?,
        Value::Float(value) => objects::float(py, *value)?,
        Value::Bool(value) => (*value).into_python(py)?,
        Value::Ints(list) => objects::list(py, list.len(), |index| objects::int(py, list[index]))?.into_any(),
        Value::Floats(list) => {
            objects::list(py, list.len(), |index| objects::float(py, list[index]))?.into_any()
        }
        Value::Bools(list) => objects::list(py, list.len(), |index| list[index].into_python(py))?.into_any(),
        Value::Str(text) => objects::text(py, text)?,
        Value::ScalarType(dtype) => dtype_object(py, *dtype)?.into_any(),
        Value::Layout(layout) => Bound::new(py, PyLayout(*layout))?.into_any(),
        Value::Device(device) => Bound::new(py, PyDevice::of(*device))?.into_any(),
        Value::MemoryFormat(format) => Bound::new(py, PyMemoryFormat(*format))?.into_any(),
        Value::Generator(generator) => Bound::new(py, PyGenerator(generator.clone()))?.into_any(),
        _ => py.None().into_bound(py),
    })
}

/// Positional arguments, and those by name, of a call that Python code gets. Without `all`, what is the default at the end of the
/// positional arguments or among the others is left out, as in PyTorch.
pub(super) fn python_arguments<'py>(
    py: Python<'py>,
    schema: &OperatorSchema,
    values: &[Value],
    all: bool,
) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
    let pairs = || schema.parameters.iter().zip(values);
    let is_passed = |(parameter, value): (&super::schema::Parameter, &Value)| {
        all || !parameter.default.as_ref().is_some_and(|default| is_same(default, value))
    };
    let positional = values.len().min(schema.schema.positional.len());
    let last = pairs().take(positional).rposition(is_passed);
    let count = if all { positional } else { last.map_or(0, |last| last + 1) };
    let args = objects::tuple(py, count, |index| object_of(py, &values[index]))?;
    let kwargs = PyDict::new(py);
    for (parameter, value) in pairs().filter(|(parameter, _)| parameter.keyword) {
        if is_passed((parameter, value)) {
            kwargs.set_item(parameter.argument.name.as_str(), object_of(py, value)?)?;
        }
    }
    Ok((args, kwargs))
}

/// Whether an argument is the default.
fn is_same(default: &Value, value: &Value) -> bool {
    match (default, value) {
        (Value::None, Value::None) => true,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Ints(a), Value::Ints(b)) => a == b,
        (Value::Bools(a), Value::Bools(b)) => a == b,
        (Value::Floats(a), Value::Floats(b)) => a == b,
        (Value::ScalarType(a), Value::ScalarType(b)) => a == b,
        (Value::MemoryFormat(a), Value::MemoryFormat(b)) => a == b,
        (Value::Layout(a), Value::Layout(b)) => a == b,
        (Value::Scalar(a), Value::Scalar(b)) => {
            a.is_complex() == b.is_complex()
                && a.is_floating_point() == b.is_floating_point()
                && a.to_complex() == b.to_complex()
        }
        _ => false,
    }
}

/// The results of a kernel in Python as values: those that are no written arguments.
pub(super) fn results(schema: &OperatorSchema, returned: &Object<'_>) -> PyResult<Vec<Value>> {
    let returns = &schema.schema.returns;
    if schema.written.iter().all(Option::is_some) {
        return Ok(Vec::new());
    }
    let items: Vec<Object<'_>> = match (returns.len(), returned.cast::<PyTuple>(), returned.cast::<PyList>())
    {
        (1, ..) => vec![returned.clone()],
        (_, Ok(tuple), _) => tuple.iter().collect(),
        (_, _, Ok(list)) => list.iter().collect(),
        _ => vec![returned.clone()],
    };
    if items.len() != returns.len() {
        let message = format!(
            "{} expected {} results of its kernel but got {}. Declaration: {}",
            schema.called(),
            returns.len(),
            items.len(),
            schema.schema
        );
        return Err(PyRuntimeError::new_err(message));
    }
    let mut values = Vec::with_capacity(items.len());
    for (at, (result, item)) in
        returns.iter().zip(&items).enumerate().filter(|(at, _)| schema.written[*at].is_none())
    {
        let is_missing_tensor = tensor_in(item).is_none() && result.ty == Type::Base(BaseType::Tensor);
        match value_of(item, &result.ty)?.filter(|_| !is_missing_tensor) {
            Some(value) => values.push(value),
            None => {
                let message = format!(
                    "{} expected a result of type '{}' of its kernel but result {at} is of type '{}'. Declaration: {}",
                    schema.called(),
                    result.ty,
                    type_name(item),
                    schema.schema
                );
                return Err(PyRuntimeError::new_err(message));
            }
        }
    }
    Ok(values)
}

/// What a call returns to Python: nothing, one object, or a tuple. Written arguments are returned as the objects they are.
pub(super) fn returned<'py>(
    py: Python<'py>,
    schema: &OperatorSchema,
    arguments: &[Value],
    results: &[Value],
) -> PyResult<Object<'py>> {
    let mut results = results.iter();
    let mut objects = Vec::with_capacity(schema.written.len());
    for written in &schema.written {
        let value = match written {
            Some(index) => arguments.get(*index),
            None => results.next(),
        };
        objects.push(value.map_or_else(|| Ok(py.None().into_bound(py)), |value| object_of(py, value))?);
    }
    match objects.len() {
        0 => Ok(py.None().into_bound(py)),
        1 => Ok(objects.swap_remove(0)),
        _ => Ok(PyTuple::new(py, objects)?.into_any()),
    }
}
