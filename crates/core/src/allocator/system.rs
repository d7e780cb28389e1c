//! Memory from the system: the global allocator below 1 MiB, mapped pages above, huge ones where they pay.

#![expect(unsafe_code, reason = "asks the system for memory and gives it back")]

use super::size_class::ALIGNMENT;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// From here on blocks are mapped, so that a fresh one is known to be zero and a freed one leaves the process.
/// Miri, which knows no `munmap` of a part, and systems that are not Unix take the global allocator for every size.
const MAP_MIN: usize = if cfg!(all(unix, not(miri))) { 1 << 20 } else { usize::MAX };

/// `bytes` of memory, aligned to 64, zero if asked for, or `None` if the system has none. `bytes` is a class's size.
pub(super) fn allocate(bytes: usize, zeroed: bool) -> Option<NonNull<u8>> {
    #[cfg(all(unix, not(miri)))]
    if bytes >= MAP_MIN {
        return pages::map(bytes);
    }
    let layout = Layout::from_size_align(bytes, ALIGNMENT).ok()?;
    // SAFETY: no class has blocks of no bytes.
    NonNull::new(unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } })
}

/// Gives a block back.
///
/// # Safety
/// - `block` came from [`allocate`] of as many bytes, and nobody uses it any more.
pub(super) unsafe fn free(block: NonNull<u8>, bytes: usize) {
    #[cfg(all(unix, not(miri)))]
    if bytes >= MAP_MIN {
        // SAFETY: the caller's condition.
        return unsafe { pages::unmap(block.as_ptr(), bytes) };
    }
    // SAFETY: `allocate` made the same layout.
    unsafe { dealloc(block.as_ptr(), Layout::from_size_align_unchecked(bytes, ALIGNMENT)) }
}

#[cfg(all(unix, not(miri)))]
mod pages {
    //! Mapped pages.

    use std::ptr::{self, NonNull};

    const HUGE_PAGE: usize = 2 << 20;
    /// From here on, faulting huge pages in takes a fifth of the time: 2.8 ms instead of 16 for 40 MB.
    const HUGE_MIN: usize = 4 << 20;

    /// Fresh zero pages.
    pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
        if bytes < HUGE_MIN { map_anywhere(bytes) } else { map_huge(bytes) }
    }

    /// Fresh zero pages that start where a huge page does.
    fn map_huge(bytes: usize) -> Option<NonNull<u8>> {
        let whole = map_anywhere(bytes.checked_add(HUGE_PAGE)?)?.as_ptr();
        let before = whole.align_offset(HUGE_PAGE);
        // SAFETY: `before` is less than the huge page by which the mapping is longer; all parts are inside it, and
        // the two cut off have been given to nobody.
        unsafe {
            let start = whole.add(before);
            unmap(whole, before);
            unmap(start.add(bytes), HUGE_PAGE - before);
            // Only advice: without it the block is slower but as good.
            #[cfg(target_os = "linux")]
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE);
            NonNull::new(start)
        }
    }

    fn map_anywhere(bytes: usize) -> Option<NonNull<u8>> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of no file and at no address in particular.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
    }

    /// # Safety
    /// - The range is whole pages of a mapping from [`map_anywhere`], used by nobody any more.
    pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
        if bytes > 0 {
            // SAFETY: the caller's condition. It can fail only for want of kernel memory to split a mapping; then the
            // pages stay mapped, which leaks them and harms nobody.
            unsafe { libc::munmap(start.cast(), bytes) };
        }
    }
}
