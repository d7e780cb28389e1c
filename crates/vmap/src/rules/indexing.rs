//! Indices that are tensors: `x[i, :, j]`, read and written.

use crate::batch::{Batch, one};
use crate::kinds::loops;
use crate::kinds::pointwise::with_rank;
use flambeau_core::{Result, Scalar, ScalarType, bail, ensure};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

/// The indices of a call: integers only, with the dimension of an example that each selects from.
struct Indices {
    tensors: Vec<(usize, Tensor)>,
    /// How many dimensions they have together, of one example.
    rank: usize,
}

impl Indices {
    /// `None` where a mask has no dimensions, or elements of a mask would decide about the sizes of each example.
    fn of(batch: &Batch<'_>, given: &[Option<Tensor>], sizes: &[i64]) -> Result<Option<Self>> {
        let (mut tensors, mut dim) = (Vec::new(), 0);
        for index in given {
            let Some(index) = index else {
                dim += 1;
                continue;
            };
            if !matches!(index.dtype(), ScalarType::Bool | ScalarType::U8) {
                tensors.push((dim, index.clone()));
                dim += 1;
                continue;
            }
            if batch.is_batched(index) || index.dim() == 0 {
                return Ok(None);
            }
            ensure!(
                sizes.get(dim..dim + index.dim()) == Some(index.sizes()),
                Index(batch.operator.name()),
                "The shape of the mask {:?} at index {dim} does not match the shape of the indexed tensor {sizes:?}",
                index.sizes()
            );
            let positions = ops::nonzero(index)?;
            for column in 0..index.dim() {
                tensors.push((dim, ops::select_int(&positions, 1, column as i64)?));
                dim += 1;
            }
        }
        let rank = tensors.iter().map(|(_, index)| index.dim()).max().unwrap_or(0);
        Ok(Some(Indices { tensors, rank }))
    }

    /// The first dimension that is indexed, if those that are follow one another: there the dimensions of the indices appear in the
    /// result. Otherwise they are its first.
    fn start(&self) -> usize {
        let is_joined = self.tensors.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1);
        if is_joined { self.tensors.first().map_or(0, |(dim, _)| *dim) } else { 0 }
    }

    fn are_joined_or_first(&self) -> bool {
        self.tensors.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1)
    }

    /// The indices of all examples, aligned.
    fn aligned(&self, batch: &Batch<'_>) -> Result<Vec<Tensor>> {
        self.tensors.iter().map(|(_, index)| with_rank(batch, index, self.rank)).collect()
    }

    /// The number of each example, to index the batch by.
    fn examples(&self, batch: &Batch<'_>) -> Result<Tensor> {
        let device = self.tensors.first().map(|(_, index)| index.device());
        let numbers = ops::arange(Scalar::Int(batch.size()), Some(ScalarType::I64), None, device, None)?;
        let mut sizes = vec![1; self.rank + 1];
        sizes[0] = batch.size();
        ops::view(&numbers, &sizes)
    }

    /// The sizes that the indices of an example broadcast to.
    fn sizes(&self, batch: &Batch<'_>) -> Result<Vec<i64>> {
        let mut sizes = vec![1; self.rank];
        for (_, index) in &self.tensors {
            let offset = self.rank - index.dim();
            for (size, own) in sizes[offset..].iter_mut().zip(index.sizes()) {
                ensure!(
                    *size == *own || *size == 1 || *own == 1,
                    Index(batch.operator.name()),
                    "shape mismatch: indexing tensors could not be broadcast together"
                );
                if *size == 1 {
                    *size = *own;
                }
            }
        }
        Ok(sizes)
    }

    /// The dimensions of `rank` that are not indexed.
    fn others(&self, rank: usize) -> Vec<usize> {
        (0..rank).filter(|dim| !self.tensors.iter().any(|(indexed, _)| indexed == dim)).collect()
    }
}

/// The list of indices of an operator, where `before` stands for the batch.
fn list(before: Option<Tensor>, dims: &[usize], aligned: Vec<Tensor>) -> Vec<Option<Tensor>> {
    let last = dims.last().copied().unwrap_or(0);
    let mut list = vec![None; last + 1];
    for (dim, index) in dims.iter().zip(aligned) {
        list[*dim] = Some(index);
    }
    list.insert(0, before);
    list
}

