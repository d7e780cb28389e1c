//! The profiler: events of operators, backward passes, threads and memory, averages and traces of them, and that it stops.
//! It records the whole process, so only one of these tests runs at a time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what a test cannot do without")]

use flambeau_autograd::profiler::{self, Average, Event, Kind, Options, Profile, Profiler, SortBy};
use flambeau_autograd::{Autograd, live_nodes};
use flambeau_core::{Error, ErrorKind, Result, ScalarType};
use flambeau_ops::{Tensor, ops};
use parking_lot::Mutex;
use serde_json::Value;
use std::time::{Duration, Instant};

static EXCLUSIVE: Mutex<()> = Mutex::new(());

const ALL: Options = Options { shapes: true, memory: true };

fn leaf(sizes: &[i64]) -> Tensor {
    let x = Tensor::full(sizes, 0.5, ScalarType::F32).unwrap();
    x.requires_grad_(true).unwrap();
    x
}

/// Events of the thread that saw an event of this name.
fn events<'p>(profile: &'p Profile, with: &str) -> &'p [Event] {
    let seen = |events: &[Event]| events.iter().any(|event| event.name == with);
    profile.threads().iter().map(|log| log.events.as_slice()).find(|events| seen(events)).unwrap()
}

fn average<'p>(averages: &'p [Average], name: &str) -> &'p Average {
    averages
        .iter()
        .find(|average| average.name == name)
        .unwrap_or_else(|| panic!("no {name} in {averages:?}"))
}

#[test]
fn a_recorded_call_is_one_operator() {
    let _exclusive = EXCLUSIVE.lock();
    let (x, y) = (leaf(&[2, 3]), Tensor::ones(&[3], ScalarType::F32).unwrap());
    let (_, profile) = profiler::profile(ALL, || ops::mul_tensor(&x, &y)).unwrap();
    let events = events(&profile, "mul.Tensor");
    assert_eq!(events.len(), 1, "{events:?}");
    let inputs = events[0].inputs.as_deref().unwrap();
    assert_eq!(inputs.iter().map(|input| input.sizes.clone()).collect::<Vec<_>>(), [vec![2, 3], vec![3]]);
    assert!(events[0].sequence.is_some() && events[0].bytes == 24);
}

#[test]
fn composite_operators_contain_what_they_call() {
    let _exclusive = EXCLUSIVE.lock();
    let (x, w) = (leaf(&[4, 3]), leaf(&[2, 3]));
    let (_, profile) = profiler::profile(ALL, || ops::matmul(&x, &ops::t(&w)?)).unwrap();
    let events = events(&profile, "matmul");
    let at = |name: &str| events.iter().position(|event| event.name == name).unwrap();
    let (matmul, mm) = (at("matmul"), at("mm"));
    assert_eq!(events[mm].parent, Some(matmul));
    assert!(events[matmul].start <= events[mm].start && events[mm].end <= events[matmul].end);
}

#[test]
fn sums_are_those_of_the_events() {
    let _exclusive = EXCLUSIVE.lock();
    let x = leaf(&[64, 64]);
    let step = || {
        let _step = profiler::record_function("step");
        ops::sum(&ops::mm(&ops::relu(&x)?, &x)?, None)?.backward()
    };
    let (_, profile) = profiler::profile(ALL, || (0..5).try_for_each(|_| step())).unwrap();
    let averages = profile.key_averages(false);
    let events = events(&profile, "step");
    for average in averages.iter() {
        let own: Vec<&Event> = events.iter().filter(|event| event.name == average.name).collect();
        assert_eq!(average.count, own.len() as u64, "{}", average.name);
        assert_eq!(average.self_bytes, own.iter().map(|event| event.bytes).sum::<i64>());
        assert!(average.self_time <= average.total_time);
    }
    assert_eq!(average(&averages, "step").count, 5);
    assert_eq!(average(&averages, "MmBackward0").kind, Kind::Backward);
    // The steps contain all else, so the times by themselves add up to theirs.
    assert_eq!(averages.self_time(), average(&averages, "step").total_time);
    let roots: i64 = events.iter().map(|event| event.bytes).sum();
    assert_eq!(average(&averages, "step").total_bytes, roots);
    // Forward and backward: one product and two.
    assert_eq!(average(&averages, "mm").count, 15);
}

