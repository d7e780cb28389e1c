//! Tests of job slots: taken and given back by one thread, and by several in every order that loom finds.

#[cfg(not(loom))]
mod single_threaded {
    use super::super::*;

    #[test]
    fn slots_are_taken_one_by_one_and_counted() {
        let slots = JobSlots::default();
        assert!(!slots.has_free() && slots.take().is_none());
        slots.open(2);
        assert!(slots.has_free() && !slots.has_taken());
        assert_eq!([slots.take(), slots.take(), slots.take()], [Some(2), Some(1), None]);
        assert!(slots.caller_sleeps());
        assert_eq!([slots.leave(), slots.leave()], [false, true]);
        assert!(!slots.caller_sleeps() && !slots.has_taken());
        slots.caller_wakes();
        slots.open(3);
        slots.close();
        assert!(slots.take().is_none() && !slots.has_taken());
    }

    #[test]
    fn more_slots_than_the_word_can_count_are_as_many_as_it_can() {
        let slots = JobSlots::default();
        slots.open(usize::MAX);
        assert_eq!(slots.take(), Some(MAX_COUNT as usize));
        slots.close();
        assert!(slots.has_taken() && !slots.leave() && !slots.has_taken());
    }
}

/// Interleavings of two jobs with two helpers, as far as three switches of threads go: `cargo xtask loom`.
#[cfg(loom)]
mod interleavings {
    #![expect(unsafe_code, reason = "loom's cells, which find who reads what another writes")]

    use super::super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    /// What the caller's stack is to a helper, and what a helper writes.
    #[derive(Default)]
    struct Shared {
        slots: JobSlots,
        job: UnsafeCell<usize>,
        done: [UnsafeCell<usize>; 2],
    }

    // SAFETY: what this module is to show; loom fails where two threads access a cell at once.
    unsafe impl Sync for Shared {}
    // SAFETY: the same.
    unsafe impl Send for Shared {}

    fn explore(model: impl Fn() + Send + Sync + 'static) {
        let mut all = loom::model::Builder::new();
        all.preemption_bound = Some(3);
        all.check(model);
    }

    /// A helper: takes a slot if there is one, and adds the job's number to its own sum.
    fn help(shared: &Shared, helper: usize) {
        if shared.slots.take().is_some() {
            let job = shared.job.with(|job| unsafe { *job });
            shared.done[helper].with_mut(|done| unsafe { *done += job });
            shared.slots.leave();
        }
    }

    #[test]
    fn a_job_stays_while_a_helper_looks_at_it_and_what_that_wrote_is_seen() {
        explore(|| {
            let shared = Arc::new(Shared::default());
            let helpers: Vec<_> = (0..2)
                .map(|i| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || (0..=1 - i).for_each(|_| help(&shared, i)))
                })
                .collect();
            for number in 1..=2 {
                shared.job.with_mut(|job| unsafe { *job = number });
                shared.slots.open(number);
                shared.slots.close();
                while shared.slots.has_taken() {
                    thread::yield_now();
                }
                shared.job.with_mut(|job| unsafe { *job = 100 });
                let done: usize = shared.done.iter().map(|done| done.with(|done| unsafe { *done })).sum();
                // One slot for the first job, two for the second.
                assert!(if number == 1 { done <= 1 } else { done <= 5 }, "{done} in {number}");
            }
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        });
    }

    #[test]
    fn the_last_helper_knows_that_the_caller_sleeps() {
        explore(|| {
            let shared = Arc::new(Shared::default());
            shared.slots.open(1);
            let helper = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.slots.take().is_some() && shared.slots.leave())
            };
            shared.slots.close();
            let sleeps = shared.slots.caller_sleeps();
            // A caller that sleeps is woken, and one that does not sleep is not.
            assert_eq!(helper.join().unwrap(), sleeps);
        });
    }
}
