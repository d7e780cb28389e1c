//! Guards: elements of a storage are accessed only under one, shared for reading and exclusive for writing.
//!
//! Kernels take [`StorageGuards`] on all their operands at once, in the order of addresses, so that two kernels never deadlock.
//! Accessors, which a program may hold for any time, own a [`ReadGuard`] or [`WriteGuard`]. The thread remembers those, so that a
//! conflict with its own is an error and not a deadlock; and a thread that holds any guard waits for another one for [`GUARD_TIMEOUT`]
//! at most.

mod set;
mod uncounted;

pub(crate) use uncounted::counts;
pub use uncounted::uncounted;

use crate::storage::{Storage, StorageImpl};
use crate::storage_lock::{Access, StorageLock};
use crate::{Error, ErrorKind, Result, StridedView, bail, ensure, fork};
use set::Set;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::time::{Duration, Instant};
use uncounted::count_write;

/// How long a thread that holds a guard waits for another one before it returns an error: each of two such threads may hold what the
/// other waits for.
pub const GUARD_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes guards not `Send`: the thread that takes a guard counts it.
type OfThisThread = PhantomData<*const ()>;

#[cfg(not(loom))]
thread_local! {
    /// How many guards and sets of guards this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// The addresses of the storages whose accessors this thread holds.
    static ACCESSORS: RefCell<Vec<(usize, Access)>> = const { RefCell::new(Vec::new()) };
}

#[cfg(loom)]
loom::thread_local! {
    static HELD: Cell<usize> = Cell::new(0);
    static ACCESSORS: RefCell<Vec<(usize, Access)>> = RefCell::new(Vec::new());
}

/// Changes the number of guards that this thread holds.
#[inline(always)]
fn hold(change: isize) {
    HELD.with(|held| held.set(held.get().wrapping_add_signed(change)));
}

/// Takes one lock; the caller counts the write if it is for writing.
#[inline(always)]
fn lock(storage: &StorageImpl, access: Access) -> Result<()> {
    if access == Access::Write {
        ensure_writable(storage)?;
    }
    if storage.lock.try_lock(access) { Ok(()) } else { lock_contended(storage, access) }
}

#[inline]
fn ensure_writable(storage: &StorageImpl) -> Result<()> {
    ensure!(!storage.is_read_only(), Aliasing, "expected memory that may be written but it is read-only");
    Ok(())
}

#[cold]
#[inline(never)]
fn lock_contended(storage: &StorageImpl, access: Access) -> Result<()> {
    if !storage.lock.is_host() {
        return Err(not_host(storage));
    }
    wait(storage, access, StorageLock::lock)
}

#[cold]
fn not_host(storage: &StorageImpl) -> Error {
    let device = storage.device();
    match device.is_cpu() {
        true => Error::new(
            ErrorKind::NotImplemented,
            "expected strided elements but got a tensor whose layout keeps them elsewhere",
        ),
        false => Error::new(
            ErrorKind::Device,
            format!("expected elements that the host may touch but got a tensor on {device}"),
        ),
    }
}

/// Takes one lock by calling `lock`, with a deadline if this thread holds guards or is in a forked child.
fn wait(
    storage: &StorageImpl,
    access: Access,
    lock: fn(&StorageLock, Access, Option<Instant>) -> bool,
) -> Result<()> {
    let busy = |who| {
        let what = if access == Access::Write { "written" } else { "read" };
        Error::new(ErrorKind::Busy, format!("the elements cannot be {what} now: {who}"))
    };
    if conflicts_with_own(storage, access) {
        return Err(busy("this thread holds an accessor to them; drop it first"));
    }
    let timeout = match () {
        () if HELD.with(Cell::get) > 0 => Some(GUARD_TIMEOUT),
        () if fork::in_child() => Some(fork::CHILD_LOCK_TIMEOUT),
        () => None,
    };
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    if lock(&storage.lock, access, deadline) {
        return Ok(());
    }
    Err(busy(if timeout == Some(GUARD_TIMEOUT) {
        "another accessor or operator holds them, and this thread waited for it in vain while holding others"
    } else {
        "another thread holds them, perhaps one that was running an operator when this process was forked"
    }))
}

