//! From the interpreter's calls to signatures and back: entry points, the lock, results as Python objects.
//!
//! The interpreter calls a C function for each name (`METH_FASTCALL`), which passes the arguments to the parser. Panics become
//! exceptions here. The interpreter's lock is released during calls with large tensors and during every backward pass. An exception that
//! a hook raises passes through the engine as the source of an `Error`, and is raised again unchanged.

#![expect(unsafe_code, reason = "the interpreter hands over raw pointers to the arguments")]

use crate::arguments::{Arguments, Given, Signature, dispatch};
use crate::binding::Binding;
use crate::cycles;
use crate::errors::raise;
use crate::objects;
use crate::return_types::Names;
use crate::tensor::{PyTensor, wrap};
use flambeau_autograd::Autograd;
use flambeau_core::{Error, ErrorKind, Result, Scalar, blocking};
use flambeau_ops::{Tensor, scratch};
use pyo3::BoundObject;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyTuple, PyType};
use std::any::Any;
use std::cell::Cell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{mem, ptr, slice, thread};

/// The entry point of a name, which is made here since C has no closures.
macro_rules! entry {
    ($signature:ident) => {{
        unsafe extern "C" fn entry(
            receiver: *mut pyo3::ffi::PyObject,
            arguments: *const *mut pyo3::ffi::PyObject,
            count: pyo3::ffi::Py_ssize_t,
            names: *mut pyo3::ffi::PyObject,
        ) -> *mut pyo3::ffi::PyObject {
            // SAFETY: (called) the interpreter calls it.
            unsafe { $crate::call::enter(&$signature, receiver, arguments, count, names) }
        }
        entry
    }};
}

pub(crate) use entry;

/// One call from the interpreter.
///
/// # Safety
/// - (called) The arguments are those of a call with `METH_FASTCALL | METH_KEYWORDS`, the lock is held, and `receiver` is null
///   or an object.
// One copy: every name has an entry point of its own, which only jumps here.
#[inline(never)]
pub(crate) unsafe fn enter(
    signature: &'static Signature,
    receiver: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: (called).
    let py = unsafe { Python::assume_attached() };
    // SAFETY: (called): `count` positional values, then one for each name. `Bound` has the layout of a pointer to an object.
    let (positional, named, names, receiver) = unsafe {
        let names = reference::<PyTuple>(&names);
        let named = names.map_or(0, |names| names.len());
        let positional = values(arguments, count as usize);
        let named = values(arguments.wrapping_add(count as usize), named);
        (positional, named, names, reference::<PyAny>(&receiver))
    };
    let given = Given { py, receiver, positional, named, names };
    let _lock = Lock::says(true);
    guarded(py, || dispatch(signature, &given))
}

/// A pointer to an object as a reference to it; `None` for null.
///
/// # Safety
/// - The pointer is null or to an object of class `T`, which lives as long as the reference.
unsafe fn reference<'py, T>(pointer: &*mut ffi::PyObject) -> Option<&Bound<'py, T>> {
    // SAFETY: as above; `Bound` is transparent.
    (!pointer.is_null()).then(|| unsafe { &*ptr::from_ref(pointer).cast() })
}

/// # Safety
/// - `count` pointers to objects that live as long as the slice.
unsafe fn values<'a, 'py>(first: *const *mut ffi::PyObject, count: usize) -> &'a [Bound<'py, PyAny>] {
    // SAFETY: as above; `Bound` is transparent.
    if count == 0 { &[] } else { unsafe { slice::from_raw_parts(first.cast(), count) } }
}

