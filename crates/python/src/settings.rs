//! Seeds, threads, default types, and properties of dtypes.

use crate::arguments::{dtype_of, is_number, scalar_of};
use crate::errors::raise;
use crate::tensor::tensor_in;
use crate::types::{PyDtype, PyGenerator, dtype_object};
use flambeau_core::allocator::CpuAllocator;
use flambeau_core::{Generator, ScalarType, default_dtype, manual_seed, set_default_dtype};
use flambeau_ops::parallel;
use flambeau_ops::tensor::display::{PrintOptions, print_options, set_print_options};
use flambeau_ops::tensor_iterator::{result_type, result_type_of};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

/// Seeds the generators that operators use when none is given, those of all devices.
#[pyfunction(name = "manual_seed")]
fn seed_all(seed: i64) -> PyGenerator {
    manual_seed(seed as u64);
    PyGenerator(Generator::default_cpu().clone())
}

/// The seed last set.
#[pyfunction]
fn initial_seed() -> u64 {
    Generator::default_cpu().state().seed
}

/// How many threads an operator may use.
#[pyfunction]
fn get_num_threads() -> usize {
    parallel::num_threads()
}

#[pyfunction]
fn set_num_threads(count: usize) -> PyResult<()> {
    if count == 0 {
        return Err(PyRuntimeError::new_err("set_num_threads expects a positive integer"));
    }
    parallel::set_num_threads(count);
    Ok(())
}

#[pyfunction(name = "get_default_dtype")]
fn read_default_dtype(py: Python<'_>) -> PyResult<Bound<'_, PyDtype>> {
    dtype_object(py, default_dtype())
}

#[pyfunction(name = "set_default_dtype")]
fn write_default_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    set_default_dtype(dtype_of(dtype)?).map_err(|error| PyTypeError::new_err(error.message().to_owned()))
}

/// The type in which elements of both types can be added.
#[pyfunction]
fn promote_types<'py>(
    py: Python<'py>,
    type1: &Bound<'py, PyAny>,
    type2: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDtype>> {
    let (a, b) = (dtype_of(type1)?, dtype_of(type2)?);
    let promoted = a.promote(b).ok_or_else(|| PyRuntimeError::new_err(format!("{a} and {b} do not promote")));
    dtype_object(py, promoted?)
}

/// Whether a result of type `from` may be written into a tensor of type `to`.
#[pyfunction]
#[pyo3(signature = (from_, to))]
fn can_cast(from_: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(dtype_of(from_)?.can_cast(dtype_of(to)?))
}

/// The type of element that an operator on both gives.
#[pyfunction(name = "result_type")]
fn type_of_result<'py>(
    py: Python<'py>,
    tensor1: &Bound<'py, PyAny>,
    tensor2: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDtype>> {
    let dtype: ScalarType = match (tensor_in(tensor1), tensor_in(tensor2)) {
        (Some(a), Some(b)) => result_type([a, b]).map_err(raise)?,
        (Some(tensor), None) => result_type_of(tensor, number(tensor2)?).map_err(raise)?,
        (None, Some(tensor)) => result_type_of(tensor, number(tensor1)?).map_err(raise)?,
        (None, None) => of_numbers(number(tensor1)?, number(tensor2)?),
    };
    dtype_object(py, dtype)
}

fn of_numbers(a: flambeau_core::Scalar, b: flambeau_core::Scalar) -> ScalarType {
    if a.is_complex() || b.is_complex() {
        return default_dtype().to_complex();
    }
    if a.is_floating_point() || b.is_floating_point() {
        return default_dtype();
    }
    a.scalar_type().promote(b.scalar_type()).unwrap_or(ScalarType::I64)
}

fn number(value: &Bound<'_, PyAny>) -> PyResult<flambeau_core::Scalar> {
    if is_number(value) {
        scalar_of(value)
    } else {
        Err(PyTypeError::new_err("expected a Tensor or a number"))
    }
}

/// How tensors are printed.
#[pyfunction]
#[pyo3(signature = (precision = None, threshold = None, edgeitems = None, linewidth = None, profile = None, sci_mode = None))]
fn set_printoptions(
    precision: Option<usize>,
    threshold: Option<usize>,
    edgeitems: Option<usize>,
    linewidth: Option<usize>,
    profile: Option<&str>,
    sci_mode: Option<bool>,
) -> PyResult<()> {
    let before = match profile {
        None => print_options(),
        Some("default") => PrintOptions::default(),
        Some("short") => PrintOptions { precision: 2, edgeitems: 2, ..PrintOptions::default() },
        Some("full") => PrintOptions { threshold: usize::MAX, ..PrintOptions::default() },
        Some(other) => {
            return Err(PyValueError::new_err(format!("expected default, short or full but got '{other}'")));
        }
    };
    set_print_options(PrintOptions {
        precision: precision.unwrap_or(before.precision),
        threshold: threshold.unwrap_or(before.threshold),
        edgeitems: edgeitems.unwrap_or(before.edgeitems),
        linewidth: linewidth.unwrap_or(before.linewidth),
        sci_mode,
    });
    Ok(())
}

#[pyfunction]
fn is_tensor(obj: &Bound<'_, PyAny>) -> bool {
    tensor_in(obj).is_some()
}

/// Keeps at most so many bytes of freed blocks; tools that look for use after free want 0.
#[pyfunction]
fn _set_cache_limit(bytes: usize) {
    CpuAllocator::set_cache_limit(bytes);
}

/// Puts the functions into the module.
pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(seed_all, module)?)?;
    module.add_function(wrap_pyfunction!(initial_seed, module)?)?;
    module.add_function(wrap_pyfunction!(get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(read_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(write_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(promote_types, module)?)?;
    module.add_function(wrap_pyfunction!(can_cast, module)?)?;
    module.add_function(wrap_pyfunction!(type_of_result, module)?)?;
    module.add_function(wrap_pyfunction!(set_printoptions, module)?)?;
    module.add_function(wrap_pyfunction!(is_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_set_cache_limit, module)?)
}
