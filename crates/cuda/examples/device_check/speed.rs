//! Times: the overhead of a launch, the bandwidth of elementwise loops and reductions, products. `torch_speed.py` prints PyTorch's.

use super::DEVICE;
use flambeau::{Result, ScalarType, Tensor};
use std::time::Instant;

/// Seconds of one call, of `count` calls in a row.
fn seconds(count: usize, mut call: impl FnMut() -> Result<Tensor>) -> Result<f64> {
    for _ in 0..3 {
        call()?;
    }
    flambeau_cuda::synchronize(0)?;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        for _ in 0..count {
            call()?;
        }
        flambeau_cuda::synchronize(0)?;
        best = best.min(start.elapsed().as_secs_f64() / count as f64);
    }
    Ok(best)
}

fn random(sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    Tensor::randn(sizes, ScalarType::F32)?.to((dtype, DEVICE))
}

/// Prints all times; nothing here is right or wrong.
pub(super) fn measure() -> Result<usize> {
    let one = random(&[1], ScalarType::F32)?;
    println!("speed add of one element: {:.2} us", seconds(20_000, || one.add(&one))? * 1e6);
    let count = 1 << 26;
    let (x, y) = (random(&[count], ScalarType::F32)?, random(&[count], ScalarType::F32)?);
    let bandwidth = |name: &str, bytes: i64, call: &mut dyn FnMut() -> Result<Tensor>| -> Result<()> {
        let time = seconds(20, call)?;
        println!("speed {name}: {:.0} us, {:.0} GB/s", time * 1e6, bytes as f64 / time / 1e9);
        Ok(())
    };
    bandwidth("add 2^26 f32", 12 * count, &mut || x.add(&y))?;
    bandwidth("tanh 2^26 f32", 8 * count, &mut || x.tanh())?;
    bandwidth("exp 2^26 f32", 8 * count, &mut || x.exp())?;
    bandwidth("gelu 2^26 f32", 8 * count, &mut || x.gelu())?;
    bandwidth("sum 2^26 f32", 4 * count, &mut || x.sum())?;
    let matrix = x.reshape(&[1 << 13, 1 << 13])?;
    bandwidth("sum of rows 8192 x 8192 f32", 4 * count, &mut || matrix.sum_dim(1))?;
    bandwidth("sum of columns 8192 x 8192 f32", 4 * count, &mut || matrix.sum_dim(0))?;
    bandwidth("transposed copy 8192 x 8192 f32", 8 * count, &mut || matrix.t()?.contiguous())?;
    bandwidth("softmax of rows 8192 x 8192 f32", 8 * count, &mut || matrix.softmax(1))?;
    let narrow = x.reshape(&[1 << 16, 1 << 10])?;
    bandwidth("softmax of rows 65536 x 1024 f32", 8 * count, &mut || narrow.softmax(1))?;
    let (xh, yh) = (random(&[count], ScalarType::BF16)?, random(&[count], ScalarType::BF16)?);
    bandwidth("add 2^26 bf16", 6 * count, &mut || xh.add(&yh))?;
    for size in [256, 1024, 4096] {
        let (a, b) = (random(&[size, size], ScalarType::F32)?, random(&[size, size], ScalarType::F32)?);
        let time = seconds(10, || a.mm(&b))?;
        println!(
            "speed mm {size} f32: {:.0} us, {:.1} TFLOP/s",
            time * 1e6,
            2.0 * (size as f64).powi(3) / time / 1e12
        );
    }
    Ok(0)
}
