//! Measures what it costs to split work between two threads: f32 additions on one thread and on two, and an empty call.
//!
//! `cargo run --release -p flambeau-ops --example parallel_split`

use std::{hint::black_box, time::Instant};

use flambeau_ops::parallel::{parallel_for, parallel_reduce, set_num_threads};

/// Nanoseconds a call, the fastest of many batches: the machine is shared.
fn fastest(mut f: impl FnMut()) -> f64 {
    let batch = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..100).for_each(|_| f());
        start.elapsed().as_secs_f64() * 1e7
    };
    (0..200).map(|_| batch(&mut f)).fold(f64::INFINITY, f64::min)
}

fn add(a: &[f32], b: &[f32]) -> f32 {
    let (a, b) = (black_box(a), black_box(b));
    let mut lanes = [0f32; 16];
    for (a, b) in a.chunks_exact(16).zip(b.chunks_exact(16)) {
        for i in 0..16 {
            lanes[i] += a[i] + b[i];
        }
    }
    lanes.iter().sum()
}

fn main() {
    let one = fastest(|| parallel_for(black_box(0..1), black_box(32), |part| _ = black_box(part)));
    println!("a range that fits one chunk: {one:.1} ns");
    set_num_threads(2);
    let empty = fastest(|| parallel_for(black_box(0..2), 1, |part| _ = black_box(part)));
    println!("two empty chunks, two threads: {empty:.0} ns");
    for len in [1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17] {
        let (a, b) = (vec![1f32; len], vec![2f32; len]);
        let run = || black_box(parallel_reduce(0..len, len / 2, |p| add(&a[p.clone()], &b[p]), |x, y| x + y));
        set_num_threads(1);
        let serial = fastest(|| _ = run());
        set_num_threads(2);
        let split = fastest(|| _ = run());
        println!(
            "{len:>7} f32 adds: serial {serial:.0} ns, two threads {split:.0} ns, {:.2}x",
            serial / split
        );
    }
}
