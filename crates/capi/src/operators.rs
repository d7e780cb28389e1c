//! Operators by name: to find, to call and to define.

use crate::entry::{fallible, text, write};
use crate::handles::{of_operator, operator};
use crate::plugins::origin;
use crate::values::{give_results, read_all};
use flambeau_core::ensure;
use flambeau_ops::registry;
use flambeau_plugin::abi::{FbError, FbOperator, FbValue};
use std::ffi::c_char;
use std::ptr;

pub(crate) unsafe extern "C" fn operator_find(
    name: *const c_char,
    out: *mut *mut FbOperator,
) -> *mut FbError {
    // SAFETY: a string and memory for the result, as `flambeau.h` demands them.
    fallible("operator_find", || unsafe {
        write(out, || registry::find(text(name, "name")?).map(of_operator))
    })
}

pub(crate) unsafe extern "C" fn operator_name(op: *const FbOperator) -> *const c_char {
    // SAFETY: a handle or null.
    unsafe { operator(op) }.map_or(ptr::null(), |handle| handle.name.as_ptr())
}

pub(crate) unsafe extern "C" fn operator_schema(op: *const FbOperator) -> *const c_char {
    // SAFETY: as above.
    unsafe { operator(op) }.map_or(ptr::null(), |handle| handle.schema.as_ptr())
}

pub(crate) unsafe extern "C" fn operator_call(
    op: *const FbOperator,
    arguments: *const FbValue,
    count: usize,
    results: *mut FbValue,
    capacity: usize,
    result_count: *mut usize,
) -> *mut FbError {
    fallible("operator_call", || {
        // SAFETY: a handle, and values as their tags say.
        let (op, arguments) = unsafe { (operator(op)?.operator, read_all(arguments, count)?) };
        let expected = op.arguments()?.len();
        ensure!(
            arguments.len() == expected,
            InvalidArgument(op.name()),
            "expected {expected} arguments but got {}",
            arguments.len()
        );
        let made = op.call_boxed(&arguments)?;
        // SAFETY: memory as `flambeau.h` demands it.
        unsafe { give_results(made, results, capacity, result_count) }
    })
}

pub(crate) unsafe extern "C" fn define(schema: *const c_char, out: *mut *mut FbOperator) -> *mut FbError {
    // SAFETY: a string and memory for the result.
    fallible("define", || unsafe {
        write(out, || registry::define_from(text(schema, "schema")?, &origin()).map(of_operator))
    })
}
