//! `x.data = y`: replaces the elements of a tensor, which keeps its history, its gradient and its hooks.

use super::{PyTensor, without_history};
use crate::arguments::Given;
use crate::errors::raise;
use flambeau_autograd::Autograd;
use flambeau_core::{Geometry, IntrusivePtr, Storage, shape, storage_guards};
use flambeau_ops::{Tensor, ops};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the program has read `x.data`.
static ANY_FRESH: AtomicBool = AtomicBool::new(false);

/// The object that a method writes, if the writes do not count.
#[inline]
pub(crate) fn uncounted<'a>(name: &str, given: &Given<'a, '_>) -> Option<&'a PyTensor> {
    if !ANY_FRESH.load(Ordering::Relaxed) || !name.ends_with('_') {
        return None;
    }
    let object = given.receiver?.cast::<PyTensor>().ok()?.get();
    (object.is_fresh() && !is_recorded(given.positional.iter().chain(given.named))).then_some(object)
}

/// Whether a write with these operands is recorded. Its node may save what it overwrites, so that it has to count.
fn is_recorded<'a, 'py: 'a>(operands: impl IntoIterator<Item = &'a Bound<'py, PyAny>>) -> bool {
    let needs_grad = |value: &Bound<'py, PyAny>| {
        value.cast::<PyTensor>().is_ok_and(|object| object.get().peek().requires_grad())
    };
    flambeau_autograd::is_grad_enabled() && operands.into_iter().any(needs_grad)
}

impl PyTensor {
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh.load(Ordering::Relaxed)
    }

    /// Runs a write through this object with another operand. In PyTorch `x.data` has a version counter of its own, so that saved
    /// variables of `x` do not notice such a write. Here that holds as long as nothing else was done with the object: then no node can
    /// have saved it.
    pub(crate) fn write<R>(
        &self,
        operand: &Bound<'_, PyAny>,
        write: impl FnOnce() -> PyResult<R>,
    ) -> PyResult<R> {
        if self.is_fresh() && !is_recorded([operand]) {
            return self.write_uncounted(write);
        }
        self.is_fresh.store(false, Ordering::Relaxed);
        write()
    }

    /// Runs a write of a fresh object that is not recorded.
    pub(crate) fn write_uncounted<R>(&self, write: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        let result = storage_guards::uncounted(self.peek().storage(), write);
        // Later writes of a tensor that requires a gradient are recorded.
        self.is_fresh.store(!self.peek().requires_grad(), Ordering::Relaxed);
        result
    }
}

#[pymethods]
impl PyTensor {
    /// The same elements without history. Writes through the object do not count as writes of `self`, until it is used otherwise.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let object = super::wrap(py, without_history(self.tensor())?)?;
        if let Ok(made) = object.cast::<PyTensor>() {
            ANY_FRESH.store(true, Ordering::Relaxed);
            made.get().is_fresh.store(true, Ordering::Relaxed);
        }
        Ok(object)
    }

    /// A tensor never changes its storage. So from another view of the same storage only the geometry is taken over; elements of
    /// another storage are moved into this one, provided that no other tensor shares either storage and could observe that.
    #[setter(data)]
    fn set_data(&self, data: &Bound<'_, PyTensor>) -> PyResult<()> {
        let (this, data) = (self.tensor(), data.get().tensor());
        if this.dtype() != data.dtype() || this.device() != data.device() {
            return refuse(format!(
                "attempted to set `data` to {} on {}, but the tensor has {} on {}: its type and device never change",
                data.dtype(),
                data.device(),
                this.dtype(),
                this.device()
            ));
        }
        if Storage::ptr_eq(this.storage(), data.storage()) {
            return this.impl_().set_geometry(data.geometry().clone()).map_err(raise);
        }
        for (which, tensor) in [("the tensor", this), ("the new data", data)] {
            if is_shared(tensor) {
                return refuse(format!(
                    "cannot set `data`: {which} shares its memory with another tensor, which would go on or begin to share. \
                     Use `x.data.copy_(y)` under `no_grad` to write the values"
                ));
            }
        }
        moved(this, data).map_err(raise)
    }
}

/// Whether another tensor shares the storage; the base of a view that nobody else holds does not count.
fn is_shared(tensor: &Tensor) -> bool {
    // Here and in the view.
    let alone = |base: Tensor| IntrusivePtr::strong_count(base.impl_()) == 2;
    tensor.storage().use_count() > 1 + usize::from(tensor.base().is_some_and(alone))
}

fn refuse(message: String) -> PyResult<()> {
    Err(PyRuntimeError::new_err(message))
}

/// Copies elements into the storage of `this`, in the order that they have.
fn moved(this: &Tensor, data: &Tensor) -> flambeau_core::Result<()> {
    let (sizes, strides) = (data.sizes(), data.strides());
    let geometry = match shape::has_internal_overlap(sizes, strides) {
        true => Geometry::contiguous(sizes)?,
        false => Geometry::strided(sizes, strides, 0)?,
    };
    let nbytes = geometry.nbytes(this.dtype())?;
    if nbytes > this.storage().nbytes() {
        this.storage().grow(nbytes)?;
    }
    this.impl_().set_geometry(geometry)?;
    let plain =
        |t: &Tensor| t.impl_().alias(t.sizes(), t.strides(), t.storage_offset()).map(Tensor::from_impl);
    ops::copy_(&plain(this)?, &plain(data)?, false)
}
