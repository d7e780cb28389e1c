//! A segment that is mapped in this process: created by it, or opened from a message.

#![expect(unsafe_code, reason = "makes, seals and maps files")]

use super::members::{CREATOR, Member, NONE, reopened};
use super::message::{Message, Opened};
use super::records::{Layout, unused_number};
use crate::{Error, ErrorKind, Result, ensure};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

/// The seals of a segment: without them a process that has it open could truncate it while others access its pages.
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
const NO_DESCRIPTOR: RawFd = -1;

/// A mapped segment; unmapped and closed when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    pub(super) layout: Layout,
    /// The file, which is owned, and with it the lock of the slot. A forked child has another descriptor and slot than its parent.
    descriptor: AtomicI32,
    slot: AtomicU32,
    pub(super) number: u64,
    /// The process that created it, and its descriptor there.
    creator: Opened,
}

// SAFETY: the memory belongs to no thread; everything that is read here is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        let slot = self.slot();
        if slot != CREATOR && slot != NONE {
            // While the lock is still held. Every chunk that this process holds keeps the mapping, so it holds none.
            self.mark_free(slot);
        }
        // SAFETY: it was mapped with this length, and every storage in it keeps the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.layout.bytes) };
        drop(self.leave());
    }
}

impl Mapping {
    /// A new segment of `bytes` bytes, which are zeros.
    pub(super) fn create(bytes: usize) -> Result<Self> {
        let Some(layout) = Layout::of(bytes) else {
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("cannot make {bytes} bytes of shared memory"),
            ));
        };
        let file = anonymous_file(bytes)?;
        let start = map(&file, bytes)?;
        let creator = (std::process::id(), file.as_raw_fd());
        let made = Self::of(start, layout, file, CREATOR, unused_number(), creator);
        made.write_number();
        Ok(made)
    }

    fn of(start: NonNull<u8>, layout: Layout, file: File, slot: u32, number: u64, creator: Opened) -> Self {
        let (descriptor, slot) = (AtomicI32::new(file.into_raw_fd()), AtomicU32::new(slot));
        Mapping { start, layout, descriptor, slot, number, creator }
    }

    /// The segment of a message, if one of the processes that had it open still has.
    pub(super) fn open(message: &Message) -> Result<Self> {
        let opened = message.opened.iter().find_map(|opened| Self::open_of(*opened, message));
        opened.ok_or_else(|| {
            let (process, _) = message.opened[1];
            let text = format!(
                "cannot open shared memory: process {process}, which sent it, has ended or closed it before it was received, \
                 or has no such segment; keep the sender alive until then"
            );
            Error::new(ErrorKind::Io, text)
        })
    }

    /// Opens the file of another process's descriptor. That descriptor may be another file's by now, so the file is checked before it is
    /// opened, and the number that is written in the segment after it.
    fn open_of((process, descriptor): Opened, message: &Message) -> Option<Self> {
        let layout = Layout::of(usize::try_from(message.bytes).ok()?)?;
        let path = format!("/proc/{process}/fd/{descriptor}");
        // Opening a pipe or a device may block or have side effects; `O_PATH` does not open it.
        let path = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path).ok()?;
        let metadata = path.metadata().ok()?;
        if !metadata.is_file() || metadata.len() != message.bytes {
            return None;
        }
        let file = reopened(path.as_raw_fd())?;
        if !is_sealed(&file) || file.metadata().ok()?.len() != message.bytes {
            return None;
        }
        let start = map(&file, layout.bytes).ok()?;
        let opened = Self::of(start, layout, file, NONE, message.segment, message.opened[0]);
        if opened.written_number() != message.segment {
            return None;
        }
        let file = opened.leave().map(File::from)?;
        opened.enter(opened.join(file));
        Some(opened)
    }

    /// Makes the process use the slot and the descriptor of `member`.
    pub(super) fn enter(&self, member: Member) {
        self.descriptor.store(member.file.into_raw_fd(), Relaxed);
        self.slot.store(member.slot, Relaxed);
    }

    /// Gives up the slot, and returns the descriptor, which its drop closes.
    pub(super) fn leave(&self) -> Option<OwnedFd> {
        self.slot.store(NONE, Relaxed);
        let descriptor = self.descriptor.swap(NO_DESCRIPTOR, Relaxed);
        // SAFETY: the mapping owned it, and has it no longer.
        (descriptor != NO_DESCRIPTOR).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
    }

    pub(super) fn descriptor(&self) -> Option<RawFd> {
        Some(self.descriptor.load(Relaxed)).filter(|descriptor| *descriptor != NO_DESCRIPTOR)
    }

    pub(super) fn slot(&self) -> u32 {
        self.slot.load(Relaxed)
    }

    /// Two processes that have the segment open: the one that created it, and this one.
    pub(super) fn opened(&self) -> [Opened; 2] {
        [self.creator, (std::process::id(), self.descriptor.load(Relaxed))]
    }

    /// The address at `offset`, which is inside.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }
}

fn is_sealed(file: &File) -> bool {
    // SAFETY: a descriptor of ours.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & SEALS == SEALS
}

/// A file of memory without a name, which is sealed against truncation.
fn anonymous_file(bytes: usize) -> Result<File> {
    // SAFETY: a constant name and flags; the descriptor is owned by the file.
    let file = unsafe {
        let descriptor =
            libc::memfd_create(c"flambeau".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        if descriptor < 0 {
            return Err(failed("cannot make shared memory"));
        }
        File::from_raw_fd(descriptor)
    };
    file.set_len(bytes as u64).map_err(|_| failed(&format!("cannot make {bytes} bytes of shared memory")))?;
    // SAFETY: a descriptor of ours.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS) };
    ensure!(sealed == 0, Io, "cannot seal shared memory: {}", std::io::Error::last_os_error());
    Ok(file)
}

fn map(file: &File, bytes: usize) -> Result<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at no address in particular, of a file that is that long.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    let mapped = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) };
    mapped.ok_or_else(|| failed(&format!("cannot map {bytes} bytes of shared memory")))
}

fn failed(what: &str) -> Error {
    let cause = std::io::Error::last_os_error();
    let kind =
        if cause.raw_os_error() == Some(libc::ENOMEM) { ErrorKind::OutOfMemory } else { ErrorKind::Io };
    Error::with_source(kind, format!("{what}: {cause}"), cause)
}
