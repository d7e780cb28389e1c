//! Arguments and results as `FbValue`: passed to C while a call runs, given to C for good, and read from C.

use crate::entry::list;
use crate::handles::{as_handle, borrow, device, give, release, scalar_type, to_device, type_number};
use flambeau_core::{Generator, Layout, MemoryFormat, Result, Scalar, bail, error};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_plugin::abi::{FbMore, FbPayload, FbTensor, FbValue, tag};
use std::ffi::c_char;
use std::ptr;

const NOTHING: FbMore = FbMore { bits: 0 };

fn integer(tag: u32, integer: i64) -> FbValue {
    FbValue::new(tag, FbPayload { integer }, NOTHING)
}

fn scalar(value: Scalar) -> FbValue {
    let number = |tag, number, imaginary| FbValue::new(tag, FbPayload { number }, FbMore { imaginary });
    match value {
        Scalar::Bool(value) => integer(tag::BOOLEAN, i64::from(value)),
        Scalar::Int(value) => integer(tag::INT, value),
        Scalar::Float(value) => number(tag::FLOAT, value, 0.0),
        Scalar::Complex(re, im) => number(tag::COMPLEX, re, im),
        // An integer of 64 bits without a sign, as the nearest number that C has.
        other => number(tag::FLOAT, other.to_f64(), 0.0),
    }
}

/// The numbers of `FB_LAYOUT`. Layouts of other crates have none here.
fn layout_number(layout: Layout) -> i64 {
    i64::from(layout != Layout::Strided)
}

/// The values that need no list of their own; `None` for lists.
fn plain(value: &Value) -> Option<FbValue> {
    Some(match value {
        Value::None => FbValue::NONE,
        Value::Scalar(value) => scalar(*value),
        Value::Int(value) => integer(tag::INT, *value),
        Value::Float(value) => scalar(Scalar::Float(*value)),
        Value::Bool(value) => integer(tag::BOOLEAN, i64::from(*value)),
        Value::ScalarType(dtype) => integer(tag::SCALAR_TYPE, i64::from(type_number(*dtype))),
        Value::Layout(layout) => integer(tag::LAYOUT, layout_number(*layout)),
        Value::Device(of) => FbValue::new(tag::DEVICE, FbPayload { device: to_device(*of) }, NOTHING),
        Value::MemoryFormat(format) => integer(tag::MEMORY_FORMAT, *format as i64),
        _ => return None,
    })
}

fn counted(tag: u32, of: FbPayload, count: usize) -> FbValue {
    FbValue::new(tag, of, FbMore { count })
}

/// Values for C, which live as long as those that they were made of.
pub(crate) struct Passed {
    values: Vec<FbValue>,
    tensors: Vec<Box<[*mut FbTensor]>>,
    scalars: Vec<Box<[FbValue]>>,
}

impl Passed {
    pub(crate) fn new(values: &[Value]) -> Self {
        let mut passed =
            Passed { values: Vec::with_capacity(values.len()), tensors: vec![], scalars: vec![] };
        for value in values {
            let value = passed.pass(value);
            passed.values.push(value);
        }
        passed
    }

    pub(crate) fn as_slice(&self) -> &[FbValue] {
        &self.values
    }

    fn pass(&mut self, value: &Value) -> FbValue {
        match value {
            Value::Tensor(tensor) => {
                FbValue::new(tag::TENSOR, FbPayload { tensor: as_handle(tensor) }, NOTHING)
            }
            Value::Tensors(list) => self.tensors(tag::TENSORS, list.iter().map(as_handle).collect()),
            Value::OptionalTensors(list) => {
                let handle = |tensor: &Option<Tensor>| tensor.as_ref().map_or(ptr::null_mut(), as_handle);
                self.tensors(tag::OPTIONAL_TENSORS, list.iter().map(handle).collect())
            }
            Value::Ints(list) => counted(tag::INTS, FbPayload { integers: list.as_ptr() }, list.len()),
            Value::Floats(list) => counted(tag::FLOATS, FbPayload { numbers: list.as_ptr() }, list.len()),
            Value::Bools(list) => {
                counted(tag::BOOLEANS, FbPayload { bytes: list.as_ptr().cast() }, list.len())
            }
            Value::Str(text) => counted(tag::STRING, FbPayload { string: text.as_ptr().cast() }, text.len()),
            Value::Scalars(list) => {
                let values: Box<[FbValue]> = list.iter().map(|value| scalar(*value)).collect();
                let made = counted(tag::VALUES, FbPayload { values: values.as_ptr() }, values.len());
                self.scalars.push(values);
                made
            }
            Value::Generator(generator) => {
                let generator = ptr::from_ref(generator).cast_mut().cast();
                FbValue::new(tag::GENERATOR, FbPayload { generator }, NOTHING)
            }
            other => plain(other).unwrap_or(FbValue::NONE),
        }
    }

