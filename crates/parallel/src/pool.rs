//! The helper threads: one open job, slots that helpers take, and a caller that works beside them.
//!
//! The caller publishes a job that lives on its stack and opens a number of [slots](JobSlots). A helper that takes one may use the
//! job. The caller claims chunks too. When none are left it closes the free slots and waits for the helpers that have one, each of
//! which is inside its last chunk. Only threads that sleep use locks. Threads that are awake exchange a job and its completion through
//! as few cache lines as possible, because the transfer of a cache line between cores takes longer than all other steps.
//!
//! On a machine with other busy processes, a helper moves off its caller's core, on which the kernel may have woken it, and a caller
//! that waits lets a helper that was preempted run on its own core: see [`affinity`].
//!
//! `std`'s locks are used because each is a word of its own: `parking_lot` keeps its waiting threads in a table of
//! the process, which a fork may copy while it is locked.
#![expect(
    unsafe_code,
    reason = "helpers use a job on the caller's stack, which lives while the count of active helpers is above 0"
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
    affinity::{self, Thread},
    chunks::Chunks,
    job_slots::JobSlots,
    num_threads,
};

/// More bytes than a thread needs to start: its stack, its thread-locals, and what the C library allocates for it.
pub(super) const THREAD_BYTES: usize = 8 << 20;

/// How long an idle helper polls before it sleeps in the kernel: about as long as the kernel takes to wake it, so that a helper whose
/// wait proves longer has at most doubled its cost (Karlin, Li, Manasse and Owicki, "Empirical studies of competitive spinning for a
/// shared-memory multiprocessor", SOSP 1991). The time between two operators of a model is shorter.
const HELPER_SPIN_LIMIT: Duration = Duration::from_micros(50);

/// How long a caller polls until helpers have finished their last chunks, before it sleeps: longer than a chunk takes. A caller that
/// slept would wake after the helper has fallen asleep, wake it late for the next call, and have to wait for it again.
const CALLER_SPIN_LIMIT: Duration = Duration::from_micros(50);

/// How long a helper polls after it has announced that it sleeps: see [`Pool::sleep_until_opened`].
const FINAL_SPIN_LIMIT: Duration = Duration::from_micros(1);

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
    let helper_count = num_threads().min(count) - 1;
    let pool = if helper_count == 0 || in_region() { None } else { Pool::acquire() };
    match pool {
        Some(pool) => pool.run(&Job::new(count, helper_count + 1, f), helper_count),
        None => (0..count).for_each(f),
    }
}

type Payload = Box<dyn Any + Send>;

/// Chunks to be claimed. Each thread starts with a share of its own.
struct Job<'a> {
    /// The chunks that the caller runs before it claims any. A claim would wait for the cache line of its share, which a helper's core
    /// has, as the memory is that of the last job's shares.
    first: Range<usize>,
    shares: Box<[Share]>,
    f: &'a (dyn Fn(usize) + Sync),
    panic: Mutex<Option<Payload>>,
}

impl<'a> Job<'a> {
    fn new(count: usize, threads: usize, f: &'a (dyn Fn(usize) + Sync)) -> Self {
        let (each, rest) = (count / threads, count % threads);
        let start = |i: usize| each * i + rest.min(i);
        let first = 0..batch_size(start(1));
        let next = |i: usize| AtomicUsize::new(if i == 0 { first.end } else { start(i) });
        let shares = (0..threads).map(|i| Share { next: next(i), end: start(i + 1) }).collect();
        Self { first, shares, f, panic: Mutex::new(None) }
    }

    /// Claims and runs chunks until none are left, or one panics: then the first payload is stored, and the other chunks are not run.
    fn work(&self, slot: usize) {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
            if slot == 0 {
                self.first.clone().for_each(self.f);
            }
            while let Some(indices) = self.claim(slot) {
                indices.for_each(self.f);
            }
        }));
        if let Err(payload) = outcome {
            self.shares.iter().for_each(|share| share.next.store(share.end, Ordering::Relaxed));
            lock(&self.panic).get_or_insert(payload);
        }
    }

    /// Claims chunks of the thread's own share, or else of the next share that has some left.
    ///
    /// So a thread mostly visits the same elements in one operator as in the next, and finds them in its cache (Markatos and LeBlanc,
    /// "Using processor affinity in loop scheduling", IEEE Transactions on Parallel and Distributed Systems 5, 1994).
    fn claim(&self, slot: usize) -> Option<Range<usize>> {
        let (others, own) = self.shares.split_at(slot.min(self.shares.len()));
        own.iter().chain(others).find_map(Share::claim)
    }
}

