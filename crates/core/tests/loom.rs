//! Tests reference counts, the storage lock and the guards in every interleaving of a few threads: `RUSTFLAGS="--cfg loom" cargo
//! test -p flambeau-core --release --test loom`.
//!
//! What the threads share is loom's `UnsafeCell`, which reports a use that does not happen before a conflicting one.
//! The free lists have no model: a thread's own are touched by it alone, and the shared cache is one mutex.

#![cfg(loom)]
#![expect(unsafe_code, reason = "the models look into cells, which loom checks")]

use flambeau_core::intrusive_ptr::{IntrusivePtr, IntrusiveTarget};
use flambeau_core::storage_lock::{Access, StorageLock};
use flambeau_core::{Device, ReadGuard, Storage, StorageGuards, WriteGuard};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Read by its owners; written when it is dropped, and counted.
struct Probe {
    cell: UnsafeCell<u32>,
    drops: Arc<AtomicUsize>, // The standard one: it must not add to the interleavings or to what happens before.
}

// SAFETY: the models' reads are shared, and loom reports a write that is not exclusive.
unsafe impl Send for Probe {}
// SAFETY: as above.
unsafe impl Sync for Probe {}
impl IntrusiveTarget for Probe {}

impl Probe {
    fn new() -> (IntrusivePtr<Probe>, Arc<AtomicUsize>) {
        let drops = Arc::new(AtomicUsize::new(0));
        (IntrusivePtr::new(Probe { cell: UnsafeCell::new(1), drops: Arc::clone(&drops) }), drops)
    }

    fn read(&self) -> u32 {
        // SAFETY: loom checks that nobody writes meanwhile.
        self.cell.with(|value| unsafe { *value })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // SAFETY: loom checks that all reads happened before.
        self.cell.with_mut(|value| unsafe { *value = 0 });
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn count(drops: &AtomicUsize) -> usize {
    drops.load(Ordering::Relaxed)
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn owners_on_three_threads_drop_the_value_once() {
    loom::model(|| {
        let (a, drops) = Probe::new();
        let threads = [a.clone(), a.clone()].map(|mine| {
            thread::spawn(move || {
                assert_eq!(mine.read(), 1);
                drop(mine);
            })
        });
        assert_eq!(a.read(), 1);
        drop(a);
        join(threads);
        assert_eq!(count(&drops), 1);
    });
}

#[test]
fn a_clone_taken_while_another_owner_drops_keeps_the_value() {
    loom::model(|| {
        let (a, drops) = Probe::new();
        let b = a.clone();
        let thread = thread::spawn(move || drop(b));
        let c = a.clone();
        drop(a);
        assert_eq!((c.read(), count(&drops)), (1, 0));
        thread.join().unwrap();
        drop(c);
        assert_eq!(count(&drops), 1);
    });
}

#[test]
fn an_upgrade_races_the_last_drop() {
    loom::model(|| {
        let (a, drops) = Probe::new();
        let weak = IntrusivePtr::downgrade(&a);
        let seen = Arc::clone(&drops);
        let thread = thread::spawn(move || match weak.upgrade() {
            Some(up) => assert_eq!((up.read(), count(&seen)), (1, 0)),
            None => assert!(weak.upgrade().is_none()),
        });
        drop(a);
        thread.join().unwrap();
        assert_eq!(count(&drops), 1);
    });
}

#[test]
fn the_last_weak_owner_races_the_last_strong_one() {
    loom::model(|| {
        let (a, drops) = Probe::new();
        let weak = IntrusivePtr::downgrade(&a);
        let other = weak.clone();
        let threads = [weak, other].map(|weak| thread::spawn(move || drop(weak)));
        drop(a); // The block is freed once, after all: `check_quiet` has loom look.
        join(threads);
        assert_eq!(count(&drops), 1);
    });
}

#[test]
fn a_weak_owner_is_made_and_upgraded_while_others_drop() {
    loom::model(|| {
        let (a, drops) = Probe::new();
        let b = a.clone();
        let thread = thread::spawn(move || {
            let weak = IntrusivePtr::downgrade(&b);
            drop(b);
            weak.upgrade().map(|up| up.read())
        });
        drop(a);
        assert!(matches!(thread.join().unwrap(), None | Some(1)));
        assert_eq!(count(&drops), 1);
    });
}

#[test]
fn whoever_is_alone_may_write_what_others_read_before() {
    loom::model(|| {
        let (mut a, _) = Probe::new();
        let b = a.clone();
        let weak = IntrusivePtr::downgrade(&a);
        let threads = [
            thread::spawn(move || {
                assert_eq!(b.read(), 1);
                drop(b);
            }),
            thread::spawn(move || assert!(weak.upgrade().is_none_or(|up| up.read() <= 2))),
        ];
        if let Some(probe) = IntrusivePtr::get_mut(&mut a) {
            // SAFETY: loom checks that the other thread's reads happened before.
            probe.cell.with_mut(|value| unsafe { *value = 2 });
        }
        join(threads);
        assert!(IntrusivePtr::get_mut(&mut a).is_some());
    });
}

/// Two cells that a lock guards.
struct Guarded {
    lock: StorageLock,
    cells: [UnsafeCell<u32>; 2],
}

// SAFETY: loom checks the cells.
unsafe impl Send for Guarded {}
// SAFETY: as above.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Guarded { lock: StorageLock::new(), cells: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn write(&self) {
        assert!(self.lock.lock(Access::Write, None));
        for cell in &self.cells {
            // SAFETY: loom checks that nobody else is here.
            cell.with_mut(|value| unsafe { *value += 1 });
        }
        self.lock.unlock(Access::Write);
    }

    fn read(&self) -> u32 {
        assert!(self.lock.lock(Access::Read, None));
        // SAFETY: loom checks that nobody writes.
        let [a, b] = [0, 1].map(|i: usize| self.cells[i].with(|value| unsafe { *value }));
        self.lock.unlock(Access::Read);
        assert_eq!(a, b);
        a
    }
}

/// For threads that may sleep all interleavings are too many; faults show with few preemptions.
fn preempted(times: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(times);
    builder.check(model);
}

#[test]
fn writers_exclude_each_other_and_wake_each_other() {
    preempted(3, || {
        let shared = Guarded::new();
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || other.write());
        shared.write();
        thread.join().unwrap();
        assert_eq!(shared.read(), 2);
    });
}

