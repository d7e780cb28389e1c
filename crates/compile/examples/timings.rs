//! Times chains of elementwise operators with and without `compile`: `cargo run --release -p flambeau-compile --example timings`.

#[path = "../tests/chains/functions.rs"]
mod functions;

use flambeau_compile::compile;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use flambeau_ops::parallel::set_num_threads;
use std::time::Instant;

/// The shortest of several times, in seconds.
fn time(f: &dyn Fn() -> Result<Vec<Tensor>>) -> Result<f64> {
    let mut best = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 0.2 {
        let start = Instant::now();
        f()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<()> {
    println!(
        "{:16} {:>9} {:>3} {:>10} {:>10} {:>6} {:>6}",
        "chain", "elements", "thr", "eager us", "fused us", "ratio", "GB/s"
    );
    for threads in [1, 2] {
        set_num_threads(threads);
        for &(name, chain, count) in functions::CHAINS {
            for size in [1000i64, 30_000, 1_000_000, 10_000_000] {
                let inputs: Vec<Tensor> = (0..count)
                    .map(|i| {
                        Tensor::from_vec(
                            (0..size).map(|k| ((k + i as i64) % 1013) as f32 / 500.0 - 1.0).collect(),
                            &[size],
                        )
                    })
                    .collect::<Result<_>>()?;
                let compiled = compile(chain);
                let outputs = compiled.call(&inputs)?.len();
                let eager = time(&|| chain(&inputs))?;
                let fused = time(&|| compiled.call(&inputs))?;
                let bytes = (4 * size) as f64 * (count + outputs) as f64;
                println!(
                    "{name:16} {size:>9} {threads:>3} {:>10.1} {:>10.1} {:>6.2} {:>6.1}",
                    eager * 1e6,
                    fused * 1e6,
                    eager / fused,
                    bytes / fused * 1e-9
                );
            }
        }
    }
    Ok(())
}
