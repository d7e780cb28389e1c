//! Tests of the profiler's sessions, nesting, threads and memory. Sessions belong to the process, so these tests hold a lock.

use super::*;
use crate::allocator::allocator_for;
use crate::{DeviceType, ErrorKind, ScalarType};
use std::sync::atomic::{AtomicBool, Ordering};

static SETTING: Mutex<()> = Mutex::new(());

/// The events of this thread.
fn own(recording: &Recording) -> &[Event] {
    let name = std::thread::current().name().map(str::to_owned);
    let log = recording.threads.iter().find(|log| log.name == name);
    log.map_or(&[], |log| log.events.as_slice())
}

#[test]
fn events_lie_inside_each_other() {
    let _guard = SETTING.lock();
    start(Options::default()).unwrap();
    {
        let _outer = begin(Kind::Range, "outer", None);
        drop(begin(Kind::Range, "first", None));
        drop(begin(Kind::Backward, "second", Some(7)));
    }
    drop(begin(Kind::Range, String::from("after"), None));
    let recording = stop();
    let events = own(&recording);
    let names: Vec<&str> = events.iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["outer", "first", "second", "after"]);
    assert_eq!(events.iter().map(|event| event.parent).collect::<Vec<_>>(), [None, Some(0), Some(0), None]);
    let [outer, first, second, after] = events else { panic!("four events") };
    assert!(outer.start <= first.start && first.end <= second.start && second.end <= outer.end);
    assert!(recording.start <= outer.start && outer.end <= after.start && after.end <= recording.end);
    assert_eq!((second.sequence, first.sequence), (Some(7), None));
}

#[test]
fn one_ends_where_the_next_begins() {
    let _guard = SETTING.lock();
    start(Options::default()).unwrap();
    {
        let pass = begin(Kind::Range, "pass", None).unwrap();
        pass.next_inside(Kind::Backward, "first", 4);
        drop(begin(Kind::Range, "called", None));
        std::mem::forget(begin(Kind::Range, "left open", None));
        pass.next_inside(Kind::Backward, "second", 3);
    }
    drop(begin(Kind::Range, "after", None));
    let recording = stop();
    let events = own(&recording);
    let parents: Vec<_> = events.iter().map(|event| event.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(1), Some(0), None]);
    assert!(events[3].end == events[1].end && events[1].end <= events[4].start);
    assert_eq!(events[4].end, events[0].end);
    assert_eq!(events.iter().filter_map(|event| event.sequence).collect::<Vec<_>>(), [4, 3]);
}

#[test]
fn an_operator_that_passes_through_a_layer_is_one() {
    let _guard = SETTING.lock();
    start(Options { shapes: true, memory: false }).unwrap();
    let input = || vec![Input { sizes: vec![2, 3], dtype: ScalarType::F32 }];
    static NAMES: [&str; 2] = ["add", "mul"];
    {
        let _above = begin_operator(NAMES[0], 9, input);
        assert!(begin_operator(NAMES[0], 0, input).is_none());
        let _other = begin_operator(NAMES[1], 9, Vec::new);
        assert!(begin_operator(NAMES[0], 9, input).is_some(), "a call from another operator is its own");
    }
    let recording = stop();
    let events = own(&recording);
    assert_eq!(events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["add", "mul", "add"]);
    assert_eq!(events[0].inputs.as_deref(), Some(input().as_slice()));
}

#[test]
fn profilers_do_not_nest() {
    let _guard = SETTING.lock();
    start(Options::default()).unwrap();
    assert_eq!(start(Options::default()).unwrap_err().kind(), ErrorKind::Busy);
    stop();
    assert!(!is_running() && begin(Kind::Range, "late", None).is_none());
    assert!(stop().threads.is_empty());
}

#[test]
fn what_is_open_when_it_ends_ends_then_and_leaves_the_next_session_alone() {
    let _guard = SETTING.lock();
    start(Options::default()).unwrap();
    let open = begin(Kind::Range, "open", None);
    let first = stop();
    let end = own(&first)[0].end;
    assert!(first.start <= end && end <= first.end);
    start(Options::default()).unwrap();
    let inner = begin(Kind::Range, "new", None);
    drop(open);
    drop(begin(Kind::Range, "inside", None));
    drop(inner);
    let second = stop();
    let names: Vec<&str> = own(&second).iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["new", "inside"]);
    assert_eq!(own(&second)[1].parent, Some(0));
}

#[test]
fn every_thread_keeps_its_own_log() {
    let _guard = SETTING.lock();
    start(Options::default()).unwrap();
    let work = |name: &'static str| {
        move || {
            for _ in 0..100 {
                let _outer = begin(Kind::Range, name, None);
                drop(begin(Kind::Range, "inner", None));
            }
        }
    };
    let threads = ["one", "two", "three"].map(|name| std::thread::spawn(work(name)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let recording = stop();
    for name in ["one", "two", "three"] {
        let mut logs = recording.threads.iter().filter(|log| log.events[0].name == name);
        let log = logs.next().unwrap();
        assert!(logs.next().is_none() && log.events.len() == 200);
        assert!(log.events.iter().skip(1).step_by(2).enumerate().all(|(i, e)| e.parent == Some(2 * i)));
    }
}

#[test]
fn a_session_may_end_while_threads_record() {
    let _guard = SETTING.lock();
    static DONE: AtomicBool = AtomicBool::new(false);
    let work = || {
        while !DONE.load(Ordering::Relaxed) {
            let _outer = begin(Kind::Range, "outer", None);
            drop(begin(Kind::Range, "inner", None));
        }
    };
    let threads = [std::thread::spawn(work), std::thread::spawn(work)];
    for _ in 0..200 {
        start(Options::default()).unwrap();
        std::thread::yield_now();
        let recording = stop();
        for log in &recording.threads {
            for event in &log.events {
                assert!(event.start <= event.end && event.end <= recording.end);
                assert!(event.parent.is_none_or(|parent| log.events[parent].start <= event.start));
            }
        }
    }
    DONE.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn memory_belongs_to_the_innermost_event() {
    let _guard = SETTING.lock();
    let allocator = allocator_for(DeviceType::Cpu).unwrap();
    start(Options { shapes: false, memory: true }).unwrap();
    {
        let _outer = begin(Kind::Range, "outer", None);
        let kept = allocator.allocate(1000).unwrap();
        {
            let _inner = begin(Kind::Range, "inner", None);
            drop(allocator.allocate_zeroed(100_000).unwrap());
            drop(kept);
        }
    }
    let recording = stop();
    assert_eq!(own(&recording).iter().map(|event| event.bytes).collect::<Vec<_>>(), [1000, -1000]);
    let name = std::thread::current().name().map(str::to_owned);
    let log = recording.threads.iter().find(|log| log.name == name).unwrap();
    let bytes: Vec<i64> = log.memory.iter().map(|memory| memory.bytes).collect();
    assert_eq!(bytes, [1000, 100_000, -100_000, -1000]);
    drop(allocator.allocate(10).unwrap());
    assert!(stop().threads.is_empty());
}
