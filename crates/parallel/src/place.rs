//! Where threads run, so that those of one job do not take turns on one core while a stranger has another for itself.
//!
//! A kernel likes to wake a thread where its waker runs, takes two threads of ours on one core and a stranger on the other for
//! balanced, and leaves a thread that lost its core where it is, near its cache, though another core has nothing to do.

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{Thread, core};
#[cfg(target_os = "linux")]
pub(super) use linux::{Thread, core};

#[cfg(target_os = "linux")]
mod linux {
    #![expect(unsafe_code, reason = "std has no safe form of these calls")]

    use libc::{CPU_CLR, CPU_COUNT, CPU_SET, cpu_set_t, sched_getaffinity, sched_setaffinity};
    use std::{mem, time::Duration};

    const SIZE: usize = size_of::<cpu_set_t>();

    /// The core that the calling thread is on at this moment; `None` where the system does not say.
    pub(crate) fn core() -> Option<usize> {
        // SAFETY: takes nothing, and gives a number or -1.
        let core = usize::try_from(unsafe { libc::sched_getcpu() });
        core.ok().filter(|&core| core < 8 * SIZE)
    }

    /// A thread by its number.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Thread(libc::pid_t);

    impl Thread {
        pub(crate) fn current() -> Self {
            // SAFETY: takes nothing and cannot fail.
            Self(unsafe { libc::gettid() })
        }

        /// For how long it has run; stands still while it waits for a core.
        pub(crate) fn time(self) -> Option<Duration> {
            // The clock of a thread, as the kernel numbers it (CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK).
            let clock = (!self.0 << 3) | 6;
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: there is room for the answer.
            let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
            (status == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
        }

        /// Moves it off a core, if those that it may use are enough for each of `threads` to have its own.
        pub(crate) fn leave(self, core: usize, threads: usize) {
            // SAFETY: a set has room for the core.
            self.narrow(threads, |all| unsafe { CPU_CLR(core, all) });
        }

        /// Moves it to a core, if it may use that.
        pub(crate) fn join(self, core: usize) {
            self.narrow(1, |all| {
                *all = no_cores();
                // SAFETY: a set has room for the core.
                unsafe { CPU_SET(core, all) }
            });
        }

        /// Narrows the cores that it may use for a moment, if they are `enough`: later the kernel may place it as before.
        fn narrow(self, enough: usize, narrow: impl FnOnce(&mut cpu_set_t)) {
            let mut all = no_cores();
            // SAFETY: a set has `SIZE` bytes, and is read once it is known.
            let few = unsafe {
                sched_getaffinity(self.0, SIZE, &raw mut all) != 0 || (CPU_COUNT(&all) as usize) < enough
            };
            if few {
                return;
            }
            let mut some = all;
            narrow(&mut some);
            // SAFETY: a set has `SIZE` bytes. Where the system refuses, the thread stays where it is.
            unsafe {
                sched_setaffinity(self.0, SIZE, &raw const some);
                sched_setaffinity(self.0, SIZE, &raw const all);
            }
        }
    }

    fn no_cores() -> cpu_set_t {
        // SAFETY: an array of numbers, all of which may be 0.
        unsafe { mem::zeroed() }
    }
}

/// Threads stay where the system puts them.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::Duration;

    pub(crate) fn core() -> Option<usize> {
        None
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Thread;

    impl Thread {
        pub(crate) fn current() -> Self {
            Self
        }

        pub(crate) fn time(self) -> Option<Duration> {
            None
        }

        pub(crate) fn leave(self, _core: usize, _threads: usize) {}

        pub(crate) fn join(self, _core: usize) {}
    }
}
