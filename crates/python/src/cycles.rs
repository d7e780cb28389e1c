//! Which references held by Rust Python's cyclic garbage collector visits, and when.
//!
//! The collector traverses an object's references twice, and takes for garbage what only references inside the cycle reach. So a
//! reference that was visited once must be visited until the collection ends. All visited references lie behind owners that only one
//! Python object reaches (see [`exclusive`](flambeau_autograd::exclusive)), which nobody can clone without the interpreter's lock,
//! except for calls that borrowed the object and run without the lock: while there are any, nothing is visited.

use crate::tensor::AttributeStore;
use flambeau_autograd::exclusive::{Owned, visit_exclusive};
use flambeau_autograd::graph::hooks::HookObject;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many Python objects Rust holds; if there are none, graphs need not be searched.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// How many calls run without the interpreter's lock on arguments that are borrowed from Python's objects.
static BORROWING: AtomicUsize = AtomicUsize::new(0);

/// Counts one object that Rust holds, until dropped.
pub(crate) struct Counted(());

impl Counted {
    pub(crate) fn new() -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An object that a hook, a function or a graph holds.
pub(crate) struct Object(Py<PyAny>, Counted);

impl Object {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Object(object, Counted::new())
    }
}

impl Deref for Object {
    type Target = Py<PyAny>;

    fn deref(&self) -> &Py<PyAny> {
        &self.0
    }
}

/// An object for a hook to hold: one reference, shared by the hook and the list of objects that hooks hold.
pub(crate) fn held(object: Py<PyAny>) -> (Arc<Object>, HookObject) {
    let object = Arc::new(Object::new(object));
    (Arc::clone(&object), object)
}

/// Runs a call on borrowed arguments that releases the interpreter's lock meanwhile. Called with the lock held.
pub(crate) fn while_borrowing<R>(call: impl FnOnce() -> R) -> R {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            BORROWING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    BORROWING.fetch_add(1, Ordering::Relaxed);
    let _ends = Ends;
    call()
}

/// Whether owners may be counted now. Changes only with the interpreter's lock held.
pub(crate) fn can_traverse() -> bool {
    BORROWING.load(Ordering::Relaxed) == 0
}

/// Whether Rust holds any object.
pub(crate) fn are_any_held() -> bool {
    HELD.load(Ordering::Relaxed) != 0
}

/// Visits the objects that are reachable through `root` alone; whether `root` is the only owner.
pub(crate) fn traverse(root: Owned<'_>, visit: &PyVisit<'_>) -> Result<bool, PyTraverseError> {
    let mut visited = Ok(());
    let alone = visit_exclusive(root, &mut |object| {
        if visited.is_ok() {
            visited = traverse_object(object, visit);
        }
    });
    visited.map(|()| alone)
}

fn traverse_object(object: &dyn Any, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
    if let Some(object) = object.downcast_ref::<Object>() {
        return visit.call(&object.0);
    }
    if let Some(object) = object.downcast_ref::<Py<PyAny>>() {
        return visit.call(object);
    }
    object.downcast_ref::<AttributeStore>().map_or(Ok(()), |store| store.traverse(visit))
}
