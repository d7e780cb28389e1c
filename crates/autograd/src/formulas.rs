//! Derivatives that are more than a line; formulas in `derivatives.yaml` may call them.

mod attention;
mod lists;
mod losses;
mod normalizations;
mod pointwise;
mod products;
mod reductions;
mod scatters;
mod tangents;

pub use attention::{tiled_attention_bias_backward, tiled_attention_double_backward};
pub use lists::{
    cat_backward, constant_pad_backward, embedding_double_backward, index_backward, masked_select_backward,
    repeat_backward, roll_backward, split_backward, split_with_sizes_backward, take_backward,
    unbind_backward,
};
pub use losses::{
    binary_cross_entropy_double_backward, binary_cross_entropy_double_backward_target,
    binary_cross_entropy_target_backward, binary_cross_entropy_with_logits_backward,
    binary_cross_entropy_with_logits_target_backward, reduced_grad,
};
pub use normalizations::{
    batch_norm_double_backward, group_norm_double_backward, layer_norm_double_backward,
    rms_norm_double_backward,
};
pub use pointwise::{logit_backward, prelu_double_backward};
pub use products::{mm_in_layout, sum_of_rows};
pub use reductions::{
    aminmax_backward, cummaxmin_backward, cumprod_backward, cumsum_backward, evenly_distribute_backward,
    extreme_backward, linear_recurrence_backward, logcumsumexp_backward, logcumsumexp_tangent, norm_backward,
    prod_backward, std_backward, std_mean_backward, var_backward, var_mean_backward,
};
pub use scatters::{scatter_reduce_backward, scatter_source_backward};
pub use tangents::{along_channels, as_strided_tangent, scaled, scaled_along_channels, selected_tangent};

use crate::engine::Context;
use crate::handle;
use crate::node::{Backward, Gradients, OutputInfo};
use flambeau_core::{DimVec, Geometry, Result, Scalar, ScalarType, ensure, shape};
use flambeau_ops::{Tensor, ops};
use smallvec::smallvec;

/// A tensor of zeros, with the type and device of `like`.
pub(crate) fn zeros(sizes: &[i64], like: &Tensor) -> Result<Tensor> {
    let made = handle::empty(sizes, like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    Ok(made)
}

/// Zeros for the gradient of an output that nobody computed.
pub(crate) fn zeros_of(info: &OutputInfo) -> Result<Tensor> {
    let made = handle::empty(&info.sizes, info.dtype, info.device)?;
    ops::fill__scalar(&made, Scalar::Int(0))?;
    Ok(made)
}

/// A tensor of ones, shaped and laid out like `like`: the gradient a scalar begins with.
pub(crate) fn ones_like(like: &Tensor) -> Result<Tensor> {
    match like.dtype() {
        ScalarType::F32 if is_one_number(like) => return handle::of_bytes(like, &1f32.to_ne_bytes()),
        ScalarType::F64 if is_one_number(like) => return handle::of_bytes(like, &1f64.to_ne_bytes()),
        _ => {}
    }
    let made = handle::empty(like.sizes(), like.dtype(), like.device())?;
    ops::fill__scalar(&made, Scalar::Int(1))?;
    Ok(made)
}

fn is_one_number(tensor: &Tensor) -> bool {
    tensor.numel() == 1 && tensor.device().is_cpu()
}

/// `tensor` as elements of `dtype`.
pub(crate) fn to_dtype(tensor: &Tensor, dtype: ScalarType) -> Result<Tensor> {
    let made = handle::empty(tensor.sizes(), dtype, tensor.device())?;
    ops::copy_(&made, tensor, false)?;
    Ok(made)
}

/// The sum over the dimensions in which `sizes` was broadcast to the sizes of `tensor`.
///
/// # Errors
/// `Shape` where it does not broadcast to them.
pub fn sum_to_size(tensor: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    if tensor.sizes() == sizes {
        return Ok(tensor.clone());
    }
    let broadcasts =
        shape::broadcast(sizes, tensor.sizes()).is_ok_and(|all| all.as_slice() == tensor.sizes());
    ensure!(
        broadcasts,
        Shape,
        "size {sizes:?} is not expandable to size {:?}; cannot sum the one to the other",
        tensor.sizes()
    );
    let leading = tensor.dim() - sizes.len();
    let is_broadcast = |d: &usize| *d < leading || sizes[*d - leading] != tensor.sizes()[*d];
    let dims: DimVec = (0..tensor.dim()).filter(is_broadcast).map(|d| d as i64).collect();
    let summed = ops::sum_dim_intlist(tensor, Some(&dims), true, None)?;
    if leading == 0 { Ok(summed) } else { ops::reshape(&summed, sizes) }
}

/// `tensor * factor`, or the tensor itself for 1.
pub fn maybe_multiply(tensor: &Tensor, factor: Scalar) -> Result<Tensor> {
    if factor == Scalar::Int(1) {
        return Ok(tensor.clone());
    }
    ops::mul_tensor(tensor, &Tensor::wrapped_number(factor)?)
}

/// The gradient of a sum over `dim` (all dimensions where there are none) of a tensor of `sizes`.
pub fn sum_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let dims = dim.unwrap_or(&[]);
    if keepdim || dims.is_empty() || sizes.is_empty() {
        return ops::expand(grad, sizes, false);
    }
    let mut kept = DimVec::from_slice(sizes);
    for dim in dims {
        kept[shape::wrap_dim(*dim, sizes.len())?] = 1;
    }
    ops::expand(&ops::reshape(grad, &kept)?, sizes, false)
}

