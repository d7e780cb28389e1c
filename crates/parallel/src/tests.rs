//! Tests that every chunk runs once, whatever the threads do: nested, concurrent, panicking, forked, resized.
#![expect(unsafe_code, reason = "fork has no safe form")]

use std::{
    panic,
    sync::{
        Barrier, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::*;

/// The thread count is one for the whole process: tests that set it hold this lock.
static SETTING: Mutex<()> = Mutex::new(());

fn with_threads(n: usize) -> MutexGuard<'static, ()> {
    let guard = SETTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    set_num_threads(n);
    guard
}

/// How often each element of `0..len` was visited.
fn visits(len: usize, grain: usize) -> Vec<usize> {
    let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
    parallel_for(0..len, grain, |part| {
        assert!(!part.is_empty());
        for i in part {
            seen[i].fetch_add(1, Ordering::Relaxed);
        }
    });
    seen.into_iter().map(AtomicUsize::into_inner).collect()
}

#[test]
fn every_element_is_visited_once() {
    for threads in [1, 2, 5] {
        let _guard = with_threads(threads);
        for len in [0, 1, 2, 3, 7, 100, 149, 150, 151, 1000, 4096] {
            for grain in [0, 1, 2, 3, 100, 5000, usize::MAX] {
                assert!(visits(len, grain).iter().all(|&n| n == 1), "len {len} grain {grain}");
            }
        }
    }
}

#[test]
fn chunks_depend_on_length_and_grain_alone() {
    let cut = |threads| {
        let _guard = with_threads(threads);
        let parts = Mutex::new(Vec::new());
        parallel_for(10..1010, 64, |part| parts.lock().unwrap().push((part.start, part.end)));
        let mut parts = parts.into_inner().unwrap();
        parts.sort_unstable();
        parts
    };
    let serial = cut(1);
    assert_eq!(serial.len(), chunk_count(1000, 64));
    for (slot, part) in serial.iter().enumerate() {
        assert_eq!((part.0 - 10) / 64, slot);
        assert!((32..96).contains(&(part.1 - part.0)));
    }
    for threads in [2, 3, 16] {
        assert_eq!(cut(threads), serial);
    }
}

#[test]
fn a_reduction_has_the_same_bits_for_every_thread_count() {
    let values: Vec<f32> = (0..100_003).map(|i| ((i * 7919) % 1013) as f32 * 0.37 - 111.0).collect();
    let sum = || parallel_reduce(0..values.len(), 777, |p| values[p].iter().sum::<f32>(), |a, b| a + b);
    let _guard = with_threads(1);
    let serial = sum().unwrap();
    let exact: f64 = values.iter().map(|&v| f64::from(v)).sum();
    assert!((f64::from(serial) - exact).abs() < 1e-3 * exact.abs());
    for threads in [2, 3, 8] {
        set_num_threads(threads);
        for _ in 0..50 {
            assert_eq!(sum().unwrap().to_bits(), serial.to_bits());
        }
    }
}

#[test]
fn partials_are_combined_in_order_and_none_for_nothing() {
    let _guard = with_threads(4);
    let text = parallel_reduce(3..12, 1, |p| p.start.to_string(), |a, b| a + &b);
    assert_eq!(text.as_deref(), Some("34567891011"));
    assert_eq!(parallel_reduce(5..5, 1, |_| 1, |a, b| a + b), None);
}

#[test]
fn helpers_do_help() {
    let _guard = with_threads(2);
    // Two chunks that each wait for the other can both see it only on two threads. Another test may hold the pool, or
    // the machine be busy, for some of the rounds.
    for _ in 0..1000 {
        let (arrived, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
        parallel_for(0..2, 1, |_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            let start = std::time::Instant::now();
            while arrived.load(Ordering::SeqCst) < 2 && start.elapsed() < Duration::from_millis(50) {
                thread::yield_now();
            }
            seen.fetch_add(usize::from(arrived.load(Ordering::SeqCst) == 2), Ordering::SeqCst);
        });
        if seen.into_inner() == 2 {
            return;
        }
    }
    panic!("no helper ever took a chunk");
}

#[test]
fn helpers_that_are_about_to_sleep_miss_nothing() {
    let _guard = with_threads(4);
    // Pauses around the spin limit of an idle helper.
    for pause in (30..80).chain((30..80).rev()) {
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_micros(pause) {}
        assert_eq!(visits(40, 1), [1; 40]);
    }
}

#[test]
fn nested_calls_run_on_the_thread_that_makes_them() {
    let _guard = with_threads(3);
    assert!(!in_parallel_region());
    let total = AtomicUsize::new(0);
    parallel_for(0..8, 1, |_| {
        let outer = thread::current().id();
        parallel_for(0..16, 1, |part| {
            assert_eq!(thread::current().id(), outer);
            total.fetch_add(part.len(), Ordering::Relaxed);
        });
    });
    assert_eq!(total.into_inner(), 128);
    assert!(!in_parallel_region());
}

#[test]
fn many_callers_at_once() {
    let _guard = with_threads(3);
    let start = Barrier::new(6);
    thread::scope(|scope| {
        for caller in 0..6 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                for round in 0..500 {
                    assert!(visits(100 + caller, 1 + round % 9).iter().all(|&n| n == 1));
                }
            });
        }
    });
}

