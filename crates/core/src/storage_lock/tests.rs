//! Tests that the storage lock excludes conflicting guards and no others, and wakes threads that wait. loom's models are in
//! `tests/loom.rs`.

#![expect(unsafe_code, reason = "the lock guards a cell")]

use super::*;
use Access::{Read, Write};
use std::cell::UnsafeCell;
use std::time::Duration;

#[test]
fn readers_share_and_writers_do_not() {
    let lock = StorageLock::new();
    assert!(lock.try_lock(Read) && lock.try_lock(Read));
    assert!(!lock.try_lock(Write));
    lock.unlock(Read);
    assert!(!lock.try_lock(Write));
    lock.unlock(Read);
    assert!(lock.try_lock(Write));
    assert!(!lock.try_lock(Read) && !lock.try_lock(Write));
    lock.unlock(Write);
    assert_eq!(lock.word.load(Ordering::Relaxed), 0);
}

#[test]
fn a_deadline_is_kept() {
    for (held, access) in [(Read, Write), (Write, Read), (Write, Write)] {
        let lock = StorageLock::new();
        assert!(lock.lock(held, None));
        let start = Instant::now();
        assert!(!lock.lock(access, Some(start + Duration::from_millis(20))));
        assert!(start.elapsed() >= Duration::from_millis(20));
        lock.unlock(held);
        assert!(lock.lock(access, None));
    }
}

#[test]
fn a_waiting_writer_does_not_block_readers() {
    let lock = StorageLock::new();
    assert!(lock.lock(Read, None));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(lock.lock(Write, None));
            lock.unlock(Write);
        });
        while lock.word.load(Ordering::Relaxed) & SLEEPER == 0 {
            std::thread::yield_now();
        }
        assert!(lock.lock(Read, None));
        lock.unlock(Read);
        lock.unlock(Read);
    });
}

struct Shared {
    lock: StorageLock,
    value: UnsafeCell<[u64; 2]>,
}
// SAFETY: the tests reach `value` under the lock.
unsafe impl Sync for Shared {}

#[test]
fn threads_exclude_each_other() {
    let shared = Shared { lock: StorageLock::new(), value: UnsafeCell::new([0, 0]) };
    let (threads, rounds) = (4, if cfg!(miri) { 20 } else { 20_000 });
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let shared = &shared;
            scope.spawn(move || {
                for round in 0..rounds {
                    let access = if (thread + round) % 3 == 0 { Write } else { Read };
                    assert!(shared.lock.lock(access, None));
                    // SAFETY: under the lock.
                    unsafe {
                        let [a, b] = *shared.value.get();
                        assert_eq!(a, b);
                        if access == Write {
                            (*shared.value.get())[0] += 1;
                            (*shared.value.get())[1] += 1;
                        }
                    }
                    shared.lock.unlock(access);
                }
            });
        }
    });
    let writes = (0..threads).map(|t| (0..rounds).filter(|r| (t + r) % 3 == 0).count() as u64).sum::<u64>();
    assert_eq!(shared.value.into_inner(), [writes; 2]);
}

/// The owner of the bias is at work when others come for the first time, lock after lock.
#[test]
fn others_come_while_the_owner_works() {
    let (locks, rounds) = if cfg!(miri) { (3, 20) } else { (300, 300) };
    for _ in 0..locks {
        let mut whole = Shared { lock: StorageLock::new(), value: UnsafeCell::new([0, 0]) };
        let shared = &whole;
        let work = |thread: usize| {
            for round in 0..rounds {
                let access = if (thread + round).is_multiple_of(2) { Write } else { Read };
                assert!(shared.lock.lock(access, None));
                // SAFETY: under the lock.
                unsafe {
                    let value = &raw mut (*shared.value.get());
                    assert_eq!((*value)[0], (*value)[1]);
                    if access == Write {
                        (*value)[0] += 1;
                        (*value)[1] += 1;
                    }
                }
                shared.lock.unlock(access);
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            scope.spawn(move || work(1));
            scope.spawn(move || work(2));
            work(0);
        });
        assert_eq!(*whole.value.get_mut(), [3 * rounds as u64 / 2; 2]);
    }
}

#[test]
fn a_guard_taken_before_the_bias_was_revoked_still_counts() {
    let lock = StorageLock::new();
    let elsewhere =
        |access| std::thread::scope(|scope| scope.spawn(|| lock.try_lock(access)).join().unwrap());
    assert!(lock.try_lock(Read));
    assert!(!elsewhere(Write));
    // This one by the word.
    assert!(lock.try_lock(Read));
    lock.unlock(Read);
    assert!(!elsewhere(Write));
    lock.unlock_held();
    assert!(lock.try_lock(Write));
    assert!(!elsewhere(Read));
    lock.unlock_held();
    assert!(elsewhere(Write));
}
