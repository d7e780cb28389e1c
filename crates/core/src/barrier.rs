//! An asymmetric pair of fences: the light one, which is executed often, costs nothing, and the heavy one is a system call.
//!
//! Two threads that each write one word and then read the other's need a fence between the two, or both may miss what the
//! other wrote. If one of them does so all the time and the other rarely, the rare one can let the system execute a fence on every
//! processor that runs this process: `membarrier(2)`. The frequent one then only has to keep the compiler from reordering.

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

/// Symmetric fences of the same meaning, for loom and Miri, and so that other systems compile.
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

/// The fence between a write and a read of the thread that does so often.
pub(crate) use imp::light;

/// The fence between a write and a read of any other thread. False if the system refuses, although [`is_supported`]: a seccomp filter
/// may have forbidden the call since.
pub(crate) use imp::heavy;

/// Whether [`heavy`] works here. Where it does not, [`light`] is no fence and must not be relied on.
pub(crate) use imp::is_supported;
