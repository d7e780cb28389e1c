//! Tests of writes that do not count: which ones they are, and that those of other threads and storages are not among them.

use super::*;
use crate::storage_guards::{DeviceGuards, StorageGuards, WriteGuard};
use crate::{Access, Device, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn storage() -> Storage {
    Storage::new(64, Device::CPU).unwrap()
}

/// Writes to all of them in one set of guards.
fn write(all: &[&Storage]) {
    let operands: Vec<(&Storage, Access)> = all.iter().map(|storage| (*storage, Access::Write)).collect();
    drop(StorageGuards::acquire(&operands).unwrap());
}

#[test]
fn only_writes_to_the_storage_in_the_call_do_not_count() {
    for others in 0..10 {
        let (uncounted_one, others) = (storage(), (0..others).map(|_| storage()).collect::<Vec<_>>());
        let all: Vec<&Storage> = std::iter::once(&uncounted_one).chain(&others).collect();
        uncounted(&uncounted_one, || write(&all));
        assert_eq!(uncounted_one.version(), 0);
        assert!(others.iter().all(|storage| storage.version() == 1));
        write(&all);
        assert!(all.iter().enumerate().all(|(i, storage)| storage.version() == 1 + u32::from(i > 0)));
    }
}

#[test]
fn guards_of_all_kinds_heed_it() {
    let a = storage();
    uncounted(&a, || {
        write(&[&a]);
        drop(WriteGuard::acquire(&a).unwrap());
        drop(DeviceGuards::acquire(&[(&a, Access::Write)]).unwrap());
    });
    assert_eq!(a.version(), 0);
}

#[test]
fn bytes_are_copied_back_in_it_unless_others_have_written() {
    let (from, to) = (Storage::from_bytes(b"new").unwrap(), Storage::from_bytes(b"old").unwrap());
    let back = |version| uncounted(&to, || Storage::write_back((&from, 0), (&to, 0), 3, version));
    back(0).unwrap();
    assert_eq!(to.version(), 0);
    write(&[&to]);
    assert_eq!(back(0).unwrap_err().kind(), ErrorKind::Busy);
    Storage::write_back((&from, 0), (&to, 0), 3, 1).unwrap();
    assert_eq!(to.version(), 2);
}

#[test]
fn it_ends_with_the_call_even_by_a_panic_and_calls_nest() {
    let (a, b) = (storage(), storage());
    uncounted(&a, || {
        uncounted(&b, || write(&[&a, &b]));
        write(&[&a, &b]);
    });
    assert_eq!((a.version(), b.version()), (1, 1));
    assert!(catch_unwind(AssertUnwindSafe(|| uncounted(&a, || panic!("expected")))).is_err());
    write(&[&a]);
    assert_eq!(a.version(), 2);
}

#[test]
fn writes_of_other_threads_meanwhile_all_count_and_the_version_never_goes_back() {
    let rounds = if cfg!(miri) { 20 } else { 20_000 };
    let shared = storage();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..rounds).for_each(|_| uncounted(&shared, || write(&[&shared]))));
        scope.spawn(|| {
            let mut last = 0;
            while last < rounds {
                let seen = shared.version();
                assert!(seen >= last);
                last = seen;
                std::thread::yield_now();
            }
        });
        (0..rounds).for_each(|_| write(&[&shared]));
    });
    assert_eq!(shared.version(), rounds);
}
