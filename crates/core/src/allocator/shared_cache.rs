//! Freed blocks above 16 KiB, cached for all threads: fresh pages cost more than most kernels.
//!
//! The cache is bounded in bytes. When it is full, blocks of the size class that was not used for the longest time (LRU) are evicted.

#![expect(unsafe_code, reason = "keeps free memory in lists threaded through the memory itself")]

use super::size_class::{CLASSES, SMALL_CLASSES, class_bytes, class_of};
use super::system;
use crate::fork::ForkSafeMutex;
use std::ptr::{self, NonNull};

/// How many bytes are cached unless [`set_limit`] says otherwise.
const DEFAULT_LIMIT: usize = 1 << 30;

const LARGE_CLASSES: usize = CLASSES - SMALL_CLASSES;

pub(super) static CACHE: ForkSafeMutex<Cache> = ForkSafeMutex::new(Cache::new(DEFAULT_LIMIT));

/// A block of at least `bytes`, which is more than [`SMALL_MAX`](super::size_class::SMALL_MAX), zero if `zeroed`, or `None` if the
/// system has no memory.
pub(super) fn allocate(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    let class = class_of(bytes);
    let cached = CACHE.lock().take(class);
    let Some(block) = cached else {
        return system::allocate(class_bytes(class), zeroed).or_else(|| {
            empty(); // The memory of cached blocks of other sizes may suffice.
            system::allocate(class_bytes(class), zeroed)
        });
    };
    if zeroed {
        // SAFETY: the cache gave us the block, and it is that long.
        unsafe { block.write_bytes(0, bytes) };
    }
    Some(block)
}

/// Gives a block back.
///
/// # Safety
/// - (owned) `block` came from [`allocate`] of as many bytes, and is not used any more.
pub(super) unsafe fn free(block: NonNull<u8>, bytes: usize) {
    // SAFETY: (owned).
    let evicted = unsafe { CACHE.lock().put(class_of(bytes), block) };
    drop(evicted); // After unlocking, since unmapping pages takes long.
}

/// Returns all cached blocks to the system, and all free huge pages.
pub(super) fn empty() {
    let evicted = CACHE.lock().shrink_to(0);
    drop(evicted);
    system::empty();
}

/// Whether no thread holds a lock that [`empty`] takes, so that the calling thread does not. If another thread holds one, the answer is
/// no as well, and the caller merely does not empty the cache.
pub(super) fn is_unlocked() -> bool {
    CACHE.is_free() && system::is_unlocked()
}

/// Caches at most `bytes` from now on.
pub(super) fn set_limit(bytes: usize) {
    let evicted = CACHE.lock().set_limit(bytes);
    drop(evicted);
}

/// How many bytes are cached.
pub(super) fn cached_bytes() -> usize {
    CACHE.lock().bytes
}

/// What a free block holds.
struct FreeBlock {
    next: *mut FreeBlock,
    class: usize,
}

/// A linked list of free blocks; dropping it returns them to the system.
struct Chain(*mut FreeBlock);

// SAFETY: a chain owns its blocks, and memory belongs to no thread.
unsafe impl Send for Chain {}

impl Chain {
    const fn new() -> Self {
        Chain(ptr::null_mut())
    }

    /// # Safety
    /// - (owned) `block` is of the class, and is not used any more.
    unsafe fn push(&mut self, block: NonNull<u8>, class: usize) {
        let block: NonNull<FreeBlock> = block.cast();
        // SAFETY: (owned); every class has room for it.
        unsafe { block.write(FreeBlock { next: self.0, class }) };
        self.0 = block.as_ptr();
    }

    fn pop(&mut self) -> Option<(NonNull<u8>, usize)> {
        let block = NonNull::new(self.0)?;
        // SAFETY: the chain owns the block, and `push` wrote it.
        let FreeBlock { next, class } = unsafe { block.read() };
        self.0 = next;
        Some((block.cast(), class))
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        while let Some((block, class)) = self.pop() {
            // SAFETY: the chain owned it, and it came from the system with this size.
            unsafe { system::free(block, class_bytes(class)) }
        }
    }
}

struct Bin {
    blocks: Chain,
    /// When a block was last taken or put, by the cache's clock.
    used: u64,
}

pub(super) struct Cache {
    bins: [Bin; LARGE_CLASSES],
    bytes: usize,
    limit: usize,
    clock: u64,
}

impl Cache {
    const fn new(limit: usize) -> Self {
        let bins = [const { Bin { blocks: Chain::new(), used: 0 } }; LARGE_CLASSES];
        Cache { bins, bytes: 0, limit, clock: 0 }
    }

    fn touch(&mut self, class: usize) -> &mut Bin {
        self.clock += 1;
        let bin = &mut self.bins[class - SMALL_CLASSES];
        bin.used = self.clock;
        bin
    }

    fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let (block, _) = self.touch(class).blocks.pop()?;
        self.bytes -= class_bytes(class);
        Some(block)
    }

    /// Caches a block, if it is not larger than the limit of the cache. Returns the blocks that are evicted.
    ///
    /// # Safety
    /// - (owned) `block` is of the class, and is not used any more.
    unsafe fn put(&mut self, class: usize, block: NonNull<u8>) -> Chain {
        let bytes = class_bytes(class);
        if bytes > self.limit {
            let mut evicted = Chain::new();
            // SAFETY: (owned).
            unsafe { evicted.push(block, class) };
            return evicted;
        }
        let evicted = self.shrink_to(self.limit - bytes);
        // SAFETY: (owned).
        unsafe { self.touch(class).blocks.push(block, class) };
        self.bytes += bytes;
        evicted
    }

    fn set_limit(&mut self, limit: usize) -> Chain {
        self.limit = limit;
        self.shrink_to(limit)
    }

    /// Evicts blocks, those of LRU classes first, until at most `bytes` are cached.
    fn shrink_to(&mut self, bytes: usize) -> Chain {
        let mut evicted = Chain::new();
        while self.bytes > bytes {
            let stale = self.bins.iter_mut().filter(|bin| !bin.blocks.0.is_null()).min_by_key(|bin| bin.used);
            let Some((block, class)) = stale.and_then(|bin| bin.blocks.pop()) else { break };
            // SAFETY: the cache owned the block.
            unsafe { evicted.push(block, class) };
            self.bytes -= class_bytes(class);
        }
        evicted
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
