//! Tests that owners on one thread or several drop every value exactly once.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts its drops.
struct Probe(Arc<AtomicUsize>);
impl IntrusiveTarget for Probe {}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn probe() -> (IntrusivePtr<Probe>, impl Fn() -> usize) {
    let drops = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&drops);
    (IntrusivePtr::new(Probe(drops)), move || seen.load(Ordering::Relaxed))
}

#[derive(Debug)]
#[repr(align(256))]
struct Aligned(#[expect(dead_code, reason = "read by Debug")] u8);
impl IntrusiveTarget for Aligned {}

struct Large([u8; 5000]);
impl IntrusiveTarget for Large {}

#[test]
fn is_one_word_with_a_niche() {
    assert_eq!(size_of::<IntrusivePtr<Probe>>(), size_of::<usize>());
    assert_eq!(size_of::<Option<IntrusivePtr<Probe>>>(), size_of::<usize>());
    assert_eq!(size_of::<Option<WeakIntrusivePtr<Probe>>>(), size_of::<usize>());
}

#[test]
fn the_last_strong_owner_drops_the_value() {
    let (a, drops) = probe();
    let b = a.clone();
    assert!(IntrusivePtr::ptr_eq(&a, &b));
    assert_eq!((IntrusivePtr::strong_count(&a), IntrusivePtr::weak_count(&a)), (2, 0));
    drop(a);
    assert_eq!(drops(), 0);
    drop(b);
    assert_eq!(drops(), 1);
}

#[test]
fn weak_owners_do_not_keep_the_value() {
    let (a, drops) = probe();
    let weak = IntrusivePtr::downgrade(&a);
    let other = weak.clone();
    assert!(weak.ptr_eq(&other));
    assert_eq!(IntrusivePtr::weak_count(&a), 2);
    assert!(weak.upgrade().is_some_and(|up| IntrusivePtr::ptr_eq(&up, &a)));
    drop(a);
    assert_eq!((drops(), weak.strong_count()), (1, 0));
    assert!(weak.upgrade().is_none());
    drop(weak);
    assert!(other.upgrade().is_none());
}

#[test]
fn only_a_sole_owner_gets_the_value_mutably() {
    let (mut a, _) = probe();
    assert!(IntrusivePtr::get_mut(&mut a).is_some());
    let b = a.clone();
    assert!(IntrusivePtr::get_mut(&mut a).is_none());
    drop(b);
    let weak = IntrusivePtr::downgrade(&a);
    assert!(IntrusivePtr::get_mut(&mut a).is_none());
    drop(weak);
    assert!(IntrusivePtr::get_mut(&mut a).is_some());
}

#[test]
fn a_raw_pointer_keeps_ownership() {
    let (a, drops) = probe();
    let at = IntrusivePtr::as_ptr(&a);
    let raw = IntrusivePtr::into_raw(a);
    assert_eq!((raw, drops()), (at, 0));
    // SAFETY: it came from `into_raw` above.
    drop(unsafe { IntrusivePtr::from_raw(raw) });
    assert_eq!(drops(), 1);
}

#[test]
fn values_of_any_size_and_alignment_fit() {
    for _ in 0..3 {
        let aligned = IntrusivePtr::new(Aligned(1));
        assert!(IntrusivePtr::as_ptr(&aligned).is_aligned());
        assert_eq!(format!("{aligned:?}"), "Aligned(1)");
        let raw = IntrusivePtr::into_raw(aligned);
        // SAFETY: it came from `into_raw` above.
        drop(unsafe { IntrusivePtr::from_raw(raw) });
        let large = IntrusivePtr::new(Large([7; 5000]));
        assert!(large.0 == [7; 5000]);
    }
}

struct Faulty;
impl IntrusiveTarget for Faulty {}

impl Drop for Faulty {
    fn drop(&mut self) {
        panic!("a faulty drop");
    }
}

#[test]
fn a_drop_that_panics_leaks_nothing() {
    for weak in [false, true] {
        let faulty = IntrusivePtr::new(Faulty);
        let weak = weak.then(|| IntrusivePtr::downgrade(&faulty));
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(faulty)));
        assert!(caught.is_err());
        assert!(weak.is_none_or(|w| w.upgrade().is_none())); // Miri counts the blocks.
    }
}

#[test]
fn threads_share_and_drop_once() {
    let rounds = if cfg!(miri) { 5 } else { 500 };
    for _ in 0..rounds {
        let (a, drops) = probe();
        let weak = IntrusivePtr::downgrade(&a);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (mine, weak) = (a.clone(), weak.clone());
                scope.spawn(move || {
                    let again = mine.clone();
                    drop(mine);
                    let _ = weak.upgrade();
                    drop(again);
                });
            }
            drop(a);
        });
        assert_eq!(drops(), 1);
        assert!(weak.upgrade().is_none());
    }
}