pub(super) fn index(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, given) = (batch.tensor(0)?, batch.optional_tensors(1)?);
    let Some(indices) = Indices::of(batch, &given, tensor.sizes())? else { return by_mask(batch) };
    if indices.tensors.is_empty() {
        return loops::examples(batch);
    }
    let dims: Vec<usize> = indices.tensors.iter().map(|(dim, _)| *dim).collect();
    let (value, is_batched) = batch.front(tensor)?;
    let aligned = indices.aligned(batch)?;
    let is_indexed = indices.tensors.iter().any(|(_, index)| batch.is_batched(index));
    let (result, dim) = match (is_batched, is_indexed) {
        (true, true) => {
            let all = list(Some(indices.examples(batch)?), &dims, aligned);
            let result = ops::index_tensor(&value, &all)?;
            (restored(&indices, &result, dims.first() == Some(&0))?, 0)
        }
        (true, false) => {
            let result = ops::index_tensor(&value, &list(None, &dims, aligned))?;
            (result, if indices.are_joined_or_first() { 0 } else { indices.rank })
        }
        (false, _) => {
            let mut all = list(None, &dims, aligned);
            all.remove(0);
            (ops::index_tensor(&value, &all)?, indices.start())
        }
    };
    Ok(one(batch.wrap(&result, dim as i64)?))
}

/// Moves the dimensions of the indices, which follow the batch, to where they are in the result of an example.
fn restored(indices: &Indices, result: &Tensor, is_first: bool) -> Result<Tensor> {
    let start = indices.start();
    if start == 0 || (is_first && indices.are_joined_or_first()) {
        return Ok(result.clone());
    }
    let (rank, others) = (indices.rank as i64, start as i64);
    let order = (0..1).chain(1 + rank..1 + rank + others).chain(1..1 + rank);
    ops::permute(result, &order.chain(1 + rank + others..result.dim() as i64).collect::<Vec<_>>())
}

/// Masks that differ between examples.
fn by_mask(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let given = batch.optional_tensors(1)?;
    let is_mask = |index: &Tensor| matches!(index.dtype(), ScalarType::Bool | ScalarType::U8);
    if given.iter().flatten().any(|index| is_mask(index) && index.dim() > 0 && batch.is_batched(index)) {
        bail!(
            NotImplemented(batch.operator.name()),
            "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a \
             boolean mask."
        );
    }
    loops::call(batch)
}

/// The elements where a mask is true that all examples share.
pub(super) fn masked_select(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, mask) = (batch.tensor(0)?, batch.tensor(1)?);
    if batch.is_batched(mask) {
        bail!(
            NotImplemented("masked_select", "mask"),
            "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each batch this \
             would return a differently shaped Tensor."
        );
    }
    let rank = tensor.dim().max(mask.dim());
    let both = ops::broadcast_tensors(&[with_rank(batch, tensor, rank)?, mask.clone()])?;
    let [elements, mask] = &both[..] else { return loops::call(batch) };
    let count = elements.sizes().iter().skip(1).product();
    let elements = ops::reshape(elements, &batch.sizes(&[count]))?;
    let of_one = ops::reshape(&ops::select_int(mask, 0, 0)?, &[count])?;
    let positions = ops::select_int(&ops::nonzero(&of_one)?, 1, 0)?;
    Ok(one(batch.wrap(&ops::index_select(&elements, 1, &positions)?, 0)?))
}

/// The operands of a write: the tensor with the indexed dimensions after the batch, the order of its dimensions, the indices, and the
/// values.
struct Write {
    target: Tensor,
    order: Vec<i64>,
    indices: Vec<Option<Tensor>>,
    values: Tensor,
}

