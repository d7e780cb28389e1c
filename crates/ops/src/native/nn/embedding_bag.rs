//! `embedding_bag`: the sum, mean or maximum of the rows of a table for each bag of indices, without copying rows; and the
//! gradients.

use crate::enums::EmbeddingBagMode as BagMode;
use crate::native::guarded_slices::{fill, with_slices};
use crate::native::index::dim_index::long_index;
use crate::native::nn::pooling::PoolElement;
use crate::structured::TensorSpec;
use crate::{Tensor, dispatch_all_types, ops, scratch};
use bytemuck::Pod;
use flambeau_core::{Element, MemoryFormat, Result, Scalar, bail, ensure};
use std::ops::Range;

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
        match self.indices.iter().find(|index| !(0..rows).contains(*index)) {
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

    /// The positions and rows of a bag, without padding.
    fn rows(&self, bag: usize) -> impl Iterator<Item = (usize, usize)> {
        let all = self.range(bag).zip(&self.indices[self.range(bag)]);
        all.filter(|(_, index)| **index != self.padding).map(|(position, index)| (position, *index as usize))
    }
}

/// The elements of the table, and the per-sample weights.
struct Table<'a, T> {
    elements: &'a [T],
    strides: [usize; 2],
    scale: Option<&'a [T]>,
}

impl<T: PoolElement> Table<'_, T> {
    fn at(&self, row: usize, column: usize) -> T {
        self.elements[row * self.strides[0] + column * self.strides[1]]
    }

    /// The sum of a bag's rows, or their mean.
    fn add_up(&self, bags: &Bags<'_>, bag: usize, mean: bool, sums: &mut [T::Sum], out: &mut [T]) {
        sums.fill(T::ZERO);
        let mut count = 0;
        for (position, row) in bags.rows(bag) {
            count += 1;
            let scale = self.scale.map(|scale| scale[position].widen());
            let elements = &self.elements[row * self.strides[0]..];
            match self.strides[1] {
                // A constant stride of 1 lets the compiler vectorize.
                1 => add_row(elements, scale, sums),
                step => add_row_apart(elements, step, scale, sums),
            }
        }
        for (to, sum) in out.iter_mut().zip(sums) {
            *to = T::narrow(if mean && count > 0 { T::mean(*sum, count) } else { *sum });
        }
    }

    /// The row of a bag with the largest element in a column: the first of equal ones, or 0 of an empty bag.
    fn max_row(&self, bags: &Bags<'_>, bag: usize, column: usize) -> usize {
        let value = |row: usize| self.at(row, column).widen();
        let better = |best: usize, row: usize| if value(row) > value(best) { row } else { best };
        bags.rows(bag).map(|(_, row)| row).reduce(better).unwrap_or(0)
    }
}

/// Adds the elements of a row, times its weight, to the sums.
fn add_row<T: PoolElement>(row: &[T], scale: Option<T::Sum>, sums: &mut [T::Sum]) {
    match scale {
        None => sums.iter_mut().zip(row).for_each(|(sum, x)| *sum = T::add(*sum, x.widen())),
        Some(scale) => sums.iter_mut().zip(row).for_each(|(sum, x)| *sum = T::add(*sum, x.widen() * scale)),
    }
}

/// The same where elements are `step` apart.
fn add_row_apart<T: PoolElement>(row: &[T], step: usize, scale: Option<T::Sum>, sums: &mut [T::Sum]) {
    for (column, sum) in sums.iter_mut().enumerate() {
        let x = row[column * step].widen();
        *sum = T::add(*sum, scale.map_or(x, |scale| x * scale));
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
    let row = |t: &Tensor| ops::clone(t, Some(MemoryFormat::Contiguous));
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

fn run_bags<T: PoolElement + Element + Pod>(
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
        let scale = if scaled { Some(s.read::<T>(3)?) } else { None };
        let table = Table { elements: s.read::<T>(0)?, strides, scale };
        let (out, offset2bag, sizes) = (s.write::<T>(0)?, s.write::<i64>(1)?, s.write::<i64>(2)?);
        for bag in 0..count {
            offset2bag[bags.range(bag)].fill(bag as i64);
            sizes[bag] = bags.rows(bag).count() as i64;
        }
        let max_rows = s.write::<i64>(3)?;
        if mode != BagMode::Max {
            max_rows.copy_from_slice(sizes);
            fill(out, width, |range, part| {
                let mut sums = scratch::filled(T::ZERO, width);
                for (out, bag) in part.chunks_mut(width).zip(range.start / width..) {
                    table.add_up(&bags, bag, mode == BagMode::Mean, &mut sums, out);
                }
            });
            return Ok(());
        }
        fill(max_rows, width, |range, part| {
            for (row, i) in part.iter_mut().zip(range) {
                *row = table.max_row(&bags, i / width, i % width) as i64;
            }
        });
        for (i, to) in out.iter_mut().enumerate() {
            let empty = sizes[i / width] == 0;
            *to = if empty { T::narrow(T::ZERO) } else { table.at(max_rows[i] as usize, i % width) };
        }
        Ok(())
    })
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
