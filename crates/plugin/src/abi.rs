//! The declarations of `flambeau.h` in Rust. The header says what each means; the library fills the same table.

use std::ffi::{c_char, c_int, c_void};

/// The number that `flambeau_api` is called with.
pub const VERSION: u32 = 1;

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub struct $name {
            opaque: [u8; 0],
            pinned: std::marker::PhantomData<(*mut u8, std::marker::PhantomPinned)>,
        }
    )*};
}

opaque! {
    /// A kind and a message.
    FbError,
    /// A counted reference to a tensor.
    FbTensor,
    /// An operator.
    FbOperator,
    /// Guards on the elements of tensors.
    FbGuard,
    /// A call of a kernel.
    FbCall,
    /// A recorded call.
    FbSetup,
    /// A node of the graph.
    FbBackward,
    /// A random number generator.
    FbGenerator,
    /// DLPack's struct.
    DLManagedTensorVersioned,
}

/// A device; an index of -1 means the current one of its kind.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FbDevice {
    /// The kind.
    pub kind: i32,
    /// Which one.
    pub index: i32,
}

/// What an [`FbValue`] holds.
pub mod tag {
    #![allow(missing_docs, reason = "flambeau.h says it")]
    pub const NONE: u32 = 0;
    pub const TENSOR: u32 = 1;
    pub const TENSORS: u32 = 2;
    pub const INT: u32 = 3;
    pub const FLOAT: u32 = 4;
    pub const BOOLEAN: u32 = 5;
    pub const COMPLEX: u32 = 6;
    pub const INTS: u32 = 7;
    pub const FLOATS: u32 = 8;
    pub const BOOLEANS: u32 = 9;
    pub const STRING: u32 = 10;
    pub const SCALAR_TYPE: u32 = 11;
    pub const DEVICE: u32 = 12;
    pub const LAYOUT: u32 = 13;
    pub const MEMORY_FORMAT: u32 = 14;
    pub const GENERATOR: u32 = 15;
    pub const OPTIONAL_TENSORS: u32 = 16;
    pub const VALUES: u32 = 17;
}

/// An argument or a result.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FbValue {
    /// One of [`tag`].
    pub tag: u32,
    /// 0.
    pub reserved: u32,
    /// What it holds.
    pub of: FbPayload,
    /// The length of a list, or the imaginary part of a number.
    pub more: FbMore,
}

/// The first word of an [`FbValue`].
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "flambeau.h says it")]
pub union FbPayload {
    pub integer: i64,
    pub number: f64,
    pub device: FbDevice,
    pub tensor: *mut FbTensor,
    pub tensors: *const *mut FbTensor,
    pub integers: *const i64,
    pub numbers: *const f64,
    pub bytes: *const u8,
    pub string: *const c_char,
    pub generator: *mut FbGenerator,
    pub values: *const FbValue,
}

/// The second word of an [`FbValue`].
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs, reason = "flambeau.h says it")]
pub union FbMore {
    pub imaginary: f64,
    pub count: usize,
    pub bits: u64,
}

impl FbValue {
    /// An argument that is not given.
    pub const NONE: FbValue = FbValue::new(tag::NONE, FbPayload { integer: 0 }, FbMore { bits: 0 });

    /// A value of a tag and two words.
    pub const fn new(tag: u32, of: FbPayload, more: FbMore) -> Self {
        FbValue { tag, reserved: 0, of, more }
    }
}

/// A kernel.
pub type FbKernel = unsafe extern "C" fn(*mut c_void, *mut FbCall) -> *mut FbError;
/// Called once, when nothing needs a context any more.
pub type FbDrop = unsafe extern "C" fn(*mut c_void);
/// What a recorded call saves.
pub type FbSetupFunction = unsafe extern "C" fn(*mut c_void, *mut FbSetup) -> *mut FbError;
/// The gradients of a recorded call's inputs.
pub type FbBackwardFunction = unsafe extern "C" fn(*mut c_void, *mut FbBackward) -> *mut FbError;
/// A part of a loop.
pub type FbLoopBody = unsafe extern "C" fn(*mut c_void, i64, i64);
/// What a plug-in exports as `flambeau_plugin_init`.
pub type FbPluginInit = unsafe extern "C" fn(*const FbApi) -> *mut FbError;

/// For `implement`: replaces a kernel that there is.
pub const OVERRIDE: u32 = 1;
/// For `guard_acquire`.
pub const READ: u32 = 0;
/// For `guard_acquire`.
pub const WRITE: u32 = 1;

macro_rules! api {
    ($($name:ident: fn($($argument:ident: $ty:ty),*) $(-> $returned:ty)?;)*) => {
        /// The table of functions. Only the first `size` bytes of one that a library gives exist.
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(missing_docs, reason = "flambeau.h says it")]
        pub struct FbApi {
            pub size: usize,
            pub version: u32,
            pub reserved: u32,
            $(pub $name: unsafe extern "C" fn($($argument: $ty),*) $(-> $returned)?,)*
        }

        /// The members of the table and where they are, for those who compare it with the header.
        pub const MEMBERS: &[(&str, usize)] = &[
            ("size", std::mem::offset_of!(FbApi, size)),
            ("version", std::mem::offset_of!(FbApi, version)),
            $((stringify!($name), std::mem::offset_of!(FbApi, $name)),)*
        ];
    };
}

