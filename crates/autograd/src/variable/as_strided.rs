//! The node of `as_strided`, and its derivative formula.

use crate::graph::gradients::Gradients;
use crate::graph::node::Context;
use crate::graph::operator::Backward;
use crate::{batched, factory};
use flambeau_core::{DimVec, Geometry, MemoryFormat, Result, Scalar, ScalarType, shape};
use flambeau_ops::batched::is_batched;
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// The derivative of viewing a tensor of geometry `base` with geometry `view`. One of the two may count complex numbers and the other their
/// parts.
#[derive(Clone)]
pub(crate) struct AsStrided {
    pub(crate) base: Geometry,
    pub(crate) base_is_complex: bool,
    pub(crate) view: Geometry,
}

/// A geometry of complex numbers as one of their parts, which are a last dimension.
pub(crate) fn in_parts(g: &Geometry) -> Result<Geometry> {
    let (mut sizes, mut strides) = (DimVec::from_slice(g.sizes()), DimVec::from_slice(g.strides()));
    strides.iter_mut().for_each(|stride| *stride *= 2);
    sizes.push(2);
    strides.push(1);
    Geometry::strided(&sizes, &strides, 2 * g.storage_offset())
}

fn scatter_view(grad: &Tensor, node: &AsStrided) -> Result<Tensor> {
    let dense = |t: &Tensor| ops::contiguous(t, MemoryFormat::Contiguous);
    match (node.base_is_complex, grad.is_complex()) {
        (true, false) => {
            let parts = scatter_strided(grad, &in_parts(&node.base)?, &node.view)?;
            ops::view_as_complex(&dense(&parts)?)
        }
        (false, true) => scatter_strided(&ops::view_as_real(grad)?, &node.base, &in_parts(&node.view)?),
        _ => scatter_strided(grad, &node.base, &node.view),
    }
}

impl Backward for AsStrided {
    const NAME: &'static str = "AsStridedBackward0";
    const SAVES: bool = false;

    fn backward(&self, _: &Context<'_>, grads: &Gradients) -> Result<Gradients> {
        let grad = grads[0].as_ref().map(|grad| scatter_view(grad, self));
        Ok(smallvec![grad.transpose()?])
    }
}

/// Scatters the gradient of a view of geometry `view` into zeros of geometry `base`.
///
/// Allocates memory that covers both. The gradient is summed over dimensions that repeat an element (stride 0), copied or added to this
/// memory with the strides of the view, and read with the strides of the base.
pub(crate) fn scatter_strided(grad: &Tensor, base: &Geometry, view: &Geometry) -> Result<Tensor> {
    if is_batched(grad) {
        return batched::each(grad, |grad| scatter_strided(grad, base, view));
    }
    let (grad, view) = sum_repeated(grad, view)?;
    let start = base.storage_offset().min(view.storage_offset());
    let end = |g: &Geometry| -> Result<i64> {
        let extent = shape::extent(g.sizes(), g.strides())?;
        Ok(g.storage_offset() - start + extent.map_or(0, |last| last + 1))
    };
    let memory = factory::zeros(&[end(base)?.max(end(&view)?)], &grad)?;
    let overlaps = |g: &Geometry| shape::has_internal_overlap(g.sizes(), g.strides());
    // In half precision many additions would round each: `index_add` adds in f32.
    let rounds_once = |added: &DimVec| added.is_empty() || !grad.dtype().is_reduced_floating_point();
    let added = if overlaps(base) { None } else { dims_to_add(&view).filter(rounds_once) };
    let Some(added) = added else {
        return scatter_overlapping(&grad, &memory, start, base, &view);
    };
    let part =
        |g: &Geometry| ops::as_strided(&memory, g.sizes(), g.strides(), Some(g.storage_offset() - start));
    if added.is_empty() {
        ops::copy_(&part(&view)?, &grad, false)?;
    } else {
        add_slices(&grad, &view, &added, &|g, slice| ops::add__tensor(&part(g)?, slice, Scalar::Int(1)))?;
    }
    part(base)
}

/// Slices of a gradient that are worth an addition each: so few, or of so many elements.
const FEW_SLICES: i64 = 8;
const MIN_SLICE: i64 = 1024;

/// Dimensions, last first, whose slices do not overlap themselves, so that their gradients are added slice by slice; none if the view
/// does not overlap at all, and `None` if slices are too small.
fn dims_to_add(view: &Geometry) -> Option<DimVec> {
    let (mut sizes, mut added) = (DimVec::from_slice(view.sizes()), DimVec::new());
    let mut slices = 1i64;
    while shape::has_internal_overlap(&sizes, view.strides()) {
        let smallest =
            (0..sizes.len()).filter(|d| sizes[*d] > 1).min_by_key(|d| (sizes[*d], view.strides()[*d]))?;
        slices = slices.saturating_mul(sizes[smallest]);
        sizes[smallest] = 1;
        if slices > FEW_SLICES && view.numel() / slices < MIN_SLICE {
            return None;
        }
        added.push(smallest as i64);
    }
    added.sort_unstable_by(|a, b| b.cmp(a));
    Some(added)
}

/// Calls `add` with the geometry and the gradient of each slice of the dimensions, which are sorted, last first. The last slice of a
/// dimension comes first: of two dimensions, gradients of one element are then added in the order of the view.
fn add_slices(
    grad: &Tensor,
    view: &Geometry,
    dims: &[i64],
    add: &dyn Fn(&Geometry, &Tensor) -> Result<()>,
) -> Result<()> {
    let Some((&dim, dims)) = dims.split_first() else { return add(view, grad) };
    let d = dim as usize;
    let without =
        |of: &[i64]| -> DimVec { of.iter().enumerate().filter(|(e, _)| *e != d).map(|(_, n)| *n).collect() };
    let (sizes, strides) = (without(view.sizes()), without(view.strides()));
    for index in (0..view.sizes()[d]).rev() {
        let offset = view.storage_offset() + index * view.strides()[d];
        let slice = Geometry::strided(&sizes, &strides, offset)?;
        add_slices(&ops::select_int(grad, dim, index)?, &slice, dims, add)?;
    }
    Ok(())
}

/// The same where elements overlap, as in PyTorch: gradients of elements of the view with the same offset are summed, and a sum is
/// divided equally among the elements of the base with that offset.
fn scatter_overlapping(
    grad: &Tensor,
    memory: &Tensor,
    start: i64,
    base: &Geometry,
    view: &Geometry,
) -> Result<Tensor> {
    let numbers =
        ops::arange(Scalar::Int(memory.numel()), Some(ScalarType::I64), None, Some(grad.device()), None)?;
    let offsets = |g: &Geometry| {
        let seen = ops::as_strided(&numbers, g.sizes(), g.strides(), Some(g.storage_offset() - start))?;
        ops::reshape(&seen, &[-1])
    };
    let add = |at: &Tensor, values: &Tensor| ops::index_add(memory, 0, at, values, Scalar::Int(1));
    let of_base = offsets(base)?;
    let ones = ops::ones_like(&of_base, Some(grad.dtype()), None, None, None, None)?;
    let counts = ops::clamp_min(&add(&of_base, &ones)?, Scalar::Int(1))?;
    let shares = ops::div_tensor(&add(&offsets(view)?, &ops::reshape(grad, &[-1])?)?, &counts)?;
    ops::reshape(&ops::index_select(&shares, 0, &of_base)?, base.sizes())
}

/// Sums the gradient over dimensions of stride 0, which the geometry then has with size 1.
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
