//! An operator: its schema and a table of kernels, which is filled as calls have new keys.
#![expect(unsafe_code, reason = "kernels of one function type are kept as thin pointers in atomics")]

use super::boxed::{FromValues, Value};
use super::boxed_kernel::{self, BoxedKernel, BoxedKernels, Call};
use super::kernel::{Kernel, KernelEntry, KernelFn, from_pointer, to_pointer};
use super::observed::{self, Observed};
use super::registration::{self, Registration, TableAddress};
use super::schema;
use flambeau_core::{DispatchKey, DispatchKeySet, Result, apply_thread_keys, bail, ensure, profiler};
use flambeau_schema::{Argument, FunctionSchema};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// An operator without the type of its kernels.
pub trait OperatorInfo: Sync {
    /// `add.Tensor`.
    fn name(&self) -> &'static str;

    /// `add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
    fn schema(&self) -> &'static str;

    /// The schema, parsed.
    ///
    /// # Errors
    /// `InvalidArgument` for a malformed schema.
    fn parsed_schema(&self) -> Result<&'static FunctionSchema> {
        schema::parsed(self.schema())
    }

    /// The arguments that the schema lists, in its order.
    ///
    /// # Errors
    /// Those of [`parsed_schema`](Self::parsed_schema).
    fn arguments(&self) -> Result<Vec<&'static Argument>> {
        Ok(self.parsed_schema()?.arguments().collect())
    }

    /// Whether a kernel is registered for exactly this key, by the operator's definition or another crate.
    fn has_kernel(&self, key: DispatchKey) -> bool;

    /// Sets whether calls run the kernel that records them for a profiler.
    fn set_observed(&self, on: bool);

    /// Calls it with every argument in the order of the schema.
    ///
    /// # Errors
    /// `InvalidArgument` for arguments of other types or number, and the operator's own.
    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>>;

    /// Whether [`register_boxed`](Self::register_boxed) accepts a kernel for `key`, for those who make the kernel only then.
    ///
    /// # Errors
    /// Those of [`register_boxed`](Self::register_boxed).
    fn ensure_takes_boxed(&self, key: DispatchKey) -> Result<()>;

    /// Registers a kernel for calls whose highest key is `key`, in preference to any other.
    ///
    /// # Errors
    /// For an operator with kernels of a signature, `InvalidArgument` where the key is the name of several keys, and `NotImplemented`
    /// where it was defined without [`boxing!`](crate::boxing).
    fn register_boxed(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Result<()>;

    /// Has the next call with `key` select its kernel anew, after one is no longer [in force](BoxedKernel::is_in_force).
    fn select_again(&self, key: DispatchKey);
}

/// Every call has this key, so that a profiler sees all threads. While operators skip it, it costs nothing: the keys that an
/// operator skips are removed from every call in any case.
const PROFILER: u64 = DispatchKeySet::of(DispatchKey::Profiler).bits();

/// Whether an operator that is an implicit composite is one for calls of this key, so that the key's kernels see its parts.
pub(crate) fn takes_composites_apart(key: DispatchKey) -> bool {
    key.is_layout() || matches!(key, DispatchKey::Autograd | DispatchKey::Python)
}

/// An operator's call with its arguments in a list.
pub(super) type BoxedCall = fn(&[Value]) -> Result<Vec<Value>>;

/// An operator with kernels of type `F`, a `fn(DispatchKeySet, ..) -> Result<..>`.
pub struct Operator<F: 'static> {
    pub(super) table: Table,
    function: PhantomData<F>,
}

/// An operator without the type of its kernels, so that its code is compiled once and not once for each signature.
///
/// The slots begin empty. The first call with a key finds its kernel: one registered for the key, else a composite
/// one; a key above the backends may have none, and falls through: it is skipped from then on.
pub(super) struct Table {
    pub(super) name: &'static str,
    schema: &'static str,
    /// Where the operator was defined.
    location: &'static Location<'static>,
    kernels: &'static [KernelEntry],
    boxed: BoxedCall,
    boxed_kernels: BoxedKernels,
    skipped: AtomicU64,
    slots: [AtomicPtr<()>; DispatchKey::COUNT],
}