api! {
    error_new: fn(kind: u32, message: *const c_char) -> *mut FbError;
    error_kind: fn(error: *const FbError) -> u32;
    error_message: fn(error: *const FbError) -> *const c_char;
    error_free: fn(error: *mut FbError);
    tensor_empty: fn(sizes: *const i64, dims: usize, dtype: i32, device: FbDevice, out: *mut *mut FbTensor) -> *mut FbError;
    tensor_from_blob: fn(
        data: *mut c_void, sizes: *const i64, strides: *const i64, dims: usize, dtype: i32, device: FbDevice,
        drop: Option<FbDrop>, context: *mut c_void, out: *mut *mut FbTensor
    ) -> *mut FbError;
    tensor_retain: fn(tensor: *const FbTensor) -> *mut FbTensor;
    tensor_release: fn(tensor: *mut FbTensor);
    tensor_dim: fn(tensor: *const FbTensor) -> usize;
    tensor_sizes: fn(tensor: *const FbTensor) -> *const i64;
    tensor_strides: fn(tensor: *const FbTensor) -> *const i64;
    tensor_numel: fn(tensor: *const FbTensor) -> i64;
    tensor_dtype: fn(tensor: *const FbTensor) -> i32;
    tensor_device: fn(tensor: *const FbTensor) -> FbDevice;
    tensor_layout: fn(tensor: *const FbTensor) -> i32;
    tensor_is_contiguous: fn(tensor: *const FbTensor) -> c_int;
    tensor_requires_grad: fn(tensor: *const FbTensor) -> c_int;
    guard_acquire: fn(tensors: *const *mut FbTensor, access: *const u32, count: usize, out: *mut *mut FbGuard) -> *mut FbError;
    guard_data: fn(guard: *const FbGuard, index: usize) -> *mut c_void;
    guard_release: fn(guard: *mut FbGuard);
    operator_find: fn(name: *const c_char, out: *mut *mut FbOperator) -> *mut FbError;
    operator_name: fn(operator: *const FbOperator) -> *const c_char;
    operator_schema: fn(operator: *const FbOperator) -> *const c_char;
    operator_call: fn(
        operator: *const FbOperator, arguments: *const FbValue, count: usize, results: *mut FbValue, capacity: usize,
        result_count: *mut usize
    ) -> *mut FbError;
    value_free: fn(value: *mut FbValue);
    define: fn(schema: *const c_char, out: *mut *mut FbOperator) -> *mut FbError;
    implement: fn(
        operator: *const FbOperator, key: *const c_char, kernel: FbKernel, context: *mut c_void, drop: Option<FbDrop>, flags: u32
    ) -> *mut FbError;
    fallback: fn(
        key: *const c_char, kernel: FbKernel, context: *mut c_void, drop: Option<FbDrop>, flags: u32
    ) -> *mut FbError;
    call_operator: fn(call: *const FbCall) -> *const FbOperator;
    call_key: fn(call: *const FbCall) -> *const c_char;
    call_arguments: fn(call: *const FbCall, count: *mut usize) -> *const FbValue;
    call_return: fn(call: *mut FbCall, results: *const FbValue, count: usize) -> *mut FbError;
    call_below: fn(
        call: *const FbCall, arguments: *const FbValue, count: usize, results: *mut FbValue, capacity: usize,
        result_count: *mut usize
    ) -> *mut FbError;
    autograd: fn(
        operator: *const FbOperator, setup: Option<FbSetupFunction>, backward: FbBackwardFunction, context: *mut c_void,
        drop: Option<FbDrop>, flags: u32
    ) -> *mut FbError;
    setup_arguments: fn(setup: *const FbSetup, count: *mut usize) -> *const FbValue;
    setup_results: fn(setup: *const FbSetup, count: *mut usize) -> *const FbValue;
    setup_save: fn(setup: *mut FbSetup, tensors: *const *mut FbTensor, count: usize) -> *mut FbError;
    backward_arguments: fn(backward: *const FbBackward, count: *mut usize) -> *const FbValue;
    backward_saved: fn(backward: *const FbBackward, count: *mut usize) -> *const *mut FbTensor;
    backward_gradients: fn(backward: *const FbBackward, count: *mut usize) -> *const *mut FbTensor;
    backward_needs: fn(backward: *const FbBackward, input: usize) -> c_int;
    backward_set_gradient: fn(backward: *mut FbBackward, input: usize, gradient: *mut FbTensor) -> *mut FbError;
    parallel_for: fn(begin: i64, end: i64, grain: i64, body: FbLoopBody, context: *mut c_void) -> *mut FbError;
    num_threads: fn() -> i32;
    log: fn(level: u32, message: *const c_char);
    dlpack_export: fn(tensor: *const FbTensor, out: *mut *mut DLManagedTensorVersioned) -> *mut FbError;
    dlpack_import: fn(managed: *mut DLManagedTensorVersioned, out: *mut *mut FbTensor) -> *mut FbError;
    tensor_grad: fn(tensor: *const FbTensor, out: *mut *mut FbTensor) -> *mut FbError;
    tensor_set_requires_grad: fn(tensor: *mut FbTensor, requires_grad: c_int) -> *mut FbError;
    tensor_geometry: fn(tensor: *const FbTensor, sizes: *mut *const i64, strides: *mut *const i64) -> usize;
}
