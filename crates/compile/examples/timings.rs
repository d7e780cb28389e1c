//! Times chains of elementwise operators with and without `compile`: `cargo run --release -p flambeau-compile --example timings`.

use flambeau_compile::compile;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use flambeau_ops::parallel::set_num_threads;
use std::time::Instant;

type Chain = fn(&[Tensor]) -> Result<Vec<Tensor>>;

fn gelu_by_tanh(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let x = &x[0];
    let inner = ((x + (((x * x)? * x)? * 0.044715)?)? * 0.797_884_560_8)?;
    Ok(vec![((x * 0.5)? * (inner.tanh()? + 1.0)?)?])
}

fn swiglu(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![(x[0].silu()? * &x[1])?])
}

fn adam(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let [p, g, m, v] = x else { return Ok(Vec::new()) };
    let m = ((m * 0.9)? + (g * 0.1)?)?;
    let v = ((v * 0.999)? + ((g * g)? * 0.001)?)?;
    let step = (&m / (v.abs()?.sqrt()? + 1e-8)?)?;
    Ok(vec![(p - (step * 0.001)?)?, m, v])
}

fn normalized(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![((((&x[0] - &x[1])? * &x[2])? * &x[3])? + &x[1])?])
}

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
    let chains: [(&str, Chain, usize); 4] = [
        ("gelu_by_tanh", gelu_by_tanh, 1),
        ("swiglu", swiglu, 2),
        ("adam", adam, 4),
        ("normalized", normalized, 4),
    ];
    println!(
        "{:14} {:>9} {:>3} {:>10} {:>10} {:>6} {:>6}",
        "chain", "elements", "thr", "eager us", "fused us", "ratio", "GB/s"
    );
    for threads in [1, 2] {
        set_num_threads(threads);
        for (name, chain, count) in chains {
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
                    "{name:14} {size:>9} {threads:>3} {:>10.1} {:>10.1} {:>6.2} {:>6.1}",
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
