//! Operators: to find, to call, to define, and their kernels.

use crate::abi::{FbCall, FbError, FbOperator, FbValue};
use crate::error::{Result, c_string, outcome, taken};
use crate::table::member;
use crate::value::{Passed, Value, borrowed, owned};
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::ptr;

/// How many results an operator may have.
const RESULTS: usize = 8;

/// An operator; it lives as long as the process.
#[derive(Clone, Copy)]
pub struct Operator(*mut FbOperator);

// SAFETY: operators are shared by all threads.
unsafe impl Send for Operator {}
// SAFETY: as above.
unsafe impl Sync for Operator {}

/// The operator of that name, `add.Tensor` or `mine::cube`.
///
/// # Errors
/// `InvalidArgument` where there is none.
pub fn find(name: &str) -> Result<Operator> {
    let find = member!(operator_find);
    let mut out = ptr::null_mut();
    // SAFETY: a string and memory for the result.
    unsafe { taken(find(c_string(name).as_ptr(), &raw mut out)) }?;
    Ok(Operator(out))
}

/// Makes an operator of a schema, `mine::cube(Tensor self) -> Tensor`, without kernels.
///
/// # Errors
/// `InvalidArgument` where there is one of that name.
pub fn define(schema: &str) -> Result<Operator> {
    let define = member!(define);
    let mut out = ptr::null_mut();
    // SAFETY: a string and memory for the result.
    unsafe { taken(define(c_string(schema).as_ptr(), &raw mut out)) }?;
    Ok(Operator(out))
}

/// Registers a kernel for all operators that have no other for a key.
///
/// # Errors
/// `InvalidArgument` where a plug-in has registered one already.
pub fn fallback<F>(key: &str, kernel: F) -> Result<()>
where
    F: Fn(&Call<'_>) -> Result<Vec<Value>> + Send + Sync + 'static,
{
    let fallback = member!(fallback);
    let context = Box::into_raw(Box::new(kernel)).cast();
    // SAFETY: the function and the context belong together, and the library drops the context.
    unsafe { taken(fallback(c_string(key).as_ptr(), run::<F>, context, Some(drop_box::<F>), 0)) }
}

/// # Safety
/// - `context` is a box of an `F`, which is dropped once.
pub(crate) unsafe extern "C" fn drop_box<F>(context: *mut c_void) {
    // A panic of a destructor does not go through C.
    let _ = outcome(|| {
        // SAFETY: as above.
        drop(unsafe { Box::from_raw(context.cast::<F>()) });
        Ok(())
    });
}

/// # Safety
/// - `context` is an `F`, and `call` a call that runs.
unsafe extern "C" fn run<F>(context: *mut c_void, call: *mut FbCall) -> *mut FbError
where
    F: Fn(&Call<'_>) -> Result<Vec<Value>> + Send + Sync + 'static,
{
    outcome(|| {
        let give = member!(call_return);
        // SAFETY: as above.
        let kernel = unsafe { &*context.cast::<F>() };
        let results = kernel(&Call { call, running: PhantomData })?;
        let results = Passed::new(&results)?;
        let results = results.as_slice();
        // SAFETY: values that are retained.
        unsafe { taken(give(call, results.as_ptr(), results.len())) }
    })
}

impl Operator {
    /// A kernel for the calls whose highest dispatch key is `key`: `CPU`, `CompositeImplicitAutograd`, the name of a device.
    ///
    /// # Errors
    /// `InvalidArgument` where there is one, saying where both come from.
    pub fn implement<F>(self, key: &str, kernel: F) -> Result<()>
    where
        F: Fn(&Call<'_>) -> Result<Vec<Value>> + Send + Sync + 'static,
    {
        let implement = member!(implement);
        let context = Box::into_raw(Box::new(kernel)).cast();
        // SAFETY: the function and the context belong together, and the library drops the context.
        unsafe { taken(implement(self.0, c_string(key).as_ptr(), run::<F>, context, Some(drop_box::<F>), 0)) }
    }

    /// Calls it with all arguments of its schema.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn call(self, arguments: &[Value]) -> Result<Vec<Value>> {
        let call = member!(operator_call);
        let arguments = Passed::new(arguments)?;
        let given = arguments.as_slice();
        received(|results, capacity, count| {
            // SAFETY: values, and memory for the results.
            unsafe { call(self.0, given.as_ptr(), given.len(), results, capacity, count) }
        })
    }

    /// Its name.
    ///
    /// # Errors
    /// None where a library has loaded this plug-in.
    pub fn name(self) -> Result<String> {
        let name = member!(operator_name);
        // SAFETY: names end with a zero, and live as long as the process.
        Ok(unsafe { CStr::from_ptr(name(self.0)) }.to_string_lossy().into_owned())
    }

    pub(crate) fn handle(self) -> *const FbOperator {
        self.0
    }
}

/// The results that a function of the table writes.
fn received(call: impl FnOnce(*mut FbValue, usize, *mut usize) -> *mut FbError) -> Result<Vec<Value>> {
    let mut results = [FbValue::NONE; RESULTS];
    let mut count = 0;
    // SAFETY: an error that is ours.
    unsafe { taken(call(results.as_mut_ptr(), RESULTS, &raw mut count)) }?;
    // SAFETY: the library has given so many.
    unsafe { owned(&mut results[..count.min(RESULTS)]) }
}

/// A call of a kernel.
pub struct Call<'c> {
    call: *mut FbCall,
    running: PhantomData<&'c ()>,
}

impl Call<'_> {
    /// All arguments of the schema.
    ///
    /// # Errors
    /// None where a library has loaded this plug-in.
    pub fn arguments(&self) -> Result<Vec<Value>> {
        let arguments = member!(call_arguments);
        let mut count = 0;
        // SAFETY: the call runs, and passes its arguments.
        unsafe {
            let first = arguments(self.call, &raw mut count);
            borrowed(first, count)
        }
    }

    /// The operator that is called.
    ///
    /// # Errors
    /// None where a library has loaded this plug-in.
    pub fn operator(&self) -> Result<Operator> {
        let operator = member!(call_operator);
        // SAFETY: the call runs.
        Ok(Operator(unsafe { operator(self.call) }.cast_mut()))
    }

    /// Calls the kernel of the next lower key.
    ///
    /// # Errors
    /// Those of the operator.
    pub fn below(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        let below = member!(call_below);
        let arguments = Passed::new(arguments)?;
        let given = arguments.as_slice();
        received(|results, capacity, count| {
            // SAFETY: the call runs; values, and memory for the results.
            unsafe { below(self.call, given.as_ptr(), given.len(), results, capacity, count) }
        })
    }
}
