//! Seats are taken and given back in turn, and in every order that loom finds.

#[cfg(not(loom))]
mod in_turn {
    use super::super::*;

    #[test]
    fn seats_are_taken_in_turn_and_counted() {
        let seats = Seats::default();
        assert!(!seats.are_open() && seats.take().is_none());
        seats.open(2);
        assert!(seats.are_open() && !seats.are_taken());
        assert_eq!([seats.take(), seats.take(), seats.take()], [Some(2), Some(1), None]);
        assert!(seats.caller_sleeps());
        assert_eq!([seats.leave(), seats.leave()], [false, true]);
        assert!(!seats.caller_sleeps() && !seats.are_taken());
        seats.caller_wakes();
        seats.open(3);
        seats.close();
        assert!(seats.take().is_none() && !seats.are_taken());
    }

    #[test]
    fn more_than_there_are_numbers_for_are_as_many_as_there_are() {
        let seats = Seats::default();
        seats.open(usize::MAX);
        assert_eq!(seats.take(), Some(MOST as usize));
        seats.close();
        assert!(seats.are_taken() && !seats.leave() && !seats.are_taken());
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
        seats: Seats,
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

    /// Takes a seat if there is one, and adds the job to its own sum.
    fn help(shared: &Shared, helper: usize) {
        if shared.seats.take().is_some() {
            let job = shared.job.with(|job| unsafe { *job });
            shared.done[helper].with_mut(|done| unsafe { *done += job });
            shared.seats.leave();
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
                shared.seats.open(number);
                shared.seats.close();
                while shared.seats.are_taken() {
                    thread::yield_now();
                }
                shared.job.with_mut(|job| unsafe { *job = 100 });
                let done: usize = shared.done.iter().map(|done| done.with(|done| unsafe { *done })).sum();
                // A seat for the first job, two for the second.
                assert!(if number == 1 { done <= 1 } else { done <= 5 }, "{done} in {number}");
            }
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        });
    }

    #[test]
    fn the_last_helper_knows_that_the_caller_sleeps() {
        explore(|| {
            let shared = Arc::new(Shared::default());
            shared.seats.open(1);
            let helper = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.seats.take().is_some() && shared.seats.leave())
            };
            shared.seats.close();
            let sleeps = shared.seats.caller_sleeps();
            // Each sleep has its waking, and nobody is woken who does not sleep.
            assert_eq!(helper.join().unwrap(), sleeps);
        });
    }
}
