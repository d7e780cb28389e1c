//! Conversions between any two element types. Those from and to complex numbers convert parts by the conversions of real types.

mod steps;
mod stored;

use crate::dispatch_all_types;
use flambeau_core::{Result, ScalarType};
use steps::{Direct, Parts, RealPart, Step, ToBool, ToComplex};

/// Converts a number of dense elements from one type to another.
pub(crate) type Convert = unsafe fn(*const u8, *mut u8, usize);

/// What an element of a kernel stands for.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mapping {
    /// Its value.
    Value,
    /// Of an i64: its value modulo that of an unsigned type, in which results wrap before they are converted to the type of an output.
    Modulo(ScalarType),
    /// Of an i64: the u64 at the same position in the order of all. For formulas that only compare elements with each other.
    Order,
}

/// The conversion from memory to the elements of a kernel.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(super) fn from_memory(memory: ScalarType, kernel: ScalarType, mapping: Mapping) -> Result<Convert> {
    if mapping == Mapping::Order { stored::in_order(memory) } else { converter(memory, kernel) }
}

/// The conversion from the elements of a kernel to memory.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(super) fn to_memory(kernel: ScalarType, memory: ScalarType, mapping: Mapping) -> Result<Convert> {
    match (mapping, kernel) {
        (Mapping::Order, ScalarType::I64) => stored::out_of_order(memory),
        (Mapping::Modulo(dtype), ScalarType::I64) if dtype != memory => stored::modulo(dtype, memory),
        _ => converter(kernel, memory),
    }
}

/// The conversion between two types.
///
/// # Errors
/// `NotImplemented` for a type without storage.
pub(crate) fn converter(from: ScalarType, to: ScalarType) -> Result<Convert> {
    use ScalarType::{Complex64, Complex128};
    match (from, to) {
        _ if has_vectors(from) && has_vectors(to) => between_reals(from, to),
        (Complex64 | Complex128, Complex64 | Complex128) => between_complex(from.to_real(), to.to_real()),
        (_, Complex64 | Complex128) if has_vectors(from) => to_complex(from, to.to_real()),
        (Complex64 | Complex128, ScalarType::Bool) => to_bool(from.to_real()),
        (Complex64 | Complex128, _) if has_vectors(to) => real_part(from.to_real(), to),
        _ => stored::converter(from, to),
    }
}

/// A real type with vectors.
const fn has_vectors(dtype: ScalarType) -> bool {
    (dtype as u8) <= ScalarType::F64 as u8
}

fn between_reals(from: ScalarType, to: ScalarType) -> Result<Convert> {
    dispatch_all_types!(all, from, "conversion", F => {
        dispatch_all_types!(all, to, "conversion", T => Ok(Direct::<F, T>::run as Convert))
    })
}

/// Part by part.
fn between_complex(from: ScalarType, to: ScalarType) -> Result<Convert> {
    dispatch_all_types!(wide_floats, from, "conversion", F => {
        dispatch_all_types!(wide_floats, to, "conversion", T => Ok(Parts::<F, T>::run as Convert))
    })
}

/// Elements that are converted at a time where parts are gathered or scattered, or where there is a type between two others.
const BLOCK: usize = 256;

/// Real numbers to the type of the parts.
fn to_complex(from: ScalarType, part: ScalarType) -> Result<Convert> {
    dispatch_all_types!(all, from, "conversion", F => {
        dispatch_all_types!(wide_floats, part, "conversion", T => Ok(ToComplex::<F, T>::run as Convert))
    })
}

/// The real parts, converted.
fn real_part(part: ScalarType, to: ScalarType) -> Result<Convert> {
    dispatch_all_types!(wide_floats, part, "conversion", F => {
        dispatch_all_types!(all, to, "conversion", T => Ok(RealPart::<F, T>::run as Convert))
    })
}

/// Whether either part differs from 0.
fn to_bool(part: ScalarType) -> Result<Convert> {
    dispatch_all_types!(wide_floats, part, "conversion", F => Ok(ToBool::<F>::run as Convert))
}
