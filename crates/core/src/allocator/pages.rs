//! Maps pages from the system: huge pages for large blocks.

#![expect(unsafe_code, reason = "maps and unmaps pages")]

use std::ptr::{self, NonNull};

pub(super) const HUGE_PAGE: usize = 2 << 20;
/// From this size on blocks use huge pages, whose page faults take a fifth of the time.
const HUGE_MIN: usize = 4 << 20;

/// Fresh zero pages.
pub(super) fn map(bytes: usize) -> Option<NonNull<u8>> {
    if bytes < HUGE_MIN { map_anywhere(bytes) } else { map_huge(bytes) }
}

/// Fresh zero pages that start where a huge page does.
pub(super) fn map_huge(bytes: usize) -> Option<NonNull<u8>> {
    let whole = map_anywhere(bytes.checked_add(HUGE_PAGE)?)?.as_ptr();
    let before = whole.align_offset(HUGE_PAGE);
    // SAFETY: `before` is less than the huge page by which the mapping is longer; all parts are inside it, and
    // the two that are cut off are not in use.
    unsafe {
        let start = whole.add(before);
        unmap(whole, before);
        unmap(start.add(bytes), HUGE_PAGE - before);
        // Only advice: without it the block works, but is slower.
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
/// - The range is whole pages of a mapping from here, used by nobody any more.
pub(super) unsafe fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: the caller's condition. It can fail only for want of kernel memory to split a mapping; then the
        // pages stay mapped, which only leaks them.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}
