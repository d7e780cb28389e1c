//! Checkpoints that all ranks write.

use super::{PyProcessGroup, PyWork, TensorObject, Wrapped};
use crate::call::detached_owning;
use crate::errors::raise;
use flambeau_distributed::checkpoint::{self, Shard, ShardedState};
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A tensor of a checkpoint, or a part: name, elements, sizes of the whole, index of the first element.
type Part<'py> = (String, TensorObject<'py>, Vec<i64>, i64);

fn sharded(parts: &[Part<'_>]) -> PyResult<ShardedState> {
    let shard = |(name, tensor, sizes, start): &Part<'_>| {
        Ok((name.clone(), Shard::part(tensor.get().tensor(), sizes, *start).map_err(raise)?))
    };
    parts.iter().map(shard).collect()
}

/// Writes a checkpoint; with `background` it returns before it is written.
#[pyfunction]
fn _save_checkpoint(
    py: Python<'_>,
    group: &Bound<'_, PyProcessGroup>,
    folder: PathBuf,
    parts: Vec<Part<'_>>,
    notes: BTreeMap<String, String>,
    background: bool,
) -> PyResult<Option<PyWork>> {
    let (state, group) = (sharded(&parts)?, group.get().0.clone());
    let save = || match background {
        true => checkpoint::save_async(&group, folder, &state, &notes).map(Some),
        false => checkpoint::save(&group, folder, &state, &notes).map(|()| None),
    };
    Ok(detached_owning(py, save).map_err(raise)?.map(|work| PyWork(work, vec![])))
}

/// Fills tensors with what a checkpoint has, and returns its notes.
#[pyfunction]
fn _load_checkpoint(
    py: Python<'_>,
    folder: PathBuf,
    parts: Vec<Part<'_>>,
) -> PyResult<BTreeMap<String, String>> {
    let state = sharded(&parts)?;
    detached_owning(py, || checkpoint::load(folder, &state)).map_err(raise)
}

/// Tensors by their names, in the order of the file.
type Named = Vec<(String, Wrapped)>;

/// All tensors of a checkpoint by their names, and its notes.
#[pyfunction]
fn _load_whole_checkpoint(py: Python<'_>, folder: PathBuf) -> PyResult<(Named, BTreeMap<String, String>)> {
    let (state, notes) = detached_owning(py, || checkpoint::load_all(folder)).map_err(raise)?;
    Ok((state.into_iter().map(|(name, tensor)| (name, Wrapped(tensor))).collect(), notes))
}

pub(super) fn install(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_save_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(_load_checkpoint, module)?)?;
    module.add_function(wrap_pyfunction!(_load_whole_checkpoint, module)?)
}