/// The result of a call for the interpreter: an object, or null and an exception. A panic becomes an exception too.
#[inline]
fn guarded<'py>(py: Python<'py>, call: impl FnOnce() -> PyResult<Bound<'py, PyAny>>) -> *mut ffi::PyObject {
    let call = || {
        let guard = ParkOnUnwind;
        let called = call();
        mem::forget(guard);
        called
    };
    let raised = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(object)) => return object.into_ptr(),
        Ok(Err(raised)) => raised,
        Err(panic) => raise(of_panic(&*panic)),
    };
    // PyO3 creates exceptions other than those of `errors` lazily, here, and there may be no memory for them.
    if catch_unwind(AssertUnwindSafe(|| raised.restore(py))).is_err() {
        // SAFETY: the lock is held; the interpreter preallocates this exception.
        unsafe { ffi::PyErr_NoMemory() };
    }
    ptr::null_mut()
}

/// Puts functions into `module` and the modules below it, and methods on `Tensor`.
pub(crate) fn install(module: &Bound<'_, PyModule>, bindings: &'static [Binding]) -> PyResult<()> {
    for binding in bindings {
        if binding.is_function() {
            namespace(module, binding.module)?
                .add(binding.signature.name, function(module.py(), binding)?)?;
        }
        if binding.is_method() {
            let class = PyTensor::type_object(module.py());
            class.setattr(binding.signature.name, method(class, binding)?)?;
        }
    }
    Ok(())
}

/// A function, whose calls have null for the receiver.
fn function<'py>(py: Python<'py>, binding: &Binding) -> PyResult<Bound<'py, PyAny>> {
    let definition = definition(binding, false)?;
    // SAFETY: the definition lives for ever, and its entry point takes what its flags say.
    unsafe {
        let function = ffi::PyCFunction_NewEx(definition, ptr::null_mut(), ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, function)
    }
}

fn method<'py>(class: &Bound<'py, PyType>, binding: &Binding) -> PyResult<Bound<'py, PyAny>> {
    let definition = definition(binding, true)?;
    // SAFETY: as above.
    unsafe {
        let descriptor = ffi::PyDescr_NewMethod(class.as_type_ptr(), definition);
        Bound::from_owned_ptr_or_err(class.py(), descriptor)
    }
}

/// A submodule, which is created if it does not exist yet; the module itself for the empty name.
fn namespace<'py>(module: &Bound<'py, PyModule>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    if name.is_empty() {
        return Ok(module.clone());
    }
    if let Some(below) = module.dict().get_item(name)? {
        return Ok(below.cast_into::<PyModule>()?);
    }
    let below = PyModule::new(module.py(), name)?;
    module.add(name, &below)?;
    Ok(below)
}

/// The interpreter keeps the definition for as long as it runs.
fn definition(binding: &Binding, method: bool) -> PyResult<*mut ffi::PyMethodDef> {
    let text =
        |text: Vec<u8>| CString::new(text).map_err(|_| PyRuntimeError::new_err("a name with a zero byte"));
    let definition = ffi::PyMethodDef {
        ml_name: text(binding.signature.name.into())?.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: binding.entry },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        ml_doc: text(binding.text(method).into())?.into_raw(),
    };
    Ok(Box::into_raw(Box::new(definition)))
}

impl<'py> Arguments<'_, 'py> {
    /// Runs an operator, without the lock if the tensors are large, and wraps what it returns.
    #[inline]
    pub(crate) fn returns<R: IntoPython + Send>(
        &self,
        operator: impl FnOnce() -> Result<R> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(operator)?.into_python(self.py)
    }

    /// The same for an operator that only makes a view, for which the lock is not released.
    #[inline]
    pub(crate) fn views<R: IntoPython + Send>(
        &self,
        operator: impl FnOnce() -> Result<R> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        run(self.py, false, operator)?.into_python(self.py)
    }

    /// Runs an in-place operator, and returns the object of argument `index`, which it wrote.
    #[inline]
    pub(crate) fn writes(
        &self,
        index: usize,
        operator: impl FnOnce() -> Result<()> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.run(operator)?;
        self.value(index).cloned()
    }

    /// Runs an operator that makes a tensor, and sets its `requires_grad` from argument `index`.
    pub(crate) fn makes(
        &self,
        index: usize,
        operator: impl FnOnce() -> Result<Tensor> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let made = self.run(operator)?;
        if self.given(index, Arguments::boolean)? == Some(true) {
            made.requires_grad_(true).map_err(raise)?;
        }
        made.into_python(self.py)
    }

    /// Runs an operator with several results, which have names.
    pub(crate) fn returns_named<R: IntoPython + Send>(
        &self,
        names: &'static Names,
        operator: impl FnOnce() -> Result<R> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        names.give(self.run(operator)?.into_python(self.py)?)
    }

    #[inline]
    fn run<R: Send>(&self, operator: impl FnOnce() -> Result<R> + Send) -> PyResult<R> {
        run(self.py, self.is_large(), operator)
    }
}