    fn tensors(&mut self, tag: u32, handles: Box<[*mut FbTensor]>) -> FbValue {
        let made = counted(tag, FbPayload { tensors: handles.as_ptr() }, handles.len());
        self.tensors.push(handles);
        made
    }
}

fn leaked<T>(list: Vec<T>) -> *const T {
    Box::leak(list.into_boxed_slice()).as_ptr()
}

/// A value that C owns, and frees by [`value_free`].
pub(crate) fn given(value: Value) -> FbValue {
    match value {
        Value::Tensor(tensor) => FbValue::new(tag::TENSOR, FbPayload { tensor: give(&tensor) }, NOTHING),
        Value::Tensors(list) => {
            let tensors = leaked(list.iter().map(give).collect());
            counted(tag::TENSORS, FbPayload { tensors }, list.len())
        }
        Value::OptionalTensors(list) => {
            let handle = |tensor: &Option<Tensor>| tensor.as_ref().map_or(ptr::null_mut(), give);
            let tensors = leaked(list.iter().map(handle).collect());
            counted(tag::OPTIONAL_TENSORS, FbPayload { tensors }, list.len())
        }
        Value::Ints(list) => {
            let count = list.len();
            counted(tag::INTS, FbPayload { integers: leaked(list) }, count)
        }
        Value::Floats(list) => {
            let count = list.len();
            counted(tag::FLOATS, FbPayload { numbers: leaked(list) }, count)
        }
        Value::Bools(list) => {
            let count = list.len();
            counted(tag::BOOLEANS, FbPayload { bytes: leaked(list).cast() }, count)
        }
        Value::Str(text) => {
            let count = text.len();
            counted(tag::STRING, FbPayload { string: leaked(text.into_bytes()).cast() }, count)
        }
        Value::Scalars(list) => {
            let values = leaked(list.iter().map(|value| scalar(*value)).collect());
            counted(tag::VALUES, FbPayload { values }, list.len())
        }
        Value::Generator(generator) => {
            let generator = Box::into_raw(Box::new(generator)).cast();
            FbValue::new(tag::GENERATOR, FbPayload { generator }, NOTHING)
        }
        other => plain(&other).unwrap_or(FbValue::NONE),
    }
}

/// Writes the results of a call to where C wants them.
///
/// # Safety
/// - (results) `results` has room for `capacity` values, and `count` for a number; either may be null.
pub(crate) unsafe fn give_results(
    made: Vec<Value>,
    results: *mut FbValue,
    capacity: usize,
    count: *mut usize,
) -> Result<()> {
    if made.len() > capacity || (results.is_null() && !made.is_empty()) {
        bail!(InvalidArgument, "expected room for {} results but got room for {capacity}", made.len());
    }
    if !count.is_null() {
        // SAFETY: (results).
        unsafe { count.write(made.len()) };
    }
    for (at, value) in made.into_iter().enumerate() {
        // SAFETY: (results), and there are no more than `capacity`.
        unsafe { results.add(at).write(given(value)) };
    }
    Ok(())
}

/// Values that C passes.
///
/// # Safety
/// - (values) There are `count` at `first`, and each holds what its tag says.
pub(crate) unsafe fn read_all(first: *const FbValue, count: usize) -> Result<Vec<Value>> {
    // SAFETY: (values).
    let values = unsafe { list(first, count, "arguments") }?;
    // SAFETY: (values).
    values.iter().map(|value| unsafe { read(value) }).collect()
}

