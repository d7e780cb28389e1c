//! Sparse tensors: what the module `flambeau.sparse` and methods of tensors are made of.

use crate::arguments::{dtype_of, scalar_of};
use crate::call::detached;
use crate::errors::raise;
use crate::tensor::{PyTensor, wrap};
use crate::types::PyLayout;
use flambeau_core::{Result, bail};
use flambeau_ops::Tensor;
use flambeau_sparse as sparse;
use pyo3::prelude::*;

type Object<'py> = Bound<'py, PyAny>;
type TensorObject<'py> = Bound<'py, PyTensor>;

/// The object of a result that is computed without the interpreter's lock.
fn computed<'py>(py: Python<'py>, work: impl FnOnce() -> Result<Tensor> + Send) -> PyResult<Object<'py>> {
    wrap(py, detached(py, work).map_err(raise)?)
}

#[pyfunction]
#[pyo3(signature = (indices, values, size = None, is_coalesced = None))]
fn _sparse_coo_tensor<'py>(
    py: Python<'py>,
    indices: &TensorObject<'py>,
    values: &TensorObject<'py>,
    size: Option<Vec<i64>>,
    is_coalesced: Option<bool>,
) -> PyResult<Object<'py>> {
    let (indices, values) = (indices.get().tensor(), values.get().tensor());
    computed(py, || sparse::sparse_coo_tensor(indices, values, size.as_deref(), is_coalesced))
}

#[pyfunction]
#[pyo3(signature = (layout, compressed, plain, values, size = None))]
fn _sparse_compressed_tensor<'py>(
    py: Python<'py>,
    layout: &Bound<'py, PyLayout>,
    compressed: &TensorObject<'py>,
    plain: &TensorObject<'py>,
    values: &TensorObject<'py>,
    size: Option<Vec<i64>>,
) -> PyResult<Object<'py>> {
    let [compressed, plain, values] = [compressed, plain, values].map(|object| object.get().tensor());
    let layout = layout.get().0;
    computed(py, || sparse::sparse_compressed_tensor(layout, compressed, plain, values, size.as_deref()))
}

/// Checks the parts of a sparse tensor as constructors do.
#[pyfunction]
fn _sparse_validate(py: Python<'_>, tensor: &TensorObject<'_>) -> PyResult<()> {
    let tensor = tensor.get().tensor();
    detached(py, || sparse::validate(tensor)).map_err(raise)
}

#[pyfunction]
fn _sparse_to_dense<'py>(py: Python<'py>, tensor: &TensorObject<'py>) -> PyResult<Object<'py>> {
    let tensor = tensor.get().tensor();
    computed(py, || sparse::to_dense(tensor))
}

#[pyfunction]
#[pyo3(signature = (tensor, sparse_dim = None))]
fn _sparse_to_coo<'py>(
    py: Python<'py>,
    tensor: &TensorObject<'py>,
    sparse_dim: Option<i64>,
) -> PyResult<Object<'py>> {
    let tensor = tensor.get().tensor();
    computed(py, || sparse::to_sparse_coo(tensor, sparse_dim))
}

#[pyfunction]
#[pyo3(signature = (tensor, layout, blocksize = None, dense_dim = None))]
fn _sparse_to<'py>(
    py: Python<'py>,
    tensor: &TensorObject<'py>,
    layout: &Bound<'py, PyLayout>,
    blocksize: Option<[i64; 2]>,
    dense_dim: Option<i64>,
) -> PyResult<Object<'py>> {
    let (tensor, layout) = (tensor.get().tensor(), layout.get().0);
    computed(py, || sparse::to_sparse(tensor, layout, blocksize, dense_dim))
}

#[pyfunction]
fn _sparse_coalesce<'py>(py: Python<'py>, tensor: &TensorObject<'py>) -> PyResult<Object<'py>> {
    let tensor = tensor.get().tensor();
    computed(py, || sparse::coalesce(tensor))
}

/// A part of a sparse tensor by the name of the method that returns it.
#[pyfunction]
fn _sparse_part<'py>(py: Python<'py>, tensor: &TensorObject<'py>, name: &str) -> PyResult<Object<'py>> {
    let tensor = tensor.get().tensor();
    let part = match name {
        "indices" => sparse::indices(tensor),
        "_indices" => sparse::raw_indices(tensor),
        "values" => sparse::values(tensor),
        "_values" => sparse::raw_values(tensor),
        "crow_indices" => sparse::crow_indices(tensor),
        "col_indices" => sparse::col_indices(tensor),
        "ccol_indices" => sparse::ccol_indices(tensor),
        "row_indices" => sparse::row_indices(tensor),
        _ => no_part(name),
    };
    wrap(py, part.map_err(raise)?)
}

