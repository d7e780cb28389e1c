//! The helper threads: one open job, seats that helpers take, and a caller that works beside them.
//!
//! The caller publishes a job that lives on its stack and opens a number of seats. A helper takes a seat under the
//! lock, which counts it as active; from then on it may look at the job. The caller claims chunks too. When none are
//! left it closes the remaining seats and waits for the active helpers only, each of which is inside its last chunk.
//!
//! Beside other programs a helper leaves its caller's core, where the kernel may have woken it, and a caller that waits lends its
//! own to a helper that has lost it: see [`place`].
//!
//! `std`'s locks are used because each is a word of its own: `parking_lot` keeps its waiting threads in a table of
//! the process, which a fork may copy while it is locked.
#![expect(
    unsafe_code,
    reason = "helpers reach a job on the caller's stack, which the count of active helpers keeps"
)]

use std::{
    any::Any,
    cell::Cell,
    mem,
    ops::Range,
    panic::{self, AssertUnwindSafe},
    ptr,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    chunks::Chunks,
    num_threads,
    place::{self, Thread},
};

/// How long an idle helper polls before it sleeps in the kernel: about as long as the kernel takes to wake it, so that a helper whose
/// wait proves longer has at most doubled its cost (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a
/// shared-memory multiprocessor", SOSP 1991). Between two operators of a model there is less.
const SPIN: Duration = Duration::from_micros(50);

/// How long a caller polls for the last chunks of others: longer than one takes. A caller that slept would wake when the helper
/// sleeps already, wake it late for the next call, and have to wait for it again.
const PATIENCE: Duration = Duration::from_micros(50);

thread_local! {
    static IN_REGION: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn in_region() -> bool {
    IN_REGION.get()
}

/// Calls `f` once for every chunk index, on this thread and on as many helpers as are allowed and free.
#[inline(never)]
pub(super) fn run(chunks: Chunks, f: &(dyn Fn(usize) + Sync)) {
    let count = chunks.count();
    let wanted = num_threads().min(count) - 1;
    let pool = if wanted == 0 || in_region() { None } else { Pool::acquire() };
    match pool {
        Some(pool) => pool.run(&Job::new(count, wanted + 1, f), wanted),
        None => (0..count).for_each(f),
    }
}

type Payload = Box<dyn Any + Send>;

/// Chunks to be claimed: a share for each thread to begin with.
struct Job<'a> {
    shares: Box<[Share]>,
    f: &'a (dyn Fn(usize) + Sync),
    panic: Mutex<Option<Payload>>,
}

impl<'a> Job<'a> {
    fn new(count: usize, threads: usize, f: &'a (dyn Fn(usize) + Sync)) -> Self {
        let (each, rest) = (count / threads, count % threads);
        let start = |i: usize| each * i + rest.min(i);
        let shares = (0..threads).map(|i| Share { next: AtomicUsize::new(start(i)), end: start(i + 1) });
        Self { shares: shares.collect(), f, panic: Mutex::new(None) }
    }

    /// Claims and runs chunks until none are left, or one panics: the first payload is kept, the rest of the work is
    /// not handed out.
    fn work(&self, seat: usize) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            while let Some(indices) = self.claim(seat) {
                indices.for_each(self.f);
            }
        }));
        if let Err(payload) = outcome {
            self.shares.iter().for_each(|share| share.next.store(share.end, Ordering::Relaxed));
            lock(&self.panic).get_or_insert(payload);
        }
    }

    /// Of the thread's own share, or else of the next one that has something left.
    ///
    /// A thread so meets the same elements in one operator as in the next, and finds them in its cache (Markatos and LeBlanc,
    /// "Using processor affinity in loop scheduling", IEEE Transactions on Parallel and Distributed Systems 5, 1994).
    fn claim(&self, seat: usize) -> Option<Range<usize>> {
        let (others, own) = self.shares.split_at(seat.min(self.shares.len()));
        own.iter().chain(others).find_map(Share::claim)
    }
}