/// Whether an accessor of this thread excludes the access.
fn conflicts_with_own(storage: &StorageImpl, access: Access) -> bool {
    let conflicts =
        |&(address, held): &_| address == storage.address() && (held, access) != (Access::Read, Access::Read);
    // An exiting thread has no list any more, and has dropped its accessors, unless they were leaked.
    ACCESSORS.try_with(|accessors| accessors.borrow().iter().any(conflicts)).unwrap_or(false)
}

/// Proof that guards are held, without which a [`StridedView`] gives no address.
#[derive(Clone, Copy)]
pub struct Guarded<'g>(PhantomData<&'g ()>);

impl Guarded<'_> {
    /// The address of the view's first element, which is valid for reading, or for writing if the guard is exclusive, as long as the
    /// guards are held. The view's storage must be one of those that are guarded, or have no other owner.
    ///
    /// ```
    /// use flambeau_core::{Access, Device, ScalarType, StridedView, TensorImpl, storage_guards::with_guards};
    /// let tensor = TensorImpl::empty_contiguous(&[2, 3], ScalarType::F32, Device::CPU)?;
    /// let view = StridedView::of(&tensor);
    /// let is_aligned = with_guards(&[(view.storage(), Access::Read)], |guarded| guarded.ptr(view).cast::<f32>().is_aligned())?;
    /// assert!(is_aligned);
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    #[inline(always)]
    pub fn ptr(self, view: StridedView<'_>) -> *mut u8 {
        self.ptr_at(view.storage(), view.byte_offset())
    }

    /// The same for a view of which the caller only has the storage and the [offset](StridedView::byte_offset).
    #[inline(always)]
    pub fn ptr_at(self, storage: &Storage, byte_offset: usize) -> *mut u8 {
        storage.data_ptr().wrapping_add(byte_offset)
    }
}

/// Guards on the storages of a kernel's operands, one for each storage; released when dropped.
///
/// ```
/// use flambeau_core::{Device, storage::Storage, storage_guards::StorageGuards, storage_lock::Access};
///
/// let (a, b) = (Storage::new(64, Device::CPU)?, Storage::new(64, Device::CPU)?);
/// let operands = [(&a, Access::Write), (&b, Access::Read), (&a, Access::Read)];
/// let guards = StorageGuards::acquire(&operands)?;
/// assert_eq!((a.version(), b.version()), (1, 0));
/// drop(guards);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[must_use = "the elements are guarded only while this lives"]
pub struct StorageGuards<'a> {
    operands: &'a [(&'a Storage, Access)],
    here: OfThisThread,
}

impl<'a> StorageGuards<'a> {
    /// Takes a guard on each storage in `operands`, exclusive if any entry of it is for writing. Waits for other threads.
    ///
    /// # Errors
    /// - `Aliasing` if a storage to be written is read-only.
    /// - `Device` if the host may not access the bytes: see [`DeviceGuards`].
    /// - `Busy` if an accessor that this thread holds excludes it, or if this thread holds guards and has waited for
    ///   [`GUARD_TIMEOUT`].
    #[inline]
    pub fn acquire(operands: &'a [(&'a Storage, Access)]) -> Result<Self> {
        lock_all(operands)?;
        Ok(StorageGuards { operands, here: PhantomData })
    }

    /// The proof that these guards are held.
    #[inline(always)]
    pub fn guarded(&self) -> Guarded<'_> {
        Guarded(PhantomData)
    }
}

impl Drop for StorageGuards<'_> {
    #[inline]
    fn drop(&mut self) {
        unlock_all(self.operands);
    }
}