/// Runs what may take long, without the interpreter's lock if `unlocked`; a panic is an error like others.
#[inline]
pub(crate) fn run<R: Send>(
    py: Python<'_>,
    unlocked: bool,
    operator: impl FnOnce() -> Result<R> + Send,
) -> PyResult<R> {
    let result = if unlocked { detached(py, operator) } else { caught(operator) };
    result.map_err(raise)
}

/// [`run`] without the lock, for work that borrows no tensor from Python objects.
pub(crate) fn run_owning<R: Send>(
    py: Python<'_>,
    operator: impl FnOnce() -> Result<R> + Send,
) -> PyResult<R> {
    detached_owning(py, operator).map_err(raise)
}

/// Runs without the interpreter's lock; a panic is an error like others.
#[inline]
pub(crate) fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    cycles::while_borrowing(|| detached_owning(py, work))
}

/// The same for work that owns references to all its tensors, and borrows none from Python objects.
#[inline]
pub(crate) fn detached_owning<R: Send>(py: Python<'_>, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    let guard = ParkOnUnwind;
    let result = py.detach(|| {
        let _lock = Lock::says(false);
        caught(work)
    });
    mem::forget(guard);
    result
}

thread_local! {
    /// Whether this thread is in a call from the interpreter with its lock. `PyGILState_Check` does not tell: it returns 1 on
    /// every thread once a second interpreter exists.
    static HAS_LOCK: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether this thread has the interpreter's lock, until it is dropped.
struct Lock {
    before: bool,
}

impl Lock {
    #[inline]
    fn says(now: bool) -> Self {
        Lock { before: HAS_LOCK.with(|has_lock| has_lock.replace(now)) }
    }
}

impl Drop for Lock {
    #[inline]
    fn drop(&mut self) {
        HAS_LOCK.with(|has_lock| has_lock.set(self.before));
    }
}

/// Makes every wait for a storage's guard release the interpreter's lock, which the thread that holds the guard may need before it
/// releases it.
pub(crate) fn release_lock_while_waiting() {
    blocking::set_while_waiting(|wait| {
        if !HAS_LOCK.with(Cell::get) {
            return wait();
        }
        // SAFETY: the lock is held.
        let py = unsafe { Python::assume_attached() };
        let wait = OfThisThread(wait);
        // It has no error.
        let _ = detached(py, || {
            wait.run();
            Ok(())
        });
    });
}

/// A closure that is only called on this thread, passed where a `Send` one is required.
struct OfThisThread<'w>(&'w mut dyn FnMut());

// SAFETY: `detached` runs what it is given on the thread that called it.
unsafe impl Send for OfThisThread<'_> {}

impl OfThisThread<'_> {
    fn run(self) {
        (self.0)();
    }
}

#[inline]
fn caught<R>(work: impl FnOnce() -> Result<R>) -> Result<R> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// Parks a thread that the C library unwinds by `pthread_exit`: before Python 3.14 a daemon thread that waits for the interpreter's
/// lock while the interpreter ends. Such unwinding through a frame of Rust aborts the process, so the thread is parked for ever in
/// this destructor instead. Calls that return `forget` it, and panics of Rust pass through.
struct ParkOnUnwind;

