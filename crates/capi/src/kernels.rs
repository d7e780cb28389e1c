//! Kernels of plug-ins: boxed kernels that call a function of C, and what such a function does with its call.

use crate::entry::{c_string, fallible, infallible, taken, text};
use crate::handles::{of_operator, operator};
use crate::plugins::origin;
use crate::values::{Passed, give_results, read_all};
use flambeau_core::{DeviceType, DispatchKey, DispatchKeySet, Result, ensure, error};
use flambeau_ops::dispatch::{BoxedKernel, Call, Value, has_fallback, register_fallback};
use flambeau_ops::registry;
use flambeau_plugin::abi::{FbCall, FbDrop, FbError, FbKernel, FbOperator, FbValue, OVERRIDE};
use parking_lot::Mutex;
use std::ffi::{CString, c_char, c_void};
use std::ptr;

/// What a plug-in wants back with each call of its function.
pub(crate) struct Context {
    data: *mut c_void,
    drop: Option<FbDrop>,
}

// SAFETY: `flambeau.h` says that functions of a plug-in may be called on any thread, and several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(crate) fn new(data: *mut c_void, drop: Option<FbDrop>) -> Self {
        Context { data, drop }
    }

    pub(crate) fn data(&self) -> *mut c_void {
        self.data
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the plug-in gave both for this.
            unsafe { drop(self.data) };
        }
    }
}

/// A kernel whose function is C's.
struct PluginKernel {
    function: FbKernel,
    context: Context,
}

/// A call while the kernel runs: what an `FbCall` points to.
struct Running<'c> {
    call: &'c Call<'c>,
    arguments: Passed,
    key: CString,
    results: Option<Vec<Value>>,
}

impl BoxedKernel for PluginKernel {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        let key = c_string(&call.key.to_string());
        let mut running = Running { call, arguments: Passed::new(call.arguments), key, results: None };
        // SAFETY: the plug-in promised such a function, and the call lives until it returns.
        let error = unsafe { (self.function)(self.context.data(), ptr::from_mut(&mut running).cast()) };
        // SAFETY: a function of a plug-in returns NULL or an error of ours.
        unsafe { taken(error) }.map_err(|error| error.with_operator(call.operator.name()))?;
        Ok(running.results.unwrap_or_default())
    }
}

/// # Safety
/// - `call` is null, or the call that a kernel was given, which is still running.
unsafe fn running<'c>(call: *const FbCall) -> Option<&'c Running<'c>> {
    // SAFETY: as above.
    unsafe { call.cast::<Running<'c>>().as_ref() }
}

/// The key of a name: PyTorch's names of keys, in any case, and the names of devices.
pub(crate) fn key_named(name: &str) -> Result<DispatchKey> {
    let is_it = |key: &DispatchKey| key.to_string().eq_ignore_ascii_case(name);
    let of_device = || DeviceType::ALL.into_iter().find(|kind| kind.name() == name).map(DispatchKey::dense);
    DispatchKeySet::FULL.iter().find(is_it).or_else(of_device).ok_or_else(|| {
        error!(InvalidArgument, "expected a dispatch key such as \"CPU\" or a device but got {name:?}")
    })
}

fn leaked(function: FbKernel, context: Context) -> &'static dyn BoxedKernel {
    Box::leak(Box::new(PluginKernel { function, context }))
}

pub(crate) unsafe extern "C" fn implement(
    op: *const FbOperator,
    key: *const c_char,
    kernel: FbKernel,
    context: *mut c_void,
    drop: Option<FbDrop>,
    flags: u32,
) -> *mut FbError {
    fallible("implement", || {
        let context = Context::new(context, drop);
        // SAFETY: handles and strings as `flambeau.h` demands them.
        let (op, key) = unsafe { (operator(op)?.operator, key_named(text(key, "key")?)?) };
        let origin = origin();
        registry::implement(op, [key], (origin.as_str(), flags & OVERRIDE != 0), || [leaked(kernel, context)])
    })
}

