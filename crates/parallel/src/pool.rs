//! The helper threads: one open job, seats that helpers take, and a caller that works beside them.
//!
//! The caller publishes a job that lives on its stack and opens a number of [seats](Seats). A helper that takes one may look at the
//! job. The caller claims chunks too. When none are left it closes the remaining seats and waits for the helpers that have one, each
//! of which is inside its last chunk. Locks are for those that sleep: between threads that are awake a job goes over and comes back
//! in the fewest lines of cache, which take longer to pass between cores than all else.
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
        Arc, Condvar, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    chunks::Chunks,
    num_threads,
    place::{self, Thread},
    seats::Seats,
};

/// More than a thread takes to begin: its stack, its locals, and what the C library sets aside for it.
pub(super) const THREAD_BYTES: usize = 8 << 20;

/// How long an idle helper polls before it sleeps in the kernel: about as long as the kernel takes to wake it, so that a helper whose
/// wait proves longer has at most doubled its cost (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a
/// shared-memory multiprocessor", SOSP 1991). Between two operators of a model there is less.
const SPIN: Duration = Duration::from_micros(50);

/// How long a caller polls for the last chunks of others: longer than one takes. A caller that slept would wake when the helper
/// sleeps already, wake it late for the next call, and have to wait for it again.
const PATIENCE: Duration = Duration::from_micros(50);

/// How long a helper polls that has said that it sleeps.
const LAST_LOOK: Duration = Duration::from_micros(1);

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
    /// What the caller runs before it claims anything: a helper has looked at the shares of the last job, and their lines are slow
    /// to come back.
    first: Range<usize>,
    shares: Box<[Share]>,
    f: &'a (dyn Fn(usize) + Sync),
    panic: Mutex<Option<Payload>>,
}

impl<'a> Job<'a> {
    fn new(count: usize, threads: usize, f: &'a (dyn Fn(usize) + Sync)) -> Self {
        let (each, rest) = (count / threads, count % threads);
        let start = |i: usize| each * i + rest.min(i);
        let first = 0..stretch(start(1));
        let next = |i: usize| AtomicUsize::new(if i == 0 { first.end } else { start(i) });
        let shares = (0..threads).map(|i| Share { next: next(i), end: start(i + 1) }).collect();
        Self { first, shares, f, panic: Mutex::new(None) }
    }

