//! Storages in shared memory: chunks of large segments without a name, which the system frees when the last process that has them open
//! ends, however it ends.
//!
//! A segment is a `memfd` (Linux), so that no file is left behind, and is sealed against truncation. The process that created a segment
//! allocates chunks in it. A record for each chunk, in the segment but separate from all elements, counts which processes and how many
//! messages hold the chunk; when none do, it is reused. A process proves that it is alive by a lock on the file, which the system
//! releases when the process ends, so that chunks of a killed process are reused too.
//!
//! A [`Handle`] contains the number of a record and a ticket, which the first process to open it takes out of the segment: opening it
//! again is an error. Until then the message holds the chunk, as long as the process that created the segment lives.
//!
//! A forked child holds what its parent held, by slots of its own, from before the fork until it releases it or ends.
//!
//! Guards exclude only threads of the same process. Processes that write the same elements at once see a mixture of both
//! writes, as with PyTorch.

mod arena;
mod mapping;
mod members;
mod message;
mod records;
mod segment;
mod space;

pub use message::MESSAGE_BYTES;

use crate::storage::Storage;
use crate::storage_guards::with_guards;
use crate::storage_lock::Access;
use crate::{Device, Result, bail, ensure};
use arena::{Chunk, State};
use mapping::Mapping;
use message::Message;
use std::fmt;
use std::sync::Arc;

/// What another process needs to open a shared storage, once. It holds the memory until it is opened or dropped, or until the message
/// made of it is received.
///
/// ```
/// use flambeau_core::shared_memory::{self, Handle};
/// # // Miri knows no memfd.
/// # if cfg!(all(target_os = "linux", not(miri))) {
/// let storage = shared_memory::allocate(1000)?;
/// let message = shared_memory::send(&storage)?.into_bytes();
/// let same = Handle::from_bytes(&message)?.open()?;
/// assert!(shared_memory::is_shared(&same) && same.nbytes() == 1000);
/// assert!(Handle::from_bytes(&message)?.open().is_err());
/// # }
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[must_use = "it holds the memory until it is opened or dropped"]
pub struct Handle {
    message: Message,
    /// The segment from which a dropped handle withdraws its ticket, and the process that may do so: a forked child's copy may not.
    issued: Option<(Arc<Mapping>, u32)>,
}

impl Handle {
    /// The handle as a message for another process. If it is never received, it holds the memory until the process that allocated it
    /// ends.
    pub fn into_bytes(mut self) -> [u8; MESSAGE_BYTES] {
        self.issued = None;
        self.message.encode()
    }

    /// A handle of the bytes that [`into_bytes`](Self::into_bytes) returned.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Handle> {
        Ok(Handle { message: Message::decode(bytes)?, issued: None })
    }

    /// The storage of the handle: the one that this process already has of that chunk, or a new one.
    ///
    /// # Errors
    /// `InvalidArgument` if the message has been opened before, or is not one; `Io` if the processes that it was sent from have ended or
    /// have no such segment, or if that is not sealed; `OutOfMemory`.
    pub fn open(self) -> Result<Storage> {
        let (chunk, known) = State::lock().open(&self.message)?;
        // If the storage is known, the second hold on its chunk is dropped here, outside the lock.
        Ok(known.unwrap_or_else(|| storage_of(chunk)))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some((mapping, process)) = self.issued.take() {
            State::lock().withdraw(&mapping, process, &self.message);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(..)")
    }
}

/// `nbytes` shared bytes, uninitialised.
///
/// # Errors
/// `OutOfMemory`, and `Io` if the system refuses.
pub fn allocate(nbytes: usize) -> Result<Storage> {
    let chunk = State::lock().allocate(nbytes)?;
    Ok(storage_of(chunk))
}

/// Moves the bytes of a storage to shared memory, for all tensors that use it.
///
/// # Errors
/// `InvalidArgument` if the memory is another library's or shared with one, `Device` if it is not the host's, and as for [`allocate`].
pub fn share(storage: &Storage) -> Result<()> {
    if is_shared(storage) {
        return Ok(());
    }
    let moved = move_to_chunk(storage);
    // Another thread may have moved it first. Under a guard its move is complete.
    if moved.is_err() && with_guards(&[(storage, Access::Read)], |_| is_shared(storage)).unwrap_or(false) {
        return Ok(());
    }
    moved
}

fn move_to_chunk(storage: &Storage) -> Result<()> {
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
    // Before the move, so that the storage is never in a chunk that is not known to be its own.
    State::lock().set_storage(&chunk, storage);
    storage.relocate(chunk.into_data())
}

/// Whether the storage owns a chunk of shared memory. A foreign storage of the same bytes, which came back from another library, does
/// not.
pub fn is_shared(storage: &Storage) -> bool {
    State::lock().is_shared(storage)
}

/// A handle on a shared storage, for another process.
///
/// # Errors
/// `InvalidArgument` if the storage is not shared, `Busy` if too many messages have not been received yet.
pub fn send(storage: &Storage) -> Result<Handle> {
    let mut state = State::lock();
    let Some(sent) = state.send(storage) else {
        bail!(InvalidArgument, "expected a storage in shared memory");
    };
    let (message, mapping) = sent?;
    Ok(Handle { message, issued: Some((mapping, state.process())) })
}

fn storage_of(chunk: Chunk) -> Storage {
    let id = chunk.id();
    let nbytes = chunk.nbytes();
    let storage = Storage::from_shared(chunk.into_data(), nbytes);
    State::lock().set_storage_of(id, &storage);
    storage
}

#[cfg(test)]
mod tests;
