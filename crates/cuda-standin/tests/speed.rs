//! How fast programs are interpreted: a bound that keeps the tests on the stand-in short. Times are those of the thread on its processor, the
//! best of several, so that other programs on the machine do not matter.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "reads the clock of the thread")]

use flambeau_cuda_standin::testing::Simulator;

/// Seconds that this thread has had a processor.
fn seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the function writes the structure.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The smallest time of a launch.
fn best(source: &str, (blocks, threads): (u32, u32), repetitions: usize) -> f64 {
    let mut device = Simulator::new(0, false);
    let module = device.load(source).unwrap();
    let data = device.upload(&vec![0; 4 * (blocks * threads) as usize]).unwrap();
    let time = |_| {
        let start = seconds();
        device.launch(&module, blocks, threads, &[data]).unwrap();
        seconds() - start
    };
    (0..repetitions).map(time).fold(f64::INFINITY, f64::min)
}

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry kernel(.param .u64 data) {
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .f32 %f<40>; .reg .b64 %d<9>;
    ld.param.u64 %d0, [data]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;
    mad.lo.s32 %r3, %r1, %r2, %r0; mul.wide.u32 %d1, %r3, 4; add.s64 %d1, %d1, %d0;";

#[test]
fn launches_are_quick() {
    let source = format!("{HEAD} st.global.u32 [%d1], %r3; ret; }}");
    let time = best(&source, (1, 32), 2000);
    println!("the smallest launch takes {:.2} us", time * 1e6);
    assert!(time < 10e-6, "{time}");
}

#[test]
fn instructions_are_quick() {
    // A loop of 500 rounds of 16 sums and products, and three instructions for the loop.
    let body: String =
        (0..8).map(|i| format!("fma.rn.f32 %f{i}, %f{i}, %f20, %f21; mul.f32 %f{i}, %f{i}, %f20;")).collect();
    let source = format!(
        "{HEAD} mov.f32 %f20, 0f3F7F0000; mov.f32 %f21, 0f3F800000; mov.u32 %r4, 0;
        LOOP: {body} add.s32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 500; @%p0 bra LOOP;
        st.global.f32 [%d1], %f0; ret; }}"
    );
    let count = 19.0 * 500.0 * f64::from(8 * 256);
    // So many that some run while nothing else is on the processor's core.
    let rate = count / best(&source, (8, 256), 40);
    println!("{:.2} G lane instructions a second", rate / 1e9);
    assert!(rate > 0.5e9, "{rate}");
}