fn no_part<T>(name: &str) -> Result<T> {
    bail!(InvalidArgument, "a sparse tensor has no part {name:?}")
}

/// The numbers of sparse and of dense dimensions.
#[pyfunction]
fn _sparse_dims(tensor: &TensorObject<'_>) -> (i64, i64) {
    let tensor = tensor.get().tensor();
    (sparse::sparse_dim(tensor), sparse::dense_dim(tensor))
}

#[pyfunction]
fn _sparse_nnz(tensor: &TensorObject<'_>) -> PyResult<i64> {
    sparse::nnz(tensor.get().tensor()).map_err(raise)
}

#[pyfunction]
fn _sparse_is_coalesced(tensor: &TensorObject<'_>) -> PyResult<bool> {
    sparse::is_coalesced(tensor.get().tensor()).map_err(raise)
}

#[pyfunction]
fn _sparse_mask<'py>(
    py: Python<'py>,
    tensor: &TensorObject<'py>,
    mask: &TensorObject<'py>,
) -> PyResult<Object<'py>> {
    let (tensor, mask) = (tensor.get().tensor(), mask.get().tensor());
    computed(py, || sparse::sparse_mask(tensor, mask))
}

#[pyfunction]
fn _sparse_resize_(
    tensor: &TensorObject<'_>,
    size: Vec<i64>,
    sparse_dim: i64,
    dense_dim: i64,
) -> PyResult<()> {
    sparse::sparse_resize_(tensor.get().tensor(), &size, sparse_dim, dense_dim).map(drop).map_err(raise)
}

#[pyfunction]
fn _sparse_mm_reduce<'py>(
    py: Python<'py>,
    mat1: &TensorObject<'py>,
    mat2: &TensorObject<'py>,
    reduce: &str,
) -> PyResult<Object<'py>> {
    let (mat1, mat2) = (mat1.get().tensor(), mat2.get().tensor());
    computed(py, || sparse::mm_reduce(mat1, mat2, sparse::Reduction::named(reduce)?))
}

#[pyfunction]
fn _sparse_sampled_addmm<'py>(
    py: Python<'py>,
    input: &TensorObject<'py>,
    mat1: &TensorObject<'py>,
    mat2: &TensorObject<'py>,
    beta: &Object<'py>,
    alpha: &Object<'py>,
) -> PyResult<Object<'py>> {
    let [input, mat1, mat2] = [input, mat1, mat2].map(|object| object.get().tensor());
    let (beta, alpha) = (scalar_of(beta)?, scalar_of(alpha)?);
    computed(py, || sparse::sampled_addmm(input, mat1, mat2, beta, alpha))
}

#[pyfunction]
#[pyo3(signature = (input, dim = None, dtype = None))]
fn _sparse_sum<'py>(
    py: Python<'py>,
    input: &TensorObject<'py>,
    dim: Option<Vec<i64>>,
    dtype: Option<&Object<'py>>,
) -> PyResult<Object<'py>> {
    let (input, dtype) = (input.get().tensor(), dtype.map(dtype_of).transpose()?);
    computed(py, || match &dim {
        None => sparse::sum(input, dtype),
        Some(dim) => sparse::sum_dim(input, dim, false, dtype),
    })
}

#[pyfunction]
#[pyo3(signature = (input, dim, dtype, is_log))]
fn _sparse_softmax<'py>(
    py: Python<'py>,
    input: &TensorObject<'py>,
    dim: i64,
    dtype: Option<&Object<'py>>,
    is_log: bool,
) -> PyResult<Object<'py>> {
    let (input, dtype) = (input.get().tensor(), dtype.map(dtype_of).transpose()?);
    computed(py, || match is_log {
        true => sparse::log_softmax(input, dim, dtype),
        false => sparse::softmax(input, dim, dtype),
    })
}

#[pyfunction]
#[pyo3(signature = (diagonals, offsets, shape, layout = None))]
fn _sparse_spdiags<'py>(
    py: Python<'py>,
    diagonals: &TensorObject<'py>,
    offsets: &TensorObject<'py>,
    shape: Vec<i64>,
    layout: Option<&Bound<'py, PyLayout>>,
) -> PyResult<Object<'py>> {
    let (diagonals, offsets) = (diagonals.get().tensor(), offsets.get().tensor());
    let layout = layout.map(|layout| layout.get().0);
    computed(py, || sparse::spdiags(diagonals, offsets, &shape, layout))
}

pub(crate) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_sparse_coo_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_compressed_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_validate, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_to_dense, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_to_coo, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_to, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_coalesce, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_part, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_dims, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_nnz, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_is_coalesced, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_mask, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_resize_, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_mm_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_sampled_addmm, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_sum, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_softmax, module)?)?;
    module.add_function(wrap_pyfunction!(_sparse_spdiags, module)?)
}