/// Calls `body` under guards on `operands`: what kernels do.
///
/// # Errors
/// Those of [`StorageGuards::acquire`].
///
/// ```
/// use flambeau_core::{Access, Device, Storage, storage_guards::with_guards};
/// let a = Storage::new(64, Device::CPU)?;
/// with_guards(&[(&a, Access::Write)], |_| ())?;
/// assert_eq!(a.version(), 1);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[inline]
pub fn with_guards<R>(
    operands: &[(&Storage, Access)],
    body: impl for<'g> FnOnce(Guarded<'g>) -> R,
) -> Result<R> {
    let guards = StorageGuards::acquire(operands)?;
    Ok(body(guards.guarded()))
}

/// The same guards for callers that access no byte on the host: kernels of a device, and changes of a storage itself. They may be taken
/// on the bytes of every device, the host's included, and order calls and advance versions as the host's guards do.
///
/// ```
/// use flambeau_core::{Access, Device, ErrorKind, Storage, storage_guards::{DeviceGuards, StorageGuards}};
///
/// let shape_only = Storage::new(64, Device::META)?;
/// let operands = [(&shape_only, Access::Write)];
/// assert_eq!(StorageGuards::acquire(&operands).map(drop).unwrap_err().kind(), ErrorKind::Device);
/// drop(DeviceGuards::acquire(&operands)?);
/// assert_eq!(shape_only.version(), 1);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[must_use = "the elements are guarded only while this lives"]
pub struct DeviceGuards<'a> {
    operands: &'a [(&'a Storage, Access)],
    here: OfThisThread,
}

impl<'a> DeviceGuards<'a> {
    /// Takes a guard on each storage in `operands`, as [`StorageGuards::acquire`] does.
    ///
    /// # Errors
    /// `Aliasing` and `Busy` as there.
    pub fn acquire(operands: &'a [(&'a Storage, Access)]) -> Result<Self> {
        lock_many(operands, |storage, access| {
            if access == Access::Write {
                ensure_writable(storage)?;
            }
            wait(storage, access, StorageLock::lock_for_device)
        })?;
        hold(1);
        Ok(DeviceGuards { operands, here: PhantomData })
    }
}

impl Drop for DeviceGuards<'_> {
    fn drop(&mut self) {
        unlock_all(self.operands);
    }
}

/// Locks each storage once; the small sets of most kernels take a fast path. Not generic and not inlined: every kernel calls this.
#[inline(never)]
fn lock_all(operands: &[(&Storage, Access)]) -> Result<()> {
    match *operands {
        [] => {}
        [(a, access)] => lock_one(a, access)?,
        [(a, access_a), (b, access_b)] if Storage::ptr_eq(a, b) => lock_one(a, access_a.max(access_b))?,
        [a, b] if try_each([a, b]) => {}
        [a, b] => lock_two(a, b)?,
        [a, b, c] if are_distinct([a, b, c]) && try_each([a, b, c]) => {}
        [a, b, c, d] if are_distinct([a, b, c, d]) && try_each([a, b, c, d]) => {}
        _ => lock_many(operands, lock)?,
    }
    hold(1);
    Ok(())
}

#[inline(always)]
fn lock_one(storage: &StorageImpl, access: Access) -> Result<()> {
    if access == Access::Write && !storage.is_plain() {
        return lock_and_count(storage, access);
    }
    if !storage.lock.try_lock(access) {
        lock_contended(storage, access)?;
    }
    note_plain_write(storage, access);
    Ok(())
}

/// The same for a storage whose writes are refused or may not count.
#[cold]
#[inline(never)]
fn lock_and_count(storage: &StorageImpl, access: Access) -> Result<()> {
    lock(storage, access)?;
    note_write(storage, access);
    Ok(())
}

/// Whether no storage occurs twice.
#[inline(always)]
fn are_distinct<const N: usize>(operands: [(&Storage, Access); N]) -> bool {
    let mut distinct = true;
    for i in 1..N {
        for j in 0..i {
            distinct &= !Storage::ptr_eq(operands[i].0, operands[j].0);
        }
    }
    distinct
}

