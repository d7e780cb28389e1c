//! Arguments and results.

use crate::abi::{FbDevice, FbMore, FbPayload, FbTensor, FbValue, tag};
use crate::error::{Error, ErrorKind, Result};
use crate::table::member;
use crate::tensor::Tensor;
use std::ptr;

/// An argument or a result.
#[derive(Clone)]
#[non_exhaustive]
pub enum Value {
    /// An argument that is not given.
    None,
    /// `Tensor`.
    Tensor(Tensor),
    /// `Tensor[]`.
    Tensors(Vec<Tensor>),
    /// `Tensor?[]`.
    OptionalTensors(Vec<Option<Tensor>>),
    /// `int`.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `bool`.
    Bool(bool),
    /// A complex number.
    Complex(f64, f64),
    /// `int[]`.
    Ints(Vec<i64>),
    /// `float[]`.
    Floats(Vec<f64>),
    /// `bool[]`.
    Bools(Vec<bool>),
    /// `str`.
    Str(String),
    /// `ScalarType`, by its number.
    ScalarType(i32),
    /// `Device`.
    Device(FbDevice),
    /// `Layout`, by its number.
    Layout(i64),
    /// `MemoryFormat`, by its number.
    MemoryFormat(i64),
    /// Something that this plug-in cannot hold: a generator, a list of numbers.
    Other,
}

impl From<&Tensor> for Value {
    fn from(tensor: &Tensor) -> Self {
        Value::Tensor(tensor.clone())
    }
}

macro_rules! from {
    ($($rust:ty => $variant:ident),*) => {$(
        impl From<$rust> for Value {
            fn from(value: $rust) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}

from!(Tensor => Tensor, Vec<Tensor> => Tensors, i64 => Int, f64 => Float, bool => Bool, Vec<i64> => Ints, String => Str);

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::None => "nothing",
            Value::Tensor(_) => "a tensor",
            Value::Tensors(_) | Value::OptionalTensors(_) => "a list of tensors",
            Value::Int(_) => "an int",
            Value::Float(_) => "a float",
            Value::Bool(_) => "a bool",
            Value::Str(_) => "a string",
            _ => "another value",
        }
    }

    #[cold]
    fn mismatch<T>(&self, expected: &str) -> Result<T> {
        Err(Error::new(ErrorKind::InvalidArgument, format!("expected {expected} but got {}", self.kind())))
    }

    /// The tensor.
    ///
    /// # Errors
    /// `InvalidArgument` where it is something else; so below.
    pub fn tensor(&self) -> Result<&Tensor> {
        if let Value::Tensor(tensor) = self { Ok(tensor) } else { self.mismatch("a tensor") }
    }

    /// The number, as a float.
    ///
    /// # Errors
    /// As for [`tensor`](Self::tensor).
    pub fn float(&self) -> Result<f64> {
        match self {
            Value::Float(value) => Ok(*value),
            Value::Int(value) => Ok(*value as f64),
            _ => self.mismatch("a number"),
        }
    }

    /// The integer.
    ///
    /// # Errors
    /// As for [`tensor`](Self::tensor).
    pub fn int(&self) -> Result<i64> {
        if let Value::Int(value) = self { Ok(*value) } else { self.mismatch("an int") }
    }

    /// The value of one that the library passes.
    ///
    /// # Safety
    /// - (value) It holds what its tag says.
    unsafe fn borrowed(value: &FbValue) -> Result<Self> {
        // SAFETY: (value).
        unsafe {
            let (of, count) = (value.of, value.more.count);
            Ok(match value.tag {
                tag::NONE => Value::None,
                tag::TENSOR => Value::Tensor(Tensor::retained(of.tensor)?),
                tag::TENSORS => {
                    let list = list(of.tensors, count).iter();
                    Value::Tensors(list.map(|tensor| Tensor::retained(*tensor)).collect::<Result<_>>()?)
                }
                tag::OPTIONAL_TENSORS => {
                    let given = |tensor: &*mut FbTensor| {
                        (!tensor.is_null()).then(|| Tensor::retained(*tensor)).transpose()
                    };
                    Value::OptionalTensors(list(of.tensors, count).iter().map(given).collect::<Result<_>>()?)
                }
                tag::INT => Value::Int(of.integer),
                tag::FLOAT => Value::Float(of.number),
                tag::BOOLEAN => Value::Bool(of.integer != 0),
                tag::COMPLEX => Value::Complex(of.number, value.more.imaginary),
                tag::INTS => Value::Ints(list(of.integers, count).to_vec()),
                tag::FLOATS => Value::Floats(list(of.numbers, count).to_vec()),
                tag::BOOLEANS => Value::Bools(list(of.bytes, count).iter().map(|byte| *byte != 0).collect()),
                tag::STRING => Value::Str(String::from_utf8_lossy(list(of.bytes, count)).into_owned()),
                tag::SCALAR_TYPE => Value::ScalarType(of.integer as i32),
                tag::DEVICE => Value::Device(of.device),
                tag::LAYOUT => Value::Layout(of.integer),
                tag::MEMORY_FORMAT => Value::MemoryFormat(of.integer),
                _ => Value::Other,
            })
        }
    }
}

