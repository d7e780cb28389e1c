//! Batched tensors: a tensor with the dispatch key `Batched`, which reports the sizes of one example and holds the tensor of all.

use super::level::{Level, open_level};
use crate::Tensor;
use flambeau_core::tensor_impl::Parts;
use flambeau_core::{DimVec, DispatchKey, Result, Storage, TensorImpl, ensure, shape};
use std::sync::OnceLock;

/// What a batched tensor holds as the extension of its `TensorImpl`.
struct Elements {
    value: Tensor,
    dim: usize,
    level: u64,
    /// A second owner of the storage of the batched tensor, so that nobody takes it for its sole owner and writes to it without a call.
    _storage: OnceLock<Storage>,
}

/// What is inside the outermost wrapper of a batched tensor.
#[derive(Clone, Copy)]
pub struct Inside<'t> {
    /// The tensor of all examples; it may be batched at outer levels.
    pub value: &'t Tensor,
    /// The dimension of `value` along which the examples are.
    pub dim: usize,
    /// The number of the level.
    pub level: u64,
}

/// The parts of the outermost wrapper, which has the highest level of all that the tensor is batched at.
pub fn parts(tensor: &Tensor) -> Option<Inside<'_>> {
    if !tensor.key_set().has(DispatchKey::Batched) {
        return None;
    }
    let elements = tensor.impl_().extension()?.downcast_ref::<Elements>()?;
    Some(Inside { value: &elements.value, dim: elements.dim, level: elements.level })
}

/// Whether it is a batched tensor, of any level.
pub fn is_batched(tensor: &Tensor) -> bool {
    tensor.key_set().has(DispatchKey::Batched)
}

/// The tensor of all examples and the dimension of the batch, if `tensor` is batched at the level `id`, and at no level above it.
pub fn unwrap(tensor: &Tensor, id: u64) -> Option<(Tensor, i64)> {
    let found = parts(tensor).filter(|found| found.level == id)?;
    Some((found.value.clone(), found.dim as i64))
}

/// A tensor that hides dimension `dim` of `value`, whose indices are the examples of `level`.
///
/// # Errors
/// `Index` where there is no such dimension, `InvalidArgument` where the level is not open on this thread or has another batch size.
pub fn wrap(value: &Tensor, dim: i64, level: Level) -> Result<Tensor> {
    let dim = shape::wrap_dim(dim, value.dim())?;
    ensure!(value.dim() > 0, Index("vmap"), "expected a tensor with a batch dimension but it has none");
    let (open, size) = (open_level(level.id)?, value.sizes()[dim]);
    ensure!(
        open.size == size,
        InvalidArgument("vmap"),
        "expected a batch of {} examples but dimension {dim} has {size}",
        open.size
    );
    wrap_ordered(value, dim, level.id)
}

/// Wraps so that the wrapper of the highest level is outermost.
pub fn wrap_ordered(value: &Tensor, dim: usize, level: u64) -> Result<Tensor> {
    let Some(outer) = parts(value).filter(|outer| outer.level > level) else {
        return wrapper(value, dim, level);
    };
    let inner_dim = dim + usize::from(dim >= outer.dim);
    let inner = wrap_ordered(outer.value, inner_dim, level)?;
    wrapper(&inner, outer.dim - usize::from(inner_dim < outer.dim), outer.level)
}

fn wrapper(value: &Tensor, dim: usize, level: u64) -> Result<Tensor> {
    let geometry = value.geometry();
    let (mut sizes, mut strides) = (DimVec::from(geometry.sizes()), DimVec::from(geometry.strides()));
    sizes.remove(dim);
    strides.remove(dim);
    let elements = Elements { value: value.clone(), dim, level, _storage: OnceLock::new() };
    let made = TensorImpl::from_strided_parts(
        Parts {
            layout: value.layout(),
            device: value.device(),
            dtype: value.dtype(),
            sizes,
            keys: DispatchKey::Batched.into(),
            elements: Box::new(elements),
        },
        &strides,
    )?;
    if let Some(elements) = made.extension().and_then(|extension| extension.downcast_ref::<Elements>()) {
        elements._storage.get_or_init(|| made.storage().clone());
    }
    Ok(Tensor::from_impl(made))
}
