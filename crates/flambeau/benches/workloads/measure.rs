//! Times one call, by rules that are the same for every library.

use cpu_time::ProcessTime;
use flambeau::{Autograd, Error, ErrorKind, Result, ScalarType, Tensor};
use std::hint::black_box;
use std::time::Instant;

type Call<'c> = &'c mut dyn FnMut() -> Result<Tensor>;

/// One call: forward, sum, backward; its result is the gradient of leaf number `result`. Gradients do not accumulate between calls.
pub(super) fn backward_of(
    leaves: Vec<Tensor>,
    result: usize,
    forward: impl Fn() -> Result<Tensor> + 'static,
) -> impl FnMut() -> Result<Tensor> {
    move || {
        forward()?.sum()?.backward()?;
        let grad = leaves[result].grad();
        leaves.iter().try_for_each(|leaf| leaf.set_grad(None))?;
        grad.ok_or_else(|| Error::new(ErrorKind::Internal, "no gradient arrived"))
    }
}

/// Nanoseconds a sample should take at least.
const SAMPLE: f64 = 2e5;

fn time(call: Call<'_>, count: usize) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        black_box(call()?);
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

/// Median, minimum and interquartile range of wall time and mean CPU time of all threads in ns per call, as JSON, with the check value of the second call: the mean weighted by
/// 1 to 7 repeated and mean magnitude of the first 2^20 elements.
pub(super) fn measure(name: &str, call: Call<'_>, seconds: f64) -> Result<String> {
    call()?;
    let check = check(&call()?)?;
    let mut count = 1;
    let mut estimate = time(call, 1)?;
    while estimate * (count as f64) < SAMPLE {
        count = (SAMPLE / estimate).ceil() as usize;
        estimate = time(call, count)?;
    }
    let warm_up = (5e7 / (estimate * count as f64)).min(20.0) as usize;
    for _ in 0..warm_up {
        time(call, count)?;
    }
    let mut samples = Vec::new();
    let (start, cpu) = (Instant::now(), ProcessTime::now());
    while samples.len() < 7 || (samples.len() < 300 && start.elapsed().as_secs_f64() < seconds) {
        samples.push(time(call, count)?);
    }
    let cpu = cpu.elapsed().as_nanos() as f64 / (count * samples.len()) as f64;
    samples.sort_by(f64::total_cmp);
    let at = |part: f64| samples[((samples.len() - 1) as f64 * part).round() as usize];
    let number = |x: f64| if x.is_finite() { x.to_string() } else { "null".to_string() };
    Ok(format!(
        "{{\"name\": \"{name}\", \"median_ns\": {}, \"min_ns\": {}, \"iqr_ns\": {}, \"cpu_ns\": {cpu}, \"check\": [{}, {}]}}",
        at(0.5),
        samples[0],
        at(0.75) - at(0.25),
        number(check.0),
        number(check.1)
    ))
}

fn check(result: &Tensor) -> Result<(f64, f64)> {
    let flat = result.detach()?.reshape(&[-1])?;
    let head = flat.narrow(0, 0, flat.numel().min(1 << 20))?;
    let values: Vec<f64> = head.to(ScalarType::F64)?.to_vec()?;
    let count = values.len() as f64;
    let weighted = |(i, v): (usize, &f64)| v * (1 + i % 7) as f64;
    let mean = values.iter().enumerate().map(weighted).sum::<f64>() / count;
    let magnitude = values.iter().map(|v| v.abs()).sum::<f64>() / count;
    Ok((mean, magnitude))
}
