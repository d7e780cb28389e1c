//! Storages: bytes that tensors share, with their address, number, device and version counter.

#![expect(
    unsafe_code,
    reason = "replaces the bytes under the exclusive lock, and takes ownership of foreign memory"
)]

use crate::allocator::{Allocator, CpuAllocator, DataPtr, allocator_for, cpu_has_its_own_allocator};
use crate::backend::{self, DeviceGuard};
use crate::intrusive_ptr::{IntrusivePtr, IntrusiveTarget, WeakIntrusivePtr};
use crate::storage_guards::{DeviceGuards, Exclusive, counts};
use crate::storage_lock::{Access, StorageLock};
use crate::sync::{AtomicU32, Ordering};
use crate::{Device, Result, bail, ensure};
use bytemuck::NoUninit;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Writing is refused.
const READ_ONLY: u8 = 1;
/// Some thread's writes may not count: [`uncounted`](crate::storage_guards::uncounted).
const MAY_BE_UNCOUNTED: u8 = 2;

/// Where a storage's bytes come from, which decides whether it can grow.
#[derive(Clone, Copy)]
enum Source {
    Allocator(&'static dyn Allocator),
    Foreign,
    /// There are no bytes.
    Nothing,
}

/// What a [`Storage`] owns.
///
/// Invariants:
/// 1. `data` is accessed only under the exclusive lock, or by the only owner.
/// 2. `address` and `nbytes` are those of `data`, and change only with it. They can be read without a lock, but may be outdated at once
///    unless one is held.
/// 3. `version` changes only under the exclusive lock.
pub struct StorageImpl {
    pub(crate) lock: StorageLock,
    version: AtomicU32,
    address: AtomicPtr<u8>,
    nbytes: AtomicUsize,
    data: UnsafeCell<DataPtr>,
    source: Source,
    device: Device,
    /// `READ_ONLY` and `MAY_BE_UNCOUNTED`, which a write has to heed. One number, so that most writes test once whether it is 0.
    special: AtomicU8,
    pinned: AtomicBool,
}

impl IntrusiveTarget for StorageImpl {}

// SAFETY: all fields are `Sync` but `data`, which is accessed as invariant 1 says.
unsafe impl Sync for StorageImpl {}

impl StorageImpl {
    #[inline(always)]
    fn new(data: DataPtr, nbytes: usize, device: Device, source: Source, read_only: bool) -> Self {
        let is_host = match source {
            Source::Allocator(by) => device.is_cpu() || by.is_host_accessible(),
            Source::Foreign => device.is_cpu(),
            Source::Nothing => false,
        };
        StorageImpl {
            lock: if is_host { StorageLock::new() } else { StorageLock::not_host() },
            version: AtomicU32::new(0),
            address: AtomicPtr::new(data.as_ptr()),
            nbytes: AtomicUsize::new(nbytes),
            data: UnsafeCell::new(data),
            source,
            device,
            special: AtomicU8::new(if read_only { READ_ONLY } else { 0 }),
            pinned: AtomicBool::new(false),
        }
    }

    /// How many bytes there are. Another thread may change that unless a guard is held.
    #[inline]
    pub fn nbytes(&self) -> usize {
        self.nbytes.load(Relaxed)
    }

    /// The address of the bytes: null on a device without memory. Another thread may change that unless a guard is held, and reading or
    /// writing there is sound only under a guard, or for the only owner.
    #[inline]
    pub fn data_ptr(&self) -> *mut u8 {
        self.address.load(Relaxed)
    }

    /// The device.
    #[inline]
    pub fn device(&self) -> Device {
        self.device
    }

    /// How many exclusive guards there have been. A saved variable keeps the number, and finds by it that the bytes may have changed
    /// since. It wraps after 2^32.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Relaxed)
    }

    /// Counts a write. The caller holds the exclusive lock, so there is no other write to the counter.
    #[inline]
    pub(crate) fn advance_version(&self) {
        self.version.store(self.version().wrapping_add(1), Ordering::Relaxed);
    }