impl<F: KernelFn> Operator<F> {
    /// An operator with its own kernels and a function that calls it by value.
    #[track_caller]
    pub const fn new(
        name: &'static str,
        schema: &'static str,
        kernels: &'static [Kernel<F>],
        boxed: BoxedCall,
    ) -> Self {
        Operator {
            table: Table::new(name, schema, Location::caller(), Kernel::entries(kernels), boxed),
            function: PhantomData,
        }
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
                return Ok((keys, self.function(kernel)));
            }
        }
        match self.table.select_slowly(keys) {
            Ok((keys, kernel)) => Ok((keys, self.function(kernel))),
            Err(error) => Err(error),
        }
    }

    /// For the profiler's kernel: the keys and kernel that [`select`](Self::select) finds below it, and the event of the call, which ends
    /// when it is dropped.
    ///
    /// # Errors
    /// `NotImplemented` where no kernel serves the highest key.
    pub fn observe(
        &self,
        keys: DispatchKeySet,
        inputs: &[Observed<'_>],
    ) -> Result<(DispatchKeySet, F, Option<profiler::Open>)> {
        let (keys, kernel, open) = self.table.observe(keys, inputs)?;
        Ok((keys, self.function(kernel), open))
    }

    /// For the kernel that [packs](crate::boxing) arguments in a list: the results of the boxed kernel for the highest of `keys`.
    ///
    /// # Errors
    /// The kernel's, and `InvalidArgument` where its results are not the operator's.
    pub fn call_boxed_kernel<R: FromValues>(
        &'static self,
        keys: DispatchKeySet,
        arguments: &[Value],
    ) -> Result<R> {
        let results = self.table.call_boxed_kernel(self, keys, arguments)?;
        R::from_values(self.table.name, results)
    }

    /// The function that a pointer of the table was made from.
    #[inline(always)]
    fn function(&self, pointer: *mut ()) -> F {
        // SAFETY: (made): the operator's own kernels are of its type `F`, and so is what is registered for it, here and in
        // `Registration`, which know it by its address.
        unsafe { from_pointer(pointer) }
    }

    /// Registers a kernel at run time, for a key that has none. Link-time registration is [`Registration`].
    ///
    /// # Errors
    /// `InvalidArgument` where the key has a kernel, or is the name of several keys, such as
    /// [`CompositeImplicitAutograd`](DispatchKey::CompositeImplicitAutograd).
    pub fn register(&self, key: DispatchKey, function: F) -> Result<()> {
        let exists = self.table.registered(key)?.is_some() || self.table.slot(key)?.is_some();
        ensure!(!exists, InvalidArgument(self.table.name), "there is a kernel for {key} already");
        self.table.register(key, to_pointer(function))
    }

    /// Registers a kernel at run time, and replaces one that the key may have. Running calls of that finish.
    ///
    /// # Errors
    /// `InvalidArgument` where the key is the name of several keys.
    pub fn register_overriding(&self, key: DispatchKey, function: F) -> Result<()> {
        self.table.register(key, to_pointer(function))
    }
}

impl Registration {
    /// `function` for calls of `operator` whose highest key is `key`, which must have no other kernel.
    #[track_caller]
    pub const fn new<F: KernelFn>(operator: &'static Operator<F>, key: DispatchKey, function: F) -> Self {
        let (operator, location) = (TableAddress::of(&operator.table), Location::caller());
        let kernel = KernelEntry::new(key, to_pointer(function));
        Registration { operator, kernel, overriding: false, location }
    }

    /// `function` instead of another kernel, the operator's own or one of [`Registration::new`].
    #[track_caller]
    pub const fn overriding<F: KernelFn>(
        operator: &'static Operator<F>,
        key: DispatchKey,
        function: F,
    ) -> Self {
        let (operator, location) = (TableAddress::of(&operator.table), Location::caller());
        let kernel = KernelEntry::new(key, to_pointer(function));
        Registration { operator, kernel, overriding: true, location }
    }
}

