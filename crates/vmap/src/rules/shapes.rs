//! Views, padding and new tensors: operators that take sizes or other lists with an entry for each dimension.

use crate::batch::{Batch, one};
use crate::kinds::{dims, front, loops};
use flambeau_core::{Result, bail, ensure, shape};
use flambeau_ops::dispatch::Value;
use flambeau_ops::{Tensor, ops};

pub(super) fn expand(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, sizes) = (batch.tensor(0)?, batch.ints(1)?);
    let Some(added) = sizes.len().checked_sub(tensor.dim()) else {
        bail!(
            Shape("expand"),
            "the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            sizes.len(),
            tensor.dim()
        )
    };
    ensure!(
        sizes[..added].iter().all(|size| *size >= 0),
        Shape("expand"),
        "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0"
    );
    let value = crate::kinds::pointwise::with_rank(batch, tensor, sizes.len())?;
    Ok(one(batch.wrap(&ops::expand(&value, &batch.sizes(sizes), batch.flag(2)?)?, 0)?))
}

pub(super) fn permute(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, dims) = (batch.tensor(0)?, batch.ints(1)?);
    let mut order = vec![0];
    for dim in dims {
        order.push(shape::wrap_dim(*dim, tensor.dim())? as i64 + 1);
    }
    Ok(one(batch.wrap(&ops::permute(&batch.front(tensor)?.0, &order)?, 0)?))
}

pub(super) fn view(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (value, _) = batch.front(batch.tensor(0)?)?;
    Ok(one(batch.wrap(&ops::view(&value, &batch.sizes(batch.ints(1)?))?, 0)?))
}

pub(super) fn repeat(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, repeats) = (batch.tensor(0)?, batch.ints(1)?);
    ensure!(
        repeats.len() >= tensor.dim(),
        Shape("repeat"),
        "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
    );
    let value = crate::kinds::pointwise::with_rank(batch, tensor, repeats.len())?;
    let repeats: Vec<i64> = [1].iter().chain(repeats).copied().collect();
    Ok(one(batch.wrap(&ops::repeat(&value, &repeats)?, 0)?))
}

/// All dimensions of an example that have size 1.
pub(super) fn squeeze(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let tensor = batch.tensor(0)?;
    let sizes = tensor.sizes().iter().enumerate();
    let dims: Vec<i64> = sizes.filter(|(_, size)| **size == 1).map(|(dim, _)| dim as i64 + 1).collect();
    let (value, _) = batch.front(tensor)?;
    Ok(one(batch.wrap(&ops::squeeze_dims(&value, &dims)?, 0)?))
}

/// Without dimensions the elements are rolled as those of one dimension.
pub(super) fn roll(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, shifts) = (batch.tensor(0)?, batch.ints(1)?);
    if !batch.ints(2)?.is_empty() {
        return dims::call(batch);
    }
    let flat = crate::kinds::reduction::flat(batch, tensor)?;
    let rolled = ops::roll(&flat, shifts, &vec![1; shifts.len()])?;
    Ok(one(batch.wrap(&ops::reshape(&rolled, &batch.sizes(tensor.sizes()))?, 0)?))
}

/// `cat` takes tensors of size `[0]` among others, and skips them.
pub(super) fn cat(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let Some(Value::Tensors(tensors)) = batch.arguments.first() else { return dims::call(batch) };
    let rank = tensors.iter().map(Tensor::dim).max().unwrap_or(0);
    let is_skipped = |tensor: &Tensor| rank > 1 && tensor.sizes() == [0];
    if !tensors.iter().any(is_skipped) {
        return dims::call(batch);
    }
    let kept = tensors.iter().filter(|tensor| !is_skipped(tensor)).map(|tensor| batch.full(tensor));
    let dim = shape::wrap_dim(batch.int(1)?, rank)? as i64 + 1;
    Ok(one(batch.wrap(&ops::cat(&kept.collect::<Result<Vec<_>>>()?, dim)?, 0)?))
}

pub(super) fn constant_pad_nd(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, pad) = (batch.tensor(0)?, batch.ints(1)?);
    ensure!(
        pad.len() <= 2 * tensor.dim(),
        InvalidArgument("constant_pad_nd", "pad"),
        "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the input has \
         {} dimensions.",
        pad.len(),
        tensor.dim()
    );
    front::call(batch)
}

/// `fill` with a tensor without dimensions, which may be batched.
pub(super) fn fill(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let (tensor, value) = (batch.tensor(0)?, batch.tensor(1)?);
    ensure!(
        value.dim() == 0,
        Shape("fill"),
        "fill only supports 0-dimension value tensor but got tensor with {} dimensions.",
        value.dim()
    );
    let own = batch.full(tensor)?;
    let filled = ops::empty_like(&own, None, None, None, None, None)?;
    ops::copy_(&filled, &crate::kinds::pointwise::with_rank(batch, value, tensor.dim())?, false)?;
    Ok(one(batch.wrap(&filled, 0)?))
}

/// The value of `masked_fill` with the dimensions of a batch, and the other operands aligned with it.
fn filled(batch: &Batch<'_>) -> Result<[Tensor; 3]> {
    let (tensor, mask, value) = (batch.tensor(0)?, batch.tensor(1)?, batch.tensor(2)?);
    ensure!(
        value.dim() == 0,
        Shape(batch.operator.name()),
        "masked_fill only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
        value.dim()
    );
    let rank = tensor.dim().max(mask.dim());
    let aligned = |tensor: &Tensor| crate::kinds::pointwise::with_rank(batch, tensor, rank);
    let value = ops::to_dtype(&aligned(value)?, tensor.dtype(), false, false, None)?;
    Ok([aligned(tensor)?, aligned(mask)?, value])
}

pub(super) fn masked_fill(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let [own, mask, value] = filled(batch)?;
    Ok(one(batch.wrap(&ops::where_self(&mask, &value, &own)?, 0)?))
}

pub(super) fn masked_fill_in_place(batch: &Batch<'_>) -> Result<Vec<Value>> {
    batch.ensure_self_is_batched()?;
    let [own, mask, value] = filled(batch)?;
    ops::copy_(&own, &ops::where_self(&mask, &value, &own)?, false)?;
    Ok(vec![])
}

/// `new_zeros` and its like: the result is batched, so that it can be written in place.
pub(super) fn new_tensor(batch: &Batch<'_>) -> Result<Vec<Value>> {
    let mut arguments = batch.with_tensors(|tensor| batch.full(tensor))?;
    match arguments.get_mut(1) {
        Some(Value::Ints(sizes)) => *sizes = batch.sizes(sizes),
        _ => return loops::examples(batch),
    }
    batch.wrap_all(batch.call(&arguments)?)
}
