//! Batched tensors of several levels: the tensor below all wrappers, and how gradients and tangents are arranged like it.

use super::level::{Level, levels, open_level};
use super::wrapper::{is_batched, parts, wrap_ordered};
use crate::{Tensor, ops};
use flambeau_core::{Result, bail};

/// One of the wrappers of a batched tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// The dimension of the tensor inside that is the batch.
    pub dim: usize,
    /// The number of the level.
    pub level: u64,
}

/// The tensor below all wrappers, which has history and tangents. The tensor itself if it is not batched.
pub fn innermost(tensor: &Tensor) -> &Tensor {
    parts(tensor).map_or(tensor, |found| innermost(found.value))
}

/// The wrappers of a tensor, outermost first, that is those of higher levels first.
pub fn wrappers(tensor: &Tensor) -> Vec<Wrapper> {
    let mut found = Vec::new();
    let mut tensor = tensor;
    while let Some(inside) = parts(tensor) {
        found.push(Wrapper { dim: inside.dim, level: inside.level });
        tensor = inside.value;
    }
    found
}

/// `tensor`, which has the sizes of a batched tensor with these wrappers, with the dimensions of the tensor below them. Where it is not
/// batched at one of the levels, it is expanded. It stays batched at other levels.
///
/// # Errors
/// Those of `expand` and `movedim`, and `InvalidArgument` where a level is closed.
pub fn physical_like(tensor: &Tensor, wrappers: &[Wrapper]) -> Result<Tensor> {
    let mut tensor = tensor.clone();
    for wrapper in wrappers {
        let size = open_level(wrapper.level)?.size;
        tensor = ops::movedim_int(&leading(&tensor, wrapper.level, size)?, 0, wrapper.dim as i64)?;
    }
    Ok(tensor)
}

/// A batched tensor with all batches as its first dimensions, and the wrappers with which [`rewrap`] makes it batched again. A tensor
/// that is not batched as it is.
///
/// # Errors
/// As [`physical_like`].
pub fn with_batches_in_front(tensor: &Tensor) -> Result<(Tensor, Vec<Wrapper>)> {
    let in_front = |wrapper: Wrapper| Wrapper { dim: 0, ..wrapper };
    let wrappers: Vec<Wrapper> = wrappers(tensor).into_iter().map(in_front).collect();
    Ok((physical_like(tensor, &wrappers)?, wrappers))
}

/// The tensor with its batch of level `id` as a first dimension.
fn leading(tensor: &Tensor, id: u64, size: i64) -> Result<Tensor> {
    match parts(tensor) {
        Some(found) if found.level > id => {
            let inside = leading(found.value, id, size)?;
            wrap_ordered(&inside, found.dim + 1, found.level)
        }
        Some(found) if found.level == id => ops::movedim_int(found.value, found.dim as i64, 0),
        _ => {
            let sizes: Vec<i64> = [size].iter().chain(tensor.sizes()).copied().collect();
            ops::expand(&ops::unsqueeze(tensor, 0)?, &sizes, false)
        }
    }
}

/// A tensor with the dimensions of the tensor below `wrappers`, wrapped as that one is.
///
/// # Errors
/// Those of wrapping.
pub fn rewrap(tensor: &Tensor, wrappers: &[Wrapper]) -> Result<Tensor> {
    let mut tensor = tensor.clone();
    for wrapper in wrappers.iter().rev() {
        tensor = wrap_ordered(&tensor, wrapper.dim, wrapper.level)?;
    }
    Ok(tensor)
}

/// The tensor, batched at every level that is open on this thread: where it is not, all examples of the level share its elements. A
/// function of one example that is differentiated by it then has a gradient for each example. At levels of tangents the examples of what
/// is differentiated do not differ, so that it stays as it is there.
///
/// # Errors
/// Those of `expand`.
pub fn batched_at_all_levels(tensor: &Tensor) -> Result<Tensor> {
    let mut open = levels();
    if open.iter().any(|level| level.is_of_tangents) {
        let own = wrappers(tensor);
        open.retain(|level| !level.is_of_tangents || own.iter().any(|wrapper| wrapper.level == level.id));
    }
    if open.is_empty() {
        return Ok(tensor.clone());
    }
    at_levels(tensor, &open)
}

fn at_levels(tensor: &Tensor, levels: &[Level]) -> Result<Tensor> {
    let Some((last, outer)) = levels.split_last() else {
        if is_batched(tensor) {
            bail!(
                InvalidArgument("vmap"),
                "a batched tensor was used outside of the function that vmap called"
            );
        }
        return Ok(tensor.clone());
    };
    if let Some(found) = parts(tensor).filter(|found| found.level == last.id) {
        // The inner tensor has one dimension more, which is hidden here and not there.
        let inside = at_levels(found.value, outer)?;
        return wrap_ordered(&inside, found.dim, found.level);
    }
    let inside = at_levels(tensor, outer)?;
    wrap_ordered(&leading(&inside, last.id, last.size)?, 0, last.id)
}
