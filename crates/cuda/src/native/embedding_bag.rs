//! `_embedding_bag`: the sum, mean or maximum of the rows of a table for each bag of indices, by sums over the bag of each index.

use super::{computing_type, dense_as, made, meta};
use flambeau_core::{DispatchKeySet, Result, Scalar, ScalarType};
use flambeau_ops::native::nn::embedding_bag;
use flambeau_ops::{Tensor, ops, register};

register!(ops::_EMBEDDING_BAG, Cuda, bags);

const ONE: Scalar = Scalar::Int(1);
/// The numbers of modes in the schema.
const MEAN: i64 = 1;
const MAX: i64 = 2;

/// The rows of all indices, the bag of each, and which are not padding.
struct Rows {
    indices: Tensor,
    bags: Tensor,
    counts: Tensor,
    is_kept: Tensor,
    values: Tensor,
}

impl Rows {
    fn new(weight: &Tensor, indices: &Tensor, offsets: &Tensor, count: i64, padding: i64) -> Result<Self> {
        let (indices, offsets) = (dense_as(indices, ScalarType::I64)?, dense_as(offsets, ScalarType::I64)?);
        let (long, device) = (Some(ScalarType::I64), Some(weight.device()));
        let positions = ops::arange(Scalar::Int(indices.numel()), long, None, device, None)?;
        let starts = ops::narrow(&offsets, 0, 0, count)?;
        let after = ops::searchsorted_tensor(&starts, &positions, false, true, None, None)?;
        let bags = ops::sub_scalar(&after, ONE, ONE)?;
        let is_kept = ops::ne_scalar(&indices, Scalar::Int(padding))?;
        let zeros = ops::zeros(&[count], long, None, device, None)?;
        let counts = ops::index_add(&zeros, 0, &bags, &dense_as(&is_kept, ScalarType::I64)?, ONE)?;
        let values = ops::index_select(weight, 0, &indices)?;
        let values = dense_as(&values, computing_type(weight.dtype()))?;
        Ok(Rows { indices, bags, counts, is_kept: ops::unsqueeze(&is_kept, 1)?, values })
    }

    /// The sums of the rows of each bag.
    fn sums(&self, scale: Option<&Tensor>, mean: bool) -> Result<Tensor> {
        let scaled = match scale {
            Some(scale) => {
                let scale = dense_as(scale, self.values.dtype())?;
                ops::mul_tensor(&self.values, &ops::unsqueeze(&scale, 1)?)?
            }
            None => self.values.clone(),
        };
        let kept = ops::masked_fill_scalar(&scaled, &ops::logical_not(&self.is_kept)?, Scalar::Int(0))?;
        let sums = ops::index_add(&self.filled(&self.values, Scalar::Int(0))?, 0, &self.bags, &kept, ONE)?;
        if !mean {
            return Ok(sums);
        }
        ops::div_tensor(&sums, &ops::unsqueeze(&ops::clamp_min(&self.counts, ONE)?, 1)?)
    }

    /// A row for each bag.
    fn filled(&self, like: &Tensor, value: Scalar) -> Result<Tensor> {
        let sizes = [self.counts.numel(), self.values.sizes()[1]];
        ops::full(&sizes, value, Some(like.dtype()), None, Some(like.device()), None)
    }

    /// The maxima of each bag, and the indices of their rows, the first of equal ones; zeros for bags without rows.
    fn maxima(&self) -> Result<(Tensor, Tensor)> {
        let lowest = Scalar::Float(f64::NEG_INFINITY);
        let kept = ops::masked_fill_scalar(&self.values, &ops::logical_not(&self.is_kept)?, lowest)?;
        let bags = ops::expand(&ops::unsqueeze(&self.bags, 1)?, kept.sizes(), false)?;
        let start = self.filled(&self.values, lowest)?;
        let highest = ops::scatter_reduce_two(&start, 0, &bags, &kept, "amax", true)?;
        let equals = ops::eq_tensor(&kept, &ops::index_select(&highest, 0, &self.bags)?)?;
        let count = self.indices.numel();
        let (long, device) = (Some(ScalarType::I64), Some(kept.device()));
        let positions = ops::unsqueeze(&ops::arange(Scalar::Int(count), long, None, device, None)?, 1)?;
        let is_candidate = ops::logical_and(&equals, &self.is_kept)?;
        let last = Scalar::Int(count - 1);
        let positions = ops::masked_fill_scalar(
            &ops::expand(&positions, kept.sizes(), false)?,
            &ops::logical_not(&is_candidate)?,
            last,
        )?;
        let start = ops::full(highest.sizes(), last, long, None, device, None)?;
        let first = ops::scatter_reduce_two(&start, 0, &bags, &positions, "amin", true)?;
        let rows = ops::index_tensor(&self.indices, &[Some(first)])?;
        let is_empty = ops::unsqueeze(&ops::eq_scalar(&self.counts, Scalar::Int(0))?, 1)?;
        let zero = Scalar::Int(0);
        Ok((
            ops::masked_fill_scalar(&highest, &is_empty, zero)?,
            ops::masked_fill_scalar(&rows, &is_empty, zero)?,
        ))
    }
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
    let rows = Rows::new(weight, indices, offsets, sizes.numel(), padding_idx)?;
    ops::copy_(&bag_of, &rows.bags, false)?;
    ops::copy_(&sizes, &rows.counts, false)?;
    if mode == MAX {
        let (values, indices) = rows.maxima()?;
        ops::copy_(&output, &values, false)?;
        ops::copy_(&maxima, &indices, false)?;
    } else {
        ops::copy_(&output, &rows.sums(per_sample_weights, mode == MEAN)?, false)?;
        ops::copy_(&maxima, &rows.counts, false)?;
    }
    Ok((output, bag_of, sizes, maxima))
}
