//! Where the bytes of tensors come from: an [`Allocator`] for each kind of device, which programs may replace.

#![expect(unsafe_code, reason = "hands out raw memory and calls the deleters of foreign memory")]

mod cpu;
#[cfg(all(unix, not(miri)))]
mod pages;
#[cfg(all(unix, not(miri)))]
mod regions;
mod reserve;
mod shared_cache;
mod size_class;
mod stats;
mod switches;
mod system;
pub(crate) mod thread_cache;

pub use cpu::CpuAllocator;
pub use reserve::WithReserve;
pub use size_class::ALIGNMENT;
pub use stats::MemoryStats;
pub use switches::{Fill, MemoryEvent, MemoryReporter};
pub(crate) use switches::{start_recording, stop_recording};

use crate::fork::{Forking, Hooks};
use crate::{DeviceType, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Gives out the memory of one kind of device.
pub trait Allocator: Send + Sync {
    /// At least `bytes` bytes that nobody else uses, uninitialised, on the device that is current for its kind.
    ///
    /// # Errors
    /// `OutOfMemory` if there are not that many.
    fn allocate(&self, bytes: usize) -> Result<DataPtr>;

    /// The same, all zero.
    ///
    /// # Errors
    /// As for [`allocate`](Self::allocate).
    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr>;

    /// Copies `bytes` bytes between allocations of this device.
    ///
    /// # Safety
    /// - (valid) Both ranges are inside live allocations of this device, and they do not overlap.
    /// - (quiet) Meanwhile nobody else writes to either, or reads `to`.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Whether the host may read and write the bytes it gives. Where it says no, guards of the host refuse them, and kernels of the
    /// host that meet them end with a `Device` error.
    fn is_host_accessible(&self) -> bool {
        false
    }

    /// What has been given out and what is kept.
    fn memory_stats(&self) -> MemoryStats;

    /// Lets the peak of the statistics start again from what is live now.
    fn reset_peak(&self);

    /// Returns the memory that is kept for later to the system.
    fn empty_cache(&self);
}

/// Frees memory: it gets the pointer, the number of bytes and the context that the [`DataPtr`] was made with.
pub type Deleter = unsafe fn(data: *mut u8, bytes: usize, context: *mut ());

/// Bytes on some device and how to free them; dropping it does.
///
/// ```
/// use flambeau_core::{DeviceType, allocator::allocator_for};
///
/// let data = allocator_for(DeviceType::Cpu)?.allocate(1000)?;
/// assert!(data.as_ptr().align_offset(64) == 0 && data.bytes() == 1000);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub struct DataPtr {
    data: *mut u8,
    bytes: usize,
    context: *mut (),
    deleter: Option<Deleter>,
}

// SAFETY: `DataPtr::new` demands a deleter that may run on any thread; nothing else here dereferences.
unsafe impl Send for DataPtr {}
// SAFETY: a shared one only tells its fields.
unsafe impl Sync for DataPtr {}

impl DataPtr {
    /// Takes over `bytes` bytes at `data`. Without a deleter they are never freed.
    ///
    /// # Safety
    /// - (valid) The bytes may be read and, unless the caller sees to it that nobody does, written, until the
    ///   deleter has been called.
    /// - (free) `deleter` may be called with these three values, once, on any thread.
    #[inline]
    pub const unsafe fn new(data: *mut u8, bytes: usize, context: *mut (), deleter: Option<Deleter>) -> Self {
        DataPtr { data, bytes, context, deleter }
    }

    /// Takes over `bytes` bytes at `data`, to be freed by a closure.
    ///
    /// # Safety
    /// - (valid) as for [`new`](Self::new), until `deleter` has been called.
    pub unsafe fn with_closure(data: *mut u8, bytes: usize, deleter: Box<dyn FnOnce() + Send>) -> Self {
        /// # Safety
        /// - `context` came from the `Box::into_raw` below, and this is called once.
        unsafe fn call(_: *mut u8, _: usize, context: *mut ()) {
            // SAFETY: the condition above.
            let deleter: Box<Box<dyn FnOnce() + Send>> = unsafe { Box::from_raw(context.cast()) };
            deleter();
        }
        let context = Box::into_raw(Box::new(deleter)).cast();
        // SAFETY: (valid); (free) the box is `Send`.
        unsafe { DataPtr::new(data, bytes, context, Some(call)) }
    }

