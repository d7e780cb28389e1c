//! Blocks of more than 1 KiB and less than 1 MiB, cut out of huge pages.
//!
//! What a kernel works on here fits the second cache, and there it matters where blocks lie. Small pages of a mapping fall on
//! each other in the cache by chance. And a load that agrees in its low twelve bits with a store shortly before it waits for
//! the store, as if it were of the same place: an addition whose result begins a few lines after an argument, counted modulo
//! 4096, takes twice as long. So [a block begins](alignment_of) where its like do, and those lie in one stretch of memory.

#![expect(unsafe_code, reason = "cuts mappings into blocks and gives whole ones back")]

use super::pages::{self, HUGE_PAGE};
use crate::fork::HeldAcross;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{self, NonNull};

/// A region is one huge page.
const REGION: usize = HUGE_PAGE;
/// How many free regions are kept for what comes; more go back to the system at once.
const SPARE: usize = 16;
/// What addresses are taken modulo when a load is compared with the stores before it.
const PAGE: usize = 4096;

pub(super) static REGIONS: HeldAcross<Regions> = HeldAcross::new(Regions::new());

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
/// - (owned) `block` came from [`allocate`] of as many bytes, and nobody uses it any more.
pub(super) unsafe fn free(block: NonNull<u8>, bytes: usize) {
    let unmapped = REGIONS.lock().put(block.as_ptr(), bytes);
    drop(unmapped); // After unlocking: returning pages takes the system long.
}

/// Gives the free regions back to the system.
pub(super) fn empty() {
    // One by one, for a list would have to be allocated, and memory may be what is lacking.
    while let Some(unmapped) = give_up_one() {
        drop(unmapped);
    }
}

fn give_up_one() -> Option<Whole> {
    REGIONS.lock().give_up()
}

/// Whether nobody holds the lock: under it, nodes of the maps below are allocated.
pub(super) fn is_at_rest() -> bool {
    REGIONS.is_free()
}

/// Blocks of a size begin at multiples of this: the greatest power of two in the size, but no more than a page.
fn alignment_of(bytes: usize) -> usize {
    PAGE.min(1 << bytes.trailing_zeros())
}

/// A region that is being given back; dropping it does so.
struct Whole(*mut u8);

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: `allocate` mapped it, and all of it was among the free runs, which it has left.
        unsafe { pages::unmap(self.0, REGION) }
    }
}

/// The free runs of bytes, none beside another of the same region.
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

    /// The smallest run that has room, less what is left of it.
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

    /// Takes a block back, and returns its region if that is free and there are enough such.
    fn put(&mut self, block: *mut u8, bytes: usize) -> Option<Whole> {
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
        if room == REGION && self.whole().count() >= SPARE {
            return Some(Whole(start));
        }
        self.insert(start, room);
        None
    }

    /// The free regions.
    fn whole(&self) -> impl Iterator<Item = *mut u8> {
        self.by_size.range((REGION, ptr::null_mut())..).map(|&(_, start)| start)
    }

    /// One of the free regions.
    fn give_up(&mut self) -> Option<Whole> {
        let start = self.whole().next()?;
        self.remove(start, REGION);
        Some(Whole(start))
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
