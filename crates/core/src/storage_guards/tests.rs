//! Tests of guards: sets of them, accessors, and the errors that replace deadlocks.

use super::*;
use crate::Device;
use Access::{Read, Write};
use std::collections::HashSet;

fn storage() -> Storage {
    Storage::new(64, Device::CPU).unwrap()
}

fn is_free(storage: &Storage) -> bool {
    let free = storage.lock.try_lock(Write);
    if free {
        storage.lock.unlock(Write);
    }
    free
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn one_guard_for_each_storage_and_write_wins() {
    let (a, b) = (storage(), storage());
    let operands = [(&a, Read), (&b, Read), (&a, Write), (&a, Read), (&b, Read)];
    let guards = StorageGuards::acquire(&operands).unwrap();
    assert_eq!(Set::new(&operands).in_order().count(), 2);
    assert!(!a.lock.try_lock(Read));
    assert!(b.lock.try_lock(Read));
    b.lock.unlock(Read);
    assert_eq!((a.version(), b.version()), (1, 0));
    drop(guards);
    assert!(is_free(&a) && is_free(&b));
    assert_eq!(HELD.with(Cell::get), 0);
}

#[test]
fn any_number_in_any_order_is_held_once_in_the_order_of_addresses() {
    let all: Vec<Storage> = (0..20).map(|_| storage()).collect();
    for count in [2, 3, 8, 9, 20] {
        for rotation in 0..count {
            // Each storage once for reading, in some order, and every third for writing too.
            let order = (0..count).map(|i| (i * 7 + rotation) % count);
            let reads = order.clone().map(|i| (&all[i], Read));
            let writes = order.filter(|i| i % 3 == 0).map(|i| (&all[i], Write));
            let operands: Vec<(&Storage, Access)> =
                if rotation % 2 == 0 { reads.chain(writes).collect() } else { writes.chain(reads).collect() };
            let before: Vec<u32> = all.iter().map(|s| s.version()).collect();
            let guards = StorageGuards::acquire(&operands).unwrap();
            let set = Set::new(&operands);
            assert!(set.in_order().is_sorted_by(|(a, _), (b, _)| a.address() < b.address()));
            let held = |i: &usize| set.in_order().any(|(s, _)| s.address() == all[*i].address());
            assert_eq!(
                (0..20).filter(held).count(),
                operands.iter().map(|(s, _)| s.address()).collect::<HashSet<_>>().len()
            );
            for (s, access) in set.in_order() {
                let i = all.iter().position(|other| other.address() == s.address()).unwrap();
                assert_eq!(
                    (access, s.version()),
                    if i % 3 == 0 { (Write, before[i] + 1) } else { (Read, before[i]) }
                );
            }
            drop(guards);
            assert!(all.iter().all(is_free));
        }
    }
}

#[test]
fn no_storage_needs_no_guard() {
    let guards = StorageGuards::acquire(&[]).unwrap();
    assert_eq!(HELD.with(Cell::get), 1);
    drop(guards);
    assert_eq!(HELD.with(Cell::get), 0);
}

#[test]
fn an_accessor_of_this_thread_is_an_error_and_not_a_deadlock() {
    let (a, b) = (storage(), storage());
    for held in [Read, Write] {
        let accessor = Accessor::acquire(&a, held).unwrap();
        for access in [Read, Write] {
            let both_read = (held, access) == (Read, Read);
            let expected = (!both_read).then_some(ErrorKind::Busy);
            let before = b.version();
            assert_eq!(kind(StorageGuards::acquire(&[(&b, Write), (&a, access)])), expected);
            assert_eq!(b.version(), before + u32::from(both_read), "a failed call must leave no trace");
            assert_eq!(kind(Accessor::acquire(&a, access)), expected);
            assert!(is_free(&b));
        }
        drop(accessor);
        assert!(is_free(&a));
    }
    assert!(ACCESSORS.with(|list| list.borrow().is_empty()));
    assert_eq!(HELD.with(Cell::get), 0);
}

#[test]
fn a_few_of_which_one_is_refused_leave_no_trace() {
    for count in 3..=5 {
        let all: Vec<Storage> = (0..count).map(|_| storage()).collect();
        for (refused, access) in (0..count).flat_map(|i| [(i, Read), (i, Write)]) {
            let accessor = Accessor::acquire(&all[refused], access).unwrap();
            let before: Vec<u32> = all.iter().map(|s| s.version()).collect();
            let operands: Vec<(&Storage, Access)> = all.iter().map(|s| (s, Write)).collect();
            assert_eq!(kind(StorageGuards::acquire(&operands)), Some(ErrorKind::Busy));
            assert!(all.iter().map(|s| s.version()).eq(before), "a failed call must leave no trace");
            assert!(all.iter().enumerate().all(|(i, s)| i == refused || is_free(s)));
            drop(accessor);
            let guards = StorageGuards::acquire(&operands).unwrap();
            assert!(all.iter().all(|s| !s.lock.try_lock(Read)));
            drop(guards);
            assert!(all.iter().all(is_free));
        }
    }
}

#[test]
fn accessors_say_what_they_guard_and_keep_it() {
    let a = storage();
    let writer = WriteGuard::acquire(&a).unwrap();
    assert!(Storage::ptr_eq(writer.storage(), &a) && writer.data_ptr() == a.data_ptr());
    assert_eq!(a.version(), 1);
    drop(writer);
    let (one, two) = (ReadGuard::acquire(&a).unwrap(), ReadGuard::acquire(&a).unwrap());
    let weak = a.downgrade();
    drop((a, one));
    assert_eq!(two.data_ptr(), two.storage().data_ptr().cast_const());
    assert!(weak.upgrade().is_some());
    drop(two);
    assert!(weak.upgrade().is_none());
}

#[test]
fn a_thread_waits_for_another_that_lets_go() {
    let a = storage();
    std::thread::scope(|scope| {
        let accessor = ReadGuard::acquire(&a).unwrap();
        let writer = scope.spawn(|| StorageGuards::acquire(&[(&a, Write)]).map(drop));
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(a.version(), 0);
        drop(accessor);
        writer.join().unwrap().unwrap();
    });
    assert_eq!(a.version(), 1);
}

#[test]
fn threads_that_want_what_the_other_holds_do_not_wait_for_ever() {
    let (a, b) = (storage(), storage());
    let meet = std::sync::Barrier::new(2);
    let cross = |mine: &Storage, other: &Storage| {
        let _held = WriteGuard::acquire(mine).unwrap();
        meet.wait();
        kind(ReadGuard::acquire(other))
    };
    let results = std::thread::scope(|scope| {
        let first = scope.spawn(|| cross(&a, &b));
        let second = cross(&b, &a);
        [first.join().unwrap(), second]
    });
    assert!(results.contains(&Some(ErrorKind::Busy)));
    assert!(is_free(&a) && is_free(&b));
}

#[test]
fn a_nested_set_that_conflicts_with_its_own_gives_up() {
    let a = storage();
    let operands = [(&a, Write)];
    let outer = StorageGuards::acquire(&operands).unwrap();
    assert_eq!(kind(StorageGuards::acquire(&[(&a, Read)])), Some(ErrorKind::Busy));
    drop(outer);
    assert!(StorageGuards::acquire(&[(&a, Read)]).is_ok());
}

#[test]
fn a_panic_releases_the_guards() {
    let a = storage();
    let kernel = std::panic::AssertUnwindSafe(|| {
        let operands = [(&a, Write)];
        let _guards = StorageGuards::acquire(&operands);
        panic!("a faulty kernel");
    });
    assert!(std::panic::catch_unwind(kernel).is_err());
    assert!(is_free(&a) && HELD.with(Cell::get) == 0);
}