/// How many chunks a thread claims at once: a quarter of those that are left (guided self-scheduling). The first batches are long,
/// because contiguous chunks are read faster than scattered ones; the last are short, so that all threads end together. Other threads
/// wait for one batch at most of a thread that is preempted.
fn batch_size(left: usize) -> usize {
    left.div_ceil(4)
}

/// A range of chunks that one thread claims, and others only at the end; on cache lines of its own, so that threads do not share them.
#[repr(align(128))]
struct Share {
    next: AtomicUsize,
    end: usize,
}

impl Share {
    /// Claims a batch of [`batch_size`] chunks.
    ///
    /// Relaxed: the slots order what chunks write.
    fn claim(&self) -> Option<Range<usize>> {
        let end = |next: usize| next + batch_size(self.end - next);
        let taken = |next: usize| (next < self.end).then(|| end(next));
        let first = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).ok()?;
        Some(first..end(first))
    }
}

/// What a waiting caller knows of a helper.
struct Helper {
    thread: Thread,
    /// Whether it has a slot.
    is_working: AtomicBool,
}

/// The helpers of one process. Never freed: its threads refer to it for as long as the process lives.
struct Pool {
    /// Held by the one caller whose job is open.
    busy: AtomicBool,
    /// How many threads were started; those that already run are in `helpers`.
    started: AtomicUsize,
    helpers: Mutex<Vec<Arc<Helper>>>,
    call: Call,
    /// How many helpers sleep.
    asleep: AtomicUsize,
    /// Locked by threads that fall asleep and by threads that wake them.
    sleep: Mutex<()>,
    opened: Condvar,
    finished: Condvar,
}

/// What the caller tells the helpers, on cache lines of its own.
#[repr(align(128))]
struct Call {
    slots: JobSlots,
    /// Lives on the caller's stack while slots are free or taken.
    job: AtomicPtr<Job<'static>>,
    /// The core on which the caller opened the job, which helpers avoid.
    core: AtomicUsize,
}

static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

/// Makes forked children start without a pool: they do not have the threads of their parent's. A comparison of process ids would be a
/// system call at each job, which takes longer than the transfer of a cache line between cores.
#[cfg(all(unix, not(miri)))]
fn reset_in_forked_children() {
    extern "C" fn forget() {
        POOL.store(ptr::null_mut(), Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler stores a word. If it cannot be registered for lack of memory, a child works without helpers.
        unsafe { libc::pthread_atfork(None, None, Some(forget)) };
    });
}

#[cfg(not(all(unix, not(miri))))]
fn reset_in_forked_children() {}

