//! The argument parser: selects an overload from static tables as PyTorch does, and gives typed access to the arguments.
//!
//! As in PyTorch's `PythonArgParser`, an overload fits or not by the types alone: nothing raises meanwhile, and nothing is
//! converted before the overload is chosen.

mod accepts;
mod bind;
mod mismatch;
mod numbers_first;
mod signature;
mod values;

pub(crate) use accepts::{dtype_of_number, is_index, is_number, scalar_of};
pub(crate) use bind::{Arguments, Given};
pub(crate) use mismatch::type_name;
pub(crate) use signature::{
    Kind, Overload, Parameter, REQUIRES_GRAD, Signature, boolean, device, dtype, float, floats, generator,
    int, ints, layout, memory_format, optional_tensors, out, outs, scalar, scalars, string, tensor,
    tensor_or_number, tensors,
};
pub(crate) use values::{LARGE, device_of, dtype_of, ints_of};

use crate::overrides;
use crate::tensor::uncounted;
use pyo3::prelude::*;

/// Calls the first overload that fits.
#[inline]
pub(crate) fn dispatch<'py>(signature: &Signature, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    if overrides::has_overrides(given) {
        return overrides::call_override(signature, given);
    }
    match uncounted(signature.name, given) {
        Some(object) => object.write_uncounted(|| select(signature, given)),
        None => select(signature, given),
    }
}

#[inline]
fn select<'py>(signature: &Signature, given: &Given<'_, 'py>) -> PyResult<Bound<'py, PyAny>> {
    for overload in signature.overloads {
        let mut arguments = Arguments::new(given.py, overload.parameters);
        if arguments.bind(overload, given) {
            return (overload.call)(&arguments);
        }
    }
    if overrides::has_non_tensor_override(given) {
        return overrides::call_override(signature, given);
    }
    match numbers_first::call(signature, given) {
        Some(result) => result,
        None => Err(mismatch::error(signature, given)),
    }
}
