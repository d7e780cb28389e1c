//! The node of looking at the memory of a tensor in another way, and its formula.

use crate::graph::gradients::Gradients;
use crate::graph::node::Context;
use crate::graph::operator::Backward;
use crate::handle;
use flambeau_core::{DimVec, Geometry, Result, Scalar, ScalarType, shape};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// The derivative of looking at the memory of a tensor of geometry `base` as `view`.
#[derive(Clone)]
pub(crate) struct AsStrided {
    pub(crate) base: Geometry,
    pub(crate) view: Geometry,
}

impl Backward for AsStrided {
    const NAME: &'static str = "AsStridedBackward0";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let grad = grads[0].as_ref().map(|grad| scatter_strided(grad, &self.base, &self.view));
        Ok(smallvec![grad.transpose()?])
    }
}

/// Scatters the gradient of a view of geometry `view` into zeros of geometry `base`.
///
/// Works in a piece of memory that covers both: the gradient is summed over dimensions that repeat an element (stride 0),
/// copied to where the view lies, and read as the base lies.
pub(crate) fn scatter_strided(grad: &Tensor, base: &Geometry, view: &Geometry) -> Result<Tensor> {
    let (grad, view) = sum_repeated(grad, view)?;
    let start = base.storage_offset().min(view.storage_offset());
    let end = |g: &Geometry| -> Result<i64> {
        let extent = shape::extent(g.sizes(), g.strides())?;
        Ok(g.storage_offset() - start + extent.map_or(0, |last| last + 1))
    };
    let memory = handle::zeros(&[end(base)?.max(end(&view)?)], &grad)?;
    let overlaps = |g: &Geometry| shape::has_internal_overlap(g.sizes(), g.strides());
    if overlaps(base) || overlaps(&view) {
        return scatter_overlapping(&grad, &memory, start, base, &view);
    }
    let place =
        |g: &Geometry| ops::as_strided(&memory, g.sizes(), g.strides(), Some(g.storage_offset() - start));
    ops::copy_(&place(&view)?, &grad, false)?;
    place(base)
}

/// The same where elements overlap: what meets in one place of `memory` is added up, and what a base reads several times is
/// shared out among its elements, as in PyTorch.
fn scatter_overlapping(
    grad: &Tensor,
    memory: &Tensor,
    start: i64,
    base: &Geometry,
    view: &Geometry,
) -> Result<Tensor> {
    let numbers =
        ops::arange(Scalar::Int(memory.numel()), Some(ScalarType::I64), None, Some(grad.device()), None)?;
    let places = |g: &Geometry| {
        let seen = ops::as_strided(&numbers, g.sizes(), g.strides(), Some(g.storage_offset() - start))?;
        ops::reshape(&seen, &[-1])
    };
    let add = |at: &Tensor, values: &Tensor| ops::index_add(memory, 0, at, values, Scalar::Int(1));
    let own = places(base)?;
    let ones = ops::ones_like(&own, Some(grad.dtype()), None, None, None, None)?;
    let readers = ops::clamp_min(&add(&own, &ones)?, Scalar::Int(1))?;
    let met = ops::div_tensor(&add(&places(view)?, &ops::reshape(grad, &[-1])?)?, &readers)?;
    ops::reshape(&ops::index_select(&met, 0, &own)?, base.sizes())
}

/// Dimensions of stride 0 summed away, in the gradient and in the geometry.
fn sum_repeated(grad: &Tensor, view: &Geometry) -> Result<(Tensor, Geometry)> {
    let repeats = |d: &usize| view.strides()[*d] == 0 && view.sizes()[*d] != 1;
    let dims: DimVec = (0..view.dim()).filter(repeats).map(|d| d as i64).collect();
    if dims.is_empty() {
        return Ok((grad.clone(), view.clone()));
    }
    let mut sizes = DimVec::from_slice(view.sizes());
    dims.iter().for_each(|d| sizes[*d as usize] = 1);
    let summed = ops::sum_dim_intlist(grad, Some(&dims), true, None)?;
    Ok((summed, Geometry::strided(&sizes, view.strides(), view.storage_offset())?))
}