    /// Whether writing is refused.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.special.load(Relaxed) & READ_ONLY != 0
    }

    /// Whether writes are allowed and count, so that nothing has to be looked up.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.special.load(Relaxed) == 0
    }

    /// Makes writes ask whether they count. Relaxed: those that do not are of the thread that calls this.
    pub(crate) fn ask_what_counts(&self) {
        self.special.fetch_or(MAY_BE_UNCOUNTED, Relaxed);
    }

    /// Whether [`Storage::grow`] can change the number of bytes: not that of foreign memory, nor where it is
    /// [pinned](Storage::pin).
    #[inline]
    pub fn is_resizable(&self) -> bool {
        !matches!(self.source, Source::Foreign) && !self.pinned.load(Relaxed)
    }

    /// Whether the host may access the bytes: not on Meta, where there are none, nor on a device with memory of its own.
    pub fn is_host(&self) -> bool {
        self.lock.is_host()
    }

    /// An address that identifies the storage, by which locks are ordered.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

impl fmt::Debug for StorageImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Storage({} bytes at {:p} on {})", self.nbytes(), self.data_ptr(), self.device)
    }
}

/// Bytes on a device, shared by all clones of this; freed with the last of them. One pointer wide.
///
/// ```
/// use flambeau_core::{Device, storage::Storage};
///
/// let a = Storage::new(1000, Device::CPU)?;
/// let b = a.clone();
/// b.grow(2000)?;
/// assert!(a.nbytes() == 2000 && Storage::ptr_eq(&a, &b));
/// assert!(Storage::new(1 << 50, Device::META)?.data_ptr().is_null());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Storage(IntrusivePtr<StorageImpl>);

/// A weak owner, which does not keep the bytes alive.
pub type WeakStorage = WeakIntrusivePtr<StorageImpl>;

impl Deref for Storage {
    type Target = StorageImpl;

    #[inline]
    fn deref(&self) -> &StorageImpl {
        &self.0
    }
}

impl From<IntrusivePtr<StorageImpl>> for Storage {
    fn from(owner: IntrusivePtr<StorageImpl>) -> Self {
        Storage(owner)
    }
}

impl Storage {
    /// `nbytes` uninitialised bytes from the device's allocator. On the meta device there is no memory, and only the number is stored.
    ///
    /// # Errors
    /// `Device` if the device has no allocator, and the allocator's, `OutOfMemory` foremost.
    #[inline]
    pub fn new(nbytes: usize, device: Device) -> Result<Self> {
        // Nearly all storages are of this kind, so there is no lookup, and the code is inlined.
        if device.is_cpu() && cpu_has_its_own_allocator() {
            return Self::allocated(CpuAllocator.allocate(nbytes)?, nbytes, device, &CpuAllocator);
        }
        Self::of_device(nbytes, device)
    }

    #[cold]
    #[inline(never)]
    fn of_device(nbytes: usize, device: Device) -> Result<Self> {
        if device.is_meta() {
            return Ok(Self::wrap(DataPtr::null(), nbytes, device, Source::Nothing, false));
        }
        let device = backend::resolve(device)?;
        Self::with_allocator(nbytes, device, allocator_for(device.device_type())?)
    }

    /// No bytes at all, for a layout that stores its elements otherwise: guards of the host refuse it on every device.
    pub fn without_bytes(device: Device) -> Self {
        Self::wrap(DataPtr::null(), 0, device, Source::Nothing, false)
    }