#[test]
fn readers_see_all_of_a_write_or_nothing() {
    preempted(2, || {
        let shared = Guarded::new();
        let (writer, reader) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads =
            [thread::spawn(move || writer.write()), thread::spawn(move || assert!(reader.read() <= 1))];
        assert!(shared.read() <= 1);
        join(threads);
        assert_eq!(shared.read(), 1);
    });
}

#[test]
fn three_who_want_the_lock_all_get_it() {
    preempted(2, || {
        let shared = Guarded::new();
        let (one, two) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = [thread::spawn(move || one.write()), thread::spawn(move || assert!(two.read() <= 2))];
        shared.write();
        join(threads);
        assert_eq!(shared.read(), 2);
    });
}

/// Two storages, in the order of their addresses, since loom must see the same order each time, and their cells.
struct Pair {
    storages: [Storage; 2],
    cells: [UnsafeCell<u32>; 2],
}

// SAFETY: loom checks the cells.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

impl Pair {
    fn new() -> Arc<Self> {
        let mut storages = [(); 2].map(|()| Storage::new(8, Device::CPU).unwrap());
        storages.sort_by_key(|storage| std::ptr::from_ref(&**storage).addr());
        Arc::new(Pair { storages, cells: [UnsafeCell::new(0), UnsafeCell::new(0)] })
    }

    fn add(&self, to: usize) {
        // SAFETY: loom checks that the caller's guard excludes others.
        self.cells[to].with_mut(|value| unsafe { *value += 1 });
    }

    fn look(&self, at: usize) {
        // SAFETY: loom checks that the caller's guard excludes writers.
        self.cells[at].with(|value| unsafe { *value });
    }
}

#[test]
fn sets_in_opposite_orders_do_not_wait_for_each_other_in_a_circle() {
    preempted(3, || {
        let pair = Pair::new();
        let other = Arc::clone(&pair);
        let work = |pair: &Pair, write: usize| {
            let operands =
                [(&pair.storages[write], Access::Write), (&pair.storages[1 - write], Access::Read)];
            let guards = StorageGuards::acquire(&operands).unwrap();
            pair.add(write);
            pair.look(1 - write);
            drop(guards);
        };
        let thread = thread::spawn(move || work(&other, 1));
        work(&pair, 0);
        thread.join().unwrap();
        assert_eq!([0, 1].map(|i: usize| pair.storages[i].version()), [1, 1]);
    });
}

#[test]
fn accessors_and_sets_exclude_each_other() {
    preempted(3, || {
        let pair = Pair::new();
        let other = Arc::clone(&pair);
        let thread = thread::spawn(move || {
            let guard = WriteGuard::acquire(&other.storages[0]).unwrap();
            other.add(0);
            drop(guard);
            let guard = ReadGuard::acquire(&other.storages[0]).unwrap();
            other.look(0);
            drop(guard);
        });
        let operands = [0, 1, 0].map(|i: usize| (&pair.storages[i], Access::Write));
        let guards = StorageGuards::acquire(&operands).unwrap();
        pair.add(0);
        pair.add(1);
        drop(guards);
        thread.join().unwrap();
        assert_eq!([0, 1].map(|i: usize| pair.storages[i].version()), [2, 1]);
    });
}