fn write(batch: &Batch<'_>) -> Result<Option<Write>> {
    let (tensor, given, values) = (batch.tensor(0)?, batch.optional_tensors(1)?, batch.tensor(2)?);
    let Some(indices) = Indices::of(batch, &given, tensor.sizes())? else { return Ok(None) };
    if indices.tensors.is_empty() {
        return Ok(None);
    }
    let others = indices.others(tensor.dim());
    let indexed = indices.tensors.iter().map(|(dim, _)| *dim);
    let order: Vec<i64> =
        [0].into_iter().chain(indexed.chain(others.iter().copied()).map(|dim| dim as i64 + 1)).collect();
    ensure!(
        order.len() == tensor.dim() + 1,
        Index(batch.operator.name()),
        "too many indices for tensor of dimension {}",
        tensor.dim()
    );
    let target = ops::permute(&batch.full(tensor)?, &order)?;
    let mut list = vec![Some(indices.examples(batch)?)];
    list.extend(indices.aligned(batch)?.into_iter().map(Some));
    let values = values_of(batch, &indices, values, (tensor.sizes(), &others))?;
    Ok(Some(Write { target, order, indices: list, values }))
}

/// The values with the dimensions of the indices after the batch.
fn values_of(
    batch: &Batch<'_>,
    indices: &Indices,
    values: &Tensor,
    (sizes, others): (&[i64], &[usize]),
) -> Result<Tensor> {
    let start = indices.start();
    let other = |dim: &usize| sizes.get(*dim).copied().unwrap_or(1);
    let (before, after) = others.split_at(start.min(others.len()));
    let own = indices.sizes(batch)?;
    let whole: Vec<i64> = before.iter().map(other).chain(own).chain(after.iter().map(other)).collect();
    let (value, is_batched) = (with_rank(batch, values, whole.len())?, batch.is_batched(values));
    if value.dim() > whole.len() + usize::from(is_batched) {
        bail!(
            Shape(batch.operator.name()),
            "shape mismatch: value tensor of shape {:?} cannot be broadcast to indexing result of shape {whole:?}",
            values.sizes()
        );
    }
    let expanded = if is_batched { batch.sizes(&whole) } else { whole.clone() };
    let value = ops::expand(&value, &expanded, false)?;
    let shift = i64::from(is_batched);
    let (start, rank) = (start as i64, indices.rank as i64);
    let order = (start..start + rank).chain(0..start).chain(start + rank..whole.len() as i64);
    let order: Vec<i64> = (0..shift).chain(order.map(|dim| dim + shift)).collect();
    ops::permute(&value, &order)
}

pub(super) fn index_put(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let Some(write) = write(batch)? else { return by_mask(batch) };
    let written = ops::index_put(&write.target, &write.indices, &write.values, batch.flag(3)?)?;
    let mut inverse = vec![0; write.order.len()];
    for (at, dim) in write.order.iter().enumerate() {
        inverse[*dim as usize] = at as i64;
    }
    Ok(one(batch.wrap(&ops::permute(&written, &inverse)?, 0)?))
}

pub(super) fn index_put_in_place(batch: &Batch<'_>) -> Result<Vec<Value>> {
    batch.ensure_self_is_batched()?;
    let Some(write) = write(batch)? else { return masked_in_place(batch) };
    ops::index_put_(&write.target, &write.indices, &write.values, batch.flag(3)?)?;
    Ok(vec![])
}

/// `x[mask] = value` with a mask for each example, of all dimensions, and one value: no sizes depend on the mask.
fn masked_in_place(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, given, value) = (batch.tensor(0)?, batch.optional_tensors(1)?, batch.tensor(2)?);
    match &given[..] {
        [Some(mask)]
            if mask.dtype() == ScalarType::Bool
                && mask.dim() > 0
                && tensor.sizes().starts_with(mask.sizes())
                && value.numel() == 1
                && !batch.flag(3)? =>
        {
            let (own, rank) = (batch.full(tensor)?, tensor.dim());
            let mut sizes = batch.sizes(mask.sizes());
            sizes.extend(vec![1; rank - mask.dim()]);
            let mask = ops::reshape(&batch.full(mask)?, &sizes)?;
            let value = batch.full(value)?;
            let value = ops::reshape(&value, &batch.sizes(&vec![1; rank]))?;
            let value = ops::to_dtype(&value, own.dtype(), false, false, None)?;
            ops::copy_(&own, &ops::where_self(&mask, &value, &own)?, false)?;
            Ok(vec![])
        }
        _ => by_mask(batch),
    }
}