    /// Claims and runs chunks until none are left, or one panics: the first payload is kept, the rest of the work is
    /// not handed out.
    fn work(&self, seat: usize) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            if seat == 0 {
                self.first.clone().for_each(self.f);
            }
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

/// A quarter of the chunks that are left: long stretches, which are read faster than scattered chunks, and short ones at the end, so
/// that all threads end together. A thread that loses its core keeps the others waiting for one stretch only.
fn stretch(left: usize) -> usize {
    left.div_ceil(4)
}

/// Neighbouring chunks, on lines of their own: they are claimed by one thread until the end.
#[repr(align(128))]
struct Share {
    next: AtomicUsize,
    end: usize,
}

impl Share {
    /// A [stretch] of what is left.
    ///
    /// Relaxed: what chunks write is ordered by the seats.
    fn claim(&self) -> Option<Range<usize>> {
        let end = |next: usize| next + stretch(self.end - next);
        let taken = |next: usize| (next < self.end).then(|| end(next));
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(first..end(first))
    }
}

/// A helper as a caller sees it that waits.
struct Helper {
    thread: Thread,
    /// Whether it has a seat.
    is_at_work: AtomicBool,
}

/// The helpers of one process. Never freed: its threads refer to it for as long as the process lives.
struct Pool {
    /// Held by the one caller whose job is open.
    busy: AtomicBool,
    /// Threads that were started; those that run are in the list.
    started: AtomicUsize,
    helpers: Mutex<Vec<Arc<Helper>>>,
    call: Call,
    /// Helpers that sleep.
    asleep: AtomicUsize,
    /// Held by those that fall asleep and those that wake them.
    sleep: Mutex<()>,
    opened: Condvar,
    finished: Condvar,
}

/// What the caller tells the helpers, on lines of its own.
#[repr(align(128))]
struct Call {
    seats: Seats,
    /// Kept on the caller's stack while seats are open or taken.
    job: AtomicPtr<Job<'static>>,
    /// Where the caller was when it opened the job, for helpers to stay away from.
    core: AtomicUsize,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Has forked children start with no pool: they do not have the threads of their parent's. To compare numbers of processes would be a
/// call of the system at each job, which takes longer than a helper's answer (146 ns where a word passes between cores in 140).
#[cfg(all(unix, not(miri)))]
fn leave_to_parent() {
    extern "C" fn forget() {
        POOL.store(ptr::null_mut(), Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler stores a word. Where there is no memory for it, a child works alone.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
}

#[cfg(not(all(unix, not(miri))))]
fn leave_to_parent() {}

impl Pool {
    fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            started: AtomicUsize::new(0),
            helpers: Mutex::new(Vec::new()),
            call: Call {
                seats: Seats::default(),
                job: AtomicPtr::new(ptr::null_mut()),
                core: AtomicUsize::new(usize::MAX),
            },
            asleep: AtomicUsize::new(0),
            sleep: Mutex::new(()),
            opened: Condvar::new(),
            finished: Condvar::new(),
        }
    }

    /// The pool of this process.
    fn current() -> &'static Self {
        loop {
            let found = POOL.load(Ordering::Acquire);
            // SAFETY: null, or a pool that was leaked below.
            if let Some(pool) = unsafe { found.as_ref() } {
                return pool;
            }
            leave_to_parent();
            let fresh = Box::into_raw(Box::new(Self::new()));
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
        while self.started.load(Ordering::Relaxed) < wanted && self.spawn() {
            self.started.fetch_add(1, Ordering::Relaxed);
        }
        // `close` runs before `job` goes: nothing between the two unwinds, since `work` catches panics.
        self.call.core.store(place::core().unwrap_or(usize::MAX), Ordering::Relaxed);
        self.call.job.store(ptr::from_ref(job).cast_mut().cast(), Ordering::Relaxed);
        self.call.seats.open(wanted);
        let sleepers = self.asleep.load(Ordering::Relaxed).min(wanted);
        if sleepers > 0 {
            // Those that were about to sleep do so before they are woken.
            drop(lock(&self.sleep));
            (0..sleepers).for_each(|_| self.opened.notify_one());
        }
    }

    /// Takes the job back: no helper can find it any more, and those that did have left it.
    fn close(&self) {
        self.call.seats.close();
        if !spin_until(PATIENCE, || !self.call.seats.are_taken()) {
            self.sleep_until_finished();
        }
    }

    /// Sleeps, and lends the core meanwhile to helpers whose clocks stand still: they have lost theirs to a stranger, and may not
    /// have it back for milliseconds.
    fn sleep_until_finished(&self) {
        let mut clocks = Clocks::default();
        let mut asleep = lock(&self.sleep);
        let (mut nap, mut waits) = (PATIENCE, self.call.seats.caller_sleeps());
        while waits {
            for thread in clocks.standing(&lock(&self.helpers)) {
                if let Some(core) = place::core() {
                    thread.join(core);
                }
            }
            let woken = self.finished.wait_timeout(asleep, nap);
            asleep = woken.unwrap_or_else(PoisonError::into_inner).0;
            nap *= 2;
            waits = self.call.seats.are_taken();
        }
        self.call.seats.caller_wakes();
    }

    /// False if the system has no thread to give: the call then runs with fewer, and to the same result.
    fn spawn(&'static self) -> bool {
        // A thread that gets its stack, but then no memory for its locals, ends the process.
        if Vec::<u8>::new().try_reserve_exact(THREAD_BYTES).is_err() {
            return false;
        }
        thread::Builder::new().name("flambeau-helper".into()).spawn(|| self.help()).is_ok()
    }

    fn help(&self) {
        IN_REGION.set(true);
        let thread = Thread::current();
        let me = Arc::new(Helper { thread, is_at_work: AtomicBool::new(false) });
        lock(&self.helpers).push(Arc::clone(&me));
        loop {
            if !spin_until(SPIN, || self.call.seats.are_open()) {
                self.sleep_until_opened();
            }
            // Before it takes a seat, for then nobody waits for it yet: another core may be a stranger's for milliseconds.
            let core = self.call.core.load(Ordering::Relaxed);
            if place::core() == Some(core) {
                thread.leave(core, num_threads());
            }
            if let Some(seat) = self.call.seats.take() {
                me.is_at_work.store(true, Ordering::Relaxed);
                let job = self.call.job.load(Ordering::Relaxed);
                // SAFETY: the seat was taken while this job was open, so `close` waits for `leave` before the job goes.
                unsafe { &*job }.work(seat);
                me.is_at_work.store(false, Ordering::Relaxed);
                self.leave();
            }
        }
    }

    /// A caller does not wait until its seats are seen before it looks for sleepers, so it may miss one that falls asleep at this
    /// moment: that one looks for seats a little longer than a store is on its way. One that is missed yet sleeps through the call,
    /// which needs nobody.
    fn sleep_until_opened(&self) {
        let mut asleep = lock(&self.sleep);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let mut waits = !spin_until(LAST_LOOK, || self.call.seats.are_open());
        while waits {
            asleep = self.opened.wait(asleep).unwrap_or_else(PoisonError::into_inner);
            waits = !self.call.seats.are_open();
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        if self.call.seats.leave() {
            // The caller was about to sleep, and does so before it is woken.
            drop(lock(&self.sleep));
            self.finished.notify_one();
        }
    }
}

/// For how long helpers had run when a waiting caller last looked.
#[derive(Default)]
struct Clocks(Vec<Option<Duration>>);

impl Clocks {
    /// Those at work that have not run since.
    fn standing(&mut self, helpers: &[Arc<Helper>]) -> Vec<Thread> {
        self.0.resize(helpers.len(), None);
        let mut stands = |(helper, time): (&Arc<Helper>, &mut Option<Duration>)| {
            let now = helper.is_at_work.load(Ordering::Relaxed).then(|| helper.thread.time()).flatten();
            let before = mem::replace(time, now);
            (before.is_some() && before == now).then_some(helper.thread)
        };
        helpers.iter().zip(&mut self.0).filter_map(&mut stands).collect()
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
