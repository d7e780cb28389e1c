//! Tensors whose elements a loop can compute again, and comparisons with loops in f64.

use flambeau_core::{Result, ScalarType, ensure};
use flambeau_distributed::ReduceOp;
use flambeau_ops::Tensor;

/// Element `i` of the tensor of a rank, before it is rounded to a dtype: a number from -2 to 2, or a small integer.
fn value(rank: usize, i: usize, dtype: ScalarType) -> f64 {
    let mixed = (i as u64 ^ (rank as u64) << 40).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11;
    let fraction = mixed as f64 / (1u64 << 53) as f64;
    match dtype {
        ScalarType::Bool => f64::from(u8::from(fraction < 0.5)),
        dtype if dtype.is_floating_point() || dtype.is_complex() => fraction * 4.0 - 2.0,
        ScalarType::U8 => (fraction * 4.0).floor(),
        _ => (fraction * 7.0).floor() - 3.0,
    }
}

/// The tensor of a rank.
pub(crate) fn tensor(rank: usize, count: usize, dtype: ScalarType) -> Result<Tensor> {
    let values: Vec<f64> = (0..count).map(|i| value(rank, i, dtype)).collect();
    Tensor::from_vec(values, &[count as i64])?.to_dtype(dtype)
}

/// The elements as f64, those of complex numbers by their real parts.
pub(crate) fn read(tensor: &Tensor) -> Result<Vec<f64>> {
    let real = if tensor.is_complex() { tensor.real()? } else { tensor.clone() };
    real.to_dtype(ScalarType::F64)?.contiguous()?.view(&[tensor.numel()])?.to_vec()
}

/// Half of the distance between 1 and the next number of a dtype; 0 where sums are exact.
fn rounding(dtype: ScalarType) -> f64 {
    let digits = match dtype {
        ScalarType::F64 | ScalarType::Complex128 => 53,
        ScalarType::F32 | ScalarType::Complex64 => 24,
        ScalarType::F16 => 11,
        ScalarType::BF16 => 8,
        _ => return 0.0,
    };
    0.5f64.powi(digits)
}

/// Compares a reduction with a loop in f64 over the elements of all ranks, in the precision that the dtype has.
pub(crate) fn compare_reduction(found: &Tensor, inputs: &[Vec<f64>], op: ReduceOp) -> Result<()> {
    let (dtype, ranks) = (found.dtype(), inputs.len());
    let found = read(found)?;
    let count = inputs.first().map_or(0, Vec::len);
    ensure!(found.len() == count, Internal, "expected {count} elements but got {}", found.len());
    let unit = rounding(dtype);
    // Below the smallest normal number f16 has fixed steps, which products of fractions reach.
    let step = if dtype == ScalarType::F16 { 0.5f64.powi(24) } else { 0.0 };
    for (i, found) in found.iter().enumerate() {
        let parts = || inputs.iter().map(|input| input[i]);
        let expected = reduced(parts(), op, ranks);
        let magnitude = match op {
            ReduceOp::Sum | ReduceOp::PremulSum(_) => parts().map(f64::abs).sum(),
            ReduceOp::Avg => parts().map(f64::abs).sum::<f64>() / ranks as f64,
            _ => expected.abs(),
        };
        // Each of the operations rounds once.
        let tolerance = (magnitude * unit + step) * (ranks + 1) as f64;
        ensure!(
            (found - expected).abs() <= tolerance,
            Internal,
            "{op:?} of {dtype}, element {i} of {count}: expected {expected} but got {found}"
        );
    }
    Ok(())
}

/// The reduction of one element.
fn reduced(parts: impl Iterator<Item = f64>, op: ReduceOp, ranks: usize) -> f64 {
    let bits = |fold: fn(i64, i64) -> i64, parts: &mut dyn Iterator<Item = f64>| {
        parts.map(|part| part as i64).reduce(fold).unwrap_or(0) as f64
    };
    let mut parts = parts;
    match op {
        ReduceOp::Sum => parts.sum(),
        ReduceOp::Avg => parts.sum::<f64>() / ranks as f64,
        ReduceOp::PremulSum(factor) => parts.map(|part| part * factor).sum(),
        ReduceOp::Product => parts.product(),
        ReduceOp::Min => parts.fold(f64::INFINITY, f64::min),
        ReduceOp::Max => parts.fold(f64::NEG_INFINITY, f64::max),
        ReduceOp::Band => bits(|a, b| a & b, &mut parts),
        ReduceOp::Bor => bits(|a, b| a | b, &mut parts),
        ReduceOp::Bxor => bits(|a, b| a ^ b, &mut parts),
        _ => f64::NAN,
    }
}

/// Compares elements that were only moved.
pub(crate) fn compare_moved(found: &Tensor, expected: &[f64], what: &str) -> Result<()> {
    let dtype = found.dtype();
    let found = read(found)?;
    ensure!(
        found == expected,
        Internal,
        "{what} of {dtype} with {} elements has other elements",
        expected.len()
    );
    Ok(())
}