/// Locks each of distinct storages, in any order, if that is possible without waiting and every write is allowed and counts.
#[inline(always)]
fn try_each<const N: usize>(operands: [(&Storage, Access); N]) -> bool {
    for i in 0..N {
        let (storage, access) = operands[i];
        let is_special = access == Access::Write && !storage.is_plain();
        if is_special || !storage.lock.try_lock(access) {
            unlock_distinct(&operands[..i]);
            return false;
        }
    }
    for (storage, access) in operands {
        note_plain_write(storage, access);
    }
    true
}

/// Locks both in the order of addresses, waiting if necessary.
#[cold]
fn lock_two(a: (&Storage, Access), b: (&Storage, Access)) -> Result<()> {
    let (first, second) = if a.0.address() < b.0.address() { (a, b) } else { (b, a) };
    lock(first.0, first.1)?;
    if let Err(error) = lock(second.0, second.1) {
        first.0.lock.unlock(first.1);
        return Err(error);
    }
    // Only when both are taken, so that a failed call leaves no trace.
    note_write(first.0, first.1);
    note_write(second.0, second.1);
    Ok(())
}

fn lock_many(
    operands: &[(&Storage, Access)],
    lock: impl Fn(&StorageImpl, Access) -> Result<()>,
) -> Result<()> {
    let all = Set::new(operands);
    for (done, (storage, access)) in all.in_order().enumerate() {
        if let Err(error) = lock(storage, access) {
            all.in_order().take(done).for_each(|(storage, access)| storage.lock.unlock(access));
            return Err(error);
        }
    }
    all.written().for_each(count_write);
    Ok(())
}

/// Releases what [`lock_all`] took for the same list.
#[inline(never)]
fn unlock_all(operands: &[(&Storage, Access)]) {
    match *operands {
        [] => {}
        [(a, _)] => a.lock.unlock_held(),
        [(a, _), (b, _)] if Storage::ptr_eq(a, b) => a.lock.unlock_held(),
        [a, b] => unlock_distinct(&[a, b]),
        [a, b, c] if are_distinct([a, b, c]) => unlock_distinct(&[a, b, c]),
        [a, b, c, d] if are_distinct([a, b, c, d]) => unlock_distinct(&[a, b, c, d]),
        _ => Set::new(operands).each().for_each(|storage| storage.lock.unlock_held()),
    }
    hold(-1);
}

#[inline(always)]
fn unlock_distinct(operands: &[(&Storage, Access)]) {
    for (storage, access) in operands {
        storage.lock.unlock(*access);
    }
}

/// For a storage that was [plain](StorageImpl::is_plain) before it was locked.
#[inline(always)]
fn note_plain_write(storage: &StorageImpl, access: Access) {
    if access == Access::Write {
        storage.advance_version();
    }
}

fn note_write(storage: &StorageImpl, access: Access) {
    if access == Access::Write {
        count_write(storage);
    }
}

/// The exclusive lock of one storage, of any device, for changing the geometry of tensors that use it. It is no write: the version does
/// not advance, and read-only memory can be locked.
pub(crate) struct Exclusive<'a> {
    storage: &'a StorageImpl,
    here: OfThisThread,
}

impl<'a> Exclusive<'a> {
    /// # Errors
    /// `Busy` as for [`StorageGuards::acquire`].
    pub(crate) fn acquire(storage: &'a StorageImpl) -> Result<Self> {
        wait(storage, Access::Write, StorageLock::lock_for_device)?;
        hold(1);
        Ok(Exclusive { storage, here: PhantomData })
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.storage.lock.unlock(Access::Write);
        hold(-1);
    }
}

/// A guard that owns its storage, and that is on its thread's list.
struct Accessor {
    storage: Storage,
    access: Access,
    here: OfThisThread,
}

impl Accessor {
    fn acquire(storage: &Storage, access: Access) -> Result<Self> {
        lock(storage, access)?;
        Self::locked(storage, access)
    }

