//! Tests of blocks that move between threads, outlive them, and are allocated while a thread is exiting.

use super::*;
use std::sync::mpsc;

/// Blocks of a class, each filled with its number.
fn fill(class: usize, count: usize) -> Vec<NonNull<u8>> {
    let mut blocks = Vec::new();
    for number in 0..count {
        let block = allocate(class, Use::Elements).unwrap();
        // SAFETY: the block is fresh.
        unsafe { block.write_bytes(number as u8, class_bytes(class)) };
        blocks.push(block);
    }
    blocks
}

/// Frees them, if each still holds its number.
fn check_and_free(blocks: &[NonNull<u8>], class: usize) {
    for (number, &block) in blocks.iter().enumerate() {
        // SAFETY: `fill` wrote it, and it is freed once.
        unsafe {
            let bytes = std::slice::from_raw_parts(block.as_ptr(), class_bytes(class));
            assert!(bytes == vec![number as u8; bytes.len()], "block {number} of class {class}");
            free(block, class);
        }
    }
}

struct Batch(Vec<NonNull<u8>>);
// SAFETY: memory belongs to no thread.
unsafe impl Send for Batch {}

#[test]
fn blocks_do_not_overlap() {
    for class in if cfg!(miri) { vec![0, 3, 17] } else { (0..SMALL_CLASSES).collect() } {
        for _ in 0..3 {
            check_and_free(&fill(class, 20), class);
        }
    }
}

#[test]
fn a_thread_keeps_a_bounded_number_of_blocks() {
    let class = SMALL_CLASSES - 1;
    let limit = max_cached_blocks(class) as usize;
    std::thread::spawn(move || {
        check_and_free(&fill(class, limit + 5), class);
        THREAD.with(|thread| {
            assert_eq!(thread.shared.room[class].load(Relaxed), 0);
            assert_eq!(thread.shared.cached_bytes(), limit * class_bytes(class));
            flush();
            assert_eq!(thread.shared.cached_bytes(), 0);
        });
    })
    .join()
    .unwrap();
}

#[test]
fn blocks_freed_by_another_thread_serve_it() {
    let (send, receive) = mpsc::channel::<Batch>();
    let class = 2;
    let consumer = std::thread::spawn(move || {
        for Batch(blocks) in receive {
            check_and_free(&blocks, class);
            check_and_free(&fill(class, blocks.len()), class);
        }
    });
    for _ in 0..if cfg!(miri) { 4 } else { 200 } {
        send.send(Batch(fill(class, 10))).unwrap();
    }
    drop(send);
    consumer.join().unwrap();
}

struct Late(Vec<NonNull<u8>>);

impl Drop for Late {
    fn drop(&mut self) {
        check_and_free(&self.0, 1);
        check_and_free(&fill(1, 3), 1);
        count_allocation(8);
        count_free(8);
    }
}

thread_local! {
    static EARLY: Cell<Option<Late>> = const { Cell::new(None) };
}

#[test]
fn an_exiting_thread_still_gets_and_frees_blocks() {
    // Whichever of the two destructors runs first, this thread-local's or the list's.
    for registered_before in [false, true] {
        std::thread::spawn(move || {
            if registered_before {
                check_and_free(&fill(1, 1), 1);
            }
            EARLY.set(None); // Registers its destructor.
            EARLY.set(Some(Late(fill(1, 3))));
        })
        .join()
        .unwrap();
    }
}

#[test]
fn a_thread_is_registered_once_and_leaves_no_trace() {
    let listed = |at: usize| Threads::lock().0.iter().any(|thread| thread.addr().get() == at);
    let at = std::thread::spawn(move || {
        let at = THREAD.with(|thread| ptr::from_ref(&thread.shared).addr());
        assert!(!listed(at));
        check_and_free(&fill(0, 2), 0);
        assert_eq!(Threads::lock().0.iter().filter(|thread| thread.addr().get() == at).count(), 1);
        at
    });
    let _ = at.join().unwrap();
    // The address may belong to another test's thread by now, so only the registered state is checked above.
}