impl Table {
    pub(super) const fn new(
        name: &'static str,
        schema: &'static str,
        location: &'static Location<'static>,
        kernels: &'static [KernelEntry],
        boxed: BoxedCall,
    ) -> Self {
        let slots = [const { AtomicPtr::new(std::ptr::null_mut()) }; DispatchKey::COUNT];
        let (skipped, boxed_kernels) = (AtomicU64::new(PROFILER), BoxedKernels::new());
        Table { name, schema, location, kernels, boxed, boxed_kernels, skipped, slots }
    }

    fn call_boxed_kernel(
        &self,
        operator: &'static dyn OperatorInfo,
        keys: DispatchKeySet,
        arguments: &[Value],
    ) -> Result<Vec<Value>> {
        if let Some(key) = keys.highest() {
            let own = self.boxed_kernels.get(key);
            if let Some(kernel) = own.map_or_else(|| boxed_kernel::fallback(key), |own| Ok(Some(own)))? {
                return kernel.call(&Call { operator, key, arguments });
            }
        }
        bail!(Internal(self.name), "there is no boxed kernel for {keys:?}")
    }

    /// The function that packs the arguments of calls for `key` and calls a boxed kernel.
    fn boxing(&self, key: DispatchKey) -> Result<*mut ()> {
        let Some(boxing) = self.registered(DispatchKey::Boxing)? else {
            bail!(
                NotImplemented(self.name),
                "its boxed kernel for {key} cannot be called, since it was defined without `boxing!`"
            )
        };
        Ok(boxing)
    }

    /// Adds a boxed kernel for `key`, and returns the function that calls it.
    fn add_boxed(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Result<*mut ()> {
        let boxing = self.boxing(key)?;
        self.boxed_kernels.push(key, kernel);
        Ok(boxing)
    }

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

    /// Finds the kernel of the highest key that has one, and fills the slot.
    #[cold]
    #[inline(never)]
    fn select_slowly(&self, mut keys: DispatchKeySet) -> Result<(DispatchKeySet, *mut ())> {
        while let Some(key) = keys.highest() {
            // A kernel that was registered at run time is in its slot before the first call.
            let registered = self.slot(key)?;
            if let Some(kernel) = registered.map_or_else(|| self.resolve(key), |kernel| Ok(Some(kernel)))? {
                self.slots[key as usize].store(kernel, Ordering::Release);
                return Ok((keys, kernel));
            }
            if key == DispatchKey::ForwardGrad && self.has_derivative()? {
                self.ensure_no_tangents(keys)?;
                keys = keys.without(key.into());
                continue;
            }
            if key.is_layout() {
                bail!(
                    NotImplemented(self.name),
                    "there is no kernel for tensors of the layout {key}; call `to_dense()` first"
                );
            }
            if key.is_backend() || key == DispatchKey::Autograd {
                bail!(NotImplemented(self.name), "there is no kernel for {key}");
            }
            self.skipped.fetch_or(DispatchKeySet::of(key).bits(), Ordering::Relaxed);
            keys = keys.without(key.into());
        }
        bail!(InvalidArgument(self.name), "expected a tensor or a device to choose a kernel by");
    }

    fn has_derivative(&self) -> Result<bool> {
        Ok(self.registered(DispatchKey::Autograd)?.is_some() || self.boxed(DispatchKey::Autograd)?.is_some())
    }

    /// An operator with a derivative and no kernel for forward mode would drop tangents silently. Tensors with a tangent have the key
    /// `Autograd`; where the thread excludes that key, tangents cannot be ruled out, and a call without any may be refused.
    fn ensure_no_tangents(&self, keys: DispatchKeySet) -> Result<()> {
        let is_known = apply_thread_keys(DispatchKey::Autograd.into()).has(DispatchKey::Autograd);
        ensure!(
            is_known && !keys.has(DispatchKey::Autograd),
            NotImplemented(self.name),
            "there is no kernel for ForwardGrad, without which tangents would be lost; it may call `forward::transposed`"
        );
        Ok(())
    }

    /// The kernel for `key`: registered for it, unboxed or boxed, else composite, else the key's fallback. For keys above the backends
    /// only the implicit composite counts, and only where no backend has a kernel of its own.
    fn resolve(&self, key: DispatchKey) -> Result<Option<*mut ()>> {
        let composite: &[DispatchKey] = match key {
            _ if key.is_backend() => {
                &[DispatchKey::CompositeExplicitAutograd, DispatchKey::CompositeImplicitAutograd]
            }
            _ if takes_composites_apart(key) => &[DispatchKey::CompositeImplicitAutograd],
            _ => &[],
        };
        if let Some(kernel) = self.registered(key)? {
            return Ok(Some(kernel));
        }
        if let Some(kernel) = self.boxed(key)? {
            return self.add_boxed(key, kernel).map(Some);
        }
        for key in composite {
            if let Some(kernel) = self.registered(*key)? {
                return Ok(Some(kernel));
            }
        }
        boxed_kernel::fallback(key)?.map(|_| self.boxing(key)).transpose()
    }

    /// The boxed kernel for exactly `key`.
    fn boxed(&self, key: DispatchKey) -> Result<Option<&'static dyn BoxedKernel>> {
        self.boxed_kernels.of_operator(TableAddress::of(self), self.name, key)
    }

