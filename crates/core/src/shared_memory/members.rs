//! The processes that use a segment: each has a slot, and as proof that it is alive a lock on the byte of the file that has the slot's
//! number.
//!
//! The lock is one of an open file description, `F_OFD_SETLK`: it is released when the last descriptor of that is closed, which the
//! system does for a process however it ends. So each process opens the file anew, a forked child too.

#![expect(unsafe_code, reason = "locks have no safe form")]

use super::mapping::Mapping;
use super::records::SLOTS;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};

/// The slot of the process that created the segment. It needs no lock, since no other process checks whether it is alive.
pub(super) const CREATOR: u32 = 0;
/// No slot is left: what such a process holds is never released.
pub(super) const NONE: u32 = u32::MAX;

/// A file that is opened anew, and the slot that its lock is for.
pub(super) struct Member {
    pub(super) file: File,
    pub(super) slot: u32,
}

impl Mapping {
    /// Takes a slot for a process that has opened `file` anew.
    pub(super) fn join(&self, file: File) -> Member {
        let descriptor = file.as_raw_fd();
        let slot = (CREATOR + 1..SLOTS).find(|slot| lock(descriptor, *slot, libc::F_WRLCK));
        // The process that had the slot before may have died without releasing it.
        if let Some(slot) = slot.filter(|slot| self.mark_taken(*slot)) {
            self.clear_slot(slot);
        }
        Member { file, slot: slot.unwrap_or(NONE) }
    }

    /// Takes a slot for a child that is about to be forked.
    pub(super) fn join_for_child(&self) -> Option<Member> {
        let file = reopened(self.descriptor()?)?;
        Some(self.join(file)).filter(|member| member.slot != NONE)
    }

    /// Releases what processes hold that have ended. Only the process that created the segment calls this.
    pub(super) fn reap_dead_members(&self) {
        let Some(descriptor) = self.descriptor() else { return };
        for slot in self.taken_slots().filter(|slot| *slot != CREATOR) {
            if lock(descriptor, slot, libc::F_WRLCK) {
                self.clear_slot(slot);
                self.mark_free(slot);
                lock(descriptor, slot, libc::F_UNLCK);
            }
        }
    }
}

/// The same file by a descriptor of another description.
pub(super) fn reopened(descriptor: RawFd) -> Option<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{descriptor}")).ok()
}

/// Locks or unlocks the byte of a slot, without waiting.
fn lock(descriptor: RawFd, slot: u32, kind: i32) -> bool {
    let region = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: slot.into(),
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the call reads the struct, and returns an error if the descriptor is not one.
    unsafe { libc::fcntl(descriptor, libc::F_OFD_SETLK, &raw const region) == 0 }
}
