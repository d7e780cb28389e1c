//! `embedding_bag`: the sum, mean or maximum of the rows of a table for each bag of indices, without copying rows; and the
//! gradients.

mod table;

use crate::enums::EmbeddingBagMode as BagMode;
use crate::native::guarded_slices::{fill_chunks, with_slices};
use crate::native::index::dim_index::long_index;
use crate::structured::TensorSpec;
use crate::tensor_iterator::GRAIN;
use crate::vectorized::with_processor_vectors;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Element, MemoryFormat, Result, Scalar, bail, ensure, fallible};
use std::borrow::Cow;
use std::ops::Range;
use table::{BagElement, GROUP, MAX_NARROW, Rows, Table};

fn bag_mode(name: &str, mode: i64) -> Result<BagMode> {
    match BagMode::from_int(mode) {
        Some(mode) => Ok(mode),
        None => {
            bail!(InvalidArgument(name, "mode"), "mode has to be 0 (sum), 1 (mean) or 2 (max) but got {mode}")
        }
    }
}

const NAME: &str = "embedding_bag";

/// Checks the operands and returns the number of bags.
fn bag_count(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    mode: BagMode,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<i64> {
    ensure!(weight.dim() == 2, Shape(NAME, "weight"), "'weight' must be 2-D but got {}-D", weight.dim());
    ensure!(
        indices.dim() == 1,
        Shape(NAME, "indices"),
        "input has to be a 1D Tensor, but got {}D",
        indices.dim()
    );
    ensure!(
        offsets.dim() == 1,
        Shape(NAME, "offsets"),
        "offsets has to be a 1D Tensor, but got {}D",
        offsets.dim()
    );
    if let Some(scale) = per_sample_weights {
        ensure!(
            mode == BagMode::Sum,
            InvalidArgument(NAME, "per_sample_weights"),
            "per_sample_weights was not None. per_sample_weights is only supported for mode='sum'"
        );
        ensure!(
            scale.dtype() == weight.dtype() && scale.sizes() == indices.sizes(),
            Shape(NAME, "per_sample_weights"),
            "expected per_sample_weights of type {} and sizes {:?} but got {} and {:?}",
            weight.dtype(),
            indices.sizes(),
            scale.dtype(),
            scale.sizes()
        );
    }
    let count = offsets.numel() - i64::from(include_last_offset);
    ensure!(
        count >= 0,
        InvalidArgument(NAME, "include_last_offset"),
        "include_last_offset: numBags should be at least 1"
    );
    Ok(count)
}

/// The bags of a list of indices, and the index that does not count.
struct Bags<'a> {
    indices: &'a [i64],
    offsets: &'a [i64],
    count: usize,
    padding: i64,
}

impl Bags<'_> {
    fn check(&self, rows: i64) -> Result<()> {
        let (len, offsets) = (self.indices.len() as i64, self.offsets);
        let first = offsets.first().copied().unwrap_or(len);
        ensure!(
            first == 0 || (offsets.is_empty() && len == 0),
            InvalidArgument(NAME, "offsets"),
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, \
             got {first}"
        );
        ensure!(
            offsets.windows(2).all(|pair| pair[0] <= pair[1]),
            InvalidArgument(NAME, "offsets"),
            "expected offsets in ascending order"
        );
        let last = offsets.last().copied().unwrap_or(0);
        ensure!(
            last <= len && (self.count == offsets.len() || last == len),
            InvalidArgument(NAME, "offsets"),
            "offsets[-1] can not be greater than input's length({len}), and is that where it is included, but got \
             offsets[-1] of {last}"
        );
        // As an unsigned integer a negative index is out of range, too. Without an early exit, so that the compiler vectorizes the loop.
        let is_outside = |index: i64| index as u64 >= rows as u64;
        let any = with_processor_vectors(
            #[inline(always)]
            || self.indices.iter().fold(false, |any, index| any | is_outside(*index)),
        );
        match any.then(|| self.indices.iter().find(|index| is_outside(**index))).flatten() {
            None => Ok(()),
            Some(index) => bail!(
                InvalidArgument(NAME, "indices"),
                "Expected idx >= 0 && idx < num_embeddings but found idx to be {index}"
            ),
        }
    }

    fn range(&self, bag: usize) -> Range<usize> {
        let end = self.offsets.get(bag + 1).map_or(self.indices.len(), |end| *end as usize);
        self.offsets[bag] as usize..end
    }

    /// How many indices of a bag count.
    fn size(&self, bag: usize) -> usize {
        let indices = &self.indices[self.range(bag)];
        if self.padding < 0 { indices.len() } else { indices.iter().filter(|i| **i != self.padding).count() }
    }

    /// The indices that count, and their weights, of bags of these sizes.
    fn without_padding<'a, T: Copy>(
        &'a self,
        sizes: &[i64],
        weights: Option<&'a [T]>,
    ) -> Result<Counting<'a, T>> {
        let mut end = 0;
        let mut starts = fallible::with_capacity(sizes.len() + 1)?;
        starts.push(end);
        for size in sizes {
            end += *size as usize;
            starts.push(end);
        }
        if end == self.indices.len() {
            return Ok(Counting {
                indices: Cow::Borrowed(self.indices),
                weights: weights.map(Cow::Borrowed),
                starts,
            });
        }
        let counts = |index: &i64| *index != self.padding;
        let indices = fallible::collect(self.indices.iter().copied().filter(counts))?;
        let of_counting = |weights: &[T]| {
            let all = weights.iter().zip(self.indices);
            fallible::collect(all.filter(|(_, index)| counts(index)).map(|(weight, _)| *weight))
        };
        let weights = weights.map(of_counting).transpose()?.map(Cow::Owned);
        Ok(Counting { indices: Cow::Owned(indices), weights, starts })
    }
}

