//! Streams, events and faults of devices.

use super::*;
use crate::memory::read_number;

/// Adds one to the number at the address.
const INCREMENT: &str = ".version 8.0\n.target sm_90\n.address_size 64\n
    .visible .entry kernel(.param .u64 data) { .reg .b32 %r<3>; .reg .b64 %d<3>;
    ld.param.u64 %d0, [data]; ld.global.u32 %r0, [%d0]; add.s32 %r0, %r0, 1; st.global.u32 [%d0], %r0; ret; }";

struct Bench {
    state: State,
    function: Function,
    streams: [Handle; 2],
    data: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let mut state = State::new(Settings { seed, ..Settings::default() });
        let module = state.load(0, INCREMENT).unwrap();
        let function = state.find_function(module, "kernel").unwrap();
        let function = state.function(function).unwrap().clone();
        let streams = [state.create_stream(0), state.create_stream(0)];
        let data = state.devices[0].memory.allocate(4).unwrap();
        state.devices[0].memory.bytes_mut(data, 4).unwrap().fill(0);
        Bench { state, function, streams, data }
    }

    fn increment(&mut self, stream: usize, address: u64) -> Answer<()> {
        let launch = Launch {
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared: 0,
            parameters: address.to_le_bytes().to_vec(),
        };
        let function = self.function.clone();
        self.state.submit(self.streams[stream], Work::Launch { function, launch })
    }

    fn value(&self) -> u32 {
        read_number(self.state.devices[0].memory.bytes(self.data, 4).unwrap()) as u32
    }
}

#[test]
fn work_runs_when_it_is_waited_for() {
    let mut bench = Bench::new(0);
    bench.increment(0, bench.data).unwrap();
    assert_eq!(bench.value(), 0);
    bench.state.synchronize_stream(bench.streams[1]).unwrap();
    assert_eq!(bench.value(), 0);
    bench.state.synchronize_stream(bench.streams[0]).unwrap();
    assert_eq!(bench.value(), 1);
    // A call without a stream waits for all.
    bench.increment(1, bench.data).unwrap();
    let legacy = bench.state.devices[0].legacy;
    bench.state.submit(legacy, Work::Fill { to: bench.data, value: 7, width: 4, count: 1 }).unwrap();
    assert_eq!(bench.value(), 7);
}

/// A fill in one stream and an increment in the other, with an event between them or without.
fn fill_and_increment(seed: u64, with_event: bool) -> u32 {
    let mut bench = Bench::new(seed);
    let fill = Work::Fill { to: bench.data, value: 100, width: 4, count: 1 };
    bench.state.submit(bench.streams[0], fill).unwrap();
    if with_event {
        let event = bench.state.create_event();
        bench.state.record(event, bench.streams[0]).unwrap();
        bench.state.wait_event(bench.streams[1], event).unwrap();
    }
    bench.increment(1, bench.data).unwrap();
    bench.state.synchronize_stream(bench.streams[1]).unwrap();
    bench.state.synchronize_device(0).unwrap();
    bench.value()
}

#[test]
fn what_no_event_orders_happens_in_several_orders() {
    assert!((0..20).all(|seed| fill_and_increment(seed, true) == 101));
    let without: Vec<u32> = (0..20).map(|seed| fill_and_increment(seed, false)).collect();
    assert_eq!(without[0], 100);
    assert!(without.contains(&100) && without.contains(&101), "{without:?}");
}

#[test]
fn an_event_that_is_destroyed_is_waited_for() {
    for seed in 0..20 {
        let mut bench = Bench::new(seed);
        let fill = Work::Fill { to: bench.data, value: 100, width: 4, count: 1 };
        bench.state.submit(bench.streams[0], fill).unwrap();
        let event = bench.state.create_event();
        bench.state.record(event, bench.streams[0]).unwrap();
        bench.state.wait_event(bench.streams[1], event).unwrap();
        bench.state.destroy_event(event).unwrap();
        assert_eq!(bench.state.has_passed(event), Err(Status::ERROR_INVALID_HANDLE));
        bench.increment(1, bench.data).unwrap();
        bench.state.synchronize_stream(bench.streams[1]).unwrap();
        assert_eq!(bench.value(), 101, "seed {seed}");
        assert!(bench.state.events.is_empty());
    }
}

