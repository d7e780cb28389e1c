//! What a kernel does wrong is found, and said with its line and thread: each check has a fault planted for it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use flambeau_cuda_standin::testing::{Fault, Simulator, Status};

/// A kernel with one parameter, an address in `%d0`; `%r0` is the number of the thread, `%d1` the address of its 4 bytes.
fn program(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n
        .visible .entry kernel(.param .u64 data) {{
        .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %d<20>;
        .shared .align 4 .b8 tile[512];
        .local .align 4 .b8 kept[8];
        ld.param.u64 %d0, [data];
        mov.u32 %r0, %tid.x;
        mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;
        mov.u32 %r9, tile; shl.b32 %r8, %r0, 2; add.s32 %r9, %r9, %r8;
        {body}
        ret; }}"
    )
}

struct Bench {
    device: Simulator,
    data: u64,
}

impl Bench {
    /// 64 numbers: 0, 1, 2 and so on.
    fn new(seed: u64, races: bool) -> Self {
        let mut device = Simulator::new(seed, races);
        let content: Vec<u8> = (0..64u32).flat_map(u32::to_le_bytes).collect();
        let data = device.upload(&content).unwrap();
        Bench { device, data }
    }

    fn run(&mut self, body: &str, threads: u32) -> Result<Vec<u32>, Fault> {
        let module = self.device.load(&program(body)).unwrap_or_else(|error| panic!("{body}: {error}"));
        self.device.launch(&module, 1, threads, &[self.data])?;
        let bytes = self.device.download(self.data, 256)?;
        Ok(bytes.chunks_exact(4).map(|number| u32::from_le_bytes(number.try_into().unwrap())).collect())
    }
}

/// The fault of a body, with checks of shared memory.
fn fault(body: &str, threads: u32) -> Fault {
    Bench::new(0, true).run(body, threads).unwrap_err()
}

#[track_caller]
fn assert_fault(body: &str, threads: u32, status: Status, text: &str) {
    let fault = fault(body, threads);
    assert!(fault.status == status && fault.text.contains(text), "{body}: {fault:?}");
}

#[test]
fn accesses_outside_of_allocations() {
    let (illegal, body) = (Status::ERROR_ILLEGAL_ADDRESS, "ld.global.u32 %r1, [%d1+128];");
    assert!(Bench::new(0, true).run(body, 32).is_ok());
    assert_fault(body, 33, illegal, "thread [32, 0, 0] of block [0, 0, 0]: 4 bytes");
    assert_fault(body, 33, illegal, "0 bytes past the end of an allocation of 256 bytes");
    assert_fault("st.global.u32 [%d1+-4], %r0;", 1, illegal, "in no allocation");
    assert_fault("mov.u64 %d2, 0; ld.global.u32 %r1, [%d2];", 1, illegal, "in no allocation");
    assert_fault("ld.u32 %r1, [%d1+256];", 1, illegal, "past the end");
    assert_fault("atom.global.add.u32 %r1, [%d1+256], 1;", 1, illegal, "past the end");
    assert_fault("ld.shared.u32 %r1, [tile+512];", 1, illegal, "of shared memory, which has 512 bytes");
    assert_fault("st.local.u32 [kept+8], %r0;", 1, illegal, "of local memory, which has 8 bytes");
    assert_fault("ld.param.u64 %d2, [data+8];", 1, illegal, "of 8 bytes of parameters");
    assert_fault(
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1+248];",
        1,
        Status::ERROR_MISALIGNED_ADDRESS,
        "16 bytes",
    );
}

#[test]
fn memory_that_was_freed() {
    let mut bench = Bench::new(0, false);
    let other = bench.device.upload(&[0; 16]).unwrap();
    bench.device.free(bench.data).unwrap();
    let module = bench.device.load(&program("ld.global.u32 %r1, [%d1];")).unwrap();
    let fault = bench.device.launch(&module, 1, 1, &[bench.data]).unwrap_err();
    assert!(fault.text.contains("256 bytes that was freed"), "{fault}");
    assert!(bench.device.free(bench.data).unwrap_err().text.contains("freed twice"));
    // The address is not used again.
    assert_ne!(bench.device.upload(&[0; 256]).unwrap(), bench.data);
    bench.device.free(other).unwrap();
}

#[test]
fn addresses_that_are_not_aligned() {
    let status = Status::ERROR_MISALIGNED_ADDRESS;
    assert_fault("ld.global.u32 %r1, [%d1+2];", 1, status, "no multiple of 4");
    assert_fault(
        "ld.global.v2.u32 {%r1, %r2}, [%d1];",
        2,
        status,
        "thread [1, 0, 0] of block [0, 0, 0]: 8 bytes",
    );
    assert_fault("st.shared.u32 [%r9+1], %r0;", 1, status, "no multiple of 4");
}