    /// Puts a lock that was just taken on the thread's list.
    fn locked(storage: &Storage, access: Access) -> Result<Self> {
        let entry = (storage.address(), access);
        if ACCESSORS.try_with(|accessors| accessors.borrow_mut().push(entry)).is_err() {
            storage.lock.unlock(access);
            bail!(Busy, "expected a running thread but it is exiting and can take no accessor");
        }
        note_write(storage, access);
        hold(1);
        Ok(Accessor { storage: storage.clone(), access, here: PhantomData })
    }
}

impl Drop for Accessor {
    fn drop(&mut self) {
        let entry = (self.storage.address(), self.access);
        // If the list no longer exists, the thread is exiting, and there is nothing to remove.
        let _ = ACCESSORS.try_with(|accessors| {
            let mut accessors = accessors.borrow_mut();
            if let Some(at) = accessors.iter().rposition(|other| *other == entry) {
                accessors.swap_remove(at);
            }
        });
        hold(-1);
        self.storage.lock.unlock(self.access);
    }
}

/// Permits reading the elements as long as it lives, as do the guards of other readers; it owns the storage.
#[must_use = "the elements are guarded only while this lives"]
pub struct ReadGuard(Accessor);

impl ReadGuard {
    /// Takes the guard; waits for a writer on another thread.
    ///
    /// # Errors
    /// `Busy` as for [`StorageGuards::acquire`].
    pub fn acquire(storage: &Storage) -> Result<Self> {
        Accessor::acquire(storage, Access::Read).map(ReadGuard)
    }

    /// Takes the guard if that is possible without waiting.
    ///
    /// # Errors
    /// `Busy` where anybody is writing the elements, `Device` and `NotImplemented` where the host may not read them.
    ///
    /// ```
    /// use flambeau_core::{Device, ErrorKind, storage::Storage, storage_guards::{ReadGuard, WriteGuard}};
    ///
    /// let storage = Storage::new(64, Device::CPU)?;
    /// let writer = WriteGuard::acquire(&storage)?;
    /// let refused = std::thread::scope(|scope| scope.spawn(|| ReadGuard::try_acquire(&storage).is_err()).join());
    /// assert!(refused.is_ok_and(|refused| refused));
    /// drop(writer);
    /// assert!(ReadGuard::try_acquire(&storage).is_ok());
    /// # Ok::<(), flambeau_core::Error>(())
    /// ```
    pub fn try_acquire(storage: &Storage) -> Result<Self> {
        if !storage.lock.is_host() {
            return Err(not_host(storage));
        }
        ensure!(storage.lock.try_lock(Access::Read), Busy, "the elements are being written");
        Accessor::locked(storage, Access::Read).map(ReadGuard)
    }

    /// The storage that it guards.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// The address of the bytes: [`nbytes`](StorageImpl::nbytes) of them may be read while this lives.
    pub fn data_ptr(&self) -> *const u8 {
        self.0.storage.data_ptr()
    }
}

/// Permits reading and writing the elements as long as it lives, and excludes all other guards; it owns the storage.
///
/// ```
/// use flambeau_core::{Device, ErrorKind, storage::Storage, storage_guards::{ReadGuard, WriteGuard}};
///
/// let storage = Storage::new(64, Device::CPU)?;
/// let writer = WriteGuard::acquire(&storage)?;
/// assert_eq!(ReadGuard::acquire(&storage).map(drop).unwrap_err().kind(), ErrorKind::Busy);
/// drop(writer);
/// assert!(ReadGuard::acquire(&storage).is_ok());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[must_use = "the elements are guarded only while this lives"]
pub struct WriteGuard(Accessor);

impl WriteGuard {
    /// Takes the guard; waits for readers and writers on other threads.
    ///
    /// # Errors
    /// `Aliasing` and `Busy` as for [`StorageGuards::acquire`].
    pub fn acquire(storage: &Storage) -> Result<Self> {
        Accessor::acquire(storage, Access::Write).map(WriteGuard)
    }

    /// The storage that it guards.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// The address of the bytes: [`nbytes`](StorageImpl::nbytes) of them may be read and written while this lives.
    pub fn data_ptr(&self) -> *mut u8 {
        self.0.storage.data_ptr()
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