    /// The kernel registered for exactly `key` in the operator's definition or at link time.
    fn registered(&self, key: DispatchKey) -> Result<Option<*mut ()>> {
        registration::find(TableAddress::of(self), (self.name, self.location), self.kernels, key)
    }

    fn has_kernel(&self, key: DispatchKey) -> bool {
        // Two kernels for one key are an error of each call.
        !matches!((self.registered(key), self.boxed(key)), (Ok(None), Ok(None)))
    }

    fn set_observed(&self, on: bool) {
        match on {
            true => self.skipped.fetch_and(!PROFILER, Ordering::Relaxed),
            false => self.skipped.fetch_or(PROFILER, Ordering::Relaxed),
        };
    }

    /// The kernel in the slot of `key`, if one was found by a call or registered at run time.
    fn slot(&self, key: DispatchKey) -> Result<Option<*mut ()>> {
        let Some(slot) = self.slots.get(key as usize) else {
            bail!(InvalidArgument(self.name), "expected a key of its own but got {key}, which names several")
        };
        let kernel = slot.load(Ordering::Acquire);
        Ok((!kernel.is_null()).then_some(kernel))
    }

    fn ensure_takes_boxed(&self, key: DispatchKey) -> Result<()> {
        self.slot(key)?;
        self.boxing(key).map(|_| ())
    }

    fn register_boxed(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Result<()> {
        self.slot(key)?;
        let boxing = self.add_boxed(key, kernel)?;
        self.register(key, boxing)
    }

    fn select_again(&self, key: DispatchKey) {
        if let Some(slot) = self.slots.get(key as usize) {
            slot.store(std::ptr::null_mut(), Ordering::Release);
            self.skipped.fetch_and(!DispatchKeySet::of(key).bits() | PROFILER, Ordering::Relaxed);
        }
    }

    fn register(&self, key: DispatchKey, kernel: *mut ()) -> Result<()> {
        self.slot(key)?;
        self.slots[key as usize].store(kernel, Ordering::Release);
        self.skipped.fetch_and(!DispatchKeySet::of(key).bits(), Ordering::Relaxed);
        Ok(())
    }
}

impl<F: KernelFn> OperatorInfo for Operator<F> {
    fn name(&self) -> &'static str {
        self.table.name
    }

    fn schema(&self) -> &'static str {
        self.table.schema
    }

    fn has_kernel(&self, key: DispatchKey) -> bool {
        self.table.has_kernel(key)
    }

    fn set_observed(&self, on: bool) {
        self.table.set_observed(on);
    }

    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        (self.table.boxed)(arguments)
    }

    fn ensure_takes_boxed(&self, key: DispatchKey) -> Result<()> {
        self.table.ensure_takes_boxed(key)
    }

    fn register_boxed(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Result<()> {
        self.table.register_boxed(key, kernel)
    }

    fn select_again(&self, key: DispatchKey) {
        self.table.select_again(key);
    }
}
