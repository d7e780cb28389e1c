//! Tests of shared memory: chunks are distinct, held, and reused; a message opens its chunk once; forged messages change nothing.

#![expect(unsafe_code, reason = "fills bytes under guards")]

use super::records::{Layout, UNIT};
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

/// Numbers drawn at random, the same in each run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn opened(message: &[u8]) -> Result<Storage> {
    Handle::from_bytes(message)?.open()
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn chunks_that_are_not_held_are_reused() {
    let mut held_storages = Vec::new();
    let mut addresses = std::collections::HashSet::new();
    for i in 0..100_000usize {
        let storage = allocate(1000).unwrap();
        addresses.insert(storage.data_ptr().addr());
        if i % 1000 == 0 {
            fill(&storage, (i / 1000) as u8);
            held_storages.push(storage);
        }
    }
    assert!(addresses.len() < 20_000, "{} addresses", addresses.len());
    assert!(held_storages.iter().enumerate().all(|(i, storage)| holds(storage, i as u8)));
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
fn a_handle_opens_the_same_storage_and_holds_it() {
    let storage = allocate(100).unwrap();
    assert!(Storage::ptr_eq(&send(&storage).unwrap().open().unwrap(), &storage));
    fill(&storage, 9);
    let (handle, message) = (send(&storage).unwrap(), send(&storage).unwrap().into_bytes());
    drop(storage);
    let others: Vec<Storage> = (0..50_000).map(|_| allocate(100).unwrap()).collect();
    others.iter().take(5).for_each(|other| fill(other, 1));
    assert!(holds(&handle.open().unwrap(), 9) && holds(&opened(&message).unwrap(), 9));
}

/// A handle that is dropped holds its memory no longer, and its message is none any more.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn a_dropped_handle_holds_nothing() {
    let storage = allocate(100 << 20).unwrap();
    let first = storage.data_ptr();
    let handle = send(&storage).unwrap();
    let message = handle.message.encode();
    drop((storage, handle));
    assert_eq!(opened(&message).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let states: Vec<Storage> = (0..3).map(|_| allocate(100 << 20).unwrap()).collect();
    assert!(states.iter().any(|storage| storage.data_ptr() == first) || !is_mapped(first));
}

fn is_mapped(address: *mut u8) -> bool {
    // SAFETY: the call accepts any address.
    unsafe { libc::msync(address.cast(), 1, libc::MS_ASYNC) == 0 }
}

/// Messages of a few storages, opened in any order and again and again, while storages come and go.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn each_message_opens_once() {
    let mut draws = Draws(1);
    let mut alive: Vec<(u8, Storage)> = vec![];
    // What was sent, the byte that the storage is full of, and whether it has been opened.
    let mut messages: Vec<([u8; MESSAGE_BYTES], u8, bool)> = vec![];
    for round in 0..3000usize {
        let byte = round as u8;
        match draws.below(4) {
            0 => {
                let storage = allocate(draws.below(3000)).unwrap();
                fill(&storage, byte);
                alive.push((byte, storage));
            }
            1 if !alive.is_empty() => {
                let (byte, storage) = &alive[draws.below(alive.len())];
                messages.push((send(storage).unwrap().into_bytes(), *byte, false));
            }
            2 if !alive.is_empty() => _ = alive.swap_remove(draws.below(alive.len())),
            _ if !messages.is_empty() => {
                let at = draws.below(messages.len());
                let (message, byte, was_opened) = &mut messages[at];
                match opened(message) {
                    Ok(storage) => {
                        assert!(!*was_opened && holds(&storage, *byte));
                        *was_opened = true;
                        alive.push((*byte, storage));
                    }
                    Err(error) => {
                        assert!(*was_opened && error.kind() == ErrorKind::InvalidArgument);
                        assert!(error.message().contains("received once"), "{error}");
                    }
                }
            }
            _ => {}
        }
        assert!(alive.iter().all(|(byte, storage)| holds(storage, *byte)));
    }
    assert!(messages.iter().filter(|message| message.2).count() > 100);
}

/// Bytes drawn at random in and around messages that are good: an error, or the storage of the message, and no element changes.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn forged_messages_change_nothing() {
    let mut draws = Draws(2);
    let storages: Vec<Storage> = (0..20).map(|i| allocate(64 << (i % 8)).unwrap()).collect();
    storages.iter().enumerate().for_each(|(i, storage)| fill(storage, i as u8));
    let unchanged = || storages.iter().enumerate().all(|(i, storage)| holds(storage, i as u8));
    let mut refused = 0;
    for round in 0..2000usize {
        let of = &storages[round % storages.len()];
        let good = send(of).unwrap().into_bytes();
        let mut forged = good;
        for _ in 0..=draws.below(3) {
            let at = draws.below(MESSAGE_BYTES);
            match draws.below(3) {
                0 => forged[at] ^= 1 << draws.below(8),
                1 => forged[at] = forged[at].wrapping_add(1),
                _ => forged[at] = draws.below(256) as u8,
            }
        }
        match opened(&forged) {
            Ok(storage) => assert!(Storage::ptr_eq(&storage, of)),
            Err(error) => {
                assert!([ErrorKind::InvalidArgument, ErrorKind::Io].contains(&error.kind()), "{error}");
                refused += 1;
                // A wrong message has not consumed the ticket.
                assert!(Storage::ptr_eq(&opened(&good).unwrap(), of));
            }
        }
        assert!(opened(&good[..draws.below(MESSAGE_BYTES)]).is_err());
        if round % 100 == 0 {
            assert!(unchanged());
        }
    }
    assert!(unchanged() && refused > 1000, "{refused} refused");
}

