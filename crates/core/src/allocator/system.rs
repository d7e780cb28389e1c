//! Memory from the system: the global allocator up to 1 KiB, regions of huge pages below 1 MiB, mapped pages from there on.
//!
//! Miri, which knows no `munmap` of a part, and systems that are not Unix take the global allocator for every size.

#![expect(unsafe_code, reason = "allocates memory from the system and frees it")]

use super::size_class::ALIGNMENT;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The largest block that comes from the global allocator.
#[cfg(all(unix, not(miri)))]
const GLOBAL_MAX: usize = 1 << 10;
/// From this size on each block is a mapping, so that a fresh one is zero and a freed one is returned to the system.
#[cfg(all(unix, not(miri)))]
const MAP_MIN: usize = 1 << 20;

/// `bytes` of memory, aligned to 64, zero if `zeroed`, or `None` if the system has none. `bytes` is a class's size.
pub(super) fn allocate(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    #[cfg(all(unix, not(miri)))]
    if bytes > GLOBAL_MAX {
        return if bytes < MAP_MIN { allocate_in_region(bytes, zeroed) } else { super::pages::map(bytes) };
    }
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    // SAFETY: no class has blocks of no bytes.
    NonNull::new(unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } })
}

#[cfg(all(unix, not(miri)))]
fn allocate_in_region(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    let block = super::regions::allocate(bytes)?;
    if zeroed {
        // SAFETY: the block is ours, and that long.
        unsafe { block.write_bytes(0, bytes) };
    }
    Some(block)
}

/// Gives a block back.
///
/// # Safety
/// - `block` came from [`allocate`] of as many bytes, and is not used any more.
pub(super) unsafe fn free(block: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller's condition; the same branches as in `allocate`, which made the same layout.
    unsafe {
        #[cfg(all(unix, not(miri)))]
        if bytes >= MAP_MIN {
            return super::pages::unmap(block.as_ptr(), bytes);
        } else if bytes > GLOBAL_MAX {
            return super::regions::free(block, bytes);
        }
        dealloc(block.as_ptr(), Layout::from_size_align_unchecked(bytes, ALIGNMENT));
    }
}

/// Whether the lock of regions is free.
pub(super) fn is_unlocked() -> bool {
    #[cfg(all(unix, not(miri)))]
    return super::regions::is_unlocked();
    #[cfg(not(all(unix, not(miri))))]
    true
}

/// Returns cached memory of free blocks to the system.
pub(super) fn empty() {
    #[cfg(all(unix, not(miri)))]
    super::regions::empty();
}