    /// The same, all zero.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn zeroed(nbytes: usize, device: Device) -> Result<Self> {
        if device.is_meta() {
            return Self::new(nbytes, device);
        }
        let device = backend::resolve(device)?;
        let _current = DeviceGuard::new(device)?;
        let allocator = allocator_for(device.device_type())?;
        let data = allocator.allocate_zeroed(nbytes)?;
        Self::allocated(data, nbytes, device, allocator)
    }

    /// `nbytes` uninitialised bytes from this allocator, which is also used when the storage grows.
    ///
    /// # Errors
    /// The allocator's.
    #[inline]
    pub fn with_allocator(nbytes: usize, device: Device, allocator: &'static dyn Allocator) -> Result<Self> {
        let data = allocate(allocator, device, nbytes)?;
        Self::allocated(data, nbytes, device, allocator)
    }

    #[inline]
    fn allocated(data: DataPtr, nbytes: usize, device: Device, by: &'static dyn Allocator) -> Result<Self> {
        ensure_enough(&data, nbytes)?;
        Ok(Self::wrap(data, nbytes, device, Source::Allocator(by), false))
    }

    /// A copy of `bytes` on the host.
    ///
    /// # Errors
    /// The allocator's.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let storage = Self::new(bytes.len(), Device::CPU)?;
        // SAFETY: the storage is that long, and has no other owner.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), storage.data_ptr(), bytes.len()) };
        Ok(storage)
    }

    /// The elements of a vector, as bytes of the host, without a copy.
    pub fn from_vec<T: NoUninit>(elements: Vec<T>) -> Self {
        let data = vec_data(elements);
        let nbytes = data.bytes();
        Self::wrap(data, nbytes, Device::CPU, Source::Allocator(&CpuAllocator), false)
    }

    /// `nbytes` bytes at `data` of a foreign owner, for whom `deleter` is called when no tensor needs them any more.
    ///
    /// # Safety
    /// - (valid) The bytes are initialised, and may be read and written on any thread until `deleter` has been called.
    /// - (quiet) Until then they are written only under guards, and read only under guards while an exclusive guard is held.
    pub unsafe fn from_foreign(
        data: *mut u8,
        nbytes: usize,
        device: Device,
        deleter: Box<dyn FnOnce() + Send>,
    ) -> Self {
        // SAFETY: (valid).
        let data = unsafe { DataPtr::with_closure(data, nbytes, deleter) };
        Self::wrap(data, nbytes, device, Source::Foreign, false)
    }

    /// The same for bytes that must not be written: an exclusive guard on them is refused.
    ///
    /// # Safety
    /// - (valid) The bytes are initialised, and may be read on any thread until `deleter` has been called.
    /// - (quiet) Until then nobody writes to them.
    pub unsafe fn from_foreign_read_only(
        data: *const u8,
        nbytes: usize,
        device: Device,
        deleter: Box<dyn FnOnce() + Send>,
    ) -> Self {
        // SAFETY: (valid); `read_only` refuses guards for writing.
        let data = unsafe { DataPtr::with_closure(data.cast_mut(), nbytes, deleter) };
        Self::wrap(data, nbytes, device, Source::Foreign, true)
    }

    /// Bytes of a chunk of shared memory, which frees it.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub(crate) fn from_shared(data: DataPtr, nbytes: usize) -> Self {
        Self::wrap(data, nbytes, Device::CPU, Source::Foreign, false)
    }

    #[inline]
    fn wrap(data: DataPtr, nbytes: usize, device: Device, source: Source, read_only: bool) -> Self {
        Storage(IntrusivePtr::new_with(|| StorageImpl::new(data, nbytes, device, source, read_only)))
    }

    /// Copies `nbytes` bytes that begin at `from.1` to those that begin at `to.1`, on any devices, and waits until the copy is done. Counts
    /// as a write.
    ///
    /// # Errors
    /// - `InvalidArgument` if one has fewer bytes, or both are the same storage.
    /// - `Device` if bytes cannot be copied from one device to the other; what the devices report.
    /// - `Aliasing` for read-only memory, `Busy` if an accessor of this thread excludes it.
    ///
    /// ```
    /// use flambeau_core::{Device, storage::Storage};
    /// let (a, b) = (Storage::from_bytes(b"torch")?, Storage::from_bytes(b"porch")?);
    /// Storage::copy_range((&a, 0), (&b, 0), 1)?;
    /// assert_eq!((a.version(), b.version()), (0, 1));
    /// assert!(Storage::copy_range((&a, 3), (&b, 0), 3).is_err());
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn copy_range(from: (&Storage, usize), to: (&Storage, usize), nbytes: usize) -> Result<()> {
        Self::copy_unless_written(from, to, nbytes, None)
    }

    /// The same for bytes that were computed from those of `to` when that had `version`.
    ///
    /// # Errors
    /// As for [`copy_range`](Self::copy_range), and `Busy` if others have written to it since.
    pub fn write_back(
        from: (&Storage, usize),
        to: (&Storage, usize),
        nbytes: usize,
        version: u32,
    ) -> Result<()> {
        Self::copy_unless_written(from, to, nbytes, Some(version))
    }

    fn copy_unless_written(
        from: (&Storage, usize),
        to: (&Storage, usize),
        nbytes: usize,
        version: Option<u32>,
    ) -> Result<()> {
        ensure!(!Self::ptr_eq(from.0, to.0), InvalidArgument, "expected two storages but got one");
        let operands = [(from.0, Access::Read), (to.0, Access::Write)];
        let _guards = DeviceGuards::acquire(&operands)?;
        // The guard counts as a write itself.
        let own = u32::from(counts(to.0));
        ensure!(
            version.is_none_or(|version| to.0.version() == version.wrapping_add(own)),
            Busy,
            "expected a storage that nobody writes to meanwhile but another thread has"
        );
        for (storage, start) in [from, to] {
            ensure!(
                start.checked_add(nbytes).is_some_and(|end| end <= storage.nbytes()),
                InvalidArgument,
                "expected {nbytes} bytes from byte {start} on but there are {} bytes",
                storage.nbytes()
            );
        }
        let (source, target) = (from.0.data_ptr().wrapping_add(from.1), to.0.data_ptr().wrapping_add(to.1));
        if from.0.is_host() && to.0.is_host() {
            // SAFETY: both are live and that long, distinct, and guarded.
            unsafe { std::ptr::copy_nonoverlapping(source, target, nbytes) };
            return Ok(());
        }
        // SAFETY: `copy` (valid), (quiet): as above.
        unsafe { backend::copy((from.0.device(), source), (to.0.device(), target), nbytes) }
    }

    /// A copy of all bytes on `device`.
    ///
    /// # Errors
    /// Those of [`new`](Self::new) and [`copy_range`](Self::copy_range).
    pub fn copied_to(&self, device: Device) -> Result<Self> {
        let nbytes = self.nbytes();
        let copy = Self::new(nbytes, device)?;
        Self::copy_range((self, 0), (&copy, 0), nbytes)?;
        Ok(copy)
    }

    /// Whether both share the same bytes.
    #[inline]
    pub fn ptr_eq(a: &Self, b: &Self) -> bool {
        IntrusivePtr::ptr_eq(&a.0, &b.0)
    }

    /// How many owners share the bytes.
    #[inline]
    pub fn use_count(&self) -> usize {
        IntrusivePtr::strong_count(&self.0)
    }

    /// Whether this is the only owner, weak ones included, so that no other can come to be.
    #[inline]
    pub fn is_unique(&self) -> bool {
        IntrusivePtr::is_unique(&self.0)
    }

    /// A weak owner, which does not keep the bytes alive.
    pub fn downgrade(&self) -> WeakStorage {
        IntrusivePtr::downgrade(&self.0)
    }

    /// Grows to at least `nbytes` bytes; existing bytes keep their values and new ones are uninitialised. Storages never shrink, so that
    /// the elements of a tensor stay inside. Counts as a write.
    ///
    /// # Errors
    /// - `InvalidArgument` if the memory is foreign or [pinned](Self::pin).
    /// - `Busy` if an accessor of this thread excludes it.
    /// - The allocator's; then nothing has changed.
    pub fn grow(&self, nbytes: usize) -> Result<()> {
        self.ensure_resizable()?;
        // Unlike the guards of kernels, this one leaves the version to us: it advances only if the storage has grown.
        let _exclusive = Exclusive::acquire(self)?;
        self.ensure_resizable()?;
        if nbytes <= self.nbytes() {
            return Ok(());
        }
        match self.source {
            Source::Allocator(allocator) => self.reallocate(nbytes, allocator)?,
            Source::Nothing => {}
            Source::Foreign => bail!(Internal, "foreign memory cannot grow"),
        }
        self.nbytes.store(nbytes, Relaxed);
        self.advance_version();
        Ok(())
    }

    fn ensure_resizable(&self) -> Result<()> {
        ensure!(
            self.is_resizable(),
            InvalidArgument,
            "Trying to resize storage that is not resizable: its memory is foreign, or shared with another library"
        );
        Ok(())
    }

    /// Keeps the bytes at their address as long as the storage lives, because another library has it.
    ///
    /// # Errors
    /// `Busy` if an accessor of this thread is writing.
    ///
    /// ```
    /// use flambeau_core::{Device, storage::Storage};
    /// let storage = Storage::new(8, Device::CPU)?;
    /// storage.pin()?;
    /// assert!(!storage.is_resizable() && storage.grow(16).is_err());
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn pin(&self) -> Result<()> {
        // Under a guard, so that no other thread is moving them now.
        let operands = [(self, Access::Read)];
        let _shared = DeviceGuards::acquire(&operands)?;
        self.pinned.store(true, Relaxed);
        Ok(())
    }

    /// Moves the bytes to `data`, and pins them. It is no write: their values do not change.
    #[cfg(all(target_os = "linux", not(loom)))]
    pub(crate) fn relocate(&self, data: DataPtr) -> Result<()> {
        let _exclusive = Exclusive::acquire(self)?;
        self.ensure_resizable()?;
        ensure_enough(&data, self.nbytes())?;
        // SAFETY: both are live, distinct and that long; one is fresh and the other locked.
        unsafe { std::ptr::copy_nonoverlapping(self.data_ptr(), data.as_ptr(), self.nbytes()) };
        self.install(data);
        self.pinned.store(true, Relaxed);
        Ok(())
    }

    /// Replaces the bytes. The caller holds the exclusive lock.
    fn reallocate(&self, nbytes: usize, allocator: &'static dyn Allocator) -> Result<()> {
        let data = allocate(allocator, self.device, nbytes)?;
        ensure_enough(&data, nbytes)?;
        // SAFETY: `copy` (valid): both are live, distinct, and that long; (quiet): one is fresh and the other locked.
        unsafe { allocator.copy(self.data_ptr(), data.as_ptr(), nbytes.min(self.nbytes()))? };
        self.install(data);
        Ok(())
    }

    /// Replaces the bytes by `data`, and frees them. The caller holds the exclusive lock.
    fn install(&self, data: DataPtr) {
        self.address.store(data.as_ptr(), Relaxed);
        // SAFETY: invariant 1: the caller holds the exclusive lock.
        drop(std::mem::replace(unsafe { &mut *self.data.get() }, data));
    }
}