/// A message that leads to a file which can be cut short, or to something else than a segment.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn only_sealed_segments_are_mapped() {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};
    let storage = allocate(100).unwrap();
    let good = send(&storage).unwrap();
    let bytes = good.message.bytes as usize;
    let all = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    for (seals, length) in [
        (0, bytes),
        (libc::F_SEAL_GROW, bytes),
        (libc::F_SEAL_SHRINK, bytes),
        (all, bytes - UNIT),
        (all, 100),
        (all, bytes),
    ] {
        // SAFETY: a constant name and flags; the descriptor is owned by the file.
        let mut file = unsafe {
            std::fs::File::from_raw_fd(libc::memfd_create(c"forged".as_ptr(), libc::MFD_ALLOW_SEALING))
        };
        let number = 0x1234_5678_9ABCu64;
        file.write_all(&number.to_le_bytes()).unwrap();
        file.set_len(length as u64).unwrap();
        // SAFETY: a descriptor of ours.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        let here = (std::process::id(), file.as_raw_fd());
        let message = Message { segment: number, opened: [here, here], ..good.message };
        let kind = opened(&message.encode()).unwrap_err().kind();
        // The last one is a segment, though an empty one, in which there is no such ticket.
        let is_segment = (seals, length) == (all, bytes);
        assert_eq!(kind, if is_segment { ErrorKind::InvalidArgument } else { ErrorKind::Io });
    }
    let (pipe, _writer) = std::io::pipe().unwrap();
    for descriptor in [pipe.as_raw_fd(), -1, i32::MAX] {
        let here = (std::process::id(), descriptor);
        let message = Message { segment: 5, opened: [here, here], ..good.message };
        assert_eq!(opened(&message.encode()).unwrap_err().kind(), ErrorKind::Io);
    }
    assert!(good.open().is_ok());
}

/// Another library may hand bytes of a chunk back, as foreign memory: not what a message can be made of.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn foreign_views_of_a_chunk_are_not_the_chunk() {
    let storage = allocate(1000).unwrap();
    fill(&storage, 3);
    for offset in [0, 8, 64, 128, 900] {
        // SAFETY: the storage outlives the view, and nobody touches the elements meanwhile.
        let view = unsafe {
            Storage::from_foreign(storage.data_ptr().add(offset), 50, Device::CPU, Box::new(|| ()))
        };
        assert!(!is_shared(&view));
        assert_eq!(send(&view).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(share(&view).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(is_shared(&storage) && holds(&storage, 3));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn threads_that_share_one_storage_at_once_all_succeed() {
    for _ in 0..50 {
        let storage = Storage::from_vec(vec![5u8; 10_000]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| share(&storage).unwrap());
            }
        });
        assert!(is_shared(&storage) && holds(&storage, 5));
    }
}

/// Two members send a chunk to each other as messages; another thread, which checks meanwhile, never finds it free.
#[test]
#[cfg_attr(miri, ignore = "Miri knows no memfd")]
fn what_is_passed_on_is_never_free() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};
    const ROUNDS: usize = 20_000;
    let mapping = Mapping::create(2 << 20).unwrap();
    mapping.write_record(0, mapping.layout.data, 64);
    assert!(mapping.is_free(0));
    mapping.hold(0, 3);
    let done = AtomicBool::new(false);
    let pass = |slot: u32, inbox: Receiver<message::Ticket>, outbox: Sender<message::Ticket>| {
        for ticket in inbox.iter().take(ROUNDS) {
            mapping.hold(0, slot);
            assert!(mapping.claim(0, ticket) && !mapping.claim(0, ticket));
            mapping.release_message(0);
            let passed_on = outbox.send(mapping.issue(0).unwrap());
            mapping.release(0, slot);
            if passed_on.is_err() {
                break;
            }
        }
    };
    let ((to_first, first), (to_second, second)) = (channel(), channel());
    to_first.send(mapping.issue(0).unwrap()).unwrap();
    mapping.release(0, 3);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert!(!mapping.is_free(0))
            }
        });
        let one = scope.spawn(|| pass(1, first, to_second));
        let other = scope.spawn(|| pass(2, second, to_first));
        one.join().unwrap();
        other.join().unwrap();
        done.store(true, Ordering::Relaxed);
        looks.join().unwrap();
    });
    // The last message is never received.
    assert!(!mapping.is_free(0));
}

#[test]
fn layouts_have_room_and_stay_inside() {
    for bytes in [0, 1, UNIT, 4096, 1 << 20, 2 << 20, (2 << 20) + 4096, 64 << 20, 1 << 40, usize::MAX] {
        let Some(layout) = Layout::of(bytes) else {
            assert!(bytes < 1 << 20 || bytes == usize::MAX);
            continue;
        };
        let tables = UNIT + layout.records as usize * UNIT + layout.tickets as usize * 8;
        assert!(tables <= layout.data && layout.data + layout.room() == bytes && layout.data % UNIT == 0);
        assert!(layout.records < 1 << 20 && (layout.room() > bytes / 2 || bytes < 2 << 20));
    }
}