/// The indices of all bags that count, their weights, and where each bag begins and ends.
struct Counting<'a, T: Copy> {
    indices: Cow<'a, [i64]>,
    weights: Option<Cow<'a, [T]>>,
    starts: Vec<usize>,
}

impl<T: Copy> Counting<'_, T> {
    #[inline(always)]
    fn bag(&self, bag: usize) -> Rows<'_, T> {
        let range = self.starts[bag]..self.starts[bag + 1];
        Rows {
            indices: &self.indices[range.clone()],
            weights: self.weights.as_ref().map(|weights| &weights[range]),
        }
    }

    /// How many bags of rows of `width` elements are worth a thread.
    fn grain(&self, width: usize) -> usize {
        let bags = self.starts.len() - 1;
        let each = (self.indices.len() / bags.max(1)).max(1).saturating_mul(width.max(1));
        GRAIN / each
    }
}

/// Each bag's rows of `weight`: their sum, mean, or maximum in each column; the bag of each index; the number of indices of each
/// bag without padding; and for the maximum the rows in which it was found.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    _scale_grad_by_freq: bool,
    mode: i64,
    _sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: i64,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let mode = bag_mode(NAME, mode)?;
    let row = |t: &Tensor| ops::contiguous(t, MemoryFormat::Contiguous);
    let (indices, offsets) = (row(&long_index(NAME, indices)?)?, row(&long_index(NAME, offsets)?)?);
    let count = bag_count(weight, &indices, &offsets, mode, per_sample_weights, include_last_offset)?;
    let scale = per_sample_weights.map(row).transpose()?;
    let columns = weight.sizes()[1];
    let integers = |sizes: &[i64]| TensorSpec::like(&indices, sizes).allocate(NAME);
    let output = TensorSpec::like(weight, &[count, columns]).allocate(NAME)?;
    let (offset2bag, bag_size) = (integers(indices.sizes())?, integers(&[count])?);
    let max_rows = integers(if mode == BagMode::Max { output.sizes() } else { bag_size.sizes() })?;
    if !output.device().is_meta() {
        let reads = [weight, &indices, &offsets, scale.as_ref().unwrap_or(weight)];
        let writes = [&output, &offset2bag, &bag_size, &max_rows];
        let kind = (mode, scale.is_some(), padding_idx);
        dispatch_all_types!(floats, weight.dtype(), NAME, T => run_bags::<T>(reads, writes, kind))?;
    }
    Ok((output, offset2bag, bag_size, max_rows))
}