#[test]
fn recursion_is_counted_once() {
    let _exclusive = EXCLUSIVE.lock();
    let (_, profile) = profiler::profile(Options::default(), || {
        let _outer = profiler::record_function("again");
        let _inner = profiler::record_function("again");
        std::thread::sleep(Duration::from_millis(2));
        Ok(())
    })
    .unwrap();
    let averages = profile.key_averages(false);
    let again = average(&averages, "again");
    assert_eq!(again.count, 2);
    assert!(again.total_time < 2 * again.self_time && again.self_time <= again.total_time, "{again:?}");
}

#[test]
fn inputs_tell_events_apart() {
    let _exclusive = EXCLUSIVE.lock();
    let (small, large) = (leaf(&[2, 2]), leaf(&[8, 8]));
    let body = || [&small, &large, &large].iter().try_for_each(|x| ops::mm(x, x).map(drop));
    let (_, profile) = profiler::profile(ALL, body).unwrap();
    let counts = |by_inputs| {
        let averages = profile.key_averages(by_inputs);
        let mut counts: Vec<u64> = averages.iter().filter(|a| a.name == "mm").map(|a| a.count).collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!((counts(false), counts(true)), (vec![3], vec![1, 2]));
    let table = profile.key_averages(true).table(SortBy::Count, 1);
    assert!(table.contains("[[8, 8], [8, 8]]") && !table.contains("[2, 2]"), "{table}");
    assert!(table.contains("Self CPU Mem") && table.lines().count() == 6, "{table}");
}

#[test]
fn other_threads_are_seen() {
    let _exclusive = EXCLUSIVE.lock();
    let x = leaf(&[16, 16]);
    let work = |x: Tensor| move || ops::sum(&ops::exp(&x)?, None)?.backward();
    let profiler = Profiler::start(ALL).unwrap();
    let threads = [1, 2].map(|_| std::thread::spawn(work(x.clone())));
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    let profile = profiler.stop();
    let saw = |name: &str| {
        let has = |events: &[Event]| events.iter().any(|event| event.name == name);
        profile.threads().iter().filter(|log| has(&log.events)).count()
    };
    assert_eq!((saw("exp"), saw("ExpBackward0")), (2, 2));
}

#[test]
fn memory_has_a_peak() {
    let _exclusive = EXCLUSIVE.lock();
    let bytes = 4 << 20;
    let (_, profile) = profiler::profile(ALL, || {
        drop(Tensor::empty(&[bytes / 4], ScalarType::F32)?);
        Tensor::empty(&[2 * bytes / 4], ScalarType::F32)
    })
    .unwrap();
    let live = profile.live_bytes();
    let start = profile.live_bytes()[0].1 - bytes as u64;
    assert_eq!(live.iter().map(|(_, live)| live - start).collect::<Vec<_>>(), [4 << 20, 0, 8 << 20]);
    assert_eq!(profile.peak_bytes(), start + 2 * bytes as u64);
    assert!(live.windows(2).all(|two| two[0].0 <= two[1].0));
}

#[test]
fn the_trace_is_json_with_arrows_to_backward() {
    let _exclusive = EXCLUSIVE.lock();
    let x = leaf(&[2, 2]);
    let (_, profile) = profiler::profile(ALL, || {
        let _named = profiler::record_function("a \"name\"\n\\ with é");
        ops::sum(&ops::mm(&x, &x)?, None)?.backward()
    })
    .unwrap();
    let trace: Value = serde_json::from_str(&profile.chrome_trace()).unwrap();
    let all = trace["traceEvents"].as_array().unwrap();
    let with = |phase: &str| all.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let events = events(&profile, "mm");
    assert_eq!(with("X").len(), events.len());
    assert!(with("X").iter().any(|event| event["name"] == "a \"name\"\n\\ with é"));
    for event in with("X") {
        let one = events.iter().find(|one| event["name"] == *one.name).unwrap();
        assert!(event["ts"].as_f64().unwrap() >= 0.0 && event["dur"].as_f64().unwrap() >= 0.0);
        assert_eq!(event["cat"] == "backward", one.kind == Kind::Backward);
    }
    assert!(with("C").len() == profile.live_bytes().len() && with("M").len() == profile.threads().len());
    // sum and mm have nodes; a leaf's accumulator has no operator.
    let (tails, heads) = (with("s"), with("f"));
    assert_eq!((tails.len(), heads.len()), (2, 2));
    let at = |event: &Value, name: &str| {
        let same = |one: &&&Value| one["name"] == name && one["ts"] == event["ts"];
        with("X").iter().any(|one| same(&one))
    };
    for (tail, head) in tails.iter().zip(&heads) {
        assert_eq!(tail["id"], head["id"]);
        let joined = [("mm", "MmBackward0"), ("sum", "SumBackward0")];
        assert!(joined.iter().any(|(from, to)| at(tail, from) && at(head, to)), "{tail} {head}");
    }
}

#[test]
fn errors_and_panics_leave_it_off() {
    let _exclusive = EXCLUSIVE.lock();
    let (x, y) = (leaf(&[2, 3]), leaf(&[2, 3]));
    assert_eq!(profiler::profile(ALL, || ops::mm(&x, &y)).unwrap_err().kind(), ErrorKind::Shape);
    assert!(!profiler::is_running());
    let panics = || profiler::profile(ALL, || -> Result<()> { panic!("on purpose") });
    assert!(std::panic::catch_unwind(panics).is_err() && !profiler::is_running());
    // An operator that fails has ended.
    let failing = || Ok::<_, Error>((ops::mm(&x, &y).is_err(), ops::relu(&x)?));
    let ((failed, _), profile) = profiler::profile(ALL, failing).unwrap();
    let events = events(&profile, "relu");
    assert!(failed && events.iter().all(|event| event.parent.is_none()), "{events:?}");
}

#[test]
fn a_second_profiler_is_refused() {
    let _exclusive = EXCLUSIVE.lock();
    let first = Profiler::start(ALL).unwrap();
    assert_eq!(Profiler::start(ALL).map(drop).unwrap_err().kind(), ErrorKind::Busy);
    ops::relu(&leaf(&[2])).unwrap();
    assert_eq!(average(&first.stop().key_averages(false), "relu").count, 1);
    drop(Profiler::start(ALL).unwrap());
    assert!(!profiler::is_running());
}

#[test]
fn afterwards_nothing_is_recorded_or_kept() {
    let _exclusive = EXCLUSIVE.lock();
    let before = live_nodes();
    let (y, profile) = profiler::profile(ALL, || ops::mul_tensor(&leaf(&[2]), &leaf(&[2]))).unwrap();
    drop(y);
    assert_eq!(live_nodes(), before);
    ops::relu(&leaf(&[2])).unwrap();
    assert_eq!(profile.key_averages(false).iter().filter(|average| average.name == "relu").count(), 0);
    let (_, second) = profiler::profile(ALL, || Ok(())).unwrap();
    assert!(second.key_averages(false).is_empty() && second.threads().is_empty());
}

/// Prints what an event costs; run by hand, since times on shared machines prove nothing.
#[test]
#[ignore = "a measurement, which other load disturbs: run it alone and in release"]
fn cost_of_an_event() {
    let _exclusive = EXCLUSIVE.lock();
    let (a, b) = (Tensor::from([0.5f32]), Tensor::from([0.5f32]));
    let calls = 200_000;
    let time = || {
        let start = Instant::now();
        (0..calls).for_each(|_| drop(ops::add_tensor(&a, &b, 1.into())));
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    for options in [Options::default(), Options { memory: true, ..Default::default() }, ALL] {
        let off = time();
        let (on, _) = profiler::profile(options, || Ok(time())).unwrap();
        println!("add of one element: {off:.0} ns, {on:.0} ns with {options:?}");
    }
}
