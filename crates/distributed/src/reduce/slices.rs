//! Sums of floating point numbers over ranks in one pass over memory: the reduction of gradients. Other reductions are made by operators.

use super::ReduceOp;
use crate::bytes::elements;
use flambeau_core::{Element, Result, ScalarType};
use flambeau_ops::Tensor;
use std::ops::{Add, Div};

/// How many elements are added at once: partial sums of so many stay in L1.
const BLOCK: usize = 1024;

/// Replaces the bytes of this rank by the reduction of all, `parts` in the order of ranks without that of this one. False for dtypes and
/// operations that are left to operators; the bits are the same.
pub(crate) fn reduce(
    own: &mut [u8],
    parts: &[Option<Tensor>],
    dtype: ScalarType,
    op: ReduceOp,
) -> Result<bool> {
    match (dtype, op) {
        (ScalarType::F32, ReduceOp::Sum) => sum::<f32>(own, parts, dtype, None),
        (ScalarType::F64, ReduceOp::Sum) => sum::<f64>(own, parts, dtype, None),
        (ScalarType::F32, ReduceOp::Avg) => sum(own, parts, dtype, Some(parts.len() as f32)),
        (ScalarType::F64, ReduceOp::Avg) => sum(own, parts, dtype, Some(parts.len() as f64)),
        _ => Ok(false),
    }
}

fn sum<T>(own: &mut [u8], parts: &[Option<Tensor>], dtype: ScalarType, count: Option<T>) -> Result<bool>
where
    T: Element + bytemuck::Pod + Add<Output = T> + Div<Output = T> + Default,
{
    let Ok(own) = bytemuck::try_cast_slice_mut::<u8, T>(own) else { return Ok(false) };
    let mut accessors = Vec::with_capacity(parts.len());
    for part in parts {
        accessors.push(part.as_ref().map(|part| elements(part, dtype)?.accessor::<T, 1>()).transpose()?);
    }
    let others: Vec<Option<&[T]>> =
        accessors.iter().map(|accessor| accessor.as_ref().and_then(|accessor| accessor.as_slice())).collect();
    let fits = |(part, other): (&Option<Tensor>, &Option<&[T]>)| {
        part.is_none() || other.is_some_and(|other| other.len() == own.len())
    };
    if !parts.iter().zip(&others).all(fits) {
        return Ok(false);
    }
    let mut before = [T::default(); BLOCK];
    for (number, block) in own.chunks_mut(BLOCK).enumerate() {
        let range = number * BLOCK..number * BLOCK + block.len();
        let before = &mut before[..block.len()];
        before.copy_from_slice(block);
        tree(&|rank| others[rank].map_or(&*before, |other| &other[range.clone()]), 0..others.len(), block);
        if let Some(count) = count {
            block.iter_mut().for_each(|x| *x = *x / count);
        }
    }
    Ok(true)
}

/// Adds the leaves of a range of ranks in the order of [`Tree`](super::Tree): the largest power of two that is smaller, and the rest.
fn tree<'a, T>(leaf: &dyn Fn(usize) -> &'a [T], ranks: std::ops::Range<usize>, out: &mut [T])
where
    T: Copy + Add<Output = T> + Default + 'a,
{
    match ranks.len() {
        0 => {}
        1 => out.copy_from_slice(leaf(ranks.start)),
        2 => {
            let pairs = leaf(ranks.start).iter().zip(leaf(ranks.start + 1));
            out.iter_mut().zip(pairs).for_each(|(out, (a, b))| *out = *a + *b);
        }
        count => {
            let middle = ranks.start + (1 << (count - 1).ilog2());
            tree(leaf, ranks.start..middle, out);
            let mut rest = [T::default(); BLOCK];
            let rest = &mut rest[..out.len()];
            tree(leaf, middle..ranks.end, rest);
            out.iter_mut().zip(rest).for_each(|(out, rest)| *out = *out + *rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::{copied, with_bytes};

    #[test]
    fn sums_have_the_bits_of_operators() {
        for (ranks, count) in [(1, 5), (2, 0), (2, 2500), (3, 1024), (4, 1025), (5, 77), (6, 3), (7, 2049)] {
            let value = |rank: usize, i: usize| {
                ((i * 7919 + rank * 104_729) % 1009) as f32 * 1.0e-3 + 1.0e4 * (rank % 3) as f32
            };
            let tensors: Vec<Tensor> = (0..ranks)
                .map(|rank| {
                    Tensor::from_vec((0..count).map(|i| value(rank, i)).collect(), &[count as i64]).unwrap()
                })
                .collect();
            let bytes: Vec<Tensor> =
                tensors.iter().map(|tensor| with_bytes(tensor, copied).unwrap()).collect();
            for op in [ReduceOp::Sum, ReduceOp::Avg] {
                let expected = op.reduce(tensors.clone()).unwrap().to_vec::<f32>().unwrap();
                for (own, tensor) in tensors.iter().enumerate() {
                    let mut found = tensor.to_vec::<f32>().unwrap();
                    let parts: Vec<Option<Tensor>> =
                        (0..ranks).map(|rank| (rank != own).then(|| bytes[rank].clone())).collect();
                    let found_bytes = bytemuck::cast_slice_mut(&mut found);
                    assert!(reduce(found_bytes, &parts, ScalarType::F32, op).unwrap());
                    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found), bits(&expected), "{op:?} of {count} on {ranks} ranks");
                }
            }
        }
    }
}
