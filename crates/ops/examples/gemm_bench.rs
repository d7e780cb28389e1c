//! GFLOP/s of matrix products, to be read beside a run of PyTorch on the same shapes.
//!
//! `cargo run --release -p flambeau-ops --example gemm_bench -- [threads] [filter]`; `FLAMBEAU_CPU_CAPABILITY` chooses
//! the instruction set.
#![expect(unsafe_code, reason = "the products take raw memory")]

use std::time::{Duration, Instant};

use flambeau_ops::{
    gemm::{Gemm, GemmElement, Isa, gemm, gemm_batch},
    parallel::set_num_threads,
};
use half::{bf16, f16};

/// The fastest of many repetitions: the machine is shared.
fn report(name: &str, flops: usize, mut f: impl FnMut()) {
    let seconds = |f: &mut dyn FnMut(), times: u32| {
        let start = Instant::now();
        (0..times).for_each(|_| f());
        start.elapsed().as_secs_f64() / f64::from(times)
    };
    (0..3).for_each(|_| f());
    let times = (0.001 / seconds(&mut f, 1).max(1e-7)).max(1.0) as u32;
    let end = Instant::now() + Duration::from_millis(400);
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        best = best.min(seconds(&mut f, times));
    }
    println!("{name} {:.2}", flops as f64 / best * 1e-9);
}

struct Square<T> {
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
}

impl<T: GemmElement> Square<T> {
    fn new(m: usize, n: usize, k: usize, of: impl Fn(f32) -> T) -> Self {
        let fill = |len: usize| (0..len).map(|i| of((i * 7919 % 1013) as f32 / 1013.0 - 0.5)).collect();
        Self { a: fill(m * k), b: fill(k * n), c: fill(m * n) }
    }
}

fn mm<T: GemmElement>(filter: &str, name: &str, [m, n, k]: [usize; 3], layout: &str, of: impl Fn(f32) -> T) {
    if !name.contains(filter) {
        return;
    }
    let mut s = Square::new(m, n, k, of);
    let mut g = Gemm::contiguous(m, n, k, s.a.as_ptr(), s.b.as_ptr(), s.c.as_mut_ptr());
    if layout.starts_with('t') {
        g.a_strides = [1, m as isize];
    }
    if layout.ends_with('t') {
        g.b_strides = [1, k as isize];
    }
    // SAFETY: the vectors hold the matrices.
    report(name, 2 * m * n * k, || unsafe { gemm(Isa::detected(), &g) });
}

fn bmm(filter: &str, name: &str, count: usize, [m, n, k]: [usize; 3]) {
    if !name.contains(filter) {
        return;
    }
    let mut s = Square::new(count * m, n * count, k, |x| x);
    let target = s.c.as_mut_ptr() as usize;
    let (a, b) = (&s.a, &s.b);
    let item = |i: usize| {
        let c = (target as *mut f32).wrapping_add(i * m * n);
        Gemm::contiguous(m, n, k, a[i * m * k..].as_ptr(), b[i * k * n..].as_ptr(), c)
    };
    // SAFETY: the vectors hold `count` matrices each.
    report(name, 2 * count * m * n * k, || unsafe { gemm_batch(Isa::detected(), count, item) });
}

fn main() {
    let mut args = std::env::args().skip(1);
    set_num_threads(args.next().and_then(|n| n.parse().ok()).unwrap_or(1));
    let filter = args.next().unwrap_or_default();
    let f = filter.as_str();
    for n in [32, 64, 128, 256, 512, 1024, 2048] {
        mm(f, &format!("f32 {n}"), [n; 3], "nn", |x| x);
    }
    for layout in ["nt", "tn"] {
        for n in [64, 128, 512, 1024] {
            mm(f, &format!("f32 {n} {layout}"), [n; 3], layout, |x| x);
        }
    }
    for n in [64, 256, 1024] {
        mm(f, &format!("f64 {n}"), [n; 3], "nn", f64::from);
    }
    for n in [64, 256, 1024] {
        mm(f, &format!("bf16 {n}"), [n; 3], "nn", bf16::from_f32);
    }
    mm(f, "bf16 256 nt", [256; 3], "nt", bf16::from_f32);
    mm(f, "f16 256", [256; 3], "nn", f16::from_f32);
    mm(f, "i32 256", [256; 3], "nn", |x| (x * 100.0) as i32);
    mm(f, "i8 256", [256; 3], "nn", |x| (x * 100.0) as i8);
    mm(f, "i64 256", [256; 3], "nn", |x| (x * 100.0) as i64);
    bmm(f, "bmm 64x(128x64x128)", 64, [128, 128, 64]);
    bmm(f, "bmm 256x(32x32x32)", 256, [32; 3]);
    mm(f, "mv 4096", [4096, 1, 4096], "nn", |x| x);
    mm(f, "mv-t 4096", [4096, 1, 4096], "tn", |x| x);
    mm(f, "vm 4096", [1, 4096, 4096], "nn", |x| x);
    mm(f, "mv 512", [512, 1, 512], "nn", |x| x);
    mm(f, "mv-bf16 4096", [4096, 1, 4096], "nn", bf16::from_f32);
    mm(f, "tall 8192x256x16", [8192, 256, 16], "nn", |x| x);
    mm(f, "tall 8192x16x256", [8192, 16, 256], "nn", |x| x);
    mm(f, "fat-k 64x64x16384", [64, 64, 16384], "nn", |x| x);
}