/// Neighbouring chunks.
struct Share {
    next: AtomicUsize,
    end: usize,
}

impl Share {
    /// A quarter of what is left: long stretches, which are read faster than scattered chunks, and short ones at the end, so that
    /// all threads end together. A thread that loses its core keeps the others waiting for one stretch only.
    ///
    /// Relaxed: what chunks write is ordered by the lock that each helper takes when it leaves.
    fn claim(&self) -> Option<Range<usize>> {
        let stretch = |next: usize| self.end.saturating_sub(next).div_ceil(4);
        let taken = |next: usize| (next < self.end).then(|| next + stretch(next));
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(first..first + stretch(first))
    }
}

/// A job whose lifetime the pool vouches for.
#[derive(Clone, Copy)]
struct OpenJob(*const Job<'static>);

// SAFETY: a `Job` is shared by the threads that work on it (all its fields are `Sync`); the pointer only carries it.
unsafe impl Send for OpenJob {}

/// What changes together, under the lock.
struct State {
    job: Option<OpenJob>,
    helpers: usize,
    asleep: usize,
    /// Those that have a seat.
    at_work: Vec<Helper>,
}

/// A helper inside a job.
struct Helper {
    thread: Thread,
    /// For how long it had run when a waiting caller last looked.
    time: Option<Duration>,
}

/// The helpers of one process. Never freed: its threads refer to it for as long as the process lives.
struct Pool {
    process: u32,
    /// Held by the one caller whose job is open.
    busy: AtomicBool,
    /// Seats not yet taken; written under the lock, polled outside it.
    seats: AtomicUsize,
    /// Helpers that may be looking at the job, as many as are at work; written under the lock, polled outside it.
    active: AtomicUsize,
    /// Where the caller was when it opened the job, for helpers to stay away from.
    core: AtomicUsize,
    state: Mutex<State>,
    opened: Condvar,
    finished: Condvar,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

impl Pool {
    fn new(process: u32) -> Self {
        Self {
            process,
            busy: AtomicBool::new(false),
            seats: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            core: AtomicUsize::new(usize::MAX),
            state: Mutex::new(State { job: None, helpers: 0, asleep: 0, at_work: Vec::new() }),
            opened: Condvar::new(),
            finished: Condvar::new(),
        }
    }

    /// The pool of this process. A forked child finds its parent's, whose threads it does not have, and leaves it.
    fn current() -> &'static Self {
        let process = std::process::id();
        loop {
            let found = POOL.load(Ordering::Acquire);
            // SAFETY: null, or a pool that was leaked below.
            if let Some(pool) = unsafe { found.as_ref() }.filter(|pool| pool.process == process) {
                return pool;
            }
            let fresh = Box::into_raw(Box::new(Self::new(process)));
            if POOL.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made four lines above and shown to nobody, since the exchange failed.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// The pool, if no other caller is using it.
    fn acquire() -> Option<&'static Self> {
        let pool = Self::current();
        (!pool.busy.swap(true, Ordering::Acquire)).then_some(pool)
    }

    /// Runs `job` with up to `wanted` helpers. The caller has acquired the pool, which is released here.
    fn run(&'static self, job: &Job<'_>, wanted: usize) {
        self.open(job, wanted);
        IN_REGION.set(true);
        job.work(0);
        IN_REGION.set(false);
        self.close();
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = lock(&job.panic).take() {
            panic::resume_unwind(payload);
        }
    }

    fn open(&'static self, job: &Job<'_>, wanted: usize) {
        let mut state = lock(&self.state);
        while state.helpers < wanted && self.spawn() {
            state.helpers += 1;
        }
        // `close` runs before `job` goes: nothing between the two unwinds, since `work` catches panics.
        self.core.store(place::core().unwrap_or(usize::MAX), Ordering::Relaxed);
        state.job = Some(OpenJob(ptr::from_ref(job).cast()));
        self.seats.store(wanted, Ordering::Release);
        let sleepers = state.asleep.min(wanted);
        drop(state);
        for _ in 0..sleepers {
            self.opened.notify_one();
        }
    }

    /// Takes the job back: no helper can find it any more, and those that did have left it.
    fn close(&self) {
        let mut state = lock(&self.state);
        state.job = None;
        self.seats.store(0, Ordering::Relaxed);
        drop(state);
        if !spin_until(PATIENCE, || self.active.load(Ordering::Acquire) == 0) {
            self.sleep_until_finished();
        }
    }

    /// Sleeps, and lends the core meanwhile to helpers whose clocks stand still: they have lost theirs to a stranger, and may not
    /// have it back for milliseconds.
    fn sleep_until_finished(&self) {
        let mut state = lock(&self.state);
        let mut nap = PATIENCE;
        while self.active.load(Ordering::Relaxed) > 0 {
            for Helper { thread, time } in &mut state.at_work {
                let before = mem::replace(time, thread.time());
                if let Some(core) = place::core().filter(|_| before.is_some() && before == *time) {
                    thread.join(core);
                }
            }
            let waited = self.finished.wait_timeout(state, nap);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            nap *= 2;
        }
    }

    /// False if the system has no thread to give: the call then runs with fewer, and to the same result.
    fn spawn(&'static self) -> bool {
        thread::Builder::new().name("flambeau-helper".into()).spawn(|| self.help()).is_ok()
    }

    fn help(&self) {
        IN_REGION.set(true);
        let me = Thread::current();
        loop {
            if !spin_until(SPIN, || self.seats.load(Ordering::Relaxed) > 0) {
                self.sleep_until_opened();
            }
            // Before it takes a seat, for then nobody waits for it yet: another core may be a stranger's for milliseconds.
            let core = self.core.load(Ordering::Relaxed);
            if place::core() == Some(core) {
                me.leave(core, num_threads());
            }
            if let Some((job, seat)) = self.take_seat(me) {
                // SAFETY: the seat was taken while the job was open, so `close` waits for `leave` before the job goes.
                unsafe { &*job.0 }.work(seat);
                self.leave(me);
            }
        }
    }

    fn sleep_until_opened(&self) {
        let mut state = lock(&self.state);
        state.asleep += 1;
        while self.seats.load(Ordering::Relaxed) == 0 {
            state = wait(&self.opened, state);
        }
        state.asleep -= 1;
    }

    /// A job and the number of the seat, from 1 on: the caller has seat 0. `None` if others have taken all seats meanwhile.
    fn take_seat(&self, me: Thread) -> Option<(OpenJob, usize)> {
        let mut state = lock(&self.state);
        let seats = self.seats.load(Ordering::Relaxed);
        let job = state.job.filter(|_| seats > 0)?;
        self.seats.store(seats - 1, Ordering::Relaxed);
        self.active.fetch_add(1, Ordering::Relaxed);
        state.at_work.push(Helper { thread: me, time: None });
        Some((job, seats))
    }

    fn leave(&self, me: Thread) {
        let mut state = lock(&self.state);
        state.at_work.retain(|helper| helper.thread != me);
        if self.active.fetch_sub(1, Ordering::Release) == 1 {
            self.finished.notify_one();
        }
        drop(state);
    }
}

/// Polls for so long; whether the condition was met.
fn spin_until(most: Duration, condition: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..16 {
            if condition() {
                return true;
            }
            std::hint::spin_loop();
        }
        // The clock is not read by those who need not wait.
        if start.get_or_insert_with(Instant::now).elapsed() > most {
            return false;
        }
    }
}

/// No code that panics runs under these locks, so a poisoned one is as good as another.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condvar.wait(guard).unwrap_or_else(PoisonError::into_inner)
}