/// The fallbacks of plug-ins, and where each comes from. It is held across the check and the registration.
static FALLBACKS: Mutex<Vec<(DispatchKey, String)>> = Mutex::new(Vec::new());

fn add_fallback(key: DispatchKey, kernel: FbKernel, context: Context, overriding: bool) -> Result<()> {
    ensure!(
        (key as usize) < DispatchKey::COUNT,
        InvalidArgument("fallback", "key"),
        "expected a key that tensors have but got {key}, which names several"
    );
    let mut known = FALLBACKS.lock();
    let first = known.iter().rfind(|(of, _)| *of == key).map(|(_, origin)| origin.as_str());
    let origin = origin();
    ensure!(
        overriding || (first.is_none() && !has_fallback(key)),
        InvalidArgument("fallback", "key"),
        "expected one fallback for {key} but there is one from {} and one from {origin}; it may be registered as overriding",
        first.unwrap_or("a crate that is linked")
    );
    register_fallback(key, leaked(kernel, context));
    known.push((key, origin));
    Ok(())
}

pub(crate) unsafe extern "C" fn fallback(
    key: *const c_char,
    kernel: FbKernel,
    context: *mut c_void,
    drop: Option<FbDrop>,
    flags: u32,
) -> *mut FbError {
    fallible("fallback", || {
        let context = Context::new(context, drop);
        // SAFETY: a string.
        let key = key_named(unsafe { text(key, "key") }?)?;
        add_fallback(key, kernel, context, flags & OVERRIDE != 0)
    })
}

pub(crate) unsafe extern "C" fn call_operator(call: *const FbCall) -> *const FbOperator {
    // SAFETY: a running call, or null.
    let running = unsafe { running(call) };
    infallible(ptr::null(), || {
        running.map_or(ptr::null(), |running| of_operator(running.call.operator).cast_const())
    })
}

pub(crate) unsafe extern "C" fn call_key(call: *const FbCall) -> *const c_char {
    // SAFETY: as above.
    unsafe { running(call) }.map_or(ptr::null(), |running| running.key.as_ptr())
}

/// A list for C, whose length is written to `count`.
///
/// # Safety
/// - `count` is null or can be written.
pub(crate) unsafe fn listed<T>(list: &[T], count: *mut usize) -> *const T {
    if !count.is_null() {
        // SAFETY: as above.
        unsafe { count.write(list.len()) };
    }
    list.as_ptr()
}

pub(crate) unsafe extern "C" fn call_arguments(call: *const FbCall, count: *mut usize) -> *const FbValue {
    // SAFETY: a running call, or null.
    let arguments = unsafe { running(call) }.map_or(&[][..], |running| running.arguments.as_slice());
    // SAFETY: `flambeau.h` demands it.
    unsafe { listed(arguments, count) }
}

pub(crate) unsafe extern "C" fn call_return(
    call: *mut FbCall,
    results: *const FbValue,
    count: usize,
) -> *mut FbError {
    fallible("call_return", || {
        // SAFETY: a running call or null, and values as their tags say.
        let (running, results) = unsafe { (call.cast::<Running<'_>>().as_mut(), read_all(results, count)?) };
        let running = running.ok_or_else(|| error!(InvalidArgument, "expected a call but got NULL"))?;
        ensure!(
            running.results.is_none(),
            InvalidArgument,
            "expected results once but got them a second time"
        );
        running.results = Some(results);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn call_below(
    call: *const FbCall,
    arguments: *const FbValue,
    count: usize,
    results: *mut FbValue,
    capacity: usize,
    result_count: *mut usize,
) -> *mut FbError {
    fallible("call_below", || {
        // SAFETY: as above.
        let (running, arguments) = unsafe { (running(call), read_all(arguments, count)?) };
        let running = running.ok_or_else(|| error!(InvalidArgument, "expected a call but got NULL"))?;
        let made = running.call.below(&arguments)?;
        // SAFETY: `flambeau.h` demands such memory.
        unsafe { give_results(made, results, capacity, result_count) }
    })
}
