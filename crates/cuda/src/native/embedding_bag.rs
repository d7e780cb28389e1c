//! `_embedding_bag`: the sum, mean or maximum of the rows of a table for each bag of indices.

use super::{dense, dense_as, made, meta, number_name_of, program};
use crate::launch::{Arguments, Grid, address, guarded};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType};
use flambeau_ops::native::nn::embedding_bag;
use flambeau_ops::{Tensor, ops, register};

register!(ops::_EMBEDDING_BAG, Cuda, bags);

const SOURCE: &str = include_str!("../kernels/embedding_bag.cu");

/// The number of the mode in the schema whose second result is the rows of the maxima.
const MAX: i64 = 2;

/// The bag of each index: of those that begin at it or before, the last.
fn bag_of_each(indices: &Tensor, starts: &Tensor) -> Result<Tensor> {
    const ONE: Scalar = Scalar::Int(1);
    let (long, device) = (Some(ScalarType::I64), Some(indices.device()));
    let positions = ops::arange(Scalar::Int(indices.numel()), long, None, device, None)?;
    let after = ops::searchsorted_tensor(starts, &positions, false, true, None, None)?;
    ops::sub_scalar(&after, ONE, ONE)
}

#[expect(clippy::too_many_arguments, reason = "the schema's")]
fn bags(
    _: DispatchKeySet,
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    const NAME: &str = "embedding_bag";
    let scale = per_sample_weights.map(meta).transpose()?;
    let shapes = embedding_bag::_embedding_bag(
        &meta(weight)?,
        &meta(indices)?,
        &meta(offsets)?,
        scale_grad_by_freq,
        mode,
        sparse,
        scale.as_ref(),
        include_last_offset,
        padding_idx,
    )?;
    let of = |shape: &Tensor| made(shape, weight.device());
    let (output, bag_of, sizes, maxima) = (of(&shapes.0)?, of(&shapes.1)?, of(&shapes.2)?, of(&shapes.3)?);
    if indices.numel() == 0 {
        [&output, &bag_of, &sizes, &maxima].into_iter().try_for_each(ops::zero_)?;
        return Ok((output, bag_of, sizes, maxima));
    }
    let count = sizes.numel();
    let indices = dense_as(indices, ScalarType::I64)?;
    let starts = ops::narrow(&dense_as(offsets, ScalarType::I64)?, 0, 0, count)?;
    ops::copy_(&bag_of, &bag_of_each(&indices, &starts)?, false)?;
    let scales = per_sample_weights.map(dense).transpose()?;
    let dtype = number_name_of(NAME, weight.dtype())?;
    let mut reads = vec![weight, &indices, &starts];
    reads.extend(&scales);
    guarded(NAME, &reads, &[&output, &sizes, &maxima], |gpu| {
        let function = gpu.function(&format!("embedding_bag {dtype}"), || {
            program(&format!("typedef {dtype} T;\n"), &[SOURCE])
        })?;
        let arguments = Arguments::new().int(count).int(indices.numel());
        let arguments = arguments.int(weight.sizes()[1]).int(weight.sizes()[0]);
        let arguments = arguments.int(weight.strides()[0]).int(weight.strides()[1]);
        let arguments = arguments.int(padding_idx).int(mode).tensor(weight).tensor(&indices).tensor(&starts);
        let arguments = arguments.word(scales.as_ref().map_or(0, address)).tensor(&output).tensor(&sizes);
        let arguments = arguments.tensor(&maxima).word(gpu.faults.address).int(gpu.faults.number_of(NAME));
        gpu.launch(function, Grid { blocks: [count, 1, 1], threads: 256 }, &arguments)
    })?;
    if mode != MAX {
        ops::copy_(&maxima, &sizes, false)?;
    }
    Ok((output, bag_of, sizes, maxima))
}
