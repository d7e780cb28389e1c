//! Where threads run: a helper that finds itself on its caller's core moves to another.
//!
//! A kernel likes to wake a thread where its waker runs, and takes two threads of ours on one core and a stranger on the other
//! for balanced. But a helper on its caller's core only takes turns with it.

#[cfg(target_os = "linux")]
pub(super) use linux::{core, leave};

#[cfg(target_os = "linux")]
mod linux {
    #![expect(unsafe_code, reason = "std has no safe form of these calls")]

    use libc::{CPU_CLR, CPU_COUNT, cpu_set_t, sched_getaffinity, sched_getcpu, sched_setaffinity};

    const SIZE: usize = size_of::<cpu_set_t>();

    /// The core this thread runs on at this moment; `None` where the system does not say.
    pub(crate) fn core() -> Option<usize> {
        // SAFETY: takes nothing, and gives a number or -1.
        usize::try_from(unsafe { sched_getcpu() }).ok()
    }

    /// Moves this thread off a core, if those that it may use are enough for each of `threads` to have its own.
    ///
    /// What it may use is narrowed for a moment only: later the kernel may place it as before.
    pub(crate) fn leave(core: usize, threads: usize) {
        let Some(all) = allowed() else { return };
        // SAFETY: only reads the set.
        let enough = unsafe { CPU_COUNT(&all) }.cast_unsigned() as usize >= threads;
        if enough && core < 8 * SIZE {
            let mut others = all;
            // SAFETY: a set has room for `8 * SIZE` cores.
            unsafe { CPU_CLR(core, &mut others) };
            allow(&others);
            allow(&all);
        }
    }

    /// The cores that this thread may use.
    fn allowed() -> Option<cpu_set_t> {
        // SAFETY: an array of numbers, all of which may be 0.
        let mut set: cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: 0 is this thread, and `set` takes `SIZE` bytes.
        let status = unsafe { sched_getaffinity(0, SIZE, &raw mut set) };
        (status == 0).then_some(set)
    }

    /// Where the system refuses, the thread stays where it is.
    fn allow(set: &cpu_set_t) {
        // SAFETY: 0 is this thread, and `set` has `SIZE` bytes.
        unsafe { sched_setaffinity(0, SIZE, &raw const *set) };
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn core() -> Option<usize> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn leave(_core: usize, _threads: usize) {}