/// # Safety
/// - There are `count` values at `first`, or none.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    // SAFETY: as above.
    if count == 0 || first.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(first, count) } }
}

/// Values that the library passes.
///
/// # Safety
/// - There are `count` at `first`, which hold what their tags say.
pub(crate) unsafe fn borrowed(first: *const FbValue, count: usize) -> Result<Vec<Value>> {
    // SAFETY: as above.
    unsafe { list(first, count) }.iter().map(|value| unsafe { Value::borrowed(value) }).collect()
}

/// Values that this plug-in owns; what they hold is freed.
///
/// # Safety
/// - The library has given them.
pub(crate) unsafe fn owned(values: &mut [FbValue]) -> Result<Vec<Value>> {
    let free = member!(value_free);
    // SAFETY: as above.
    let made = unsafe { borrowed(values.as_ptr(), values.len()) };
    // SAFETY: as above.
    values.iter_mut().for_each(|value| unsafe { free(value) });
    made
}

/// Values as the library reads them, while the values that they were made of live.
pub(crate) struct Passed {
    values: Vec<FbValue>,
    _handles: Vec<Vec<*mut FbTensor>>,
}

impl Passed {
    pub(crate) fn new(values: &[Value]) -> Result<Self> {
        let mut handles = vec![];
        let values = values.iter().map(|value| passed(value, &mut handles)).collect::<Result<_>>()?;
        Ok(Passed { values, _handles: handles })
    }

    pub(crate) fn as_slice(&self) -> &[FbValue] {
        &self.values
    }
}

fn passed(value: &Value, handles: &mut Vec<Vec<*mut FbTensor>>) -> Result<FbValue> {
    let none = FbMore { bits: 0 };
    let integer = |tag, integer| FbValue::new(tag, FbPayload { integer }, none);
    let mut tensors = |tag, list: Vec<*mut FbTensor>| {
        let made = FbValue::new(tag, FbPayload { tensors: list.as_ptr() }, FbMore { count: list.len() });
        handles.push(list);
        made
    };
    Ok(match value {
        Value::None => FbValue::NONE,
        Value::Tensor(tensor) => FbValue::new(tag::TENSOR, FbPayload { tensor: tensor.handle() }, none),
        Value::Tensors(list) => tensors(tag::TENSORS, list.iter().map(Tensor::handle).collect()),
        Value::OptionalTensors(list) => {
            let handle = |tensor: &Option<Tensor>| tensor.as_ref().map_or(ptr::null_mut(), Tensor::handle);
            tensors(tag::OPTIONAL_TENSORS, list.iter().map(handle).collect())
        }
        Value::Int(value) => integer(tag::INT, *value),
        Value::Bool(value) => integer(tag::BOOLEAN, i64::from(*value)),
        Value::Float(number) => FbValue::new(tag::FLOAT, FbPayload { number: *number }, none),
        Value::Complex(re, im) => {
            FbValue::new(tag::COMPLEX, FbPayload { number: *re }, FbMore { imaginary: *im })
        }
        Value::Ints(list) => {
            FbValue::new(tag::INTS, FbPayload { integers: list.as_ptr() }, FbMore { count: list.len() })
        }
        Value::Floats(list) => {
            FbValue::new(tag::FLOATS, FbPayload { numbers: list.as_ptr() }, FbMore { count: list.len() })
        }
        Value::Bools(list) => FbValue::new(
            tag::BOOLEANS,
            FbPayload { bytes: list.as_ptr().cast() },
            FbMore { count: list.len() },
        ),
        Value::Str(text) => FbValue::new(
            tag::STRING,
            FbPayload { string: text.as_ptr().cast() },
            FbMore { count: text.len() },
        ),
        Value::ScalarType(number) => integer(tag::SCALAR_TYPE, i64::from(*number)),
        Value::Device(device) => FbValue::new(tag::DEVICE, FbPayload { device: *device }, none),
        Value::Layout(number) => integer(tag::LAYOUT, *number),
        Value::MemoryFormat(number) => integer(tag::MEMORY_FORMAT, *number),
        Value::Other => {
            return Err(Error::new(
                ErrorKind::NotImplemented,
                "a value of this type cannot be passed on by a plug-in in Rust",
            ));
        }
    })
}
