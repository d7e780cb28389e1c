//! The allocator under load, and indices out of range.

use super::{DEVICE, is_quick};
use flambeau::core::allocator::allocator_for;
use flambeau::core::{DeviceType, Generator};
use flambeau::{ErrorKind, Result, ScalarType, Tensor};

/// Tensors of many sizes, each filled with a number of its own, which is read when the tensor is dropped.
pub(super) fn stress() -> Result<usize> {
    let (steps, sizes) = if is_quick() { (400, 15) } else { (4000, 23) };
    let words = Generator::new(5).reserve_words(steps, 2)?;
    let mut live: Vec<(f32, Tensor)> = Vec::new();
    let mut faults = 0;
    for step in 0..steps as u64 {
        let word = words.word64(step);
        if live.len() < 200 && !word.is_multiple_of(3) {
            let count = 1 + (word >> 8) % (1 << (word % sizes));
            let value = step as f32;
            live.push((value, Tensor::full(&[count as i64], f64::from(value), (ScalarType::F32, DEVICE))?));
        } else if !live.is_empty() {
            let (value, tensor) = live.swap_remove((word >> 8) as usize % live.len());
            let ends = [tensor.min()?.item::<f32>()?, tensor.max()?.item::<f32>()?];
            faults += usize::from(ends != [value; 2]);
        }
    }
    let before = allocator_for(DeviceType::Cuda)?.memory_stats();
    live.clear();
    let after = allocator_for(DeviceType::Cuda)?.memory_stats();
    println!("{steps} steps; with {} bytes in use: {before:?}", before.live_bytes);
    println!("after all were dropped: {after:?}");
    flambeau_cuda::empty_cache();
    let empty = allocator_for(DeviceType::Cuda)?.memory_stats();
    println!("after the cache was emptied: {empty:?}");
    // Bytes come and go unchanged, whatever their number is.
    // The last sizes are those of several staging buffers.
    for count in [1, 3, 1000, 1 << 20, (1 << 21) + 17, 5_000_001] {
        let values: Vec<i32> = (0..count).collect();
        let there = Tensor::from_vec(values.clone(), &[i64::from(count)])?.to(DEVICE)?;
        faults += usize::from(there.to_vec::<i32>()? != values);
    }
    let refused = Tensor::empty(&[1 << 45], (ScalarType::F32, DEVICE)).map(drop);
    match refused {
        Err(error) if error.kind() == ErrorKind::OutOfMemory => println!("out of memory: {error}"),
        other => {
            println!("  FAULT expected OutOfMemory but got {other:?}");
            faults += 1;
        }
    }
    Ok(faults + usize::from(after.live_bytes != 0))
}

/// An index out of range is an error that names the operator, and the device works on.
pub(super) fn index_faults() -> Result<usize> {
    let table = Tensor::ones(&[10, 4], (ScalarType::F32, DEVICE))?;
    let wrong = Tensor::from([3i64, 10, 2]).to(DEVICE)?;
    let rows = Tensor::embedding(&table, &wrong)?;
    let error = rows.sum()?.item::<f32>().map(drop);
    let mut faults = 0;
    match error {
        Err(error) if error.kind() == ErrorKind::Index && error.to_string().contains("embedding") => {
            println!("index: {error}");
        }
        other => {
            println!("  FAULT expected an error of embedding but got {other:?}");
            faults += 1;
        }
    }
    let right = Tensor::from([3i64, 9, 2]).to(DEVICE)?;
    let sum = Tensor::embedding(&table, &right)?.sum()?.item::<f32>()?;
    faults += usize::from(sum != 12.0);
    println!("the next call gives {sum}");
    Ok(faults)
}

/// Tensors with more elements than 32 bits count, dense and with strides.
pub(super) fn more_than_32_bits() -> Result<usize> {
    const COLUMNS: i64 = 1_200_000_000;
    let free = flambeau_cuda::properties(0)?.free_bytes;
    if free < 20 << 30 {
        println!("1 check skipped: {free} bytes are free, and it takes 20 GiB");
        return Ok(0);
    }
    let ones = Tensor::full(&[2, COLUMNS], 1, (ScalarType::U8, DEVICE))?;
    let dense = ones.add(&ones)?.sum()?.item::<i64>()?;
    let part = ones.slice(1, 1, COLUMNS)?;
    let strided = part.add(&part)?;
    let sum = strided.sum_dim(1)?.to_vec::<i64>()?;
    let last = strided.select(1, COLUMNS - 2)?.to_vec::<u8>()?;
    let faults = usize::from(dense != 4 * COLUMNS)
        + usize::from(sum != [2 * (COLUMNS - 1); 2])
        + usize::from(last != [2; 2]);
    println!("sums of {} elements: {dense}, {sum:?}", 2 * COLUMNS);
    drop((ones, part, strided));
    flambeau_cuda::empty_cache();
    Ok(faults)
}
