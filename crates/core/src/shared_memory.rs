//! Storages that other processes see: carved out of big segments without a name, which end with the last process that has
//! them, however that one ends.
//!
//! A segment is a `memfd` (Linux), so nothing is left behind in a file system, sealed against being cut short. The process that
//! made a segment carves chunks out of it. A record for each chunk, in the segment but apart from all elements, says which
//! processes hold it and how many messages; when there are none, the chunk is used again. A process shows that it lives by a
//! lock on the file, which the system takes away when it ends, so that what a killed one held is free too.
//!
//! A [`Handle`] names a record and a ticket, which the first process to open it takes out of the segment: a second time is an
//! error. Until then the message holds the chunk, for as long as the process that made the segment lives.
//!
//! A forked child holds what its parent held, on its own account, from before the fork until it lets it go or ends.
//!
//! Guards know only the threads of their own process. Processes that write the same elements at once see a mixture of both
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

/// What another process needs to open a shared storage, once. It holds the memory until it is opened, dropped, or, as bytes,
/// received.
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
    /// Where the ticket is taken back if the handle is dropped, and the process that may do so: a forked child's copy may not.
    issued: Option<(Arc<Mapping>, u32)>,
}

impl Handle {
    /// The handle as a message for another process. Received by nobody, it holds the memory until the process ends that
    /// allocated it.
    pub fn into_bytes(mut self) -> [u8; MESSAGE_BYTES] {
        self.issued = None;
        self.message.encode()
    }

    /// A handle out of the bytes that [`into_bytes`](Self::into_bytes) gave.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Handle> {
        Ok(Handle { message: Message::decode(bytes)?, issued: None })
    }

    /// The storage of the handle: the one that this process has of it already, or a new one.
    ///
    /// # Errors
    /// `InvalidArgument` where the message has been opened before, or is not one; `Io` where the processes that it names have
    /// ended, or have no such segment, and where that is not sealed; `OutOfMemory`.
    pub fn open(self) -> Result<Storage> {
        let (chunk, known) = State::lock().open(&self.message)?;
        // The chunk's second hold ends here, outside the lock.
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
/// `OutOfMemory`, and `Io` where the system refuses.
pub fn allocate(nbytes: usize) -> Result<Storage> {
    let chunk = State::lock().allocate(nbytes)?;
    Ok(storage_of(chunk))
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
    let moved = move_to_chunk(storage);
    // Another thread may have been first. Under a guard its move is seen whole.
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
    // Before the move, so that there is no moment at which the bytes are there and nobody knows.
    State::lock().note(&chunk, storage);
    storage.relocate(chunk.into_data())
}

/// Whether the bytes are a chunk of shared memory, and the storage the one that owns it: a foreign storage of the same bytes,
/// which came back from another library, is not.
pub fn is_shared(storage: &Storage) -> bool {
    State::lock().is_shared(storage)
}

/// A handle on a shared storage, for another process.
///
/// # Errors
/// `InvalidArgument` where the storage is not shared, `Busy` where too many messages have not been received yet.
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
    State::lock().note_as(id, &storage);
    storage
}

#[cfg(test)]
mod tests;
