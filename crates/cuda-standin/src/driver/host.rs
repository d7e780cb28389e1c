//! Memory of the host: what is pinned, and bytes that are copied when work runs.
#![expect(unsafe_code, reason = "reads and writes memory that programs name by its address")]

use crate::state::HostRange;
use std::alloc::{Layout, alloc, dealloc};

/// Pinned memory begins at multiples of this.
const ALIGN: usize = 4096;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), ALIGN).ok()
}

/// Memory that is pinned, whose content is open.
pub(super) fn allocate(bytes: usize) -> Option<*mut u8> {
    // SAFETY: the size is not 0.
    let address = unsafe { alloc(layout(bytes)?) };
    (!address.is_null()).then_some(address)
}

/// # Safety
/// - The memory is from [`allocate`] with so many bytes, and nobody uses it any more.
pub(super) unsafe fn free(address: *mut u8, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the condition above.
        unsafe { dealloc(address, layout) };
    }
}

impl HostRange {
    /// Reads the bytes; as many as the range has.
    pub(crate) fn read(self, to: &mut [u8]) {
        let from: *const u8 = std::ptr::with_exposed_provenance(self.address);
        let bytes = self.bytes.min(to.len());
        // SAFETY: the caller of the driver's function says that it may read so many bytes there, until the copy is done.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), bytes) };
    }

    /// Writes the bytes.
    pub(crate) fn write(self, from: &[u8]) {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(self.address);
        let bytes = self.bytes.min(from.len());
        // SAFETY: as above, for writing.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, bytes) };
    }
}
