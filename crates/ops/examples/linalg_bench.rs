//! Milliseconds of products, convolutions and pooling, to be read beside a run of PyTorch on the same shapes.
//!
//! `cargo run --release -p flambeau-ops --example linalg_bench -- [threads] [filter]`

use std::time::{Duration, Instant};

use flambeau_ops::{Result, Tensor, ops, parallel::set_num_threads};

/// The fastest of many repetitions: the machine is shared.
fn report(filter: &str, name: &str, mut f: impl FnMut() -> Result<()>) -> Result<()> {
    if !name.contains(filter) {
        return Ok(());
    }
    f()?;
    let end = Instant::now() + Duration::from_millis(500);
    let mut best = f64::INFINITY;
    while Instant::now() < end {
        let start = Instant::now();
        f()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name} {:.4}", best * 1e3);
    Ok(())
}

fn filled(sizes: &[i64]) -> Result<Tensor> {
    let count = sizes.iter().product::<i64>();
    let value = |i: i64| (i.wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 32768.0 - 1.0;
    Tensor::from_vec((0..count).map(value).collect(), sizes)
}

fn convolution(
    filter: &str,
    name: &str,
    x: [i64; 4],
    w: [i64; 4],
    [stride, padding, groups]: [i64; 3],
) -> Result<()> {
    let (x, w) = (filled(&x)?, filled(&w)?);
    let (s, p) = ([stride; 2], [padding; 2]);
    let gy = ops::conv2d(&x, &w, None, &s, &p, &[1, 1], groups)?;
    report(filter, &format!("conv_{name}.fwd"), || {
        ops::conv2d(&x, &w, None, &s, &p, &[1, 1], groups).map(drop)
    })?;
    let mask = [true, true, false];
    report(filter, &format!("conv_{name}.bwd"), || {
        ops::convolution_backward(&gy, &x, &w, None, &s, &p, &[1, 1], false, &[0, 0], groups, mask).map(drop)
    })
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    set_num_threads(args.next().and_then(|n| n.parse().ok()).unwrap_or(1));
    let filter = args.next().unwrap_or_default();
    let f = filter.as_str();
    for n in [64, 256, 1024] {
        let (a, b) = (filled(&[n, n])?, filled(&[n, n])?);
        report(f, &format!("matmul {n}"), || ops::matmul(&a, &b).map(drop))?;
    }
    let (a, b) = (filled(&[64, 128, 64])?, filled(&[64, 64, 128])?);
    report(f, "bmm", || ops::matmul(&a, &b).map(drop))?;
    let (a, b) = (filled(&[4096, 4096])?, filled(&[4096])?);
    report(f, "matvec 4096", || ops::matmul(&a, &b).map(drop))?;
    let (x, w, b) = (filled(&[512, 1024])?, filled(&[1024, 1024])?, filled(&[1024])?);
    report(f, "linear.fwd", || ops::linear(&x, &w, Some(&b)).map(drop))?;
    convolution(f, "stem", [8, 3, 224, 224], [64, 3, 7, 7], [2, 3, 1])?;
    convolution(f, "64x56", [8, 64, 56, 56], [64, 64, 3, 3], [1, 1, 1])?;
    convolution(f, "128x28", [8, 128, 28, 28], [128, 128, 3, 3], [1, 1, 1])?;
    convolution(f, "256x14", [8, 256, 14, 14], [256, 256, 3, 3], [1, 1, 1])?;
    convolution(f, "512x7", [8, 512, 7, 7], [512, 512, 3, 3], [1, 1, 1])?;
    convolution(f, "depthwise", [32, 144, 28, 28], [144, 1, 3, 3], [1, 1, 144])?;
    let x = filled(&[8, 64, 112, 112])?;
    report(f, "max_pool2d", || ops::max_pool2d(&x, &[3, 3], &[2, 2], &[1, 1], &[1, 1], false).map(drop))
}
