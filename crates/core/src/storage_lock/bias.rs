//! The part of a lock that belongs to one thread, which takes it without atomic updates until another thread comes.
//!
//! Nearly every storage is made, read and written by a single thread. Its lock is biased towards that thread: the owner
//! writes what it holds to a word that no other thread writes, and then checks whether the bias has been revoked. Another thread that
//! needs the lock first revokes the bias, for good. With a [fence](barrier) between the write and the read on either side, at least
//! one of the two sees what the other wrote. (Biased locking: Kawachiya, Koseki and Onodera, "Lock reservation: Java locks can
//! mostly do without atomic operations", OOPSLA 2002.)

use super::{Access, NOTHING, WRITER, taken};
use crate::barrier;
use crate::sync::{AtomicU32, Ordering};
use std::cell::Cell;

/// Another thread is revoking the bias; the owner may not have seen it.
const REVOKING: u32 = 1 << 30;
/// The bias is revoked, and the owner will see that before it takes the lock again.
const REVOKED: u32 = 1 << 31;

pub(super) struct Bias {
    /// The number of the owner, and whether the bias is revoked.
    owner: AtomicU32,
    /// What the owner holds by the bias, as in the lock's word. Only the owner writes.
    held: AtomicU32,
}

/// What came of the owner's attempt.
pub(super) enum Attempt {
    Taken,
    /// It conflicts with what the owner itself holds.
    Conflict,
    /// The bias was revoked meanwhile, and another thread may have seen the attempt.
    Revoked,
}

impl Bias {
    /// A bias towards the calling thread.
    #[inline(always)]
    pub(super) fn new() -> Self {
        let owner = match this_thread() {
            0 => number_this_thread(),
            number => number,
        };
        Bias { owner: AtomicU32::new(owner), held: AtomicU32::new(0) }
    }

    /// A lock without a bias.
    pub(super) fn revoked() -> Self {
        Bias { owner: AtomicU32::new(REVOKED), held: AtomicU32::new(0) }
    }

    /// Whether the calling thread is the owner and may use the bias.
    #[inline(always)]
    pub(super) fn is_ours(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == this_thread()
    }

    /// Takes the lock; only if it [is ours](Self::is_ours).
    #[inline(always)]
    pub(super) fn take(&self, access: Access) -> Attempt {
        let held = self.held.load(Ordering::Relaxed);
        let Some(next) = taken::<NOTHING>(held, access) else { return Attempt::Conflict };
        self.held.store(next, Ordering::Relaxed);
        barrier::light();
        if self.is_ours() {
            return Attempt::Taken;
        }
        self.held.store(held, Ordering::Release);
        barrier::light();
        Attempt::Revoked
    }

    /// What the calling thread holds by the bias, revoked or not; 0 if it is not the owner.
    #[inline(always)]
    pub(super) fn held_by_us(&self) -> u32 {
        let owner = self.owner.load(Ordering::Relaxed) & !(REVOKING | REVOKED);
        if owner == this_thread() { self.held.load(Ordering::Relaxed) } else { 0 }
    }

    /// Releases what the calling thread [holds](Self::held_by_us). False if the bias is revoked, so that another thread may be waiting
    /// for this.
    #[inline(always)]
    pub(super) fn give_back(&self, access: Access) -> bool {
        let one = if access == Access::Write { WRITER } else { 1 };
        let held = self.held.load(Ordering::Relaxed);
        // Release: what the guard allowed happens before the next conflicting guard.
        self.held.store(held.wrapping_sub(one), Ordering::Release);
        barrier::light();
        self.is_ours()
    }

    /// Makes sure that all threads use the lock's word from now on, except for what the owner still holds by the bias. False if the
    /// system refuses the fence.
    #[inline(always)]
    pub(super) fn revoke(&self) -> bool {
        self.owner.load(Ordering::Acquire) & REVOKED != 0 || self.revoke_now()
    }

    #[cold]
    fn revoke_now(&self) -> bool {
        self.owner.fetch_or(REVOKING, Ordering::Relaxed);
        // A thread that finds another one revoking cannot know whether that has executed its fence, and executes one of its own.
        let passed = barrier::heavy();
        if passed {
            self.owner.fetch_or(REVOKED, Ordering::Release);
        }
        passed
    }

    /// Whether what the owner holds by the bias permits this access to others. The bias must be revoked.
    #[inline(always)]
    pub(super) fn allows(&self, access: Access) -> bool {
        taken::<NOTHING>(self.held.load(Ordering::Acquire), access).is_some()
    }

    /// The same after the calling thread has written to the lock's word that it will sleep: either this sees that the owner has
    /// released the lock, or the owner sees the sleeper.
    #[cold]
    pub(super) fn allows_or_will_wake(&self, access: Access) -> bool {
        self.allows(access) || (barrier::heavy() && self.allows(access))
    }
}

#[cfg(not(loom))]
thread_local! {
    /// The number of this thread; 0 if it has none yet.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

#[cfg(loom)]
loom::thread_local! {
    static NUMBER: Cell<u32> = Cell::new(0);
}

#[inline(always)]
fn this_thread() -> u32 {
    NUMBER.with(Cell::get)
}

/// Gives the thread, which has none yet, a number. If the system does not support the fences, or numbers have run out, it returns a
/// bias that is revoked from the beginning.
#[cold]
#[inline(never)]
fn number_this_thread() -> u32 {
    // The standard library's atomic even under loom, so that it adds no interleavings.
    static LAST: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    if !barrier::is_supported() {
        return REVOKED;
    }
    let next = LAST
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| (last + 1 < REVOKING).then_some(last + 1));
    let Ok(last) = next else { return REVOKED };
    NUMBER.with(|number| number.set(last + 1));
    last + 1
}