fn run_bags<T: BagElement + Element + Pod>(
    reads: [&Tensor; 4],
    writes: [&Tensor; 4],
    (mode, scaled, padding): (BagMode, bool, i64),
) -> Result<()> {
    let [weight, ..] = reads;
    let (width, count) = (weight.sizes()[1] as usize, writes[2].numel() as usize);
    let strides = [0, 1].map(|d| weight.strides()[d] as usize);
    with_slices(NAME, &reads, &writes, |s| {
        let bags = Bags { indices: s.read(1)?, offsets: s.read(2)?, count, padding };
        bags.check(weight.sizes()[0])?;
        let weights = if scaled { Some(s.read::<T>(3)?) } else { None };
        let table = Table { elements: s.read::<T>(0)?, strides };
        let (out, offset2bag, sizes) = (s.write::<T>(0)?, s.write::<i64>(1)?, s.write::<i64>(2)?);
        for bag in 0..count {
            offset2bag[bags.range(bag)].fill(bag as i64);
            sizes[bag] = bags.size(bag) as i64;
        }
        let counting = bags.without_padding(sizes, weights).map_err(|e| e.in_operator(NAME))?;
        let max_rows = s.write::<i64>(3)?;
        if mode == BagMode::Max {
            write_maxima(&table, &counting, width, out, max_rows);
        } else {
            max_rows.copy_from_slice(sizes);
            write_sums(&table, &counting, width, mode == BagMode::Mean, out);
        }
        Ok(())
    })
}

/// The sum of each bag's rows, or their mean.
fn write_sums<T: BagElement>(
    table: &Table<'_, T>,
    counting: &Counting<'_, T>,
    width: usize,
    mean: bool,
    out: &mut [T],
) {
    fill_chunks(out, width, counting.grain(width), |range, part| {
        let block = width.min(BLOCK);
        let mut buffers = scratch::filled(T::ZERO, block * (GROUP + 1));
        // All bags in one call, which takes as long as the sums of a small one.
        with_processor_vectors(
            #[inline(always)]
            || {
                for (out, bag) in part.chunks_mut(width).zip(range.start / width..) {
                    let rows = counting.bag(bag);
                    let count = if mean { rows.indices.len() as i64 } else { 0 };
                    for (out, first) in out.chunks_mut(block).zip((0..).step_by(block)) {
                        let (sums, buffers) = buffers.split_at_mut(out.len());
                        table.columns_from(first).add_up(rows, buffers, sums);
                        write_block(sums, count, out);
                    }
                }
            },
        );
    });
}

/// Columns of few rows that are added at a time, so that their sums stay in the cache.
const BLOCK: usize = 512;

/// Writes sums, or means if `count` is greater than 0.
#[inline(always)]
fn write_block<T: BagElement>(sums: &mut [T::Sum], count: i64, out: &mut [T]) {
    if count > 0 {
        sums.iter_mut().for_each(|sum| *sum = T::mean(*sum, count));
    }
    if sums.len() <= MAX_NARROW {
        return out.iter_mut().zip(sums).for_each(|(to, sum)| *to = T::narrow(*sum));
    }
    T::write(sums, out);
}

/// The maximum of each bag's rows in each column, and the row of it: the first of equal ones. Both are 0 for an empty bag.
fn write_maxima<T: BagElement>(
    table: &Table<'_, T>,
    counting: &Counting<'_, T>,
    width: usize,
    out: &mut [T],
    max_rows: &mut [i64],
) {
    fill_chunks(max_rows, width, counting.grain(width), |range, part| {
        let mut best = scratch::filled(T::ZERO, width);
        for (found, bag) in part.chunks_mut(width).zip(range.start / width..) {
            table.find_maxima(counting.bag(bag).indices, &mut best, found);
        }
    });
    let rows = out.chunks_mut(width.max(1)).zip(max_rows.chunks(width.max(1)));
    for (bag, (out, found)) in rows.enumerate() {
        if counting.bag(bag).indices.is_empty() {
            out.fill(T::narrow(T::ZERO));
            continue;
        }
        for (column, (to, row)) in out.iter_mut().zip(found).enumerate() {
            *to = table.at(*row as usize, column);
        }
    }
}

/// [`_embedding_bag`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _embedding_bag_forward_only(
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
    let scale = per_sample_weights;
    let frequency = scale_grad_by_freq;
    ops::_embedding_bag(
        weight,
        indices,
        offsets,
        frequency,
        mode,
        sparse,
        scale,
        include_last_offset,
        padding_idx,
    )
}

/// [`_embedding_bag`] without a padding index.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn embedding_bag(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let scale = per_sample_weights;
    ops::_embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        scale,
        include_last_offset,
        -1,
    )
}