/// A value that C passes; what it holds is copied or retained.
///
/// # Safety
/// - (value) It holds what its tag says.
unsafe fn read(value: &FbValue) -> Result<Value> {
    // SAFETY: (value): the tag says which member was written, and every bit pattern of the numbers is valid.
    unsafe {
        let (of, count) = (value.of, value.more.count);
        Ok(match value.tag {
            tag::NONE => Value::None,
            tag::TENSOR => Value::Tensor(borrow(of.tensor, "value")?.clone()),
            tag::TENSORS => {
                let handles = list(of.tensors, count, "value")?;
                let tensor = |handle: &*mut FbTensor| borrow(*handle, "value").map(|tensor| tensor.clone());
                Value::Tensors(handles.iter().map(tensor).collect::<Result<_>>()?)
            }
            tag::OPTIONAL_TENSORS => {
                let handles = list(of.tensors, count, "value")?;
                let given = |handle: &*mut FbTensor| (!handle.is_null()).then_some(*handle);
                let tensor = |handle: *mut FbTensor| borrow(handle, "value").map(|tensor| tensor.clone());
                let tensors = handles.iter().map(|handle| given(handle).map(tensor).transpose());
                Value::OptionalTensors(tensors.collect::<Result<_>>()?)
            }
            tag::INT => Value::Int(of.integer),
            tag::FLOAT => Value::Float(of.number),
            tag::BOOLEAN => Value::Bool(of.integer != 0),
            tag::COMPLEX => Value::Scalar(Scalar::Complex(of.number, value.more.imaginary)),
            tag::INTS => Value::Ints(list(of.integers, count, "value")?.to_vec()),
            tag::FLOATS => Value::Floats(list(of.numbers, count, "value")?.to_vec()),
            tag::BOOLEANS => {
                Value::Bools(list(of.bytes, count, "value")?.iter().map(|byte| *byte != 0).collect())
            }
            tag::STRING => Value::Str(string(of.string, count)?),
            tag::SCALAR_TYPE => Value::ScalarType(scalar_type(of.integer)?),
            tag::DEVICE => Value::Device(device(of.device)?),
            tag::LAYOUT if of.integer == 0 => Value::Layout(Layout::Strided),
            tag::MEMORY_FORMAT => Value::MemoryFormat(memory_format(of.integer)?),
            tag::GENERATOR => match of.generator.cast::<Generator>().as_ref() {
                Some(generator) => Value::Generator(generator.clone()),
                None => Value::None,
            },
            tag::VALUES => {
                let values = list(of.values, count, "value")?;
                Value::Scalars(values.iter().map(|value| number(value)).collect::<Result<_>>()?)
            }
            other => bail!(InvalidArgument, "expected a value with a known tag but got the tag {other}"),
        })
    }
}

/// # Safety
/// - There are `count` bytes at `first`.
unsafe fn string(first: *const c_char, count: usize) -> Result<String> {
    // SAFETY: as above.
    let bytes = unsafe { list(first.cast::<u8>(), count, "value") }?.to_vec();
    String::from_utf8(bytes).map_err(|_| error!(InvalidArgument, "expected a string in UTF-8"))
}

/// # Safety
/// - (value) It holds what its tag says.
unsafe fn number(value: &FbValue) -> Result<Scalar> {
    // SAFETY: (value).
    match unsafe { read(value) }? {
        Value::Int(value) => Ok(value.into()),
        Value::Float(value) => Ok(value.into()),
        Value::Bool(value) => Ok(value.into()),
        Value::Scalar(value) => Ok(value),
        other => bail!(InvalidArgument, "expected a number in a list of numbers but got {other:?}"),
    }
}

fn memory_format(number: i64) -> Result<MemoryFormat> {
    const FORMATS: [MemoryFormat; 4] = [
        MemoryFormat::Contiguous,
        MemoryFormat::Preserve,
        MemoryFormat::ChannelsLast,
        MemoryFormat::ChannelsLast3d,
    ];
    FORMATS
        .into_iter()
        .find(|format| *format as i64 == number)
        .ok_or_else(|| error!(InvalidArgument, "expected a memory format, from 0 to 3, but got {number}"))
}

/// Frees what a value holds.
///
/// # Safety
/// - [`given`] made it, or it holds no list and no handle.
pub(crate) unsafe extern "C" fn value_free(value: *mut FbValue) {
    crate::entry::infallible((), || {
        // SAFETY: null, or the caller's value.
        let Some(value) = (unsafe { value.as_mut() }) else { return };
        let held = std::mem::replace(value, FbValue::NONE);
        // SAFETY: as above.
        unsafe { free(&held) };
    });
}

/// # Safety
/// - As for [`value_free`], and the value is not used after.
unsafe fn free(held: &FbValue) {
    /// # Safety
    /// - `leaked` made it from a list of that length.
    unsafe fn list_of<T>(first: *const T, count: usize) -> Box<[T]> {
        // SAFETY: as above.
        unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first.cast_mut(), count)) }
    }
    // SAFETY: the tag says which member was written, and `given` leaked it.
    unsafe {
        let (of, count) = (held.of, held.more.count);
        match held.tag {
            tag::TENSOR => release(of.tensor),
            tag::TENSORS | tag::OPTIONAL_TENSORS => {
                let handles = list_of(of.tensors, count);
                handles.iter().filter(|handle| !handle.is_null()).for_each(|handle| release(*handle));
            }
            tag::INTS => drop(list_of(of.integers, count)),
            tag::FLOATS => drop(list_of(of.numbers, count)),
            tag::BOOLEANS | tag::STRING => drop(list_of(of.bytes, count)),
            tag::VALUES => drop(list_of(of.values, count)),
            tag::GENERATOR => drop(Box::from_raw(of.generator.cast::<Generator>())),
            _ => {}
        }
    }
}
