//! An operator: its schema and a table of kernels, filled as keys are met.
#![expect(unsafe_code, reason = "kernels of one function type are kept as thin pointers in atomics")]

use super::boxed::Value;
use super::registry;
use flambeau_core::{DispatchKey, DispatchKeySet, Error, ErrorKind, Result, apply_thread_keys};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A function and the key it serves.
#[derive(Clone, Copy)]
pub struct Kernel<F> {
    key: DispatchKey,
    function: F,
}

impl<F> Kernel<F> {
    /// `function` for calls whose highest key is `key`.
    pub const fn new(key: DispatchKey, function: F) -> Self {
        Kernel { key, function }
    }
}

/// What is known of an operator without its function type.
pub trait OperatorInfo: Sync {
    /// `add.Tensor`.
    fn name(&self) -> &'static str;

    /// `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
    fn schema(&self) -> &'static str;

    /// Whether a kernel was given for exactly this key, here or by another crate.
    fn has_kernel(&self, key: DispatchKey) -> bool;

    /// Calls it with every argument in the order of the schema.
    ///
    /// # Errors
    /// `InvalidArgument` for arguments of other types or number, and the operator's own.
    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>>;
}

/// An operator's call with its arguments in a list.
pub(super) type BoxedCall = fn(&[Value]) -> Result<Vec<Value>>;

/// An operator with kernels of type `F`, a `fn(DispatchKeySet, ..) -> Result<..>`.
///
/// The table begins empty. The first call that meets a key looks for its kernel: one given for the key, else a composite
/// one, else, for keys that stand above the backends, none: such a key is skipped from then on.
pub struct Operator<F: 'static> {
    pub(super) name: &'static str,
    schema: &'static str,
    kernels: &'static [Kernel<F>],
    boxed: BoxedCall,
    skipped: AtomicU64,
    table: [AtomicPtr<()>; DispatchKey::COUNT],
    function: PhantomData<F>,
}

impl<F: Copy + Send + Sync + 'static> Operator<F> {
    /// An operator with its own kernels and a way to call it by value.
    pub const fn new(
        name: &'static str,
        schema: &'static str,
        kernels: &'static [Kernel<F>],
        boxed: BoxedCall,
    ) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut ()>(), "kernels are function pointers") };
        let table = [const { AtomicPtr::new(std::ptr::null_mut()) }; DispatchKey::COUNT];
        Operator { name, schema, kernels, boxed, skipped: AtomicU64::new(0), table, function: PhantomData }
    }

    /// The kernel for a call whose arguments carry `keys`, and the keys with the thread's changes applied.
    ///
    /// # Errors
    /// `NotImplemented` where no kernel serves the highest key.
    #[inline(always)]
    pub fn select(&self, keys: DispatchKeySet) -> Result<(DispatchKeySet, F)> {
        let skipped = DispatchKeySet::from_bits(self.skipped.load(Ordering::Relaxed));
        let keys = apply_thread_keys(keys).without(skipped);
        match self.table.get(keys.highest_index()) {
            Some(slot) => {
                let kernel = slot.load(Ordering::Acquire);
                if kernel.is_null() { self.select_slowly(keys) } else { Ok((keys, from_pointer(kernel))) }
            }
            None => self.select_slowly(keys),
        }
    }

    /// Fills the slots on the way down until one has a kernel.
    #[cold]
    fn select_slowly(&self, mut keys: DispatchKeySet) -> Result<(DispatchKeySet, F)> {
        while let Some(key) = keys.highest() {
            if let Some(function) = self.resolve(key) {
                self.table[key as usize].store(to_pointer(function), Ordering::Release);
                return Ok((keys, function));
            }
            if key.is_backend() || matches!(key, DispatchKey::Autograd | DispatchKey::AutogradPrivateUse1) {
                return Err(self.not_implemented(key));
            }
            self.skipped.fetch_or(DispatchKeySet::of(key).bits(), Ordering::Relaxed);
            keys = keys.without(key.into());
        }
        let message = format!("{}: expected a tensor or a device to choose a kernel by", self.name);
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    /// The kernel for `key`: given for it, or composite. Above the backends only the implicit composite serves, and only
    /// where no backend has a kernel of its own.
    fn resolve(&self, key: DispatchKey) -> Option<F> {
        let implicit = || self.given(DispatchKey::CompositeImplicitAutograd);
        self.given(key).or_else(|| match key {
            _ if key.is_backend() => self.given(DispatchKey::CompositeExplicitAutograd).or_else(implicit),
            DispatchKey::Autograd | DispatchKey::AutogradPrivateUse1 => implicit(),
            _ => None,
        })
    }

    /// The kernel given for exactly `key`; another crate's wins over the operator's own.
    fn given(&self, key: DispatchKey) -> Option<F> {
        let own = || self.kernels.iter().find(|k| k.key == key).map(|k| k.function);
        registry::find(self.name, key).map(|pointer| from_pointer(pointer.cast_mut())).or_else(own)
    }

    /// Puts a kernel in place at run time. Link-time registration is [`Registration`](super::Registration).
    pub fn register(&self, key: DispatchKey, function: F) {
        if (key as usize) < DispatchKey::COUNT {
            self.table[key as usize].store(to_pointer(function), Ordering::Release);
            self.skipped.fetch_and(!DispatchKeySet::of(key).bits(), Ordering::Relaxed);
        }
    }

    #[cold]
    fn not_implemented(&self, key: DispatchKey) -> Error {
        Error::new(ErrorKind::NotImplemented, format!("{}: there is no kernel for {key}", self.name))
    }
}

impl<F: Copy + Send + Sync + 'static> OperatorInfo for Operator<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schema(&self) -> &'static str {
        self.schema
    }

    fn has_kernel(&self, key: DispatchKey) -> bool {
        self.given(key).is_some()
    }

    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        (self.boxed)(arguments)
    }
}

/// A function pointer as a thin pointer.
pub(super) const fn to_pointer<F: Copy>(function: F) -> *mut () {
    union Cast<F: Copy> {
        function: F,
        pointer: *mut (),
    }
    // SAFETY: both are one pointer wide (checked in `Operator::new`) and every function pointer is a valid raw pointer.
    unsafe { Cast { function }.pointer }
}

/// The function that [`to_pointer`] was given. Private: only pointers made from `F` reach it.
#[inline(always)]
fn from_pointer<F: Copy>(pointer: *mut ()) -> F {
    debug_assert!(!pointer.is_null());
    // SAFETY: tables and registrations of an `Operator<F>` hold only pointers made from an `F` by `to_pointer`.
    unsafe { std::mem::transmute_copy(&pointer) }
}
