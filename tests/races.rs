//! Sizes, strides and offsets that another thread changes while an operator runs: no signal, and no value that its operands never had.
//!
//! `FLAMBEAU_RACE_SECONDS` makes each test as long as that.

use flambeau_core::{DispatchKey, ScalarType};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::Value;
use flambeau_ops::ops;
use flambeau_tests::call::{operator, seeded, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::row::Row;
use std::cell::Cell;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn seconds(otherwise: f64) -> Duration {
    let seconds = std::env::var("FLAMBEAU_RACE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(otherwise))
}

/// Calls `disturb` on another thread, again and again, while `work` runs.
fn beside<R>(disturb: impl Fn(usize) + Sync, work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                disturb(step);
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        over.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    })
}

/// Sets one geometry after another, of those that fit the storage, and enlarges the storage, which moves its bytes.
fn change(tensor: &Tensor, sizes: &[i64], step: usize) {
    let (numel, strides) = (sizes.iter().product::<i64>(), contiguous_strides(sizes));
    // What another thread's guards refuse now is tried again in the next step.
    let _ = match step % 4 {
        0 => ops::as_strided_(tensor, &[1], &[1], Some((numel - 1).max(0))),
        1 => ops::as_strided_(tensor, sizes, &strides, Some(0)),
        2 => ops::resize_(tensor, &[numel + 8 + step as i64 % 64], None),
        _ => ops::as_strided_(tensor, sizes, &strides, Some(0)),
    };
}

fn contiguous_strides(sizes: &[i64]) -> Vec<i64> {
    let after = |d: usize| sizes[d + 1..].iter().map(|size| size.max(&1)).product();
    (0..sizes.len()).map(after).collect()
}

fn tensors(arguments: &[Value]) -> Vec<&Tensor> {
    arguments
        .iter()
        .flat_map(|value| match value {
            Value::Tensor(tensor) => vec![tensor],
            Value::Tensors(list) => list.iter().collect(),
            _ => vec![],
        })
        .collect()
}

thread_local! {
    /// Whether a panic of this thread is caught and counted.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

/// From now on a panic that is counted prints nothing: a race meets thousands.
fn count_in_silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !COUNTED.get() {
                print(panic);
            }
        }));
    });
}

/// Calls a row's operator for a moment while its operands change; how many calls went well, how many were refused, and how many
/// panicked.
fn race(row: &Row, moment: Duration) -> Option<[usize; 3]> {
    let op = operator(row.name)?;
    let dtype = if row.types.contains(&ScalarType::F32) { ScalarType::F32 } else { row.types[0] };
    let sample =
        row.samples.iter().find(|sample| !tensors(&values(sample, &mut |a| tensor(a, dtype))).is_empty())?;
    let arguments = values(sample, &mut |a| tensor(a, dtype));
    let changing = tensors(&arguments);
    let sizes: Vec<Vec<i64>> = changing.iter().map(|tensor| tensor.sizes().to_vec()).collect();
    // From the first call on, kernels see that others may change these, and take snapshots.
    changing.iter().zip(&sizes).for_each(|(tensor, sizes)| change(tensor, sizes, 1));
    let disturb =
        |step: usize| changing.iter().zip(&sizes).for_each(|(tensor, sizes)| change(tensor, sizes, step));
    let mut counts = [0; 3];
    count_in_silence();
    beside(disturb, || {
        COUNTED.set(true);
        let end = Instant::now() + moment;
        while Instant::now() < end {
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| seeded(op, &arguments, 1)));
            match result {
                Ok(result) => counts[usize::from(result.is_err())] += 1,
                Err(_) => counts[2] += 1,
            }
        }
        COUNTED.set(false);
    });
    Some(counts)
}

#[test]
fn every_operator_beside_a_thread_that_changes_its_operands() {
    let rows = op_db::rows();
    let moment = seconds(4.0) / rows.len() as u32;
    let (mut well, mut refused, mut composites, mut panicked) = (0, 0, 0, vec![]);
    for row in &rows {
        if let Some([good, bad, panics]) = race(row, moment) {
            (well, refused) = (well + good, refused + bad);
            let is_kernel = operator(row.name).is_some_and(|op| op.has_kernel(DispatchKey::Cpu));
            composites += usize::from(panics > 0 && !is_kernel);
            panicked.extend((panics > 0 && is_kernel).then_some(row.name));
        }
    }
    println!("{} rows: {well} calls went well, {refused} were refused", rows.len());
    // Composite operators: an index computed for the sizes in one call may be out of range for those in the next.
    println!("{composites} operators without a kernel met sizes that do not fit each other");
    assert!(panicked.is_empty(), "{panicked:?} panicked while their operands changed");
    assert!(well > rows.len() && refused > 0);
}

#[test]
fn a_product_of_ones_beside_one_that_resizes() {
    const N: i64 = 96;
    let ones = |rows: i64| Tensor::from_vec(vec![1.0f32; (rows * N) as usize], &[rows, N]).unwrap();
    let (a, b) = (ones(N), ones(N));
    let resize = |step: usize| {
        let rows = if step.is_multiple_of(2) { N + 8 + step as i64 % 512 } else { N };
        let _ = ops::resize_(&a, &[rows, N], None);
    };
    beside(resize, || {
        let end = Instant::now() + seconds(1.0);
        while Instant::now() < end {
            // A call that meets the very first change may be refused.
            let Ok(product) = ops::mm(&a, &b) else { continue };
            let values = product.to_vec::<f32>().unwrap();
            assert!(values[..(N * N) as usize].iter().all(|value| *value == N as f32), "a product of ones");
        }
    });
}

#[test]
fn a_sum_in_place_beside_writers_and_views() {
    const N: i64 = 1 << 16;
    let ones = || Tensor::from_vec(vec![1.0f32; N as usize], &[N]).unwrap();
    let (x, y) = (ones(), ones());
    let view = |step: usize| {
        ops::fill__scalar(&y, flambeau_core::Scalar::Float(1.0)).unwrap();
        let _ = match step % 2 {
            0 => ops::as_strided_(&x, &[1], &[1], Some(N - 1)),
            _ => ops::as_strided_(&x, &[N], &[1], Some(0)),
        };
    };
    beside(view, || {
        let end = Instant::now() + seconds(1.0);
        while Instant::now() < end {
            // Of one element beside many the sizes do not match.
            let _ = ops::add__tensor(&x, &y, flambeau_core::Scalar::Int(1));
        }
    });
    assert!(ops::as_strided_(&x, &[N], &[1], Some(0)).is_ok());
    let values = x.to_vec::<f32>().unwrap();
    assert!(values.iter().all(|value| value.fract() == 0.0 && *value >= 1.0), "whole numbers of ones");
}