    /// No bytes, at an address that is not null and aligned to 64.
    #[inline]
    pub const fn empty() -> Self {
        let data = ptr::without_provenance_mut(ALIGNMENT);
        DataPtr { data, bytes: 0, context: ptr::null_mut(), deleter: None }
    }

    /// No bytes, at the null pointer: the memory of a device that has none.
    #[inline]
    pub const fn null() -> Self {
        DataPtr { data: ptr::null_mut(), bytes: 0, context: ptr::null_mut(), deleter: None }
    }

    /// Where the bytes are.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.data
    }

    /// How many there are.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DataPtr {
    #[inline]
    fn drop(&mut self) {
        if let Some(deleter) = self.deleter {
            // SAFETY: `new` was promised that this may be done once.
            unsafe { deleter(self.data, self.bytes, self.context) }
        }
    }
}

impl fmt::Debug for DataPtr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:p}", self.bytes, self.data)
    }
}

/// Returns to the system what the library keeps of freed tensors, unless this thread is at work on that.
#[cold]
pub(crate) fn release_kept() {
    if shared_cache::is_at_rest() {
        CpuAllocator.empty_cache();
    }
}

/// Holds the locks of the host's allocator across forks, in the order in which statistics take them.
pub(crate) static AT_FORK: Hooks = Hooks::new(
    |forking| {
        thread_cache::THREADS.hold(forking, |_| ());
        shared_cache::CACHE.hold(forking, |_| ());
        #[cfg(all(unix, not(miri)))]
        regions::REGIONS.hold(forking, |_| ());
        reserve::BLOCKS.hold(forking, |_| ());
    },
    |forking| release_locks(forking, |_| ()),
    |forking| release_locks(forking, thread_cache::Threads::begin_child),
);

fn release_locks(forking: &Forking, change: fn(&mut thread_cache::Threads)) {
    reserve::BLOCKS.release(forking, |_| ());
    #[cfg(all(unix, not(miri)))]
    regions::REGIONS.release(forking, |_| ());
    shared_cache::CACHE.release(forking, |_| ());
    thread_cache::THREADS.release(forking, change);
}

/// A reference to a trait object is two words; an atomic pointer to one is one.
type Slot = AtomicPtr<&'static dyn Allocator>;

static CPU: &(dyn Allocator + 'static) = &CpuAllocator;

static ALLOCATORS: [Slot; DeviceType::COUNT] = {
    let mut slots = [const { Slot::new(ptr::null_mut()) }; DeviceType::COUNT];
    slots[DeviceType::Cpu as usize] = Slot::new((&raw const CPU).cast_mut());
    slots
};

/// Every registration there has been: a reader may still look at a former one. Listed, so that leak checkers see why.
static REGISTRATIONS: Mutex<Vec<&'static &'static dyn Allocator>> = Mutex::new(Vec::new());

/// The allocator of a kind of device.
///
/// # Errors
/// `Device` if there is none: no crate has brought one, or the device has no memory.
#[inline]
pub fn allocator_for(device_type: DeviceType) -> Result<&'static dyn Allocator> {
    let slot = NonNull::new(ALLOCATORS[device_type as usize].load(Ordering::Acquire));
    // SAFETY: slots point at statics or at what `set_allocator` leaked.
    slot.map(|slot| unsafe { *slot.as_ref() }).ok_or_else(|| no_allocator(device_type))
}

/// Whether nobody has [put another](set_allocator) in the place of the [`CpuAllocator`].
#[inline(always)]
pub(crate) fn cpu_has_its_own_allocator() -> bool {
    ptr::eq(ALLOCATORS[DeviceType::Cpu as usize].load(Ordering::Relaxed), &raw const CPU)
}

/// Makes `allocator` the one of a kind of device, for allocations from now on. What others have given out stays
/// theirs to free. The registration takes two words that are never freed.
pub fn set_allocator(device_type: DeviceType, allocator: &'static dyn Allocator) {
    let registration: &'static &'static dyn Allocator = Box::leak(Box::new(allocator));
    REGISTRATIONS.lock().push(registration);
    let slot = std::ptr::from_ref(registration).cast_mut();
    ALLOCATORS[device_type as usize].store(slot, Ordering::Release);
}

#[cold]
fn no_allocator(device_type: DeviceType) -> Error {
    let message =
        format!("expected a device with memory but no allocator is registered for {}", device_type.name());
    Error::new(ErrorKind::Device, message)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
