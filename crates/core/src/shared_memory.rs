//! Storages that other processes see: carved out of big segments without a name, which end with the last process that has
//! them, however that one ends.
//!
//! A segment is a `memfd` (Linux), so nothing is left behind in a file system. The process that made a segment carves chunks
//! out of it; each chunk counts, in the segment itself, how many storages and messages hold it, and is used again when nobody
//! does. A process that is killed leaves its counts behind, and so its chunks unused for as long as the segment lives: never
//! the other way round. A handle names the segment and the chunk, and is good for one [`open`]: it holds the chunk itself.
//!
//! Guards know only the threads of their own process. Processes that write the same elements at once see a mixture of both
//! writes, as with PyTorch.

mod arena;
mod fork;
mod mapping;

use crate::storage::Storage;
use crate::{DataPtr, Device, Result, bail, ensure};
use arena::{Chunk, State};

/// What another process needs to open a shared storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle {
    /// The number that the segment has and no other.
    pub segment: u64,
    /// The length of the segment.
    pub segment_bytes: usize,
    /// Processes that have the segment open, each with its descriptor: the one that made it, and the sender.
    pub holders: [(u32, i32); 2],
    /// Where the bytes are in the segment.
    pub offset: usize,
    /// How many.
    pub nbytes: usize,
}

/// `nbytes` shared bytes, uninitialised.
///
/// # Errors
/// `OutOfMemory`, and `NotImplemented` off Linux.
///
/// ```
/// use flambeau_core::shared_memory;
/// # // Miri knows no memfd.
/// # if cfg!(all(target_os = "linux", not(miri))) {
/// let storage = shared_memory::allocate(1000)?;
/// let handle = shared_memory::send(&storage)?;
/// let same = shared_memory::open(&handle)?;
/// assert!(shared_memory::is_shared(&same) && same.nbytes() == 1000);
/// # }
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn allocate(nbytes: usize) -> Result<Storage> {
    let chunk = State::lock().allocate(nbytes)?;
    Ok(storage_of(chunk, nbytes))
}

/// Moves the bytes to shared memory, for all tensors that look at them.
///
/// # Errors
/// `InvalidArgument` where the memory is another library's or shared with one, `Device` off the host, and as for
/// [`allocate`].
pub fn share(storage: &Storage) -> Result<()> {
    if is_shared(storage) {
        return Ok(());
    }
    ensure!(
        storage.device() == Device::CPU,
        Device,
        "expected a storage on the CPU but got {}",
        storage.device()
    );
    ensure!(
        storage.is_resizable() && !storage.is_read_only(),
        InvalidArgument,
        "cannot move to shared memory what is foreign, or shared with another library; clone it first"
    );
    let chunk = State::lock().allocate(storage.nbytes())?;
    let address = chunk.address();
    storage.relocate(data_of(chunk, storage.nbytes()))?;
    State::lock().note(address, storage.downgrade());
    Ok(())
}

/// Whether the bytes are shared memory.
pub fn is_shared(storage: &Storage) -> bool {
    storage.device() == Device::CPU && State::lock().find(storage.data_ptr()).is_some()
}

/// A handle on a shared storage, for another process, good for one [`open`].
///
/// # Errors
/// `InvalidArgument` where the storage is not shared.
pub fn send(storage: &Storage) -> Result<Handle> {
    let state = State::lock();
    let Some(mapping) = state.find(storage.data_ptr()) else {
        bail!(InvalidArgument, "expected a storage in shared memory");
    };
    Ok(mapping.handle(storage.data_ptr(), storage.nbytes()))
}

/// The storage of a handle: the one that this process has of it already, or a new one.
///
/// # Errors
/// `Io` where no process has the segment open any more that the handle knows.
pub fn open(handle: &Handle) -> Result<Storage> {
    let (chunk, known) = State::lock().open(handle)?;
    if let Some(storage) = known {
        // The message's hold on the chunk ends here, outside the lock; the storage has one of its own.
        drop(chunk);
        return Ok(storage);
    }
    Ok(storage_of(chunk, handle.nbytes))
}

fn data_of(chunk: Chunk, nbytes: usize) -> DataPtr {
    chunk.into_data(nbytes)
}

fn storage_of(chunk: Chunk, nbytes: usize) -> Storage {
    let address = chunk.address();
    let storage = Storage::from_shared(data_of(chunk, nbytes), nbytes);
    State::lock().note(address, storage.downgrade());
    storage
}

#[cfg(test)]
mod tests;
