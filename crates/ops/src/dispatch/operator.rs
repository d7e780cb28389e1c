//! An operator: its schema and a table of kernels, filled as keys are met.
#![expect(unsafe_code, reason = "kernels of one function type are kept as thin pointers in atomics")]

use super::boxed::Value;
use super::observed::{self, Observed};
use super::registry;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, apply_thread_keys, bail, profiler};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A function and the key it serves.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Kernel<F> {
    given: Given,
    function: PhantomData<F>,
}

impl<F: Copy + Send + Sync + 'static> Kernel<F> {
    /// `function` for calls whose highest key is `key`.
    pub const fn new(key: DispatchKey, function: F) -> Self {
        Kernel { given: Given { key, function: to_pointer(function) }, function: PhantomData }
    }
}

/// A [`Kernel`] without the type of its function.
#[derive(Clone, Copy)]
struct Given {
    key: DispatchKey,
    function: *mut (),
}

// SAFETY: `function` is the address of a function, which any thread may call.
unsafe impl Sync for Given {}
// SAFETY: as above.
unsafe impl Send for Given {}

/// What is known of an operator without its function type.
pub trait OperatorInfo: Sync {
    /// `add.Tensor`.
    fn name(&self) -> &'static str;

    /// `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
    fn schema(&self) -> &'static str;

    /// Whether a kernel was given for exactly this key, here or by another crate.
    fn has_kernel(&self, key: DispatchKey) -> bool;

    /// Lets calls pass the kernel that records them for a profiler, or not.
    fn set_observed(&self, on: bool);

    /// Calls it with every argument in the order of the schema.
    ///
    /// # Errors
    /// `InvalidArgument` for arguments of other types or number, and the operator's own.
    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>>;
}

/// Every call carries this key, so that a profiler sees all threads, and while it is skipped it costs nothing: the keys that an
/// operator skips are taken away in any case.
const PROFILER: u64 = DispatchKeySet::of(DispatchKey::Profiler).bits();

/// An operator's call with its arguments in a list.
pub(super) type BoxedCall = fn(&[Value]) -> Result<Vec<Value>>;

/// An operator with kernels of type `F`, a `fn(DispatchKeySet, ..) -> Result<..>`.
pub struct Operator<F: 'static> {
    pub(super) table: Table,
    function: PhantomData<F>,
}

/// An operator without the type of its kernels, so that its code is compiled once and not once for each signature.
///
/// The slots begin empty. The first call that meets a key looks for its kernel: one given for the key, else a composite
/// one, else, for keys that stand above the backends, none: such a key is skipped from then on.
pub(super) struct Table {
    pub(super) name: &'static str,
    schema: &'static str,
    kernels: &'static [Given],
    boxed: BoxedCall,
    skipped: AtomicU64,
    slots: [AtomicPtr<()>; DispatchKey::COUNT],
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
        // SAFETY: a `Kernel` is a `Given`, transparently.
        let kernels = unsafe { std::slice::from_raw_parts(kernels.as_ptr().cast::<Given>(), kernels.len()) };
        let slots = [const { AtomicPtr::new(std::ptr::null_mut()) }; DispatchKey::COUNT];
        let table = Table { name, schema, kernels, boxed, skipped: AtomicU64::new(PROFILER), slots };
        Operator { table, function: PhantomData }
    }

    /// The kernel for a call whose arguments carry `keys`, and the keys with the thread's changes applied.
    ///
    /// # Errors
    /// `NotImplemented` where no kernel serves the highest key.
    #[inline(always)]
    pub fn select(&self, keys: DispatchKeySet) -> Result<(DispatchKeySet, F)> {
        let skipped = DispatchKeySet::from_bits(self.table.skipped.load(Ordering::Relaxed));
        let keys = apply_thread_keys(keys).without(skipped);
        if let Some(slot) = self.table.slots.get(keys.highest_index()) {
            let kernel = slot.load(Ordering::Acquire);
            if !kernel.is_null() {
                return Ok((keys, from_pointer(kernel)));
            }
        }
        match self.table.select_slowly(keys) {
            Ok((keys, kernel)) => Ok((keys, from_pointer(kernel))),
            Err(error) => Err(error),
        }
    }

    /// For the kernel that records calls: what [`select`](Self::select) finds below it, and the event, which ends when it is
    /// dropped.
    ///
    /// # Errors
    /// `NotImplemented` where no kernel serves the highest key.
    pub fn observe(
        &self,
        keys: DispatchKeySet,
        inputs: &[Observed<'_>],
    ) -> Result<(DispatchKeySet, F, Option<profiler::Open>)> {
        let (keys, kernel, open) = self.table.observe(keys, inputs)?;
        Ok((keys, from_pointer(kernel), open))
    }

    /// Puts a kernel in place at run time. Link-time registration is [`Registration`](super::Registration).
    pub fn register(&self, key: DispatchKey, function: F) {
        self.table.register(key, to_pointer(function));
    }
}

