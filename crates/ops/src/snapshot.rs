//! Operands whose geometry another thread may change during a call: the call works on aliases of them instead, which
//! nobody else has.
//!
//! A kernel on raw memory reads the geometry of its operands more than once: in its meta function, before its guards, and under them. A
//! tensor that was never given another geometry ([`was_resized`]) is the same each time, and [`with_guards`] refuses it if it was given
//! one meanwhile; one that was is read once, here, before the meta function. Iterators have a [`StridedView`] of each operand instead,
//! and need no alias.
//!
//! [`was_resized`]: flambeau_core::TensorImpl::was_resized
//! [`with_guards`]: crate::structured::with_guards
//! [`StridedView`]: flambeau_core::StridedView

use crate::Tensor;
use flambeau_core::{Result, ensure};

/// An argument that holds tensors: one, perhaps one, or a list.
pub trait Snapshot {
    /// The owned form.
    type Owned;

    /// Whether a tensor in it was ever given another geometry than it was made with.
    fn was_resized(&self) -> bool;

    /// Aliases of its tensors as they are now.
    fn snapshot(&self) -> Self::Owned;
}

/// Checks, under the guards of `tensors`, during which geometries cannot change, that none was changed since the call began.
///
/// # Errors
/// `Busy`.
#[inline]
pub(crate) fn ensure_unchanged(tensors: &[&Tensor]) -> Result<()> {
    ensure!(
        !tensors.iter().any(|tensor| tensor.was_resized()),
        Busy,
        "expected operands whose sizes stay as they are during the call but another thread has changed them"
    );
    Ok(())
}

impl Snapshot for Tensor {
    type Owned = Tensor;

    #[inline]
    fn was_resized(&self) -> bool {
        self.impl_().was_resized()
    }

    #[cold]
    fn snapshot(&self) -> Tensor {
        Tensor::from_impl(self.impl_().shallow_copy())
    }
}

impl Snapshot for Option<&Tensor> {
    type Owned = Option<Tensor>;

    #[inline]
    fn was_resized(&self) -> bool {
        self.is_some_and(Snapshot::was_resized)
    }

    #[cold]
    fn snapshot(&self) -> Option<Tensor> {
        self.map(Snapshot::snapshot)
    }
}

impl Snapshot for [Tensor] {
    type Owned = Vec<Tensor>;

    #[inline]
    fn was_resized(&self) -> bool {
        self.iter().any(Snapshot::was_resized)
    }

    #[cold]
    fn snapshot(&self) -> Vec<Tensor> {
        self.iter().map(Snapshot::snapshot).collect()
    }
}

impl Snapshot for [Option<Tensor>] {
    type Owned = Vec<Option<Tensor>>;

    #[inline]
    fn was_resized(&self) -> bool {
        self.iter().flatten().any(Snapshot::was_resized)
    }

    #[cold]
    fn snapshot(&self) -> Vec<Option<Tensor>> {
        self.iter().map(|tensor| tensor.as_ref().map(Snapshot::snapshot)).collect()
    }
}