impl Drop for ParkOnUnwind {
    fn drop(&mut self) {
        while !thread::panicking() {
            thread::park();
        }
    }
}

/// `PyObject_Call`, in which a thread may end.
type Call = unsafe extern "C-unwind" fn(
    callable: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    named: *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The function, hidden from the optimizer: a second declaration of it would be merged with the one of PyO3, which says that nothing
/// unwinds, and the destructors of frames above would be left out.
#[inline(always)]
fn object_call() -> Call {
    let function: unsafe extern "C" fn(_, _, _) -> _ = ffi::PyObject_Call;
    // SAFETY: the types differ only in whether the function may unwind.
    unsafe { mem::transmute(std::hint::black_box(function)) }
}

/// Calls Python code of the program: hooks, functions, classes. All such calls go through here, since a thread may end in them.
pub(crate) fn call<'py, A>(callable: &Bound<'py, PyAny>, arguments: A) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Error: Into<PyErr>>,
{
    call_named(callable, arguments, None)
}

/// The same with arguments by name.
pub(crate) fn call_named<'py, A>(
    callable: &Bound<'py, PyAny>,
    arguments: A,
    named: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>>
where
    A: IntoPyObject<'py, Target = PyTuple, Error: Into<PyErr>>,
{
    let py = callable.py();
    let arguments = arguments.into_pyobject(py).map_err(Into::into)?;
    let named = named.map_or(ptr::null_mut(), |named| named.as_ptr());
    let guard = ParkOnUnwind;
    // SAFETY: the lock is held, and all three live; the returned reference is owned.
    let result = unsafe { object_call()(callable.as_ptr(), arguments.as_borrowed().as_ptr(), named) };
    mem::forget(guard);
    // SAFETY: as above; null comes with an exception.
    unsafe { Bound::from_owned_ptr_or_err(py, result) }
}

/// Panics without the lock, to see that this is an error: for tests.
#[cfg(debug_assertions)]
#[pyfunction(name = "__panic_detached")]
pub(crate) fn panic_detached(py: Python<'_>) -> PyResult<()> {
    run(py, true, || std::panic::resume_unwind(Box::new("on purpose")))
}

/// The text of PyO3's panic where the interpreter returns no object.
const NO_OBJECT: &str = "Python API call failed";

#[cold]
fn of_panic(panic: &(dyn Any + Send)) -> Error {
    if let Some(error) = scratch::error_of(panic) {
        return error;
    }
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    if message == NO_OBJECT {
        return Error::new(ErrorKind::OutOfMemory, "the interpreter has no memory for an object");
    }
    Error::new(ErrorKind::Internal, format!("internal error, please report it: {message}"))
}

/// What operators return, as Python objects.
pub(crate) trait IntoPython {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>>;
}

impl IntoPython for Tensor {
    #[inline]
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        wrap(py, self)
    }
}

impl IntoPython for Vec<Tensor> {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (count, mut tensors) = (self.len(), self.into_iter());
        let next = |_| tensors.next().map_or_else(|| Ok(py.None().into_bound(py)), |tensor| wrap(py, tensor));
        Ok(objects::tuple(py, count, next)?.into_any())
    }
}

impl IntoPython for bool {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(PyBool::new(py, self).to_owned().into_any())
    }
}

impl IntoPython for Scalar {
    fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Scalar::Bool(value) => value.into_python(py),
            Scalar::Int(value) => objects::int(py, value),
            Scalar::UInt(value) => objects::unsigned_int(py, value),
            Scalar::Complex(re, im) => objects::complex(py, re, im),
            other => objects::float(py, other.to_f64()),
        }
    }
}

macro_rules! tuples {
    ($($name:ident)+) => {
        impl<$($name: IntoPython),+> IntoPython for ($($name,)+) {
            #[expect(non_snake_case, reason = "the names of types serve for values")]
            fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
                let ($($name,)+) = self;
                Ok(PyTuple::new(py, [$($name.into_python(py)?),+])?.into_any())
            }
        }
    };
}

tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
