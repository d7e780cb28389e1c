//! A pair of fences of which the one that is passed often costs nothing and the other is a call to the system.
//!
//! Two threads that each write one word and then read the other's need a fence between the two, or both may miss what the
//! other wrote. Where one of them does so all the time and the other once in a while, the system can have the fence
//! executed on every processor that runs this process, for the sake of the other one: `membarrier(2)`. What is left for the
//! first is to keep the compiler from reordering.

#[cfg(all(any(target_os = "linux", target_os = "android"), not(loom), not(miri)))]
mod imp {
    #![expect(unsafe_code, reason = "calls the system")]

    use std::sync::OnceLock;
    use std::sync::atomic::{Ordering, compiler_fence};

    #[inline(always)]
    pub(crate) fn light() {
        compiler_fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    pub(crate) fn is_supported() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && heavy())
    }

    fn call(command: libc::c_int) -> bool {
        // SAFETY: takes numbers, and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

/// Symmetric fences, which mean the same: what loom and Miri understand, and what keeps other systems compiling.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), not(loom), not(miri))))]
mod imp {
    use crate::sync::{Ordering, fence};

    pub(crate) fn light() {
        fence(Ordering::SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    pub(crate) fn is_supported() -> bool {
        cfg!(any(loom, miri))
    }
}

/// Between a write and a read of the thread that does so often.
pub(crate) use imp::light;

/// Between a write and a read of any other thread. False if the system refuses, which it never did before: a process may
/// have been forbidden the call since.
pub(crate) use imp::heavy;

/// Whether [`heavy`] works here. Where it does not, [`light`] is no fence and must not be relied on.
pub(crate) use imp::is_supported;
