//! The table of functions.

use crate::{derivatives, dlpack, elements, entry, kernels, operators, runtime, tensors, values};
use flambeau_plugin::abi::{FbApi, VERSION};
use std::ptr;

/// The table that plug-ins get. Its members are declared in `flambeau_plugin::abi`, and explained in `flambeau.h`.
pub static TABLE: FbApi = FbApi {
    size: size_of::<FbApi>(),
    version: VERSION,
    reserved: 0,
    error_new: entry::error_new,
    error_kind: entry::error_kind,
    error_message: entry::error_message,
    error_free: entry::error_free,
    tensor_empty: tensors::tensor_empty,
    tensor_from_blob: tensors::tensor_from_blob,
    tensor_retain: tensors::tensor_retain,
    tensor_release: tensors::tensor_release,
    tensor_dim: tensors::tensor_dim,
    tensor_sizes: tensors::tensor_sizes,
    tensor_strides: tensors::tensor_strides,
    tensor_numel: tensors::tensor_numel,
    tensor_dtype: tensors::tensor_dtype,
    tensor_device: tensors::tensor_device,
    tensor_layout: tensors::tensor_layout,
    tensor_is_contiguous: tensors::tensor_is_contiguous,
    tensor_requires_grad: tensors::tensor_requires_grad,
    guard_acquire: elements::guard_acquire,
    guard_data: elements::guard_data,
    guard_release: elements::guard_release,
    operator_find: operators::operator_find,
    operator_name: operators::operator_name,
    operator_schema: operators::operator_schema,
    operator_call: operators::operator_call,
    value_free: values::value_free,
    define: operators::define,
    implement: kernels::implement,
    fallback: kernels::fallback,
    call_operator: kernels::call_operator,
    call_key: kernels::call_key,
    call_arguments: kernels::call_arguments,
    call_return: kernels::call_return,
    call_below: kernels::call_below,
    autograd: derivatives::autograd,
    setup_arguments: derivatives::setup_arguments,
    setup_results: derivatives::setup_results,
    setup_save: derivatives::setup_save,
    backward_arguments: derivatives::backward_arguments,
    backward_saved: derivatives::backward_saved,
    backward_gradients: derivatives::backward_gradients,
    backward_needs: derivatives::backward_needs,
    backward_set_gradient: derivatives::backward_set_gradient,
    parallel_for: runtime::parallel_for,
    num_threads: runtime::num_threads,
    log: runtime::log,
    dlpack_export: dlpack::dlpack_export,
    dlpack_import: dlpack::dlpack_import,
    tensor_grad: tensors::tensor_grad,
    tensor_set_requires_grad: tensors::tensor_set_requires_grad,
    tensor_geometry: tensors::tensor_geometry,
};

/// The table, for programs in C that link the library; null for a version that it does not have.
#[unsafe(no_mangle)]
pub extern "C" fn flambeau_api(version: u32) -> *const FbApi {
    if version == VERSION { &raw const TABLE } else { ptr::null() }
}