impl Table {
    fn observe(
        &self,
        keys: DispatchKeySet,
        inputs: &[Observed<'_>],
    ) -> Result<(DispatchKeySet, *mut (), Option<profiler::Open>)> {
        let skipped = DispatchKeySet::from_bits(self.skipped.load(Ordering::Relaxed));
        let keys = keys.below(DispatchKey::Profiler).without(skipped);
        let slot = self.slots.get(keys.highest_index()).map(|slot| slot.load(Ordering::Acquire));
        let (keys, kernel) = match slot.filter(|kernel| !kernel.is_null()) {
            Some(kernel) => (keys, kernel),
            None => self.select_slowly(keys)?,
        };
        let open = profiler::begin_operator(self.name, keys.highest_index(), || observed::inputs(inputs));
        Ok((keys, kernel, open))
    }

    /// Fills the slots on the way down until one has a kernel.
    #[cold]
    #[inline(never)]
    fn select_slowly(&self, mut keys: DispatchKeySet) -> Result<(DispatchKeySet, *mut ())> {
        while let Some(key) = keys.highest() {
            if let Some(kernel) = self.resolve(key) {
                self.slots[key as usize].store(kernel, Ordering::Release);
                return Ok((keys, kernel));
            }
            if key.is_backend() || matches!(key, DispatchKey::Autograd | DispatchKey::AutogradPrivateUse1) {
                bail!(NotImplemented, "{}: there is no kernel for {key}", self.name);
            }
            self.skipped.fetch_or(DispatchKeySet::of(key).bits(), Ordering::Relaxed);
            keys = keys.without(key.into());
        }
        bail!(InvalidArgument, "{}: expected a tensor or a device to choose a kernel by", self.name);
    }

    /// The kernel for `key`: given for it, or composite. Above the backends only the implicit composite serves, and only
    /// where no backend has a kernel of its own.
    fn resolve(&self, key: DispatchKey) -> Option<*mut ()> {
        let implicit = || self.given(DispatchKey::CompositeImplicitAutograd);
        self.given(key).or_else(|| match key {
            _ if key.is_backend() => self.given(DispatchKey::CompositeExplicitAutograd).or_else(implicit),
            DispatchKey::Autograd | DispatchKey::AutogradPrivateUse1 => implicit(),
            _ => None,
        })
    }

    /// The kernel given for exactly `key`; another crate's wins over the operator's own.
    fn given(&self, key: DispatchKey) -> Option<*mut ()> {
        let own = || self.kernels.iter().find(|given| given.key == key).map(|given| given.function);
        registry::find(self.name, key).map(<*const ()>::cast_mut).or_else(own)
    }

    fn register(&self, key: DispatchKey, kernel: *mut ()) {
        if let Some(slot) = self.slots.get(key as usize) {
            slot.store(kernel, Ordering::Release);
            self.skipped.fetch_and(!DispatchKeySet::of(key).bits(), Ordering::Relaxed);
        }
    }
}

impl<F: Copy + Send + Sync + 'static> OperatorInfo for Operator<F> {
    fn name(&self) -> &'static str {
        self.table.name
    }

    fn schema(&self) -> &'static str {
        self.table.schema
    }

    fn has_kernel(&self, key: DispatchKey) -> bool {
        self.table.given(key).is_some()
    }

    fn set_observed(&self, on: bool) {
        match on {
            true => self.table.skipped.fetch_and(!PROFILER, Ordering::Relaxed),
            false => self.table.skipped.fetch_or(PROFILER, Ordering::Relaxed),
        };
    }

    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        (self.table.boxed)(arguments)
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