impl Pool {
    fn new() -> Self {
        Self {
            busy: AtomicBool::new(false),
            started: AtomicUsize::new(0),
            helpers: Mutex::new(Vec::new()),
            call: Call {
                slots: JobSlots::default(),
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
            reset_in_forked_children();
            let fresh = Box::into_raw(Box::new(Self::new()));
            if POOL.compare_exchange(found, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made four lines above and not published, since the exchange failed.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
    }

    /// The pool, if no other caller is using it.
    fn acquire() -> Option<&'static Self> {
        let pool = Self::current();
        (!pool.busy.swap(true, Ordering::Acquire)).then_some(pool)
    }

    /// Runs `job` with up to `helper_count` helpers. The caller has acquired the pool, which is released here.
    fn run(&'static self, job: &Job<'_>, helper_count: usize) {
        self.open(job, helper_count);
        IN_REGION.set(true);
        job.work(0);
        IN_REGION.set(false);
        self.close();
        self.busy.store(false, Ordering::Release);
        if let Some(payload) = lock(&job.panic).take() {
            panic::resume_unwind(payload);
        }
    }

    fn open(&'static self, job: &Job<'_>, helper_count: usize) {
        while self.started.load(Ordering::Relaxed) < helper_count && self.spawn() {
            self.started.fetch_add(1, Ordering::Relaxed);
        }
        // `close` runs before `job` is dropped: nothing between the two unwinds, since `work` catches panics.
        self.call.core.store(affinity::current_core().unwrap_or(usize::MAX), Ordering::Relaxed);
        self.call.job.store(ptr::from_ref(job).cast_mut().cast(), Ordering::Relaxed);
        self.call.slots.open(helper_count);
        let sleepers = self.asleep.load(Ordering::Relaxed).min(helper_count);
        if sleepers > 0 {
            // Helpers that were about to sleep do so before they are woken: they hold the lock until then.
            drop(lock(&self.sleep));
            (0..sleepers).for_each(|_| self.opened.notify_one());
        }
    }

    /// Withdraws the job: afterwards no helper can take a slot of it, and those that had one have left it.
    fn close(&self) {
        self.call.slots.close();
        if !spin_until(CALLER_SPIN_LIMIT, || !self.call.slots.has_taken()) {
            self.sleep_until_finished();
        }
    }

    /// Sleeps until the helpers have finished, and migrates helpers whose CPU time does not advance to the caller's core meanwhile:
    /// they were preempted by a thread of another process, and might not run on their own core again for milliseconds.
    fn sleep_until_finished(&self) {
        let mut times = CpuTimes::default();
        let mut asleep = lock(&self.sleep);
        let (mut nap, mut waits) = (CALLER_SPIN_LIMIT, self.call.slots.caller_sleeps());
        while waits {
            for thread in times.stalled(&lock(&self.helpers)) {
                if let Some(core) = affinity::current_core() {
                    thread.migrate_to(core);
                }
            }
            let woken = self.finished.wait_timeout(asleep, nap);
            asleep = woken.unwrap_or_else(PoisonError::into_inner).0;
            nap *= 2;
            waits = self.call.slots.has_taken();
        }
        self.call.slots.caller_wakes();
    }

    /// Starts a helper. False if the system cannot start another thread: the call then runs with fewer threads, to the same result.
    fn spawn(&'static self) -> bool {
        // A thread that gets its stack, but then no memory for its thread-locals, would abort the process.
        if Vec::<u8>::new().try_reserve_exact(THREAD_BYTES).is_err() {
            return false;
        }
        thread::Builder::new().name("flambeau-helper".into()).spawn(|| self.help()).is_ok()
    }

    fn help(&self) {
        IN_REGION.set(true);
        let thread = Thread::current();
        let me = Arc::new(Helper { thread, is_working: AtomicBool::new(false) });
        lock(&self.helpers).push(Arc::clone(&me));
        loop {
            if !spin_until(HELPER_SPIN_LIMIT, || self.call.slots.has_free()) {
                self.sleep_until_opened();
            }
            // Before it takes a slot, when no caller waits for it yet: a thread of another process may occupy the other core for
            // milliseconds.
            let core = self.call.core.load(Ordering::Relaxed);
            if affinity::current_core() == Some(core) {
                thread.exclude_core(core, num_threads());
            }
            if let Some(slot) = self.call.slots.take() {
                me.is_working.store(true, Ordering::Relaxed);
                let job = self.call.job.load(Ordering::Relaxed);
                // SAFETY: the slot was taken while this job was open, so `close` waits for `leave` before the job is dropped.
                unsafe { &*job }.work(slot);
                me.is_working.store(false, Ordering::Relaxed);
                self.leave();
            }
        }
    }

    /// A caller stores its slots and then reads how many helpers sleep, without a fence between the two, so it may miss a helper that
    /// falls asleep at that moment. The helper therefore polls for slots a little longer than a store takes to become visible. If it is
    /// missed even so, it sleeps through the call, which is correct without it.
    fn sleep_until_opened(&self) {
        let mut asleep = lock(&self.sleep);
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let mut waits = !spin_until(FINAL_SPIN_LIMIT, || self.call.slots.has_free());
        while waits {
            asleep = self.opened.wait(asleep).unwrap_or_else(PoisonError::into_inner);
            waits = !self.call.slots.has_free();
        }
        self.asleep.fetch_sub(1, Ordering::Relaxed);
    }

    fn leave(&self) {
        if self.call.slots.leave() {
            // A caller that was about to sleep does so before it is woken: it holds the lock until then.
            drop(lock(&self.sleep));
            self.finished.notify_one();
        }
    }
}

/// The CPU times of helpers when a waiting caller last read them.
#[derive(Default)]
struct CpuTimes(Vec<Option<Duration>>);

impl CpuTimes {
    /// The helpers with a slot whose CPU time has not advanced since the last call.
    fn stalled(&mut self, helpers: &[Arc<Helper>]) -> Vec<Thread> {
        self.0.resize(helpers.len(), None);
        let mut stalled = |(helper, time): (&Arc<Helper>, &mut Option<Duration>)| {
            let now = helper.is_working.load(Ordering::Relaxed).then(|| helper.thread.cpu_time()).flatten();
            let before = mem::replace(time, now);
            (before.is_some() && before == now).then_some(helper.thread)
        };
        helpers.iter().zip(&mut self.0).filter_map(&mut stalled).collect()
    }
}

/// Polls `condition` until it holds, for `limit` at most. Returns whether it did.
fn spin_until(limit: Duration, condition: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..16 {
            if condition() {
                return true;
            }
            std::hint::spin_loop();
        }
        // The clock is read only if the condition does not hold at once.
        if start.get_or_insert_with(Instant::now).elapsed() > limit {
            return false;
        }
    }
}

/// Locks a mutex. No code that panics runs under these locks, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
