//! The keys by which a call finds its kernel, sets of them, and the thread's inclusions and exclusions.

use crate::DeviceType;
use std::cell::Cell;
use std::fmt;

macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A reason to choose a kernel; later keys have priority. PyTorch's `DispatchKey`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DispatchKey { $($(#[$doc])* $name,)* }

        impl DispatchKey {
            const ALL: &[DispatchKey] = &[$(DispatchKey::$name,)*];
        }
    };
}

keys! {
    /// Dense kernels on the host.
    Cpu,
    /// Dense kernels on a GPU.
    Cuda,
    /// Shapes without data.
    Meta,
    /// A backend from another crate.
    PrivateUse1,
    /// A second one.
    PrivateUse2,
    /// A third one.
    PrivateUse3,
    /// Chooses a backend where no tensor argument does.
    BackendSelect,
    /// Tensor subclasses and modes of a Python front end, below autograd.
    Python,
    /// Records which base a view looks at.
    ADInplaceOrView,
    /// Records history.
    Autograd,
    /// Computes tangents. No tensor has it: an open dual level includes it for its thread.
    ForwardGrad,
    /// Automatic choice of precision.
    Autocast,
    /// Coordinates and values.
    Sparse,
    /// Compressed rows, columns or blocks.
    SparseCompressed,
    /// Integers with a scale.
    Quantized,
    /// A layout from another crate.
    ExtensionLayout,
    /// Tensors with a batch dimension that a function under `vmap` does not see.
    Batched,
    /// A mode of a front end that intercepts every call before all other keys.
    FunctionMode,
    /// Records the call while a profiler runs. Every call carries it, and operators skip it until then.
    Profiler,
    /// Alias: a kernel for every backend, made of differentiable operators; needs no derivative.
    CompositeImplicitAutograd,
    /// Alias: a kernel for every backend, below autograd; has a derivative of its own.
    CompositeExplicitAutograd,
    /// Alias: the function that packs arguments in a list, for kernels of any key that take them so.
    Boxing,
}

impl DispatchKey {
    /// How many keys a tensor can carry; the aliases, which only registrations use, come after these.
    pub const COUNT: usize = DispatchKey::CompositeImplicitAutograd as usize;

    /// The key of the dense kernels of a device.
    pub const fn dense(device: DeviceType) -> DispatchKey {
        match device {
            DeviceType::Cpu => DispatchKey::Cpu,
            DeviceType::Cuda => DispatchKey::Cuda,
            DeviceType::Meta => DispatchKey::Meta,
            DeviceType::PrivateUse1 => DispatchKey::PrivateUse1,
            DeviceType::PrivateUse2 => DispatchKey::PrivateUse2,
            DeviceType::PrivateUse3 => DispatchKey::PrivateUse3,
        }
    }

    /// Whether it names a layout: kernels of other layouts cannot read a tensor that has it. Batched tensors count as one, since
    /// their elements are those of another tensor.
    pub const fn is_layout(self) -> bool {
        matches!(
            self,
            DispatchKey::Sparse
                | DispatchKey::SparseCompressed
                | DispatchKey::Quantized
                | DispatchKey::ExtensionLayout
                | DispatchKey::Batched
        )
    }

    /// Whether it names a backend, rather than something that happens above one.
    pub const fn is_backend(self) -> bool {
        (self as u8) < DispatchKey::BackendSelect as u8
    }
}

impl fmt::Display for DispatchKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A set of [`DispatchKey`]s, one bit each.
///
/// ```
/// use flambeau_core::{DispatchKey, DispatchKeySet};
/// let set = DispatchKeySet::from(DispatchKey::Cpu) | DispatchKey::Autograd.into();
/// assert_eq!(set.highest(), Some(DispatchKey::Autograd));
/// assert_eq!(set.below(DispatchKey::Autograd).highest(), Some(DispatchKey::Cpu));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct DispatchKeySet(u64);

impl DispatchKeySet {
    /// No key.
    pub const EMPTY: DispatchKeySet = DispatchKeySet(0);
    /// Every key.
    pub const FULL: DispatchKeySet = DispatchKeySet(!0);
    /// Every backend.
    pub const BACKENDS: DispatchKeySet = DispatchKeySet((1 << DispatchKey::BackendSelect as u8) - 1);

    /// The set of one key, in constants.
    pub const fn of(key: DispatchKey) -> Self {
        DispatchKeySet(1 << key as u8)
    }

    /// The bits, for storing.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set with these bits.
    pub const fn from_bits(bits: u64) -> Self {
        DispatchKeySet(bits)
    }

    /// Whether `key` is in it.
    #[inline]
    pub const fn has(self, key: DispatchKey) -> bool {
        self.0 & (1 << key as u8) != 0
    }

    /// Whether no key is in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Keys in either.
    #[inline]
    pub const fn union(self, other: Self) -> Self {
        DispatchKeySet(self.0 | other.0)
    }

