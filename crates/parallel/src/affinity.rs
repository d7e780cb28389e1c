//! Which cores threads run on. Two threads of one job must not share a core while a thread of another process has a core to itself.
//!
//! The scheduler of Linux tends to wake a thread on the core of the thread that wakes it. It takes two of our threads on one core and
//! another process's thread on the next for balanced. A thread that was preempted stays on its core, whose cache holds its data, even
//! if another core is idle.

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{Thread, current_core};
#[cfg(target_os = "linux")]
pub(super) use linux::{Thread, current_core};

#[cfg(target_os = "linux")]
mod linux {
    #![expect(unsafe_code, reason = "std has no safe form of these calls")]

    use libc::{CPU_CLR, CPU_COUNT, CPU_SET, cpu_set_t, sched_getaffinity, sched_setaffinity};
    use std::{mem, time::Duration};

    const SIZE: usize = size_of::<cpu_set_t>();

    /// The core that the calling thread is on at this moment; `None` where the system does not say.
    pub(crate) fn current_core() -> Option<usize> {
        // SAFETY: takes nothing, and gives a number or -1.
        let core = usize::try_from(unsafe { libc::sched_getcpu() });
        core.ok().filter(|&core| core < 8 * SIZE)
    }

    /// A thread by its Linux thread id.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Thread(libc::pid_t);

    impl Thread {
        pub(crate) fn current() -> Self {
            // SAFETY: takes nothing and cannot fail.
            Self(unsafe { libc::gettid() })
        }

        /// The CPU time that it has used, which does not advance while it waits for a core.
        pub(crate) fn cpu_time(self) -> Option<Duration> {
            // The id of the thread's CPU clock, as the kernel encodes it (CPUCLOCK_SCHED | CPUCLOCK_PERTHREAD_MASK).
            let clock = (!self.0 << 3) | 6;
            let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: there is room for the answer.
            let status = unsafe { libc::clock_gettime(clock, &raw mut time) };
            (status == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
        }

        /// Moves it off `core`, if it may use at least `threads` cores, so that each of so many threads can have its own.
        pub(crate) fn exclude_core(self, core: usize, threads: usize) {
            // SAFETY: a set has room for the core.
            self.narrow(threads, |all| unsafe { CPU_CLR(core, all) });
        }

        /// Moves it to `core`, if it may use that.
        pub(crate) fn migrate_to(self, core: usize) {
            self.narrow(1, |all| {
                *all = no_cores();
                // SAFETY: a set has room for the core.
                unsafe { CPU_SET(core, all) }
            });
        }

        /// Narrows its affinity for a moment, if that has at least `enough` cores: the thread is migrated, and then gets its affinity
        /// back, so that the scheduler may choose any of its cores later.
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

/// On other systems threads stay on the cores that the scheduler chooses.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::Duration;

    pub(crate) fn current_core() -> Option<usize> {
        None
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) struct Thread;

    impl Thread {
        pub(crate) fn current() -> Self {
            Self
        }

        pub(crate) fn cpu_time(self) -> Option<Duration> {
            None
        }

        pub(crate) fn exclude_core(self, _core: usize, _threads: usize) {}

        pub(crate) fn migrate_to(self, _core: usize) {}
    }
}
