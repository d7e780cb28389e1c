//! The allocator under load, and indices out of range.

use super::{DEVICE, is_quick};
use flambeau::core::allocator::allocator_for;
use flambeau::core::{DeviceType, Generator};
use flambeau::{Device, ErrorKind, Result, ScalarType, Tensor, ops};

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
    Ok(faults + usize::from(after.live_bytes != 0) + round_trips()?)
}

/// Tensors of every type with several strides, to the device and back.
fn round_trips() -> Result<usize> {
    use ScalarType::{
        BF16, Bool, Complex64, Complex128, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64,
    };
    let types = [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, Complex64, Complex128];
    let values = Tensor::from_vec((0..60).map(f64::from).collect(), &[3, 4, 5])?;
    let mut faults = 0;
    for dtype in types {
        let here = values.to(dtype)?;
        let layouts = [
            here.clone(),
            here.transpose(0, 2)?,
            here.slice(2, 1, 4)?,
            here.select(1, 2)?,
            here.unsqueeze(1)?.expand(&[3, 2, 4, 5])?,
        ];
        for (i, view) in layouts.iter().enumerate() {
            let (there, back) = (view.to(DEVICE)?, Tensor::empty(view.sizes(), dtype)?);
            ops::copy_(&back, &there.transpose(0, 1)?.contiguous()?.transpose(0, 1)?, false)?;
            if !ops::equal(&back, view)? || !ops::equal(&there.to(Device::CPU)?, view)? {
                println!("  FAULT {dtype} with layout {i} comes back with other values");
                faults += 1;
            }
        }
    }
    println!("{} types to the device and back", types.len());
    Ok(faults)
}

/// Copies from pinned memory that need not block read it later, and it is not used again before.
pub(super) fn pinned() -> Result<usize> {
    const COUNT: i64 = 100_000;
    let (mut faults, mut there) = (0, Vec::new());
    for round in 0..8i64 {
        let values = Tensor::full(&[COUNT], round, ScalarType::I32)?;
        let batch = flambeau_cuda::pin_memory(&values)?;
        faults += usize::from(!flambeau_cuda::is_pinned(&batch) || flambeau_cuda::is_pinned(&values));
        let waits = flambeau_cuda::waits();
        there.push(ops::_to_copy(&batch, None, None, Some(DEVICE), None, true, None)?);
        faults += usize::from(flambeau_cuda::waits() != waits);
        // The next round would write into the same block.
        drop(batch);
    }
    for (round, copy) in (0..).zip(&there) {
        let sums = [copy.min()?.item::<i32>()?, copy.max()?.item::<i32>()?];
        faults += usize::from(sums != [round; 2]);
    }
    println!("{} copies from pinned memory", there.len());
    flambeau_cuda::empty_cache();
    Ok(faults)
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