/// What `native_dropout` multiplies the elements that stay with.
///
/// # Errors
/// None; formulas are all of one form.
pub fn dropout_scale(p: f64, train: Option<bool>) -> Result<f64> {
    Ok(match train {
        Some(false) => 1.0,
        _ if p == 1.0 => 0.0,
        _ => 1.0 / (1.0 - p),
    })
}

/// The gradient of a mean over `dim` (all dimensions where there are none) of a tensor of `sizes`.
pub fn mean_backward(grad: &Tensor, sizes: &[i64], dim: Option<&[i64]>, keepdim: bool) -> Result<Tensor> {
    let spread = sum_backward(grad, sizes, dim, keepdim)?;
    let count = shape::numel(sizes)? as f64 / (grad.numel() as f64).max(1.0);
    ops::mul_scalar(&spread, Scalar::Float(1.0 / count))
}

/// A tensor that was reduced over `dim` (all dimensions where there are none) from `sizes`, with those dimensions back as
/// ones of size 1.
pub fn restored_dims(tensor: &Tensor, sizes: &[i64], dim: &[i64], keepdim: bool) -> Result<Tensor> {
    if keepdim || sizes.is_empty() {
        return Ok(tensor.clone());
    }
    let mut kept = DimVec::from_slice(sizes);
    if dim.is_empty() {
        kept.fill(1);
    }
    for d in dim {
        kept[shape::wrap_dim(*d, sizes.len())?] = 1;
    }
    ops::reshape(tensor, &kept)
}

/// The gradient of `permute`: the dimensions back in their places.
pub fn permute_backward(grad: &Tensor, dims: &[i64]) -> Result<Tensor> {
    let mut back = DimVec::from_elem(0, dims.len());
    for (place, dim) in dims.iter().enumerate() {
        back[shape::wrap_dim(*dim, dims.len())?] = place as i64;
    }
    ops::permute(grad, &back)
}

/// The gradient of one index of a tensor of `sizes`: zeros elsewhere.
pub fn select_backward(grad: &Tensor, sizes: &[i64], dim: i64, index: i64) -> Result<Tensor> {
    let made = zeros(sizes, grad)?;
    ops::copy_(&ops::select_int(&made, dim, index)?, grad, false)?;
    Ok(made)
}

/// The gradient of `slice`: zeros between the elements that were taken.
pub fn slice_backward(
    grad: &Tensor,
    sizes: &[i64],
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Tensor> {
    let made = zeros(sizes, grad)?;
    ops::copy_(&ops::slice_tensor(&made, dim, start, end, step)?, grad, false)?;
    Ok(made)
}

/// The gradient of `as_strided`, from the geometries of the tensor it looked at and of what it saw.
pub fn as_strided_backward(
    grad: &Tensor,
    base_sizes: &[i64],
    base_strides: &[i64],
    base_offset: i64,
    sizes: &[i64],
    strides: &[i64],
    offset: i64,
) -> Result<Tensor> {
    let base = Geometry::strided(base_sizes, base_strides, base_offset)?;
    scatter_strided(grad, &base, &Geometry::strided(sizes, strides, offset)?)
}

/// The sizes of each tensor.
pub fn sizes_of(tensors: &[Tensor]) -> Vec<DimVec> {
    tensors.iter().map(|tensor| DimVec::from_slice(tensor.sizes())).collect()
}

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
fn scatter_strided(grad: &Tensor, base: &Geometry, view: &Geometry) -> Result<Tensor> {
    let (grad, view) = sum_repeated(grad, view)?;
    let start = base.storage_offset().min(view.storage_offset());
    let end = |g: &Geometry| -> Result<i64> {
        let extent = shape::extent(g.sizes(), g.strides())?;
        Ok(g.storage_offset() - start + extent.map_or(0, |last| last + 1))
    };
    let memory = zeros(&[end(base)?.max(end(&view)?)], &grad)?;
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