#[test]
fn the_thread_count_may_change_while_others_work() {
    let _guard = with_threads(2);
    thread::scope(|scope| {
        let worker = scope.spawn(|| (0..2000).all(|_| visits(64, 4).iter().all(|&n| n == 1)));
        for n in (1..7).cycle().take(5000) {
            set_num_threads(n);
        }
        assert!(worker.join().unwrap());
    });
    set_num_threads(0);
    assert_eq!(num_threads(), 1);
}

#[test]
fn a_panic_resumes_on_the_caller_and_the_pool_lives_on() {
    for threads in [1, 2, 4] {
        let _guard = with_threads(threads);
        for bad in [0, 17, 31] {
            let caught = panic::catch_unwind(|| {
                parallel_for(0..32, 1, |part| assert!(part.start != bad, "chunk {bad}"));
            });
            let payload = caught.unwrap_err();
            assert_eq!(payload.downcast_ref::<String>().unwrap(), &format!("chunk {bad}"));
            assert!(!in_parallel_region());
            assert!(visits(100, 3).iter().all(|&n| n == 1));
        }
    }
}

/// How often each of `count` tasks was run.
fn task_visits(count: usize) -> Vec<usize> {
    let mut seen = vec![0; count];
    for_each_task(seen.iter_mut().collect(), |slot| *slot += 1);
    seen
}

#[test]
fn every_task_is_run_once_by_any_number_of_threads() {
    for threads in [1, 2, 5] {
        let _guard = with_threads(threads);
        for count in [0, 1, 2, 100] {
            assert_eq!(task_visits(count), vec![1; count]);
        }
        let nested = AtomicUsize::new(0);
        for_each_task(vec![10; 8], |count| {
            nested.fetch_add(task_visits(count).len(), Ordering::Relaxed);
        });
        assert_eq!(nested.into_inner(), 80);
    }
}

#[test]
fn a_panic_in_a_task_resumes_on_the_caller() {
    let _guard = with_threads(2);
    let caught =
        panic::catch_unwind(|| for_each_task((0..50).collect(), |i: i32| assert!(i != 7, "task {i}")));
    assert_eq!(caught.unwrap_err().downcast_ref::<String>().unwrap(), "task 7");
    assert_eq!(task_visits(20), vec![1; 20]);
}

#[test]
#[cfg(unix)]
fn a_forked_child_works_at_once() {
    let _guard = with_threads(3);
    assert!(visits(1000, 10).iter().all(|&n| n == 1));
    assert_eq!(task_visits(30), [1; 30]);
    // SAFETY: the child touches only this pool, the allocator (which glibc keeps usable) and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: kills the child after ten seconds if it hangs.
        unsafe { libc::alarm(10) };
        let good = (0..100).all(|_| visits(1000, 10).iter().all(|&n| n == 1)) && task_visits(30) == [1; 30];
        // SAFETY: ends the child without the harness's exit handlers.
        unsafe { libc::_exit(i32::from(!good)) };
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: `child` is a child of this process and `status` outlives the call.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(visits(1000, 10).iter().all(|&n| n == 1));
}

#[test]
#[cfg(target_os = "linux")]
fn a_thread_moves_off_a_core_and_back_and_keeps_its_affinity() {
    let (me, cores) = (affinity::Thread::current(), available());
    // Between the move and the check the system may move it again.
    let moved = (0..100).any(|_| {
        let Some(first) = affinity::current_core() else { return false };
        me.exclude_core(first, 2);
        let left = affinity::current_core() != Some(first);
        me.migrate_to(first);
        left && affinity::current_core() == Some(first)
    });
    assert!(moved || cores == 1);
    // With more threads than cores, it stays.
    me.exclude_core(0, usize::MAX);
    assert_eq!(available(), cores);
}

#[test]
#[cfg(target_os = "linux")]
fn the_cpu_time_of_a_thread_does_not_advance_while_it_sleeps() {
    let (send, receive) = std::sync::mpsc::channel();
    let (wake, sleep) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            send.send(affinity::Thread::current()).unwrap();
            assert!(sleep.recv().is_err());
        });
        let sleeper = receive.recv().unwrap();
        let still = || {
            let before = sleeper.cpu_time();
            thread::sleep(Duration::from_millis(2));
            before.is_some() && sleeper.cpu_time() == before
        };
        assert!((0..100).any(|_| still()));
        drop(wake);
    });
    let me = affinity::Thread::current();
    let before = me.cpu_time();
    while me.cpu_time() == before {}
}