#[test]
fn events_pass_when_what_was_before_them_has_run() {
    let mut bench = Bench::new(0);
    let event = bench.state.create_event();
    // One that was not recorded has passed.
    assert!(bench.state.has_passed(event).unwrap());
    bench.state.synchronize_event(event).unwrap();
    bench.increment(0, bench.data).unwrap();
    bench.state.record(event, bench.streams[0]).unwrap();
    bench.increment(0, bench.data).unwrap();
    assert!(!bench.state.has_passed(event).unwrap());
    bench.state.synchronize_event(event).unwrap();
    assert!(bench.state.has_passed(event).unwrap());
    assert_eq!(bench.value(), 1);
    // A program that polls gets on.
    for _ in 0..2 {
        bench.state.poll(bench.streams[0]).unwrap();
    }
    assert!(bench.state.is_idle(bench.streams[0]).unwrap());
    assert_eq!(bench.value(), 2);
    bench.state.destroy_event(event).unwrap();
    assert_eq!(bench.state.synchronize_event(event), Err(Status::ERROR_INVALID_HANDLE));
}

#[test]
fn a_fault_stays_on_its_device() {
    let mut bench = Bench::new(0);
    bench.increment(0, bench.data + 4).unwrap();
    bench.increment(0, bench.data).unwrap();
    let illegal = Err(Status::ERROR_ILLEGAL_ADDRESS);
    assert_eq!(bench.state.synchronize_stream(bench.streams[0]), illegal);
    assert_eq!(bench.state.synchronize_stream(bench.streams[1]), illegal);
    assert_eq!(bench.increment(1, bench.data), illegal);
    assert_eq!(bench.state.load(0, INCREMENT).map(drop), illegal);
    assert_eq!(bench.value(), 0);
    assert!(bench.state.device(1).is_ok());
}

#[test]
fn memory_that_a_stream_frees_is_gone_for_others() {
    let mut bench = Bench::new(0);
    bench.state.submit(bench.streams[0], Work::Free { address: bench.data }).unwrap();
    bench.state.synchronize_stream(bench.streams[0]).unwrap();
    bench.increment(1, bench.data).unwrap();
    assert_eq!(bench.state.synchronize_stream(bench.streams[1]), Err(Status::ERROR_ILLEGAL_ADDRESS));
}

#[test]
fn modules_take_their_variables_with_them() {
    let mut state = State::new(Settings::default());
    let source = INCREMENT.replace(".visible", ".global .align 4 .u32 table[4] = {1, 2};\n.visible");
    let source = source.replace("[%d0]; add", "[table]; add");
    let module = state.load(0, &source).unwrap();
    assert_eq!(state.devices[0].memory.count(), 1);
    let (address, bytes) = state.module(module).unwrap().variables["table"];
    assert_eq!(state.devices[0].memory.bytes(address, bytes).unwrap()[..5], [1, 0, 0, 0, 2]);
    state.unload(module).unwrap();
    assert_eq!(state.devices[0].memory.count(), 0);
    assert_eq!(state.load(0, &source.replace("add.s32", "add.q32")), Err(Status::ERROR_INVALID_PTX));
    assert_eq!(state.devices[0].memory.count(), 0);
}

#[test]
fn calls_that_may_wait_end_a_capture_that_is_not_relaxed() {
    let mut bench = Bench::new(0);
    for (is_relaxed, always, is_ended) in
        [(true, false, false), (true, true, true), (false, false, true), (false, true, true)]
    {
        bench.state.begin_capture(bench.streams[0], is_relaxed).unwrap();
        assert_eq!(bench.state.refuse_waits(0, always).is_err(), is_ended);
        assert_eq!(bench.state.refuse_waits(1, always), Ok(()));
        let ended = bench.state.end_capture(bench.streams[0]);
        assert_eq!(ended.is_err(), is_ended, "{ended:?}");
    }
}

#[test]
fn memory_that_was_freed_before_a_launch_of_its_graph_is_found() {
    let mut bench = Bench::new(0);
    bench.state.begin_capture(bench.streams[0], true).unwrap();
    bench.increment(0, bench.data).unwrap();
    let graph = bench.state.end_capture(bench.streams[0]).unwrap();
    let graph = bench.state.instantiate(graph).unwrap();
    for value in [1, 2] {
        bench.state.launch_graph(graph, bench.streams[1]).unwrap();
        bench.state.synchronize_stream(bench.streams[1]).unwrap();
        assert_eq!(bench.value(), value);
    }
    bench.state.devices[0].memory.free(bench.data).unwrap();
    bench.state.launch_graph(graph, bench.streams[1]).unwrap();
    assert_eq!(bench.state.synchronize_stream(bench.streams[1]), Err(Status::ERROR_ILLEGAL_ADDRESS));
}