/// Allocates on the device of this number, if there are several of its kind.
#[inline]
fn allocate(allocator: &dyn Allocator, device: Device, nbytes: usize) -> Result<DataPtr> {
    match device.index() {
        None => allocator.allocate(nbytes),
        Some(index) => {
            let _current = DeviceGuard::new(device)?;
            allocator.allocate_on(index, nbytes)
        }
    }
}

#[inline]
fn ensure_enough(data: &DataPtr, nbytes: usize) -> Result<()> {
    ensure!(
        data.bytes() >= nbytes,
        Internal,
        "expected {nbytes} bytes but the allocator gave {}",
        data.bytes()
    );
    Ok(())
}

/// A vector's elements as bytes that the vector's own allocation holds.
fn vec_data<T: NoUninit>(elements: Vec<T>) -> DataPtr {
    /// # Safety
    /// - The three are those of the vector below, and this is called once.
    unsafe fn free<T>(data: *mut u8, _: usize, capacity: *mut ()) {
        // SAFETY: the condition above. No element is dropped: they are `Copy`, and may hold any bytes by now.
        drop(unsafe { Vec::<T>::from_raw_parts(data.cast(), 0, capacity.addr()) });
    }
    let mut elements = ManuallyDrop::new(elements);
    let capacity = std::ptr::without_provenance_mut(elements.capacity());
    let bytes = size_of_val(elements.as_slice());
    // SAFETY: the vector's memory is initialised, since `T` has no padding, and stays until `free` is called, on
    // whichever thread: memory and `Copy` elements belong to none.
    unsafe { DataPtr::new(elements.as_mut_ptr().cast(), bytes, capacity, Some(free::<T>)) }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