/// [`_embedding_bag`] with a padding index, which counts from the end if it is negative.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn embedding_bag_padding_idx(
    weight: &Tensor,
    indices: &Tensor,
    offsets: &Tensor,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    include_last_offset: bool,
    padding_idx: Option<i64>,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    let rows = weight.sizes().first().copied().unwrap_or(0);
    let padding = match padding_idx {
        None => -1,
        Some(index) => {
            ensure!(
                (-rows..rows).contains(&index),
                InvalidArgument,
                operator = "embedding_bag",
                argument = "padding_idx",
                "padding_idx must be within the number of embeddings, -{rows} through {}, but got {index}",
                rows - 1
            );
            index.rem_euclid(rows)
        }
    };
    let scale = per_sample_weights;
    ops::_embedding_bag(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        mode,
        sparse,
        scale,
        include_last_offset,
        padding,
    )
}

/// The gradient of `weight` of [`_embedding_bag`].
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _embedding_bag_backward(
    grad: &Tensor,
    indices: &Tensor,
    _offsets: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    sparse: bool,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    if sparse {
        let mode = bag_mode(NAME, mode)?;
        ensure!(
            mode != BagMode::Max,
            InvalidArgument(NAME, "sparse"),
            "mode='max' does not support sparse gradients"
        );
        let rows = row_gradients(grad, offset2bag, bag_size, mode, per_sample_weights)?;
        return ops::embedding_backward(&rows, indices, num_weights, padding_idx, scale_grad_by_freq, true);
    }
    ops::_embedding_bag_dense_backward(
        grad,
        indices,
        offset2bag,
        bag_size,
        maximum_indices,
        num_weights,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        padding_idx,
    )
}

/// The dense gradient of `weight`. It is composed of other operators, so that it is differentiable.
#[expect(clippy::too_many_arguments, reason = "the schema's")]
pub fn _embedding_bag_dense_backward(
    grad: &Tensor,
    indices: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    maximum_indices: &Tensor,
    num_weights: i64,
    scale_grad_by_freq: bool,
    mode: i64,
    per_sample_weights: Option<&Tensor>,
    padding_idx: i64,
) -> Result<Tensor> {
    let mode = bag_mode("_embedding_bag_dense_backward", mode)?;
    if mode == BagMode::Max {
        let sizes = [num_weights, grad.size(1)?];
        let zeros = ops::zeros(&sizes, Some(grad.dtype()), None, Some(grad.device()), None)?;
        let empty = bag_size.eq_scalar(0)?.unsqueeze(1)?;
        return zeros.scatter_add(0, maximum_indices, &grad.masked_fill(&empty, 0)?);
    }
    let rows = row_gradients(grad, offset2bag, bag_size, mode, per_sample_weights)?;
    ops::embedding_dense_backward(&rows, indices, num_weights, padding_idx, scale_grad_by_freq)
}

/// The gradient of the row of each index, where rows are summed or averaged.
fn row_gradients(
    grad: &Tensor,
    offset2bag: &Tensor,
    bag_size: &Tensor,
    mode: BagMode,
    per_sample_weights: Option<&Tensor>,
) -> Result<Tensor> {
    let mut rows = grad.index_select(0, offset2bag)?;
    if let Some(scale) = per_sample_weights {
        rows = rows.mul(&scale.unsqueeze(1)?)?;
    }
    if mode == BagMode::Mean {
        let count = bag_size.index_select(0, offset2bag)?.clamp_min(Scalar::Int(1))?;
        rows = rows.div(&count.unsqueeze(1)?.to(grad.dtype())?)?;
    }
    Ok(rows)
}

/// The gradient of `per_sample_weights` of [`_embedding_bag`]: inner products of a bag's gradient and its rows.
pub fn _embedding_bag_per_sample_weights_backward(
    grad: &Tensor,
    weight: &Tensor,
    indices: &Tensor,
    _offsets: &Tensor,
    offset2bag: &Tensor,
    mode: i64,
    padding_idx: i64,
) -> Result<Tensor> {
    ensure!(
        mode == 0,
        InvalidArgument("embedding_bag_backward", "per_sample_weights"),
        "per_sample_weights only supported for mode='sum'"
    );
    let rows = weight.index_select(0, indices)?;
    let products = grad.index_select(0, offset2bag)?.mul(&rows)?.sum_dim(1)?;
    if padding_idx < 0 {
        return Ok(products);
    }
    products.masked_fill(&long_index(NAME, indices)?.eq_scalar(padding_idx)?, 0)
}
