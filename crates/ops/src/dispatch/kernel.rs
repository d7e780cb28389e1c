//! A kernel: a function pointer, and its dispatch key. Tables of operators have it as a pointer without the function's type.
#![expect(unsafe_code, reason = "function pointers are stored as thin pointers, and cast back when called")]

use flambeau_core::DispatchKey;
use std::fmt;
use std::marker::PhantomData;

/// A type of function pointers, such as `fn(DispatchKeySet, &Tensor) -> Result<Tensor>`. Nothing else implements it.
pub trait KernelFn: Copy + Send + Sync + fmt::Pointer + 'static {}

impl<F: Copy + Send + Sync + fmt::Pointer + 'static> KernelFn for F {}

/// A function and its dispatch key.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Kernel<F> {
    entry: KernelEntry,
    function: PhantomData<F>,
}

impl<F: KernelFn> Kernel<F> {
    /// `function` for calls whose highest key is `key`.
    pub const fn new(key: DispatchKey, function: F) -> Self {
        Kernel { entry: KernelEntry::new(key, to_pointer(function)), function: PhantomData }
    }

    /// The same kernel, which also serves calls whose highest key is `key`.
    #[must_use]
    pub const fn and(self, key: DispatchKey) -> Self {
        Kernel { entry: KernelEntry { also: Some(key), ..self.entry }, function: PhantomData }
    }

    /// The same kernels without the type of their functions.
    pub(super) const fn entries(kernels: &'static [Self]) -> &'static [KernelEntry] {
        // SAFETY: a `Kernel` is a `KernelEntry`, transparently.
        unsafe { std::slice::from_raw_parts(kernels.as_ptr().cast(), kernels.len()) }
    }
}

/// A [`Kernel`] without the type of its function.
#[derive(Clone, Copy)]
pub(super) struct KernelEntry {
    key: DispatchKey,
    /// Another key that it serves.
    also: Option<DispatchKey>,
    pub(super) function: *mut (),
}

impl KernelEntry {
    pub(super) const fn new(key: DispatchKey, function: *mut ()) -> Self {
        KernelEntry { key, also: None, function }
    }

    /// Whether it is for calls whose highest key is `key`.
    pub(super) fn serves(&self, key: DispatchKey) -> bool {
        self.key == key || self.also == Some(key)
    }
}

// SAFETY: `function` is the address of a function, which any thread may call.
unsafe impl Sync for KernelEntry {}
// SAFETY: as above.
unsafe impl Send for KernelEntry {}

/// A function pointer as a thin pointer.
pub(super) const fn to_pointer<F: KernelFn>(function: F) -> *mut () {
    const { assert!(size_of::<F>() == size_of::<*mut ()>(), "kernels are function pointers") };
    union Cast<F: Copy> {
        function: F,
        pointer: *mut (),
    }
    // SAFETY: both are one pointer wide, and every function pointer is a valid raw pointer.
    unsafe { Cast { function }.pointer }
}

/// The function that [`to_pointer`] was given.
///
/// # Safety
/// - (made) `pointer` was made from an `F`.
#[inline(always)]
pub(super) unsafe fn from_pointer<F: KernelFn>(pointer: *mut ()) -> F {
    debug_assert!(!pointer.is_null());
    // SAFETY: (made).
    unsafe { std::mem::transmute_copy(&pointer) }
}