#[test]
fn shared_memory_that_no_barrier_orders() {
    let exchange = |between: &str| {
        format!(
            "st.shared.u32 [%r9], %r0; {between}
            xor.b32 %r1, %r8, 128; mov.u32 %r2, tile; add.s32 %r2, %r2, %r1;
            ld.shared.u32 %r3, [%r2]; st.global.u32 [%d1], %r3;"
        )
    };
    let right = exchange("bar.sync 0;");
    for seed in 0..8 {
        let result = Bench::new(seed, true).run(&right, 64).unwrap();
        assert!((0..64).all(|i| result[i as usize] == i ^ 32), "{result:?}");
    }
    let wrong = exchange("");
    assert_fault(&wrong, 64, Status::ERROR_LAUNCH_FAILED, "shared memory at 0x");
    // Without the check the values are wrong, in every order of warps.
    for seed in 0..4 {
        let result = Bench::new(seed, false).run(&wrong, 64).unwrap();
        assert!((0..64).any(|i| result[i as usize] != i ^ 32), "{result:?}");
    }
    assert_fault("ld.shared.u32 %r1, [tile];", 1, Status::ERROR_LAUNCH_FAILED, "that no thread has written");
    let overwritten = "st.shared.u32 [tile], %r0;";
    assert_fault(overwritten, 64, Status::ERROR_LAUNCH_FAILED, "that another warp has written");
    assert!(Bench::new(0, true).run(overwritten, 32).is_ok());
}

#[test]
fn lanes_that_do_not_come() {
    let sum = "shfl.sync.bfly.b32 %r1|%p1, %r0, 1, 31, -1; st.global.u32 [%d1], %r1;";
    let result = Bench::new(0, true).run(sum, 32).unwrap();
    assert!((0..32).all(|i| result[i as usize] == i ^ 1), "{result:?}");
    let timeout = Status::ERROR_LAUNCH_TIMEOUT;
    let half = format!("setp.ge.u32 %p0, %r0, 16; @%p0 bra END; {sum} END:");
    assert_fault(&half, 32, timeout, "waits for lanes");
    // A lane that is not among those it names.
    assert_fault("shfl.sync.idx.b32 %r1, %r0, 0, 31, 1;", 2, timeout, "waits for lanes");
    // Diverged lanes reconverge at the instruction.
    let both = format!(
        "and.b32 %r4, %r0, 1; setp.eq.u32 %p0, %r4, 0; @%p0 bra EVEN; add.s32 %r5, %r0, 1; EVEN: {sum}"
    );
    assert!(Bench::new(0, true).run(&both, 32).is_ok());
    let vote = "setp.lt.u32 %p0, %r0, 5; vote.sync.ballot.b32 %r1, %p0, -1; st.global.u32 [%d1], %r1;";
    assert_eq!(Bench::new(0, true).run(vote, 32).unwrap()[..32], [31; 32]);
}

#[test]
fn threads_that_end_are_not_waited_for() {
    let body = "setp.ge.u32 %p0, %r0, 40; @%p0 bra END; st.shared.u32 [%r9], %r0; bar.sync 0;
        ld.shared.u32 %r1, [tile+4]; st.global.u32 [%d1], %r1; END:";
    let result = Bench::new(0, true).run(body, 64).unwrap();
    assert!((0..64).all(|i| result[i] == if i < 40 { 1 } else { i as u32 }), "{result:?}");
}

#[test]
fn a_launch_that_never_ends() {
    let mut bench = Bench::new(0, false);
    bench.device = bench.device.with_steps(10_000);
    let fault = bench.run("LOOP: add.u32 %r1, %r1, 1; bra LOOP;", 1).unwrap_err();
    assert!(
        fault.status == Status::ERROR_LAUNCH_TIMEOUT && fault.text.contains("after 10000 instructions"),
        "{fault}"
    );
    // What ends in time is right.
    assert!(bench.run("st.global.u32 [%d1], %r0;", 32).is_ok());
}

#[test]
fn parameters_that_are_too_few() {
    let mut bench = Bench::new(0, false);
    let module = bench.device.load(&program("st.global.u32 [%d1], %r0;")).unwrap();
    let fault = bench.device.launch(&module, 1, 32, &[]).unwrap_err();
    assert!(fault.text.contains("of 0 bytes of parameters"), "{fault}");
}

