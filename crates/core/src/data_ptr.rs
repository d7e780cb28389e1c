//! Bytes on some device and how to free them, and the trait of allocators.
#![expect(unsafe_code, reason = "calls the deleters of foreign memory")]

use crate::Result;
use std::{fmt, ptr};

/// The address of no bytes: not null, and aligned as every allocation of the host is.
const EMPTY: usize = 64;

/// What an allocator has allocated and cached, in bytes as requested (blocks are up to a quarter larger).
///
/// While other threads allocate, the numbers are approximate; otherwise all but the peak are exact. The peak is exact for one thread,
/// and may be too small by up to 64 KiB for each further one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Bytes in allocations that have not been freed.
    pub live_bytes: usize,
    /// The maximum of `live_bytes` since the start or the last reset.
    pub peak_bytes: usize,
    /// Bytes of freed blocks that all threads cache, blocks of small objects included.
    pub cached_bytes: usize,
    /// How many allocations there have been. Those of no bytes do not count.
    pub allocations: u64,
    /// How many of them have been freed.
    pub frees: u64,
}

/// Allocates the memory of one kind of device.
pub trait Allocator: Send + Sync {
    /// Allocates at least `bytes` bytes, uninitialised, on the device that is current for its kind.
    ///
    /// # Errors
    /// `OutOfMemory` if there are not that many.
    fn allocate(&self, bytes: usize) -> Result<DataPtr>;

    /// The same on the `index`-th device of its kind, which exists and is current meanwhile.
    ///
    /// # Errors
    /// As for [`allocate`](Self::allocate).
    fn allocate_on(&self, index: usize, bytes: usize) -> Result<DataPtr> {
        let _ = index;
        self.allocate(bytes)
    }

    /// As [`allocate`](Self::allocate), all zero.
    ///
    /// # Errors
    /// As there.
    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr>;

    /// Copies `bytes` bytes between allocations of this device.
    ///
    /// # Safety
    /// - (valid) Both ranges are inside live allocations of this device, and they do not overlap.
    /// - (quiet) Meanwhile no other thread writes to either range, or reads `to`.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()>;

    /// Whether the host may read and write the bytes that it allocates. If not, guards of the host refuse them, and kernels of the host
    /// return a `Device` error for them.
    fn is_host_accessible(&self) -> bool {
        false
    }

    /// What is allocated and what is cached.
    fn memory_stats(&self) -> MemoryStats;

    /// Resets the peak of the statistics to the bytes that are live now.
    fn reset_peak(&self);

    /// Returns cached memory to the system.
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
// SAFETY: shared references only read its fields.
unsafe impl Sync for DataPtr {}

impl DataPtr {
    /// Takes over `bytes` bytes at `data`. Without a deleter they are never freed.
    ///
    /// # Safety
    /// - (valid) The bytes may be read and, unless the caller makes sure that nothing is written, written until the deleter has been
    ///   called.
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
        let data = ptr::without_provenance_mut(EMPTY);
        DataPtr { data, bytes: 0, context: ptr::null_mut(), deleter: None }
    }

    /// No bytes, at the null pointer: the memory of a device that has none.
    #[inline]
    pub const fn null() -> Self {
        DataPtr { data: ptr::null_mut(), bytes: 0, context: ptr::null_mut(), deleter: None }
    }

    /// The address of the bytes.
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
