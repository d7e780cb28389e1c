//! Chunks are distinct, counted, and used again; handles open what they name; children hold what they were born with.

#![expect(unsafe_code, reason = "fills bytes under guards")]

use super::*;
use crate::ErrorKind;
use crate::storage_guards::{ReadGuard, WriteGuard};

fn fill(storage: &Storage, byte: u8) {
    let guard = WriteGuard::acquire(storage).unwrap();
    // SAFETY: guarded, and that long.
    unsafe { guard.data_ptr().write_bytes(byte, storage.nbytes()) };
}

fn holds(storage: &Storage, byte: u8) -> bool {
    let guard = ReadGuard::acquire(storage).unwrap();
    // SAFETY: guarded, and that long.
    unsafe { std::slice::from_raw_parts(guard.data_ptr(), storage.nbytes()) }.iter().all(|b| *b == byte)
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn chunks_are_distinct_and_aligned() {
    let sizes = [0usize, 1, 63, 64, 65, 4096, 100_000, 3 << 20, 100 << 20];
    let storages: Vec<Storage> = sizes.iter().map(|size| allocate(*size).unwrap()).collect();
    for (i, storage) in storages.iter().enumerate() {
        assert!(storage.data_ptr().align_offset(64) == 0 && is_shared(storage) && !storage.is_resizable());
        fill(storage, i as u8);
    }
    assert!(storages.iter().enumerate().all(|(i, storage)| holds(storage, i as u8)));
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn what_nobody_holds_is_used_again() {
    // An arena of its own: tests beside this one take chunks of the process's.
    let mut state = State::new();
    let mut kept = Vec::new();
    let mut addresses = std::collections::HashSet::new();
    for i in 0..200_000usize {
        let storage = storage_of(state.allocate(1000).unwrap(), 1000);
        addresses.insert(storage.data_ptr().addr());
        if i % 1000 == 0 {
            fill(&storage, (i / 1000) as u8);
            kept.push(storage);
        }
    }
    assert!(addresses.len() < 40_000, "{} places", addresses.len());
    assert!(kept.iter().enumerate().all(|(i, storage)| holds(storage, i as u8)));
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn sharing_moves_the_bytes_and_changes_nothing_else() {
    let storage = Storage::from_vec(vec![7u8; 1000]);
    let (before, version) = (storage.data_ptr(), storage.version());
    share(&storage).unwrap();
    assert!(is_shared(&storage) && storage.data_ptr() != before && storage.version() == version);
    assert!(holds(&storage, 7));
    share(&storage).unwrap();
    assert_eq!(storage.grow(2000).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let pinned = Storage::from_vec(vec![1u8]);
    pinned.pin().unwrap();
    assert_eq!(share(&pinned).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(send(&pinned).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn a_handle_opens_the_same_storage() {
    let storage = allocate(100).unwrap();
    let handle = send(&storage).unwrap();
    assert!(Storage::ptr_eq(&open(&handle).unwrap(), &storage));
    // The message alone holds the chunk.
    fill(&storage, 9);
    let handle = send(&storage).unwrap();
    drop(storage);
    let others: Vec<Storage> = (0..100_000).map(|_| allocate(100).unwrap()).collect();
    others.iter().take(5).for_each(|other| fill(other, 1));
    assert!(holds(&open(&handle).unwrap(), 9));
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn handles_that_lie_are_errors() {
    let storage = allocate(100).unwrap();
    let good = send(&storage).unwrap();
    for wrong in [
        Handle { offset: 0, ..good },
        Handle { offset: good.offset + 1, ..good },
        Handle { offset: good.segment_bytes, ..good },
        Handle { nbytes: usize::MAX, ..good },
    ] {
        assert_eq!(open(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    for wrong in [
        Handle { segment: good.segment ^ 1, ..good },
        Handle { segment: good.segment ^ 1, segment_bytes: 5, ..good },
        Handle { segment: 5, holders: [(u32::MAX, 3), (1, 0)], ..good },
    ] {
        assert_eq!(open(&wrong).unwrap_err().kind(), ErrorKind::Io);
    }
    assert!(open(&good).is_ok());
}