    /// Keys not in `other`.
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        DispatchKeySet(self.0 & !other.0)
    }

    /// Keys in both.
    #[inline]
    pub const fn and(self, other: Self) -> Self {
        DispatchKeySet(self.0 & other.0)
    }

    /// The keys of lower priority than `key`.
    #[inline]
    pub const fn below(self, key: DispatchKey) -> Self {
        DispatchKeySet(self.0 & ((1 << key as u8) - 1))
    }

    /// The key of highest priority.
    #[inline]
    pub fn highest(self) -> Option<DispatchKey> {
        DispatchKey::ALL.get(self.highest_index()).copied()
    }

    /// The number of that key, or 64 or more for the empty set: an index into an operator's table of kernels.
    #[inline]
    pub const fn highest_index(self) -> usize {
        63usize.wrapping_sub(self.0.leading_zeros() as usize)
    }

    /// Its keys, those of highest priority first.
    pub fn iter(self) -> impl Iterator<Item = DispatchKey> {
        DispatchKey::ALL.iter().rev().copied().filter(move |k| self.has(*k))
    }
}

impl From<DispatchKey> for DispatchKeySet {
    fn from(key: DispatchKey) -> Self {
        DispatchKeySet::of(key)
    }
}

impl std::ops::BitOr for DispatchKeySet {
    type Output = Self;
    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

impl fmt::Debug for DispatchKeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The keys that this thread adds to every call and removes from every call, and those that tensors made by it carry beside their
/// backend's.
///
/// Each word is read and written by itself: see `# Note: store forwarding` in the crate's documentation.
struct ThreadKeys {
    include: Cell<u64>,
    exclude: Cell<u64>,
    creation: Cell<u64>,
}

thread_local! {
    static THREAD: ThreadKeys = const { ThreadKeys {
        include: Cell::new(1 << DispatchKey::Profiler as u8),
        exclude: Cell::new(0),
        creation: Cell::new(1 << DispatchKey::ADInplaceOrView as u8),
    } };
}

/// `keys` with this thread's inclusions added and its exclusions removed.
#[inline]
pub fn apply_thread_keys(keys: DispatchKeySet) -> DispatchKeySet {
    THREAD.with(|thread| DispatchKeySet((keys.0 | thread.include.get()) & !thread.exclude.get()))
}

/// The keys beyond the backend that a tensor made on this thread carries: none in inference mode.
#[inline]
pub fn creation_keys() -> DispatchKeySet {
    THREAD.with(|thread| DispatchKeySet(thread.creation.get()))
}

/// Has calls on this thread pass through `keys` whatever the tensors, or no longer; returns which of them did before. For what is
/// entered and left by separate calls, such as the modes of a front end; within one function use [`ThreadKeysGuard::include`].
pub fn set_included(keys: DispatchKeySet, on: bool) -> DispatchKeySet {
    THREAD.with(|thread| {
        let before = thread.include.get();
        thread.include.set(if on { before | keys.0 } else { before & !keys.0 });
        DispatchKeySet(before & keys.0)
    })
}

/// Changes this thread's keys until it is dropped, which restores what was before. Guards are to be dropped in reverse order.
#[must_use = "the change lasts as long as the guard"]
pub struct ThreadKeysGuard {
    before: Before,
    not_send: std::marker::PhantomData<*const ()>,
}

/// The word that a guard has changed, with its former value.
#[derive(Clone, Copy)]
enum Before {
    Include(u64),
    Exclude(u64),
    Creation(u64),
}

impl ThreadKeysGuard {
    #[inline]
    fn new(change: impl FnOnce(&ThreadKeys) -> Before) -> Self {
        ThreadKeysGuard { before: THREAD.with(change), not_send: std::marker::PhantomData }
    }

    /// Calls on this thread skip `keys`.
    #[inline]
    pub fn exclude(keys: DispatchKeySet) -> Self {
        Self::new(|t| Before::Exclude(t.exclude.replace(t.exclude.get() | keys.0)))
    }

    /// Calls on this thread no longer skip `keys`.
    #[inline]
    pub fn stop_excluding(keys: DispatchKeySet) -> Self {
        Self::new(|t| Before::Exclude(t.exclude.replace(t.exclude.get() & !keys.0)))
    }

    /// Calls on this thread pass through `keys` whatever the tensors.
    #[inline]
    pub fn include(keys: DispatchKeySet) -> Self {
        Self::new(|t| Before::Include(t.include.replace(t.include.get() | keys.0)))
    }

    /// Calls on this thread pass through `keys` only if a tensor has them.
    #[inline]
    pub fn stop_including(keys: DispatchKeySet) -> Self {
        Self::new(|t| Before::Include(t.include.replace(t.include.get() & !keys.0)))
    }

    /// Tensors made on this thread carry just `keys` beyond their backend.
    #[inline]
    pub fn create_with(keys: DispatchKeySet) -> Self {
        Self::new(|t| Before::Creation(t.creation.replace(keys.0)))
    }
}

impl Drop for ThreadKeysGuard {
    #[inline]
    fn drop(&mut self) {
        THREAD.with(|thread| match self.before {
            Before::Include(keys) => thread.include.set(keys),
            Before::Exclude(keys) => thread.exclude.set(keys),
            Before::Creation(keys) => thread.creation.set(keys),
        });
    }
}
