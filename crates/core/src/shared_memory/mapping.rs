//! A segment in this process's memory, and the headers of its chunks.

#![expect(unsafe_code, reason = "maps segments and reads what other processes count there")]

use super::Handle;
use crate::{Error, ErrorKind, Result, ensure};
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The unit of chunks, which is also the length of a header: data is aligned to it.
pub(super) const UNIT: usize = 64;

/// What stands at the beginning of a segment: its number.
#[repr(C)]
struct SegmentHeader {
    number: AtomicU64,
}

/// What stands before the bytes of a chunk.
#[repr(C)]
pub(super) struct ChunkHeader {
    /// The length with the header; only the process that made the segment changes it.
    bytes: AtomicU64,
    /// How many storages and messages hold it, in all processes.
    pub(super) holders: AtomicU32,
}

impl ChunkHeader {
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) as usize
    }
}

/// A mapped segment; unmapped and closed when dropped.
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
    file: File,
    pub(super) number: u64,
    /// The process that made it, and its descriptor there.
    owner: (u32, i32),
}

// SAFETY: the memory belongs to no thread; all that is read here is atomic.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and every storage in it keeps the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

impl Mapping {
    /// A new segment of `bytes` bytes, which are zeros.
    pub(super) fn create(bytes: usize) -> Result<Self> {
        let file = anonymous_file(bytes)?;
        let start = map(&file, bytes)?;
        let owner = (std::process::id(), file.as_raw_fd());
        let number = unused_number();
        let made = Mapping { start, bytes, file, number, owner };
        made.segment_header().number.store(number, Ordering::Release);
        Ok(made)
    }

    /// The segment of a handle, if one of the processes that had it open still has.
    pub(super) fn open(handle: &Handle) -> Result<Self> {
        for (process, descriptor) in handle.holders {
            if let Some(found) = Self::open_of(process, descriptor, handle) {
                return Ok(found);
            }
        }
        let (process, _) = handle.holders[1];
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "cannot open shared memory: process {process}, which sent it, has ended or closed it before it was received; \
                 keep the sender alive until then"
            ),
        ))
    }

    /// A descriptor's number may be another file's by now, so the segment is asked for its own.
    fn open_of(process: u32, descriptor: i32, handle: &Handle) -> Option<Self> {
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        if file.metadata().ok()?.len() != handle.segment_bytes as u64 || handle.segment_bytes < UNIT {
            return None;
        }
        let start = map(&file, handle.segment_bytes).ok()?;
        let (bytes, number, owner) = (handle.segment_bytes, handle.segment, handle.holders[0]);
        let opened = Mapping { start, bytes, file, number, owner };
        (opened.segment_header().number.load(Ordering::Acquire) == number).then_some(opened)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn start(&self) -> usize {
        self.start.as_ptr().addr()
    }

    pub(super) fn owner(&self) -> u32 {
        self.owner.0
    }

    pub(super) fn contains(&self, address: *const u8) -> bool {
        (self.start()..self.start() + self.bytes).contains(&address.addr())
    }

    /// A handle on a chunk's bytes, which it holds from now on.
    pub(super) fn handle(&self, data: *const u8, nbytes: usize) -> Handle {
        let offset = data.addr() - self.start();
        self.header(offset - UNIT).holders.fetch_add(1, Ordering::Relaxed);
        Handle {
            segment: self.number,
            segment_bytes: self.bytes,
            holders: [self.owner, (std::process::id(), self.file.as_raw_fd())],
            offset,
            nbytes,
        }
    }

    /// The address at `offset`, which is inside.
    pub(super) fn at(&self, offset: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(offset)
    }

    /// The header of the chunk at `offset`, which is a multiple of the unit and inside.
    pub(super) fn header(&self, offset: usize) -> &ChunkHeader {
        debug_assert!(offset.is_multiple_of(UNIT) && offset + UNIT <= self.bytes);
        // SAFETY: mapped for as long as `self`, aligned, and all atomics, which other processes write as such too.
        unsafe { &*self.at(offset).cast() }
    }

    /// Makes a chunk of `bytes` bytes, header included; the caller owns the segment, and nobody the chunk.
    pub(super) fn write_header(&self, offset: usize, bytes: usize, holders: u32) {
        let header = self.header(offset);
        header.bytes.store(bytes as u64, Ordering::Relaxed);
        header.holders.store(holders, Ordering::Release);
    }

    fn segment_header(&self) -> &SegmentHeader {
        // SAFETY: as for `header`.
        unsafe { &*self.start.as_ptr().cast() }
    }
}

/// A file of memory without a name, which cannot shrink under those who look at it.
fn anonymous_file(bytes: usize) -> Result<File> {
    use std::os::fd::FromRawFd;
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
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: a descriptor of ours.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
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

/// A number that no other segment has: hashers are seeded from the system's entropy.
fn unused_number() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    RandomState::new().hash_one((std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}