#[test]
fn a_trap_is_a_fault_with_its_thread() {
    assert_fault(
        "setp.eq.u32 %p0, %r0, 3; @%p0 trap;",
        32,
        Status::ERROR_LAUNCH_FAILED,
        "thread [3, 0, 0] of block [0, 0, 0]: a trap",
    );
}

#[test]
fn launches_that_no_device_has() {
    let mut bench = Bench::new(0, false);
    let module = bench.device.load(&program("")).unwrap();
    let mut status =
        |blocks, threads| bench.device.launch(&module, blocks, threads, &[0]).map_err(|fault| fault.status);
    assert_eq!(status(1, 1025), Err(Status::ERROR_INVALID_VALUE));
    assert_eq!(status(0, 32), Err(Status::ERROR_INVALID_VALUE));
    assert_eq!(status(1, 1024), Ok(()));
    let limited = program("").replace("{\n", ".maxntid 256, 1, 1 {\n");
    let module = bench.device.load(&limited).unwrap();
    assert_eq!(bench.device.launch(&module, 1, 257, &[0]).unwrap_err().status, Status::ERROR_INVALID_VALUE);
}

#[test]
fn blocks_run_in_an_order_that_the_seed_draws() {
    // The last block to run stores its number.
    let body = "mov.u32 %r1, %ctaid.x; st.global.u32 [%d0], %r1;";
    let last = |seed: u64| {
        let mut bench = Bench::new(seed, false);
        let module = bench.device.load(&program(body)).unwrap();
        bench.device.launch(&module, 10, 1, &[bench.data]).unwrap();
        bench.device.download(bench.data, 4).unwrap()[0]
    };
    assert_eq!(last(0), 9);
    let drawn: std::collections::BTreeSet<u8> = (1..20).map(last).collect();
    assert!(drawn.len() > 3, "{drawn:?}");
    assert_eq!(last(5), last(5));
}

#[test]
fn calls_have_parameters_and_results_in_local_memory() {
    let source = ".version 8.0\n.target sm_90\n.address_size 64\n
        .global .align 4 .u32 table[2] = {10, 20};
        .func (.param .b32 result) triple(.param .b32 x);
        .visible .entry kernel(.param .u64 data) {
        .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %d<9>;
        ld.param.u64 %d0, [data]; mov.u32 %r0, %tid.x;
        mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;
        setp.gt.u32 %p0, %r0, 2;
        @%p0 bra END;
        { .param .b32 p0; st.param.b32 [p0+0], %r0; .param .b32 r0;
        call.uni (r0), triple, (p0);
        ld.param.b32 %r1, [r0+0]; }
        st.global.u32 [%d1], %r1;
        END: ret; }
        .func (.param .b32 result) triple(.param .b32 x) {
        .reg .b32 %r<4>; .reg .b64 %d<3>; .reg .pred %p<2>;
        ld.param.b32 %r1, [x]; setp.eq.u32 %p1, %r1, 0; @%p1 bra ZERO;
        mul.lo.u32 %r1, %r1, 3; bra DONE;
        ZERO: ld.global.u32 %r1, [table+4];
        DONE: st.param.b32 [result], %r1; ret; }";
    let mut bench = Bench::new(0, false);
    let module = bench.device.load(source).unwrap();
    bench.device.launch(&module, 1, 32, &[bench.data]).unwrap();
    let bytes = bench.device.download(bench.data, 16).unwrap();
    assert_eq!(bytes, [20, 3, 6, 3].map(u32::to_le_bytes).concat());
}

#[test]
fn lanes_diverge_in_many_orders() {
    // Each half of a warp stores its number, and which is last is open.
    let body = "mov.u32 %r1, 1; setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
        st.global.u32 [%d0], %r1; bra END; LOW: mov.u32 %r1, 2; st.global.u32 [%d0], %r1; END:";
    let last: Vec<u32> = (0..20).map(|seed| Bench::new(seed, false).run(body, 32).unwrap()[0]).collect();
    assert!(last.contains(&1) && last.contains(&2), "{last:?}");
    assert_eq!(last[0], 2);
    // They meet again for what all of them do.
    let sum = "and.b32 %r4, %r0, 3; LOOP: setp.eq.u32 %p0, %r4, 0; @%p0 bra OUT; sub.u32 %r4, %r4, 1; bra LOOP; OUT:
        shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; st.global.u32 [%d1], %r1;";
    for seed in 0..8 {
        let result = Bench::new(seed, true).run(sum, 32).unwrap();
        assert!((0..32).all(|i| result[i as usize] == i ^ 1), "{result:?}");
    }
}
