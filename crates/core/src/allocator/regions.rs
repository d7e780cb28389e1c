//! Blocks of more than 1 KiB and less than 1 MiB, cut out of huge pages.
//!
//! Tensors of this size fit L2, so that the addresses of blocks matter for two reasons. Small pages have random physical addresses, so
//! that some compete for the same sets of L2. And a load whose address agrees in its low twelve bits with that of a recent store waits
//! for the store, as if both were of the same address (4K aliasing): an addition whose result begins a few cache lines after an
//! argument, modulo 4096, takes twice as long. Therefore blocks are cut out of huge pages, and the offsets of blocks of one size are
//! multiples of [the same alignment](alignment_of).

#![expect(unsafe_code, reason = "cuts mappings into blocks and gives whole ones back")]

use super::pages::{self, HUGE_PAGE};
use crate::fork::ForkSafeMutex;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};

/// A region is one huge page.
const REGION: usize = HUGE_PAGE;
/// How many free regions are cached; more are returned to the system at once.
const MAX_FREE_REGIONS: usize = 16;
/// The processor compares the addresses of loads and earlier stores modulo this.
const PAGE: usize = 4096;

pub(super) static REGIONS: ForkSafeMutex<Regions> = ForkSafeMutex::new(Regions::new());

/// `bytes` of memory, uninitialised, or `None` if the system has none. `bytes` is a class's size.
pub(super) fn allocate(bytes: usize) -> Option<NonNull<u8>> {
    let mut regions = REGIONS.lock();
    if let Some(block) = regions.take(bytes) {
        return Some(block);
    }
    let region = pages::map_huge(REGION)?;
    regions.insert(region.as_ptr(), REGION);
    regions.take(bytes)
}

/// Gives a block back.
///
/// # Safety
/// - (owned) `block` came from [`allocate`] of as many bytes, and is not used any more.
pub(super) unsafe fn free(block: NonNull<u8>, bytes: usize) {
    let unmapped = REGIONS.lock().put(block.as_ptr(), bytes);
    drop(unmapped); // After unlocking, since unmapping pages takes long.
}

/// Gives the free regions back to the system.
pub(super) fn empty() {
    // One by one, since a list of them would have to be allocated, which may fail here.
    while let Some(unmapped) = take_one_free_region() {
        drop(unmapped);
    }
}

fn take_one_free_region() -> Option<UnmapOnDrop> {
    REGIONS.lock().take_free_region()
}

/// Whether no thread holds the lock, under which nodes of the maps below are allocated.
pub(super) fn is_unlocked() -> bool {
    REGIONS.is_free()
}

/// Blocks of a size begin at multiples of this: the largest power of two that divides the size, but at most a page.
fn alignment_of(bytes: usize) -> usize {
    PAGE.min(1 << bytes.trailing_zeros())
}

/// A free region that is unmapped when this is dropped.
struct UnmapOnDrop(*mut u8);

impl Drop for UnmapOnDrop {
    fn drop(&mut self) {
        // SAFETY: `allocate` mapped it, and all of it was free; it has been removed from the free runs.
        unsafe { pages::unmap(self.0, REGION) }
    }
}

/// The free runs of bytes; adjacent runs of a region are merged.
pub(super) struct Regions {
    by_start: BTreeMap<*mut u8, usize>,
    by_size: BTreeSet<(usize, *mut u8)>,
}

// SAFETY: the runs are owned, and memory belongs to no thread.
unsafe impl Send for Regions {}

impl Regions {
    const fn new() -> Self {
        Regions { by_start: BTreeMap::new(), by_size: BTreeSet::new() }
    }

    /// Takes a block out of the smallest free run that has room for it.
    fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let skipped = |start: *mut u8| start.align_offset(alignment_of(bytes));
        let fits = |&&(room, start): &&(usize, *mut u8)| skipped(start) + bytes <= room;
        let &(room, start) = self.by_size.range((bytes, ptr::null_mut())..).find(fits)?;
        self.remove(start, room);
        let before = skipped(start);
        let block = start.wrapping_add(before);
        self.insert(start, before);
        self.insert(block.wrapping_add(bytes), room - before - bytes);
        NonNull::new(block)
    }

    /// Frees a block. Returns its region to be unmapped, if all of that is free and enough free regions are cached.
    fn put(&mut self, block: *mut u8, bytes: usize) -> Option<UnmapOnDrop> {
        let (mut start, mut end) = (block, block.wrapping_add(bytes));
        if !begins_region(start)
            && let Some((&before, &room)) = self.by_start.range(..start).next_back()
            && before.wrapping_add(room) == start
        {
            self.remove(before, room);
            start = before;
        }
        if !begins_region(end)
            && let Some(&room) = self.by_start.get(&end)
        {
            self.remove(end, room);
            end = end.wrapping_add(room);
        }
        let room = end.addr() - start.addr();
        if room == REGION && self.whole().count() >= MAX_FREE_REGIONS {
            return Some(UnmapOnDrop(start));
        }
        self.insert(start, room);
        None
    }

    /// The free regions.
    fn whole(&self) -> impl Iterator<Item = *mut u8> {
        self.by_size.range((REGION, ptr::null_mut())..).map(|&(_, start)| start)
    }

    /// Removes one of the free regions, to be unmapped.
    fn take_free_region(&mut self) -> Option<UnmapOnDrop> {
        let start = self.whole().next()?;
        self.remove(start, REGION);
        Some(UnmapOnDrop(start))
    }

    fn insert(&mut self, start: *mut u8, bytes: usize) {
        if bytes > 0 {
            self.by_start.insert(start, bytes);
            self.by_size.insert((bytes, start));
        }
    }

    fn remove(&mut self, start: *mut u8, bytes: usize) {
        self.by_start.remove(&start);
        self.by_size.remove(&(bytes, start));
    }
}

fn begins_region(address: *mut u8) -> bool {
    address.addr().is_multiple_of(REGION)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
